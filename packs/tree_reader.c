/*
 * Looking things up in a parsed tree; see tree_reader.h and tree_priv.h. Parsing is tree_parse.c.
 */
#include "packs/tree_reader.h"

#include <assert.h>
#include <stdlib.h>

#include "common/checksum.h"
#include "common/os_arena.h"
#include "packs/tree_priv.h"

void ldr_tree_free(struct ldr_tree *tree)
{
	if (!tree)
		return;
	ldr_tree_memory_give(&tree->memory);
	free(tree);
}

void ldr_tree_cleanup(struct ldr_tree **tree)
{
	ldr_tree_free(*tree);
}

const struct ldr_tree_totals *ldr_tree_totals(const struct ldr_tree *tree)
{
	return &tree->totals;
}

uint32_t ldr_tree_node_count(const struct ldr_tree *tree)
{
	return tree->node_count;
}

void ldr_tree_node(const struct ldr_tree *tree, uint32_t node, struct ldr_tree_node *out_node)
{
	const struct ldr_tree_entry *entry = tree->nodes + node;

	assert(node < tree->node_count);
	*out_node = (struct ldr_tree_node){
		.kind = ldr_tree_kind(entry),
		.mode = entry->kind_mode & LDR_TREE_MODE_MASK,
		.parent = entry->parent,
		.end = entry->end,
		.name = ldr_tree_text(tree, entry->name_at),
		.name_bytes = entry->name_bytes,
	};
	if (out_node->kind == LDR_KIND_SYMLINK) {
		out_node->target = out_node->name + entry->name_bytes;
		out_node->target_bytes = entry->target_bytes;
	} else if (out_node->kind == LDR_KIND_FILE) {
		out_node->size_bytes = entry->size_bytes;
		out_node->first_block = entry->first_block;
		out_node->block_count = entry->block_count;
	}
}

const struct ldr_block_ref *ldr_tree_block(const struct ldr_tree *tree, uint64_t ordinal)
{
	assert(ordinal < tree->totals.blocks);
	return tree->blocks + ordinal;
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* Below this a huge page would be mostly empty. */
#define ARENA_MIN_BYTES (LDR_OS_HUGE_BYTES / 4)

enum ldr_status ldr_tree_memory_take(struct ldr_tree_memory *memory, size_t length,
				     struct ldr_error *err)
{
	memory->length = length;
	memory->is_arena = length >= ARENA_MIN_BYTES;
	if (memory->is_arena && ldr_os_arena_map(length, &memory->bytes))
		memory->bytes = NULL;
	else if (!memory->is_arena)
		memory->bytes = calloc(1, length);
	if (!memory->bytes)
		return ldr_fail(err, LDR_ENOMEM, "no memory for %zu bytes", length);
	return LDR_OK;
}

void ldr_tree_memory_give(struct ldr_tree_memory *memory)
{
	if (memory->is_arena)
		ldr_os_arena_unmap(memory->bytes, memory->length);
	else
		free(memory->bytes);
	*memory = (struct ldr_tree_memory){0};
}

/* ---- the table of paths ------------------------------------------------------------------------- */

uint64_t ldr_tree_hash(uint64_t parent_hash, const char *name, size_t length)
{
	return ldr_checksum_seeded(name, length, parent_hash);
}

size_t ldr_tree_slot_count(size_t count)
{
	size_t slots = 4;

	while (slots < count + count / 2 + 1)
		slots *= 2;
	return slots;
}

void ldr_tree_index(struct ldr_tree *tree)
{
	/* Order and nesting make paths distinct, so nothing needs comparing here. */
	for (uint32_t node = 1; node < tree->node_count; node++) {
		uint64_t hash = tree->nodes[node].hash;
		uint32_t at = ldr_tree_slot_of(&tree->table, hash);

		while (tree->table.slots[at].node)
			at = (at + 1) & tree->table.mask;
		tree->table.slots[at] = (struct ldr_tree_slot){(uint32_t)(hash >> 32), node};
	}
}

static bool name_is(const struct ldr_tree *tree, const struct ldr_tree_entry *entry,
		    const char *name, size_t length)
{
	return entry->name_bytes == length &&
	       !memcmp(ldr_tree_text(tree, entry->name_at), name, length);
}

uint32_t ldr_tree_child(const struct ldr_tree *tree, uint32_t folder, const char *name,
			size_t length)
{
	uint64_t hash = ldr_tree_hash(tree->nodes[folder].hash, name, length);
	const struct ldr_tree_slot *slot;

	for (uint32_t at = ldr_tree_slot_of(&tree->table, hash);;
	     at = (at + 1) & tree->table.mask) {
		slot = tree->table.slots + at;
		if (!slot->node)
			return 0;
		if (slot->tag == (uint32_t)(hash >> 32) &&
		    tree->nodes[slot->node].parent == folder &&
		    name_is(tree, tree->nodes + slot->node, name, length))
			return slot->node;
	}
}

/* Compares from the end, along the parents. */
static bool path_is(const struct ldr_tree *tree, uint32_t node, const char *path, size_t length)
{
	for (;;) {
		const struct ldr_tree_entry *entry = tree->nodes + node;

		if (entry->name_bytes > length ||
		    memcmp(path + length - entry->name_bytes, ldr_tree_text(tree, entry->name_at),
			   entry->name_bytes) != 0)
			return false;
		length -= entry->name_bytes;
		node = entry->parent;
		if (!node || !length)
			return !node && !length;
		if (path[--length] != '/')
			return false;
	}
}

static size_t component_length(const char *path, size_t length)
{
	const char *slash = memchr(path, '/', length);

	return slash ? (size_t)(slash - path) : length;
}

static uint64_t path_hash(const struct ldr_tree *tree, const char *path, size_t length)
{
	uint64_t hash = tree->nodes[0].hash;

	for (size_t at = 0; at <= length;) {
		size_t step = component_length(path + at, length - at);

		hash = ldr_tree_hash(hash, path + at, step);
		at += step + 1;
	}
	return hash;
}

bool ldr_tree_find(const struct ldr_tree *tree, const char *path, size_t length, uint32_t *out_node)
{
	uint64_t hash;

	if (!length) {
		*out_node = 0;
		return true;
	}
	hash = path_hash(tree, path, length);
	for (uint32_t at = ldr_tree_slot_of(&tree->table, hash);;
	     at = (at + 1) & tree->table.mask) {
		const struct ldr_tree_slot *slot = tree->table.slots + at;

		if (!slot->node)
			return false;
		if (slot->tag == (uint32_t)(hash >> 32) &&
		    path_is(tree, slot->node, path, length)) {
			*out_node = slot->node;
			return true;
		}
	}
}

/* ---- following symlinks ------------------------------------------------------------------------- */

/* One step of a walk: from the folder *at to the entry called so, and on to where it leads. */
static enum ldr_status step_to(const struct ldr_tree *tree, uint32_t *at, unsigned *hops,
			       const char *name, size_t length, struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];
	const struct ldr_tree_entry *entry;
	uint32_t node;

	if (ldr_tree_kind(tree->nodes + *at) != LDR_KIND_FOLDER)
		return ldr_fail(err, LDR_ENOTDIR, "%s is not a folder",
				ldr_tree_quote(tree, *at, quoted));
	node = ldr_tree_child(tree, *at, name, length);
	if (!node)
		return ldr_fail(err, LDR_ENOTFOUND, "%s is not there",
				ldr_path_quote(name, length, quoted));
	entry = tree->nodes + node;
	*at = node;
	if (ldr_tree_kind(entry) != LDR_KIND_SYMLINK)
		return LDR_OK;
	*hops += entry->link_hops;
	if (*hops > LDR_TREE_HOPS_MAX)
		return ldr_fail(err, LDR_ELINK, "symlink %s: %u symlinks on the way, limit %u",
				ldr_tree_quote(tree, node, quoted), *hops, LDR_TREE_HOPS_MAX);
	if (entry->link_to == LDR_LINK_NOTDIR)
		return ldr_fail(err, LDR_ENOTDIR, "symlink %s leads through a file",
				ldr_tree_quote(tree, node, quoted));
	if (entry->link_to == LDR_LINK_DANGLING)
		return ldr_fail(err, LDR_ENOTFOUND, "symlink %s leads nowhere",
				ldr_tree_quote(tree, node, quoted));
	*at = entry->link_to;
	return LDR_OK;
}

