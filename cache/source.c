/*
 * The chain a block comes through; see source.h. Here: making it, what is held here, one block.
 *
 * Invariant: a block that a pack or the disk gave goes into memory, one that memory gave goes nowhere,
 * and what lies in a pack at hand is never put on the disk again.
 */
#include "cache/source_priv.h"

#include <stdlib.h>

#include "common/bytes.h"

#define PACKS_MAX 65536u
#define SCRATCH_KEPT 16u

/* ---- scratch ---- */

static void scratch_free(struct ldr_source_scratch *scratch)
{
	if (!scratch)
		return;
	ldr_coder_free(scratch->coder);
	ldr_hasher_free(scratch->hasher);
	free(scratch->plain);
	free(scratch);
}

enum ldr_status ldr_source_scratch_take(struct ldr_source *source,
					struct ldr_source_scratch **out_scratch,
					struct ldr_error *err)
{
	struct ldr_source_scratch *scratch;

	ldr_mutex_lock(&source->scratch_lock);
	scratch = source->idle;
	if (scratch) {
		source->idle = scratch->next;
		source->idle_count--;
	}
	ldr_mutex_unlock(&source->scratch_lock);
	if (!scratch) {
		scratch = calloc(1, sizeof(*scratch));
		if (scratch) {
			scratch->coder = ldr_coder_new();
			scratch->hasher = ldr_hasher_new();
		}
	}
	if (!scratch || !scratch->coder || !scratch->hasher) {
		scratch_free(scratch);
		return ldr_fail(err, LDR_ENOMEM, "no memory to decode a block");
	}
	*out_scratch = scratch;
	return LDR_OK;
}

void ldr_source_scratch_give(struct ldr_source *source, struct ldr_source_scratch *scratch)
{
	ldr_mutex_lock(&source->scratch_lock);
	if (source->idle_count < SCRATCH_KEPT) {
		scratch->next = source->idle;
		source->idle = scratch;
		source->idle_count++;
		scratch = NULL;
	}
	ldr_mutex_unlock(&source->scratch_lock);
	scratch_free(scratch);
}

/* ---- making and freeing ---- */

enum ldr_status ldr_source_new(struct ldr_memory_cache *memory, struct ldr_disk_cache *disk,
			       struct ldr_source **out_source, struct ldr_error *err)
{
	struct ldr_source *source = calloc(1, sizeof(*source));

	if (!source)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a source of blocks");
	source->memory = memory;
	source->disk = disk;
	ldr_flights_init(&source->flights);
	ldr_mutex_init(&source->scratch_lock, LDR_RANK_LEAF);
	ldr_mutex_init(&source->ask_lock, LDR_RANK_ASK);
	*out_source = source;
	return LDR_OK;
}

void ldr_source_free(struct ldr_source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->pack_count; i++)
		ldr_pack_unref(source->packs[i].pack);
	free(source->packs);
	while (source->idle) {
		struct ldr_source_scratch *scratch = source->idle;

		source->idle = scratch->next;
		scratch_free(scratch);
	}
	ldr_flights_dispose(&source->flights);
	ldr_mutex_dispose(&source->ask_lock);
	ldr_mutex_dispose(&source->scratch_lock);
	free(source);
}

enum ldr_status ldr_source_add_pack(struct ldr_source *source, struct ldr_pack *pack,
				    struct ldr_error *err)
{
	struct ldr_source_pack *packs;

	if (source->pack_count >= PACKS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "source: %zu packs, limit %u", source->pack_count,
				PACKS_MAX);
	packs = realloc(source->packs, (source->pack_count + 1) * sizeof(*packs));
	if (!packs)
		return ldr_fail(err, LDR_ENOMEM, "no memory for another pack");
	source->packs = packs;
	packs[source->pack_count++].pack = ldr_pack_ref(pack);
	return LDR_OK;
}

void ldr_source_set_upstream(struct ldr_source *source, const struct ldr_upstream *upstream)
{
	source->upstream = *upstream;
}

void ldr_source_stat(struct ldr_source *source, struct ldr_source_stat *out)
{
	*out = (struct ldr_source_stat){
		.from_memory = atomic_load(&source->from_memory),
		.from_packs = atomic_load(&source->from_packs),
		.from_disk = atomic_load(&source->from_disk),
		.from_upstream = atomic_load(&source->from_upstream),
		.upstream_bytes = atomic_load(&source->upstream_bytes),
		.shared = atomic_load(&source->shared),
	};
}

/* ---- what is held here ---- */

bool ldr_source_find(const struct ldr_source *source, const struct ldr_id *id, size_t from,
		     struct ldr_source_place *out)
{
	for (size_t i = from; i < source->pack_count; i++) {
		if (ldr_pack_find(source->packs[i].pack, id, &out->entry)) {
			out->pack = i;
			return true;
		}
	}
	return false;
}

