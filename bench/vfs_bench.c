/*
 * vfs_bench.c   Larder's virtual file system beside stdio, streams, posix, loose files over HTTP, PhysicsFS
 * and the floor (docs/internals/vfs_bench.md).
 *
 * Exit status: 0 done, 1 failed, 2 usage.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/vfs_bench/handles.h"
#include "bench/vfs_bench/run.h"
#include "bench/vfs_bench/verify.h"

static void print_list(void)
{
	size_t count;
	const struct bench_scenario *const *scenarios = bench_scenarios(&count);

	puts("scenarios:");
	for (size_t i = 0; i < count; i++)
		printf("  %s\n", scenarios[i]->name);
	puts("targets:");
	for (size_t i = 0; i < bench_target_count(); i++)
		printf("  %s\n", bench_target_at(i)->name);
}

static bool run_scenario(struct bench_crew *crew, const struct bench_scenario *scenario,
			 struct bench_slots *slots, struct bench_env *env,
			 struct bench_report *report)
{
	const struct bench_options *options = env->options;

	for (size_t t = 0; t < options->thread_count; t++) {
		size_t from = report->count;

		if (!bench_run_rounds(crew, scenario, slots, env, options->threads[t], report))
			return false;
		bench_report_print(report, from);
	}
	return true;
}

static bool run_all(struct bench_crew *crew, struct bench_slots *slots, struct bench_env *env,
		    const struct bench_trace *trace)
{
	struct bench_report report = {0};
	size_t count;
	const struct bench_scenario *const *scenarios = bench_scenarios(&count);
	struct bench_scenario replay = bench_scenario_trace;
	bool good = true;

	if (trace) {
		replay.name = trace->name;
		good = run_scenario(crew, &replay, slots, env, &report);
	}
	for (size_t i = 0; !trace && good && i < count; i++)
		good = run_scenario(crew, scenarios[i], slots, env, &report);
	good = good && bench_report_write(&report, env->options);
	if (good && report.count == 0) {
		bench_say("nothing to run: no scenario and target that was asked for");
		good = false;
	}
	bench_report_dispose(&report);
	return good;
}

static unsigned most_threads(const struct bench_options *options)
{
	unsigned most = 1;

	for (size_t i = 0; i < options->thread_count; i++)
		most = options->threads[i] > most ? options->threads[i] : most;
	return most;
}

static bool run_slots(struct bench_env *env, struct bench_slots *slots,
		      const struct bench_trace *trace)
{
	struct bench_crew crew = {0};
	bool good;

	if (env->options->handles)
		return bench_handles(slots, env);
	if (env->options->verify)
		return bench_verify(slots, env);
	good = bench_crew_make(most_threads(env->options), trace, &crew);

	if (good && env->options->allocations)
		good = bench_run_allocations(&crew, slots, env);
	else if (good)
		good = run_all(&crew, slots, env, trace);
	bench_crew_dispose(&crew);
	return good;
}

static bool run(const struct bench_options *options)
{
	struct bench_env env = {0};
	struct bench_slots slots = {0};
	struct bench_trace trace = {0};
	char *program = bench_program_folder();
	bool good = bench_env_up(&env, options, program);

	if (good && options->trace)
		good = bench_trace_load(options->trace, &trace) && bench_trace_tree(&trace, &env);
	else if (good)
		good = options->data ? bench_env_walk(&env) : bench_dataset(&env);
	if (good)
		printf("dataset: %zu files, %.1f MiB in %s; %s cache, %u rounds\n", env.item_count,
		       (double)env.item_bytes / (1024 * 1024), env.tree,
		       options->cold ? "cold" : "warm", options->iterations);
	fflush(stdout);
	good = good && bench_slots_up(&env, options->trace ? &trace : NULL, &slots) &&
	       run_slots(&env, &slots, options->trace ? &trace : NULL);
	bench_slots_down(&slots);
	bench_trace_dispose(&trace);
	bench_env_down(&env);
	free(program);
	return good;
}

int main(int count, char **arguments)
{
	struct bench_options options;
	enum bench_parse parsed = bench_options_parse(count, arguments, &options);
	bool good = true;

	if (parsed == BENCH_PARSE_OK && options.list) {
		print_list();
	} else if (parsed == BENCH_PARSE_OK) {
		bench_print_build();
		curl_global_init(CURL_GLOBAL_DEFAULT);
		good = run(&options);
	}
	bench_options_dispose(&options);
	return parsed == BENCH_PARSE_USAGE ? 2 : good ? 0 : 1;
}
