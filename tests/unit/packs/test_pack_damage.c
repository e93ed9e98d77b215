/*
 * The pack reader against damaged and hostile packs: every field, every truncation, every bit, each
 * with its own status; and that one bad block spoils no other.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/support/pack_repair.h"
#include "tests/unit/packs/pack_fixture.h"

enum where {
	HEADER,
	TABLE,
	ROW,   /* index: which */
	ENTRY, /* index: which, in the order of offsets: lz4, zstd, raw, lz4, zstd, raw */
	TRAILER,
};

enum change { SET, ADD };

enum repair_extent {
	AS_IT_IS,
	TABLE_ONLY, /* the trailer's checksum of the table */
	ALL,
};

struct mutation {
	enum where where;
	unsigned index, at, width;
	enum change change;
	uint64_t value;
	enum repair_extent repair;
	enum ldr_status status;
	const char *says;
};

static const struct mutation mutations[] = {
	{HEADER, 0, 0, 1, SET, 'X', ALL, LDR_ECORRUPT, "does not begin with LARDPACK"},
	{HEADER, 0, 8, 4, SET, 2, ALL, LDR_EUNSUPPORTED, "version 2, known is 1"},
	{HEADER, 0, 8, 4, SET, 0, ALL, LDR_EUNSUPPORTED, "version 0"},
	{HEADER, 0, 12, 4, SET, 1, ALL, LDR_EUNSUPPORTED, "obfuscated pack: not supported"},
	{HEADER, 0, 12, 4, SET, 2, ALL, LDR_EUNSUPPORTED, "encrypted pack: not supported"},
	{HEADER, 0, 12, 4, SET, 4, ALL, LDR_EUNSUPPORTED, "header flags 0x4"},
	{HEADER, 0, 16, 4, SET, 0, ALL, LDR_ECORRUPT, "align 0, not a power"},
	{HEADER, 0, 16, 4, SET, 3, ALL, LDR_ECORRUPT, "align 3, not a power"},
	{HEADER, 0, 16, 4, SET, 1 << 17, ALL, LDR_ECORRUPT, "align 131072, not a power"},
	{HEADER, 0, 16, 4, SET, 4096, ALL, LDR_ECORRUPT, "expected at 4096, align 4096"},
	{HEADER, 0, 16, 4, SET, 1, ALL, LDR_ECORRUPT, "align 1"},
	{HEADER, 0, 20, 4, SET, 1, ALL, LDR_ECORRUPT, "reserved header bytes"},
	{HEADER, 0, 24, 1, SET, 1, ALL, LDR_ECORRUPT, "salt in a plain pack"},
	{HEADER, 0, 63, 1, SET, 1, ALL, LDR_ECORRUPT, "reserved header bytes"},
	{TRAILER, 0, 0, 8, ADD, 1, AS_IT_IS, LDR_ECORRUPT, "table at"},
	{TRAILER, 0, 0, 8, ADD, -1, AS_IT_IS, LDR_ECORRUPT, "table at"},
	{TRAILER, 0, 0, 8, SET, UINT64_MAX, AS_IT_IS, LDR_ECORRUPT, "table at"},
	{TRAILER, 0, 8, 4, ADD, 64, AS_IT_IS, LDR_ECORRUPT, "trailer at"},
	{TRAILER, 0, 8, 4, ADD, 1, AS_IT_IS, LDR_ECORRUPT, "table length"},
	{TRAILER, 0, 8, 4, SET, 0, AS_IT_IS, LDR_ECORRUPT, "table length 0"},
	{TRAILER, 0, 8, 4, SET, 16 + 17 * 64, AS_IT_IS, LDR_ECORRUPT, "table length 1104"},
	{TRAILER, 0, 8, 4, SET, UINT32_MAX, AS_IT_IS, LDR_ECORRUPT, "table length 4294967295"},
	{TRAILER, 0, 12, 4, SET, 1, AS_IT_IS, LDR_ECORRUPT, "reserved trailer bytes"},
	{TRAILER, 0, 16, 8, ADD, 1, AS_IT_IS, LDR_ECORRUPT, "table at"},
	{TRAILER, 0, 31, 1, SET, 'X', AS_IT_IS, LDR_ECORRUPT, "does not end with LARDTAIL"},
	{TABLE, 0, 7, 1, SET, '2', ALL, LDR_ECORRUPT, "does not begin with LARDINDX"},
	{TABLE, 0, 8, 4, ADD, 1, ALL, LDR_ECORRUPT, "6 sections, the table has 5 rows"},
	{TABLE, 0, 8, 4, SET, 0, ALL, LDR_ECORRUPT, "0 sections"},
	{TABLE, 0, 8, 4, SET, UINT32_MAX, ALL, LDR_ECORRUPT, "4294967295 sections"},
	{TABLE, 0, 12, 4, SET, 1, ALL, LDR_ECORRUPT, "reserved table bytes"},
	{ROW, 0, 0, 4, SET, 0, TABLE_ONLY, LDR_ECORRUPT, "section kind 0 after 0"},
	{ROW, 0, 0, 4, SET, 2, TABLE_ONLY, LDR_ECORRUPT, "section kind 2 after 2"},
	{ROW, 1, 0, 4, SET, 1, TABLE_ONLY, LDR_ECORRUPT, "section kind 1 after 1"},
	{ROW, 2, 0, 4, SET, 5, TABLE_ONLY, LDR_ECORRUPT, "section kind 4 after 5"},
	{ROW, 4, 0, 4, SET, 4, TABLE_ONLY, LDR_ECORRUPT, "section kind 4 after 4"},
	{ROW, 4, 0, 4, SET, 6, TABLE_ONLY, LDR_EUNSUPPORTED, "section kind 6"},
	{ROW, 4, 0, 4, SET, 7, TABLE_ONLY, LDR_EUNSUPPORTED, "section kind 7"},
	{ROW, 4, 0, 4, SET, UINT32_MAX, TABLE_ONLY, LDR_EUNSUPPORTED, "section kind 4294967295"},
	{ROW, 3, 4, 4, SET, 1, ALL, LDR_EUNSUPPORTED, "section 4: flags 0x1"},
	{ROW, 0, 8, 8, SET, 1, TABLE_ONLY, LDR_ECORRUPT, "header at 1"},
	{ROW, 0, 16, 8, SET, 65, TABLE_ONLY, LDR_ECORRUPT, "length 65"},
	{ROW, 1, 8, 8, SET, 63, TABLE_ONLY, LDR_ECORRUPT, "section 2 at 63"},
	{ROW, 1, 8, 8, SET, 64, TABLE_ONLY, LDR_ECORRUPT, "section 3 at"},
	{ROW, 1, 8, 8, SET, UINT64_MAX, TABLE_ONLY, LDR_ECORRUPT, "section 2 at"},
	{ROW, 1, 16, 8, ADD, 48, TABLE_ONLY, LDR_ECORRUPT, "section 3 at"},
	{ROW, 1, 16, 8, SET, UINT64_MAX, TABLE_ONLY, LDR_ECORRUPT, "section 2 at"},
	{ROW, 2, 8, 8, ADD, -8, TABLE_ONLY, LDR_ECORRUPT, "section 3 at"},
	{ROW, 3, 16, 8, ADD, -1, TABLE_ONLY, LDR_ECORRUPT, "section 5 at"},
	{ROW, 4, 8, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 5 at"},
	{ROW, 4, 16, 8, ADD, -1, TABLE_ONLY, LDR_ECORRUPT, "sections end at"},
	{ROW, 4, 16, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 5 at"},
	{ROW, 0, 24, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 1 at 0: checksum"},
	{ROW, 1, 24, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 2 at"},
	{ROW, 4, 24, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 5 at"},
	{ROW, 0, 32, 8, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 1 at 0: digest"},
	{ROW, 3, 63, 1, ADD, 1, TABLE_ONLY, LDR_ECORRUPT, "section 4 at"},
	{ENTRY, 0, 32, 6, ADD, 1, ALL, LDR_ECORRUPT, "expected at 64"},
	{ENTRY, 0, 32, 6, SET, 63, ALL, LDR_ECORRUPT, "at 63"},
	{ENTRY, 0, 32, 6, SET, 0, ALL, LDR_ECORRUPT, "blocks lie from 64"},
	{ENTRY, 2, 32, 6, ADD, 16, ALL, LDR_ECORRUPT, "expected at"},
	{ENTRY, 2, 32, 6, ADD, -1, ALL, LDR_ECORRUPT, "expected at"},
	{ENTRY, 5, 32, 6, ADD, 1, ALL, LDR_ECORRUPT, "blocks lie from"},
	{ENTRY, 5, 32, 6, SET, 64, ALL, LDR_ECORRUPT, "expected at"},
	{ENTRY, 5, 32, 6, SET, 0xffffffffffff, ALL, LDR_ECORRUPT, "blocks lie from"},
	{ENTRY, 0, 38, 4, ADD, 1, ALL, LDR_ECORRUPT, "expected at"},
	{ENTRY, 0, 38, 4, ADD, -1, ALL, LDR_ECORRUPT, "expected at"},
	{ENTRY, 0, 38, 4, SET, 0, ALL, LDR_ECORRUPT, "stored length 0"},
	{ENTRY, 0, 38, 4, SET, UINT32_MAX, ALL, LDR_ECORRUPT, "stored length 4294967295"},
	{ENTRY, 2, 38, 4, ADD, -1, ALL, LDR_ECORRUPT, "raw block: stored length"},
	{ENTRY, 0, 42, 4, SET, 0, ALL, LDR_ECORRUPT, "plain length 0"},
	{ENTRY, 0, 42, 4, SET, 5, ALL, LDR_ECORRUPT, "plain length 5"},
	{ENTRY, 0, 42, 4, SET, LDR_BLOCK_MAX_BYTES + 1, ALL, LDR_ECORRUPT, "plain length 262145"},
	{ENTRY, 2, 42, 4, ADD, 1, ALL, LDR_ECORRUPT, "raw block"},
	{ENTRY, 1, 46, 1, SET, 3, ALL, LDR_EUNSUPPORTED, "codec 3"},
	{ENTRY, 1, 46, 1, SET, 255, ALL, LDR_EUNSUPPORTED, "codec 255"},
	{ENTRY, 1, 46, 1, SET, LDR_CODEC_NONE, ALL, LDR_ECORRUPT, "raw block"},
	{ENTRY, 2, 46, 1, SET, LDR_CODEC_LZ4, ALL, LDR_ECORRUPT, "lz4 block"},
	{ENTRY, 3, 47, 1, SET, 1, ALL, LDR_EUNSUPPORTED, "flags 0x1"},
	{ENTRY, 4, 47, 1, SET, 128, ALL, LDR_EUNSUPPORTED, "flags 0x80"},
	{ENTRY, 0, 42, 4, ADD, 1, AS_IT_IS, LDR_ECORRUPT, "section 2 at"},
};

static uint8_t *place_of(const struct repair *pack, enum where where, unsigned index)
{
	uint64_t length;

	switch (where) {
	case HEADER:
		return pack->bytes;
	case TABLE:
		return repair_table(pack, &length);
	case ROW:
		return repair_table(pack, &length) + 16 + 64 * (size_t)index;
	case ENTRY:
		return fixture_entry_by_offset(pack, index);
	case TRAILER:
		return pack->bytes + pack->size - LDR_PACK_TRAILER_BYTES;
	}
	return NULL;
}

static void repair(const struct repair *pack, enum repair_extent extent)
{
	uint64_t length;
	const uint8_t *table = repair_table(pack, &length);

	if (extent == ALL) {
		repair_blocks(pack);
		repair_index(pack);
	} else if (extent == TABLE_ONLY) {
		ldr_put_le(pack->bytes + pack->size - 16, 8, ldr_checksum(table, length));
	}
}

static void mutate(const struct repair *pack, const struct mutation *mutation)
{
	uint8_t *field = place_of(pack, mutation->where, mutation->index) + mutation->at;
	uint64_t before = mutation->change == ADD ? ldr_get_le(field, mutation->width) : 0;

	ldr_put_le(field, mutation->width, before + mutation->value);
	repair(pack, mutation->repair);
}

/* Opens in both modes; both must agree. */
static enum ldr_status open_both(const struct repair *pack, unsigned mode, struct ldr_error *err)
{
	struct ldr_pack_options options = {.mode = mode};
	struct ldr_pack *opened = NULL;
	enum ldr_status status = fixture_open(pack->bytes, pack->size, &options, &opened, err);
	enum ldr_status mapped;

	ldr_pack_unref(opened);
	opened = NULL;
	options.mode |= LDR_PACK_MAP;
	mapped = fixture_open(pack->bytes, pack->size, &options, &opened, NULL);
	ldr_pack_unref(opened);
	cr_expect_eq(mapped, status, "mapped: %s, read: %s", ldr_status_name(mapped),
		     ldr_status_name(status));
	return status;
}

Test(pack_damage, every_field_is_checked)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_FREE uint8_t *copy = NULL;

	fixture_pack(&fixture_six, &base, NULL);
	copy = malloc(base.length);
	for (unsigned i = 0; i < sizeof(mutations) / sizeof(*mutations); i++) {
		struct repair pack = {copy, base.length};
		struct ldr_error err = {0};
		enum ldr_status status;

		memcpy(copy, base.data, base.length);
		mutate(&pack, &mutations[i]);
		status = open_both(&pack, LDR_PACK_DIGEST, &err);
		cr_expect_eq(status, mutations[i].status, "row %u: %s: %s", i,
			     ldr_status_name(status), err.text);
		cr_expect(strstr(err.text, mutations[i].says), "row %u: \"%s\" lacks \"%s\"", i,
			  err.text, mutations[i].says);
		cr_expect(strstr(err.text, "test"), "row %u names the pack: %s", i, err.text);
	}
	/* Repairing an unchanged pack changes nothing: the rows above fail for what they change. */
	memcpy(copy, base.data, base.length);
	repair(&(struct repair){copy, base.length}, ALL);
	cr_assert_arr_eq(copy, base.data, base.length);
}

/* Fields that only together get past the checks before the one that is meant. */
static const struct {
	struct mutation fields[3];
	const char *says;
} joint[] = {
	{{{ROW, 1, 16, 8, ADD, -8, AS_IT_IS, 0, ""},
	  {ROW, 2, 8, 8, ADD, -8, AS_IT_IS, 0, ""},
	  {ROW, 2, 16, 8, ADD, 8, ALL, 0, ""}},
	 "entries have 280 bytes, not a multiple of 48"},
	{{{ROW, 1, 16, 8, ADD, -48, AS_IT_IS, 0, ""},
	  {ROW, 2, 8, 8, ADD, -48, AS_IT_IS, 0, ""},
	  {ROW, 2, 16, 8, ADD, 48, ALL, 0, ""}},
	 "checksums have 96 bytes, 5 entries"},
	{{{ENTRY, 5, 38, 4, ADD, -1, AS_IT_IS, 0, ""},
	  {ENTRY, 5, 42, 4, ADD, -1, AS_IT_IS, 0, ""},
	  {ENTRY, 5, 42, 4, ADD, 0, ALL, 0, ""}},
	 "blocks end at"},
};

Test(pack_damage, fields_that_agree_with_each_other)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_FREE uint8_t *copy = NULL;

	fixture_pack(&fixture_six, &base, NULL);
	copy = malloc(base.length);
	for (unsigned i = 0; i < sizeof(joint) / sizeof(*joint); i++) {
		struct repair pack = {copy, base.length};
		struct ldr_error err = {0};

		memcpy(copy, base.data, base.length);
		for (unsigned f = 0; f < 3; f++)
			mutate(&pack, &joint[i].fields[f]);
		cr_expect_eq(open_both(&pack, 0, &err), LDR_ECORRUPT, "row %u", i);
		cr_expect(strstr(err.text, joint[i].says), "row %u: \"%s\" lacks \"%s\"", i,
			  err.text, joint[i].says);
	}
}

/* An entry without a byte of blocks is refused by its count, before memory is taken for it. */
Test(pack_damage, more_entries_than_bytes)
{
	static const struct fixture_shape one = {1, 1, 1, NULL, NULL};
	LDR_AUTO_BUFFER struct ldr_buffer base;
	struct ldr_error err = {0};
	struct repair pack;
	uint8_t *row;

	fixture_pack(&one, &base, NULL);
	memmove(base.data + 64, base.data + 65, base.length - 65);
	pack = (struct repair){base.data, base.length - 1};
	ldr_put_le(pack.bytes + pack.size - 32, 8, 64 + 48 + 8);
	for (uint32_t kind = LDR_SECTION_ENTRIES; kind <= LDR_SECTION_CHECKSUMS; kind++) {
		row = repair_row(&pack, kind);
		ldr_put_le(row + 8, 8, ldr_get_le(row + 8, 8) - 1);
	}
	repair(&pack, ALL);
	cr_assert_eq(open_both(&pack, 0, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "1 entries for 0 bytes of blocks"), "%s", err.text);
}

Test(pack_damage, ids_rise_strictly)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	struct ldr_error err = {0};
	struct repair pack;
	uint64_t length;
	uint8_t *entries;

	fixture_pack(&fixture_six, &base, NULL);
	pack = (struct repair){base.data, base.length};
	entries = repair_section(&pack, LDR_SECTION_ENTRIES, &length);
	/* The same id twice, then a falling one. */
	memcpy(entries + 2 * 48, entries + 48, LDR_ID_BYTES);
	repair(&pack, ALL);
	cr_assert_eq(open_both(&pack, 0, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "entry 2"), "%s", err.text);
	entries[48 + 31] ^= 1;
	entries[48] += 1;
	repair(&pack, ALL);
	cr_assert_eq(open_both(&pack, 0, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "not above"), "%s", err.text);
}

/* A table without its last rows, all else made to fit. */
Test(pack_damage, required_sections)
{
	static const struct fixture_shape empty = {1, 0, 0, NULL, NULL};
	static const uint8_t rows[][3] = {{1, 2, 0}, {1, 3, 0}, {2, 3, 0}, {1, 0, 0},
					  {0, 0, 0}, {1, 2, 4}, {1, 3, 4}, {2, 3, 4}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer base;
		struct ldr_error err = {0};
		struct repair pack;
		uint8_t *table;
		uint32_t count = 0;

		fixture_pack(&empty, &base, NULL);
		/* Room for the trailer behind a shorter table: the file itself stays as long as an
		 * empty pack, so a fourth row of nothing goes in where needed. */
		pack = (struct repair){base.data, base.length};
		table = pack.bytes + LDR_PACK_HEADER_BYTES;
		while (count < 3 && rows[i][count])
			count++;
		for (uint32_t r = 0; r < count; r++) {
			memset(table + 16 + 64 * r, 0, 64);
			ldr_put_le(table + 16 + 64 * r, 4, rows[i][r]);
			ldr_put_le(table + 16 + 64 * r + 8, 8, r ? 64 : 0);
			ldr_put_le(table + 16 + 64 * r + 16, 8, r ? 0 : 64);
		}
		ldr_put_le(table + 8, 4, count);
		/* The table moves to the file's end, zeros lie before it. */
		memmove(table + 64 * (3 - count), table, 16 + 64 * count);
		memset(table, 0, 64 * (3 - count));
		ldr_put_le(pack.bytes + pack.size - 32, 8, 64 + 64 * (3 - count));
		ldr_put_le(pack.bytes + pack.size - 24, 4, 16 + 64 * count);
		repair(&pack, ALL);
		cr_expect_eq(open_both(&pack, 0, &err), LDR_ECORRUPT, "row %u", i);
		cr_expect(strstr(err.text, "is missing"), "row %u: %s", i, err.text);
	}
}

Test(pack_damage, every_truncation_is_refused)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_FREE uint8_t *longer = NULL;
	struct ldr_error err;

	fixture_pack(&fixture_six, &base, NULL);
	for (size_t length = 0; length < base.length; length++) {
		struct repair pack = {base.data, length};

		err = (struct ldr_error){0};
		cr_assert_eq(open_both(&pack, 0, &err), LDR_ECORRUPT, "cut at %zu: %s", length,
			     err.text);
	}
	longer = malloc(base.length + 40);
	memcpy(longer, base.data, base.length);
	memset(longer + base.length, 0, 40);
	for (size_t more = 1; more <= 40; more++)
		cr_assert_eq(open_both(&(struct repair){longer, base.length + more}, 0, &err),
			     LDR_ECORRUPT, "%zu bytes behind", more);
}

/* What a flipped bit at this place must lead to. */
static void check_flip(const struct repair *pack, size_t at, uint64_t blocks_end,
		       const uint8_t *is_block)
{
	for (unsigned mode = 0; mode <= LDR_PACK_MAP; mode++) {
		struct ldr_pack_options options = {.mode = mode};
		LDR_AUTO_PACK struct ldr_pack *opened = NULL;
		struct ldr_error err = {0};
		enum ldr_status status = fixture_open(pack->bytes, pack->size, &options, &opened,
						      &err);
		struct fixture_found found;

		if (at < LDR_PACK_HEADER_BYTES || at >= blocks_end) {
			cr_assert(status == LDR_ECORRUPT ||
					  (status == LDR_EUNSUPPORTED && at >= 8 && at < 16),
				  "bit at %zu: %s", at, ldr_status_name(status));
			continue;
		}
		cr_assert_eq(status, LDR_OK, "bit at %zu: %s", at, err.text);
		found = fixture_read_all(opened);
		cr_assert_eq(found.bad, is_block[at], "bit at %zu", at);
		cr_assert_eq(found.good + found.bad, fixture_six.block_count);
		cr_assert_eq(ldr_pack_verify(opened, NULL, NULL, NULL, &err), LDR_ECORRUPT,
			     "bit at %zu: verify finds gaps too", at);
	}
}

/* Every byte of the pack, one bit of it at a time. */
Test(pack_damage, one_flipped_bit_anywhere_is_found)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_FREE uint8_t *is_block = NULL;
	struct repair pack;
	uint64_t length, blocks_end;

	fixture_pack(&fixture_six, &base, NULL);
	pack = (struct repair){base.data, base.length};
	is_block = calloc(1, base.length);
	for (unsigned i = 0; i < fixture_six.block_count; i++) {
		const uint8_t *entry = fixture_entry_by_offset(&pack, i);

		memset(is_block + ldr_get_le(entry + 32, 6), 1, ldr_get_le(entry + 38, 4));
	}
	blocks_end = ldr_get_le(repair_row(&pack, LDR_SECTION_ENTRIES) + 8, 8);
	for (size_t at = 0; at < base.length; at++) {
		pack.bytes[at] ^= (uint8_t)(1 << at % 8);
		check_flip(&pack, at, blocks_end, is_block);
		pack.bytes[at] ^= (uint8_t)(1 << at % 8);
	}
	/* A repaired checksum does not make other bytes the block: its id is the last word. */
	repair_section(&pack, LDR_SECTION_ENTRIES, &length);
	pack.bytes[ldr_get_le(fixture_entry_by_offset(&pack, 2) + 32, 6)] ^= 1;
	repair(&pack, ALL);
	{
		LDR_AUTO_PACK struct ldr_pack *opened = NULL;
		struct ldr_pack_verify_report report;
		struct ldr_error err = {0};

		cr_assert_eq(fixture_open(pack.bytes, pack.size, NULL, &opened, &err), LDR_OK);
		cr_assert_eq(ldr_pack_verify(opened, NULL, NULL, &report, &err), LDR_ECORRUPT);
		cr_assert(strstr(err.text, "its bytes digest to"), "%s", err.text);
	}
}
