/*
 * grid.c   the rows of the grid, the synchronous pass, the lines.
 */
#include "bench/stream_bench/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/allocations.h"
#include "bench/support.h"
#include "vfs/scheduler.h"

/* ---- what is read ---- */

static bool plan_reads(const struct stream_corpus *corpus, struct grid_plan *out)
{
	uint32_t *small = calloc(corpus->count, sizeof(*small));
	uint32_t *large = calloc(corpus->count, sizeof(*large));
	size_t smalls = 0, larges = 0;

	for (uint32_t i = 0; small && large && i < corpus->count; i++) {
		if (corpus->size[i] >= GRID_LARGE_BYTES)
			large[larges++] = i;
		else if (corpus->size[i] >= GRID_SMALL_BYTES)
			small[smalls++] = i;
	}
	for (size_t i = 0; smalls && larges && i < GRID_READS; i++) {
		size_t turn = i / 8;
		uint32_t file = i % 8 == 7 ? large[turn % larges]
					   : small[(turn * 7 + i % 8) % smalls];
		uint64_t last = corpus->size[file] - GRID_LARGE_BYTES;

		if (i % 8 == 7)
			out->read[i] = (struct grid_read){file, GRID_LARGE_BYTES,
							  turn / larges % 2 ? last : 0};
		else
			out->read[i] = (struct grid_read){file, GRID_SMALL_BYTES, 0};
	}
	free(small);
	free(large);
	if (smalls && larges)
		return true;
	bench_say("the grid needs files of 4 KiB and of 1 MiB and more");
	return false;
}

bool grid_check(const struct grid_row *row, const struct grid_read *read, const uint8_t *bytes,
		size_t length)
{
	const uint8_t *expected = row->corpus->expected[read->file] + read->offset;

	if (length == read->length && bytes[0] == expected[0] &&
	    bytes[length - 1] == expected[length - 1])
		return true;
	bench_say("%s: offset %llu, length %u: %zu bytes, or another first or last byte",
		  row->corpus->path[read->file], (unsigned long long)read->offset, read->length,
		  length);
	return false;
}

/* ---- a pass ---- */

static bool pass_sync(struct grid_row *row)
{
	struct ldr_error error = {0};

	for (size_t i = 0; i < GRID_READS; i++) {
		const struct grid_read *read = &row->plan->read[i];
		uint64_t began = bench_now();
		size_t length;

		if (ldr_file_pread(row->files[read->file], row->buffers, read->length, read->offset,
				   &length, &error)) {
			bench_say("%s: %s", row->corpus->path[read->file], error.text);
			return false;
		}
		stream_samples_add(&row->latency, bench_now() - began);
		row->figures.bytes += length;
		if (!grid_check(row, read, row->buffers, length))
			return false;
	}
	return true;
}

static bool run_pass(struct grid_row *row, struct ldr_scheduler *scheduler)
{
	uint64_t began, cpu;
	bool good;

	row->figures = (struct grid_figures){0};
	row->latency.count = 0;
	bench_allocations_start();
	cpu = stream_cpu_ns();
	began = bench_now();
	good = scheduler ? grid_pass_async(row, scheduler) : pass_sync(row);
	row->figures.elapsed_ns = bench_now() - began;
	row->figures.cpu_ns = stream_cpu_ns() - cpu;
	row->figures.allocations = bench_allocations_stop();
	stream_samples_sort(&row->latency);
	return good;
}

/* ---- lines ---- */

static unsigned long long wide(uint64_t value)
{
	return value;
}

