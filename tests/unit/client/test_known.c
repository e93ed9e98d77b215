/*
 * The table of blocks that a release maps: first place kept, packs marked only by what was given out.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "client/known.h"

static struct ldr_placed_block placed(uint32_t i, uint32_t pack)
{
	struct ldr_placed_block block = {.place = {.pack = pack, .offset = i, .stored_bytes = 1}};

	/* Ids that differ only at their ends, and some that share a slot. */
	block.block.id.bytes[31] = (uint8_t)i;
	block.block.id.bytes[30] = (uint8_t)(i >> 8);
	block.block.plain_bytes = i + 1;
	return block;
}

Test(known, finds_what_was_added_and_nothing_else)
{
	enum { COUNT = 5000 };
	struct ldr_known *known;
	struct ldr_placed_block block, other;
	struct ldr_place place;

	cr_assert_eq(ldr_known_new(COUNT, &known, NULL), LDR_OK);
	for (uint32_t i = 0; i < COUNT; i++) {
		block = placed(i, 7 + i % 3);
		ldr_known_add(known, &block);
		other = placed(i, 99);
		ldr_known_add(known, &other); /* the first place stays */
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		block = placed(i, 0);
		cr_assert(ldr_known_find(known, &block.block.id, &place));
		cr_assert(place.pack == 7 + i % 3 && place.offset == i);
	}
	block = placed(COUNT + 1, 0);
	cr_assert_not(ldr_known_find(known, &block.block.id, &place));
	cr_assert_not(ldr_known_used(known, 99));
	ldr_known_free(known);
	ldr_known_free(NULL);
}

Test(known, marks_packs_up_to_the_highest_number)
{
	static const uint32_t numbers[] = {0, 1, 63, 64, 4095, LDR_MAP_PACK_MAX};
	enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };
	struct ldr_known *known;
	struct ldr_place place;

	cr_assert_eq(ldr_known_new(0, &known, NULL), LDR_OK); /* "at most none" still has room */
	ldr_known_free(known);
	cr_assert_eq(ldr_known_new(COUNT, &known, NULL), LDR_OK);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct ldr_placed_block block = placed(i, numbers[i]);

		ldr_known_add(known, &block);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		struct ldr_placed_block block = placed(i, 0);

		cr_assert_not(ldr_known_used(known, numbers[i]));
		cr_assert(ldr_known_find(known, &block.block.id, &place));
		cr_assert(ldr_known_used(known, numbers[i]));
	}
	ldr_known_free(known);
}
