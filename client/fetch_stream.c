/*
 * One request of fetch: what its answer is worth, and its body's way into the buffers; see fetch_priv.h.
 *
 * A server that answers 200 to a range sends the whole pack from its beginning: the first stream that
 * sees this takes over all other ranges of the pack that its call has not yet got an answer for, and cuts
 * them out of the body as it passes. When no buffer is free meanwhile, the stream is held.
 *
 * Threads: the callbacks run on the transport's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fetch_priv.h"

/* Blocks are handed to the workers when so much is complete, or when the socket has run dry (libcurl then
 * gives a piece under its usual 16 KiB): one wake-up for many blocks on a fast line, no delay on a slow
 * one. */
#define OFFER_BYTES (128u * 1024)
#define PIECE_BYTES (16u * 1024)
/* Of an answer that says no, so much is read to keep the connection. */
#define REFUSED_MAX_BYTES (64u * 1024)

/* ---- the header ---- */

static bool faulty(struct stream *stream, enum ldr_status status, enum ldr_host_outcome outcome,
		   const char *text)
{
	char asked[64] = "the whole pack";

	if (!stream->asked_whole)
		snprintf(asked, sizeof(asked), "bytes %" PRIu64 "-%" PRIu64, stream->asked_first,
			 stream->asked_last);
	ldr_fail(&stream->error, status, "%s: asked for %s, got %s", stream->url, asked, text);
	stream->outcome = outcome;
	return true;
}

static bool judge_partial(struct stream *stream, const struct ldr_response *response)
{
	uint64_t length = stream->asked_last - stream->asked_first + 1;
	char text[160];

	if (stream->asked_whole)
		return faulty(stream, LDR_ENET, LDR_HOST_FAILED, "status 206");
	if (!response->has_range)
		return faulty(stream, LDR_ENET, LDR_HOST_FAILED,
			      "status 206 without a valid Content-Range");
	if (response->range_first != stream->asked_first ||
	    response->range_last != stream->asked_last) {
		snprintf(text, sizeof(text), "status 206 with bytes %" PRIu64 "-%" PRIu64,
			 response->range_first, response->range_last);
		return faulty(stream, LDR_ENET, LDR_HOST_FAILED, text);
	}
	if (response->content_length != UINT64_MAX && response->content_length != length) {
		snprintf(text, sizeof(text), "Content-Length %" PRIu64 " for %" PRIu64 " bytes",
			 response->content_length, length);
		return faulty(stream, LDR_ENET, LDR_HOST_FAILED, text);
	}
	stream->position = stream->delivered = stream->asked_first;
	return true;
}

/* Streams of the same call that wait for the same pack from the same host would only get it whole, too. */
static void take_over(struct stream *stream)
{
	struct ldr_transport *transport = stream->fetch->options.transport;

	for (struct stream *other = stream->call->streams; other; other = other->next) {
		if (other == stream || other->pack != stream->pack || other->host != stream->host ||
		    other->head_seen)
			continue;
		while (other->ranges) {
			struct range *range = other->ranges;

			other->ranges = range->next;
			if (range->buffer)
				ldr_buffer_pool_give(&stream->fetch->pool, range->buffer);
			range->buffer = NULL;
			ldr_stream_insert(stream, range);
		}
		other->called_off = true;
		ldr_transport_cancel(transport, other->id);
	}
}

static void become_whole(struct stream *stream)
{
	struct ldr_fetch *fetch = stream->fetch;
	uint8_t *buffer;

	ldr_mutex_lock(&fetch->lock);
	fetch->hosts.items[stream->host].ignores_ranges = true;
	buffer = stream->ranges->buffer;
	stream->ranges->buffer = NULL;
	take_over(stream);
	if (!stream->call->status)
		ldr_stream_adopt(stream);
	/* The first to be filled has the buffer, so that none lies reserved for later. */
	stream->ranges->buffer = buffer;
	ldr_mutex_unlock(&fetch->lock);
}

static bool judge_whole(struct stream *stream, const struct ldr_response *response)
{
	char text[160];

	if (response->content_length != UINT64_MAX &&
	    response->content_length != stream->pack_bytes) {
		snprintf(text, sizeof(text),
			 "status 200 with %" PRIu64 " bytes, the pack has %" PRIu64,
			 response->content_length, stream->pack_bytes);
		return faulty(stream, LDR_ENET, LDR_HOST_FAILED, text);
	}
	if (!stream->asked_whole)
		become_whole(stream);
	ldr_fetch_count(&stream->fetch->whole_packs, 1);
	stream->position = stream->delivered = 0;
	return true;
}

