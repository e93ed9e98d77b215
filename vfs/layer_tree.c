/*
 * A tree over a block source as a layer; see layer_tree.h.
 *
 * A read finds its block by the file's first ordinal, and the block's bytes in the memory cache by
 * a hint: the layer remembers for each block where it lay the last time, so that a hit takes no
 * lock and no look-up. Files of many blocks find theirs by a table of where blocks begin, made when
 * the first such file is opened.
 *
 * A tree with symlinks to folders is no list of paths (a link shows a whole folder again, perhaps
 * itself), so such a layer does not say that it is immutable and is asked by path.
 *
 * An open file's state: [0] first block, [1] number of blocks, [2] length, [3] mode.
 */
#include "vfs/layer_tree.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/lock.h"
#include "vfs/file.h"

/* A file of so many blocks is searched one by one. */
#define FEW_BLOCKS 4u
/* Blocks asked for at once from a source. */
#define WINDOW_BLOCKS 64u

struct tree_layer {
	struct ldr_tree_layer_parts parts;
	struct ldr_placement placement;
	_Atomic uint32_t *hints;    /* one a block; NULL without a memory cache */
	_Atomic(uint64_t *) starts; /* of each block in its file; NULL until wanted */
	struct ldr_mutex starts_lock;
};

static const struct ldr_file_ops tree_file_ops;

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

static enum ldr_status resolve(const struct tree_layer *layer, const struct ldr_layer_path *path,
			       uint32_t *out_node, struct ldr_error *err)
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
	const struct tree_layer *layer = self;
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
	const struct tree_layer *layer = self;
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
	const struct tree_layer *layer = self;
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

/* ---- where a block begins ---- */

/* For all blocks of the tree at once: one pass over them, eight bytes each. */
static uint64_t *make_starts(const struct ldr_tree *tree)
{
	uint64_t *starts = malloc((ldr_tree_totals(tree)->blocks + 1) * sizeof(*starts));
	uint32_t count = ldr_tree_node_count(tree);

	for (uint32_t i = 1; starts && i < count; i++) {
		struct ldr_tree_node node;
		uint64_t at = 0;

		ldr_tree_node(tree, i, &node);
		for (uint64_t k = 0; node.kind == LDR_KIND_FILE && k < node.block_count; k++) {
			starts[node.first_block + k] = at;
			at += ldr_tree_block(tree, node.first_block + k)->plain_bytes;
		}
	}
	return starts;
}

static enum ldr_status want_starts(struct tree_layer *layer, struct ldr_error *err)
{
	uint64_t *starts;

	if (atomic_load_explicit(&layer->starts, memory_order_acquire))
		return LDR_OK;
	ldr_mutex_lock(&layer->starts_lock);
	starts = atomic_load_explicit(&layer->starts, memory_order_relaxed);
	if (!starts) {
		starts = make_starts(layer->parts.tree);
		/* Release: who sees the table sees it filled. */
		atomic_store_explicit(&layer->starts, starts, memory_order_release);
	}
	ldr_mutex_unlock(&layer->starts_lock);
	return starts ? LDR_OK : ldr_fail(err, LDR_ENOMEM, "table of blocks: out of memory");
}

/* ---- opening ---- */

static enum ldr_status tree_open_node(void *self, uint64_t number, struct ldr_layer_file *file,
				      struct ldr_error *err)
{
	struct tree_layer *layer = self;
	struct ldr_tree_node node;
	enum ldr_status status = LDR_OK;

