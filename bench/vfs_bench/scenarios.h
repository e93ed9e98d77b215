/*
 * Scenarios: what is done with a target, the same for all of them.
 *
 * Weak scaling: every thread does the whole of the work, beginning at a place of its own. A run is
 * `repeats` times that work, or less where the deadline of the laps passes.
 *
 * prepare and finish are untimed, and called by each thread for itself.
 */
#ifndef LDR_BENCH_SCENARIOS_H
#define LDR_BENCH_SCENARIOS_H

#include "bench/vfs_bench/env.h"
#include "bench/vfs_bench/laps.h"
#include "bench/vfs_bench/names.h"

struct bench_trace;

/* One thread's part of a run. */
struct bench_worker {
	unsigned index;
	unsigned count;
	unsigned repeats;
	const struct bench_ops *ops;
	void *self;
	const struct bench_counts *counts;
	const struct bench_names *names;
	const char *write_prefix;
	const struct bench_trace *trace;
	struct bench_file *traced_files; /* one a path of the trace */
	uint32_t *traced_opens;
	uint8_t *buffer; /* BENCH_BUFFER_BYTES, touched */
	uint64_t random;
	struct bench_laps laps;

	uint64_t operations;
	uint64_t bytes;
	uint32_t made;           /* files that finish removes */
	char *own_folder;        /* below write_prefix */
	const char *failed_path; /* what went wrong, for the message */
	const char *failed_call;
};

struct bench_scenario {
	const char *name;
	uint32_t stride; /* of the laps */
	bool repeatable; /* the work can be done again without preparing */
	bool writes;     /* the disk is settled before */
	bool (*possible)(const struct bench_target *target);
	bool (*prepare)(struct bench_worker *worker);
	bool (*run)(struct bench_worker *worker);
	bool (*finish)(struct bench_worker *worker);
};

/* The 13 scenarios, in the order of the tables. */
const struct bench_scenario *const *bench_scenarios(size_t *out_count);
/* The one of a trace. */
extern const struct bench_scenario bench_scenario_trace;

extern const struct bench_scenario bench_read_small, bench_read_medium, bench_read_large_seq,
	bench_read_large_rand, bench_meta_open, bench_meta_stat, bench_meta_miss, bench_meta_list,
	bench_write_create, bench_write_churn, bench_write_large_seq, bench_write_overwrite,
	bench_write_append;

/* Notes what failed; returns false. */
bool bench_failed(struct bench_worker *worker, const char *call, const char *path);

#endif
