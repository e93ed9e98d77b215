/*
 * larder log, diff.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/known.h"

/* ---- log ---- */

static void time_text(int64_t seconds, char text[32])
{
	time_t when = (time_t)seconds;
	struct tm parts;

	text[0] = '\0';
	if (gmtime_r(&when, &parts))
		strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static json_t *record_json(const struct ldr_release *release)
{
	char created[32], digest[LDR_ID_HEX_CHARS + 1], tree[LDR_ID_HEX_CHARS + 1];

	time_text(release->created_s, created);
	ldr_id_to_hex(&release->digest, digest);
	ldr_id_to_hex(&release->tree_digest, tree);
	return json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:i, s:s, s:s}", "sequence",
			 (json_int_t)release->sequence, "created", created, "digest", digest,
			 "tree", tree, "files", (json_int_t)release->totals.files, "bytes",
			 (json_int_t)release->totals.bytes, "packs", (int)release->pack_count,
			 "kid", release->kid, "note", release->note);
}

static void print_record(const struct ldr_release *release)
{
	char created[32], bytes[LDR_BYTES_TEXT];

	time_text(release->created_s, created);
	printf("%6" PRIu64 "  %s  %8" PRIu64 " files  %9s  %s\n", release->sequence, created,
	       release->totals.files, ldr_output_bytes(release->totals.bytes, bytes),
	       release->note);
}

static void tell(const struct ldr_release *release, json_t *rows)
{
	if (rows)
		json_array_append_new(rows, record_json(release));
	else
		print_record(release);
}

static enum ldr_status walk(struct ldr_view *view, json_t *rows, struct ldr_error *err)
{
	const struct ldr_release *newest = ldr_view_release(view);
	struct ldr_release at = {0}, before = {0};
	struct ldr_error why = {0};
	enum ldr_status status = LDR_OK;

	tell(newest, rows);
	if (newest->previous_sequence)
		status = ldr_view_previous(view, newest, &at, &why);
	while (!status && at.sequence) {
		tell(&at, rows);
		before = at;
		at = (struct ldr_release){0};
		if (before.previous_sequence)
			status = ldr_view_previous(view, &before, &at, &why);
		ldr_release_dispose(&before);
	}
	/* What a store no longer keeps is where the log ends. */
	return status && status != LDR_ENOTFOUND ? ldr_fail(err, status, "%s", why.text) : LDR_OK;
}

static enum ldr_status run_log(struct ldr_args *args, struct ldr_error *err)
{
	json_t *rows = ldr_args_has(args, LDR_OPT_JSON) ? json_array() : NULL;
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	enum ldr_status status = ldr_args_open_view(args, 0, &view, err);

	if (!status && ldr_view_is_pack(view))
		status = ldr_fail(err, LDR_EUSAGE,
				  "%s: a pack has no history: wanted STORE#channel",
				  args->positional[0]);
	if (!status)
		status = walk(view, rows, err);
	if (status || !rows) {
		json_decref(rows);
		return status;
	}
	return ldr_output_json(json_pack("{s:s, s:o}", "channel", ldr_view_release(view)->channel,
					 "releases", rows),
			       err);
}

const struct ldr_command ldr_command_log = {
	.name = "log",
	.arguments = "SRC",
	.help = "Lists the releases of a channel, the newest first.",
	.options = LDR_OPTIONS_NETWORK,
	.least = 1,
	.most = 1,
	.run = run_log,
};

/* ---- diff ---- */

struct difference {
	struct ldr_view *from_view, *to_view;
	const struct ldr_tree *from, *to;
	uint64_t added, changed, removed;
	uint64_t new_blocks, new_plain_bytes, new_stored_bytes;
	json_t *rows; /* NULL: print */
};

static bool same_node(const struct difference *difference, const struct ldr_tree_node *a,
		      const struct ldr_tree_node *b)
{
	if (a->kind != b->kind || a->mode != b->mode || a->block_count != b->block_count ||
	    a->target_bytes != b->target_bytes)
		return false;
	if (a->kind == LDR_KIND_SYMLINK)
		return memcmp(a->target, b->target, a->target_bytes) == 0;
	return a->block_count == 0 || memcmp(ldr_tree_block(difference->from, a->first_block),
					     ldr_tree_block(difference->to, b->first_block),
					     a->block_count * sizeof(struct ldr_block_ref)) == 0;
}

static void tell_change(struct difference *difference, const char *change, const char *path)
{
	if (difference->rows)
		json_array_append_new(difference->rows,
				      json_pack("{s:s, s:s}", "change", change, "path", path));
	else
		printf("%c %s\n", change[0] == 'c' ? '*' : change[0] == 'a' ? '+' : '-', path);
}

