/*
 * Map entries and top blocks: the documented bytes, and every byte of them wrong.
 */
#include "packs/map.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct ldr_place places[] = {
	{0, 64, 1, LDR_CODEC_NONE},
	{0x010203, 0x0405060708ff, 0x0a0b, LDR_CODEC_ZSTD},
	{LDR_MAP_PACK_MAX, (UINT64_C(1) << 48) - 1, LDR_STORED_MAX_BYTES, LDR_CODEC_LZ4},
};
static const uint8_t second[LDR_MAP_ENTRY_BYTES] = {3, 2, 1,    0xff, 8, 7, 6,
						    5, 4, 0x0b, 0x0a, 0, 2, 0};

static struct ldr_buffer map_of_places(void)
{
	struct ldr_buffer map = {.max_bytes = 1000};

	for (size_t i = 0; i < COUNT(places); i++)
		ldr_map_put(&map, places + i);
	cr_assert_not(map.failed);
	return map;
}

static void same_place(const struct ldr_place *a, const struct ldr_place *b)
{
	cr_assert_eq(a->pack, b->pack);
	cr_assert_eq(a->offset, b->offset);
	cr_assert_eq(a->stored_bytes, b->stored_bytes);
	cr_assert_eq(a->codec, b->codec);
}

Test(map, entries_have_the_documented_bytes)
{
	LDR_AUTO_BUFFER struct ldr_buffer map = map_of_places();
	struct ldr_place place;

	cr_assert_eq(map.length, COUNT(places) * LDR_MAP_ENTRY_BYTES);
	cr_assert_arr_eq(map.data + LDR_MAP_ENTRY_BYTES, second, sizeof(second));
	for (size_t i = 0; i < COUNT(places); i++) {
		cr_assert_eq(ldr_map_get(map.data, map.length, 0, i, &place, NULL), LDR_OK);
		same_place(&place, places + i);
		/* The same entry out of a page that begins with it. */
		cr_assert_eq(ldr_map_get(map.data + i * LDR_MAP_ENTRY_BYTES, LDR_MAP_ENTRY_BYTES, i,
					 i, &place, NULL),
			     LDR_OK);
		same_place(&place, places + i);
	}
}

Test(map, entries_outside_what_is_held)
{
	static const struct {
		size_t length;
		uint64_t first, ordinal;
		enum ldr_status status;
	} rows[] = {
		{0, 0, 0, LDR_ECORRUPT},
		{13, 0, 0, LDR_ECORRUPT},
		{14, 0, 0, LDR_OK},
		{27, 0, 1, LDR_ECORRUPT},
		{42, 0, 2, LDR_OK},
		{42, 0, 3, LDR_ECORRUPT},
		{42, 5, 4, LDR_ECORRUPT},
		{42, 5, 5, LDR_OK},
		{42, 5, 7, LDR_OK},
		{42, 5, 8, LDR_ECORRUPT},
		{42, 0, UINT64_MAX, LDR_ECORRUPT},
		{42, UINT64_MAX, 0, LDR_ECORRUPT},
		{42, UINT64_MAX, UINT64_MAX, LDR_OK},
	};
	LDR_AUTO_BUFFER struct ldr_buffer map = map_of_places();

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_FREE uint8_t *page = malloc(rows[i].length ? rows[i].length : 1);
		struct ldr_place place;

		memcpy(page, map.data, rows[i].length);
		cr_assert_eq(ldr_map_get(page, rows[i].length, rows[i].first, rows[i].ordinal,
					 &place, NULL),
			     rows[i].status, "row %zu", i);
	}
}

Test(map, entries_that_break_a_rule)
{
	static const struct {
		unsigned at;
		uint8_t value[3];
		unsigned width;
		enum ldr_status status;
	} rows[] = {
		{9, {0, 0, 0}, 3, LDR_ECORRUPT},
		{9, {0x41, 0, 4}, 3, LDR_ECORRUPT},
		{9, {0x40, 0, 4}, 3, LDR_OK},
		{9, {0xff, 0xff, 0xff}, 3, LDR_ECORRUPT},
		{12, {LDR_CODEC_COUNT}, 1, LDR_EUNSUPPORTED},
		{12, {255}, 1, LDR_EUNSUPPORTED},
		{13, {1}, 1, LDR_ECORRUPT},
		{13, {0x80}, 1, LDR_ECORRUPT},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		uint8_t entry[LDR_MAP_ENTRY_BYTES];
		struct ldr_place place;
		struct ldr_error err = {0};

		memcpy(entry, second, sizeof(entry));
		memcpy(entry + rows[i].at, rows[i].value, rows[i].width);
		cr_assert_eq(ldr_map_get(entry, sizeof(entry), 7, 7, &place, &err), rows[i].status,
			     "row %zu: %s", i, err.text);
		cr_assert(!rows[i].status || strstr(err.text, "map: entry 7: "), "%s", err.text);
	}
}

/* ---- top blocks --------------------------------------------------------------------------------- */

static struct ldr_top top_of(uint32_t tree_count, uint32_t map_count)
{
	struct ldr_top top = {.tree_count = tree_count, .map_count = map_count};

	top.tree = calloc(tree_count + 1, sizeof(*top.tree));
	top.map = calloc(map_count + 1, sizeof(*top.map));
	for (uint32_t i = 0; i < tree_count + map_count; i++) {
		struct ldr_placed_block *row = i < tree_count ? top.tree + i
							      : top.map + i - tree_count;

		memset(row->block.id.bytes, (int)i + 1, LDR_ID_BYTES);
		row->block.plain_bytes = i % LDR_BLOCK_MAX_BYTES + 1;
		row->place = places[i % COUNT(places)];
	}
	return top;
}

