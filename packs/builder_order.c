/*
 * The builder's order of reading: the layout's files first, then all others in the order of the tree.
 */
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "packs/builder_priv.h"

/* Files by path: entry numbers (the root's 0 is "none"), open addressing by the path's checksum. */
struct path_table {
	uint32_t *slots; /* owns */
	uint32_t mask;
};

static void path_table_dispose(struct path_table *table)
{
	free(table->slots);
}

static enum ldr_status no_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "builder: no memory for the order of files");
}

static bool has_path(const struct ldr_scan *scan, uint32_t entry, const char *path, size_t length)
{
	char own[LDR_PATH_MAX_BYTES + 1];

	return ldr_scan_path(scan, entry, own) == length && memcmp(own, path, length) == 0;
}

static uint32_t *find_slot(const struct ldr_scan *scan, const struct path_table *table,
			   const char *path, size_t length)
{
	uint32_t at = (uint32_t)ldr_checksum(path, length) & table->mask;

	while (table->slots[at] && !has_path(scan, table->slots[at], path, length))
		at = (at + 1) & table->mask;
	return &table->slots[at];
}

static enum ldr_status fill_table(const struct ldr_scan *scan, struct path_table *table,
				  struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	uint32_t size = 1024;

	while (size / 2 < scan->count)
		size *= 2;
	table->slots = calloc(size, sizeof(*table->slots));
	table->mask = size - 1;
	if (!table->slots)
		return no_memory(err);
	for (uint32_t i = 1; i < scan->count; i++) {
		size_t length = ldr_scan_path(scan, i, path);

		*find_slot(scan, table, path, length) = i;
	}
	return LDR_OK;
}

static enum ldr_status find_file(const struct ldr_scan *scan, const struct path_table *table,
				 const char *path, uint32_t *out_entry, struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];
	size_t length = strlen(path);
	uint32_t entry = *find_slot(scan, table, path, length);

	ldr_path_quote(path, length, quoted);
	if (entry == 0)
		return ldr_fail(err, LDR_ENOTFOUND, "layout: no file %s in %s", quoted, scan->dir);
	if (scan->entries[entry].kind == LDR_KIND_FOLDER)
		return ldr_fail(err, LDR_EISDIR, "layout: %s is a folder", quoted);
	if (scan->entries[entry].kind == LDR_KIND_SYMLINK)
		return ldr_fail(err, LDR_ELINK, "layout: %s is a link", quoted);
	*out_entry = entry;
	return LDR_OK;
}

/* taken marks the files that the layout names. */
static enum ldr_status order_layout(struct ldr_builder *builder, bool *taken, struct ldr_error *err)
{
	__attribute__((cleanup(path_table_dispose))) struct path_table table = {.mask = 0};
	const struct ldr_build_options *options = &builder->options;
	enum ldr_status status = fill_table(builder->scan, &table, err);
	char quoted[LDR_QUOTE_BYTES];

	for (size_t i = 0; i < options->layout_count && !status; i++) {
		const char *path = options->layout[i];
		uint32_t entry = 0;

		status = find_file(builder->scan, &table, path, &entry, err);
		if (status)
			break;
		if (taken[entry])
			return ldr_fail(err, LDR_EEXISTS, "layout: %s is named twice",
					ldr_path_quote(path, strlen(path), quoted));
		taken[entry] = true;
		builder->order[builder->order_count++] = entry;
	}
	return status;
}

enum ldr_status ldr_builder_set_order(struct ldr_builder *builder, struct ldr_error *err)
{
	const struct ldr_scan *scan = builder->scan;
	LDR_AUTO_FREE bool *taken = calloc(scan->count, sizeof(*taken));
	enum ldr_status status = LDR_OK;

	builder->order = calloc(scan->count, sizeof(*builder->order));
	if (!taken || !builder->order)
		return no_memory(err);
	if (builder->options.layout_count)
		status = order_layout(builder, taken, err);
	for (uint32_t i = 1; i < scan->count && !status; i++)
		if (scan->entries[i].kind == LDR_KIND_FILE && !taken[i])
			builder->order[builder->order_count++] = i;
	return status;
}
