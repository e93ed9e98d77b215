/*
 * A part of a block out of a pack at hand; see source.h.
 *
 *   kept       decoded where it will lie in memory, the part copied from there
 *   not kept   decoded as far as the part reaches, into the thread's buffer or, when all of it is
 *              wanted, into the caller's
 */
#include "cache/source_priv.h"

#include <stdlib.h>

#include "common/bytes.h"

/* One call of ldr_source_read_part. */
struct errand {
	struct ldr_source *source;
	const struct ldr_block_ref *block;
	const struct ldr_block_part *part;
	const struct ldr_source_place *place;
	struct ldr_source_scratch *scratch;
};

static enum ldr_status read_until(const struct errand *errand, uint32_t until, void *plain,
				  struct ldr_error *err)
{
	const struct ldr_block_until to = {until, plain};
	enum ldr_status status = ldr_source_read_place(
		errand->source, *errand->place, errand->block, errand->scratch->coder, &to, err);

	if (status == LDR_OK)
		ldr_source_count(&errand->source->from_packs, 1);
	return status;
}

static void take_part(const struct errand *errand, const uint8_t *plain)
{
	ldr_copy(errand->part->bytes, plain + errand->part->from, errand->part->length);
}

static enum ldr_status read_unkept(const struct errand *errand, struct ldr_error *err)
{
	const struct ldr_block_part *part = errand->part;
	struct ldr_source_scratch *scratch = errand->scratch;
	enum ldr_status status;

	if (part->length == errand->block->plain_bytes)
		return read_until(errand, part->length, part->bytes, err);
	if (!scratch->plain)
		scratch->plain = malloc(LDR_BLOCK_MAX_BYTES);
	if (!scratch->plain)
		return ldr_fail(err, LDR_ENOMEM, "no memory to decode a block");
	status = read_until(errand, part->from + part->length, scratch->plain, err);
	if (status == LDR_OK)
		take_part(errand, scratch->plain);
	return status;
}

static enum ldr_status read_kept(const struct errand *errand, struct ldr_memory_block *room,
				 uint8_t *to, struct ldr_error *err)
{
	struct ldr_memory_cache *memory = errand->source->memory;
	enum ldr_status status = read_until(errand, errand->block->plain_bytes, to, err);

	ldr_memory_filled(memory, room, status == LDR_OK);
	if (status != LDR_OK)
		return status;
	take_part(errand, room->bytes);
	ldr_memory_unpin(memory, room);
	return LDR_OK;
}

static enum ldr_status read_somehow(const struct errand *errand, enum ldr_memory_want want,
				    struct ldr_error *err)
{
	struct ldr_source *source = errand->source;
	struct ldr_memory_block block;
	uint8_t *to;

	if (!source->memory)
		return read_unkept(errand, err);
	switch (ldr_memory_reserve(source->memory, errand->block, want, &block, &to)) {
	case LDR_MEMORY_FILL:
		return read_kept(errand, &block, to, err);
	case LDR_MEMORY_REFUSED:
		return read_unkept(errand, err);
	case LDR_MEMORY_HELD:
	default:
		break;
	}
	if (block.length == errand->block->plain_bytes) {
		take_part(errand, block.bytes);
		ldr_memory_unpin(source->memory, &block);
		ldr_source_count(&source->from_memory, 1);
		return LDR_OK;
	}
	/* An id has one length: the tree is wrong, or the pack, which the read will tell. */
	ldr_memory_unpin(source->memory, &block);
	return read_unkept(errand, err);
}

enum ldr_status ldr_source_read_part(struct ldr_source *source, const struct ldr_block_ref *block,
				     const struct ldr_block_part *part, enum ldr_memory_want want,
				     struct ldr_error *err)
{
	struct errand errand = {.source = source, .block = block, .part = part};
	bool elsewhere = source->disk || ldr_source_has_upstream(source);
	struct ldr_source_place place;
	enum ldr_status status;

	if (!ldr_source_find(source, &block->id, 0, &place))
		return LDR_ENOTFOUND;
	errand.place = &place;
	status = ldr_source_scratch_take(source, &errand.scratch, err);
	if (status != LDR_OK)
		return status;
	status = read_somehow(&errand, want, elsewhere ? NULL : err);
	ldr_source_scratch_give(source, errand.scratch);
	return status != LDR_OK && elsewhere ? LDR_ENOTFOUND : status;
}
