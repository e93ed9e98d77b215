/*
 * A tree over a block source as a layer; see layer_tree.h.
 *
 * Here: names, opening, making the layer. layer_tree_read.c reads.
 *
 * A tree with symlinks to folders is no list of paths (a link shows a whole folder again, perhaps
 * itself), so such a layer does not say that it is immutable and is asked by path.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "vfs/layer_tree_priv.h"

static enum ldr_status fail_path(struct ldr_error *err, enum ldr_status status, const char *path,
				 const char *why)
{
	char shown[LDR_QUOTE_BYTES];

	if (!err)
		return status;
	return ldr_fail(err, status, "%s: %s", ldr_path_quote(path, strlen(path), shown), why);
}

/* ---- names ---- */

/* The folder's name that equals this one when both are folded; false: none. */
static bool find_folded(const struct ldr_tree *tree, uint32_t folder, const char *name,
			size_t name_bytes, struct ldr_tree_node *out)
{
	struct ldr_tree_node above;

	ldr_tree_node(tree, folder, &above);
	for (uint32_t child = folder + 1; child < above.end; child = out->end) {
		ldr_tree_node(tree, child, out);
		if (ldr_name_same_folded(out->name, out->name_bytes, name, name_bytes))
			return true;
	}
	return false;
}

/* The path as the tree has it. */
static bool unfold(const struct ldr_tree *tree, const char *path, char out[LDR_PATH_MAX_BYTES + 1])
{
	size_t used = 0;

	while (*path) {
		size_t length = strcspn(path, "/");
		struct ldr_tree_node found;
		uint32_t folder;

		out[used] = '\0';
		if (ldr_tree_resolve(tree, out, &folder, NULL) != LDR_OK)
			return false;
		ldr_tree_node(tree, folder, &found);
		if (found.kind != LDR_KIND_FOLDER ||
		    !find_folded(tree, folder, path, length, &found) ||
		    used + found.name_bytes + 1 > LDR_PATH_MAX_BYTES)
			return false;
		if (used > 0)
			out[used++] = '/';
		memcpy(out + used, found.name, found.name_bytes);
		used += found.name_bytes;
		path += length + (path[length] == '/');
	}
	out[used] = '\0';
	return true;
}

static enum ldr_status resolve(const struct ldr_tree_layer *layer,
			       const struct ldr_layer_path *path, uint32_t *out_node,
			       struct ldr_error *err)
{
	enum ldr_status status = ldr_tree_resolve(layer->parts.tree, path->text, out_node, NULL);
	char stored[LDR_PATH_MAX_BYTES + 1];

	if (status == LDR_ENOTFOUND && path->fold_case &&
	    unfold(layer->parts.tree, path->text, stored))
		status = ldr_tree_resolve(layer->parts.tree, stored, out_node, NULL);
	if (status == LDR_OK || status == LDR_ENOTFOUND)
		return status;
	return fail_path(err, status, path->text,
			 status == LDR_ENOTDIR ? "a file is in the way" : "symlink refused");
}

static void fill_stat(const struct ldr_tree_node *node, struct ldr_stat *out)
{
	*out = (struct ldr_stat){.kind = node->kind,
				 .mode = node->mode,
				 .size_bytes = node->kind == LDR_KIND_FILE ? node->size_bytes : 0};
}

static enum ldr_status tree_stat_node(void *self, uint64_t number, struct ldr_stat *out,
				      struct ldr_error *err)
{
	const struct ldr_tree_layer *layer = self;
	struct ldr_tree_node node;

	(void)err;
	ldr_tree_node(layer->parts.tree, (uint32_t)number, &node);
	fill_stat(&node, out);
	return LDR_OK;
}

static enum ldr_status tree_stat(void *self, const struct ldr_layer_path *path,
				 struct ldr_stat *out, struct ldr_error *err)
{
	uint32_t node;
	enum ldr_status status = resolve(self, path, &node, err);

