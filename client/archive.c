/*
 * Local archives; see archive.h.
 */
#include "client/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"
#include "common/publisher.h"
#include "packs/pack_writer.h"

/* Where the one pack goes: a name in a folder. */
struct output {
	struct ldr_root *root;
	const char *name; /* points into the path that was given */
	struct ldr_protection protection;
	struct ldr_id id;
	uint64_t size_bytes;
};

static enum ldr_status output_begin(void *context, struct ldr_stream **out_stream,
				    struct ldr_error *err)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_FILE_AND_FOLDER};
	struct output *output = context;

	/* An archive that was cut off may be large, and nobody else would ever remove it. */
	ldr_root_sweep(output->root, "", NULL, NULL);
	return ldr_stream_begin(output->root, "", &options, out_stream, err);
}

/* The pack that was just written, still without a name. */
static enum ldr_status open_plain(struct ldr_stream *stream, struct ldr_pack **out_plain,
				  struct ldr_error *err)
{
	int fd;
	int code = ldr_os_duplicate(ldr_stream_fd(stream), &fd);

	if (code)
		return ldr_fail_errno(err, code, "pack just written");
	return ldr_pack_open_fd(fd, "pack just written", NULL, out_plain, err);
}

/* In the plain pack's place comes its protected copy. Takes the stream. */
static enum ldr_status protect(struct output *output, struct ldr_stream *stream,
			       struct ldr_error *err)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_FILE_AND_FOLDER};
	LDR_AUTO_PACK struct ldr_pack *plain = NULL;
	struct ldr_stream *copy = NULL;
	enum ldr_status status = open_plain(stream, &plain, err);

	if (!status)
		status = ldr_stream_begin(output->root, "", &options, &copy, err);
	if (!status)
		status = ldr_pack_protect(plain, &output->protection, copy, &output->id,
					  &output->size_bytes, err);
	ldr_stream_abort(stream);
	if (!status)
		return ldr_stream_commit(copy, output->name, NULL, err);
	ldr_stream_abort(copy);
	return status;
}

static enum ldr_status output_finish(void *context, struct ldr_stream *stream,
				     const struct ldr_id *id, uint64_t size_bytes, uint32_t ordinal,
				     struct ldr_error *err)
{
	struct output *output = context;

	(void)ordinal;
	if (output->protection.flags)
		return protect(output, stream, err);
	output->id = *id;
	output->size_bytes = size_bytes;
	return ldr_stream_commit(stream, output->name, NULL, err);
}

/* An archive that lies in the folder would be packed into itself the next time. */
static enum ldr_status refuse_inside(const char *folder, const struct output *output,
				     const char *out_path, struct ldr_error *err)
{
	LDR_AUTO_FREE char *above = realpath(folder, NULL);
	LDR_AUTO_FREE char *here = realpath(ldr_root_path(output->root), NULL);
	size_t length = above ? strlen(above) : 0;

	if (!above || !here || strncmp(above, here, length) != 0)
		return LDR_OK;
	if (here[length] != '\0' && here[length] != '/' && length > 1)
		return LDR_OK;
	return ldr_fail(err, LDR_EINVAL, "%s: lies inside %s, which is to be packed", out_path,
			folder);
}

static enum ldr_status pack_folder(const struct ldr_archive_request *request, struct output *output,
				   struct ldr_archive_outcome *out, struct ldr_error *err)
{
	const struct ldr_pack_sink sink = {
		.begin = output_begin, .finish = output_finish, .context = output};
	struct ldr_build_options options = *request->build;
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	LDR_AUTO_BUILD struct ldr_build build = {0};
	enum ldr_status status = ldr_scan_folder(request->folder, request->scan, request->report,
						 &scan, err);

	options.kind = LDR_BUILD_ARCHIVE;
	if (!status)
		status = ldr_build_run(scan, &options, &sink, &build, err);
	if (status)
		return status;
	*out = (struct ldr_archive_outcome){
		.id = output->id,
		.pack_bytes = output->size_bytes,
		.totals = build.totals,
		.scanned = *ldr_scan_totals(scan),
		.stats = build.stats,
		.blocks = build.stats.new_blocks,
	};
	return LDR_OK;
}

enum ldr_status ldr_archive_folder(const struct ldr_archive_request *request,
				   struct ldr_archive_outcome *out, struct ldr_error *err)
{
	struct output output = {.protection = request->protection};
	enum ldr_status status = ldr_root_open_above(request->out_path, &output.root, &output.name,
						     err);

