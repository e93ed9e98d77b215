/*
 * The transport's thread and the life of its requests; see transport.h and transport_priv.h.
 *
 * One turn of the I/O thread: take what came in, start what its lane admits, act on cancels and resumes,
 * read a step of each file, let libcurl work, refill the bucket, end what stalls, finish what has ended,
 * and sleep until the next byte, deadline or wake-up.
 */
#include "client/transport_priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"

#define CONNECTIONS_DEFAULT 8
#define CONNECT_TIMEOUT_DEFAULT_MS 10000
#define STALL_TIMEOUT_DEFAULT_MS 20000
#define SLEEP_MAX_MS 1000
#define IDLE_EASY_MAX 32
#define RATE_MAX_BYTES (UINT64_C(1) << 50)

static void global_init(void)
{
	/* A failure shows when the first handle is made. */
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void init_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, global_init);
}

uint64_t ldr_transport_now_ns(void)
{
	const struct ldr_clock *clock = ldr_clock_system();

	return clock->now_ns(clock);
}

void ldr_transfer_end(struct transfer *transfer, enum ldr_status status)
{
	if (transfer->finished)
		return;
	transfer->finished = true;
	transfer->end_status = status;
}

/* ---- lanes: who may start ---- */

static struct lane *lane_of(struct ldr_transport *transport, const char *origin)
{
	struct lane *lane;

	for (lane = transport->lanes; lane; lane = lane->next)
		if (strcmp(lane->origin, origin) == 0)
			return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	snprintf(lane->origin, sizeof(lane->origin), "%s", origin);
	lane->next = transport->lanes;
	transport->lanes = lane;
	return lane;
}

static void lane_append(struct lane *lane, struct transfer *transfer)
{
	transfer->next = NULL;
	if (lane->waiting_last)
		lane->waiting_last->next = transfer;
	else
		lane->waiting_first = transfer;
	lane->waiting_last = transfer;
}

static struct transfer *lane_shift(struct lane *lane)
{
	struct transfer *transfer = lane->waiting_first;

	lane->waiting_first = transfer->next;
	if (!lane->waiting_first)
		lane->waiting_last = NULL;
	return transfer;
}

/* From now on the transfer is active, even if it only lives to report that it could not start. */
static void activate(struct ldr_transport *transport, struct transfer *transfer)
{
	enum ldr_status status;

	transfer->next = transport->active;
	transport->active = transfer;
	if (transfer->finished)
		return;
	atomic_fetch_add_explicit(&transport->requests, 1, memory_order_relaxed);
	status = transfer->is_file ? ldr_file_start(transfer) : ldr_http_start(transfer);
	if (status)
		ldr_transfer_end(transfer, status);
}

static void take_incoming(struct ldr_transport *transport)
{
	struct transfer *next, *transfer;

	ldr_mutex_lock(&transport->lock);
	transfer = transport->incoming_first;
	transport->incoming_first = transport->incoming_last = NULL;
	ldr_mutex_unlock(&transport->lock);
	for (; transfer; transfer = next) {
		next = transfer->next;
		transfer->lane = lane_of(transport, transfer->origin);
		if (transfer->lane) {
			lane_append(transfer->lane, transfer);
			continue;
		}
		ldr_transfer_end(transfer, ldr_fail(&transfer->error, LDR_ENOMEM,
						    "%s: out of memory", transfer->request.url));
		activate(transport, transfer);
	}
}

static void start_admitted(struct ldr_transport *transport)
{
	for (struct lane *lane = transport->lanes; lane; lane = lane->next) {
		while (lane->waiting_first &&
		       lane->active < transport->options.connections_per_host) {
			lane->active++;
			activate(transport, lane_shift(lane));
		}
	}
}

/* ---- cancels and ends ---- */

static void end_cancelled(struct transfer *transfer)
{
	if (transfer->finished)
		return;
	ldr_transfer_end(transfer, ldr_fail(&transfer->error, LDR_ECANCELLED, "%s: cancelled",
					    transfer->request.url));
}

static bool must_end(const struct transfer *transfer, bool stopping)
{
	return stopping || atomic_load_explicit(&transfer->cancelled, memory_order_relaxed);
}

