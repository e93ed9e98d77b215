/*
 * The blocks that a release maps, by id; see known.h. Open addressing, at most half full.
 */
#include "client/known.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/bytes.h"

/* Numbers go up to 2^24; one bit for each. */
#define USED_WORDS ((LDR_MAP_PACK_MAX + 1u) / 64)

struct ldr_known {
	struct ldr_placed_block *slots; /* stored_bytes 0: free */
	uint64_t mask;
	_Atomic uint64_t *used; /* calloc: only touched pages cost memory */
};

enum ldr_status ldr_known_new(uint64_t blocks, struct ldr_known **out_known, struct ldr_error *err)
{
	struct ldr_known *known = calloc(1, sizeof(*known));
	uint64_t slots = 64;

	while (slots < blocks * 2)
		slots *= 2;
	if (known) {
		known->mask = slots - 1;
		known->slots = calloc(slots, sizeof(*known->slots));
		known->used = calloc(USED_WORDS, sizeof(*known->used));
	}
	if (!known || !known->slots || !known->used) {
		ldr_known_free(known);
		return ldr_fail(err, LDR_ENOMEM, "table of %" PRIu64 " known blocks", blocks);
	}
	*out_known = known;
	return LDR_OK;
}

void ldr_known_free(struct ldr_known *known)
{
	if (!known)
		return;
	free(known->slots);
	free(known->used);
	free(known);
}

/* The slot that holds the id, or the free one where it would go. */
static struct ldr_placed_block *slot_of(const struct ldr_known *known, const struct ldr_id *id)
{
	uint64_t at = ldr_id_hash(id) & known->mask;

	while (known->slots[at].place.stored_bytes && !ldr_id_equal(&known->slots[at].block.id, id))
		at = (at + 1) & known->mask;
	return &known->slots[at];
}

void ldr_known_add(struct ldr_known *known, const struct ldr_placed_block *block)
{
	struct ldr_placed_block *slot = slot_of(known, &block->block.id);

	assert(block->place.pack <= LDR_MAP_PACK_MAX);
	if (!slot->place.stored_bytes)
		*slot = *block;
}

bool ldr_known_find(void *context, const struct ldr_id *id, struct ldr_place *out_place)
{
	struct ldr_known *known = context;
	const struct ldr_placed_block *slot = slot_of(known, id);
	uint32_t pack = slot->place.pack;

	if (!slot->place.stored_bytes)
		return false;
	/* Read after the workers were joined: no order is needed. */
	atomic_fetch_or_explicit(&known->used[pack / 64], UINT64_C(1) << (pack % 64),
				 memory_order_relaxed);
	*out_place = slot->place;
	return true;
}

bool ldr_known_used(const struct ldr_known *known, uint32_t pack_number)
{
	uint64_t word = atomic_load_explicit(&known->used[pack_number / 64], memory_order_relaxed);

	return word >> (pack_number % 64) & 1;
}