	ldr_tree_node(layer->parts.tree, (uint32_t)number, &node);
	if (node.kind != LDR_KIND_FILE)
		return ldr_fail(err, LDR_EISDIR, "%.*s: is a folder", (int)node.name_bytes,
				node.name);
	if (layer->parts.locked)
		return ldr_fail(err, LDR_ENOKEY, "%.*s: is encrypted, and no key was given",
				(int)node.name_bytes, node.name);
	if (node.block_count > FEW_BLOCKS)
		status = want_starts(layer, err);
	if (status != LDR_OK)
		return status;
	file->ops = &tree_file_ops;
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

/* ---- reading ---- */

/* The block of the file that holds offset, and where it begins. */
static uint64_t find_block(const struct tree_layer *layer, const struct ldr_layer_file *file,
			   uint64_t offset, uint64_t *out_start)
{
	const struct ldr_tree *tree = layer->parts.tree;
	uint64_t first = file->state[0], low = first, high = first + file->state[1];
	const uint64_t *starts;
	uint64_t at = 0;

	if (file->state[1] <= FEW_BLOCKS) {
		for (uint32_t length; low + 1 < high; low++) {
			length = ldr_tree_block(tree, low)->plain_bytes;
			if (offset < at + length)
				break;
			at += length;
		}
		*out_start = at;
		return low;
	}
	/* Pairs with the release in want_starts; the file was opened after it. */
	starts = atomic_load_explicit(&layer->starts, memory_order_acquire);
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (starts[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	*out_start = starts[low];
	return low;
}

/* The block in the memory cache, pinned; false: it is not there. */
static bool pin_block(struct tree_layer *layer, uint64_t ordinal, const struct ldr_block_ref *block,
		      struct ldr_memory_block *out)
{
	struct ldr_memory_cache *memory = layer->parts.memory;
	_Atomic uint32_t *hint = &layer->hints[ordinal];

	if (ldr_memory_get_hinted(memory, block, atomic_load_explicit(hint, memory_order_relaxed),
				  out))
		return true;
	if (!ldr_memory_get(memory, &block->id, out))
		return false;
	if (out->length != block->plain_bytes) {
		ldr_memory_unpin(memory, out);
		return false;
	}
	atomic_store_explicit(hint, ldr_memory_hint(memory, out), memory_order_relaxed);
	return true;
}

/* One read of a file, going through its blocks. */
struct reading {
	struct tree_layer *layer;
	uint8_t *bytes;
	size_t length;
	size_t done;
	uint64_t offset;  /* of what is done next, in the file */
	uint64_t ordinal; /* its block */
	uint64_t start;   /* where that begins */
};

/* Copies what is wanted of the present block and goes on to the next. */
static void take_block(struct reading *reading, const uint8_t *plain, uint32_t plain_bytes)
{
	size_t within = (size_t)(reading->offset - reading->start);
	size_t run = plain_bytes - within;

	if (run > reading->length - reading->done)
		run = reading->length - reading->done;
	memcpy(reading->bytes + reading->done, plain + within, run);
	reading->done += run;
	reading->offset += run;
	if (reading->offset == reading->start + plain_bytes) {
		reading->ordinal++;
		reading->start += plain_bytes;
	}
}

/* As far as the blocks are in memory. */
static void read_pinned(struct reading *reading)
{
	struct tree_layer *layer = reading->layer;

	while (reading->done < reading->length) {
		const struct ldr_block_ref *block = ldr_tree_block(layer->parts.tree,
								   reading->ordinal);
		struct ldr_memory_block pin;

		if (!pin_block(layer, reading->ordinal, block, &pin))
			return;
		take_block(reading, pin.bytes, pin.length);
		ldr_memory_unpin(layer->parts.memory, &pin);
	}
}

static enum ldr_status take_delivered(void *context, size_t want, const void *plain,
				      struct ldr_error *err)
{
	struct reading *reading = context;
	const struct tree_layer *layer = reading->layer;

	(void)want;
	(void)err;
	take_block(reading, plain,
		   ldr_tree_block(layer->parts.tree, reading->ordinal)->plain_bytes);
	return LDR_OK;
}

/* The next blocks, as many as the read needs and fit: from packs, disk, or above, in one request.
 * */
static enum ldr_status read_window(struct reading *reading, struct ldr_error *err)
{
	struct tree_layer *layer = reading->layer;
	struct ldr_placed_block wants[WINDOW_BLOCKS];
	uint64_t end = reading->start, until = reading->offset + reading->length - reading->done;
	size_t count = 0;
	enum ldr_status status = LDR_OK;

	while (count < WINDOW_BLOCKS && end < until) {
		memset(&wants[count], 0, sizeof(wants[count]));
		wants[count].block = *ldr_tree_block(layer->parts.tree, reading->ordinal + count);
		end += wants[count++].block.plain_bytes;
	}
	if (layer->parts.placement)
		status = layer->placement.places(layer->placement.context, reading->ordinal, count,
						 wants, err);
	if (status != LDR_OK)
		return status;
	return ldr_source_read_many(layer->parts.source, wants, count, 0, take_delivered, reading,
				    err);
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	struct tree_layer *layer = file->layer_self;
	struct reading reading = {.layer = layer, .bytes = bytes, .offset = offset};
	enum ldr_status status = LDR_OK;

	if (offset >= file->state[2] || length == 0) {
		*out_length = 0;
		return LDR_OK;
	}
	reading.length = length < file->state[2] - offset ? length
							  : (size_t)(file->state[2] - offset);
	reading.ordinal = find_block(layer, file, offset, &reading.start);
	while (status == LDR_OK && reading.done < reading.length) {
		if (layer->hints)
			read_pinned(&reading);
		if (reading.done < reading.length)
			status = read_window(&reading, err);
	}
	if (status == LDR_OK)
		*out_length = reading.done;
	return status;
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	(void)err;
	*out = (struct ldr_stat){.kind = LDR_KIND_FILE,
				 .mode = (uint32_t)file->state[3],
				 .size_bytes = file->state[2]};
	return LDR_OK;
}

/* ---- mappings: one block, pinned in the memory cache ---- */

static enum ldr_status file_map(struct ldr_layer_file *file, uint64_t offset, size_t length,
				struct ldr_mapping *out, struct ldr_error *err)
{
	struct tree_layer *layer = file->layer_self;
	const struct ldr_block_ref *block;
	struct ldr_memory_block pin;
	uint64_t ordinal, start;
	uint8_t first;
	size_t got;
	enum ldr_status status;

	if (!layer->hints)
		return LDR_EUNSUPPORTED;
	ordinal = find_block(layer, file, offset, &start);
	block = ldr_tree_block(layer->parts.tree, ordinal);
	if (offset + length > start + block->plain_bytes)
		return LDR_EUNSUPPORTED;
	if (!pin_block(layer, ordinal, block, &pin)) {
		status = file_pread(file, &first, 1, offset, &got, err);
		if (status != LDR_OK)
			return status;
		if (!pin_block(layer, ordinal, block, &pin))
			return LDR_EUNSUPPORTED; /* the cache has no room for it */
	}
	out->bytes = pin.bytes + (offset - start);
	out->pin[0] = (uint64_t)(uintptr_t)pin.bytes;
	out->pin[1] = (uint64_t)(uintptr_t)pin.pin;
	out->pin[2] = pin.length;
	return LDR_OK;
}

static void file_unmap(struct ldr_layer_file *file, struct ldr_mapping *mapping)
{
	const struct tree_layer *layer = file->layer_self;
	struct ldr_memory_block pin = {.bytes = (const uint8_t *)(uintptr_t)mapping->pin[0],
				       .length = (uint32_t)mapping->pin[2],
				       .pin = (void *)(uintptr_t)mapping->pin[1]};

	ldr_memory_unpin(layer->parts.memory, &pin);
}

static const struct ldr_file_ops tree_file_ops = {
	.size = sizeof(tree_file_ops),
	.pread = file_pread,
	.stat = file_stat,
	.map = file_map,
	.unmap = file_unmap,
};

/* ---- the layer ---- */

static void tree_free(void *self)
{
	struct tree_layer *layer = self;

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
	struct tree_layer *layer;
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
