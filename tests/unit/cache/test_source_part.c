/*
 * Parts of blocks out of a pack: the right bytes whatever the codec and however full the memory, and a
 * damaged block is refused however little of it is asked for.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source.h"
#include "tests/unit/packs/pack_fixture.h"

#define BLOCKS 60u

static const struct fixture_shape shape = {
	.align = 1, .block_count = BLOCKS, .plain_bytes = 40000, .tree = NULL, .record = NULL};

struct stand {
	struct ldr_buffer bytes;
	struct ldr_pack *pack;
	struct ldr_memory_cache *memory;
	struct ldr_source *source;
	uint8_t *plain; /* of all blocks, by entry */
};

static void stand_up(struct stand *stand, long memory_bytes)
{
	*stand = (struct stand){0};
	fixture_pack(&shape, &stand->bytes, NULL);
	cr_assert_eq(fixture_open(stand->bytes.data, stand->bytes.length, NULL, &stand->pack, NULL),
		     LDR_OK);
	if (memory_bytes >= 0)
		cr_assert_eq(ldr_memory_cache_new((size_t)memory_bytes, &stand->memory, NULL),
			     LDR_OK);
	cr_assert_eq(ldr_source_new(stand->memory, NULL, &stand->source, NULL), LDR_OK);
	cr_assert_eq(ldr_source_add_pack(stand->source, stand->pack, NULL), LDR_OK);
	stand->plain = malloc((size_t)BLOCKS * LDR_BLOCK_MAX_BYTES);
}

static void stand_down(struct stand *stand)
{
	ldr_source_free(stand->source);
	ldr_memory_cache_free(stand->memory);
	ldr_pack_unref(stand->pack);
	free(stand->bytes.data);
	free(stand->plain);
}

static enum ldr_status read_part(const struct stand *stand, uint32_t entry, uint32_t from,
				 uint32_t length, enum ldr_memory_want want, uint8_t *out)
{
	struct ldr_pack_entry found;
	struct ldr_block_ref block;
	struct ldr_block_part part = {from, length, out};

	ldr_pack_entry_at(stand->pack, entry, &found);
	block = (struct ldr_block_ref){found.id, found.plain_bytes};
	return ldr_source_read_part(stand->source, &block, &part, want, NULL);
}

static void load_plain(struct stand *stand)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();

	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct ldr_pack_entry entry;

		ldr_pack_entry_at(stand->pack, i, &entry);
		cr_assert_eq(ldr_pack_read(stand->pack, &entry, coder, NULL,
					   stand->plain + (size_t)i * LDR_BLOCK_MAX_BYTES, NULL),
			     LDR_OK);
	}
}

Test(source_part, every_part_of_every_block)
{
	/* None, one that keeps nothing, one that holds some, one that holds all. */
	static const long memories[] = {-1, 0, 400000, 4 << 20};
	static const uint32_t parts[][2] = {{0, 1},     {0, 4096},  {17, 4096},     {20000, 20000},
					    {39999, 1}, {0, 40000}, {0, UINT32_MAX}};
	uint8_t *out = malloc(LDR_BLOCK_MAX_BYTES);

	for (size_t m = 0; m < sizeof(memories) / sizeof(memories[0]); m++) {
		struct stand stand;

		stand_up(&stand, memories[m]);
		load_plain(&stand);
		for (uint32_t round = 0; round < 700; round++) {
			uint32_t entry = round * 7 % BLOCKS;
			const uint32_t *part = parts[round % 7];
			struct ldr_pack_entry found;
			uint32_t length = part[1];

			ldr_pack_entry_at(stand.pack, entry, &found);
			if (length == UINT32_MAX)
				length = found.plain_bytes;
			memset(out, 0xee, found.plain_bytes + 1);
			cr_assert_eq(
				read_part(&stand, entry, part[0], length,
					  round % 5 ? LDR_MEMORY_IF_ASKED_AGAIN : LDR_MEMORY_ALWAYS,
					  out),
				LDR_OK);
			cr_assert_arr_eq(
				out, stand.plain + (size_t)entry * LDR_BLOCK_MAX_BYTES + part[0],
				length, "memory %ld, entry %u, at %u", memories[m], entry, part[0]);
			cr_assert_eq(out[length], 0xee, "no byte too many");
		}
		stand_down(&stand);
	}
	free(out);
}

static enum ldr_status never(void *context, const struct ldr_placed_block *wants, size_t count,
			     enum ldr_status (*arrived)(void *arrival, size_t want,
							const void *stored, struct ldr_error *err),
			     void *arrival, struct ldr_error *err)
{
	(void)context;
	(void)wants;
	(void)count;
	(void)arrived;
	(void)arrival;
	return ldr_fail(err, LDR_ENET, "nobody is there");
}

/* The last byte of each block's stored form is damaged; the first plain byte would decode well. */
Test(source_part, a_damaged_block_gives_no_byte)
{
	static const long memories[] = {-1, 0, 4 << 20};
	const struct ldr_upstream upstream = {.fetch = never};

	for (size_t m = 0; m < sizeof(memories) / sizeof(memories[0]); m++) {
		struct stand stand;
		struct ldr_memory_stat stat;
		uint8_t byte = 0xee;

		stand_up(&stand, memories[m]);
		for (uint32_t i = 0; i < BLOCKS; i++) {
			struct ldr_pack_entry entry;

			ldr_pack_entry_at(stand.pack, i, &entry);
			stand.bytes.data[entry.offset + entry.stored_bytes - 1] ^= 1;
		}
		ldr_source_free(stand.source);
		ldr_pack_unref(stand.pack);
		cr_assert_eq(
			fixture_open(stand.bytes.data, stand.bytes.length, NULL, &stand.pack, NULL),
			LDR_OK);
		cr_assert_eq(ldr_source_new(stand.memory, NULL, &stand.source, NULL), LDR_OK);
		cr_assert_eq(ldr_source_add_pack(stand.source, stand.pack, NULL), LDR_OK);
		for (uint32_t i = 0; i < BLOCKS; i++)
			cr_assert_eq(read_part(&stand, i, 0, 1, LDR_MEMORY_IF_ASKED_AGAIN, &byte),
				     LDR_ECORRUPT, "entry %u", i);
		cr_assert_eq(byte, 0xee);
		if (stand.memory) {
			ldr_memory_stat(stand.memory, &stat);
			cr_assert_eq(stat.used_bytes, 0, "no room is kept for it");
		}
		/* With somewhere else to go it is not this function's failure. */
		ldr_source_set_upstream(stand.source, &upstream);
		cr_assert_eq(read_part(&stand, 0, 0, 1, LDR_MEMORY_ALWAYS, &byte), LDR_ENOTFOUND);
		stand_down(&stand);
	}
}
