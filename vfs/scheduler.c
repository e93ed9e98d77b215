/*
 * The scheduler: making and ending it; see scheduler.h and scheduler_priv.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"
#include "vfs/scheduler_priv.h"

/* ---- options ---- */

struct ldr_scheduler_options ldr_scheduler_defaults(void)
{
	return (struct ldr_scheduler_options){
		.size = sizeof(struct ldr_scheduler_options),
		.max_requests = 256,
		.workers = 2,
		.name_workers = 1,
		.max_bytes = UINT64_C(16) << 20,
		.starvation_ns = UINT64_C(5000000),
	};
}

static enum ldr_status check_number(const char *what, uint64_t value, uint64_t least, uint64_t most,
				    struct ldr_error *err)
{
	if (value >= least && value <= most)
		return LDR_OK;
	return ldr_fail(err, LDR_EINVAL,
			"scheduler: %s is %" PRIu64 ", allowed are %" PRIu64 " to %" PRIu64, what,
			value, least, most);
}

static enum ldr_status check_options(const struct ldr_scheduler_options *options,
				     struct ldr_error *err)
{
	const struct {
		const char *what;
		uint64_t value, least, most;
	} rules[] = {
		{"size of the options", options->size, sizeof(*options), sizeof(*options)},
		{"max_requests", options->max_requests, 1, LDR_SCHEDULER_REQUESTS_MAX},
		{"workers", options->workers, 0, LDR_SCHEDULER_WORKERS_MAX},
		{"name_workers", options->name_workers, 1, LDR_SCHEDULER_NAME_WORKERS_MAX},
		{"trace_records", options->trace_records, 0, LDR_SCHEDULER_TRACE_MAX},
		{"max_bytes", options->max_bytes, 1, UINT64_MAX},
		{"starvation_ns", options->starvation_ns, 1, UINT64_MAX},
	};
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; status == LDR_OK && i < sizeof(rules) / sizeof(rules[0]); i++)
		status = check_number(rules[i].what, rules[i].value, rules[i].least, rules[i].most,
				      err);
	return status;
}

/* ---- new and free ---- */

static enum ldr_status make_tables(struct ldr_scheduler *scheduler, struct ldr_error *err)
{
	uint32_t count = scheduler->options.max_requests;
	enum ldr_status status = LDR_OK;

	scheduler->slots = calloc(count, sizeof(*scheduler->slots));
	scheduler->threads = calloc(scheduler->options.workers + scheduler->options.name_workers +
					    1,
				    sizeof(*scheduler->threads));
	/* Of what is never prefetched no page is ever touched. */
	scheduler->scratch = calloc(scheduler->options.workers + 1, LDR_SCHEDULER_PIECE_BYTES);
	if (!scheduler->slots || !scheduler->threads || !scheduler->scratch)
		return ldr_fail(err, LDR_ENOMEM, "scheduler of %u requests: out of memory", count);
	scheduler->slot_count = count;
	for (uint32_t i = count; i-- > 0;) {
		struct ldr_slot *slot = &scheduler->slots[i];

		slot->scheduler = scheduler;
		slot->sequence = i;
		slot->next = scheduler->free;
		scheduler->free = slot;
	}
	for (unsigned i = 0; status == LDR_OK && i < LDR_LANES; i++)
		status = ldr_queue_init(&scheduler->lanes[i].queue, count,
					scheduler->options.starvation_ns, err);
	if (status == LDR_OK)
		status = ldr_trace_ring_init(&scheduler->ring, scheduler->options.trace_records,
					     err);
	return status;
}

static enum ldr_status start_threads(struct ldr_scheduler *scheduler, struct ldr_error *err)
{
	const uint32_t counts[LDR_LANES] = {
		[LDR_LANE_READS] = scheduler->options.workers,
		[LDR_LANE_NAMES] = scheduler->options.name_workers,
		[LDR_LANE_SAVES] = 1,
	};

	if (scheduler->options.workers == 0)
		return LDR_OK;
	for (unsigned i = 0; i < LDR_LANES; i++) {
		struct ldr_lane *lane = &scheduler->lanes[i];

		for (; lane->workers < counts[i]; lane->workers++) {
			enum ldr_status status = ldr_thread_start(
				&scheduler->threads[scheduler->thread_count], ldr_lane_work, lane,
				err);

			if (status != LDR_OK)
				return ldr_error_prefix(err, status, "scheduler: worker %u",
							scheduler->thread_count);
			scheduler->thread_count++;
		}
	}
	return LDR_OK;
}

