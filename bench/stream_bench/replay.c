/*
 * replay.c   a run: set up, ticks, checked, taken down.
 */
#include "bench/stream_bench/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/allocations.h"
#include "bench/support.h"

/* A run that takes so much longer than its trace has lost a request. */
#define PATIENCE_NS ((uint64_t)120 * 1000000000)
#define SHUTDOWN_MS 10000
/* Frames of a run that are kept apart; later ones count without a sample. */
#define FRAMES_MAX ((size_t)1 << 16)

/* ---- ticks ---- */

static void sleep_until(uint64_t at_ns)
{
	const struct timespec until = {(time_t)(at_ns / 1000000000u), (long)(at_ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static uint64_t period_ns(const struct replay *replay)
{
	const struct stream_options *options = replay->options;

	return (uint64_t)(options->frame_us ? options->frame_us : options->poll_us) * 1000;
}

static void gauge(struct replay_gauge *gauge, uint64_t value)
{
	gauge->sum += value;
	if (value > gauge->peak)
		gauge->peak = value;
}

static void look_at_backlog(struct replay *replay, uint64_t now_ns)
{
	size_t due = replay->next;

	while (due < replay->trace.count &&
	       replay->trace.request[due].release_ns <= now_ns - replay->start_ns)
		due++;
	gauge(&replay->backlog, due - replay->next);
	gauge(&replay->in_flight, replay->next - replay->ended);
}

static void end_frame(struct replay *replay, uint64_t late_ns)
{
	replay->counts.ticks++;
	if (!replay->options->frame_us)
		return;
	if (replay->frame.count < replay->frame.room)
		stream_samples_add(&replay->frame, replay->ours_ns);
	replay->counts.frames_over_budget += replay->ours_ns >
					     (uint64_t)replay->options->budget_us * 1000;
	replay->counts.frames_late += late_ns >= period_ns(replay);
}

static bool read_due(struct replay *replay, uint64_t now_ns)
{
	while (replay->next < replay->trace.count &&
	       replay->trace.request[replay->next].release_ns <= now_ns - replay->start_ns)
		if (!replay_read_sync(replay, replay->next++))
			return false;
	return true;
}

/* When the host wakes next: at the next tick that is not over; without frames a host that reads by itself wakes for the
 * next release. */
static uint64_t next_wake(const struct replay *replay, uint64_t last_ns)
{
	uint64_t period = period_ns(replay), now = bench_now();
	uint64_t next = last_ns + period;

	if (!replay->scheduler && !replay->options->frame_us)
		return replay->next < replay->trace.count
			       ? replay->start_ns + replay->trace.request[replay->next].release_ns
			       : last_ns;
	return next > now ? next : next + (now - next) / period * period;
}

static bool tick(struct replay *replay, uint64_t wake_ns)
{
	uint64_t now = bench_now();
	bool good;

	replay->ours_ns = 0;
	if (replay->scheduler)
		good = replay_collect(replay) && replay_admit(replay, now);
	else
		good = read_due(replay, now);
	look_at_backlog(replay, now);
	end_frame(replay, now - wake_ns);
	if (good &&
	    now - replay->start_ns >
		    PATIENCE_NS + replay->trace.request[replay->trace.count - 1].release_ns) {
		bench_say("%zu of %zu requests have ended, and nothing happens any more",
			  replay->ended, replay->trace.count);
		return false;
	}
	return good;
}

static bool run_ticks(struct replay *replay)
{
	uint64_t cpu = stream_cpu_ns(), wake;
	bool good = true;

	bench_allocations_start();
	replay->start_ns = wake = bench_now();
	while (good && replay->ended < replay->trace.count) {
		sleep_until(wake);
		good = tick(replay, wake);
		wake = next_wake(replay, wake);
	}
	replay->elapsed_ns = bench_now() - replay->start_ns;
	replay->allocations = bench_allocations_stop();
	replay->cpu_ns = stream_cpu_ns() - cpu;
	return good;
}

/* ---- setting up ---- */

static bool load_trace(struct replay *replay)
{
	const char *path = replay->options->trace;
	struct ldr_error error = {0};
	char *text = NULL;
	size_t length;
	enum ldr_status status = stream_read_text(path, &text, &length, &error);

	if (status == LDR_OK) {
		status = stream_trace_parse(text, length, replay->corpus->size,
					    replay->corpus->count, &replay->trace, &error);
		if (status)
			ldr_error_prefix(&error, status, "%s", path);
	}
	free(text);
	if (status)
		bench_say("%s", error.text);
	return status == LDR_OK;
}

static bool make_samples(struct replay *replay)
{
	struct stream_samples *const all[] = {
		&replay->queue, &replay->network,  &replay->service, &replay->delivery,
		&replay->total, &replay->lateness, &replay->cancel,  &replay->ready};
	size_t count = replay->trace.count;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!stream_samples_make(count, all[i]))
			return false;
	replay->collected = calloc(count, sizeof(*replay->collected));
	replay->first_release = calloc(replay->corpus->count, sizeof(*replay->first_release));
	replay->left = calloc(replay->corpus->count, sizeof(*replay->left));
	if (!stream_samples_make(FRAMES_MAX, &replay->frame) || !replay->collected ||
	    !replay->first_release || !replay->left)
		return false;
	for (size_t i = count; i-- > 0;) {
		const struct stream_request *request = &replay->trace.request[i];

		replay->first_release[request->file] = request->release_ns;
		replay->left[request->file]++;
	}
	return true;
}

/* What the trace reads, opened; a slot of its own or the first slot's files. */
static bool open_files(struct replay *replay)
{
	const struct stream_corpus *corpus = replay->corpus;
	struct ldr_error error = {0};

	for (size_t s = 0; s < REPLAY_SLOTS; s++) {
		if (s && !replay->options->independent) {
			replay->files[s] = replay->files[0];
			continue;
		}
		replay->files[s] = calloc(corpus->count, sizeof(struct ldr_file *));
		if (!replay->files[s])
			return false;
		for (size_t i = 0; i < corpus->count; i++)
			if (replay->left[i] &&
			    ldr_vfs_open(replay->layout.vfs, corpus->path[i], LDR_OPEN_READ,
					 &replay->files[s][i], &error)) {
				bench_say("%s: %s", corpus->path[i], error.text);
				return false;
			}
	}
	return true;
}

static void close_files(struct replay *replay)
{
	for (size_t s = 0; s < REPLAY_SLOTS; s++)
		if (s == 0 || replay->files[s] != replay->files[0])
			stream_close_all(replay->files[s], replay->corpus->count);
}

static bool make_slots(struct replay *replay)
{
	replay->buffers = malloc(REPLAY_BUDGET_BYTES);
	if (!replay->buffers)
		return false;
	memset(replay->buffers, 1, REPLAY_BUDGET_BYTES);
	for (size_t i = 0; i < REPLAY_SLOTS; i++)
		replay->slot[i].bytes = replay->buffers + i * STREAM_LENGTH_MAX;
	return true;
}

/* Reads and checks everything once. */
static bool warm(struct replay *replay)
{
	struct ldr_error error = {0};
	bool good = true;

	for (size_t i = 0; good && i < replay->trace.count; i++) {
		const struct stream_request *wanted = &replay->trace.request[i];
		size_t s = i % REPLAY_SLOTS, length;

		if (ldr_file_pread(replay->files[s][wanted->file], replay->slot[s].bytes,
				   wanted->length, wanted->offset, &length, &error)) {
			bench_say("%s: %s", replay->corpus->path[wanted->file], error.text);
			return false;
		}
		good = replay_validate(replay, i, replay->slot[s].bytes, length);
	}
	replay->validate_ns = 0;
	return good;
}

static bool make_scheduler(struct replay *replay)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_error error = {0};

	options.workers = replay->options->workers[0];
	if (options.workers == 0)
		return true;
	options.max_requests = REPLAY_SLOTS;
	options.max_bytes = REPLAY_BUDGET_BYTES;
	if (replay->options->tracing) {
		options.trace_records = replay->options->trace_records;
		replay->records = calloc(replay->trace.count, sizeof(*replay->records));
		if (!replay->records)
			return false;
	}
	if (!ldr_scheduler_new(&options, &replay->scheduler, &error))
		return true;
	bench_say("scheduler: %s", error.text);
	return false;
}

static bool set_up(struct replay *replay)
{
	return load_trace(replay) && make_samples(replay) && make_slots(replay) &&
	       stream_layout_up(replay->options->layouts.word[0], replay->corpus,
				&replay->layout) &&
	       open_files(replay) && (!replay->options->warm || warm(replay)) &&
	       make_scheduler(replay);
}

static void take_down(struct replay *replay)
{
	struct stream_samples *const all[] = {
		&replay->queue,    &replay->network, &replay->service,
		&replay->delivery, &replay->total,   &replay->lateness,
		&replay->cancel,   &replay->ready,   &replay->frame};

	if (replay->scheduler)
		(void)ldr_scheduler_shutdown(replay->scheduler, SHUTDOWN_MS, NULL);
	ldr_scheduler_free(replay->scheduler);
	if (replay->layout.vfs) {
		close_files(replay);
		stream_layout_down(&replay->layout);
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		stream_samples_dispose(all[i]);
	stream_trace_dispose(&replay->trace);
	free(replay->records);
	free(replay->collected);
	free(replay->first_release);
	free(replay->left);
	free(replay->buffers);
}

bool stream_replay(const struct stream_options *options, const struct stream_corpus *corpus)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	struct stream_load load;
	bool good;

	if (!replay)
		return false;
	replay->options = options;
	replay->corpus = corpus;
	good = set_up(replay) && stream_load_start(&load, options->load_threads);
	if (good) {
		good = run_ticks(replay);
		stream_load_stop(&load);
	}
	good = good && replay_reconcile(replay) && replay_report(replay);
	take_down(replay);
	free(replay);
	return good;
}
