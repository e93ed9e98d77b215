/*
 * What the files of the tree share: the nodes in memory, the table over their paths, and the steps of
 * parsing. Inside packs/ only.
 *
 * Invariants
 *  1. Nodes are in pre-order; node 0 is the root; nodes[n].parent < n for all others; every parent is
 *     a folder.
 *  2. A node's hash is that of its whole path: XXH3 of its name, seeded by its parent's hash. The root's
 *     hash is the checksum of the tree's bytes, so names cannot be prepared to collide.
 *  3. The table holds every node but the root; its size is a power of two and at least 1.5 times as
 *     large as what it holds, so a probe always meets an empty slot.
 *  4. After parsing every symlink is resolved: link_to is the node where following it ends, or
 *     LDR_LINK_DANGLING, or LDR_LINK_NOTDIR; link_hops counts the symlinks on the way, itself included.
 */
#ifndef LDR_PACKS_TREE_PRIV_H
#define LDR_PACKS_TREE_PRIV_H

#include "packs/tree_reader.h"

#define LDR_TREE_HOPS_MAX 40u /* as Linux has it */
#define LDR_LINK_UNRESOLVED UINT32_MAX
#define LDR_LINK_DANGLING (UINT32_MAX - 1)
#define LDR_LINK_NOTDIR (UINT32_MAX - 2)

#define LDR_TREE_MODE_MASK 0x01ffu
#define LDR_TREE_RESERVED_MASK 0x0e00u
/* Of the reserved bits, in memory only: a folder with a name in it that is not its own folded form. */
#define LDR_TREE_FOLDS 0x0200u

struct ldr_tree_entry {
	uint64_t hash;
	uint64_t size_bytes; /* files */
	uint32_t parent;
	uint32_t end;     /* while a folder is being parsed: its last entry so far, 0 for none */
	uint32_t name_at; /* in text; a symlink's target follows its name */
	union {
		uint32_t first_block; /* files */
		uint32_t link_to;     /* symlinks */
	};
	union {
		uint32_t block_count;  /* files */
		uint32_t target_bytes; /* symlinks */
	};
	uint16_t kind_mode;
	uint8_t name_bytes;
	uint8_t link_hops;
};

_Static_assert(sizeof(struct ldr_tree_entry) <= 48, "a million nodes should stay under 48 MB");

struct ldr_tree_slot {
	uint32_t tag;  /* upper half of the hash */
	uint32_t node; /* 0: empty */
};

/* Zeroed memory: from the heap, or on huge pages where it is large. A pack's index lies in such memory too. */
struct ldr_tree_memory {
	void *bytes;
	size_t length;
	bool is_arena;
};

struct ldr_tree_table {
	struct ldr_tree_slot *slots; /* borrowed */
	uint32_t mask;
};

struct ldr_tree {
	struct ldr_tree_memory memory; /* owns what the next four point into */
	struct ldr_tree_entry *nodes;
	struct ldr_block_ref *blocks;
	struct ldr_tree_table table;
	char *text; /* names and targets */
	uint32_t text_bytes;
	uint32_t node_count;
	struct ldr_tree_totals totals;
};

/* Where the bytes come from: what a broken rule means. From outside it is LDR_ECORRUPT; in a tree that
 * we write it is the caller's LDR_EINVAL (names) or LDR_ELINK. */
enum ldr_tree_origin {
	LDR_TREE_FROM_OUTSIDE,
	LDR_TREE_FROM_WRITER,
};

static inline enum ldr_kind ldr_tree_kind(const struct ldr_tree_entry *entry)
{
	return (enum ldr_kind)(entry->kind_mode >> 12);
}

static inline const char *ldr_tree_text(const struct ldr_tree *tree, uint32_t at)
{
	return tree->text + at;
}

/* Borrowed for the call. */
struct ldr_tree_input {
	const void *bytes;
	size_t length;
	const char *name; /* for messages */
};

enum ldr_status ldr_tree_parse_as(enum ldr_tree_origin origin, const struct ldr_tree_input *input,
				  const struct ldr_tree_limits *limits,
				  const struct ldr_tree_totals *expected,
				  struct ldr_tree **out_tree, struct ldr_error *err);

/* The status of a broken rule, by origin; err's is changed with it. Others pass. */
enum ldr_status ldr_tree_rule(enum ldr_tree_origin origin, enum ldr_status status,
			      struct ldr_error *err);

/* Folds to ".larder"; such a name is refused at the root. */
bool ldr_tree_is_reserved(const char *name, size_t length);

uint64_t ldr_tree_hash(uint64_t parent_hash, const char *name, size_t length);
enum ldr_status ldr_tree_memory_take(struct ldr_tree_memory *memory, size_t length,
				     struct ldr_error *err);
void ldr_tree_memory_give(struct ldr_tree_memory *memory);

/* How many slots a table for count nodes has. */
size_t ldr_tree_slot_count(size_t count);
/* The first slot to look at for this hash; the following ones are next to it, round the end. */
static inline uint32_t ldr_tree_slot_of(const struct ldr_tree_table *table, uint64_t hash)
{
	return (uint32_t)hash & table->mask;
}

/* Fills tree->table, whose slots are all empty. */
void ldr_tree_index(struct ldr_tree *tree);
/* The entry of this name in this folder; 0: there is none. */
uint32_t ldr_tree_child(const struct ldr_tree *tree, uint32_t folder, const char *name,
			size_t length);
/* Names of one folder that are equal after folding: LDR_EINVAL naming both. */
enum ldr_status ldr_tree_check_clashes(const struct ldr_tree *tree, struct ldr_error *err);
/* Establishes invariant 4; LDR_ELINK naming the link that leaves the tree or passes too many others. */
enum ldr_status ldr_tree_resolve_links(struct ldr_tree *tree, struct ldr_error *err);
/* A node's path fit for a message. Returns out. */
const char *ldr_tree_quote(const struct ldr_tree *tree, uint32_t node, char out[LDR_QUOTE_BYTES]);

#endif
