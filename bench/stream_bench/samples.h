/*
 * Samples: times of single operations, in an array made beforehand; percentiles are samples that were seen, never
 * something between two of them.
 *
 * Threads: one thread each.
 */
#ifndef LDR_BENCH_STREAM_SAMPLES_H
#define LDR_BENCH_STREAM_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_samples {
	uint64_t *ns; /* owned */
	size_t count;
	size_t room;
};

bool stream_samples_make(size_t room, struct stream_samples *out);
void stream_samples_dispose(struct stream_samples *samples);

/* Asserts that there is room. */
void stream_samples_add(struct stream_samples *samples, uint64_t ns);
/* Before the percentiles. */
void stream_samples_sort(struct stream_samples *samples);
/* The sample at index count * percent / 100; 0 where there is none. */
uint64_t stream_samples_at(const struct stream_samples *samples, unsigned percent);
/* The nearest rank: the least sample that at least percent of all do not pass; 0 where there is none. */
uint64_t stream_samples_rank(const struct stream_samples *samples, unsigned percent);

/* Processor time of the whole process, all threads. */
uint64_t stream_cpu_ns(void);

#endif
