/*
 * The memory cache: what is put can be got, pins hold, room is bounded, counts are exact.
 */
#include "cache/memory.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/cache/blocks.h"

static uint8_t bytes[LDR_BLOCK_MAX_BYTES];

static bool put(struct ldr_memory_cache *cache, uint32_t seed, uint32_t length,
		struct ldr_memory_block *out)
{
	struct ldr_block_ref block = test_block_fill(seed, length, bytes);

	return ldr_memory_put(cache, &block, bytes, out);
}

static bool get(struct ldr_memory_cache *cache, uint32_t seed, uint32_t length,
		struct ldr_memory_block *out)
{
	struct ldr_block_ref block = test_block_fill(seed, length, bytes);

	return ldr_memory_get(cache, &block.id, out);
}

Test(memory, put_get_pin_and_count)
{
	static const uint32_t lengths[] = {1, 4096, 4097, 65536, 100001, LDR_BLOCK_MAX_BYTES};
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block block, again;
	struct ldr_memory_stat stat;
	const unsigned count = sizeof(lengths) / sizeof(lengths[0]);

	cr_assert_eq(ldr_memory_cache_new(64u << 20, &cache, NULL), LDR_OK);
	for (unsigned i = 0; i < count; i++) {
		cr_assert_not(get(cache, i, lengths[i], &block));
		cr_assert(put(cache, i, lengths[i], NULL));
		cr_assert(put(cache, i, lengths[i], &again), "a second put pins what is there");
		cr_assert(get(cache, i, lengths[i], &block));
		cr_assert_eq(block.length, lengths[i]);
		cr_assert_eq(block.bytes, again.bytes, "one copy");
		cr_assert(test_block_is(i, lengths[i], block.bytes));
		ldr_memory_unpin(cache, &again);
		ldr_memory_unpin(cache, &block);
		cr_assert_null(block.pin);
	}
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.blocks, count);
	cr_assert_eq(stat.hits, count);
	cr_assert_eq(stat.misses, count);
	cr_assert_eq(stat.evictions, 0);
	cr_assert_eq(stat.refused, 0);
	cr_assert_eq(stat.used_bytes, (1u + 1 + 2 + 16 + 25 + 64) * 4096);
	ldr_memory_cache_free(cache);
	ldr_memory_cache_free(NULL);
}

Test(memory, capacities_bound_what_is_kept)
{
	static const struct {
		size_t capacity;
		bool keeps_small, keeps_long;
	} rows[] = {{0, false, false},     {1, false, false},     {4096, false, false},
		    {5000, true, false},   {200000, true, false}, {300000, true, true},
		    {1 << 20, true, true}, {9 << 20, true, true}, {130 << 20, true, true}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_memory_cache *cache = NULL;
		struct ldr_memory_stat stat;

		cr_assert_eq(ldr_memory_cache_new(rows[i].capacity, &cache, NULL), LDR_OK);
		cr_expect_eq(put(cache, 1, 100, NULL), rows[i].keeps_small, "capacity %zu",
			     rows[i].capacity);
		cr_expect_eq(put(cache, 2, LDR_BLOCK_MAX_BYTES, NULL), rows[i].keeps_long,
			     "capacity %zu", rows[i].capacity);
		for (uint32_t seed = 0; seed < 400; seed++)
			put(cache, seed, test_block_length(seed, LDR_BLOCK_MAX_BYTES), NULL);
		ldr_memory_stat(cache, &stat);
		cr_expect_leq(stat.used_bytes, rows[i].capacity);
		cr_expect_eq(stat.capacity_bytes, rows[i].capacity);
		if (rows[i].capacity >= 1 << 20 && rows[i].capacity < 30 << 20) {
			cr_expect_gt(stat.evictions, 100);
			cr_expect_gt(stat.used_bytes, rows[i].capacity / 10 * 6,
				     "capacity %zu used %zu", rows[i].capacity,
				     (size_t)stat.used_bytes);
		}
		ldr_memory_cache_free(cache);
	}
}

