/*
 * larder ls, stat, cat.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/commands.h"
#include "client/cli/layers.h"
#include "client/cli/output.h"

static const char *kind_name(enum ldr_kind kind)
{
	return kind == LDR_KIND_FILE ? "file" : kind == LDR_KIND_FOLDER ? "folder" : "symlink";
}

/* The node of a path that the user typed: without a slash at its end, "" and "." are the root. */
static enum ldr_status find_node(struct ldr_view *view, const char *typed, bool follow,
				 uint32_t *out_node, struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	const struct ldr_tree *tree;
	size_t length = strlen(typed);
	enum ldr_status status = ldr_view_tree(view, &tree, err);

	if (status)
		return status;
	while (length && typed[length - 1] == '/')
		length--;
	*out_node = 0;
	if (length == 0 || (length == 1 && typed[0] == '.'))
		return LDR_OK;
	status = ldr_path_check(typed, length, err);
	if (status)
		return status;
	memcpy(path, typed, length);
	path[length] = '\0';
	if (follow)
		return ldr_tree_resolve(tree, path, out_node, err);
	if (ldr_tree_find(tree, path, length, out_node))
		return LDR_OK;
	return ldr_fail(err, LDR_ENOTFOUND, "%s: no %s", ldr_view_name(view), path);
}

static json_t *node_json(const struct ldr_tree *tree, uint32_t index)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node node;
	char mode[8];
	json_t *object;

	ldr_tree_node(tree, index, &node);
	ldr_tree_path(tree, index, path);
	snprintf(mode, sizeof(mode), "%03o", node.mode);
	object = json_pack("{s:s, s:s, s:s, s:I}", "path", path, "kind", kind_name(node.kind),
			   "mode", mode, "bytes", (json_int_t)node.size_bytes);
	if (node.kind == LDR_KIND_SYMLINK)
		json_object_set_new(object, "target", json_stringn(node.target, node.target_bytes));
	return object;
}

/* ---- ls ---- */

static void print_row(const struct ldr_tree *tree, uint32_t index)
{
	char path[LDR_PATH_MAX_BYTES + 1], mode[LDR_MODE_TEXT];
	struct ldr_tree_node node;

	ldr_tree_node(tree, index, &node);
	ldr_tree_path(tree, index, path);
	printf("%s %12" PRIu64 " %s", ldr_output_mode(node.kind, node.mode, mode), node.size_bytes,
	       path);
	if (node.kind == LDR_KIND_SYMLINK)
		printf(" -> %.*s", (int)node.target_bytes, node.target);
	putchar('\n');
}

static void list(const struct ldr_tree *tree, uint32_t folder, bool recursive, json_t *entries)
{
	struct ldr_tree_node node;
	uint32_t end;

	ldr_tree_node(tree, folder, &node);
	end = node.end;
	for (uint32_t i = folder + 1; i < end; i = recursive ? i + 1 : node.end) {
		ldr_tree_node(tree, i, &node);
		if (entries)
			json_array_append_new(entries, node_json(tree, i));
		else
			print_row(tree, i);
	}
}

static enum ldr_status run_ls(struct ldr_args *args, struct ldr_error *err)
{
	bool json = ldr_args_has(args, LDR_OPT_JSON);
	json_t *entries = json ? json_array() : NULL;
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	const char *path = args->positional_count > 1 ? args->positional[1] : "";
	const struct ldr_tree *tree;
	struct ldr_tree_node node;
	uint32_t index = 0;
	enum ldr_status status;

	if (ldr_layers_given(args)) {
		json_decref(entries);
		return ldr_layers_ls(args, err);
	}
	status = ldr_args_open_view(args, 0, &view, err);
	if (!status)
		status = ldr_view_tree(view, &tree, err);
	if (!status)
		status = find_node(view, path, true, &index, err);
	if (status) {
		json_decref(entries);
		return status;
	}
	ldr_tree_node(tree, index, &node);
	if (node.kind == LDR_KIND_FOLDER)
		list(tree, index, ldr_args_has(args, LDR_OPT_RECURSIVE), entries);
	else if (json)
		json_array_append_new(entries, node_json(tree, index));
	else
		print_row(tree, index);
	if (!json)
		return LDR_OK;
	return ldr_output_json(json_pack("{s:o, s:o}", "release",
					 ldr_output_release(ldr_view_release(view)), "entries",
					 entries),
			       err);
}

const struct ldr_command ldr_command_ls = {
	.name = "ls",
	.arguments = "SRC [PATH]",
	.help = "Lists a folder of a release or archive, without installing it.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTIONS_LAYERS | LDR_OPTION_BIT(RECURSIVE),
	.least = 1,
	.most = 2,
	.run = run_ls,
};

/* ---- stat ---- */

static json_t *blocks_json(const struct ldr_placed_block *blocks, uint64_t count, bool placed)
{
	json_t *array = json_array();

	for (uint64_t i = 0; i < count; i++) {
		char id[LDR_ID_HEX_CHARS + 1];
		json_t *row;

		ldr_id_to_hex(&blocks[i].block.id, id);
		row = json_pack("{s:s, s:I}", "id", id, "bytes",
				(json_int_t)blocks[i].block.plain_bytes);
		if (placed) {
			const struct ldr_place *place = &blocks[i].place;

			json_object_set_new(row, "pack", json_integer(place->pack));
			json_object_set_new(row, "offset", json_integer((json_int_t)place->offset));
			json_object_set_new(row, "stored_bytes", json_integer(place->stored_bytes));
			json_object_set_new(row, "codec",
					    json_string(ldr_codec_name(place->codec)));
		}
		json_array_append_new(array, row);
	}
	return array;
}