enum ldr_status ldr_tree_resolve(const struct ldr_tree *tree, const char *path, uint32_t *out_node,
				 struct ldr_error *err)
{
	size_t length = strlen(path);
	char quoted[LDR_QUOTE_BYTES];
	uint32_t at = 0;
	unsigned hops = 0;
	enum ldr_status status = LDR_OK;

	for (size_t from = 0; length && from <= length && !status;) {
		size_t step = component_length(path + from, length - from);

		status = step_to(tree, &at, &hops, path + from, step, err);
		from += step + 1;
	}
	if (status)
		return ldr_error_prefix(err, status, "path %s",
					ldr_path_quote(path, length, quoted));
	*out_node = at;
	return LDR_OK;
}

/* ---- paths of nodes ----------------------------------------------------------------------------- */

size_t ldr_tree_path(const struct ldr_tree *tree, uint32_t node, char path[LDR_PATH_MAX_BYTES + 1])
{
	size_t at = LDR_PATH_MAX_BYTES + 1;
	size_t length;

	assert(node < tree->node_count);
	path[--at] = '\0';
	while (node) {
		const struct ldr_tree_entry *entry = tree->nodes + node;

		/* Parsing has bounded every path. */
		assert(at >= entry->name_bytes + 1u || (at == entry->name_bytes && !entry->parent));
		at -= entry->name_bytes;
		memcpy(path + at, ldr_tree_text(tree, entry->name_at), entry->name_bytes);
		node = entry->parent;
		if (node)
			path[--at] = '/';
	}
	length = LDR_PATH_MAX_BYTES - at;
	memmove(path, path + at, length + 1);
	return length;
}

const char *ldr_tree_quote(const struct ldr_tree *tree, uint32_t node, char out[LDR_QUOTE_BYTES])
{
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t length = ldr_tree_path(tree, node, path);

	return length ? ldr_path_quote(path, length, out) : ldr_path_quote("/", 1, out);
}
