/*
 * Which range starts next and where, and what becomes of it; see fetch_priv.h. All under the fetch lock.
 *
 * The more urgent call comes first. Calls of one priority take turns: each time one has started a range it
 * goes behind the others, so that a small call is not kept waiting by a large one.
 */
#include <stdlib.h>
#include <string.h>

#include "client/fetch_priv.h"
#include "packs/layout.h"

/* Streams that no prefetch takes, where there are more. */
#define STREAMS_KEPT 2u

/* ---- the queue ---- */

void ldr_call_queue(struct ldr_fetch *fetch, struct call *call)
{
	struct call *before = fetch->last_call;

	while (before && before->priority > call->priority)
		before = before->previous;
	call->previous = before;
	call->next = before ? before->next : fetch->first_call;
	if (before)
		before->next = call;
	else
		fetch->first_call = call;
	if (call->next)
		call->next->previous = call;
	else
		fetch->last_call = call;
}

void ldr_call_unqueue(struct ldr_fetch *fetch, struct call *call)
{
	if (call->previous)
		call->previous->next = call->next;
	else
		fetch->first_call = call->next;
	if (call->next)
		call->next->previous = call->previous;
	else
		fetch->last_call = call->previous;
}

/* ---- ends ---- */

bool ldr_call_is_over(const struct call *call)
{
	return !call->streams && call->ranges_on_way == 0 &&
	       (call->status || call->ranges_left == 0);
}

void ldr_call_end_if_over(struct ldr_fetch *fetch, struct call *call)
{
	if (call->ended || !ldr_call_is_over(call))
		return;
	call->ended = true;
	ldr_call_unqueue(fetch, call);
	call->next = fetch->ended;
	fetch->ended = call;
	if (fetch->idle_workers)
		ldr_condition_signal(&fetch->work);
}

void ldr_fetch_fail(struct ldr_fetch *fetch, struct call *call, const struct ldr_error *error)
{
	if (call->status)
		return;
	call->status = error->status;
	call->error = *error;
	atomic_store(&call->failed, true);
	for (struct stream *stream = call->streams; stream; stream = stream->next)
		ldr_transport_cancel(fetch->options.transport, stream->id);
	ldr_call_end_if_over(fetch, call);
}

void ldr_range_blame(struct range *range, const struct ldr_error *error)
{
	bool other_kind = range->error.status && range->error.status != LDR_ECORRUPT;

	range->attempt_failed = true;
	if (!other_kind || error->status != LDR_ECORRUPT)
		range->error = *error;
}

/* Moves the wants that have not arrived to the front of the range's run and forgets the others. */
static void keep_missing(struct range *range)
{
	struct call *call = range->call;
	uint32_t *order = call->plan.order + range->plan.want_first;
	uint32_t missing = 0;

	for (uint32_t i = 0; i < range->plan.want_count; i++) {
		uint32_t want = order[i];

		if (!call->held[want])
			order[missing++] = want;
	}
	range->plan.want_count = missing;
	if (missing)
		ldr_range_extent(call->wants, order, missing, &range->plan.first,
				 &range->plan.last);
}

static void prepare_again(struct range *range)
{
	range->filled = 0;
	range->complete = range->offered = range->taken = 0;
	range->received = false;
	range->attempt_failed = false;
}

static void fail_by_range(struct ldr_fetch *fetch, struct range *range, const char *why)
{
	struct ldr_error error = range->error;

	if (!error.status)
		ldr_fail(&error, LDR_ENET, "pack number %u: blocks did not arrive",
			 range->plan.pack);
	if (range->attempts > 1)
		ldr_error_prefix(&error, error.status, "%s after %u attempts", why,
				 range->attempts);
	ldr_fetch_fail(fetch, range->call, &error);
}

/* The attempt is over and wants are missing. True: the range waits for another attempt. */
static bool try_again(struct ldr_fetch *fetch, struct range *range)
{
	struct call *call = range->call;

	range->attempts++;
	if (range->attempts >= fetch->options.attempts) {
		fail_by_range(fetch, range, "given up");
		return false;
	}
	if (ldr_hosts_choose(&fetch->hosts, range->refused).index < 0) {
		fail_by_range(fetch, range, "no host left");
		return false;
	}
	ldr_fetch_count(&fetch->retries, 1);
	prepare_again(range);
	range->next = call->again;
	call->again = range;
	return true;
}

