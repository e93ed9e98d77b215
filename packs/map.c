/*
 * Map entries and the top block; see map.h.
 */
#include "packs/map.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define OFFSET_MAX ((UINT64_C(1) << 48) - 1)
#define ID_AT 0
#define PLAIN_AT LDR_ID_BYTES
#define PLACE_AT (PLAIN_AT + 4)

_Static_assert(PLACE_AT + LDR_MAP_ENTRY_BYTES == LDR_TOP_ROW_BYTES, "a row is block and place");

void ldr_map_put(struct ldr_buffer *map, const struct ldr_place *place)
{
	assert(place->pack <= LDR_MAP_PACK_MAX && place->offset <= OFFSET_MAX);
	assert(place->stored_bytes && place->stored_bytes <= LDR_STORED_MAX_BYTES);
	assert((unsigned)place->codec < LDR_CODEC_COUNT);
	ldr_buffer_u24(map, place->pack);
	ldr_buffer_u48(map, place->offset);
	ldr_buffer_u24(map, place->stored_bytes);
	ldr_buffer_u8(map, (uint8_t)place->codec);
	ldr_buffer_u8(map, 0);
}

/* The 14 bytes are there: the callers checked. `what` and number name the entry in messages. */
static enum ldr_status place_get(const uint8_t *bytes, const char *what, uint64_t number,
				 struct ldr_place *out_place, struct ldr_error *err)
{
	uint32_t stored = (uint32_t)ldr_get_le(bytes + 9, 3);
	unsigned codec = bytes[12];

	if (bytes[13])
		return ldr_fail(err, LDR_ECORRUPT, "%s %" PRIu64 ": flags %u, wanted 0", what,
				number, bytes[13]);
	if (codec >= LDR_CODEC_COUNT)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"%s %" PRIu64 ": codec %u, known are 0 to %d", what, number, codec,
				LDR_CODEC_COUNT - 1);
	if (!stored || stored > LDR_STORED_MAX_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"%s %" PRIu64 ": stored length %" PRIu32 ", allowed 1 to %u", what,
				number, stored, LDR_STORED_MAX_BYTES);
	*out_place = (struct ldr_place){
		.pack = (uint32_t)ldr_get_le(bytes, 3),
		.offset = ldr_get_le(bytes + 3, 6),
		.stored_bytes = stored,
		.codec = (enum ldr_codec)codec,
	};
	return LDR_OK;
}

enum ldr_status ldr_map_get(const void *bytes, size_t length, uint64_t first, uint64_t ordinal,
			    struct ldr_place *out_place, struct ldr_error *err)
{
	uint64_t held = length / LDR_MAP_ENTRY_BYTES;

	if (ordinal < first || ordinal - first >= held)
		return ldr_fail(err, LDR_ECORRUPT,
				"map: entry %" PRIu64 " is outside the %" PRIu64 " from %" PRIu64,
				ordinal, held, first);
	return place_get((const uint8_t *)bytes + (ordinal - first) * LDR_MAP_ENTRY_BYTES,
			 "map: entry", ordinal, out_place, err);
}

/* ---- the top block ------------------------------------------------------------------------------ */

static void put_rows(struct ldr_buffer *out, const struct ldr_placed_block *rows, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		ldr_buffer_put(out, rows[i].block.id.bytes, LDR_ID_BYTES);
		ldr_buffer_u32(out, rows[i].block.plain_bytes);
		ldr_map_put(out, &rows[i].place);
	}
}

enum ldr_status ldr_top_write(const struct ldr_top *top, struct ldr_buffer *out,
			      struct ldr_error *err)
{
	uint64_t rows = (uint64_t)top->tree_count + top->map_count;

	if (rows > LDR_TOP_ROWS_MAX)
		return ldr_fail(err, LDR_ELIMIT,
				"top block: %" PRIu64 " blocks of tree and map, limit %u", rows,
				LDR_TOP_ROWS_MAX);
	ldr_buffer_put(out, LDR_TOP_MAGIC, 8);
	ldr_buffer_u32(out, LDR_TOP_VERSION);
	ldr_buffer_u32(out, top->tree_count);
	ldr_buffer_u32(out, top->map_count);
	ldr_buffer_u32(out, 0);
	put_rows(out, top->tree, top->tree_count);
	put_rows(out, top->map, top->map_count);
	if (out->failed)
		return ldr_fail(err, LDR_ENOMEM, "top block: out of memory");
	return LDR_OK;
}

