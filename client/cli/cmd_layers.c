/*
 * larder which; and ls, stat and cat through layers.
 *
 * The stack is a virtual file system of one call: SRC at precedence 0, folders above, archives below.
 * Mounts are numbered from the top, so that a mount's id says which of the names it has.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/commands.h"
#include "client/cli/layers.h"
#include "client/cli/output.h"
#include "client/release_layer.h"
#include "vfs/file.h"
#include "vfs/layer_native.h"
#include "vfs/layer_tree.h"
#include "vfs/vfs.h"

#define LAYERS_MAX (2 * LDR_ARGS_LIST_MAX + 1)
#define PIECE_BYTES (256u * 1024)

struct stack {
	struct ldr_vfs *vfs;
	const char *names[LAYERS_MAX + 1]; /* by mount id */
	uint32_t count;
};

/* ---- making it ---- */

/* Mounts below everything that is there; takes the layer. */
static enum ldr_status push(struct stack *stack, const char *name, struct ldr_layer *layer,
			    struct ldr_error *err)
{
	struct ldr_mount mount = {
		.id = ++stack->count, .layer = layer, .precedence = -(int32_t)stack->count};
	enum ldr_status status = ldr_vfs_mount(stack->vfs, &mount, err);

	stack->names[stack->count] = name;
	ldr_layer_unref(layer);
	return status;
}

static enum ldr_status push_folder(struct stack *stack, const char *folder, struct ldr_error *err)
{
	const struct ldr_native_options options = {.size = sizeof(options), .read_only = true};
	struct ldr_layer *layer;
	enum ldr_status status = ldr_layer_native_new(folder, &options, &layer, err);

	return status ? status : push(stack, folder, layer, err);
}

static enum ldr_status push_source(struct stack *stack, const struct ldr_args *args,
				   struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_layer *layer;
	enum ldr_status status = ldr_args_open_view(args, 0, &view, err);

	if (!status)
		status = ldr_release_layer_new(view, &layer, err);
	if (status)
		return status;
	(void)LDR_STEAL(view);
	return push(stack, args->positional[0], layer, err);
}

static enum ldr_status push_archive(struct stack *stack, const struct ldr_args *args,
				    const char *path, struct ldr_error *err)
{
	const struct ldr_archive_options options = {
		.size = sizeof(options), .key = args->has_title_key ? args->title_key : NULL};
	struct ldr_layer *layer;
	enum ldr_status status = ldr_layer_archive_open(path, &options, &layer, err);

	return status ? status : push(stack, path, layer, err);
}

static void stack_close(struct stack *stack)
{
	ldr_vfs_free(stack->vfs);
}

static enum ldr_status stack_open(struct stack *stack, const struct ldr_args *args,
				  struct ldr_error *err)
{
	enum ldr_status status = ldr_vfs_new(NULL, &stack->vfs, err);

	for (size_t i = args->over_count; !status && i > 0; i--)
		status = push_folder(stack, args->over[i - 1], err);
	if (!status)
		status = push_source(stack, args, err);
	for (size_t i = 0; !status && i < args->under_count; i++)
		status = push_archive(stack, args, args->under[i], err);
	return status;
}

/* The path that was typed, without slashes at its end; "." is the root. */
static enum ldr_status typed_path(const struct ldr_args *args, char path[LDR_PATH_MAX_BYTES + 1],
				  struct ldr_error *err)
{
	const char *typed = args->positional_count > 1 ? args->positional[1] : "";
	size_t length = strlen(typed);

	while (length && typed[length - 1] == '/')
		length--;
	if (length == 1 && typed[0] == '.')
		length = 0;
	if (length > LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "a path of %zu bytes, limit %u", length,
				LDR_PATH_MAX_BYTES);
	memcpy(path, typed, length);
	path[length] = '\0';
	return LDR_OK;
}

/* ---- what is printed ---- */

static const char *kind_name(enum ldr_kind kind)
{
	return kind == LDR_KIND_FILE ? "file" : "folder";
}

static json_t *row_json(const struct stack *stack, const char *path, const struct ldr_which *found)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%03o", found->stat.mode);
	return json_pack("{s:s, s:s, s:s, s:I, s:o, s:s}", "path", path, "kind",
			 kind_name(found->stat.kind), "mode", mode, "bytes",
			 (json_int_t)found->stat.size_bytes, "layer",
			 ldr_output_text(found->mount_id ? stack->names[found->mount_id] : ""),
			 "layer_kind", found->mount_id ? found->layer_kind : "");
}

