/*
 * rounds.c   the targets of a scenario in turn, round after round; the median of each.
 */
#include <stdlib.h>

#include "bench/vfs_bench/run.h"

#define REPEATS_MAX 20000

/* A target's runs in the rounds. */
struct series {
	struct bench_slot *slot;
	unsigned repeats;
	unsigned count;
	struct bench_measured *measured;
};

static double speed(const struct bench_measured *measured)
{
	return (double)measured->operations / measured->seconds;
}

static int by_speed(const void *left, const void *right)
{
	double a = speed(left), b = speed(right);

	return (a > b) - (a < b);
}

/* Everything cold but what is in memory by its nature. */
static bool chill(struct bench_slot *slot, struct bench_env *env)
{
	if (!env->options->cold)
		return true;
	if (!bench_slot_again(slot, env))
		return false;
	bench_settle(env);
	bench_drop_cache(env->tree);
	bench_drop_cache(env->made);
	return true;
}

/* The run that warms and tells how often the work fits into the time wanted. */
static bool warm_up(struct bench_crew *crew, const struct bench_scenario *scenario,
		    struct series *series, struct bench_env *env, unsigned threads)
{
	double wanted = env->options->min_ms / 1e3;
	struct bench_task task = {scenario, series->slot, threads, 1};
	struct bench_measured measured;

	series->repeats = 1;
	if (!bench_run_once(crew, &task, env, &measured))
		return false;
	/* What is made ready before each run is not ready for a second pass. */
	if (!scenario->repeatable || env->options->cold || measured.seconds >= wanted ||
	    series->slot->target->ready)
		return true;
	/* The first run pays for first touches; the second one tells. */
	if (!bench_run_once(crew, &task, env, &measured))
		return false;
	if (wanted > measured.seconds) {
		double repeats = wanted / measured.seconds + 1;

		series->repeats = repeats > REPEATS_MAX ? REPEATS_MAX : (unsigned)repeats;
	}
	return true;
}

static void report_series(struct series *series, const struct bench_scenario *scenario,
			  unsigned threads, struct bench_report *report)
{
	const struct bench_measured *median;

	qsort(series->measured, series->count, sizeof(*series->measured), by_speed);
	median = &series->measured[(series->count - 1) / 2];
	bench_report_add(
		report,
		&(struct bench_row){
			.scenario = scenario->name,
			.target = series->slot->target->name,
			.threads = threads,
			.iterations = series->count,
			.ops_per_s = speed(median),
			.mib_per_s = (double)median->bytes / median->seconds / (1024 * 1024),
			.p50_us = median->percentiles.p50_us,
			.p99_us = median->percentiles.p99_us,
			.least_ops_per_s = speed(&series->measured[0]),
			.most_ops_per_s = speed(&series->measured[series->count - 1]),
		});
}

static bool collect(const struct bench_scenario *scenario, struct bench_slots *slots,
		    const struct bench_options *options, struct series *out, size_t *out_count)
{
	size_t count = 0;

	for (size_t i = 0; i < slots->count; i++) {
		struct bench_slot *slot = &slots->slot[i];

		if (!scenario->possible(slot->target) ||
		    !bench_options_want(options, scenario->name, slot->target->name))
			continue;
		out[count] = (struct series){.slot = slot};
		out[count].measured = calloc(options->iterations, sizeof(struct bench_measured));
		if (!out[count++].measured)
			abort();
	}
	*out_count = count;
	return count > 0;
}

static bool run_series(struct bench_crew *crew, const struct bench_scenario *scenario,
		       struct series *series, size_t count, struct bench_env *env, unsigned threads)
{
	for (size_t i = 0; i < count; i++)
		if (!warm_up(crew, scenario, &series[i], env, threads))
			return false;
	for (unsigned round = 0; round < env->options->iterations; round++) {
		for (size_t i = 0; i < count; i++) {
			struct series *one = &series[i];
			struct bench_task task = {scenario, one->slot, threads, one->repeats};

			if (!chill(one->slot, env) ||
			    !bench_run_once(crew, &task, env, &one->measured[one->count++]))
				return false;
		}
	}
	return true;
}

bool bench_run_rounds(struct bench_crew *crew, const struct bench_scenario *scenario,
		      struct bench_slots *slots, struct bench_env *env, unsigned threads,
		      struct bench_report *report)
{
	struct series *series = calloc(slots->count + 1, sizeof(*series));
	size_t count = 0;
	bool good = true;

	if (series && collect(scenario, slots, env->options, series, &count))
		good = run_series(crew, scenario, series, count, env, threads);
	for (size_t i = 0; i < count; i++) {
		if (good)
			report_series(&series[i], scenario, threads, report);
		free(series[i].measured);
	}
	free(series);
	return good;
}