void ldr_range_settle(struct ldr_fetch *fetch, struct range *range)
{
	struct call *call = range->call;
	bool kept = false;

	if (!range->received || range->busy || range->taken != range->offered)
		return;
	if (range->buffer)
		ldr_buffer_pool_give(&fetch->pool, range->buffer);
	range->buffer = NULL;
	call->ranges_on_way--;
	if (!call->status) {
		keep_missing(range);
		if (range->plan.want_count == 0)
			call->ranges_left--;
		else
			kept = try_again(fetch, range);
	}
	if (!kept)
		free(range);
	ldr_call_end_if_over(fetch, call);
}

/* ---- starts ---- */

void ldr_stream_insert(struct stream *stream, struct range *range)
{
	struct range **link = &stream->ranges;

	while (*link && (*link)->plan.first < range->plan.first)
		link = &(*link)->next;
	range->next = *link;
	*link = range;
	range->host = stream->host;
	range->began_ns = stream->began_ns;
}

static struct range *next_planned(struct call *call, struct ldr_error *err)
{
	struct range *range = calloc(1, sizeof(*range));

	if (!range) {
		ldr_fail(err, LDR_ENOMEM, "fetch: out of memory");
		return NULL;
	}
	range->call = call;
	range->plan = call->plan.ranges[call->planned_next++];
	return range;
}

/* The plan is sorted by pack, so those of this pack are a run; `again` is short. */
void ldr_stream_adopt(struct stream *stream)
{
	struct call *call = stream->call;
	struct range **link = &call->again;

	while (*link) {
		struct range *range = *link;

		if (range->plan.pack != stream->pack ||
		    (range->refused & (UINT32_C(1) << stream->host))) {
			link = &range->next;
			continue;
		}
		*link = range->next;
		call->ranges_on_way++;
		ldr_stream_insert(stream, range);
	}
	while (call->planned_next < call->plan.range_count &&
	       call->plan.ranges[call->planned_next].pack == stream->pack) {
		struct range *range = next_planned(call, NULL);

		/* Out of memory: it stays planned and is read by a later stream. */
		if (!range)
			return;
		call->ranges_on_way++;
		ldr_stream_insert(stream, range);
	}
}

static enum ldr_status name_pack(struct ldr_fetch *fetch, struct stream *stream,
				 const struct ldr_planned_range *plan, struct ldr_error *err)
{
	const struct ldr_release_pack *pack = ldr_release_pack(fetch->release, plan->pack);
	char path[LDR_STORE_PATH_BYTES];

	if (!pack)
		return ldr_fail(err, LDR_ECORRUPT, "pack number %u is not in the release",
				plan->pack);
	ldr_store_pack_path(&pack->id, path);
	if (plan->last >= pack->size_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "%s: block ends at %llu, pack has %llu bytes",
				path, (unsigned long long)plan->last + 1,
				(unsigned long long)pack->size_bytes);
	stream->pack = plan->pack;
	stream->pack_bytes = pack->size_bytes;
	stream->asked_first = plan->first;
	stream->asked_last = plan->last;
	stream->url = ldr_url_join(fetch->hosts.items[stream->host].base, path);
	if (!stream->url)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	return LDR_OK;
}

static enum ldr_status submit(struct ldr_fetch *fetch, struct stream *stream, struct ldr_error *err)
{
	struct ldr_request request = {.method = LDR_GET,
				      .url = stream->url,
				      .has_range = !stream->asked_whole,
				      .range_first = stream->asked_first,
				      .range_last = stream->asked_last,
				      .body_fd = -1,
				      .context = stream,
				      .head = ldr_stream_head,
				      .body_part = ldr_stream_body,
				      .done = ldr_stream_done};

	return ldr_transport_submit(fetch->options.transport, &request, &stream->id, err);
}

/* Makes the stream for one range. It takes the buffer over; if the pack is read whole, the first of the
 * pack's ranges gets it. On failure the range is not in a stream. */
static enum ldr_status start(struct ldr_fetch *fetch, struct range *range, unsigned host,
			     uint8_t *buffer, struct ldr_error *err)
{
	struct call *call = range->call;
	struct stream *stream = calloc(1, sizeof(*stream));
	enum ldr_status status;

	if (!stream)
		return ldr_fail(err, LDR_ENOMEM, "fetch: out of memory");
	stream->fetch = fetch;
	stream->call = call;
	stream->host = host;
	stream->asked_whole = fetch->hosts.items[host].ignores_ranges;
	status = name_pack(fetch, stream, &range->plan, err);
	if (status) {
		free(stream);
		return status;
	}
	stream->began_ns = ldr_hosts_begin(&fetch->hosts, (int)host);
	call->ranges_on_way++;
	ldr_stream_insert(stream, range);
	if (stream->asked_whole)
		ldr_stream_adopt(stream);
	stream->ranges->buffer = buffer;
	stream->next = call->streams;
	call->streams = stream;
	fetch->streams++;
	ldr_fetch_count(&fetch->requests, 1);
	status = submit(fetch, stream, err);
	if (status) {
		ldr_fetch_fail(fetch, call, err);
		ldr_stream_end(stream, status, err);
	}
	return LDR_OK;
}