static bool find_in_packs(const struct ldr_source *source, const struct ldr_id *id)
{
	struct ldr_source_place place;

	return ldr_source_find(source, id, 0, &place);
}

bool ldr_source_holds(struct ldr_source *source, const struct ldr_id *id)
{
	return (source->memory && ldr_memory_has(source->memory, id)) ||
	       find_in_packs(source, id) || (source->disk && ldr_disk_has(source->disk, id));
}

static enum ldr_status read_at(struct ldr_source *source, const struct ldr_source_place *place,
			       const struct ldr_block_ref *block, struct ldr_coder *coder,
			       const struct ldr_block_until *to, struct ldr_error *err)
{
	struct ldr_pack *pack = source->packs[place->pack].pack;

	if (place->entry.plain_bytes != block->plain_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: block of %u bytes, wanted %u",
				ldr_pack_name(pack), place->entry.plain_bytes, block->plain_bytes);
	return ldr_pack_read_until(pack, &place->entry, coder, to->until, to->plain, err);
}

enum ldr_status ldr_source_read_place(struct ldr_source *source, struct ldr_source_place place,
				      const struct ldr_block_ref *block, struct ldr_coder *coder,
				      const struct ldr_block_until *to, struct ldr_error *err)
{
	enum ldr_status first = read_at(source, &place, block, coder, to, err);

	if (first == LDR_OK)
		return LDR_OK;
	while (ldr_source_find(source, &block->id, place.pack + 1, &place)) {
		if (read_at(source, &place, block, coder, to, NULL) == LDR_OK)
			return LDR_OK;
	}
	return first;
}

enum ldr_status ldr_source_read_stored(struct ldr_source *source, const struct ldr_block_ref *block,
				       void *plain, struct ldr_error *err)
{
	const struct ldr_block_until to = {block->plain_bytes, plain};
	struct ldr_source_scratch *scratch;
	struct ldr_source_place place;
	enum ldr_status status;

	if (source->pack_count == 0 && !source->disk)
		return LDR_ENOTFOUND;
	status = ldr_source_scratch_take(source, &scratch, err);
	if (status)
		return status;
	status = LDR_ENOTFOUND;
	if (ldr_source_find(source, &block->id, 0, &place))
		status = ldr_source_read_place(source, place, block, scratch->coder, &to, err);
	if (status == LDR_OK)
		ldr_source_count(&source->from_packs, 1);
	if (status && source->disk &&
	    ldr_disk_read(source->disk, block, scratch->coder, scratch->hasher, plain, NULL) ==
		    LDR_OK) {
		ldr_source_count(&source->from_disk, 1);
		status = LDR_OK;
	}
	ldr_source_scratch_give(source, scratch);
	if (status == LDR_OK && source->memory)
		ldr_memory_put(source->memory, block, plain, NULL);
	return status;
}

bool ldr_source_pin(struct ldr_source *source, const struct ldr_block_ref *block,
		    struct ldr_memory_block *out_pin)
{
	if (!source->memory || !ldr_memory_get(source->memory, &block->id, out_pin))
		return false;
	if (out_pin->length == block->plain_bytes) {
		ldr_source_count(&source->from_memory, 1);
		return true;
	}
	ldr_memory_unpin(source->memory, out_pin);
	return false;
}

/* ---- one block ---- */

enum ldr_status ldr_source_check_want(const struct ldr_placed_block *want, struct ldr_error *err)
{
	if (want->block.plain_bytes == 0 || want->block.plain_bytes > LDR_BLOCK_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "block of %u bytes, limit %u",
				want->block.plain_bytes, LDR_BLOCK_MAX_BYTES);
	return LDR_OK;
}

/* Not in memory: from a pack, the disk, or above. Where nobody is above, a damaged pack is the reason. */
enum ldr_status ldr_source_read_below(struct ldr_source *source,
				      const struct ldr_placed_block *want, void *plain,
				      struct ldr_error *err)
{
	struct ldr_error damaged = {0};
	enum ldr_status status = ldr_source_read_stored(source, &want->block, plain, &damaged);

	if (status == LDR_OK)
		return LDR_OK;
	if (status != LDR_ENOTFOUND && !ldr_source_has_upstream(source)) {
		if (err)
			*err = damaged;
		return status;
	}
	return ldr_source_read_above(source, want, plain, err);
}

enum ldr_status ldr_source_read(struct ldr_source *source, const struct ldr_placed_block *want,
				void *plain, struct ldr_error *err)
{
	struct ldr_memory_block pin;
	enum ldr_status status = ldr_source_check_want(want, err);

	if (status)
		return status;
	if (ldr_source_pin(source, &want->block, &pin)) {
		ldr_copy(plain, pin.bytes, pin.length);
		ldr_memory_unpin(source->memory, &pin);
		return LDR_OK;
	}
	return ldr_source_read_below(source, want, plain, err);
}
