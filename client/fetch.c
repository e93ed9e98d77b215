/*
 * Fetch: its life, a call from the caller's side, and small objects; see fetch.h and fetch_priv.h.
 */
#include "client/fetch_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "packs/layout.h"

#define RANGES_DEFAULT 6
#define RANGE_BYTES_DEFAULT (2u * 1024 * 1024)
#define GAP_BYTES_DEFAULT (32u * 1024)
#define ATTEMPTS_DEFAULT 5
/* Buffers beyond one for each range under way: what the workers are busy with. */
#define BUFFERS_MORE 2

_Static_assert(LDR_FETCH_HOSTS_MAX == LDR_HOSTS_MAX, "one limit, said in two headers");

/* ---- a call ---- */

void ldr_call_free(struct call *call)
{
	struct range *next;

	for (struct range *range = call->again; range; range = next) {
		next = range->next;
		free(range);
	}
	ldr_range_plan_dispose(&call->plan);
	free(call->held);
	free(call);
}

static enum ldr_status call_new(const struct ldr_fetch *fetch,
				const struct ldr_upstream_request *request, struct call **out_call,
				struct ldr_error *err)
{
	struct call *call = calloc(1, sizeof(*call));
	enum ldr_status status;

	if (!call)
		return ldr_fail(err, LDR_ENOMEM, "fetch of %zu blocks: out of memory",
				request->count);
	call->priority = request->priority;
	call->wants = request->wants;
	call->arrived = request->arrived;
	call->done = request->done;
	call->arrival = request->arrival;
	status = ldr_range_plan_make(request->wants, request->count, fetch->options.range_bytes,
				     fetch->options.gap_bytes, &call->plan, err);
	call->held = calloc(request->count, 1);
	call->ranges_left = call->plan.range_count;
	if (!status && !call->held)
		status = ldr_fail(err, LDR_ENOMEM, "fetch of %zu blocks: out of memory",
				  request->count);
	if (status)
		ldr_call_free(call);
	else
		*out_call = call;
	return status;
}

static enum ldr_status start_blocks(void *context, const struct ldr_upstream_request *request,
				    void **out_ticket, struct ldr_error *err)
{
	struct ldr_fetch *fetch = context;
	struct call *call = NULL;
	enum ldr_status status;

	if (!fetch->release)
		return ldr_fail(err, LDR_EINVAL, "fetch of %zu blocks without a release",
				request->count);
	status = call_new(fetch, request, &call, err);
	if (status)
		return status;
	ldr_mutex_lock(&fetch->lock);
	*out_ticket = call;
	fetch->calls++;
	ldr_call_queue(fetch, call);
	ldr_fetch_schedule(fetch);
	ldr_mutex_unlock(&fetch->lock);
	return LDR_OK;
}

static void set_priority(void *context, void *ticket, unsigned priority)
{
	struct ldr_fetch *fetch = context;
	struct call *call = ticket;

	ldr_mutex_lock(&fetch->lock);
	if (!call->ended && call->priority != priority) {
		ldr_call_unqueue(fetch, call);
		call->priority = priority;
		ldr_call_queue(fetch, call);
		ldr_fetch_schedule(fetch);
	}
	ldr_mutex_unlock(&fetch->lock);
}

/* ---- a call that is waited for ---- */

struct waited {
	struct ldr_fetch *fetch;
	enum ldr_status (*arrived)(void *arrival, size_t want, const void *stored,
				   struct ldr_error *err);
	void *arrival;
	struct ldr_condition ended;
	bool is_over;
	struct ldr_error error;
};

static enum ldr_status waited_arrived(void *arrival, size_t want, const void *stored,
				      struct ldr_error *err)
{
	struct waited *waited = arrival;

	return waited->arrived(waited->arrival, want, stored, err);
}

static void waited_done(void *arrival, const struct ldr_error *error)
{
	struct waited *waited = arrival;
	struct ldr_fetch *fetch = waited->fetch;

	ldr_mutex_lock(&fetch->lock);
	waited->error = *error;
	waited->is_over = true;
	ldr_condition_signal(&waited->ended);
	ldr_mutex_unlock(&fetch->lock);
}