/* Never the number of another scheduler: of two that live at once the address differs, of two that
 * do not the time does. */
static uint64_t make_id(const struct ldr_scheduler *scheduler)
{
	return (ldr_os_ticket() << 16) ^ (uint64_t)(uintptr_t)scheduler;
}

static void init_parts(struct ldr_scheduler *scheduler)
{
	scheduler->id = make_id(scheduler);
	scheduler->clock = scheduler->options.clock ? scheduler->options.clock : ldr_clock_system();
	scheduler->backend = scheduler->options.backend ? scheduler->options.backend
							: ldr_backend_layers();
	ldr_mutex_init(&scheduler->lock, LDR_RANK_SCHEDULER);
	ldr_condition_init(&scheduler->collect);
	ldr_condition_init(&scheduler->quiet);
	atomic_store(&scheduler->event_fd, -1);
	for (unsigned i = 0; i < LDR_LANES; i++) {
		scheduler->lanes[i].scheduler = scheduler;
		ldr_condition_init(&scheduler->lanes[i].work);
		ldr_lane_hint(&scheduler->lanes[i]);
	}
}

enum ldr_status ldr_scheduler_new(const struct ldr_scheduler_options *options,
				  struct ldr_scheduler **out_scheduler, struct ldr_error *err)
{
	struct ldr_scheduler_options given = options ? *options : ldr_scheduler_defaults();
	enum ldr_status status = check_options(&given, err);
	struct ldr_scheduler *scheduler;

	if (status != LDR_OK)
		return status;
	scheduler = calloc(1, sizeof(*scheduler));
	if (!scheduler)
		return ldr_fail(err, LDR_ENOMEM, "scheduler: out of memory");
	scheduler->options = given;
	init_parts(scheduler);
	status = make_tables(scheduler, err);
	if (status == LDR_OK)
		status = start_threads(scheduler, err);
	if (status == LDR_OK)
		*out_scheduler = scheduler;
	else
		ldr_scheduler_free(scheduler);
	return status;
}

static void free_results(struct ldr_scheduler *scheduler)
{
	for (uint32_t i = 0; i < scheduler->slot_count; i++)
		ldr_slot_release(&scheduler->slots[i]);
}

void ldr_scheduler_free(struct ldr_scheduler *scheduler)
{
	enum ldr_status status;

	if (!scheduler)
		return;
	do
		status = ldr_scheduler_shutdown(scheduler, UINT32_MAX, NULL);
	while (status == LDR_ETIMEDOUT);
	free_results(scheduler);
	if (atomic_load(&scheduler->event_fd) >= 0)
		ldr_os_close(atomic_load(&scheduler->event_fd));
	for (unsigned i = 0; i < LDR_LANES; i++) {
		ldr_queue_dispose(&scheduler->lanes[i].queue);
		ldr_condition_dispose(&scheduler->lanes[i].work);
	}
	ldr_trace_ring_dispose(&scheduler->ring);
	ldr_condition_dispose(&scheduler->quiet);
	ldr_condition_dispose(&scheduler->collect);
	ldr_mutex_dispose(&scheduler->lock);
	free(scheduler->threads);
	free(scheduler->scratch);
	free(scheduler->slots);
	free(scheduler);
}

void ldr_scheduler_cleanup(struct ldr_scheduler **scheduler)
{
	ldr_scheduler_free(*scheduler);
}

const char *ldr_scheduler_backend(const struct ldr_scheduler *scheduler)
{
	return scheduler->backend->name;
}

/* ---- drain and shutdown ---- */

const char *ldr_slot_text(const struct ldr_slot *slot, char text[LDR_SLOT_TEXT_BYTES])
{
	const struct ldr_io_request *request = &slot->request;

	snprintf(text, LDR_SLOT_TEXT_BYTES,
		 "%s of %.80s%s%zu bytes at %" PRIu64 " (tag %" PRIu64 ")",
		 ldr_io_kind_name(request->kind), request->path ? request->path : "",
		 request->path ? ", " : "", request->length, request->offset, request->tag);
	return text;
}

