/*
 * Files in memory as a layer: what a program makes at run time, and overrides of its own.
 *
 * A file is a row of extents that never move, so growing copies nothing and readers need no lock
 * against each other or against a writer at another place; a reader beside a writer at the same
 * place sees old or new bytes. An open handle keeps a removed or replaced file.
 *
 * Bounds: all extents, names and tables together stay within max_bytes (LDR_ENOSPACE).
 *
 * Threads: as all layers. Zero-copy mappings are given within one extent, of files that nobody has
 * open for writing.
 */
#ifndef LDR_VFS_LAYER_MEMORY_H
#define LDR_VFS_LAYER_MEMORY_H

#include "vfs/layer.h"

/* Zero means the default in brackets. */
struct ldr_memory_layer_options {
	size_t size; /* sizeof(struct ldr_memory_layer_options) */
	/* (1 GiB) A file that is cut keeps its room until it is replaced or removed and closed. */
	uint64_t max_bytes;
};

/* Owns: ldr_layer_unref. */
LDR_API enum ldr_status ldr_layer_memory_new(
	const struct ldr_memory_layer_options *options, /* may be NULL */
	struct ldr_layer **out_layer, struct ldr_error *err);
/* Adds a file with its parents, before or after mounting. The bytes are copied. LDR_EEXISTS: there
 * is something of that name. LDR_EINVAL: the path, or not a memory layer. LDR_ENOSPACE. */
LDR_API enum ldr_status ldr_layer_memory_put(struct ldr_layer *layer, const char *path,
					     const void *bytes, size_t length,
					     struct ldr_error *err);

#endif
