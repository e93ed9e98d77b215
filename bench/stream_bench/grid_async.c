/*
 * grid_async.c   a pass by workers, and the cancel phase.
 */
#include <sched.h>
#include <stdlib.h>

#include "bench/allocations.h"
#include "bench/stream_bench/grid.h"
#include "bench/support.h"
#include "vfs/scheduler.h"

#define STARVATION_NS (5u * 1000 * 1000)
#define WAIT_MS 10000

struct pass {
	struct grid_row *row;
	struct ldr_scheduler *scheduler;
	size_t next; /* of the plan */
	size_t collected;
	unsigned free_count;
	unsigned free_slot[GRID_SLOTS];
	size_t read_of[GRID_SLOTS];
	struct ldr_io_request request[GRID_SLOTS];
	struct ldr_completion completion[GRID_SLOTS];
};

bool grid_scheduler_new(unsigned workers, struct ldr_scheduler **out_scheduler)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_error error = {0};

	options.max_requests = GRID_SLOTS;
	options.max_bytes = GRID_BUDGET_BYTES;
	options.starvation_ns = STARVATION_NS;
	options.workers = workers;
	if (!ldr_scheduler_new(&options, out_scheduler, &error))
		return true;
	bench_say("scheduler: %s", error.text);
	return false;
}

static uint8_t *buffer_of(const struct grid_row *row, unsigned slot)
{
	return row->buffers + (size_t)slot * GRID_LARGE_BYTES;
}

static struct ldr_io_request request_of(const struct grid_row *row, const struct grid_read *read,
					unsigned slot)
{
	return (struct ldr_io_request){
		.kind = LDR_IO_READ,
		.tag = slot,
		.file = row->files[read->file],
		.bytes = buffer_of(row, slot),
		.length = read->length,
		.offset = read->offset,
	};
}

/* Into every free slot; what the budget has no room for waits for the next turn. */
static bool submit_some(struct pass *pass)
{
	struct ldr_error error = {0};
	size_t count = 0, accepted = 0;
	enum ldr_status status;

	while (count < pass->free_count && pass->next + count < GRID_READS) {
		unsigned slot = pass->free_slot[pass->free_count - 1 - count];

		pass->read_of[slot] = pass->next + count;
		pass->request[count++] = request_of(
			pass->row, &pass->row->plan->read[pass->read_of[slot]], slot);
	}
	if (count == 0)
		return true;
	status = ldr_scheduler_submit_many(pass->scheduler, pass->request, count, NULL, &accepted,
					   &error);
	pass->next += accepted;
	pass->free_count -= (unsigned)accepted;
	if (status == LDR_OK || status == LDR_EAGAIN)
		return true;
	bench_say("submit: %s", error.text);
	return false;
}

static bool take(struct pass *pass, const struct ldr_completion *done)
{
	struct grid_row *row = pass->row;
	unsigned slot = (unsigned)done->tag;
	const struct grid_read *read = &row->plan->read[pass->read_of[slot]];

	if (done->outcome != LDR_IO_DONE || done->status) {
		bench_say("%s: %s", row->corpus->path[read->file], done->error.text);
		return false;
	}
	stream_samples_add(&row->latency, done->times.collected_ns - done->times.submitted_ns);
	if (done->times.queue_ns > row->figures.queue_max_ns)
		row->figures.queue_max_ns = done->times.queue_ns;
	row->figures.bytes += done->length;
	pass->free_slot[pass->free_count++] = slot;
	pass->collected++;
	return grid_check(row, read, buffer_of(row, slot), done->length);
}

static bool collect_some(struct pass *pass)
{
	size_t count = ldr_scheduler_poll(pass->scheduler, pass->completion, GRID_SLOTS);
	bool good = true;

	for (size_t i = 0; good && i < count; i++)
		good = take(pass, &pass->completion[i]);
	if (count == 0 && pass->row->wait)
		good = !ldr_scheduler_wait(pass->scheduler, WAIT_MS, NULL);
	else if (count == 0)
		sched_yield();
	return good;
}

