/*
 * The file `lookup`; see lookup.h. Little-endian:
 *
 *   0     "LARDLOOK"  version:u32=1  packs:u32  rows:u64                                   24 bytes
 *   24    per pack, in rising order of ids:  id:32  size:u64  rows:u32  first row:u32      48 bytes
 *   ...   per row, packs in the same order:                                                56 bytes
 *         id:32  checksum:u64  offset:u48  stored:u32  plain:u32  codec:u8  zero:u8
 *   end   XXH3-64 of everything before                                                      8 bytes
 *
 * The checksum finds damage; the checks find what a program could not have written. What passes both
 * still names only places: a block's bytes are digested when they are read.
 */
#include "cache/lookup.h"

#include "common/checksum.h"

#define MAGIC "LARDLOOK"
#define VERSION 1u

void ldr_lookup_file_begin(struct ldr_buffer *out, uint32_t pack_count)
{
	ldr_buffer_put(out, MAGIC, 8);
	ldr_buffer_u32(out, VERSION);
	ldr_buffer_u32(out, pack_count);
	ldr_buffer_u64(out, 0); /* rows: known at the end */
}

void ldr_lookup_file_pack(struct ldr_buffer *out, const struct ldr_id *id, uint64_t size_bytes,
			  uint32_t row_count)
{
	ldr_buffer_put(out, id->bytes, LDR_ID_BYTES);
	ldr_buffer_u64(out, size_bytes);
	ldr_buffer_u32(out, row_count);
	ldr_buffer_u32(out, 0); /* first row: known at the end */
}

void ldr_lookup_file_rows(struct ldr_buffer *out, const struct ldr_lookup_pack *pack)
{
	for (uint32_t i = 0; i < pack->count; i++) {
		const struct ldr_pack_entry *entry = &pack->rows[i].entry;

		if (pack->rows[i].dropped)
			continue;
		ldr_buffer_put(out, entry->id.bytes, LDR_ID_BYTES);
		ldr_buffer_u64(out, entry->checksum);
		ldr_buffer_u48(out, entry->offset);
		ldr_buffer_u32(out, entry->stored_bytes);
		ldr_buffer_u32(out, entry->plain_bytes);
		ldr_buffer_u8(out, (uint8_t)entry->codec);
		ldr_buffer_u8(out, 0);
	}
}

void ldr_lookup_file_end(struct ldr_buffer *out)
{
	uint64_t packs, rows = 0;

	if (out->failed)
		return;
	packs = ldr_get_le(out->data + 12, 4);
	for (uint64_t i = 0; i < packs; i++) {
		uint8_t *pack = out->data + LDR_LOOKUP_HEAD_BYTES + i * LDR_LOOKUP_PACK_BYTES;

		ldr_put_le(pack + 44, 4, rows);
		rows += ldr_get_le(pack + 40, 4);
	}
	ldr_put_le(out->data + 16, 8, rows);
	ldr_buffer_u64(out, ldr_checksum(out->data, out->length));
}