static void print_row(const struct stack *stack, const char *path, const struct ldr_which *found)
{
	char mode[LDR_MODE_TEXT];

	printf("%s %12" PRIu64 " %s  (%s)\n",
	       ldr_output_mode(found->stat.kind, found->stat.mode, mode), found->stat.size_bytes,
	       path, found->mount_id ? stack->names[found->mount_id] : "only a folder");
}

static enum ldr_status show(const struct stack *stack, const char *path, json_t *rows,
			    struct ldr_error *err)
{
	struct ldr_which found;
	enum ldr_status status = ldr_vfs_which(stack->vfs, path, &found, NULL, 0, NULL, err);

	if (status)
		return status;
	if (rows)
		json_array_append_new(rows, row_json(stack, path, &found));
	else
		print_row(stack, path, &found);
	return LDR_OK;
}

/* ---- ls ---- */

/* Folders still to be listed; owns its texts. */
struct folders {
	char **paths;
	size_t count, room;
};

static enum ldr_status remember(struct folders *folders, const char *path, struct ldr_error *err)
{
	if (folders->count == folders->room) {
		size_t room = folders->room * 2 + 16;
		char **grown = reallocarray(folders->paths, room, sizeof(char *));

		if (!grown)
			return ldr_fail(err, LDR_ENOMEM, "ls: out of memory");
		folders->paths = grown;
		folders->room = room;
	}
	folders->paths[folders->count] = strdup(path);
	if (!folders->paths[folders->count])
		return ldr_fail(err, LDR_ENOMEM, "ls: out of memory");
	folders->count++;
	return LDR_OK;
}

static enum ldr_status list_folder(const struct stack *stack, const char *folder,
				   struct folders *deeper, json_t *rows, struct ldr_error *err)
{
	struct ldr_list *list;
	enum ldr_status status = ldr_vfs_list(stack->vfs, folder, &list, err);

	if (status)
		return status;
	for (size_t i = 0; !status && i < ldr_list_count(list); i++) {
		char path[LDR_PATH_MAX_BYTES + 1];
		struct ldr_list_entry entry;

		ldr_list_at(list, i, &entry);
		if (snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "",
			     entry.name) >= (int)sizeof(path))
			status = ldr_fail(err, LDR_ELIMIT, "%s/%s: path over %u bytes", folder,
					  entry.name, LDR_PATH_MAX_BYTES);
		if (!status)
			status = show(stack, path, rows, err);
		if (!status && deeper && entry.kind == LDR_KIND_FOLDER)
			status = remember(deeper, path, err);
	}
	ldr_list_free(list);
	return status;
}

static enum ldr_status list_all(const struct stack *stack, const char *path, bool recursive,
				json_t *rows, struct ldr_error *err)
{
	struct folders folders = {0};
	struct ldr_stat found;
	enum ldr_status status = ldr_vfs_stat(stack->vfs, path, &found, err);

	if (!status && found.kind == LDR_KIND_FILE)
		return show(stack, path, rows, err);
	if (!status)
		status = remember(&folders, path, err);
	for (size_t i = 0; !status && i < folders.count; i++) {
		/* The list may move while it grows; the text stays. */
		const char *folder = folders.paths[i];

		status = list_folder(stack, folder, recursive ? &folders : NULL, rows, err);
	}
	for (size_t i = 0; i < folders.count; i++)
		free(folders.paths[i]);
	free(folders.paths);
	return status;
}

enum ldr_status ldr_layers_ls(const struct ldr_args *args, struct ldr_error *err)
{
	json_t *rows = ldr_args_has(args, LDR_OPT_JSON) ? json_array() : NULL;
	char path[LDR_PATH_MAX_BYTES + 1];
	struct stack stack = {0};
	enum ldr_status status = typed_path(args, path, err);

	if (!status)
		status = stack_open(&stack, args, err);
	if (!status)
		status = list_all(&stack, path, ldr_args_has(args, LDR_OPT_RECURSIVE), rows, err);
	if (!status && rows)
		status = ldr_output_json(json_pack("{s:O}", "entries", rows), err);
	json_decref(rows);
	stack_close(&stack);
	return status;
}