static void print_pass(const struct grid_row *row, const char *layout, unsigned workers,
		       const char *pass)
{
	const struct grid_figures *figures = &row->figures;
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	printf("row layout=%s workers=%u pass=%s samples=%zu bytes=%llu p50_ns=%llu p95_ns=%llu "
	       "p99_ns=%llu mib_per_s=%.2f cpu_ms=%.2f peak_bytes=%llu peak_requests=%llu "
	       "max_queue_ns=%llu descriptors=%zu open_ns=%llu hot_allocations=%lld rss_kib=%ld\n",
	       layout, workers, pass, row->latency.count, wide(figures->bytes),
	       wide(stream_samples_at(&row->latency, 50)),
	       wide(stream_samples_at(&row->latency, 95)),
	       wide(stream_samples_at(&row->latency, 99)),
	       (double)figures->bytes / (1024 * 1024) / ((double)figures->elapsed_ns / 1e9),
	       (double)figures->cpu_ns / 1e6, wide(row->peak_bytes), wide(row->peak_requests),
	       wide(figures->queue_max_ns), row->descriptors, wide(row->open_ns),
	       bench_allocations_work() ? (long long)figures->allocations : -1LL, usage.ru_maxrss);
	fflush(stdout);
}

static void print_cancel(const struct grid_row *row, const char *layout, unsigned workers,
			 const char *phase)
{
	printf("cancel layout=%s workers=%u phase=%s intents=%llu cancelled=%llu p50_ns=%llu p95_ns=%llu "
	       "p99_ns=%llu hot_allocations=%lld\n",
	       layout, workers, phase, wide(row->cancel_intents), wide(row->cancelled),
	       wide(stream_samples_at(&row->latency, 50)),
	       wide(stream_samples_at(&row->latency, 95)),
	       wide(stream_samples_at(&row->latency, 99)),
	       bench_allocations_work() ? (long long)row->figures.allocations : -1LL);
	fflush(stdout);
}

/* ---- rows ---- */

static bool run_phases(struct grid_row *row, const char *layout, unsigned workers)
{
	static const char *const passes[] = {"first", "warm"};
	struct ldr_scheduler *scheduler = NULL;
	bool good = workers == 0 || grid_scheduler_new(workers, &scheduler);

	for (size_t i = 0; good && i < 2; i++) {
		good = run_pass(row, scheduler);
		if (good)
			print_pass(row, layout, workers, passes[i]);
	}
	for (int running = 0; good && scheduler && running < 2; running++) {
		good = grid_cancel_phase(row, scheduler, running);
		if (good)
			print_cancel(row, layout, workers, running ? "running" : "immediate");
	}
	ldr_scheduler_free(scheduler);
	return good;
}

static bool open_files(struct grid_row *row)
{
	uint64_t began = bench_now();

	row->files = stream_open_all(row->layout.vfs, "", row->corpus);
	row->open_ns = bench_now() - began;
	row->descriptors = bench_descriptors() - row->inherited;
	return row->files != NULL;
}

static bool run_row(const struct stream_options *options, const struct stream_corpus *corpus,
		    const struct grid_plan *plan, const char *layout, unsigned workers)
{
	struct grid_row row = {.corpus = corpus,
			       .plan = plan,
			       .wait = options->wait,
			       .inherited = options->inherited};
	bool good;

	row.buffers = malloc((size_t)GRID_SLOTS * GRID_LARGE_BYTES);
	good = row.buffers && stream_samples_make(GRID_READS, &row.latency);
	if (good)
		memset(row.buffers, 1, (size_t)GRID_SLOTS * GRID_LARGE_BYTES);
	if (good && stream_layout_up(layout, corpus, &row.layout)) {
		good = open_files(&row) && run_phases(&row, layout, workers);
		stream_close_all(row.files, corpus->count);
		stream_layout_down(&row.layout);
	} else {
		good = false;
	}
	stream_samples_dispose(&row.latency);
	free(row.buffers);
	return good;
}

bool stream_grid(const struct stream_options *options, const struct stream_corpus *corpus)
{
	struct grid_plan *plan = calloc(1, sizeof(*plan));
	bool good = plan && plan_reads(corpus, plan);

	for (unsigned round = 0; good && round < options->rounds; round++)
		for (size_t w = 0; good && w < options->worker_count; w++)
			for (size_t i = 0; good && i < options->layouts.count; i++)
				good = run_row(options, corpus, plan, options->layouts.word[i],
					       options->workers[w]);
	free(plan);
	return good;
}