Test(memory, pinned_blocks_stay_and_used_ones_get_a_second_chance)
{
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block pinned, block;
	uint32_t hot_lost = 0;

	cr_assert_eq(ldr_memory_cache_new(2u << 20, &cache, NULL), LDR_OK);
	cr_assert(put(cache, 1, 65536, &pinned));
	cr_assert(put(cache, 2, 65536, NULL));
	for (uint32_t seed = 100; seed < 400; seed++) {
		put(cache, seed, 65536, NULL);
		if (get(cache, 2, 65536, &block))
			ldr_memory_unpin(cache, &block);
		else
			hot_lost++;
	}
	cr_expect_eq(hot_lost, 0, "a block used after every put was lost %u times", hot_lost);
	cr_assert(test_block_is(1, 65536, pinned.bytes), "pinned bytes never change");
	cr_assert(get(cache, 1, 65536, &block));
	cr_assert_eq(block.bytes, pinned.bytes, "nor move");
	ldr_memory_unpin(cache, &block);
	ldr_memory_unpin(cache, &pinned);
	for (uint32_t seed = 400; seed < 500; seed++)
		put(cache, seed, 65536, NULL);
	cr_assert_not(get(cache, 1, 65536, &block), "without pin and use it goes");
	ldr_memory_cache_free(cache);
}

Test(memory, all_pinned_refuses_and_recovers)
{
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block pins[64];
	struct ldr_memory_stat stat;
	unsigned count = 0;

	cr_assert_eq(ldr_memory_cache_new(1u << 20, &cache, NULL), LDR_OK);
	while (count < 64 && put(cache, count, 65536, &pins[count]))
		count++;
	cr_assert_geq(count, 14);
	cr_assert_lt(count, 17);
	cr_assert_not(put(cache, 1000, 65536, NULL));
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.refused, 2);
	for (unsigned i = 0; i < count; i++) {
		cr_assert(test_block_is(i, 65536, pins[i].bytes));
		ldr_memory_unpin(cache, &pins[i]);
	}
	cr_assert(put(cache, 1000, 65536, NULL));
	ldr_memory_cache_free(cache);
}

Test(memory, clear_forgets_all_but_leaves_pinned_bytes)
{
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block pinned, block;
	struct ldr_memory_stat stat;

	cr_assert_eq(ldr_memory_cache_new(1u << 20, &cache, NULL), LDR_OK);
	for (uint32_t seed = 0; seed < 10; seed++)
		cr_assert(put(cache, seed, 50000, NULL));
	cr_assert(get(cache, 3, 50000, &pinned));
	ldr_memory_clear(cache);
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.blocks, 0);
	cr_assert_eq(stat.used_bytes, 13 * 4096, "the pinned block's pages");
	for (uint32_t seed = 0; seed < 10; seed++)
		cr_assert_not(get(cache, seed, 50000, &block));
	cr_assert(test_block_is(3, 50000, pinned.bytes));
	cr_assert(put(cache, 3, 50000, &block), "the same block again, beside the cleared one");
	cr_assert_neq(block.bytes, pinned.bytes);
	cr_assert(test_block_is(3, 50000, block.bytes));
	ldr_memory_unpin(cache, &pinned);
	ldr_memory_unpin(cache, &block);
	for (uint32_t seed = 20; seed < 80; seed++)
		cr_assert(put(cache, seed, 50000, NULL));
	ldr_memory_clear(cache);
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.used_bytes, 0, "nothing is left behind");
	ldr_memory_cache_free(cache);
}

static enum ldr_memory_room reserve(struct ldr_memory_cache *cache, uint32_t seed, uint32_t length,
				    enum ldr_memory_want want, struct ldr_memory_block *out,
				    uint8_t **out_bytes)
{
	struct ldr_block_ref block = test_block_fill(seed, length, bytes);

	return ldr_memory_reserve(cache, &block, want, out, out_bytes);
}

