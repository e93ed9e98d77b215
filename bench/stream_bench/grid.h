/*
 * The basic grid: the same reads through each layout, synchronously and by workers.
 *
 * A pass is 2,048 reads, seven of 4 KiB to one of 1 MiB, 263 MiB together, always the same. "first" is the first pass over freshly
 * mounted layers and opened files, "warm" the same again. Files are opened before. Every read's length is checked, and its first and
 * last byte. With workers up to 32 reads are in flight, within 32 MiB; then comes "cancel": 128 times a read of 1 MiB is submitted,
 * cancelled at once and collected, and then as many are cancelled when they are seen to run (most of the first are still queued, which
 * says little about reads; of the second only those count that the cancel did stop).
 *
 * A row is a line "row KEY=VALUE ...", a cancel phase a line "cancel KEY=VALUE ...". Percentiles are samples at index N p / 100. What
 * workers 0 has no figure for is 0.
 */
#ifndef LDR_BENCH_STREAM_GRID_H
#define LDR_BENCH_STREAM_GRID_H

#include "bench/stream_bench/corpus.h"
#include "bench/stream_bench/layouts.h"
#include "bench/stream_bench/options.h"
#include "bench/stream_bench/samples.h"

#define GRID_READS 2048u
#define GRID_SMALL_BYTES 4096u
#define GRID_LARGE_BYTES (1024u * 1024)
#define GRID_SLOTS 32u
#define GRID_BUDGET_BYTES (32u * 1024 * 1024)
#define GRID_CANCELS 128u
/* Reads of which so many are to be stopped while they run, at most. */
#define GRID_CANCEL_TRIES 1024u

struct grid_read {
	uint32_t file;
	uint32_t length;
	uint64_t offset;
};

struct grid_plan {
	struct grid_read read[GRID_READS];
};

/* What a pass came to. */
struct grid_figures {
	uint64_t bytes;
	uint64_t elapsed_ns;
	uint64_t cpu_ns;
	uint64_t queue_max_ns;
	uint64_t allocations;
};

/* One row at work: a layout with its files open. */
struct grid_row {
	const struct stream_corpus *corpus;
	const struct grid_plan *plan;
	struct stream_layout layout;
	struct ldr_file **files;
	struct stream_samples latency; /* room for a pass */
	struct grid_figures figures;
	uint8_t *buffers; /* GRID_SLOTS of GRID_LARGE_BYTES, touched */
	uint64_t open_ns;
	size_t descriptors; /* without those that the program was started with, but for the first three */
	uint64_t cancel_intents;
	uint64_t cancelled;
	uint64_t peak_bytes;
	uint64_t peak_requests;
	size_t inherited;
	bool wait;
};

/* Length, first and last byte of a read; false after bench_say. */
bool grid_check(const struct grid_row *row, const struct grid_read *read, const uint8_t *bytes,
		size_t length);

/* A pass with workers, and the cancel phase; both leave their figures in the row. */
struct ldr_scheduler;
bool grid_scheduler_new(unsigned workers, struct ldr_scheduler **out_scheduler);
bool grid_pass_async(struct grid_row *row, struct ldr_scheduler *scheduler);
bool grid_cancel_phase(struct grid_row *row, struct ldr_scheduler *scheduler, bool running);

bool stream_grid(const struct stream_options *options, const struct stream_corpus *corpus);

#endif
