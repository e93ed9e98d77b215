/*
 * Slots: the targets of this run, up and checked, each with its paths.
 *
 * A target that cannot be had (a package that is not installed) is said and left out; with --strict
 * that is a failure. One that gives other bytes than the dataset's ends the benchmark.
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_SLOTS_H
#define LDR_BENCH_SLOTS_H

#include "bench/vfs_bench/names.h"
#include "bench/vfs_bench/trace.h"

struct bench_slot {
	const struct bench_target *target;
	struct bench_instance instance;
	struct bench_names names;
	bool up;
};

struct bench_slots {
	struct bench_slot *slot;
	size_t count;
};

/* trace may be NULL. */
bool bench_slots_up(struct bench_env *env, const struct bench_trace *trace,
		    struct bench_slots *out);
void bench_slots_down(struct bench_slots *slots);

/* Takes a target down and up again, for the cold runs. */
bool bench_slot_again(struct bench_slot *slot, struct bench_env *env);

/* Compares what the target reads with the files of the host. */
bool bench_slot_check(const struct bench_slot *slot, const struct bench_env *env);

#endif