/* Those that wait in a lane are ended without having been started. */
static void cancel_waiting(struct ldr_transport *transport, struct lane *lane, bool stopping)
{
	struct transfer *transfer = lane->waiting_first;
	struct transfer *next;

	lane->waiting_first = lane->waiting_last = NULL;
	for (; transfer; transfer = next) {
		next = transfer->next;
		if (!must_end(transfer, stopping)) {
			lane_append(lane, transfer);
			continue;
		}
		end_cancelled(transfer);
		lane->active++;
		activate(transport, transfer);
	}
}

static void apply_flags(struct ldr_transport *transport, bool stopping)
{
	for (struct lane *lane = transport->lanes; lane; lane = lane->next)
		cancel_waiting(transport, lane, stopping);
	for (struct transfer *t = transport->active; t; t = t->next) {
		if (must_end(t, stopping)) {
			end_cancelled(t);
		} else if (t->held && atomic_exchange(&t->resumed, false)) {
			t->held = false;
			if (!t->is_file && !t->finished)
				ldr_http_continue(t);
		}
	}
}

static void forget(struct ldr_transport *transport, struct transfer *transfer)
{
	ldr_mutex_lock(&transport->lock);
	if (transfer->live_previous)
		transfer->live_previous->live_next = transfer->live_next;
	else
		transport->live = transfer->live_next;
	if (transfer->live_next)
		transfer->live_next->live_previous = transfer->live_previous;
	ldr_mutex_unlock(&transport->lock);
}

static void finish(struct ldr_transport *transport, struct transfer *transfer)
{
	ldr_http_release(transfer);
	ldr_file_release(transfer);
	if (transfer->lane)
		transfer->lane->active--;
	forget(transport, transfer);
	if (transfer->end_status == LDR_OK)
		transfer->error = (struct ldr_error){0};
	transfer->request.done(transfer->request.context, transfer->end_status, &transfer->response,
			       &transfer->error);
	free(transfer);
}

static void finish_ended(struct ldr_transport *transport)
{
	struct transfer **link = &transport->active;

	while (*link) {
		struct transfer *transfer = *link;

		if (!transfer->finished) {
			link = &transfer->next;
			continue;
		}
		*link = transfer->next;
		finish(transport, transfer);
	}
}

/* ---- the turn ---- */

static bool step_files(struct ldr_transport *transport)
{
	bool more = false;

	for (struct transfer *t = transport->active; t; t = t->next) {
		if (!t->is_file || t->finished || t->held)
			continue;
		ldr_file_step(t);
		more = true;
	}
	return more;
}

static void unthrottle(struct ldr_transport *transport, uint64_t now_ns)
{
	if (!transport->bucket.rate)
		return;
	ldr_bucket_fill(&transport->bucket, now_ns);
	for (struct transfer *t = transport->active; t; t = t->next) {
		if (ldr_bucket_wait_ns(&transport->bucket))
			return;
		if (!t->throttled || t->finished)
			continue;
		t->throttled = false;
		ldr_http_continue(t);
	}
}

static bool work_waits(struct ldr_transport *transport)
{
	bool waits;

	ldr_mutex_lock(&transport->lock);
	waits = transport->incoming_first != NULL;
	ldr_mutex_unlock(&transport->lock);
	for (struct lane *lane = transport->lanes; lane && !waits; lane = lane->next)
		waits = lane->waiting_first &&
			lane->active < transport->options.connections_per_host;
	return waits;
}

static void sleep_until(struct ldr_transport *transport, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t wait_ms = SLEEP_MAX_MS;

	if (transport->bucket.rate) {
		uint64_t refill_ns = ldr_bucket_wait_ns(&transport->bucket);

		if (refill_ns && now_ns + refill_ns < until_ns)
			until_ns = now_ns + refill_ns;
	}
	if (until_ns <= now_ns)
		wait_ms = 0;
	else if (until_ns - now_ns < SLEEP_MAX_MS * UINT64_C(1000000))
		wait_ms = (until_ns - now_ns + 999999) / 1000000;
	curl_multi_poll(transport->multi, NULL, 0, (int)wait_ms, NULL);
}

static bool stop_asked(struct ldr_transport *transport)
{
	bool stopping;

	ldr_mutex_lock(&transport->lock);
	stopping = transport->stopping;
	ldr_mutex_unlock(&transport->lock);
	return stopping;
}

