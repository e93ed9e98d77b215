/*
 * run.c   one run: threads, barriers, the clock.
 */
#include "bench/vfs_bench/run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/allocations.h"
#include "common/os_arena.h"

/* What the threads of a run share. */
struct shift {
	const struct bench_task *task;
	pthread_barrier_t ready; /* prepared; nothing is timed yet */
	pthread_barrier_t begin;
	pthread_barrier_t done;
	pthread_barrier_t counted; /* the allocations of the run have been read */
};

struct seat {
	struct shift *shift;
	struct bench_worker *worker;
	uint64_t began;
	uint64_t ended;
	bool good;
};

bool bench_crew_make(unsigned count, const struct bench_trace *trace, struct bench_crew *out)
{
	bool good;

	*out = (struct bench_crew){.count = count};
	out->worker = calloc(count, sizeof(*out->worker));
	out->merged = malloc(count * BENCH_LAPS_MAX * sizeof(*out->merged));
	good = out->worker && out->merged;
	for (unsigned i = 0; good && i < count; i++) {
		struct bench_worker *worker = &out->worker[i];
		void *buffer = NULL;

		good = bench_laps_make(&worker->laps) &&
		       !ldr_os_arena_map(LDR_OS_HUGE_BYTES, &buffer);
		worker->buffer = buffer;
		worker->index = i;
		if (good)
			memset(buffer, 1, BENCH_BUFFER_BYTES);
		if (!trace)
			continue;
		worker->trace = trace;
		worker->traced_files = calloc(trace->paths.count, sizeof(*worker->traced_files));
		worker->traced_opens = calloc(trace->paths.count, sizeof(*worker->traced_opens));
		good = good && worker->traced_files && worker->traced_opens;
	}
	if (!good)
		bench_say("no memory for %u threads", count);
	return good;
}

void bench_crew_dispose(struct bench_crew *crew)
{
	for (unsigned i = 0; crew->worker && i < crew->count; i++) {
		bench_laps_dispose(&crew->worker[i].laps);
		ldr_os_arena_unmap(crew->worker[i].buffer, LDR_OS_HUGE_BYTES);
		free(crew->worker[i].own_folder);
		free(crew->worker[i].traced_files);
		free(crew->worker[i].traced_opens);
	}
	free(crew->worker);
	free(crew->merged);
}

static void *work(void *argument)
{
	struct seat *seat = argument;
	struct shift *shift = seat->shift;
	struct bench_worker *worker = seat->worker;
	const struct bench_ops *ops = worker->ops;

	if (ops->enter)
		worker->self = ops->enter(shift->task->slot->instance.self);
	seat->good = worker->self || !ops->enter;
	if (seat->good && shift->task->scenario->prepare)
		seat->good = shift->task->scenario->prepare(worker);
	pthread_barrier_wait(&shift->ready);
	pthread_barrier_wait(&shift->begin);
	seat->began = bench_now();
	if (seat->good)
		seat->good = shift->task->scenario->run(worker);
	seat->ended = bench_now();
	pthread_barrier_wait(&shift->done);
	pthread_barrier_wait(&shift->counted);
	if (seat->good && shift->task->scenario->finish)
		seat->good = shift->task->scenario->finish(worker);
	if (ops->leave && worker->self)
		ops->leave(worker->self);
	return NULL;
}

static void assign(struct bench_worker *worker, const struct shift *shift,
		   const struct bench_env *env)
{
	uint64_t deadline = bench_now() + (uint64_t)env->options->max_ms * 1000000;

	worker->count = shift->task->threads;
	worker->repeats = shift->task->repeats;
	worker->ops = shift->task->slot->target->ops;
	worker->self = shift->task->slot->instance.self;
	worker->counts = &env->counts;
	worker->names = &shift->task->slot->names;
	worker->write_prefix = shift->task->slot->instance.write_prefix;
	worker->random = worker->index * UINT64_C(1000003) + 17;
	worker->operations = worker->bytes = 0;
	worker->failed_call = worker->failed_path = NULL;
	bench_laps_start(&worker->laps, shift->task->scenario->stride, deadline);
}

static void sum_up(struct bench_crew *crew, const struct seat *seats, unsigned threads,
		   struct bench_measured *out)
{
	struct bench_laps *laps[BENCH_THREADS_MAX];
	uint64_t began = UINT64_MAX, ended = 0;

	for (unsigned i = 0; i < threads; i++) {
		began = seats[i].began < began ? seats[i].began : began;
		ended = seats[i].ended > ended ? seats[i].ended : ended;
		out->operations += crew->worker[i].operations;
		out->bytes += crew->worker[i].bytes;
		laps[i] = &crew->worker[i].laps;
	}
	out->seconds = (double)(ended - began + 1) / 1e9;
	out->percentiles = bench_laps_merge(laps, threads, crew->merged);
}

static bool all_good(const struct seat *seats, const struct shift *shift, unsigned threads)
{
	for (unsigned i = 0; i < threads; i++) {
		const struct bench_worker *worker = seats[i].worker;

		if (seats[i].good)
			continue;
		bench_say("%s on %s: %s failed: %s", shift->task->scenario->name,
			  shift->task->slot->target->name,
			  worker->failed_call ? worker->failed_call : "a thread's beginning",
			  worker->failed_path ? worker->failed_path : "");
		return false;
	}
	return true;
}

static void init_barriers(struct shift *shift, unsigned threads)
{
	pthread_barrier_init(&shift->ready, NULL, threads + 1);
	pthread_barrier_init(&shift->begin, NULL, threads + 1);
	pthread_barrier_init(&shift->done, NULL, threads + 1);
	pthread_barrier_init(&shift->counted, NULL, threads + 1);
}

static void destroy_barriers(struct shift *shift)
{
	pthread_barrier_destroy(&shift->ready);
	pthread_barrier_destroy(&shift->begin);
	pthread_barrier_destroy(&shift->done);
	pthread_barrier_destroy(&shift->counted);
}

bool bench_run_once(struct bench_crew *crew, const struct bench_task *task,
		    const struct bench_env *env, struct bench_measured *out)
{
	const struct bench_target *target = task->slot->target;
	unsigned threads = task->threads;
	struct shift shift = {.task = task};
	struct seat seats[BENCH_THREADS_MAX];
	pthread_t ids[BENCH_THREADS_MAX];

	*out = (struct bench_measured){0};
	if (task->scenario->writes)
		bench_settle(env);
	if (target->ready && !target->ready(task->slot->instance.self))
		return false;
	init_barriers(&shift, threads);
	for (unsigned i = 0; i < threads; i++) {
		assign(&crew->worker[i], &shift, env);
		seats[i] = (struct seat){.shift = &shift, .worker = &crew->worker[i]};
		/* Threads that wait at a barrier cannot be called back. */
		if (pthread_create(&ids[i], NULL, work, &seats[i]))
			abort();
	}
	pthread_barrier_wait(&shift.ready);
	if (env->options->allocations)
		bench_allocations_start();
	pthread_barrier_wait(&shift.begin);
	pthread_barrier_wait(&shift.done);
	out->allocations = bench_allocations_stop();
	pthread_barrier_wait(&shift.counted);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	destroy_barriers(&shift);
	sum_up(crew, seats, threads, out);
	return all_good(seats, &shift, threads);
}