bool grid_pass_async(struct grid_row *row, struct ldr_scheduler *scheduler)
{
	struct pass pass = {.row = row, .scheduler = scheduler, .free_count = GRID_SLOTS};
	struct ldr_scheduler_metrics metrics;
	bool good = true;

	for (unsigned i = 0; i < GRID_SLOTS; i++)
		pass.free_slot[i] = i;
	while (good && pass.collected < GRID_READS)
		good = submit_some(&pass) && collect_some(&pass);
	if (!good)
		(void)ldr_scheduler_shutdown(scheduler, WAIT_MS, NULL);
	ldr_scheduler_metrics(scheduler, &metrics);
	row->peak_bytes = metrics.bytes_peak;
	row->peak_requests = metrics.requests_peak;
	if (good && (metrics.requests || metrics.bytes)) {
		bench_say("%llu requests with %llu bytes are in flight after all were collected",
			  (unsigned long long)metrics.requests, (unsigned long long)metrics.bytes);
		return false;
	}
	return good;
}

/* Until the request runs, or has ended. */
static bool wait_for_start(struct ldr_scheduler *scheduler, struct ldr_ticket ticket)
{
	enum ldr_io_state state = LDR_IO_QUEUED;
	struct ldr_error error = {0};

	while (state == LDR_IO_QUEUED || state == LDR_IO_WAITING)
		if (ldr_scheduler_state(scheduler, ticket, &state, &error)) {
			bench_say("state: %s", error.text);
			return false;
		}
	return true;
}

static bool collect_cancelled(struct grid_row *row, struct ldr_scheduler *scheduler, bool running)
{
	struct ldr_completion done;

	while (!ldr_scheduler_poll(scheduler, &done, 1))
		if (row->wait)
			(void)ldr_scheduler_wait(scheduler, WAIT_MS, NULL);
		else
			sched_yield();
	row->cancelled += done.outcome == LDR_IO_CANCELLED;
	if (done.outcome != LDR_IO_CANCELLED && done.status) {
		bench_say("a read of 1 MiB: %s", done.error.text);
		return false;
	}
	/* What had ended before it could be cancelled has no time of a cancel. */
	if (done.outcome == LDR_IO_CANCELLED || !running)
		stream_samples_add(&row->latency,
				   done.times.collected_ns - (done.times.cancel_ns
								      ? done.times.cancel_ns
								      : done.times.ended_ns));
	return true;
}

static bool cancel_one(struct grid_row *row, struct ldr_scheduler *scheduler, bool running)
{
	size_t turn = row->cancel_intents++ * 8 + 7;
	struct ldr_io_request request = request_of(row, &row->plan->read[turn % GRID_READS], 0);
	struct ldr_ticket ticket;
	struct ldr_error error = {0};

	/* Long enough to be met while it runs: what the file has of two slots' room. */
	if (running) {
		request.offset = 0;
		request.length = (size_t)2 * GRID_LARGE_BYTES;
	}
	if (ldr_scheduler_submit(scheduler, &request, &ticket, &error)) {
		bench_say("submit: %s", error.text);
		return false;
	}
	if (running && !wait_for_start(scheduler, ticket))
		return false;
	if (ldr_scheduler_cancel(scheduler, ticket, &error)) {
		bench_say("cancel: %s", error.text);
		return false;
	}
	return collect_cancelled(row, scheduler, running);
}

bool grid_cancel_phase(struct grid_row *row, struct ldr_scheduler *scheduler, bool running)
{
	unsigned tries = running ? GRID_CANCEL_TRIES : GRID_CANCELS;
	bool good = true;

	row->latency.count = 0;
	row->cancel_intents = row->cancelled = 0;
	bench_allocations_start();
	while (good && row->cancel_intents < tries && row->latency.count < GRID_CANCELS)
		good = cancel_one(row, scheduler, running);
	row->figures.allocations = bench_allocations_stop();
	stream_samples_sort(&row->latency);
	return good;
}
