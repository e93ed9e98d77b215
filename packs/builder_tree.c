/*
 * The builder's tree, map and top block; see builder_priv.h.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "packs/builder_priv.h"
#include "packs/tree_writer.h"

static enum ldr_status no_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "builder: no memory for tree and map");
}

static void writer_cleanup(struct ldr_tree_writer **writer)
{
	ldr_tree_writer_free(*writer);
}

/* ---- the tree ---- */

/* One file's block references side by side, reused from file to file. */
struct row {
	struct ldr_block_ref *refs; /* owns */
	uint32_t capacity;
};

static void row_dispose(struct row *row)
{
	free(row->refs);
}

static enum ldr_status gather(const struct ldr_builder *builder, const struct ldr_built_file *file,
			      struct row *row, struct ldr_error *err)
{
	if (file->count > row->capacity) {
		void *grown = reallocarray(row->refs, file->count, sizeof(*row->refs));

		if (!grown)
			return no_memory(err);
		row->refs = grown;
		row->capacity = file->count;
	}
	for (uint32_t i = 0; i < file->count; i++)
		row->refs[i] = ldr_run_block(&builder->blocks, file->first + i)->block;
	return LDR_OK;
}

static enum ldr_status write_entry(const struct ldr_builder *builder, uint32_t i,
				   struct ldr_tree_writer *writer, struct row *row,
				   struct ldr_error *err)
{
	const struct ldr_scan_entry *entry = &builder->scan->entries[i];
	const struct ldr_built_file *file = &builder->files[i];
	enum ldr_status status;

	if (entry->kind == LDR_KIND_FOLDER)
		return ldr_tree_writer_folder_begin(writer, entry->name, entry->mode, err);
	if (entry->kind == LDR_KIND_SYMLINK)
		return ldr_tree_writer_symlink(writer, entry->name, entry->mode, entry->target,
					       err);
	status = gather(builder, file, row, err);
	if (status)
		return status;
	return ldr_tree_writer_file(writer, entry->name, entry->mode, row->refs, file->count, err);
}

static enum ldr_status write_entries(const struct ldr_builder *builder,
				     struct ldr_tree_writer *writer, struct ldr_error *err)
{
	__attribute__((cleanup(row_dispose))) struct row row = {.capacity = 0};
	const struct ldr_scan *scan = builder->scan;
	enum ldr_status status = LDR_OK;
	uint32_t folder = 0;

	for (uint32_t i = 1; i <= scan->count && !status; i++) {
		while (folder != 0 && i == scan->entries[folder].end && !status) {
			status = ldr_tree_writer_folder_end(writer, err);
			folder = scan->entries[folder].parent;
		}
		if (i == scan->count || status)
			break;
		status = write_entry(builder, i, writer, &row, err);
		if (scan->entries[i].kind == LDR_KIND_FOLDER)
			folder = i;
	}
	return status;
}

static enum ldr_status list_places(struct ldr_builder *builder, struct ldr_error *err)
{
	struct ldr_build *result = &builder->result;
	uint64_t at = 0;

	result->places = calloc(result->totals.blocks + 1, sizeof(*result->places));
	if (!result->places)
		return no_memory(err);
	for (uint32_t i = 1; i < builder->scan->count; i++)
		for (uint32_t k = 0; k < builder->files[i].count; k++)
			result->places[at++] =
				ldr_run_block(&builder->blocks, builder->files[i].first + k)->place;
	assert(at == result->totals.blocks);
	return LDR_OK;
}

static enum ldr_status keep_tree(struct ldr_builder *builder, const uint8_t *bytes, size_t length,
				 struct ldr_error *err)
{
	struct ldr_build *result = &builder->result;

	result->tree = malloc(length);
	if (!result->tree)
		return no_memory(err);
	ldr_copy(result->tree, bytes, length);
	result->tree_bytes = length;
	result->stats.files = result->totals.files;
	result->stats.bytes = result->totals.bytes;
	result->stats.blocks = result->totals.blocks;
	return ldr_digest_once(bytes, length, &result->tree_digest, err);
}

