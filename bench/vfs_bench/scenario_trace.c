/*
 * scenario_trace.c   a recorded game, replayed: every thread does all of it.
 *
 * A path has one handle a thread, as often as it is opened meanwhile. A read of a path that is not open
 * opens it first (the recording began, or the kernel let a mapping outlive its descriptor).
 */
#include <string.h>

#include "bench/vfs_bench/scenarios.h"
#include "bench/vfs_bench/trace.h"

static bool can_replay(const struct bench_target *target)
{
	return target->ops->read_at && target->ops->list && target->ops->absent;
}

static bool open_path(struct bench_worker *worker, uint32_t path)
{
	const char *text = worker->names->traced.text[path];

	if (worker->traced_opens[path]++ == 0 &&
	    !worker->ops->open(worker->self, text, BENCH_READ, &worker->traced_files[path])) {
		worker->traced_opens[path] = 0;
		return bench_failed(worker, "open", text);
	}
	return true;
}

static void close_path(struct bench_worker *worker, uint32_t path)
{
	if (worker->traced_opens[path] && --worker->traced_opens[path] == 0)
		worker->ops->close(&worker->traced_files[path]);
}

static bool read_path(struct bench_worker *worker, const struct bench_trace_step *step)
{
	uint64_t at = step->offset, left = step->length;

	if (!worker->traced_opens[step->path] && !open_path(worker, step->path))
		return false;
	while (left) {
		size_t chunk = left < BENCH_BUFFER_BYTES ? (size_t)left : BENCH_BUFFER_BYTES;
		size_t length = 0;

		if (!worker->ops->read_at(&worker->traced_files[step->path], worker->buffer, chunk,
					  at, &length))
			return bench_failed(worker, "read", worker->names->traced.text[step->path]);
		worker->bytes += length;
		if (length < chunk)
			break;
		at += length;
		left -= length;
	}
	return true;
}

static bool take_step(struct bench_worker *worker, const struct bench_trace_step *step)
{
	const char *text = worker->names->traced.text[step->path];
	uint64_t ignored = 0;

	switch ((enum bench_trace_op)step->op) {
	case BENCH_TRACE_OPEN:
		return open_path(worker, step->path);
	case BENCH_TRACE_READ:
		return read_path(worker, step);
	case BENCH_TRACE_CLOSE:
		close_path(worker, step->path);
		return true;
	case BENCH_TRACE_STAT:
		return worker->ops->stat(worker->self, text, &ignored) ||
		       bench_failed(worker, "stat", text);
	case BENCH_TRACE_MISS:
		return worker->ops->absent(worker->self, text) ||
		       bench_failed(worker, "miss", text);
	case BENCH_TRACE_LIST:
		return worker->ops->list(worker->self, text, &ignored) ||
		       bench_failed(worker, "list", text);
	}
	return false;
}

static void close_all(struct bench_worker *worker)
{
	for (uint32_t i = 0; i < worker->trace->paths.count; i++) {
		if (worker->traced_opens[i])
			worker->ops->close(&worker->traced_files[i]);
		worker->traced_opens[i] = 0;
	}
}

static bool run_trace(struct bench_worker *worker)
{
	const struct bench_trace *trace = worker->trace;
	bool good = true;

	for (unsigned pass = 0; good && pass < worker->repeats && !worker->laps.expired; pass++) {
		for (size_t i = 0; good && i < trace->count && !worker->laps.expired; i++) {
			uint64_t began = bench_lap_begin(&worker->laps);

			good = take_step(worker, &trace->step[i]);
			bench_lap_end(&worker->laps, began);
			worker->operations++;
		}
		close_all(worker);
	}
	return good;
}

const struct bench_scenario bench_scenario_trace = {
	.name = "trace",
	.stride = 16,
	.repeatable = true,
	.possible = can_replay,
	.run = run_trace,
};
