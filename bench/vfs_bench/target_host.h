/*
 * What the targets on plain folders share: where the data lies, and names by the host's calls (which is
 * what std::filesystem does too).
 */
#ifndef LDR_BENCH_TARGET_HOST_H
#define LDR_BENCH_TARGET_HOST_H

#include "bench/vfs_bench/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prefixes for a target that sees the tree by absolute host paths. */
bool bench_host_up(const struct bench_target *target, struct bench_env *env,
		   struct bench_instance *out);
void bench_host_down(void *self);

bool bench_host_stat(void *self, const char *path, uint64_t *out_size);
bool bench_host_absent(void *self, const char *path);
bool bench_host_list(void *self, const char *folder, uint64_t *out_count);
bool bench_host_make_folder(void *self, const char *path);
bool bench_host_remove(void *self, const char *path);

#ifdef __cplusplus
}
#endif

#endif
