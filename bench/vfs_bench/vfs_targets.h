/*
 * The targets of Larder: one set of operations over ldr_vfs, and a recipe of mounts each.
 */
#ifndef LDR_BENCH_VFS_TARGETS_H
#define LDR_BENCH_VFS_TARGETS_H

#include "bench/vfs_bench/target.h"

const struct bench_target *bench_vfs_targets(size_t *out_count);

extern const struct bench_ops bench_vfs_ops;

/* What is mounted, from the lowest layer up. */
enum bench_part {
	BENCH_PART_NATIVE = 1u,     /* the tree as a folder, also the write target */
	BENCH_PART_TRUSTED = 2u,    /* ... by plain calls */
	BENCH_PART_WATCHED = 4u,    /* ... with its names in memory */
	BENCH_PART_MEMORY = 8u,     /* the tree in memory, also the write target */
	BENCH_PART_ARCHIVE = 16u,   /* a pack */
	BENCH_PART_MAPPED = 32u,    /* ... read from a mapping */
	BENCH_PART_EIGHTH = 64u,    /* ... with a memory cache of an eighth of the data */
	BENCH_PART_EMBEDDED = 128u, /* ... inside a larger file */
	BENCH_PART_NESTED = 256u,   /* ... eight folders deep, below empty mounts, beside others */
	BENCH_PART_OVERRIDE = 512u, /* an empty watched folder above */
	BENCH_PART_OVERRIDE_LIVE = 1024u, /* an empty folder above, asked each time */
	BENCH_PART_SCRATCH = 2048u,       /* empty memory above all, the write target */
	BENCH_PART_WARM = 4096u,          /* a release whose blocks are in the disk cache */
	BENCH_PART_COLD = 8192u,          /* a release whose blocks are on the server */
};

struct bench_recipe {
	unsigned parts;
	int pack; /* enum bench_pack_kind */
};

#endif