static enum ldr_status fetch_blocks(void *context, const struct ldr_placed_block *wants,
				    size_t count,
				    enum ldr_status (*arrived)(void *arrival, size_t want,
							       const void *stored,
							       struct ldr_error *err),
				    void *arrival, struct ldr_error *err)
{
	struct ldr_fetch *fetch = context;
	struct waited waited = {.fetch = fetch, .arrived = arrived, .arrival = arrival};
	const struct ldr_upstream_request request = {.wants = wants,
						     .count = count,
						     .priority = LDR_PRIORITY_HIGH,
						     .arrived = waited_arrived,
						     .done = waited_done,
						     .arrival = &waited};
	enum ldr_status status;
	void *ticket;

	if (count == 0)
		return LDR_OK;
	ldr_condition_init(&waited.ended);
	status = start_blocks(fetch, &request, &ticket, err);
	if (status == LDR_OK) {
		ldr_mutex_lock(&fetch->lock);
		while (!waited.is_over)
			ldr_condition_wait(&waited.ended, &fetch->lock);
		ldr_mutex_unlock(&fetch->lock);
		status = waited.error.status;
		if (status && err)
			*err = waited.error;
	}
	ldr_condition_dispose(&waited.ended);
	return status;
}

/* ---- new and free ---- */

static void defaults(struct ldr_fetch_options *options)
{
	if (!options->ranges_at_once)
		options->ranges_at_once = RANGES_DEFAULT;
	if (!options->range_bytes)
		options->range_bytes = RANGE_BYTES_DEFAULT;
	if (options->range_bytes < LDR_STORED_MAX_BYTES)
		options->range_bytes = LDR_STORED_MAX_BYTES;
	if (!options->gap_bytes)
		options->gap_bytes = GAP_BYTES_DEFAULT;
	if (!options->workers)
		options->workers = ldr_thread_processors();
	if (!options->attempts)
		options->attempts = ATTEMPTS_DEFAULT;
}

static enum ldr_status prepare(struct ldr_fetch *fetch, struct ldr_error *err)
{
	const struct ldr_fetch_options *options = &fetch->options;
	enum ldr_status status;

	status = ldr_hosts_init(&fetch->hosts, options->hosts, options->host_count,
				ldr_clock_system(), err);
	if (!status)
		status = ldr_buffer_pool_init(&fetch->pool, options->range_bytes,
					      options->ranges_at_once + BUFFERS_MORE, err);
	if (!status)
		status = ldr_fetch_start_workers(fetch, err);
	return status;
}

enum ldr_status ldr_fetch_new(const struct ldr_fetch_options *options, struct ldr_fetch **out_fetch,
			      struct ldr_error *err)
{
	struct ldr_fetch *fetch = calloc(1, sizeof(*fetch));
	enum ldr_status status;

	if (!fetch)
		return ldr_fail(err, LDR_ENOMEM, "fetch: out of memory");
	fetch->options = *options;
	defaults(&fetch->options);
	fetch->upstream = (struct ldr_upstream){.context = fetch,
						.fetch = fetch_blocks,
						.start = start_blocks,
						.set_priority = set_priority};
	ldr_mutex_init(&fetch->lock, LDR_RANK_FETCH);
	ldr_condition_init(&fetch->work);
	ldr_condition_init(&fetch->pause);
	ldr_condition_init(&fetch->drained);
	status = prepare(fetch, err);
	fetch->options.hosts = NULL;
	if (status)
		ldr_fetch_free(fetch);
	else
		*out_fetch = fetch;
	return status;
}

/* Nobody waits for what is still asked for; each is told so. */
static void end_calls(struct ldr_fetch *fetch)
{
	struct ldr_error error;

	ldr_fail(&error, LDR_ECANCELLED, "fetch: closed");
	ldr_mutex_lock(&fetch->lock);
	while (fetch->calls) {
		struct call *next;

		for (struct call *call = fetch->first_call; call; call = next) {
			next = call->next;
			ldr_fetch_fail(fetch, call, &error);
		}
		ldr_condition_wait(&fetch->drained, &fetch->lock);
	}
	ldr_mutex_unlock(&fetch->lock);
}

void ldr_fetch_free(struct ldr_fetch *fetch)
{
	if (!fetch)
		return;
	end_calls(fetch);
	ldr_fetch_stop_workers(fetch);
	ldr_buffer_pool_dispose(&fetch->pool);
	ldr_hosts_dispose(&fetch->hosts);
	ldr_condition_dispose(&fetch->drained);
	ldr_condition_dispose(&fetch->pause);
	ldr_condition_dispose(&fetch->work);
	ldr_mutex_dispose(&fetch->lock);
	free(fetch);
}

void ldr_fetch_set_release(struct ldr_fetch *fetch, const struct ldr_release *release)
{
	fetch->release = release;
}

const struct ldr_upstream *ldr_fetch_upstream(struct ldr_fetch *fetch)
{
	return &fetch->upstream;
}