enum ldr_status ldr_builder_make_tree(struct ldr_builder *builder, struct ldr_error *err)
{
	__attribute__((cleanup(writer_cleanup))) struct ldr_tree_writer *writer = NULL;
	const uint8_t *bytes;
	size_t length;
	enum ldr_status status = ldr_tree_writer_new(&writer, err);

	if (!status)
		status = write_entries(builder, writer, err);
	if (!status)
		status = ldr_tree_writer_end(writer, &bytes, &length, &builder->result.totals, err);
	if (!status)
		status = keep_tree(builder, bytes, length, err);
	return status ? status : list_places(builder, err);
}

/* ---- tree and map as blocks, and the top block over them ---- */

static void place_rows(const struct ldr_builder *builder, uint32_t first,
		       struct ldr_placed_block *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct ldr_run_block *run = ldr_run_block(&builder->blocks, first + i);

		rows[i] = (struct ldr_placed_block){run->block, run->place};
	}
}

/* Blocks from first on: tree_count of the tree, then those of the map, which are the last ones. */
static enum ldr_status write_top(const struct ldr_builder *builder, uint32_t first,
				 uint32_t tree_count, struct ldr_buffer *out, struct ldr_error *err)
{
	uint32_t count = builder->blocks.count - first;
	LDR_AUTO_FREE struct ldr_placed_block *rows = calloc((size_t)count + 1, sizeof(*rows));
	struct ldr_top top = {.tree_count = tree_count, .map_count = count - tree_count};

	if (!rows)
		return no_memory(err);
	place_rows(builder, first, rows, count);
	top.tree = rows;
	top.map = rows + tree_count;
	return ldr_top_write(&top, out, err);
}

static enum ldr_status store_top(struct ldr_builder *builder, const struct ldr_buffer *top,
				 struct ldr_error *err)
{
	const struct ldr_run_block *run;
	enum ldr_status status = LDR_OK;

	if (top->failed)
		return no_memory(err);
	status = ldr_feed_bytes(builder, top->data, top->length, true, err);
	if (!status)
		status = ldr_feed_drain(builder, err);
	if (status)
		return status;
	run = ldr_run_block(&builder->blocks, builder->blocks.count - 1);
	builder->result.top = (struct ldr_placed_block){run->block, run->place};
	return LDR_OK;
}

static enum ldr_status make_map(struct ldr_builder *builder, struct ldr_buffer *map,
				struct ldr_error *err)
{
	const struct ldr_build *result = &builder->result;

	for (uint64_t i = 0; i < result->totals.blocks; i++)
		ldr_map_put(map, &result->places[i]);
	if (map->failed)
		return no_memory(err);
	builder->result.map_bytes = map->length;
	return LDR_OK;
}

enum ldr_status ldr_builder_store_tree(struct ldr_builder *builder, struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer map;
	LDR_AUTO_BUFFER struct ldr_buffer top;
	const struct ldr_build *result = &builder->result;
	uint32_t first = builder->blocks.count, tree_count;
	enum ldr_status status;

	ldr_buffer_init(&map, SIZE_MAX / 2);
	ldr_buffer_init(&top, LDR_BLOCK_MAX_BYTES);
	builder->keep_together = true;
	status = ldr_feed_bytes(builder, result->tree, result->tree_bytes, false, err);
	tree_count = builder->blocks.count - first;
	if (!status)
		status = make_map(builder, &map, err);
	if (!status)
		status = ldr_feed_bytes(builder, map.data, map.length, false, err);
	if (!status)
		status = ldr_feed_drain(builder, err);
	if (!status)
		status = write_top(builder, first, tree_count, &top, err);
	if (!status)
		status = store_top(builder, &top, err);
	return status;
}
