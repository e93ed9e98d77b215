/*
 * Runs: a scenario on a target by some threads, timed; and the rounds of all targets in turn.
 *
 * The rounds of the targets alternate (A B C A B C ...), so that whatever else the machine does hits
 * all of them. Before the first round each target runs once, untimed for the tables: it warms what can
 * be warm and says how often the work has to be repeated to last --min-ms. A row is the round of median
 * speed.
 *
 * Time is from when all threads are ready to when the last has done its work.
 */
#ifndef LDR_BENCH_RUN_H
#define LDR_BENCH_RUN_H

#include "bench/vfs_bench/report.h"
#include "bench/vfs_bench/scenarios.h"
#include "bench/vfs_bench/slots.h"

struct bench_measured {
	double seconds;
	uint64_t operations;
	uint64_t bytes;
	uint64_t allocations;
	struct bench_percentiles percentiles;
};

/* The threads' storage, made and touched once. */
struct bench_crew {
	struct bench_worker *worker;
	unsigned count;
	uint32_t *merged;
};

bool bench_crew_make(unsigned count, const struct bench_trace *trace, struct bench_crew *out);
void bench_crew_dispose(struct bench_crew *crew);

/* What one run does. */
struct bench_task {
	const struct bench_scenario *scenario;
	const struct bench_slot *slot;
	unsigned threads;
	unsigned repeats;
};

/* One run. False after bench_say. */
bool bench_run_once(struct bench_crew *crew, const struct bench_task *task,
		    const struct bench_env *env, struct bench_measured *out);

/* All rounds of a scenario with one number of threads; rows go to the report. */
bool bench_run_rounds(struct bench_crew *crew, const struct bench_scenario *scenario,
		      struct bench_slots *slots, struct bench_env *env, unsigned threads,
		      struct bench_report *report);

/* Counts instead of timing: a line a target and scenario; false when one of ours that must not
 * allocate did. */
bool bench_run_allocations(struct bench_crew *crew, struct bench_slots *slots,
			   struct bench_env *env);

#endif