	if (!status)
		status = refuse_inside(request->folder, &output, request->out_path, err);
	if (!status)
		status = pack_folder(request, &output, out, err);
	ldr_root_close(output.root);
	return status;
}

/* ---- export ---- */

struct export
{
	struct ldr_view *view;
	struct ldr_pack_writer *writer;
	struct ldr_coder *coder;
	uint8_t *stored;
	const struct ldr_placed_block *wants;
};

static enum ldr_status append_block(void *context, size_t want, const void *plain,
				    struct ldr_error *err)
{
	const struct ldr_codec_choice choice = {.policy = LDR_POLICY_LZ4};
	struct export *export = context;
	const struct ldr_block_ref *block = &export->wants[want].block;
	uint32_t stored_bytes;
	enum ldr_codec codec;
	uint64_t offset;

	if (ldr_pack_writer_has(export->writer, &block->id))
		return LDR_OK;
	ldr_encode(export->coder, &choice, plain, block->plain_bytes, export->stored, &codec,
		   &stored_bytes);
	return ldr_pack_writer_append(export->writer, block, codec, export->stored, stored_bytes,
				      &offset, err);
}

/* Every block of the tree in turn, a window of them at a time. */
static enum ldr_status append_blocks(struct export *export, uint64_t count, struct ldr_error *err)
{
	enum { WINDOW = 4096 };
	LDR_AUTO_FREE struct ldr_placed_block *wants = calloc(WINDOW, sizeof(*wants));
	enum ldr_status status = LDR_OK;

	export->coder = ldr_coder_new();
	export->stored = malloc(LDR_STORED_MAX_BYTES);
	if (!wants || !export->coder || !export->stored)
		return ldr_fail(err, LDR_ENOMEM, "export: out of memory");
	export->wants = wants;
	for (uint64_t done = 0; !status && done < count; done += WINDOW) {
		uint64_t some = count - done < WINDOW ? count - done : WINDOW;

		status = ldr_view_places(export->view, done, some, wants, err);
		if (!status)
			status = ldr_source_read_many(ldr_view_source(export->view), wants, some, 0,
						      append_block, export, err);
	}
	return status;
}

static enum ldr_status append_sections(struct export *export, struct ldr_error *err)
{
	const uint8_t *tree_bytes;
	size_t tree_length, record_length;
	const char *record = ldr_view_record(export->view, &record_length);
	enum ldr_status status = ldr_view_tree_bytes(export->view, &tree_bytes, &tree_length, err);

	if (!status)
		status = ldr_pack_writer_section(export->writer, LDR_SECTION_TREE, tree_bytes,
						 tree_length, err);
	if (!status && record)
		status = ldr_pack_writer_section(export->writer, LDR_SECTION_RECORD, record,
						 record_length, err);
	return status;
}

static enum ldr_status write_export(struct export *export, struct output *output,
				    struct ldr_archive_outcome *out, struct ldr_error *err)
{
	struct ldr_stream *stream = NULL;
	const struct ldr_tree *tree;
	enum ldr_status status = ldr_view_tree(export->view, &tree, err);

	if (!status)
		status = output_begin(output, &stream, err);
	if (!status)
		status = ldr_pack_writer_new(stream, NULL, &export->writer, err);
	if (!status)
		status = append_blocks(export, ldr_tree_totals(tree)->blocks, err);
	if (!status)
		status = append_sections(export, err);
	if (!status)
		status = ldr_pack_writer_seal(export->writer, &out->id, &out->pack_bytes, err);
	if (!status) {
		out->totals = *ldr_tree_totals(tree);
		out->blocks = ldr_pack_writer_count(export->writer);
		status = output_finish(output, LDR_STEAL(stream), &out->id, out->pack_bytes, 0,
				       err);
	}
	ldr_stream_abort(stream);
	return status;
}

enum ldr_status ldr_archive_export(struct ldr_view *view, const char *out_path,
				   struct ldr_archive_outcome *out, struct ldr_error *err)
{
	struct export export = {.view = view};
	struct output output = {0};
	enum ldr_status status = ldr_root_open_above(out_path, &output.root, &output.name, err);

	*out = (struct ldr_archive_outcome){0};
	if (!status)
		status = write_export(&export, &output, out, err);
	ldr_pack_writer_free(export.writer);
	ldr_coder_free(export.coder);
	free(export.stored);
	ldr_root_close(output.root);
	return status;
}
