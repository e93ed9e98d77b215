/*
 * Replaying a trace at its own pace, as a host program with a frame loop would.
 *
 * The host wakes at ticks (--poll-us, or --frame-us), collects what has ended, compares every byte with the expected ones, submits what
 * is due by the trace as far as one of 16 slots is free and the budget of 16 MiB holds, cancels what the trace cancels, and sleeps
 * until the next tick. With workers 0 it reads by itself at the moment of each release, and skips what is cancelled.
 *
 * Of a request's life
 *
 *	release -- lateness --> submitted -- queue, network, service --> ended -- delivery --> collected
 *
 * lateness is the waiting for a tick, a slot or the budget; delivery is what the host takes to collect (total less queue, network and
 * service). What was cancelled before it ran has no service and stays in the distributions.
 *
 * With frames: "ours" is the time of a frame spent in calls of Larder (comparing bytes is not); ready is, for each file, the time from
 * the first release of one of its requests to the collection of its last.
 *
 * Invariants, each checked after the run: every request is collected (or skipped) exactly once; nothing is in flight; trace records
 * taken and lost are together the completions.
 *
 * Threads: the main thread, beside the scheduler's workers and the load threads.
 */
#ifndef LDR_BENCH_STREAM_REPLAY_H
#define LDR_BENCH_STREAM_REPLAY_H

#include "bench/stream_bench/corpus.h"
#include "bench/stream_bench/layouts.h"
#include "bench/stream_bench/load.h"
#include "bench/stream_bench/options.h"
#include "bench/stream_bench/samples.h"
#include "bench/stream_bench/trace.h"
#include "vfs/scheduler.h"

#define REPLAY_SLOTS 16u
#define REPLAY_BUDGET_BYTES ((uint64_t)REPLAY_SLOTS * STREAM_LENGTH_MAX)

struct replay_slot {
	uint8_t *bytes; /* STREAM_LENGTH_MAX of them, in one allocation of the run */
	struct ldr_ticket ticket;
	size_t request;
	bool busy;
};

/* What a value was over all ticks. */
struct replay_gauge {
	uint64_t sum;
	uint64_t peak;
};

struct replay_counts {
	uint64_t reads;
	uint64_t bytes;
	uint64_t cancel_intents;
	uint64_t cancelled;
	uint64_t skipped;
	uint64_t refused; /* submits that found no room */
	uint64_t trace_records;
	uint64_t ticks;
	uint64_t frames_over_budget;
	uint64_t frames_late; /* began a whole frame after their time */
};

struct replay {
	const struct stream_options *options;
	const struct stream_corpus *corpus;
	struct stream_trace trace;
	struct stream_layout layout;
	struct ldr_scheduler *scheduler; /* NULL: synchronous */
	struct ldr_file **files
		[REPLAY_SLOTS]; /* of each slot by the file's number; all the same array where shared */
	struct replay_slot slot[REPLAY_SLOTS];
	uint8_t *buffers;
	struct ldr_completion completion[REPLAY_SLOTS];
	struct ldr_trace_record *records; /* room for all; NULL: not traced */

	/* By request, and by file. */
	bool *collected;
	uint64_t *first_release;
	uint32_t *left;

	size_t next; /* not submitted yet */
	size_t ended;
	uint64_t start_ns;
	uint64_t ours_ns; /* of the present tick */
	uint64_t validate_ns;

	struct stream_samples queue, network, service, delivery, total, lateness, cancel, frame,
		ready;
	struct replay_gauge backlog, in_flight;
	struct replay_counts counts;
	uint64_t elapsed_ns, cpu_ns, allocations;
	struct ldr_scheduler_metrics metrics; /* at the end */
};

/* Host work of one tick; false after bench_say. */
bool replay_collect(struct replay *replay);
bool replay_admit(struct replay *replay, uint64_t now_ns);
/* A request at once, by the main thread. */
bool replay_read_sync(struct replay *replay, size_t request);
/* Every byte of a read; false after bench_say, which names the first that differs. */
bool replay_validate(struct replay *replay, size_t request, const uint8_t *bytes, size_t length);

/* The invariants; false after bench_say. */
bool replay_reconcile(struct replay *replay);
/* One line of JSON on standard output, and the trace where it was asked for. */
bool replay_report(struct replay *replay);

bool stream_replay(const struct stream_options *options, const struct stream_corpus *corpus);

#endif
