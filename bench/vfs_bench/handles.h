/*
 * vfs_bench --handles N: many files open at once, and how many descriptors of the system that takes.
 */
#ifndef LDR_BENCH_HANDLES_H
#define LDR_BENCH_HANDLES_H

#include "bench/vfs_bench/slots.h"

/* A line a target: handles, descriptors. False after bench_say when one cannot be opened or read. */
bool bench_handles(struct bench_slots *slots, struct bench_env *env);

#endif
