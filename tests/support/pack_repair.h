/*
 * Makes the checksums and digests of a changed pack right again, so that a test or fuzzer reaches the
 * checks behind them. Header only, because fuzz targets link no test library.
 *
 * Works on whatever it is given: a field that points outside is left alone. Blocks keep their ids; their
 * checksums follow their bytes.
 */
#ifndef LDR_TESTS_SUPPORT_PACK_REPAIR_H
#define LDR_TESTS_SUPPORT_PACK_REPAIR_H

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/digest.h"
#include "packs/pack.h"

struct repair {
	uint8_t *bytes;
	size_t size;
};

/* A part of the pack, NULL when it does not lie in it. */
static inline uint8_t *repair_part(const struct repair *pack, uint64_t at, uint64_t length)
{
	return at <= pack->size && length <= pack->size - at ? pack->bytes + at : NULL;
}

/* The table, by the trailer. */
static inline uint8_t *repair_table(const struct repair *pack, uint64_t *out_length)
{
	const uint8_t *trailer = pack->size < LDR_PACK_TRAILER_BYTES
					 ? NULL
					 : repair_part(pack, pack->size - LDR_PACK_TRAILER_BYTES,
						       LDR_PACK_TRAILER_BYTES);

	*out_length = trailer ? ldr_get_le(trailer + 8, 4) : 0;
	return trailer ? repair_part(pack, ldr_get_le(trailer, 8), *out_length) : NULL;
}

/* The row of a kind, NULL when there is none. */
static inline uint8_t *repair_row(const struct repair *pack, uint32_t kind)
{
	uint64_t length;
	uint8_t *table = repair_table(pack, &length);

	for (uint64_t at = LDR_PACK_TABLE_HEAD_BYTES;
	     table && at + LDR_PACK_TABLE_ROW_BYTES <= length; at += LDR_PACK_TABLE_ROW_BYTES)
		if (ldr_get_le(table + at, 4) == kind)
			return table + at;
	return NULL;
}

static inline uint8_t *repair_section(const struct repair *pack, uint32_t kind,
				      uint64_t *out_length)
{
	const uint8_t *row = repair_row(pack, kind);

	*out_length = row ? ldr_get_le(row + 16, 8) : 0;
	return row ? repair_part(pack, ldr_get_le(row + 8, 8), *out_length) : NULL;
}

static inline void repair_blocks(const struct repair *pack)
{
	uint64_t entries_length, checksums_length;
	const uint8_t *entries = repair_section(pack, LDR_SECTION_ENTRIES, &entries_length);
	uint8_t *checksums = repair_section(pack, LDR_SECTION_CHECKSUMS, &checksums_length);

	for (uint64_t i = 0;
	     entries && checksums && (i + 1) * LDR_PACK_ENTRY_BYTES <= entries_length &&
	     (i + 1) * LDR_PACK_CHECKSUM_BYTES <= checksums_length;
	     i++) {
		const uint8_t *entry = entries + i * LDR_PACK_ENTRY_BYTES;
		uint64_t length = ldr_get_le(entry + 38, 4);
		const uint8_t *stored = repair_part(pack, ldr_get_le(entry + 32, 6), length);

		if (stored)
			ldr_put_le(checksums + i * LDR_PACK_CHECKSUM_BYTES, 8,
				   ldr_checksum(stored, (size_t)length));
	}
}

/* Section rows, then the table's checksum in the trailer. */
static inline void repair_index(const struct repair *pack)
{
	uint64_t length, table_length;
	uint8_t *table = repair_table(pack, &table_length);

	for (uint32_t kind = LDR_SECTION_HEADER; kind <= LDR_SECTION_RECORD; kind++) {
		const uint8_t *section = repair_section(pack, kind, &length);
		uint8_t *row = repair_row(pack, kind);
		struct ldr_id digest;

		if (!section || ldr_digest_once(section, (size_t)length, &digest, NULL) != LDR_OK)
			continue;
		ldr_put_le(row + 24, 8, ldr_checksum(section, (size_t)length));
		memcpy(row + 32, digest.bytes, LDR_ID_BYTES);
	}
	if (table)
		ldr_put_le(pack->bytes + pack->size - 16, 8,
			   ldr_checksum(table, (size_t)table_length));
}

#endif