/* ---- stat, which ---- */

static const char *outcome_text(const struct ldr_attempt *attempt)
{
	return attempt->whiteout ? "hidden here" : ldr_status_text(attempt->outcome);
}

/* Who was asked, from the top, and what each said. */
static void report_attempts(const struct stack *stack, const struct ldr_attempt *attempts,
			    size_t count, json_t *rows)
{
	for (size_t i = 0; i < count; i++) {
		const char *name = stack->names[attempts[i].mount_id];

		if (rows)
			json_array_append_new(
				rows, json_pack("{s:o, s:s}", "layer", ldr_output_text(name),
						"outcome", ldr_status_name(attempts[i].outcome)));
		else
			printf("  %-40s %s\n", name, outcome_text(&attempts[i]));
	}
}

static enum ldr_status report_which(const struct ldr_args *args, const struct stack *stack,
				    const char *path, bool attempts_too, struct ldr_error *err)
{
	struct ldr_attempt attempts[LAYERS_MAX];
	struct ldr_which found;
	size_t count;
	json_t *object, *rows = NULL;
	enum ldr_status status = ldr_vfs_which(stack->vfs, path, &found, attempts, LAYERS_MAX,
					       &count, err);

	if (status)
		return status;
	if (!ldr_args_has(args, LDR_OPT_JSON)) {
		print_row(stack, path, &found);
		if (attempts_too)
			report_attempts(stack, attempts, count, NULL);
		return LDR_OK;
	}
	object = row_json(stack, path, &found);
	if (attempts_too) {
		rows = json_array();
		report_attempts(stack, attempts, count, rows);
		json_object_set_new(object, "attempts", rows);
	}
	return ldr_output_json(object, err);
}

static enum ldr_status which(const struct ldr_args *args, bool attempts_too, struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct stack stack = {0};
	enum ldr_status status = typed_path(args, path, err);

	if (!status)
		status = stack_open(&stack, args, err);
	if (!status)
		status = report_which(args, &stack, path, attempts_too, err);
	stack_close(&stack);
	return status;
}

enum ldr_status ldr_layers_stat(const struct ldr_args *args, struct ldr_error *err)
{
	return which(args, false, err);
}

static enum ldr_status run_which(struct ldr_args *args, struct ldr_error *err)
{
	return which(args, true, err);
}

const struct ldr_command ldr_command_which = {
	.name = "which",
	.arguments = "SRC PATH",
	.help = "Says which layer a path comes from, and which were asked before it.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTIONS_LAYERS,
	.least = 2,
	.most = 2,
	.run = run_which,
};

/* ---- cat ---- */

static enum ldr_status copy_out(struct ldr_file *file, bool print, uint64_t *out_bytes,
				struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *piece = malloc(PIECE_BYTES);
	enum ldr_status status = LDR_OK;
	size_t got = PIECE_BYTES;

	*out_bytes = 0;
	if (!piece)
		return ldr_fail(err, LDR_ENOMEM, "cat: out of memory");
	while (!status && got == PIECE_BYTES) {
		status = ldr_file_pread(file, piece, PIECE_BYTES, *out_bytes, &got, err);
		if (status)
			break;
		*out_bytes += got;
		if (print && fwrite(piece, 1, got, stdout) != got)
			status = ldr_output_flush(err);
	}
	return status;
}

enum ldr_status ldr_layers_cat(const struct ldr_args *args, struct ldr_error *err)
{
	bool json = ldr_args_has(args, LDR_OPT_JSON);
	char path[LDR_PATH_MAX_BYTES + 1];
	struct stack stack = {0};
	struct ldr_file *file = NULL;
	uint64_t bytes = 0;
	enum ldr_status status = typed_path(args, path, err);

	if (!status)
		status = stack_open(&stack, args, err);
	if (!status)
		status = ldr_vfs_open(stack.vfs, path, LDR_OPEN_READ, &file, err);
	if (!status)
		status = copy_out(file, !json, &bytes, err);
	if (!status && json)
		status = ldr_output_json(
			json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)bytes), err);
	ldr_file_close(file);
	stack_close(&stack);
	return status;
}
