/*
 * Fuzz target: map and top block from a stranger. The first byte of an input says which: 0 a map, anything
 * else a top block. What is read is written again as the same bytes.
 */
#include <assert.h>

#include "packs/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_place(const struct ldr_place *place)
{
	assert(place->pack <= LDR_MAP_PACK_MAX && place->offset < UINT64_C(1) << 48);
	assert(place->stored_bytes && place->stored_bytes <= LDR_STORED_MAX_BYTES);
	assert((unsigned)place->codec < LDR_CODEC_COUNT);
}

static void read_map(const uint8_t *data, size_t size)
{
	for (uint64_t at = 0; at <= size / LDR_MAP_ENTRY_BYTES; at++) {
		LDR_AUTO_BUFFER struct ldr_buffer again = {.max_bytes = LDR_MAP_ENTRY_BYTES};
		struct ldr_error err = {0};
		struct ldr_place place;

		if (ldr_map_get(data, size, 3, at + 3, &place, &err)) {
			assert(err.status == LDR_ECORRUPT || err.status == LDR_EUNSUPPORTED);
			continue;
		}
		assert(at < size / LDR_MAP_ENTRY_BYTES);
		check_place(&place);
		ldr_map_put(&again, &place);
		assert(!memcmp(again.data, data + at * LDR_MAP_ENTRY_BYTES, LDR_MAP_ENTRY_BYTES));
	}
}

static void read_top(const uint8_t *data, size_t size)
{
	LDR_AUTO_BUFFER struct ldr_buffer again = {.max_bytes = LDR_BLOCK_MAX_BYTES};
	struct ldr_error err = {0};
	enum ldr_status status;
	struct ldr_top top;

	if (ldr_top_parse(data, size, &top, &err)) {
		assert(err.status == LDR_ECORRUPT || err.status == LDR_EUNSUPPORTED);
		return;
	}
	for (uint32_t i = 0; i < top.tree_count + top.map_count; i++) {
		const struct ldr_placed_block *row = i < top.tree_count
							     ? top.tree + i
							     : top.map + i - top.tree_count;

		check_place(&row->place);
		assert(row->block.plain_bytes && row->block.plain_bytes <= LDR_BLOCK_MAX_BYTES);
	}
	status = ldr_top_write(&top, &again, NULL);
	assert(!status && again.length == size && !memcmp(again.data, data, size));
	(void)status;
	ldr_top_dispose(&top);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0])
		read_top(data + 1, size - 1);
	else
		read_map(data + 1, size - 1);
	return 0;
}
