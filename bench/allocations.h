/*
 * The counting allocator: malloc, calloc, realloc, aligned_alloc, memalign and posix_memalign of the
 * whole program, over all threads, while counting is on.
 *
 * Under a sanitizer, which brings an allocator of its own, nothing is counted
 * (bench_allocations_work is false).
 *
 * Threads: start and stop by one thread; allocations by any.
 */
#ifndef LDR_BENCH_ALLOCATIONS_H
#define LDR_BENCH_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

bool bench_allocations_work(void);
void bench_allocations_start(void);
uint64_t bench_allocations_stop(void);

#endif
