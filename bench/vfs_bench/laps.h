/*
 * Laps: how long single operations took, into an array made and touched beforehand.
 *
 * Reading the clock costs as much as the fastest operations here, so of those only each sixteenth is
 * timed (stride), and what the clock itself takes is taken off. The clock reading also tells when a
 * run has lasted long enough.
 *
 * Threads: one thread each.
 */
#ifndef LDR_BENCH_LAPS_H
#define LDR_BENCH_LAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/support.h"

#define BENCH_LAPS_MAX ((size_t)1 << 16)

struct bench_laps {
	uint32_t *ns; /* BENCH_LAPS_MAX of them; past that the oldest are written over */
	size_t count;
	uint32_t stride;
	uint32_t left; /* operations until the next one that is timed */
	uint64_t clock_ns;
	uint64_t deadline;
	bool expired;
};

void bench_lap_record(struct bench_laps *laps, uint64_t began);

/* 0: this operation is not timed. */
static inline uint64_t bench_lap_begin(struct bench_laps *laps)
{
	return --laps->left ? 0 : bench_now();
}

static inline void bench_lap_end(struct bench_laps *laps, uint64_t began)
{
	if (began)
		bench_lap_record(laps, began);
}

bool bench_laps_make(struct bench_laps *out);
void bench_laps_start(struct bench_laps *laps, uint32_t stride, uint64_t deadline);
void bench_laps_dispose(struct bench_laps *laps);

/* Percentiles over the laps of several threads together, in microseconds. Sorts merged, which has
 * room for all of them. */
struct bench_percentiles {
	double p50_us;
	double p99_us;
};

struct bench_percentiles bench_laps_merge(struct bench_laps *const *laps, size_t count,
					  uint32_t *merged);

#endif
