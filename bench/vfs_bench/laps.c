/*
 * laps.c   latencies of single operations.
 */
#include "bench/vfs_bench/laps.h"

#include <stdlib.h>
#include <string.h>

/* What two readings of the clock in a row are apart at least. */
static uint64_t clock_cost(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 200; i++) {
		uint64_t began = bench_now();
		uint64_t cost = bench_now() - began;

		if (cost < least)
			least = cost;
	}
	return least;
}

void bench_lap_record(struct bench_laps *laps, uint64_t began)
{
	uint64_t now = bench_now();
	uint64_t took = now - began;

	took = took > laps->clock_ns ? took - laps->clock_ns : 0;
	laps->ns[laps->count++ % BENCH_LAPS_MAX] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
	laps->left = laps->stride;
	laps->expired = now > laps->deadline;
}

bool bench_laps_make(struct bench_laps *out)
{
	*out = (struct bench_laps){.ns = malloc(BENCH_LAPS_MAX * sizeof(uint32_t)),
				   .clock_ns = clock_cost()};
	if (out->ns)
		memset(out->ns, 1, BENCH_LAPS_MAX * sizeof(uint32_t));
	return out->ns != NULL;
}

void bench_laps_start(struct bench_laps *laps, uint32_t stride, uint64_t deadline)
{
	laps->count = 0;
	laps->stride = laps->left = stride;
	laps->deadline = deadline;
	laps->expired = false;
}

void bench_laps_dispose(struct bench_laps *laps)
{
	free(laps->ns);
	laps->ns = NULL;
}

static int by_value(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

struct bench_percentiles bench_laps_merge(struct bench_laps *const *laps, size_t count,
					  uint32_t *merged)
{
	struct bench_percentiles out = {0};
	size_t total = 0, middle, high;

	for (size_t i = 0; i < count; i++) {
		size_t held = laps[i]->count < BENCH_LAPS_MAX ? laps[i]->count : BENCH_LAPS_MAX;

		memcpy(merged + total, laps[i]->ns, held * sizeof(*merged));
		total += held;
	}
	if (total == 0)
		return out;
	qsort(merged, total, sizeof(*merged), by_value);
	middle = (total - 1) / 2;
	high = (total - 1) * 99 / 100;
	out.p50_us = merged[middle] / 1e3;
	out.p99_us = merged[high] / 1e3;
	return out;
}
