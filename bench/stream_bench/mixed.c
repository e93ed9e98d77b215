/*
 * mixed.c   local reads beside slow remote ones.
 */
#include "bench/stream_bench/mixed.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stream_bench/layouts.h"
#include "bench/stream_bench/samples.h"
#include "bench/stream_bench/slow_server.h"
#include "bench/support.h"
#include "common/lock.h"
#include "vfs/scheduler.h"

#define SLOW_POINT "slow"
#define SLOW_MOUNT 2u
#define SLOW_TAG ((uint64_t)1 << 32)
#define READ_BYTES 4096u
#define SLOW_BYTES (64u * 1024)
#define SLOTS_MAX 200u
#define SAMPLES_MAX ((size_t)1 << 21)
#define WORKERS 2u
#define QUIET_WAITS 2000
#define POLL_MOST 64

struct mixed {
	const struct stream_options *options;
	const struct stream_corpus *corpus;
	struct stream_layout local; /* its store publishes what the slow server serves */
	struct slow_server server;
	char *store_folder;
	struct ldr_file **files;
	struct ldr_file **slow_files;
	struct ldr_scheduler *scheduler;
	uint8_t *bytes;      /* the local read's */
	uint8_t *slow_bytes; /* SLOW_BYTES for each slow slot */
	struct ldr_completion completion[POLL_MOST];

	uint32_t free_slot[SLOTS_MAX];
	unsigned free_count;
	uint32_t file_of[SLOTS_MAX];
	size_t next_slow; /* the next file that was not asked for */
	uint64_t slow_done;
	uint64_t slow_cancelled;
	unsigned least_in_flight;
	uint64_t looks; /* between local reads, and how many workers were busy then, added up */
	uint64_t running;
	bool local_ended;
	uint64_t local_ns;
	struct stream_samples samples;
};

/* ---- slow reads ---- */

static bool submit_slow(struct mixed *mixed)
{
	uint32_t slot = mixed->free_slot[mixed->free_count - 1];
	size_t file = mixed->next_slow;
	struct ldr_io_request request = {.kind = LDR_IO_READ, .tag = SLOW_TAG | slot};
	struct ldr_error error = {0};

	if (file >= mixed->corpus->count) {
		bench_say("all %zu files of the corpus were asked for: it is too small",
			  mixed->corpus->count);
		return false;
	}
	request.file = mixed->slow_files[file];
	request.bytes = mixed->slow_bytes + (size_t)slot * SLOW_BYTES;
	request.length = mixed->corpus->size[file] < SLOW_BYTES ? (size_t)mixed->corpus->size[file]
								: SLOW_BYTES;
	if (ldr_scheduler_submit(mixed->scheduler, &request, NULL, &error)) {
		bench_say("submit: %s", error.text);
		return false;
	}
	mixed->file_of[slot] = (uint32_t)file;
	mixed->next_slow++;
	mixed->free_count--;
	return true;
}

static unsigned slow_in_flight(const struct mixed *mixed)
{
	return mixed->options->slow_reads - mixed->free_count;
}

static bool take_slow(struct mixed *mixed, const struct ldr_completion *done)
{
	uint32_t slot = (uint32_t)done->tag;
	uint32_t file = mixed->file_of[slot];

	mixed->free_slot[mixed->free_count++] = slot;
	if (done->outcome == LDR_IO_CANCELLED) {
		mixed->slow_cancelled++;
		return true;
	}
	mixed->slow_done++;
	if (done->status == LDR_OK && !memcmp(mixed->slow_bytes + (size_t)slot * SLOW_BYTES,
					      mixed->corpus->expected[file], done->length))
		return true;
	bench_say("%s/%s: %s", SLOW_POINT, mixed->corpus->path[file],
		  done->status ? done->error.text : "other bytes than expected");
	return false;
}

static bool take_local(struct mixed *mixed, const struct ldr_completion *done)
{
	mixed->local_ended = true;
	mixed->local_ns = done->times.collected_ns - done->times.submitted_ns;
	if (done->status == LDR_OK &&
	    !memcmp(mixed->bytes, mixed->corpus->expected[done->tag], done->length))
		return true;
	bench_say("%s: %s", mixed->corpus->path[done->tag],
		  done->status ? done->error.text : "other bytes than expected");
	return false;
}