void ldr_fetch_stat(struct ldr_fetch *fetch, struct ldr_fetch_stat *out)
{
	out->requests = atomic_load(&fetch->requests);
	out->body_bytes = atomic_load(&fetch->body_bytes);
	out->blocks = atomic_load(&fetch->blocks);
	out->retries = atomic_load(&fetch->retries);
	out->bad_blocks = atomic_load(&fetch->bad_blocks);
	out->whole_packs = atomic_load(&fetch->whole_packs);
}

/* ---- small objects ---- */

struct object_search {
	const char *path;
	size_t max_bytes;
	uint32_t refused; /* hosts that have answered no */
	bool not_found;   /* one of them said so */
	struct ldr_error error;
	struct ldr_error not_found_error;
};

static enum ldr_host_outcome outcome_of(const struct ldr_response *response, enum ldr_status status)
{
	if (status == LDR_OK)
		return LDR_HOST_GOOD;
	if (status == LDR_ENOTFOUND || status == LDR_EDENIED || status == LDR_ELIMIT)
		return LDR_HOST_REFUSED;
	return response->retry_after_ms ? LDR_HOST_BUSY : LDR_HOST_FAILED;
}

/* One attempt at one host. */
static enum ldr_status ask(struct ldr_fetch *fetch, struct object_search *search, int host,
			   struct ldr_exchange *out)
{
	LDR_AUTO_FREE char *url = ldr_url_join(fetch->hosts.items[host].base, search->path);
	struct ldr_request request = {.method = LDR_GET, .url = url};
	enum ldr_status status;

	if (!url)
		return ldr_fail(&search->error, LDR_ENOMEM, "%s: out of memory", search->path);
	ldr_fetch_count(&fetch->requests, 1);
	status = ldr_transport_perform(fetch->options.transport, &request, search->max_bytes, out,
				       &search->error);
	if (status)
		return status;
	ldr_fetch_count(&fetch->body_bytes, out->body_length);
	status = ldr_response_status(&out->response, out->body, out->body_length, &search->error);
	if (!status && out->response.status != 200)
		status = ldr_fail(&search->error, LDR_ENET, "%s: status %d, 200 was expected", url,
				  out->response.status);
	return status;
}

/* Asks the chosen host; LDR_EAGAIN: the search goes on. */
static enum ldr_status attempt(struct ldr_fetch *fetch, struct object_search *search, int host,
			       struct ldr_exchange *out)
{
	enum ldr_host_outcome outcome;
	enum ldr_status status;
	uint64_t began_ns;

	ldr_mutex_lock(&fetch->lock);
	began_ns = ldr_hosts_begin(&fetch->hosts, host);
	ldr_mutex_unlock(&fetch->lock);
	status = ask(fetch, search, host, out);
	outcome = outcome_of(&out->response, status);
	ldr_mutex_lock(&fetch->lock);
	ldr_hosts_report(&fetch->hosts, host, outcome, began_ns, out->response.retry_after_ms);
	ldr_mutex_unlock(&fetch->lock);
	if (status == LDR_OK)
		return LDR_OK;
	ldr_exchange_dispose(out);
	if (status == LDR_ENOTFOUND) {
		search->not_found = true;
		search->not_found_error = search->error;
	}
	if (outcome == LDR_HOST_REFUSED)
		search->refused |= UINT32_C(1) << host;
	return LDR_EAGAIN;
}

/* The next host to ask, after the wait that it needs; -1: all have refused. */
static int next_host(struct ldr_fetch *fetch, uint32_t refused)
{
	struct ldr_host_choice choice;

	ldr_mutex_lock(&fetch->lock);
	while ((choice = ldr_hosts_choose(&fetch->hosts, refused)).index >= 0 && choice.wait_ns)
		ldr_condition_wait_ms(&fetch->pause, &fetch->lock, choice.wait_ns / 1000000 + 1);
	ldr_mutex_unlock(&fetch->lock);
	return choice.index;
}

enum ldr_status ldr_fetch_object(struct ldr_fetch *fetch, const char *path, size_t max_bytes,
				 uint8_t **out_data, size_t *out_length, struct ldr_error *err)
{
	struct object_search search = {.path = path, .max_bytes = max_bytes};
	struct ldr_exchange exchange = {0};
	const struct ldr_error *error;

	for (unsigned i = 0; i < fetch->options.attempts; i++) {
		int host = next_host(fetch, search.refused);

		if (host < 0)
			break;
		if (i)
			ldr_fetch_count(&fetch->retries, 1);
		if (attempt(fetch, &search, host, &exchange) == LDR_OK) {
			*out_data = exchange.body;
			*out_length = exchange.body_length;
			return LDR_OK;
		}
	}
	error = search.not_found ? &search.not_found_error : &search.error;
	return ldr_fail(err, error->status, "%s", error->text);
}
