/*
 * larder verify.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/install.h"
#include "client/remote_check.h"
#include "packs/pack_reader.h"

struct faults {
	json_t *rows; /* NULL: print */
	uint64_t count;
};

static void tell(struct faults *faults, const char *path, const char *what)
{
	faults->count++;
	if (faults->rows)
		json_array_append_new(faults->rows,
				      json_pack("{s:o, s:o}", "path", ldr_output_text(path), "what",
						ldr_output_text(what)));
	else
		printf("%s: %s\n", path, what);
}

static void on_fault(void *context, const char *path, const char *what)
{
	tell(context, path, what);
}

/* ---- an installed folder ---- */

static enum ldr_status verify_folder(const char *folder, struct faults *faults, json_t *result,
				     struct ldr_error *err)
{
	struct ldr_check_report report;
	enum ldr_status status = ldr_install_check(folder, on_fault, faults, &report, err);

	json_object_set_new(result, "files", json_integer((json_int_t)report.files));
	json_object_set_new(result, "bytes", json_integer((json_int_t)report.bytes));
	if (!status && !faults->rows)
		printf("%s: %" PRIu64 " files, every byte is as installed\n", folder, report.files);
	return status;
}

/* ---- a pack file ---- */

static void on_bad_block(void *context, const struct ldr_pack_entry *entry,
			 const struct ldr_error *fault)
{
	char id[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(&entry->id, id);
	tell(context, id, fault->text);
}

/* Every block that the archive's tree needs is in it. */
static enum ldr_status check_tree(const struct ldr_pack *pack, const struct ldr_tree *tree,
				  struct faults *faults, struct ldr_error *err)
{
	uint64_t count = ldr_tree_totals(tree)->blocks, missing = 0;

	for (uint64_t i = 0; i < count; i++) {
		const struct ldr_block_ref *block = ldr_tree_block(tree, i);
		char id[LDR_ID_HEX_CHARS + 1];
		struct ldr_pack_entry entry;

		if (ldr_pack_find(pack, &block->id, &entry) &&
		    entry.plain_bytes == block->plain_bytes)
			continue;
		ldr_id_to_hex(&block->id, id);
		tell(faults, id, "the tree needs it, the pack has it not");
		missing++;
	}
	return missing ? ldr_fail(err, LDR_ECORRUPT,
				  "%s: %" PRIu64 " blocks of its tree are missing",
				  ldr_pack_name(pack), missing)
		       : LDR_OK;
}

static enum ldr_status verify_pack(const struct ldr_args *args, struct faults *faults,
				   json_t *result, struct ldr_error *err)
{
	const char *path = args->positional[0];
	const struct ldr_pack_options options = {
		.mode = LDR_PACK_DIGEST | LDR_PACK_LOCAL,
		.title_key = args->has_title_key ? args->title_key : NULL,
	};
	struct ldr_pack_verify_report report = {0};
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	LDR_AUTO_TREE struct ldr_tree *tree = NULL;
	const uint8_t *bytes;
	uint64_t length;
	enum ldr_status status = ldr_pack_open(path, &options, &pack, err);

	if (!status && ldr_pack_section(pack, LDR_SECTION_TREE, &bytes, &length))
		status = ldr_tree_parse(bytes, length, path, NULL, NULL, &tree, err);
	if (!status && tree)
		status = check_tree(pack, tree, faults, err);
	if (!status)
		status = ldr_pack_verify(pack, on_bad_block, faults, &report, err);
	json_object_set_new(result, "blocks", json_integer((json_int_t)report.blocks));
	json_object_set_new(result, "bytes", json_integer((json_int_t)report.plain_bytes));
	if (!status && !faults->rows)
		printf("%s: %" PRIu64 " blocks, all right\n", path, report.blocks);
	return status;
}

/* ---- a release of a store ---- */

static enum ldr_status verify_release(struct ldr_args *args, struct faults *faults, json_t *result,
				      struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_remote_report report = {0};
	enum ldr_status status = ldr_args_open_view(args, 0, &view, err);

	if (!status)
		status = ldr_remote_check(view, ldr_args_has(args, LDR_OPT_DEEP), on_fault, faults,
					  &report, err);
	json_object_set_new(result, "packs", json_integer((json_int_t)report.packs));
	json_object_set_new(result, "blocks", json_integer((json_int_t)report.blocks));
	if (!status && !faults->rows)
		printf("%s: %" PRIu64 " packs, %" PRIu64 " blocks %s\n", ldr_view_name(view),
		       report.packs, report.blocks,
		       ldr_args_has(args, LDR_OPT_DEEP) ? "read and digested" : "accounted for");
	return status;
}

static enum ldr_status run_verify(struct ldr_args *args, struct ldr_error *err)
{
	bool json = ldr_args_has(args, LDR_OPT_JSON);
	struct faults faults = {.rows = json ? json_array() : NULL};
	const char *what = args->positional[0];
	json_t *result = json_object();
	struct stat stat_now;
	enum ldr_status status;

	if (!strchr(what, '#') && stat(what, &stat_now) == 0 && S_ISDIR(stat_now.st_mode))
		status = verify_folder(what, &faults, result, err);
	else if (!strchr(what, '#'))
		status = verify_pack(args, &faults, result, err);
	else
		status = verify_release(args, &faults, result, err);
	/* Differences are the answer; other failures are reported by main. */
	if (json && (!status || faults.count)) {
		json_object_set_new(result, "ok", json_boolean(status == LDR_OK));
		json_object_set(result, "faults", faults.rows);
		args->given &= ~LDR_OPTION_BIT(JSON); /* main then prints no second object */
		if (ldr_output_json(json_incref(result), NULL) && !status)
			status = ldr_fail(err, LDR_EIO, "standard output");
	}
	json_decref(result);
	json_decref(faults.rows);
	return status;
}

const struct ldr_command ldr_command_verify = {
	.name = "verify",
	.arguments = "SRC|DIR",
	.help = "Checks an installed folder or a pack file, every byte; or a release of a store: its\n"
		"record, tree and map, and that its packs are there; with --deep every block too.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTION_BIT(DEEP),
	.least = 1,
	.most = 1,
	.run = run_verify,
};