static bool collect(struct mixed *mixed)
{
	size_t count = ldr_scheduler_poll(mixed->scheduler, mixed->completion, POLL_MOST);
	bool good = true;

	for (size_t i = 0; good && i < count; i++)
		good = mixed->completion[i].tag & SLOW_TAG
			       ? take_slow(mixed, &mixed->completion[i])
			       : take_local(mixed, &mixed->completion[i]);
	if (count == 0)
		sched_yield();
	return good;
}

/* ---- phases ---- */

static bool read_local(struct mixed *mixed, size_t turn)
{
	size_t file = turn % mixed->corpus->count;
	const struct ldr_io_request request = {
		.kind = LDR_IO_READ,
		.tag = file,
		.file = mixed->files[file],
		.bytes = mixed->bytes,
		.length = READ_BYTES,
	};
	struct ldr_error error = {0};
	bool good = true;

	mixed->local_ended = false;
	if (ldr_scheduler_submit(mixed->scheduler, &request, NULL, &error)) {
		bench_say("submit: %s", error.text);
		return false;
	}
	while (good && !mixed->local_ended)
		good = collect(mixed);
	if (good && mixed->samples.count < mixed->samples.room)
		stream_samples_add(&mixed->samples, mixed->local_ns);
	return good;
}

static bool top_up(struct mixed *mixed)
{
	unsigned in_flight = slow_in_flight(mixed);

	if (in_flight < mixed->least_in_flight)
		mixed->least_in_flight = in_flight;
	while (mixed->free_count)
		if (!submit_slow(mixed))
			return false;
	return true;
}

/* No local read is in flight now: who is on a worker is a slow one. */
static void look(struct mixed *mixed)
{
	struct ldr_scheduler_metrics metrics;

	ldr_scheduler_metrics(mixed->scheduler, &metrics);
	mixed->looks++;
	mixed->running += metrics.running;
}

static bool run_phase(struct mixed *mixed, bool slow, uint64_t *out_p99)
{
	uint64_t until = bench_now() + (uint64_t)mixed->options->seconds * 1000000000u;
	bool good = true;

	mixed->samples.count = 0;
	for (size_t turn = 0; good && bench_now() < until; turn++) {
		if (slow) {
			look(mixed);
			good = top_up(mixed);
		}
		good = good && read_local(mixed, turn);
	}
	stream_samples_sort(&mixed->samples);
	*out_p99 = stream_samples_rank(&mixed->samples, 99);
	return good;
}

/* Until no slow read is left and the server waits for nothing. */
static bool calm(struct mixed *mixed)
{
	bool good = true;

	(void)ldr_scheduler_cancel_tagged(mixed->scheduler, SLOW_TAG, SLOW_TAG);
	atomic_store(&mixed->server.delay_ms, 0);
	for (int i = 0; good && i < QUIET_WAITS; i++) {
		good = collect(mixed);
		if (slow_in_flight(mixed) == 0 && atomic_load(&mixed->server.active) == 0)
			return good;
		ldr_thread_pause_us(5000);
	}
	if (good)
		bench_say("%u slow reads do not end, %u requests wait", slow_in_flight(mixed),
			  atomic_load(&mixed->server.active));
	return false;
}

static bool run_pair(struct mixed *mixed, unsigned pair, double *out_ratio)
{
	unsigned long asked = atomic_load(&mixed->server.requests);
	uint64_t done = mixed->slow_done, without, with;

	if (!run_phase(mixed, false, &without))
		return false;
	atomic_store(&mixed->server.delay_ms, mixed->options->delay_ms);
	if (!top_up(mixed))
		return false;
	mixed->least_in_flight = mixed->options->slow_reads;
	mixed->looks = mixed->running = 0;
	if (!run_phase(mixed, true, &with))
		return false;
	*out_ratio = without ? (double)with / (double)without : 0;
	printf("mixed pair=%u without_p99_ns=%llu with_p99_ns=%llu ratio=%.3f samples=%zu "
	       "least_in_flight=%u slow_done=%llu server_requests=%lu mean_running=%.3f\n",
	       pair, (unsigned long long)without, (unsigned long long)with, *out_ratio,
	       mixed->samples.count, mixed->least_in_flight,
	       (unsigned long long)(mixed->slow_done - done),
	       atomic_load(&mixed->server.requests) - asked,
	       mixed->looks ? (double)mixed->running / (double)mixed->looks : 0.0);
	fflush(stdout);
	return calm(mixed);
}

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static bool run_pairs(struct mixed *mixed)
{
	unsigned pairs = mixed->options->pairs;
	double *ratio = calloc(pairs, sizeof(*ratio));
	bool good = ratio != NULL;
	uint64_t unused;

	/* What comes with the first reads is no figure. */
	good = good && run_phase(mixed, false, &unused);
	for (unsigned i = 0; good && i < pairs; i++)
		good = run_pair(mixed, i + 1, &ratio[i]);
	if (good) {
		qsort(ratio, pairs, sizeof(*ratio), by_value);
		printf("mixed pairs=%u median_ratio=%.3f least=%.3f most=%.3f\n", pairs,
		       ratio[pairs / 2], ratio[0], ratio[pairs - 1]);
	}
	free(ratio);
	return good;
}

