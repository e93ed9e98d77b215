/*
 * Reading a tree: the listing of a release. docs/formats/tree.md is the normative text.
 *
 *   tree    := "LARDTREE" version:u32=1 flags:u32=0 entries      (the root folder, mode 0755)
 *   entries := (file | folder | symlink)* end                    names strictly rising by bytes
 *   file    := kind_mode:u16 name  count:varint (plain_bytes:varint id:32)*count
 *   folder  := kind_mode:u16 name  entries
 *   symlink := kind_mode:u16 name  length:varint target
 *   end     := 0:u16
 *   name    := length:u8 bytes          kind_mode := kind << 12 | nine mode bits; bits 9-11 are zero
 *
 * The nesting makes a file below a symlink, a missing parent and a double path impossible to say. The
 * rest is refused when parsing, before any path is used: names that break the path rule or are not
 * portable, names of one folder that clash after case folding, the reserved name ".larder" (at the
 * root), paths over 1024 bytes, symlinks that leave the tree, also by way of other symlinks, blocks of
 * more than 256 KiB, totals over the limits.
 *
 * A tree has no recursion on input: the nesting depth is bounded by the path length.
 *
 * Nodes are numbered in the order of the bytes (pre-order); node 0 is the root. Blocks are numbered in
 * the same order: the ordinal that the map, deltas and the installer use.
 *
 * Threads: immutable after parsing.
 */
#ifndef LDR_PACKS_TREE_READER_H
#define LDR_PACKS_TREE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/path.h"
#include "packs/block.h"

#define LDR_TREE_MAGIC "LARDTREE"
#define LDR_TREE_VERSION 1u

enum ldr_kind {
	LDR_KIND_FILE = 1,
	LDR_KIND_FOLDER = 2,
	LDR_KIND_SYMLINK = 3,
};

struct ldr_tree_totals {
	uint64_t files;
	uint64_t folders; /* without the root */
	uint64_t symlinks;
	uint64_t bytes;  /* of all files */
	uint64_t blocks; /* references, in tree order, repeated ones counted again */
};

/* Zero means the default in brackets. A limit that is passed gives LDR_ELIMIT naming both values. */
struct ldr_tree_limits {
	uint64_t max_tree_bytes;  /* (1 GiB) */
	uint64_t max_nodes;       /* (16 Mi) */
	uint64_t max_blocks;      /* (64 Mi) */
	uint64_t max_file_bytes;  /* (256 GiB) */
	uint64_t max_total_bytes; /* (512 GiB) */
};

struct ldr_tree_node {
	enum ldr_kind kind;
	uint32_t mode;    /* nine bits */
	uint32_t parent;  /* node; the root is its own */
	uint32_t end;     /* one past the last node below: the next sibling */
	const char *name; /* borrowed, not NUL-terminated; the root's is empty */
	uint32_t name_bytes;
	const char *target; /* symlinks; borrowed, not NUL-terminated */
	uint32_t target_bytes;
	uint64_t size_bytes;  /* files */
	uint64_t first_block; /* files: ordinal of the first block */
	uint64_t block_count;
};

struct ldr_tree;

/* Copies what it keeps; limits may be NULL. name is for messages. With expected (the totals of the
 * signed record) any difference is LDR_ECORRUPT naming both values. Every broken rule is LDR_ECORRUPT
 * with the entry's place; another version or unknown flags are LDR_EUNSUPPORTED; LDR_ELIMIT, LDR_ENOMEM. */
LDR_API enum ldr_status ldr_tree_parse(const void *bytes, size_t length, const char *name,
				       const struct ldr_tree_limits *limits,
				       const struct ldr_tree_totals *expected,
				       struct ldr_tree **out_tree, struct ldr_error *err);
LDR_API void ldr_tree_free(struct ldr_tree *tree); /* NULL is allowed */
void ldr_tree_cleanup(struct ldr_tree **tree);
#define LDR_AUTO_TREE __attribute__((cleanup(ldr_tree_cleanup)))

LDR_API const struct ldr_tree_totals *ldr_tree_totals(const struct ldr_tree *tree);
LDR_API uint32_t ldr_tree_node_count(const struct ldr_tree *tree); /* with the root */
LDR_API void ldr_tree_node(const struct ldr_tree *tree, uint32_t node,
			   struct ldr_tree_node *out_node);
/* The block with this ordinal; ordinal < totals.blocks is the caller's duty (asserted). */
LDR_API const struct ldr_block_ref *ldr_tree_block(const struct ldr_tree *tree, uint64_t ordinal);
/* Looks a whole path up by hash ("" is the root), without following symlinks. False: not there. */
LDR_API bool ldr_tree_find(const struct ldr_tree *tree, const char *path, size_t length,
			   uint32_t *out_node);
/* As above, but symlinks on the way and at the end are followed inside the tree (at most 40 together;
 * where each leads is known since parsing, so this costs one step a component). LDR_ENOTFOUND (also a
 * symlink that dangles), LDR_ENOTDIR (also through a symlink), LDR_ELINK. */
LDR_API enum ldr_status ldr_tree_resolve(const struct ldr_tree *tree, const char *path,
					 uint32_t *out_node, struct ldr_error *err);
/* The node's path, NUL-terminated, at most LDR_PATH_MAX_BYTES + 1; gives its length. */
LDR_API size_t ldr_tree_path(const struct ldr_tree *tree, uint32_t node,
			     char path[LDR_PATH_MAX_BYTES + 1]);

#endif