/* The range that this call may start now, taken off its list, and its host; NULL: none, and wake_ns says
 * when one that waits for its host may. */
static struct range *next_startable(struct ldr_fetch *fetch, struct call *call, unsigned *out_host,
				    struct ldr_error *err)
{
	const struct ldr_clock *clock = fetch->hosts.clock;
	uint64_t wait_ns = UINT64_MAX;
	struct ldr_host_choice choice;

	for (struct range **link = &call->again; *link; link = &(*link)->next) {
		struct range *range = *link;

		choice = ldr_hosts_choose(&fetch->hosts, range->refused);
		if (choice.wait_ns == 0) {
			*link = range->next;
			*out_host = (unsigned)choice.index;
			return range;
		}
		if (choice.wait_ns < wait_ns)
			wait_ns = choice.wait_ns;
	}
	if (call->planned_next < call->plan.range_count) {
		choice = ldr_hosts_choose(&fetch->hosts, 0);
		*out_host = (unsigned)choice.index;
		if (choice.wait_ns == 0)
			return next_planned(call, err);
		if (choice.wait_ns < wait_ns)
			wait_ns = choice.wait_ns;
	}
	if (wait_ns != UINT64_MAX) {
		call->wake_ns = clock->now_ns(clock) + wait_ns;
		if (fetch->idle_workers)
			ldr_condition_signal(&fetch->work);
	}
	return NULL;
}

/* True when the call has started a range (or failed at it). */
static bool start_one(struct ldr_fetch *fetch, struct call *call)
{
	struct ldr_error error = {0};
	enum ldr_status status = LDR_OK;
	struct range *range;
	uint8_t *buffer;
	unsigned host = 0;

	if (call->status)
		return false;
	buffer = ldr_buffer_pool_take(&fetch->pool);
	if (!buffer && fetch->pool.made_count == 0) {
		/* None is out that could come back: waiting would be for ever. */
		ldr_fail(&error, LDR_ENOMEM, "fetch: no memory for a buffer of %u bytes",
			 fetch->options.range_bytes);
		ldr_fetch_fail(fetch, call, &error);
	}
	if (!buffer)
		return false;
	range = next_startable(fetch, call, &host, &error);
	if (range)
		status = start(fetch, range, host, buffer, &error);
	if (!range || status)
		ldr_buffer_pool_give(&fetch->pool, buffer);
	if (status)
		free(range);
	if (error.status)
		ldr_fetch_fail(fetch, call, &error);
	return range != NULL;
}

/* Whether prefetches have all the streams that they may: some are kept for what somebody waits for. */
static bool is_crowded(const struct ldr_fetch *fetch)
{
	unsigned allowed = fetch->options.ranges_at_once, used = 0;

	allowed = allowed > STREAMS_KEPT ? allowed - STREAMS_KEPT : 1;
	for (const struct call *call = fetch->last_call;
	     call && call->priority >= LDR_PRIORITY_BACKGROUND; call = call->previous) {
		for (const struct stream *stream = call->streams; stream; stream = stream->next)
			used++;
	}
	return used >= allowed;
}

static bool start_any(struct ldr_fetch *fetch)
{
	struct call *next;

	/* A call that fails at its start may end, and is in another list then. */
	for (struct call *call = fetch->first_call; call; call = next) {
		next = call->next;
		if (call->priority >= LDR_PRIORITY_BACKGROUND && is_crowded(fetch))
			return false;
		if (start_one(fetch, call)) {
			if (!call->ended) {
				ldr_call_unqueue(fetch, call);
				ldr_call_queue(fetch, call);
			}
			return true;
		}
	}
	return false;
}

/* Streams that wait for a buffer come before new ones: their connections are open and idle. */
static void resume_holding(struct ldr_fetch *fetch)
{
	size_t room = ldr_buffer_pool_room(&fetch->pool);

	while (fetch->holding && room) {
		struct stream *stream = fetch->holding;

		fetch->holding = stream->hold_next;
		stream->holds = false;
		ldr_transport_resume(fetch->options.transport, stream->id);
		room--;
	}
}

void ldr_fetch_schedule(struct ldr_fetch *fetch)
{
	resume_holding(fetch);
	while (fetch->streams < fetch->options.ranges_at_once && start_any(fetch))
		;
}