/* ---- setting up ---- */

/* The store is published by the layout remote-cold, which needs larderd to have served it once; its folder is then served
 * slowly. */
static bool mount_slow(struct mixed *mixed)
{
	struct bench_store slow = mixed->local.store;
	char *made = bench_join(mixed->corpus->folder, "made");
	char cache[64];
	struct ldr_layer *layer = NULL;
	bool good;

	snprintf(cache, sizeof(cache), "cache-slow-%llu", (unsigned long long)bench_now());
	mixed->local.cache = bench_join(made, cache);
	mixed->store_folder = bench_join(made, "store");
	free(made);
	good = slow_server_start(mixed->store_folder, &mixed->server);
	if (good && asprintf(&slow.source, "%s#live", mixed->server.url) < 0)
		abort();
	good = good &&
	       bench_store_layer(&slow, mixed->local.cache, (size_t)256 * 1024 * 1024, &layer) &&
	       stream_mount(mixed->local.vfs, layer, SLOW_MOUNT, SLOW_POINT);
	if (slow.source != mixed->local.store.source)
		free(slow.source);
	ldr_vfs_settle(mixed->local.vfs);
	return good;
}

static bool publish(struct mixed *mixed)
{
	char *tree = bench_join(mixed->corpus->folder, "loose");
	char *made = bench_join(mixed->corpus->folder, "made");
	char *program = bench_program_folder();
	const struct bench_store_request request = {.tree = tree, .made = made, .program = program};
	bool good = bench_make_folders(made) && bench_store_up(&request, &mixed->local.store);

	free(tree);
	free(made);
	free(program);
	return good;
}

static bool set_up(struct mixed *mixed)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_error error = {0};
	unsigned slots = mixed->options->slow_reads;

	options.workers = WORKERS;
	options.max_requests = slots + 1;
	options.max_bytes = (uint64_t)slots * SLOW_BYTES + READ_BYTES;
	mixed->bytes = malloc(READ_BYTES);
	mixed->slow_bytes = malloc((size_t)slots * SLOW_BYTES);
	for (mixed->free_count = 0; mixed->free_count < slots; mixed->free_count++)
		mixed->free_slot[mixed->free_count] = mixed->free_count;
	if (!mixed->bytes || !mixed->slow_bytes ||
	    !stream_samples_make(SAMPLES_MAX, &mixed->samples) ||
	    !stream_layout_up("raw.pack", mixed->corpus, &mixed->local) || !publish(mixed) ||
	    !mount_slow(mixed))
		return false;
	mixed->files = stream_open_all(mixed->local.vfs, "", mixed->corpus);
	mixed->slow_files = stream_open_all(mixed->local.vfs, SLOW_POINT, mixed->corpus);
	if (!mixed->files || !mixed->slow_files)
		return false;
	if (!ldr_scheduler_new(&options, &mixed->scheduler, &error))
		return true;
	bench_say("scheduler: %s", error.text);
	return false;
}

static void take_down(struct mixed *mixed)
{
	atomic_store(&mixed->server.delay_ms, 0);
	ldr_scheduler_free(mixed->scheduler);
	stream_close_all(mixed->files, mixed->corpus->count);
	stream_close_all(mixed->slow_files, mixed->corpus->count);
	if (mixed->local.vfs)
		stream_layout_down(&mixed->local);
	slow_server_stop(&mixed->server);
	stream_samples_dispose(&mixed->samples);
	free(mixed->store_folder);
	free(mixed->bytes);
	free(mixed->slow_bytes);
}

bool stream_mixed(const struct stream_options *options, const struct stream_corpus *corpus)
{
	struct mixed *mixed = calloc(1, sizeof(*mixed));
	bool good;

	if (!mixed)
		return false;
	mixed->options = options;
	mixed->corpus = corpus;
	good = set_up(mixed) && run_pairs(mixed);
	take_down(mixed);
	free(mixed);
	return good;
}
