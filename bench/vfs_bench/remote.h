/*
 * Remote targets: a release of larderd, mounted with its disk cache full (warm) or empty (cold).
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_REMOTE_H
#define LDR_BENCH_REMOTE_H

#include "bench/vfs_bench/vfs_mounts.h"

bool bench_remote_mount(struct bench_mounts *mounts, const struct bench_env *env, bool cold);
void bench_remote_free(struct bench_remote *remote); /* NULL is allowed */
/* Before each run of the cold target: memory and disk cache are empty again. */
bool bench_remote_chill(void *self);

#endif