static void *io_thread(void *argument)
{
	struct ldr_transport *transport = argument;
	bool stopping = false;

	for (;;) {
		int running = 0;
		uint64_t now_ns, until_ns;
		bool busy;

		take_incoming(transport);
		stopping = stopping || stop_asked(transport);
		if (!stopping)
			start_admitted(transport);
		apply_flags(transport, stopping);
		busy = step_files(transport);
		curl_multi_perform(transport->multi, &running);
		ldr_http_collect(transport);
		now_ns = ldr_transport_now_ns();
		unthrottle(transport, now_ns);
		until_ns = ldr_http_deadlines(transport, now_ns);
		finish_ended(transport);
		busy = busy || work_waits(transport);
		if (stopping && !transport->active && !busy)
			return NULL;
		sleep_until(transport, now_ns, busy ? now_ns : until_ns);
	}
}

/* ---- new and free ---- */

static void defaults(struct ldr_transport_options *options)
{
	if (!options->connections_per_host)
		options->connections_per_host = CONNECTIONS_DEFAULT;
	if (!options->connect_timeout_ms)
		options->connect_timeout_ms = CONNECT_TIMEOUT_DEFAULT_MS;
	if (!options->stall_timeout_ms)
		options->stall_timeout_ms = STALL_TIMEOUT_DEFAULT_MS;
}

static enum ldr_status copy_strings(struct ldr_transport *transport, struct ldr_error *err)
{
	const char *token = transport->options.token;
	const char *ca_file = transport->options.ca_file;

	if (token) {
		for (const char *c = token; *c; c++)
			if (*c <= ' ' || *c == 0x7f)
				return ldr_fail(err, LDR_EINVAL,
						"token: character 0x%02x at %zu is not allowed",
						(unsigned)(uint8_t)*c, (size_t)(c - token));
		if (asprintf(&transport->authorization, "Authorization: Bearer %s", token) < 0) {
			transport->authorization = NULL;
			return ldr_fail(err, LDR_ENOMEM, "transport: out of memory");
		}
	}
	if (ca_file && !(transport->ca_file = strdup(ca_file)))
		return ldr_fail(err, LDR_ENOMEM, "transport: out of memory");
	transport->options.token = NULL;
	transport->options.ca_file = NULL;
	if (!transport->options.token_url)
		return LDR_OK;
	return ldr_url_origin(LDR_STEAL(transport->options.token_url), transport->token_origin,
			      err);
}

static enum ldr_status prepare(struct ldr_transport *transport, struct ldr_error *err)
{
	long per_host = (long)transport->options.connections_per_host;
	enum ldr_status status = copy_strings(transport, err);

	if (status)
		return status;
	transport->idle_capacity = IDLE_EASY_MAX;
	transport->idle = calloc(transport->idle_capacity, sizeof(CURL *));
	transport->scratch = malloc(LDR_SCRATCH_BYTES);
	transport->multi = curl_multi_init();
	if (!transport->idle || !transport->scratch || !transport->multi)
		return ldr_fail(err, LDR_ENOMEM, "transport: out of memory");
	/* The lanes hold the number of connections; libcurl's ceiling is only for what redirects add. */
	curl_multi_setopt(transport->multi, CURLMOPT_MAX_HOST_CONNECTIONS, 2 * per_host);
	curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, 4 * per_host);
	curl_multi_setopt(transport->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	transport->bucket.rate = transport->options.limit_rate_bytes;
	transport->bucket.filled_ns = ldr_transport_now_ns();
	return LDR_OK;
}

static void release(struct ldr_transport *transport)
{
	struct lane *next;

	for (struct lane *lane = transport->lanes; lane; lane = next) {
		next = lane->next;
		free(lane);
	}
	while (transport->idle_count)
		curl_easy_cleanup(transport->idle[--transport->idle_count]);
	free(transport->idle);
	free(transport->scratch);
	if (transport->multi)
		curl_multi_cleanup(transport->multi);
	free(transport->ca_file);
	free(transport->authorization);
	ldr_mutex_dispose(&transport->lock);
	free(transport);
}

enum ldr_status ldr_transport_new(const struct ldr_transport_options *options,
				  struct ldr_transport **out_transport, struct ldr_error *err)
{
	struct ldr_transport *transport = calloc(1, sizeof(*transport));
	enum ldr_status status;