	return status == LDR_OK ? tree_stat_node(self, node, out, err) : status;
}

/* Of the ids of its blocks, which are those of their bytes. */
static enum ldr_status tree_identity(void *self, const struct ldr_layer_path *path, uint64_t *out)
{
	const struct ldr_tree_layer *layer = self;
	struct ldr_tree_node node;
	uint64_t identity = 0;
	uint32_t number;
	enum ldr_status status = resolve(layer, path, &number, NULL);

	if (status != LDR_OK)
		return status;
	ldr_tree_node(layer->parts.tree, number, &node);
	for (uint64_t i = 0; i < node.block_count; i++)
		identity = ldr_checksum_seeded(
			&ldr_tree_block(layer->parts.tree, node.first_block + i)->id,
			sizeof(struct ldr_id), identity);
	*out = identity | 1;
	return LDR_OK;
}

/* What a listed node is seen as; false: a symlink that leads nowhere. */
static bool seen_as(const struct ldr_tree *tree, uint32_t number, const struct ldr_tree_node *node,
		    uint32_t *out_number, enum ldr_kind *out_kind)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node target;

	*out_number = number;
	*out_kind = node->kind;
	if (node->kind != LDR_KIND_SYMLINK)
		return true;
	ldr_tree_path(tree, number, path);
	if (ldr_tree_resolve(tree, path, out_number, NULL) != LDR_OK)
		return false;
	ldr_tree_node(tree, *out_number, &target);
	*out_kind = target.kind;
	return true;
}

static enum ldr_status tree_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				 void *context, struct ldr_error *err)
{
	const struct ldr_tree_layer *layer = self;
	const struct ldr_tree *tree = layer->parts.tree;
	struct ldr_tree_node folder, node;
	uint32_t number;
	enum ldr_status status = resolve(layer, path, &number, err);

	if (status != LDR_OK)
		return status;
	ldr_tree_node(tree, number, &folder);
	if (folder.kind != LDR_KIND_FOLDER)
		return fail_path(err, LDR_ENOTDIR, path->text, "is not a folder");
	for (uint32_t child = number + 1; child < folder.end && status == LDR_OK;
	     child = node.end) {
		enum ldr_kind kind;
		uint32_t seen;

		ldr_tree_node(tree, child, &node);
		if (seen_as(tree, child, &node, &seen, &kind))
			status = emit(context, node.name, node.name_bytes, kind, err);
	}
	return status;
}

static enum ldr_status tree_walk(void *self, ldr_emit_node emit, void *context,
				 struct ldr_error *err)
{
	const struct ldr_tree_layer *layer = self;
	const struct ldr_tree *tree = layer->parts.tree;
	uint32_t count = ldr_tree_node_count(tree);
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 1; i < count && status == LDR_OK; i++) {
		char path[LDR_PATH_MAX_BYTES + 1];
		struct ldr_tree_node node;
		enum ldr_kind kind;
		uint32_t seen;
		size_t length;

		ldr_tree_node(tree, i, &node);
		if (!seen_as(tree, i, &node, &seen, &kind))
			continue;
		length = ldr_tree_path(tree, i, path);
		status = emit(context, path, length, kind, seen, err);
	}
	return status;
}

/* ---- opening ---- */

static enum ldr_status tree_open_node(void *self, uint64_t number, struct ldr_layer_file *file,
				      struct ldr_error *err)
{
	struct ldr_tree_layer *layer = self;
	struct ldr_tree_node node;
	enum ldr_status status = LDR_OK;

	ldr_tree_node(layer->parts.tree, (uint32_t)number, &node);
	if (node.kind != LDR_KIND_FILE)
		return ldr_fail(err, LDR_EISDIR, "%.*s: is a folder", (int)node.name_bytes,
				node.name);
	if (layer->parts.locked)
		return ldr_fail(err, LDR_ENOKEY, "%.*s: is encrypted, and no key was given",
				(int)node.name_bytes, node.name);
	if (node.block_count > LDR_TREE_FEW_BLOCKS)
		status = ldr_tree_want_starts(layer, err);
	if (status != LDR_OK)
		return status;
	file->ops = &ldr_tree_file_ops;
	file->state[0] = node.first_block;
	file->state[1] = node.block_count;
	file->state[2] = node.size_bytes;
	file->state[3] = node.mode;
	return LDR_OK;
}

