/*
 * The builder's batches: filled by the feeder, worked on by the workers; see builder_priv.h.
 *
 * Small files share a batch and large ones spread over several, so that a worker gets half a megabyte at
 * a time however small the files are. What of a large file is not cut yet when its batch is full
 * (less than one block) is carried to the next one.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "packs/builder_priv.h"

/* ---- the workers' side ---- */

static void work_on_block(struct ldr_builder *builder, struct ldr_feed_worker *worker,
			  struct ldr_feed_batch *batch, struct ldr_feed_block *block)
{
	struct ldr_run_block *run = ldr_run_block(&builder->blocks, block->number);
	const struct ldr_known_blocks *known = &builder->options.known;
	const uint8_t *plain = batch->plain + block->at;

	ldr_digest(worker->hasher, plain, block->plain_bytes, &run->block.id);
	if (known->find && known->find(known->context, &run->block.id, &run->place)) {
		block->state = LDR_FEED_KNOWN;
		return;
	}
	if (!ldr_run_blocks_claim(&builder->blocks, block->number)) {
		block->state = LDR_FEED_REPEATED;
		return;
	}
	block->state = LDR_FEED_NEW;
	ldr_encode(worker->coder, block->choice, plain, block->plain_bytes,
		   batch->stored + block->at, &block->codec, &block->stored_bytes);
}

static void work_on_batch(void *context, unsigned worker, void *item)
{
	struct ldr_builder *builder = context;
	struct ldr_feed_batch *batch = item;

	for (uint32_t i = 0; i < batch->count; i++)
		work_on_block(builder, &builder->workers[worker], batch, &batch->blocks[i]);
}

/* ---- start and stop ---- */

static enum ldr_status no_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "builder: no memory for buffers and workers");
}

static enum ldr_status make_workers(struct ldr_builder *builder, unsigned count,
				    struct ldr_error *err)
{
	builder->workers = calloc(count, sizeof(*builder->workers));
	if (!builder->workers)
		return no_memory(err);
	for (unsigned i = 0; i < count; i++) {
		builder->workers[i].coder = ldr_coder_new();
		builder->workers[i].hasher = ldr_hasher_new();
		if (!builder->workers[i].coder || !builder->workers[i].hasher)
			return no_memory(err);
	}
	return LDR_OK;
}

static enum ldr_status make_batches(struct ldr_builder *builder, void **items,
				    struct ldr_error *err)
{
	builder->batches = calloc(builder->batch_count, sizeof(*builder->batches));
	if (!builder->batches)
		return no_memory(err);
	for (unsigned i = 0; i < builder->batch_count; i++) {
		struct ldr_feed_batch *batch = &builder->batches[i];

		batch->plain = malloc(2 * (size_t)LDR_FEED_BYTES);
		if (!batch->plain)
			return no_memory(err);
		batch->stored = batch->plain + LDR_FEED_BYTES;
		items[i] = batch;
	}
	return LDR_OK;
}

enum ldr_status ldr_feed_start(struct ldr_builder *builder, struct ldr_error *err)
{
	unsigned workers = builder->options.workers;
	enum ldr_status status;

	builder->batch_count = 2 * workers + 2;
	if (builder->batch_count > LDR_FEED_ITEMS_MAX)
		builder->batch_count = LDR_FEED_ITEMS_MAX;
	status = make_workers(builder, workers, err);
	if (!status)
		status = make_batches(builder, builder->items, err);
	if (status)
		return status;
	return ldr_pipeline_new(
		&(struct ldr_pipeline_options){
			.workers = workers,
			.items = builder->batch_count,
			.item = builder->items,
			.work = work_on_batch,
			.context = builder,
		},
		&builder->pipeline, err);
}

void ldr_feed_stop(struct ldr_builder *builder)
{
	ldr_pipeline_free(builder->pipeline);
	builder->pipeline = NULL;
	for (unsigned i = 0; builder->batches && i < builder->batch_count; i++)
		free(builder->batches[i].plain);
	free(builder->batches);
	builder->batches = NULL;
	for (unsigned i = 0; builder->workers && i < builder->options.workers; i++) {
		ldr_coder_free(builder->workers[i].coder);
		ldr_hasher_free(builder->workers[i].hasher);
	}
	free(builder->workers);
	builder->workers = NULL;
}

/* ---- the feeder's side ---- */

/* Stores the oldest batch if it is done; with wait, waits for that. */
static enum ldr_status store_oldest(struct ldr_builder *builder, bool wait, bool *out_stored,
				    struct ldr_error *err)
{
	const struct ldr_feed_batch *batch = ldr_pipeline_next(builder->pipeline, wait);
	enum ldr_status status;

	*out_stored = batch != NULL;
	if (!batch)
		return LDR_OK;
	status = ldr_payload_batch(builder, batch, err);
	ldr_pipeline_release(builder->pipeline);
	return status;
}