/* Of those that have not ended, the one that was accepted first. */
static const struct ldr_slot *first_unended(const struct ldr_scheduler *scheduler)
{
	const struct ldr_slot *first = NULL;

	for (uint32_t i = 0; i < scheduler->slot_count; i++) {
		const struct ldr_slot *slot = &scheduler->slots[i];

		if (slot->state != LDR_SLOT_FREE && slot->state != LDR_SLOT_ENDED &&
		    (!first || slot->node.order < first->node.order))
			first = slot;
	}
	return first;
}

static enum ldr_status fail_unended(const struct ldr_scheduler *scheduler, const char *what,
				    uint64_t timeout_ms, struct ldr_error *err)
{
	const struct ldr_slot *slot = first_unended(scheduler);
	uint64_t unended = scheduler->m.requests - scheduler->m.ended;
	char text[LDR_SLOT_TEXT_BYTES];

	return ldr_fail(err, LDR_ETIMEDOUT,
			"%s: %s has not ended after %" PRIu64 " ms, nor have %" PRIu64 " others",
			what, ldr_slot_text(slot, text), timeout_ms, unended - 1);
}

/* Under the lock: until nothing is left that has not ended. */
static enum ldr_status wait_quiet(struct ldr_scheduler *scheduler, const char *what,
				  uint64_t timeout_ms, struct ldr_error *err)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t began_ms = ldr_clock_now_ms(clock), gone_ms;
	enum ldr_status status = LDR_OK;

	scheduler->watchers++;
	while (scheduler->m.requests > scheduler->m.ended) {
		gone_ms = ldr_clock_now_ms(clock) - began_ms;
		if (gone_ms >= timeout_ms) {
			status = fail_unended(scheduler, what, timeout_ms, err);
			break;
		}
		ldr_condition_wait_ms(&scheduler->quiet, &scheduler->lock, timeout_ms - gone_ms);
	}
	scheduler->watchers--;
	return status;
}

enum ldr_status ldr_scheduler_drain(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
				    struct ldr_error *err)
{
	enum ldr_status status;

	ldr_mutex_lock(&scheduler->lock);
	status = wait_quiet(scheduler, "drain", timeout_ms, err);
	ldr_mutex_unlock(&scheduler->lock);
	return status;
}

static bool is_own_worker(const struct ldr_scheduler *scheduler)
{
	for (uint32_t i = 0; i < scheduler->thread_count; i++) {
		if (pthread_equal(scheduler->threads[i], pthread_self()))
			return true;
	}
	return false;
}

/* Under the lock, given back while threads end. One caller joins, the others wait for him. */
static void end_threads(struct ldr_scheduler *scheduler)
{
	if (scheduler->joining) {
		while (!scheduler->joined)
			ldr_condition_wait(&scheduler->quiet, &scheduler->lock);
		return;
	}
	scheduler->joining = true;
	scheduler->quitting = true;
	for (unsigned i = 0; i < LDR_LANES; i++)
		ldr_condition_broadcast(&scheduler->lanes[i].work);
	ldr_mutex_unlock(&scheduler->lock);
	for (uint32_t i = 0; i < scheduler->thread_count; i++)
		pthread_join(scheduler->threads[i], NULL);
	ldr_mutex_lock(&scheduler->lock);
	scheduler->joined = true;
	ldr_condition_broadcast(&scheduler->quiet);
}

enum ldr_status ldr_scheduler_shutdown(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
				       struct ldr_error *err)
{
	enum ldr_status status;

	ldr_mutex_lock(&scheduler->lock);
	if (!scheduler->joining && is_own_worker(scheduler)) {
		ldr_mutex_unlock(&scheduler->lock);
		return ldr_fail(err, LDR_EDENIED, "shutdown: called by a worker of the scheduler");
	}
	scheduler->stopping = true;
	ldr_mutex_unlock(&scheduler->lock);
	ldr_scheduler_cancel_tagged(scheduler, 0, 0);
	ldr_mutex_lock(&scheduler->lock);
	status = wait_quiet(scheduler, "shutdown", timeout_ms, err);
	if (status == LDR_OK && !scheduler->joined)
		end_threads(scheduler);
	ldr_mutex_unlock(&scheduler->lock);
	return status;
}
