/*
 * The builder's table of blocks; see builder_priv.h for the life of a block and the rule of claims.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "packs/builder_priv.h"

#define SEGMENT_BLOCKS 4096u
#define SEGMENTS_MAX (LDR_RUN_BLOCKS_MAX / SEGMENT_BLOCKS)
#define CLAIMS_FIRST 8192u

static enum ldr_status no_memory(const struct ldr_run_blocks *blocks, struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "builder: no memory for more than %" PRIu32 " blocks",
			blocks->count);
}

enum ldr_status ldr_run_blocks_init(struct ldr_run_blocks *blocks, struct ldr_error *err)
{
	*blocks = (struct ldr_run_blocks){.claim_mask = CLAIMS_FIRST - 1};
	ldr_mutex_init(&blocks->lock, LDR_RANK_BUILDER);
	blocks->segments = calloc(SEGMENTS_MAX, sizeof(struct ldr_run_block *));
	blocks->claims = calloc(CLAIMS_FIRST, sizeof(*blocks->claims));
	if (!blocks->segments || !blocks->claims)
		return no_memory(blocks, err);
	return LDR_OK;
}

void ldr_run_blocks_dispose(struct ldr_run_blocks *blocks)
{
	for (uint32_t i = 0; blocks->segments && i < SEGMENTS_MAX && blocks->segments[i]; i++)
		free(blocks->segments[i]);
	free(blocks->segments);
	free(blocks->claims);
	ldr_mutex_dispose(&blocks->lock);
}

struct ldr_run_block *ldr_run_block(const struct ldr_run_blocks *blocks, uint32_t number)
{
	return &blocks->segments[number / SEGMENT_BLOCKS][number % SEGMENT_BLOCKS];
}

static const struct ldr_id *id_of(const struct ldr_run_blocks *blocks, uint32_t number)
{
	return &ldr_run_block(blocks, number)->block.id;
}

/* Where this id's claim is, or where it would be put. */
static uint32_t *find_locked(struct ldr_run_blocks *blocks, const struct ldr_id *id)
{
	uint32_t at = (uint32_t)ldr_id_hash(id) & blocks->claim_mask;

	while (blocks->claims[at] && !ldr_id_equal(id_of(blocks, blocks->claims[at] - 1), id))
		at = (at + 1) & blocks->claim_mask;
	return &blocks->claims[at];
}

static bool grow_locked(struct ldr_run_blocks *blocks)
{
	uint32_t old_size = blocks->claim_mask + 1;
	uint32_t *old = blocks->claims;
	uint32_t *claims = calloc((size_t)old_size * 2, sizeof(*claims));

	if (!claims)
		return false;
	blocks->claims = claims;
	blocks->claim_mask = old_size * 2 - 1;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i])
			*find_locked(blocks, id_of(blocks, old[i] - 1)) = old[i];
	free(old);
	return true;
}

/* Room for one claim a block, made here so that workers never have to allocate. */
static bool reserve_claims(struct ldr_run_blocks *blocks)
{
	bool done = true;

	if (blocks->count < (blocks->claim_mask + 1) / 2)
		return true;
	ldr_mutex_lock(&blocks->lock);
	done = grow_locked(blocks);
	ldr_mutex_unlock(&blocks->lock);
	return done;
}

enum ldr_status ldr_run_blocks_add(struct ldr_run_blocks *blocks, uint32_t plain_bytes,
				   uint32_t *out_number, struct ldr_error *err)
{
	struct ldr_run_block **segment = &blocks->segments[blocks->count / SEGMENT_BLOCKS];

	if (blocks->count == LDR_RUN_BLOCKS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "builder: more than %u blocks",
				LDR_RUN_BLOCKS_MAX);
	if (blocks->count % SEGMENT_BLOCKS == 0)
		*segment = calloc(SEGMENT_BLOCKS, sizeof(**segment));
	if (!*segment || !reserve_claims(blocks))
		return no_memory(blocks, err);
	*out_number = blocks->count++;
	ldr_run_block(blocks, *out_number)->block.plain_bytes = plain_bytes;
	return LDR_OK;
}

bool ldr_run_blocks_claim(struct ldr_run_blocks *blocks, uint32_t number)
{
	uint32_t *claim;
	bool first;

	ldr_mutex_lock(&blocks->lock);
	claim = find_locked(blocks, id_of(blocks, number));
	first = *claim == 0 || *claim - 1 > number;
	if (first)
		*claim = number + 1;
	ldr_mutex_unlock(&blocks->lock);
	return first;
}

uint32_t ldr_run_blocks_first(struct ldr_run_blocks *blocks, uint32_t number)
{
	uint32_t first;

	ldr_mutex_lock(&blocks->lock);
	first = *find_locked(blocks, id_of(blocks, number));
	ldr_mutex_unlock(&blocks->lock);
	assert(first != 0 && first - 1 <= number);
	return first - 1;
}
