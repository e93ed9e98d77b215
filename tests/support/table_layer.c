/*
 * See table_layer.h.
 */
#include "tests/support/table_layer.h"

#include <stdlib.h>
#include <string.h>

struct table {
	const struct table_row *rows;
	size_t count;
	struct table_moods *moods;
	struct table_moods own;
};

static const struct table_row *find(const struct table *table, const char *path)
{
	for (size_t i = 0; i < table->count; i++) {
		if (strcmp(table->rows[i].path, path) == 0)
			return &table->rows[i];
	}
	return NULL;
}

/* A parent that is a file makes the difference between "not here" and "in the way". */
static enum ldr_status why_not(const struct table *table, const char *path)
{
	for (size_t i = 0; i < table->count; i++) {
		size_t length = strlen(table->rows[i].path);

		if (table->rows[i].bytes && strncmp(path, table->rows[i].path, length) == 0 &&
		    path[length] == '/')
			return LDR_ENOTDIR;
	}
	return LDR_ENOTFOUND;
}

/* What it was told to fail with. */
static enum ldr_status mood(const struct table *table, const char *path, struct ldr_error *err)
{
	const struct table_moods *moods = table->moods;

	if (!moods->failing_path || strcmp(path, moods->failing_path) != 0)
		return LDR_OK;
	if (moods->silent)
		return moods->failure;
	return ldr_fail(err, moods->failure, "%s: told to fail", path);
}

static enum ldr_status ask(struct table *table, const char *path, const struct table_row **out_row,
			   struct ldr_error *err)
{
	enum ldr_status status = mood(table, path, err);

	table->moods->asked++;
	if (status != LDR_OK)
		return status;
	*out_row = find(table, path);
	return *out_row ? LDR_OK : why_not(table, path);
}

static void fill(const struct table_row *row, struct ldr_stat *out)
{
	*out = (struct ldr_stat){.kind = row->bytes ? LDR_KIND_FILE : LDR_KIND_FOLDER,
				 .mode = row->bytes ? 0644 : 0755,
				 .size_bytes = row->bytes ? row->length : 0};
}

static const struct table_row root_row = {.path = ""};

static enum ldr_status table_stat(void *self, const struct ldr_layer_path *path,
				  struct ldr_stat *out, struct ldr_error *err)
{
	const struct table_row *row = &root_row;
	enum ldr_status status = path->length ? ask(self, path->text, &row, err) : LDR_OK;

	if (status == LDR_OK)
		fill(row, out);
	return status;
}

/* ---- open files: state[0] is the row ---- */

static const struct table_row *row_of(const struct ldr_layer_file *file)
{
	return (const struct table_row *)(uintptr_t)file->state[0];
}

static void file_close(struct ldr_layer_file *file)
{
	struct table *table = file->layer_self;

	table->moods->closed++;
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	const struct table_row *row = row_of(file);
	const struct table *table = file->layer_self;

	if (table->moods->failing_read)
		return mood(table, row->path, err);
	if (offset > row->length)
		offset = row->length;
	if (length > row->length - offset)
		length = row->length - offset;
	if (length > 0)
		memcpy(bytes, row->bytes + offset, length);
	*out_length = length;
	return LDR_OK;
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	(void)err;
	fill(row_of(file), out);
	return LDR_OK;
}

static const struct ldr_file_ops file_ops = {
	.size = sizeof(file_ops), .close = file_close, .pread = file_pread, .stat = file_stat};

static enum ldr_status open_row(struct table *table, const struct table_row *row,
				struct ldr_layer_file *file, struct ldr_error *err)
{
	if (!row->bytes)
		return ldr_fail(err, LDR_EISDIR, "%s: is a folder", row->path);
	table->moods->opened++;
	file->ops = &file_ops;
	file->state[0] = (uint64_t)(uintptr_t)row;
	return LDR_OK;
}

static enum ldr_status table_open(void *self, const struct ldr_layer_path *path, unsigned how,
				  struct ldr_layer_file *file, struct ldr_error *err)
{
	const struct table_row *row = &root_row;
	enum ldr_status status = path->length ? ask(self, path->text, &row, err) : LDR_OK;

	(void)how;
	return status == LDR_OK ? open_row(self, row, file, err) : status;
}

static enum ldr_status table_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				  void *context, struct ldr_error *err)
{
	const struct table *table = self;
	const struct table_row *row = &root_row;
	enum ldr_status status = path->length ? ask(self, path->text, &row, err) : LDR_OK;
	size_t skip = path->length ? path->length + 1 : 0;

	if (status == LDR_OK && row->bytes)
		status = ldr_fail(err, LDR_ENOTDIR, "%s: is a file", path->text);
	for (size_t i = 0; i < table->count && status == LDR_OK; i++) {
		const char *name = table->rows[i].path;

		if (strncmp(name, path->text, path->length) != 0 ||
		    (skip > 0 && name[skip - 1] != '/') || strchr(name + skip, '/'))
			continue;
		status = emit(context, name + skip, strlen(name + skip),
			      table->rows[i].bytes ? LDR_KIND_FILE : LDR_KIND_FOLDER, err);
	}
	return status;
}

static enum ldr_status table_walk(void *self, ldr_emit_node emit, void *context,
				  struct ldr_error *err)
{
	const struct table *table = self;
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; i < table->count && status == LDR_OK; i++)
		status = emit(context, table->rows[i].path, strlen(table->rows[i].path),
			      table->rows[i].bytes ? LDR_KIND_FILE : LDR_KIND_FOLDER, i, err);
	return status;
}

static enum ldr_status table_stat_node(void *self, uint64_t node, struct ldr_stat *out,
				       struct ldr_error *err)
{
	const struct table *table = self;
	enum ldr_status status = mood(table, table->rows[node].path, err);

	if (status == LDR_OK)
		fill(&table->rows[node], out);
	return status;
}

static enum ldr_status table_open_node(void *self, uint64_t node, struct ldr_layer_file *file,
				       struct ldr_error *err)
{
	struct table *table = self;
	enum ldr_status status = mood(table, table->rows[node].path, err);

	return status == LDR_OK ? open_row(table, &table->rows[node], file, err) : status;
}

static void table_free(void *self)
{
	struct table *table = self;

	table->moods->freed++;
	free(table);
}

static const struct ldr_layer_ops table_ops = {
	.size = sizeof(table_ops),
	.kind = "table",
	.free = table_free,
	.stat = table_stat,
	.open = table_open,
	.list = table_list,
	.walk = table_walk,
	.stat_node = table_stat_node,
	.open_node = table_open_node,
};

enum ldr_status table_layer_new(const struct table_row *rows, size_t count, bool live,
				struct table_moods *moods, struct ldr_layer **out_layer,
				struct ldr_error *err)
{
	struct table *table = calloc(1, sizeof(*table));
	enum ldr_status status;

	if (!table)
		return ldr_fail(err, LDR_ENOMEM, "table layer: out of memory");
	table->rows = rows;
	table->count = count;
	table->moods = moods ? moods : &table->own;
	status = ldr_layer_new(&table_ops, table, live ? 0 : LDR_LAYER_IMMUTABLE, out_layer, err);
	if (status != LDR_OK)
		free(table);
	return status;
}