static void compare_trees(struct difference *difference)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node a, b;
	uint32_t other;

	for (uint32_t i = 1; i < ldr_tree_node_count(difference->from); i++) {
		size_t length = ldr_tree_path(difference->from, i, path);

		if (ldr_tree_find(difference->to, path, length, &other))
			continue;
		difference->removed++;
		tell_change(difference, "removed", path);
	}
	for (uint32_t i = 1; i < ldr_tree_node_count(difference->to); i++) {
		size_t length = ldr_tree_path(difference->to, i, path);

		if (!ldr_tree_find(difference->from, path, length, &other)) {
			difference->added++;
			tell_change(difference, "added", path);
			continue;
		}
		ldr_tree_node(difference->from, other, &a);
		ldr_tree_node(difference->to, i, &b);
		if (same_node(difference, &a, &b))
			continue;
		difference->changed++;
		tell_change(difference, "changed", path);
	}
}

/* Blocks of `to` that `from` has not, each once. */
static enum ldr_status count_blocks(struct difference *difference, struct ldr_error *err)
{
	uint64_t from_count = ldr_tree_totals(difference->from)->blocks;
	uint64_t to_count = ldr_tree_totals(difference->to)->blocks;
	struct ldr_placed_block block = {.place.stored_bytes = 1};
	struct ldr_known *known;
	struct ldr_place place;
	enum ldr_status status = ldr_known_new(from_count + to_count, &known, err);

	for (uint64_t i = 0; !status && i < from_count; i++) {
		block.block = *ldr_tree_block(difference->from, i);
		ldr_known_add(known, &block);
	}
	for (uint64_t i = 0; !status && i < to_count; i++) {
		if (ldr_known_find(known, &ldr_tree_block(difference->to, i)->id, &place))
			continue;
		status = ldr_view_places(difference->to_view, i, 1, &block, err);
		difference->new_blocks++;
		difference->new_plain_bytes += block.block.plain_bytes;
		difference->new_stored_bytes += block.place.stored_bytes;
		block.place = (struct ldr_place){.stored_bytes = 1};
		ldr_known_add(known, &block);
	}
	ldr_known_free(known);
	return status;
}

static enum ldr_status compare_views(struct difference *difference, struct ldr_error *err)
{
	enum ldr_status status = ldr_view_tree(difference->from_view, &difference->from, err);

	if (!status)
		status = ldr_view_tree(difference->to_view, &difference->to, err);
	if (status)
		return status;
	compare_trees(difference);
	return count_blocks(difference, err);
}

static enum ldr_status report_diff(const struct difference *difference, struct ldr_error *err)
{
	char bytes[LDR_BYTES_TEXT];

	if (difference->rows)
		return ldr_output_json(
			json_pack("{s:o, s:o, s:O, s:I, s:I, s:I, s:I, s:I, s:I}", "from",
				  ldr_output_release(ldr_view_release(difference->from_view)), "to",
				  ldr_output_release(ldr_view_release(difference->to_view)),
				  "changes", difference->rows, "added",
				  (json_int_t)difference->added, "changed",
				  (json_int_t)difference->changed, "removed",
				  (json_int_t)difference->removed, "new_blocks",
				  (json_int_t)difference->new_blocks, "new_bytes",
				  (json_int_t)difference->new_plain_bytes, "new_bytes_stored",
				  (json_int_t)difference->new_stored_bytes),
			err);
	printf("%" PRIu64 " added, %" PRIu64 " changed, %" PRIu64
	       " removed; an update fetches %" PRIu64 " blocks, %s\n",
	       difference->added, difference->changed, difference->removed, difference->new_blocks,
	       ldr_output_bytes(ldr_view_is_pack(difference->to_view)
					? difference->new_plain_bytes
					: difference->new_stored_bytes,
				bytes));
	return LDR_OK;
}

static enum ldr_status run_diff(struct ldr_args *args, struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *from = NULL;
	LDR_AUTO_VIEW struct ldr_view *to = NULL;
	struct difference difference = {0};
	enum ldr_status status = ldr_args_open_view(args, 0, &from, err);

	if (!status)
		status = ldr_args_open_view(args, 1, &to, err);
	if (status)
		return status;
	difference.rows = ldr_args_has(args, LDR_OPT_JSON) ? json_array() : NULL;
	difference.from_view = from;
	difference.to_view = to;
	status = compare_views(&difference, err);
	if (!status)
		status = report_diff(&difference, err);
	json_decref(difference.rows);
	return status;
}

const struct ldr_command ldr_command_diff = {
	.name = "diff",
	.arguments = "SRC SRC",
	.help = "Shows the paths that differ between two releases or archives, and what updating from\n"
		"the first to the second would fetch.",
	.options = LDR_OPTIONS_NETWORK,
	.least = 2,
	.most = 2,
	.run = run_diff,
};
