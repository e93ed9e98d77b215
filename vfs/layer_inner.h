/*
 * An archive that lies inside a mount, opened by its virtual path: packs in folders, packs in
 * releases, packs in packs.
 *
 * The layer stands on the file's bytes as they are when it is opened, not on its path: it may be
 * mounted anywhere, also over itself, outlives the mount that it came from, and cannot lead back to
 * itself. Where the file is one of the host's (a native layer) the pack is read in place; else its
 * bytes are copied into memory that belongs to the layer.
 *
 * Threads: as ldr_layer_archive_open; any thread.
 */
#ifndef LDR_VFS_LAYER_INNER_H
#define LDR_VFS_LAYER_INNER_H

#include "vfs/layer_tree.h"
#include "vfs/vfs.h"

/* Zero means the default in brackets. */
struct ldr_inner_options {
	size_t size;                               /* sizeof(struct ldr_inner_options) */
	const struct ldr_archive_options *archive; /* as for ldr_layer_archive_open; may be NULL */
	/* archives in archives: how many of them one in another, this one counted (8) */
	uint32_t max_depth;
	uint64_t max_copy_bytes; /* of a pack that has to be copied (256 MiB) */
};

/* LDR_ELIMIT: deeper, or larger than may be copied. What opening the file gives, and what
 * ldr_layer_archive_open gives. Owns: ldr_layer_unref. */
LDR_API enum ldr_status ldr_layer_archive_open_inside(
	struct ldr_vfs *vfs, const char *path,
	const struct ldr_inner_options *options, /* may be NULL */
	struct ldr_layer **out_layer, struct ldr_error *err);

#endif