static enum ldr_status get_rows(const uint8_t *bytes, uint32_t first, uint32_t count,
				struct ldr_placed_block **out_rows, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_placed_block *rows = calloc(count ? count : 1, sizeof(*rows));

	if (!rows)
		return ldr_fail(err, LDR_ENOMEM, "top block: out of memory");
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *row = bytes + (size_t)(first + i) * LDR_TOP_ROW_BYTES;
		uint32_t plain = (uint32_t)ldr_get_le(row + PLAIN_AT, 4);
		enum ldr_status status;

		if (!plain || plain > LDR_BLOCK_MAX_BYTES)
			return ldr_fail(err, LDR_ECORRUPT,
					"top block: row %" PRIu32 ": plain length %" PRIu32
					", allowed 1 to %u",
					first + i, plain, LDR_BLOCK_MAX_BYTES);
		memcpy(rows[i].block.id.bytes, row + ID_AT, LDR_ID_BYTES);
		rows[i].block.plain_bytes = plain;
		status = place_get(row + PLACE_AT, "top block: row", first + i, &rows[i].place,
				   err);
		if (status)
			return status;
	}
	*out_rows = LDR_STEAL(rows);
	return LDR_OK;
}

static enum ldr_status get_counts(const void *bytes, size_t length, struct ldr_top *top,
				  struct ldr_error *err)
{
	struct ldr_cursor cursor = ldr_cursor_over(bytes, length);
	const uint8_t *magic = ldr_cursor_bytes(&cursor, 8);
	uint32_t version = ldr_cursor_u32(&cursor);
	uint32_t reserved;
	uint64_t rows;

	top->tree_count = ldr_cursor_u32(&cursor);
	top->map_count = ldr_cursor_u32(&cursor);
	reserved = ldr_cursor_u32(&cursor);
	rows = (uint64_t)top->tree_count + top->map_count;
	if (cursor.failed)
		return ldr_fail(err, LDR_ECORRUPT, "top block: length %zu, header %u", length,
				LDR_TOP_HEADER_BYTES);
	if (memcmp(magic, LDR_TOP_MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "top block: does not begin with %s",
				LDR_TOP_MAGIC);
	if (version != LDR_TOP_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"top block: version %" PRIu32 ", known is %u", version,
				LDR_TOP_VERSION);
	if (reserved)
		return ldr_fail(err, LDR_ECORRUPT,
				"top block: reserved field %" PRIu32 ", wanted 0", reserved);
	if (!top->tree_count || rows > LDR_TOP_ROWS_MAX)
		return ldr_fail(err, LDR_ECORRUPT,
				"top block: %" PRIu32 " tree and %" PRIu32
				" map blocks, allowed 1 to %u together",
				top->tree_count, top->map_count, LDR_TOP_ROWS_MAX);
	if (length != LDR_TOP_HEADER_BYTES + rows * LDR_TOP_ROW_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "top block: length %zu, its rows need %" PRIu64,
				length, LDR_TOP_HEADER_BYTES + rows * LDR_TOP_ROW_BYTES);
	return LDR_OK;
}

enum ldr_status ldr_top_parse(const void *bytes, size_t length, struct ldr_top *out_top,
			      struct ldr_error *err)
{
	struct ldr_top top = {0};
	const uint8_t *rows;
	enum ldr_status status = get_counts(bytes, length, &top, err);

	if (status)
		return status;
	rows = (const uint8_t *)bytes + LDR_TOP_HEADER_BYTES;
	status = get_rows(rows, 0, top.tree_count, &top.tree, err);
	if (!status)
		status = get_rows(rows, top.tree_count, top.map_count, &top.map, err);
	if (status) {
		ldr_top_dispose(&top);
		return status;
	}
	*out_top = top;
	return LDR_OK;
}

void ldr_top_dispose(struct ldr_top *top)
{
	free(top->tree);
	free(top->map);
	*top = (struct ldr_top){0};
}