static bool judge_refusal(struct stream *stream, const struct ldr_response *response)
{
	enum ldr_host_outcome outcome = LDR_HOST_FAILED;
	enum ldr_status status = ldr_response_status(response, NULL, 0, NULL);
	char text[160];
	size_t used;

	used = (size_t)snprintf(text, sizeof(text), "status %d", response->status);
	if (response->status == 416)
		snprintf(text + used, sizeof(text) - used,
			 " (the pack should have %" PRIu64 " bytes)", stream->pack_bytes);
	if (response->retry_after_ms)
		snprintf(text + used, sizeof(text) - used, " (retry after %" PRIu64 " s)",
			 response->retry_after_ms / 1000);
	if (status == LDR_EDENIED || status == LDR_ENOTFOUND || response->status == 416)
		outcome = LDR_HOST_REFUSED;
	else if (response->retry_after_ms)
		outcome = LDR_HOST_BUSY;
	/* Only these say something about the pack; all others are a server in trouble. */
	if (status != LDR_EDENIED && status != LDR_ENOTFOUND)
		status = LDR_ENET;
	stream->retry_after_ms = response->retry_after_ms;
	return faulty(stream, status, outcome, text);
}

bool ldr_stream_head(void *context, const struct ldr_response *response)
{
	struct stream *stream = context;

	/* Called off by another stream's header just now. */
	if (!stream->ranges)
		return false;
	stream->head_seen = true;
	if (response->status == 206)
		return judge_partial(stream, response);
	if (response->status == 200)
		return judge_whole(stream, response);
	return judge_refusal(stream, response);
}

/* ---- the body ---- */

static uint64_t length_of(const struct range *range)
{
	return range->plan.last - range->plan.first + 1;
}

/* Counts the wants that are whole by now; gives the bytes that no worker knows of yet. */
static uint64_t count_complete(struct range *range)
{
	const struct call *call = range->call;
	const uint32_t *order = call->plan.order + range->plan.want_first;
	uint64_t end = range->plan.first + range->filled;

	while (range->complete < range->plan.want_count) {
		const struct ldr_place *place = &call->wants[order[range->complete]].place;

		if (place->offset + place->stored_bytes > end)
			break;
		range->complete++;
	}
	/* offered is written by this thread only, so it may read it without the lock. */
	if (range->complete == range->offered)
		return 0;
	return end - call->wants[order[range->offered]].place.offset;
}

static void offer(struct stream *stream, struct range *range, bool is_full)
{
	struct ldr_fetch *fetch = stream->fetch;

	ldr_mutex_lock(&fetch->lock);
	range->offered = range->complete;
	range->received = is_full;
	if (range->taken != range->offered)
		ldr_fetch_offer(fetch, range);
	else
		ldr_range_settle(fetch, range);
	ldr_mutex_unlock(&fetch->lock);
}

/* The range's buffer, or NULL: the stream is now among those that wait for one. */
static bool have_buffer(struct stream *stream, struct range *range)
{
	struct ldr_fetch *fetch = stream->fetch;

	if (range->buffer)
		return true;
	ldr_mutex_lock(&fetch->lock);
	range->buffer = ldr_buffer_pool_take(&fetch->pool);
	if (!range->buffer && !stream->holds) {
		stream->holds = true;
		stream->hold_next = fetch->holding;
		fetch->holding = stream;
	}
	ldr_mutex_unlock(&fetch->lock);
	return range->buffer != NULL;
}

/* Uses the first bytes of the piece for the stream's first range; gives how many. */
static size_t use(struct stream *stream, const uint8_t *bytes, size_t length)
{
	struct range *range = stream->ranges;
	uint64_t room = length_of(range) - range->filled;
	size_t used = length < room ? length : (size_t)room;
	uint64_t unknown;

	memcpy(range->buffer + range->filled, bytes, used);
	range->filled += used;
	unknown = count_complete(range);
	if (used == room) {
		stream->ranges = range->next;
		offer(stream, range, true);
	} else if (unknown >= OFFER_BYTES || (unknown && length < PIECE_BYTES)) {
		offer(stream, range, false);
	}
	return used;
}