static enum ldr_status check_frame(const uint8_t *bytes, size_t length, uint64_t *out_packs,
				   uint64_t *out_rows, struct ldr_error *err)
{
	struct ldr_cursor cursor = ldr_cursor_over(bytes, length);
	const uint8_t *magic = ldr_cursor_bytes(&cursor, 8);
	uint32_t version = ldr_cursor_u32(&cursor);
	uint64_t packs = ldr_cursor_u32(&cursor), rows = ldr_cursor_u64(&cursor);
	size_t left = ldr_cursor_left(&cursor);

	if (cursor.failed || left < 8)
		return ldr_fail(err, LDR_ECORRUPT, "lookup: length %zu, at least %u", length,
				LDR_LOOKUP_HEAD_BYTES + 8);
	if (memcmp(magic, MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "lookup: does not begin with %s", MAGIC);
	if (version != VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "lookup: version %u, known %u", version,
				VERSION);
	/* Row numbers are 32 bits wide; with that the sum below cannot wrap. */
	if (rows >= UINT32_MAX ||
	    left - 8 != packs * LDR_LOOKUP_PACK_BYTES + rows * LDR_LOOKUP_ROW_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"lookup: length %zu does not fit %llu packs and %llu rows", length,
				(unsigned long long)packs, (unsigned long long)rows);
	if (ldr_get_le(bytes + length - 8, 8) != ldr_checksum(bytes, length - 8))
		return ldr_fail(err, LDR_ECORRUPT, "lookup: checksum does not match");
	*out_packs = packs;
	*out_rows = rows;
	return LDR_OK;
}

static enum ldr_status check_row(const struct ldr_lookup_file *file, uint32_t row,
				 uint64_t size_bytes, struct ldr_error *err)
{
	struct ldr_pack_entry entry;

	ldr_lookup_file_row(file, row, &entry);
	if (entry.plain_bytes == 0 || entry.plain_bytes > LDR_BLOCK_MAX_BYTES ||
	    entry.stored_bytes == 0 || entry.stored_bytes > LDR_STORED_MAX_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "lookup: row %u: %u bytes stored as %u", row,
				entry.plain_bytes, entry.stored_bytes);
	if (entry.offset < LDR_PACK_HEADER_BYTES || entry.offset > size_bytes ||
	    entry.stored_bytes > size_bytes - entry.offset)
		return ldr_fail(err, LDR_ECORRUPT,
				"lookup: row %u: offset %llu in a pack of %llu bytes", row,
				(unsigned long long)entry.offset, (unsigned long long)size_bytes);
	if (entry.codec >= LDR_CODEC_COUNT ||
	    file->rows[(size_t)row * LDR_LOOKUP_ROW_BYTES + LDR_LOOKUP_ROW_BYTES - 1] != 0)
		return ldr_fail(err, LDR_ECORRUPT, "lookup: row %u: codec %u", row,
				(unsigned)entry.codec);
	return LDR_OK;
}

static void read_listed(const struct ldr_lookup_file *file, uint32_t which,
			struct ldr_lookup_listed *out_listed)
{
	const uint8_t *bytes = file->packs + (size_t)which * LDR_LOOKUP_PACK_BYTES;

	memcpy(out_listed->id.bytes, bytes, LDR_ID_BYTES);
	out_listed->size_bytes = ldr_get_le(bytes + 32, 8);
	out_listed->count = (uint32_t)ldr_get_le(bytes + 40, 4);
	out_listed->first = (uint32_t)ldr_get_le(bytes + 44, 4);
}

static enum ldr_status check_rows(const struct ldr_lookup_file *file,
				  const struct ldr_lookup_listed *listed, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 0; status == LDR_OK && i < listed->count; i++)
		status = check_row(file, listed->first + i, listed->size_bytes, err);
	return status;
}

enum ldr_status ldr_lookup_file_parse(const void *bytes, size_t length,
				      struct ldr_lookup_file *out_file, struct ldr_error *err)
{
	uint64_t packs = 0, rows = 0, row = 0;
	struct ldr_lookup_file file;
	struct ldr_lookup_listed listed = {0};
	enum ldr_status status = check_frame(bytes, length, &packs, &rows, err);

	if (status)
		return status;
	file.packs = (const uint8_t *)bytes + LDR_LOOKUP_HEAD_BYTES;
	file.rows = file.packs + packs * LDR_LOOKUP_PACK_BYTES;
	file.pack_count = (uint32_t)packs;
	file.row_count = (uint32_t)rows;
	for (uint32_t i = 0; i < file.pack_count; i++) {
		struct ldr_id before = listed.id;

		read_listed(&file, i, &listed);
		if (i && ldr_id_compare(&before, &listed.id) >= 0)
			return ldr_fail(err, LDR_ECORRUPT, "lookup: pack %u out of order", i);
		if (listed.first != row || listed.count > rows - row)
			return ldr_fail(
				err, LDR_ECORRUPT,
				"lookup: pack %u has rows %u and %u on, expected %llu of %llu", i,
				listed.first, listed.count, (unsigned long long)row,
				(unsigned long long)rows);
		status = check_rows(&file, &listed, err);
		if (status)
			return status;
		row += listed.count;
	}
	if (row != rows)
		return ldr_fail(err, LDR_ECORRUPT, "lookup: %llu rows belong to no pack",
				(unsigned long long)(rows - row));
	*out_file = file;
	return LDR_OK;
}

bool ldr_lookup_file_find(const struct ldr_lookup_file *file, const struct ldr_id *id,
			  struct ldr_lookup_listed *out_listed)
{
	uint32_t low = 0, high = file->pack_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order;

		read_listed(file, middle, out_listed);
		order = ldr_id_compare(&out_listed->id, id);
		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

void ldr_lookup_file_row(const struct ldr_lookup_file *file, uint32_t row,
			 struct ldr_pack_entry *out_entry)
{
	const uint8_t *bytes = file->rows + (size_t)row * LDR_LOOKUP_ROW_BYTES;

	memcpy(out_entry->id.bytes, bytes, LDR_ID_BYTES);
	out_entry->checksum = ldr_get_le(bytes + 32, 8);
	out_entry->offset = ldr_get_le(bytes + 40, 6);
	out_entry->stored_bytes = (uint32_t)ldr_get_le(bytes + 46, 4);
	out_entry->plain_bytes = (uint32_t)ldr_get_le(bytes + 50, 4);
	out_entry->codec = (enum ldr_codec)bytes[54];
}