Test(memory, a_block_is_filled_where_it_lies)
{
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block room, second, block;
	struct ldr_memory_stat stat;
	uint8_t *to, *other;

	cr_assert_eq(ldr_memory_cache_new(1u << 20, &cache, NULL), LDR_OK);
	cr_assert_eq(reserve(cache, 1, 50000, LDR_MEMORY_ALWAYS, &room, &to), LDR_MEMORY_FILL);
	cr_assert_not(get(cache, 1, 50000, &block), "not before it is filled");
	cr_assert_eq(reserve(cache, 1, 50000, LDR_MEMORY_ALWAYS, &second, &other), LDR_MEMORY_FILL,
		     "another thread with the same block");
	ldr_memory_clear(cache);
	test_block_fill(1, 50000, to);
	test_block_fill(1, 50000, other);
	ldr_memory_filled(cache, &room, true);
	ldr_memory_filled(cache, &second, true);
	cr_assert_eq(second.bytes, room.bytes, "one copy: the first one's");
	cr_assert_eq(room.bytes, to);
	cr_assert(test_block_is(1, 50000, room.bytes));
	cr_assert_eq(reserve(cache, 1, 50000, LDR_MEMORY_ALWAYS, &block, &to), LDR_MEMORY_HELD);
	cr_assert_eq(block.bytes, room.bytes);
	ldr_memory_unpin(cache, &block);
	ldr_memory_unpin(cache, &second);
	ldr_memory_unpin(cache, &room);
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.used_bytes, 13 * 4096);
	cr_assert_eq(reserve(cache, 2, 50000, LDR_MEMORY_ALWAYS, &room, &to), LDR_MEMORY_FILL);
	ldr_memory_filled(cache, &room, false);
	cr_assert_null(room.pin);
	cr_assert_not(get(cache, 2, 50000, &block), "a filling that failed leaves nothing");
	ldr_memory_stat(cache, &stat);
	cr_assert_eq(stat.used_bytes, 13 * 4096);
	ldr_memory_cache_free(cache);
}

/* Reserves with IF_ASKED_AGAIN; whether it was let in. */
static bool admitted(struct ldr_memory_cache *cache, uint32_t seed)
{
	struct ldr_memory_block room;
	uint8_t *to;
	enum ldr_memory_room answer = reserve(cache, seed, 65536, LDR_MEMORY_IF_ASKED_AGAIN, &room,
					      &to);

	if (answer == LDR_MEMORY_FILL) {
		test_block_fill(seed, 65536, to);
		ldr_memory_filled(cache, &room, true);
	}
	if (answer != LDR_MEMORY_REFUSED)
		ldr_memory_unpin(cache, &room);
	return answer != LDR_MEMORY_REFUSED;
}

Test(memory, a_full_cache_takes_what_is_asked_for_again)
{
	struct ldr_memory_cache *cache = NULL;
	struct ldr_memory_block block;
	unsigned held = 0, lots = 0;

	cr_assert_eq(ldr_memory_cache_new(4u << 20, &cache, NULL), LDR_OK);
	while (admitted(cache, held))
		held++;
	cr_assert_geq(held, 55, "free room is for everybody");
	cr_assert(admitted(cache, held), "and for who comes again");
	cr_assert(get(cache, held, 65536, &block));
	ldr_memory_unpin(cache, &block);
	cr_assert_not(admitted(cache, 1000));
	for (uint32_t seed = 2000; seed < 2012; seed++)
		cr_assert_not(admitted(cache, seed));
	cr_assert_not(admitted(cache, 1000), "too long ago");
	/* Far more than fits, in turns: some of it gets in, and what is in is found the next time. */
	for (uint32_t turn = 0; turn < 20; turn++)
		for (uint32_t seed = 5000; seed < 5200; seed++) {
			bool there = get(cache, seed, 65536, &block);

			if (there)
				ldr_memory_unpin(cache, &block);
			else
				admitted(cache, seed);
			lots += turn >= 10 && there;
		}
	cr_expect_gt(lots, 10 * 200 / 8, "%u of 2000 found", lots);
	ldr_memory_cache_free(cache);
}