/* Gives false when it stopped for want of a buffer. */
static bool use_piece(struct stream *stream, const uint8_t *bytes, size_t length)
{
	while (length && stream->ranges) {
		struct range *range = stream->ranges;
		size_t used;

		if (stream->position < range->plan.first) {
			uint64_t gap = range->plan.first - stream->position;

			used = length < gap ? length : (size_t)gap;
		} else if (have_buffer(stream, range)) {
			used = use(stream, bytes, length);
		} else {
			return false;
		}
		stream->position += used;
		bytes += used;
		length -= used;
	}
	stream->position += length;
	return true;
}

enum ldr_flow ldr_stream_body(void *context, const void *bytes, size_t length)
{
	struct stream *stream = context;
	size_t known = (size_t)(stream->position - stream->delivered);

	if (stream->error.status) {
		stream->refused_bytes += length;
		return stream->refused_bytes > REFUSED_MAX_BYTES ? LDR_FLOW_STOP : LDR_FLOW_GO;
	}
	/* After a hold the same bytes come again, and some of them may have been used. */
	if (!use_piece(stream, (const uint8_t *)bytes + known, length - known))
		return LDR_FLOW_HOLD;
	stream->delivered += length;
	ldr_fetch_count(&stream->fetch->body_bytes, length);
	if (stream->ranges)
		return LDR_FLOW_GO;
	stream->satisfied = true;
	/* What a range asked for ends here anyway; of a whole pack the rest is not wanted. */
	return stream->delivered == stream->asked_last + 1 && !stream->asked_whole ? LDR_FLOW_GO
										   : LDR_FLOW_STOP;
}

/* ---- the end ---- */

/* What the end means where ranges are missing. */
static void explain(struct stream *stream, enum ldr_status status, const struct ldr_error *error)
{
	if (stream->error.status)
		return;
	stream->outcome = LDR_HOST_FAILED;
	/* A file or certificate that is refused will be refused again. */
	if (status == LDR_EDENIED || status == LDR_ENOTREG || status == LDR_EINVAL)
		stream->outcome = LDR_HOST_REFUSED;
	if (status == LDR_OK)
		ldr_fail(&stream->error, LDR_ENET,
			 "%s: asked for bytes %" PRIu64 "-%" PRIu64
			 ", the answer ended at %" PRIu64,
			 stream->url, stream->asked_first, stream->asked_last, stream->position);
	else
		stream->error = *error;
}

/* Nothing more comes for this range in this attempt. */
static void give_up(struct stream *stream, struct range *range)
{
	ldr_range_blame(range, &stream->error);
	if (stream->outcome == LDR_HOST_REFUSED)
		range->refused |= UINT32_C(1) << stream->host;
	range->offered = range->complete;
	range->received = true;
	if (range->taken != range->offered)
		ldr_fetch_offer(stream->fetch, range);
	else
		ldr_range_settle(stream->fetch, range);
}

static void unlink_stream(struct stream *stream)
{
	struct ldr_fetch *fetch = stream->fetch;
	struct stream **link = &stream->call->streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	fetch->streams--;
	if (!stream->holds)
		return;
	for (link = &fetch->holding; *link != stream;)
		link = &(*link)->hold_next;
	*link = stream->hold_next;
}

void ldr_stream_end(struct stream *stream, enum ldr_status status, const struct ldr_error *error)
{
	struct ldr_fetch *fetch = stream->fetch;
	struct call *call = stream->call;
	enum ldr_host_outcome outcome = LDR_HOST_UNDECIDED;

	unlink_stream(stream);
	if (stream->ranges) {
		explain(stream, status, error);
		outcome = call->status ? LDR_HOST_UNDECIDED : stream->outcome;
	} else if (!stream->called_off) {
		outcome = LDR_HOST_GOOD;
	}
	ldr_hosts_report(&fetch->hosts, (int)stream->host, outcome, stream->began_ns,
			 stream->retry_after_ms);
	while (stream->ranges) {
		struct range *range = stream->ranges;

		stream->ranges = range->next;
		give_up(stream, range);
	}
	free(stream->url);
	free(stream);
	ldr_call_end_if_over(fetch, call);
}

void ldr_stream_done(void *context, enum ldr_status status, const struct ldr_response *response,
		     const struct ldr_error *error)
{
	struct stream *stream = context;
	struct ldr_fetch *fetch = stream->fetch;

	(void)response;
	ldr_mutex_lock(&fetch->lock);
	ldr_stream_end(stream, status, error);
	ldr_fetch_schedule(fetch);
	ldr_mutex_unlock(&fetch->lock);
}
