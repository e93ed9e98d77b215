/*
 * What the files of the tree layer share; for vfs/layer_tree*.c only.
 *
 *   layer_tree.c        names, opening, making the layer
 *   layer_tree_read.c   reading, mapping
 */
#ifndef LDR_VFS_LAYER_TREE_PRIV_H
#define LDR_VFS_LAYER_TREE_PRIV_H

#include <stdatomic.h>

#include "common/lock.h"
#include "vfs/file.h"
#include "vfs/layer_tree.h"

/* A file of so many blocks is searched one by one. */
#define LDR_TREE_FEW_BLOCKS 4u

struct ldr_tree_layer {
	struct ldr_tree_layer_parts parts;
	struct ldr_placement placement;
	_Atomic uint32_t *hints;    /* one a block; NULL without a memory cache */
	_Atomic(uint64_t *) starts; /* of each block in its file; NULL until wanted */
	struct ldr_mutex starts_lock;
};

/* An open file's state: [0] first block, [1] number of blocks, [2] length, [3] mode. */
extern const struct ldr_file_ops ldr_tree_file_ops;

/* Makes the table of where blocks begin, once; before a file of more than LDR_TREE_FEW_BLOCKS is read. */
enum ldr_status ldr_tree_want_starts(struct ldr_tree_layer *layer, struct ldr_error *err);

/* As ldr_layer_archive_open, of an open pack: takes the descriptor, also on failure. */
enum ldr_status ldr_layer_archive_open_fd(int fd, const char *name,
					  const struct ldr_archive_options *options,
					  struct ldr_layer **out_layer, struct ldr_error *err);

#endif
