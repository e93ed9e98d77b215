/*
 * A tree over a block source as a layer: one implementation for local archives, cached and remote
 * releases.
 *
 * Names come from the tree (packs/tree_reader.h), bytes from the source (cache/source.h). Opening
 * costs no system call and no descriptor; a read costs none when the block is in memory. Symlinks
 * of the tree are followed inside it.
 *
 * Threads: as all layers; immutable.
 */
#ifndef LDR_VFS_LAYER_TREE_H
#define LDR_VFS_LAYER_TREE_H

#include "cache/source.h"
#include "packs/pack_reader.h"
#include "packs/tree_reader.h"
#include "vfs/layer.h"

/* Where the blocks of the tree lie, for those that have to come from above: fills out[0 .. count)
 * for the blocks first to first + count - 1 of the tree. May go to the network; any thread. */
struct ldr_placement {
	void *context;
	enum ldr_status (*places)(void *context, uint64_t first, uint64_t count,
				  struct ldr_placed_block *out, struct ldr_error *err);
};

/* What a layer over a tree stands on. Everything is borrowed until owner_free is called with the
 * layer's end. */
struct ldr_tree_layer_parts {
	size_t size;     /* sizeof(struct ldr_tree_layer_parts) */
	bool is_release; /* what `which` calls it: "release", else "archive" */
	/* encrypted and without its key: names are listed, opening is LDR_ENOKEY */
	bool locked;
	const struct ldr_tree *tree;
	struct ldr_source *source;
	struct ldr_memory_cache *memory;       /* the one that source uses, or NULL */
	const struct ldr_placement *placement; /* NULL: all blocks are at hand */
	void *owner;
	void (*owner_free)(void *owner); /* may be NULL */
};

LDR_API enum ldr_status ldr_layer_tree_new(const struct ldr_tree_layer_parts *parts,
					   struct ldr_layer **out_layer, struct ldr_error *err);

/* Zero means the default in brackets. */
struct ldr_archive_options {
	size_t size; /* sizeof(struct ldr_archive_options) */
	struct ldr_memory_cache
		*memory;     /* shared with other archives; borrowed (NULL: one of memory_bytes) */
	size_t memory_bytes; /* (64 MiB) */
	/* Reads the pack by a mapping, so that a block that is not in memory costs no system call,
	 * and its index is not copied. The file must not be cut by anybody while it is mounted:
	 * that would be a SIGBUS. Without it a cut file can only make reads fail. */
	bool map;
	uint64_t base;      /* where the pack begins inside a larger file ... */
	uint64_t length;    /* ... and how long it is; 0: to the end */
	const uint8_t *key; /* 32 bytes, the title key of an encrypted pack; copied */
};

/* A local pack that carries its tree. LDR_ECORRUPT, LDR_EUNSUPPORTED, LDR_ENOTFOUND; a missing key
 * is no failure here: names are listed, opening says LDR_ENOKEY. A wrong key is LDR_EUNTRUSTED.
 * Owns: ldr_layer_unref. */
LDR_API enum ldr_status ldr_layer_archive_open(
	const char *path, const struct ldr_archive_options *options, /* may be NULL */
	struct ldr_layer **out_layer, struct ldr_error *err);

#endif
