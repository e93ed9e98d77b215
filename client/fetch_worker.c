/*
 * The workers of fetch: they call `arrived` for blocks that are whole in a range's buffer, and `done` when a
 * call is over; an idle one starts what has waited for its host.
 *
 * The queue holds ranges with wants that nobody has taken; a worker takes a batch of them and leaves the
 * range in the queue for the others if more are there. So nothing is allocated for a block or a batch.
 */
#include <stdlib.h>

#include "client/fetch_priv.h"
#include "common/bytes.h"
#include "packs/layout.h"

#define BATCH_BYTES (128u * 1024)

void ldr_fetch_offer(struct ldr_fetch *fetch, struct range *range)
{
	if (!range->queued) {
		range->queued = true;
		range->ready_next = NULL;
		if (fetch->ready_last)
			fetch->ready_last->ready_next = range;
		else
			fetch->ready_first = range;
		fetch->ready_last = range;
	}
	if (fetch->idle_workers)
		ldr_condition_signal(&fetch->work);
}

static void unqueue_first(struct ldr_fetch *fetch)
{
	struct range *range = fetch->ready_first;

	range->queued = false;
	fetch->ready_first = range->ready_next;
	if (!fetch->ready_first)
		fetch->ready_last = NULL;
}

static const struct ldr_placed_block *want_of(const struct range *range, uint32_t i)
{
	return &range->call->wants[range->call->plan.order[range->plan.want_first + i]];
}

/* Takes wants of the queue's first range up to BATCH_BYTES, at least one; gives the end of the batch. */
static uint32_t take_batch(struct ldr_fetch *fetch, struct range *range)
{
	uint32_t end = range->taken;
	size_t bytes = 0;

	while (end < range->offered && bytes < BATCH_BYTES)
		bytes += want_of(range, end++)->place.stored_bytes;
	range->taken = end;
	range->busy++;
	if (range->taken == range->offered)
		unqueue_first(fetch);
	else if (fetch->idle_workers)
		ldr_condition_signal(&fetch->work);
	return end;
}

/* Names where the wrong bytes came from. */
static void name_source(struct ldr_fetch *fetch, const struct range *range, uint32_t i,
			struct ldr_error *error)
{
	const struct ldr_place *place = &want_of(range, i)->place;
	const struct ldr_release_pack *pack = ldr_release_pack(fetch->release, place->pack);
	LDR_AUTO_FREE char *url = NULL;
	char path[LDR_STORE_PATH_BYTES] = "?";

	if (pack)
		ldr_store_pack_path(&pack->id, path);
	url = ldr_url_join(fetch->hosts.items[range->host].base, path);
	ldr_error_prefix(error, error->status, "%s: bytes %llu-%llu", url ? url : path,
			 (unsigned long long)place->offset,
			 (unsigned long long)(place->offset + place->stored_bytes - 1));
}

struct batch_result {
	uint64_t arrived;
	uint64_t wrong;
	struct ldr_error wrong_error; /* of the first */
	struct ldr_error fatal;
};

static void hand_on(struct ldr_fetch *fetch, const struct range *range, uint32_t i,
		    struct batch_result *result)
{
	struct call *call = range->call;
	uint32_t want = call->plan.order[range->plan.want_first + i];
	uint64_t at = want_of(range, i)->place.offset - range->plan.first;
	struct ldr_error error = {0};
	enum ldr_status status;

	status = call->arrived(call->arrival, want, range->buffer + at, &error);
	if (status == LDR_OK) {
		call->held[want] = 1;
		result->arrived++;
		return;
	}
	if (error.status != status)
		ldr_fail(&error, status, "block refused: %s", ldr_status_text(status));
	name_source(fetch, range, i, &error);
	if (status != LDR_ECORRUPT)
		result->fatal = error;
	else if (result->wrong++ == 0)
		result->wrong_error = error;
}

static void hand_on_batch(struct ldr_fetch *fetch, const struct range *range, uint32_t first,
			  uint32_t end, struct batch_result *result)
{
	for (uint32_t i = first; i < end; i++) {
		if (result->fatal.status || atomic_load(&range->call->failed))
			return;
		hand_on(fetch, range, i, result);
	}
}