static struct ldr_buffer written(uint32_t tree_count, uint32_t map_count)
{
	struct ldr_top top = top_of(tree_count, map_count);
	struct ldr_buffer out = {.max_bytes = LDR_BLOCK_MAX_BYTES};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_top_write(&top, &out, &err), LDR_OK, "%s", err.text);
	ldr_top_dispose(&top);
	return out;
}

Test(map, tops_survive_and_have_the_documented_bytes)
{
	static const struct {
		uint32_t tree, map;
	} rows[] = {{1, 0}, {1, 1}, {3, 2}, {LDR_TOP_ROWS_MAX, 0}, {1, LDR_TOP_ROWS_MAX - 1}};
	static const uint8_t head[LDR_TOP_HEADER_BYTES] = "LARDTOP\0\1\0\0\0\3\0\0\0\2\0\0\0\0\0\0";

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = written(rows[i].tree, rows[i].map);
		struct ldr_top top, wanted = top_of(rows[i].tree, rows[i].map);
		struct ldr_error err = {0};

		cr_assert_eq(bytes.length,
			     LDR_TOP_HEADER_BYTES + 50u * (rows[i].tree + rows[i].map));
		cr_assert_eq(ldr_top_parse(bytes.data, bytes.length, &top, &err), LDR_OK, "%s",
			     err.text);
		cr_assert_eq(top.tree_count, rows[i].tree);
		cr_assert_eq(top.map_count, rows[i].map);
		for (uint32_t k = 0; k < rows[i].tree; k++) {
			cr_assert_eq(top.tree[k].block.plain_bytes,
				     wanted.tree[k].block.plain_bytes);
			cr_assert(ldr_id_equal(&top.tree[k].block.id, &wanted.tree[k].block.id));
			same_place(&top.tree[k].place, &wanted.tree[k].place);
		}
		for (uint32_t k = 0; k < rows[i].map; k++)
			same_place(&top.map[k].place, &wanted.map[k].place);
		ldr_top_dispose(&top);
		ldr_top_dispose(&wanted);
		if (rows[i].tree == 3)
			cr_assert_arr_eq(bytes.data, head, sizeof(head));
	}
}

Test(map, tops_with_more_rows_than_a_block_holds)
{
	struct ldr_top top = top_of(LDR_TOP_ROWS_MAX, 1);
	LDR_AUTO_BUFFER struct ldr_buffer out = {.max_bytes = 2 * LDR_BLOCK_MAX_BYTES};
	struct ldr_error err = {0};

	cr_assert_eq(LDR_TOP_ROWS_MAX, 5242);
	cr_assert_eq(ldr_top_write(&top, &out, &err), LDR_ELIMIT);
	cr_assert(strstr(err.text, "5243") && strstr(err.text, "5242"), "%s", err.text);
	cr_assert_eq(out.length, 0);
	ldr_top_dispose(&top);
}

Test(map, tops_cut_or_with_bytes_after_them_are_refused)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = written(2, 2);
	struct ldr_top top;

	for (size_t length = 0; length <= bytes.length + 3; length++) {
		LDR_AUTO_FREE uint8_t *cut = calloc(1, length + 1);

		memcpy(cut, bytes.data, length < bytes.length ? length : bytes.length);
		if (length == bytes.length)
			continue;
		cr_assert_eq(ldr_top_parse(cut, length, &top, NULL), LDR_ECORRUPT, "length %zu",
			     length);
	}
}

Test(map, tops_with_a_changed_byte)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = written(2, 1);
	unsigned statuses[LDR_STATUS_COUNT] = {0};

	for (size_t at = 0; at < bytes.length; at++)
		for (unsigned value = 0; value < 256; value++) {
			uint8_t before = bytes.data[at];
			struct ldr_top top = {0};
			enum ldr_status status;

			bytes.data[at] = (uint8_t)value;
			status = ldr_top_parse(bytes.data, bytes.length, &top, NULL);
			statuses[status]++;
			/* Counts may only change so that their sum stays, which one byte cannot do. */
			cr_assert(status || value == before || at >= LDR_TOP_HEADER_BYTES,
				  "byte %zu = %u", at, value);
			for (uint32_t i = 0; i < top.tree_count; i++) {
				cr_assert_leq(top.tree[i].block.plain_bytes, LDR_BLOCK_MAX_BYTES);
				cr_assert_gt(top.tree[i].block.plain_bytes, 0);
				cr_assert_leq(top.tree[i].place.stored_bytes, LDR_STORED_MAX_BYTES);
				cr_assert_lt((unsigned)top.tree[i].place.codec, LDR_CODEC_COUNT);
			}
			ldr_top_dispose(&top);
			bytes.data[at] = before;
		}
	/* Four bytes of version each with 255 wrong values; three codecs with 253. */
	cr_assert_eq(statuses[LDR_EUNSUPPORTED], 4 * 255 + 3 * 253);
	cr_assert_eq(statuses[LDR_OK] + statuses[LDR_ECORRUPT] + statuses[LDR_EUNSUPPORTED],
		     256 * bytes.length);
	cr_assert_gt(statuses[LDR_ECORRUPT], 0);
}