static enum ldr_status take_batch(struct ldr_builder *builder, struct ldr_error *err)
{
	struct ldr_feed_batch *batch;
	enum ldr_status status = LDR_OK;
	bool stored;

	while (!status && !(batch = ldr_pipeline_take(builder->pipeline)))
		status = store_oldest(builder, true, &stored, err);
	if (status)
		return status;
	batch->cut = batch->pending = batch->count = 0;
	builder->batch = batch;
	return LDR_OK;
}

/* Gives the batch that is being filled to the workers; what is pending goes to the next one. The pending
 * bytes lie behind those that the workers read, and stay there until the batch is released, which is not
 * before all older ones are: so they are still there when the next one has been taken. */
static enum ldr_status next_batch(struct ldr_builder *builder, struct ldr_error *err)
{
	const struct ldr_feed_batch *full = builder->batch;
	enum ldr_status status;
	bool stored = true;

	builder->batch = NULL;
	if (full)
		ldr_pipeline_submit(builder->pipeline);
	status = take_batch(builder, err);
	if (!status && full) {
		assert(builder->batch != full);
		ldr_copy(builder->batch->plain, full->plain + full->cut, full->pending);
		builder->batch->pending = full->pending;
	}
	while (!status && stored)
		status = store_oldest(builder, false, &stored, err);
	return status;
}

static size_t room_of(const struct ldr_feed_batch *batch)
{
	return LDR_FEED_BYTES - batch->cut - batch->pending;
}

enum ldr_status ldr_feed_room(struct ldr_builder *builder, size_t wanted, uint8_t **out_room,
			      size_t *out_bytes, struct ldr_error *err)
{
	struct ldr_feed_batch *batch = builder->batch;

	if (!batch || room_of(batch) < wanted || batch->count == LDR_FEED_BLOCKS) {
		enum ldr_status status = next_batch(builder, err);

		if (status)
			return status;
		batch = builder->batch;
	}
	assert(room_of(batch) >= wanted);
	*out_room = batch->plain + batch->cut + batch->pending;
	*out_bytes = room_of(batch);
	return LDR_OK;
}

/* Makes the first pending bytes a block. */
static enum ldr_status cut(struct ldr_builder *builder, uint32_t plain_bytes,
			   const struct ldr_codec_choice *choice, struct ldr_error *err)
{
	struct ldr_feed_block *block;
	struct ldr_feed_batch *batch;
	enum ldr_status status = LDR_OK;

	if (builder->batch->count == LDR_FEED_BLOCKS)
		status = next_batch(builder, err);
	if (status)
		return status;
	batch = builder->batch;
	assert(plain_bytes > 0 && plain_bytes <= batch->pending);
	block = &batch->blocks[batch->count];
	*block = (struct ldr_feed_block){
		.at = batch->cut,
		.plain_bytes = plain_bytes,
		.choice = choice,
	};
	status = ldr_run_blocks_add(&builder->blocks, plain_bytes, &block->number, err);
	if (status)
		return status;
	batch->count++;
	batch->cut += plain_bytes;
	batch->pending -= plain_bytes;
	return LDR_OK;
}

enum ldr_status ldr_feed_put(struct ldr_builder *builder, size_t bytes, bool end,
			     const struct ldr_codec_choice *choice, struct ldr_error *err)
{
	const struct ldr_chunk_sizes *sizes = &builder->options.chunks;
	enum ldr_status status = LDR_OK;

	builder->batch->pending += (uint32_t)bytes;
	while (!status) {
		const struct ldr_feed_batch *batch = builder->batch;

		if (batch->pending == 0 || (!end && batch->pending < sizes->max_bytes))
			break;
		status = cut(builder,
			     ldr_chunk_next(sizes, batch->plain + batch->cut, batch->pending),
			     choice, err);
	}
	return status;
}

enum ldr_status ldr_feed_bytes(struct ldr_builder *builder, const void *bytes, size_t length,
			       bool single, struct ldr_error *err)
{
	const struct ldr_codec_choice *choice = &builder->options.codec;
	const uint8_t *next = bytes;
	enum ldr_status status = LDR_OK;

	while (!status && length > 0) {
		size_t room, count;
		uint8_t *to;

		status = ldr_feed_room(builder, single ? length : LDR_FEED_LEAST_BYTES, &to, &room,
				       err);
		if (status)
			break;
		count = length < room ? length : room;
		memcpy(to, next, count);
		next += count;
		length -= count;
		if (single) {
			builder->batch->pending += (uint32_t)count;
			status = cut(builder, (uint32_t)count, choice, err);
		} else {
			status = ldr_feed_put(builder, count, length == 0, choice, err);
		}
	}
	return status;
}

enum ldr_status ldr_feed_drain(struct ldr_builder *builder, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	bool stored = true;

	if (builder->batch) {
		assert(builder->batch->pending == 0);
		builder->batch = NULL;
		ldr_pipeline_submit(builder->pipeline);
	}
	while (!status && stored)
		status = store_oldest(builder, true, &stored, err);
	return status;
}
