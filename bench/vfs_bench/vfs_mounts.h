/*
 * An instance of ldr_vfs with the mounts of a recipe.
 *
 * Threads: made and taken down by the main thread.
 */
#ifndef LDR_BENCH_VFS_MOUNTS_H
#define LDR_BENCH_VFS_MOUNTS_H

#include "bench/vfs_bench/env.h"
#include "vfs/layer.h"
#include "vfs/vfs.h"

struct bench_remote;

/* The self of a target of ours. */
struct bench_mounts {
	struct ldr_vfs *vfs;
	uint32_t last_id;
	const char *data_point; /* static */
	double archive_ms;      /* what opening the archive took; 0: there is none */
	struct bench_remote *remote;
};

bool bench_mounts_up(const struct bench_target *target, struct bench_env *env,
		     struct bench_instance *out);
void bench_mounts_down(void *self);

/* Mounts the layer, which it takes over whatever comes of it, above all that is mounted there. */
bool bench_mount(struct bench_mounts *mounts, struct ldr_layer *layer, const char *at,
		 unsigned flags, const char *what);

#endif