static void print_stat(const struct ldr_tree *tree, uint32_t index,
		       const struct ldr_placed_block *blocks, bool placed)
{
	struct ldr_tree_node node;
	uint64_t stored = 0;

	print_row(tree, index);
	ldr_tree_node(tree, index, &node);
	for (uint64_t i = 0; i < node.block_count; i++) {
		char id[LDR_ID_HEX_CHARS + 1];

		ldr_id_to_hex(&blocks[i].block.id, id);
		printf("  %s %8u", id, blocks[i].block.plain_bytes);
		if (placed)
			printf("  pack %u at %" PRIu64 ", %u bytes %s", blocks[i].place.pack,
			       blocks[i].place.offset, blocks[i].place.stored_bytes,
			       ldr_codec_name(blocks[i].place.codec));
		stored += blocks[i].place.stored_bytes;
		putchar('\n');
	}
	if (node.kind == LDR_KIND_FILE && placed)
		printf("  %" PRIu64 " blocks, stored in %" PRIu64 " bytes\n", node.block_count,
		       stored);
}

static enum ldr_status run_stat(struct ldr_args *args, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_placed_block *blocks = NULL;
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	const struct ldr_tree *tree;
	struct ldr_tree_node node;
	uint32_t index = 0;
	bool placed;
	json_t *object;
	enum ldr_status status;

	if (ldr_layers_given(args))
		return ldr_layers_stat(args, err);
	status = ldr_args_open_view(args, 0, &view, err);
	if (!status)
		status = ldr_view_tree(view, &tree, err);
	if (!status)
		status = find_node(view, args->positional[1], false, &index, err);
	if (status)
		return status;
	ldr_tree_node(tree, index, &node);
	blocks = calloc(node.block_count + 1, sizeof(*blocks));
	if (!blocks)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", args->positional[1]);
	status = ldr_view_places(view, node.first_block, node.block_count, blocks, err);
	if (status)
		return status;
	placed = !ldr_view_is_pack(view) && node.kind == LDR_KIND_FILE;
	if (!ldr_args_has(args, LDR_OPT_JSON)) {
		print_stat(tree, index, blocks, placed);
		return LDR_OK;
	}
	object = node_json(tree, index);
	json_object_set_new(object, "release", ldr_output_release(ldr_view_release(view)));
	json_object_set_new(object, "blocks", blocks_json(blocks, node.block_count, placed));
	return ldr_output_json(object, err);
}

const struct ldr_command ldr_command_stat = {
	.name = "stat",
	.arguments = "SRC PATH",
	.help = "Shows a file's attributes and its blocks: ids, lengths, and where they lie.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTIONS_LAYERS,
	.least = 2,
	.most = 2,
	.run = run_stat,
};

/* ---- cat ---- */

static enum ldr_status write_out(void *context, const void *bytes, size_t length,
				 struct ldr_error *err)
{
	(void)context;
	if (fwrite(bytes, 1, length, stdout) == length)
		return LDR_OK;
	return ldr_output_flush(err);
}

static enum ldr_status discard(void *context, const void *bytes, size_t length,
			       struct ldr_error *err)
{
	(void)context;
	(void)bytes;
	(void)length;
	(void)err;
	return LDR_OK;
}

static enum ldr_status run_cat(struct ldr_args *args, struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	const struct ldr_tree *tree;
	struct ldr_tree_node node;
	uint64_t requests, bytes;
	struct ldr_disk_stat cache;
	uint32_t index = 0;
	bool as_json;
	enum ldr_status status;

	if (ldr_layers_given(args))
		return ldr_layers_cat(args, err);
	status = ldr_args_open_view(args, 0, &view, err);
	if (!status)
		status = find_node(view, args->positional[1], true, &index, err);
	if (!status)
		status = ldr_view_tree(view, &tree, err);
	if (status)
		return status;
	ldr_tree_node(tree, index, &node);
	if (node.kind != LDR_KIND_FILE)
		return ldr_fail(err, LDR_EISDIR, "%s: %s is a folder", ldr_view_name(view),
				args->positional[1]);
	/* With --json the bytes are not printed: the object says what reading them took. */
	as_json = ldr_args_has(args, LDR_OPT_JSON);
	status = ldr_view_read_file(view, index, as_json ? discard : write_out, NULL, err);
	ldr_output_cache_trouble(view, &cache);
	if (status || !as_json)
		return status;
	ldr_view_traffic(view, &requests, &bytes);
	return ldr_output_json(json_pack("{s:s, s:I, s:I, s:I, s:o}", "path", args->positional[1],
					 "bytes", (json_int_t)node.size_bytes, "bytes_fetched",
					 (json_int_t)bytes, "requests", (json_int_t)requests,
					 "cache", ldr_output_cache(view, &cache)),
			       err);
}

const struct ldr_command ldr_command_cat = {
	.name = "cat",
	.arguments = "SRC PATH",
	.help = "Writes a file of a release or archive to standard output, fetching only its blocks.\n"
		"With --json it is read and checked, and only the figures are printed.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTIONS_LAYERS,
	.least = 2,
	.most = 2,
	.run = run_cat,
};
