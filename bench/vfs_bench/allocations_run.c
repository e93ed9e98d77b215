/*
 * allocations_run.c   vfs_bench --allocations: how often the heap is used by warm opens, stats, misses and reads.
 */
#include <stdio.h>
#include <string.h>

#include "bench/allocations.h"
#include "bench/vfs_bench/run.h"

/* In these our targets must not allocate at all; listing gives a list to the caller. */
static const struct bench_scenario *const counted[] = {
	&bench_read_small, &bench_read_medium, &bench_read_large_seq, &bench_read_large_rand,
	&bench_meta_open,  &bench_meta_stat,   &bench_meta_miss,
};

static bool count_one(struct bench_crew *crew, const struct bench_task *task, struct bench_env *env,
		      bool *out_none)
{
	struct bench_measured measured;

	/* Twice to warm: the first pass fills caches, the second what threads keep for themselves. */
	for (int i = 0; i < 3; i++)
		if (!bench_run_once(crew, task, env, &measured))
			return false;
	printf("%-16s %-26s %3u %12llu operations %12llu allocations\n", task->scenario->name,
	       task->slot->target->name, task->threads, (unsigned long long)measured.operations,
	       (unsigned long long)measured.allocations);
	if (task->slot->target->traits & BENCH_OURS && measured.allocations)
		*out_none = false;
	return true;
}

static bool count_threads(struct bench_crew *crew, const struct bench_scenario *scenario,
			  const struct bench_slot *slot, struct bench_env *env, bool *out_none)
{
	const struct bench_options *options = env->options;

	if (!scenario->possible(slot->target) ||
	    !bench_options_want(options, scenario->name, slot->target->name))
		return true;
	for (size_t t = 0; t < options->thread_count; t++)
		if (!count_one(crew, &(struct bench_task){scenario, slot, options->threads[t], 1},
			       env, out_none))
			return false;
	return true;
}

bool bench_run_allocations(struct bench_crew *crew, struct bench_slots *slots,
			   struct bench_env *env)
{
	bool none = true;

	if (!bench_allocations_work()) {
		bench_say("a sanitizer has the allocator: nothing can be counted");
		return false;
	}
	for (size_t s = 0; s < sizeof(counted) / sizeof(counted[0]); s++)
		for (size_t i = 0; i < slots->count; i++)
			if (!count_threads(crew, counted[s], &slots->slot[i], env, &none))
				return false;
	if (!none)
		bench_say("a target of Larder allocated");
	return none;
}