static enum ldr_status tree_open(void *self, const struct ldr_layer_path *path, unsigned how,
				 struct ldr_layer_file *file, struct ldr_error *err)
{
	uint32_t node;
	enum ldr_status status = resolve(self, path, &node, err);

	(void)how;
	return status == LDR_OK ? tree_open_node(self, node, file, err) : status;
}

/* ---- the layer ---- */

static void tree_free(void *self)
{
	struct ldr_tree_layer *layer = self;

	if (layer->parts.owner_free)
		layer->parts.owner_free(layer->parts.owner);
	free(atomic_load_explicit(&layer->starts, memory_order_relaxed));
	free(layer->hints);
	ldr_mutex_dispose(&layer->starts_lock);
	free(layer);
}

/* One table a kind: what `which` says is part of it. */
#define TREE_OPS(name)                                                                      \
	{                                                                                   \
		.size = sizeof(struct ldr_layer_ops), .kind = name, .free = tree_free,      \
		.stat = tree_stat, .open = tree_open, .list = tree_list, .walk = tree_walk, \
		.stat_node = tree_stat_node, .open_node = tree_open_node,                   \
		.identity = tree_identity,                                                  \
	}

static const struct ldr_layer_ops archive_ops = TREE_OPS("archive");
static const struct ldr_layer_ops release_ops = TREE_OPS("release");

static bool links_a_folder(const struct ldr_tree *tree)
{
	uint32_t count = ldr_tree_node_count(tree);

	for (uint32_t i = 1; ldr_tree_totals(tree)->symlinks > 0 && i < count; i++) {
		struct ldr_tree_node node;
		enum ldr_kind kind;
		uint32_t seen;

		ldr_tree_node(tree, i, &node);
		if (node.kind == LDR_KIND_SYMLINK && seen_as(tree, i, &node, &seen, &kind) &&
		    kind == LDR_KIND_FOLDER)
			return true;
	}
	return false;
}

enum ldr_status ldr_layer_tree_new(const struct ldr_tree_layer_parts *parts,
				   struct ldr_layer **out_layer, struct ldr_error *err)
{
	unsigned traits = LDR_LAYER_FOLDS;
	struct ldr_tree_layer *layer;
	enum ldr_status status;

	if (parts->size != sizeof(*parts))
		return ldr_fail(err, LDR_EINVAL, "tree layer: parts of %zu bytes, known are %zu",
				parts->size, sizeof(*parts));
	layer = calloc(1, sizeof(*layer));
	if (!layer)
		return ldr_fail(err, LDR_ENOMEM, "tree layer: out of memory");
	layer->parts = *parts;
	layer->parts.owner_free = NULL; /* stays the caller's until all is well */
	if (parts->placement)
		layer->placement = *parts->placement;
	ldr_mutex_init(&layer->starts_lock, LDR_RANK_LAYER);
	if (parts->memory) {
		layer->hints = calloc(ldr_tree_totals(parts->tree)->blocks + 1,
				      sizeof(layer->hints[0]));
		if (!layer->hints) {
			tree_free(layer);
			return ldr_fail(err, LDR_ENOMEM, "tree layer: out of memory");
		}
	}
	if (!links_a_folder(parts->tree))
		traits |= LDR_LAYER_IMMUTABLE;
	status = ldr_layer_new(parts->is_release ? &release_ops : &archive_ops, layer, traits,
			       out_layer, err);
	if (status != LDR_OK)
		tree_free(layer);
	else
		layer->parts.owner_free = parts->owner_free;
	return status;
}
