/*
 * The builder's store: finished batches, in order, become places in packs; see builder_priv.h.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "packs/builder_priv.h"

/* ---- packs ---- */

enum ldr_status ldr_payload_open(struct ldr_builder *builder, struct ldr_error *err)
{
	struct ldr_pack_writer_options options = {.align = builder->options.align};
	uint64_t number = (uint64_t)builder->options.first_pack_number + builder->result.pack_count;
	enum ldr_status status;

	if (builder->writer || !builder->sink)
		return LDR_OK;
	if (number > LDR_MAP_PACK_MAX)
		return ldr_fail(err, LDR_ELIMIT, "pack number %" PRIu64 ", limit %u", number,
				LDR_MAP_PACK_MAX);
	status = builder->sink->begin(builder->sink->context, &builder->stream, err);
	if (status)
		return status;
	return ldr_pack_writer_new(builder->stream, &options, &builder->writer, err);
}

static enum ldr_status note_pack(struct ldr_builder *builder, const struct ldr_id *id,
				 uint64_t size, struct ldr_error *err)
{
	struct ldr_build *result = &builder->result;
	void *grown = reallocarray(result->packs, result->pack_count + 1, sizeof(*result->packs));

	if (!grown)
		return ldr_fail(err, LDR_ENOMEM, "builder: no memory for %u packs",
				result->pack_count + 1);
	result->packs = grown;
	result->packs[result->pack_count++] = (struct ldr_built_pack){*id, size};
	return LDR_OK;
}

enum ldr_status ldr_payload_seal(struct ldr_builder *builder, bool tree, struct ldr_error *err)
{
	const struct ldr_build *result = &builder->result;
	enum ldr_status status = LDR_OK;
	struct ldr_id id;
	uint64_t size;

	if (!builder->writer)
		return LDR_OK;
	if (tree)
		status = ldr_pack_writer_section(builder->writer, LDR_SECTION_TREE, result->tree,
						 result->tree_bytes, err);
	if (!status)
		status = ldr_pack_writer_seal(builder->writer, &id, &size, err);
	if (!status)
		status = note_pack(builder, &id, size, err);
	if (status)
		return status;
	ldr_pack_writer_free(LDR_STEAL(builder->writer));
	return builder->sink->finish(builder->sink->context, LDR_STEAL(builder->stream), &id, size,
				     result->pack_count - 1, err);
}

void ldr_payload_abort(struct ldr_builder *builder)
{
	ldr_pack_writer_free(LDR_STEAL(builder->writer));
	ldr_stream_abort(LDR_STEAL(builder->stream));
}

/* Ends the open pack where the block would make it pass its target. */
static enum ldr_status make_room(struct ldr_builder *builder, uint32_t stored_bytes,
				 struct ldr_error *err)
{
	uint64_t target = builder->options.pack_target_bytes;

	if (!target || !builder->writer || builder->keep_together)
		return LDR_OK;
	if (ldr_pack_writer_count(builder->writer) == 0 ||
	    ldr_pack_writer_bytes(builder->writer) + stored_bytes <= target)
		return LDR_OK;
	return ldr_payload_seal(builder, false, err);
}

/* ---- blocks ---- */

static void count_new(struct ldr_build_stats *stats, const struct ldr_feed_block *block)
{
	stats->new_blocks++;
	stats->new_plain_bytes += block->plain_bytes;
	stats->new_stored_bytes += block->stored_bytes;
	stats->codec_blocks[block->codec]++;
	stats->codec_plain_bytes[block->codec] += block->plain_bytes;
	stats->codec_stored_bytes[block->codec] += block->stored_bytes;
}

static enum ldr_status append(struct ldr_builder *builder, struct ldr_run_block *run,
			      const struct ldr_feed_block *block, const uint8_t *stored,
			      struct ldr_error *err)
{
	uint64_t offset = 0;
	enum ldr_status status = make_room(builder, block->stored_bytes, err);

	if (!status)
		status = ldr_payload_open(builder, err);
	if (!status && builder->writer)
		status = ldr_pack_writer_append(builder->writer, &run->block, block->codec, stored,
						block->stored_bytes, &offset, err);
	if (status)
		return status;
	run->place = (struct ldr_place){
		.pack = builder->options.first_pack_number + builder->result.pack_count,
		.offset = offset,
		.stored_bytes = block->stored_bytes,
		.codec = block->codec,
	};
	count_new(&builder->result.stats, block);
	return LDR_OK;
}

static enum ldr_status store_block(struct ldr_builder *builder, const struct ldr_feed_batch *batch,
				   const struct ldr_feed_block *block, struct ldr_error *err)
{
	struct ldr_run_block *run = ldr_run_block(&builder->blocks, block->number);
	uint32_t first;

	if (block->state == LDR_FEED_KNOWN) {
		builder->result.stats.known_blocks++;
		return LDR_OK;
	}
	first = ldr_run_blocks_first(&builder->blocks, block->number);
	if (first != block->number) {
		run->place = ldr_run_block(&builder->blocks, first)->place;
		return LDR_OK;
	}
	assert(block->state == LDR_FEED_NEW);
	return append(builder, run, block, batch->stored + block->at, err);
}

enum ldr_status ldr_payload_batch(struct ldr_builder *builder, const struct ldr_feed_batch *batch,
				  struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 0; i < batch->count && !status; i++)
		status = store_block(builder, batch, &batch->blocks[i], err);
	builder->progress.new_stored_bytes = builder->result.stats.new_stored_bytes;
	return status;
}