/* Under the lock. */
static void account(struct ldr_fetch *fetch, struct range *range, const struct batch_result *result)
{
	ldr_fetch_count(&fetch->blocks, result->arrived);
	if (result->wrong) {
		ldr_fetch_count(&fetch->bad_blocks, result->wrong);
		ldr_range_blame(range, &result->wrong_error);
		ldr_hosts_report(&fetch->hosts, (int)range->host, LDR_HOST_WRONG, range->began_ns,
				 0);
	}
	if (result->fatal.status)
		ldr_fetch_fail(fetch, range->call, &result->fatal);
}

/* Under the lock, which is given back while the blocks are handed on. */
static void work_once(struct ldr_fetch *fetch)
{
	struct range *range = fetch->ready_first;
	struct batch_result result = {0};
	uint32_t first = range->taken;
	uint32_t end = take_batch(fetch, range);

	ldr_mutex_unlock(&fetch->lock);
	hand_on_batch(fetch, range, first, end, &result);
	ldr_mutex_lock(&fetch->lock);
	account(fetch, range, &result);
	range->busy--;
	ldr_range_settle(fetch, range);
	ldr_fetch_schedule(fetch);
}

/* Under the lock, which is given back while done runs. */
static void end_first(struct ldr_fetch *fetch)
{
	struct call *call = fetch->ended;

	fetch->ended = call->next;
	ldr_mutex_unlock(&fetch->lock);
	call->done(call->arrival, &call->error);
	ldr_call_free(call);
	ldr_mutex_lock(&fetch->lock);
	if (--fetch->calls == 0)
		ldr_condition_broadcast(&fetch->drained);
}

/* Waits for work, or for the time when a range that waits for its host may start. */
static void idle(struct ldr_fetch *fetch)
{
	const struct ldr_clock *clock = fetch->hosts.clock;
	uint64_t now_ns = clock->now_ns(clock), wake_ns = UINT64_MAX;

	for (struct call *call = fetch->first_call; call; call = call->next) {
		if (call->wake_ns && call->wake_ns < wake_ns)
			wake_ns = call->wake_ns;
	}
	if (wake_ns <= now_ns) {
		for (struct call *call = fetch->first_call; call; call = call->next)
			call->wake_ns = 0;
		ldr_fetch_schedule(fetch);
		return;
	}
	fetch->idle_workers++;
	if (wake_ns == UINT64_MAX)
		ldr_condition_wait(&fetch->work, &fetch->lock);
	else
		ldr_condition_wait_ms(&fetch->work, &fetch->lock, (wake_ns - now_ns) / 1000000 + 1);
	fetch->idle_workers--;
}

static void *worker(void *argument)
{
	struct ldr_fetch *fetch = argument;

	ldr_mutex_lock(&fetch->lock);
	while (!fetch->stopping) {
		if (fetch->ended)
			end_first(fetch);
		else if (fetch->ready_first)
			work_once(fetch);
		else
			idle(fetch);
	}
	ldr_mutex_unlock(&fetch->lock);
	return NULL;
}

enum ldr_status ldr_fetch_start_workers(struct ldr_fetch *fetch, struct ldr_error *err)
{
	unsigned count = fetch->options.workers;

	fetch->workers = calloc(count, sizeof(*fetch->workers));
	if (!fetch->workers)
		return ldr_fail(err, LDR_ENOMEM, "fetch: out of memory");
	for (; fetch->worker_count < count; fetch->worker_count++) {
		enum ldr_status status = ldr_thread_start(&fetch->workers[fetch->worker_count],
							  worker, fetch, err);

		if (status)
			return status;
	}
	return LDR_OK;
}

void ldr_fetch_stop_workers(struct ldr_fetch *fetch)
{
	ldr_mutex_lock(&fetch->lock);
	fetch->stopping = true;
	ldr_condition_broadcast(&fetch->work);
	ldr_mutex_unlock(&fetch->lock);
	while (fetch->worker_count)
		pthread_join(fetch->workers[--fetch->worker_count], NULL);
	free(fetch->workers);
	fetch->workers = NULL;
}