	if (!transport)
		return ldr_fail(err, LDR_ENOMEM, "transport: out of memory");
	init_once();
	ldr_mutex_init(&transport->lock, LDR_RANK_TRANSPORT);
	if (options)
		transport->options = *options;
	if (transport->options.limit_rate_bytes > RATE_MAX_BYTES)
		transport->options.limit_rate_bytes = RATE_MAX_BYTES;
	defaults(&transport->options);
	status = prepare(transport, err);
	if (!status)
		status = ldr_thread_start(&transport->thread, io_thread, transport, err);
	if (status)
		release(transport);
	else
		*out_transport = transport;
	return status;
}

void ldr_transport_free(struct ldr_transport *transport)
{
	if (!transport)
		return;
	ldr_mutex_lock(&transport->lock);
	transport->stopping = true;
	ldr_mutex_unlock(&transport->lock);
	curl_multi_wakeup(transport->multi);
	pthread_join(transport->thread, NULL);
	assert(!transport->live);
	release(transport);
}

/* ---- from any thread ---- */

static enum ldr_status check_request(struct transfer *transfer, struct ldr_error *err)
{
	const struct ldr_request *request = &transfer->request;
	enum ldr_status status = ldr_url_origin(request->url, transfer->origin, err);

	if (status)
		return status;
	transfer->is_file = strcmp(transfer->origin, "file://") == 0;
	if (transfer->is_file && request->method == LDR_PUT)
		return ldr_fail(err, LDR_EINVAL, "%s: a file is not written by PUT", request->url);
	if (request->has_range && request->range_last < request->range_first)
		return ldr_fail(err, LDR_EINVAL, "%s: range %llu-%llu is backwards", request->url,
				(unsigned long long)request->range_first,
				(unsigned long long)request->range_last);
	return LDR_OK;
}

/* Returns whether the thread must be woken: not if it has not yet taken what came in before. */
static bool hand_over(struct ldr_transport *transport, struct transfer *transfer, uint64_t *out_id)
{
	bool first;

	ldr_mutex_lock(&transport->lock);
	transfer->id = ++transport->next_id;
	if (out_id)
		*out_id = transfer->id;
	transfer->live_next = transport->live;
	if (transport->live)
		transport->live->live_previous = transfer;
	transport->live = transfer;
	first = !transport->incoming_first;
	if (first)
		transport->incoming_first = transfer;
	else
		transport->incoming_last->next = transfer;
	transport->incoming_last = transfer;
	ldr_mutex_unlock(&transport->lock);
	return first;
}

enum ldr_status ldr_transport_submit(struct ldr_transport *transport,
				     const struct ldr_request *request, uint64_t *out_id,
				     struct ldr_error *err)
{
	struct transfer *transfer = calloc(1, sizeof(*transfer));
	enum ldr_status status;

	if (!transfer)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", request->url);
	transfer->transport = transport;
	transfer->request = *request;
	transfer->fd = -1;
	snprintf(transfer->response.url, sizeof(transfer->response.url), "%s", request->url);
	transfer->response.content_length = UINT64_MAX;
	status = check_request(transfer, err);
	if (status) {
		free(transfer);
		return status;
	}
	if (hand_over(transport, transfer, out_id))
		curl_multi_wakeup(transport->multi);
	return LDR_OK;
}

static void flag(struct ldr_transport *transport, uint64_t id, bool cancel)
{
	struct transfer *transfer;

	ldr_mutex_lock(&transport->lock);
	for (transfer = transport->live; transfer && transfer->id != id;)
		transfer = transfer->live_next;
	if (transfer)
		atomic_store(cancel ? &transfer->cancelled : &transfer->resumed, true);
	ldr_mutex_unlock(&transport->lock);
	if (transfer)
		curl_multi_wakeup(transport->multi);
}

void ldr_transport_cancel(struct ldr_transport *transport, uint64_t id)
{
	flag(transport, id, true);
}

void ldr_transport_resume(struct ldr_transport *transport, uint64_t id)
{
	flag(transport, id, false);
}

void ldr_transport_stat(struct ldr_transport *transport, struct ldr_transport_stat *out)
{
	out->requests = atomic_load(&transport->requests);
	out->received_bytes = atomic_load(&transport->received_bytes);
	out->sent_bytes = atomic_load(&transport->sent_bytes);
	out->connections = atomic_load(&transport->connections);
}
