/*
 * One build, from its options to its result; see builder.h.
 */
#include "packs/builder.h"

#include <stdlib.h>

#include "common/os.h"
#include "packs/builder_priv.h"

void ldr_build_dispose(struct ldr_build *build)
{
	free(build->tree);
	free(build->places);
	free(build->packs);
	*build = (struct ldr_build){.tree = NULL};
}

/* ---- options ---- */

static bool no_sizes(const struct ldr_chunk_sizes *sizes)
{
	return sizes->min_bytes == 0 && sizes->normal_bytes == 0 && sizes->max_bytes == 0;
}

static enum ldr_status take_options(struct ldr_build_options *to,
				    const struct ldr_build_options *from, struct ldr_error *err)
{
	if (from->size < sizeof(*from))
		return ldr_fail(err, LDR_EINVAL, "build options of %zu bytes, %zu expected",
				from->size, sizeof(*from));
	*to = *from;
	if (no_sizes(&to->chunks))
		to->chunks = LDR_CHUNK_SIZES_DEFAULT;
	if (to->workers == 0)
		to->workers = ldr_thread_processors();
	if (to->workers > LDR_FEED_WORKERS_MAX)
		to->workers = LDR_FEED_WORKERS_MAX;
	if (to->kind == LDR_BUILD_ARCHIVE) {
		to->pack_target_bytes = 0;
		to->known = (struct ldr_known_blocks){.find = NULL};
	}
	return ldr_chunk_sizes_check(&to->chunks, err);
}

/* ---- one build ---- */

static void builder_dispose(struct ldr_builder *builder)
{
	ldr_feed_stop(builder);
	ldr_payload_abort(builder);
	if (builder->folder_fd >= 0)
		ldr_os_close(builder->folder_fd);
	ldr_run_blocks_dispose(&builder->blocks);
	free(builder->order);
	free(builder->files);
	ldr_build_dispose(&builder->result);
}

static enum ldr_status read_files(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = ldr_builder_set_order(builder, err);

	builder->files = calloc(builder->scan->count, sizeof(*builder->files));
	if (!status && !builder->files)
		status = ldr_fail(err, LDR_ENOMEM, "builder: no memory for %u files",
				  builder->scan->count);
	if (!status)
		status = ldr_feed_start(builder, err);
	if (!status)
		status = ldr_builder_read_all(builder, err);
	return status ? status : ldr_feed_drain(builder, err);
}

static enum ldr_status finish_archive(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = ldr_payload_open(builder, err);

	return status ? status : ldr_payload_seal(builder, true, err);
}

static enum ldr_status finish_release(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = ldr_builder_store_tree(builder, err);

	return status ? status : ldr_payload_seal(builder, false, err);
}

static enum ldr_status run(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = read_files(builder, err);

	if (!status)
		status = ldr_builder_make_tree(builder, err);
	if (status)
		return status;
	return builder->options.kind == LDR_BUILD_ARCHIVE ? finish_archive(builder, err)
							  : finish_release(builder, err);
}

enum ldr_status ldr_build_run(struct ldr_scan *scan, const struct ldr_build_options *options,
			      const struct ldr_pack_sink *sink, struct ldr_build *out_build,
			      struct ldr_error *err)
{
	struct ldr_builder builder = {.scan = scan, .sink = sink, .folder_fd = -1};
	enum ldr_status status = take_options(&builder.options, options, err);

	if (status)
		return status;
	status = ldr_run_blocks_init(&builder.blocks, err);
	if (!status)
		status = run(&builder, err);
	if (!status) {
		*out_build = builder.result;
		builder.result = (struct ldr_build){.tree = NULL};
	}
	builder_dispose(&builder);
	return status;
}
