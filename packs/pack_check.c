/*
 * Proving a pack's index; see docs/formats/pack.md for the numbered checks.
 *
 * Everything here comes from a stranger. The order is: what can be judged from the file's size, then
 * header, trailer and table (at most 1,136 bytes together), then limits, and only then memory for the
 * index. Checksums come before the entries are looked at, so that damage is called damage.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/checksum.h"
#include "packs/pack_priv.h"

#define INDEX_BYTES_DEFAULT (UINT64_C(1) << 30)
#define ENTRIES_DEFAULT (16u * 1024 * 1024)
#define FLAGS_KNOWN (LDR_PACK_FLAG_XOR | LDR_PACK_FLAG_ENCRYPTED)

static bool all_zero(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

/* ---- header ---- */

static enum ldr_status check_header_flags(const struct ldr_pack *pack, uint32_t flags, bool local,
					  struct ldr_error *err)
{
	if (flags & ~FLAGS_KNOWN)
		return ldr_fail(err, LDR_EUNSUPPORTED, "pack %s: header flags %#x, known are %#x",
				pack->name, flags, FLAGS_KNOWN);
	if (flags == FLAGS_KNOWN)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"pack %s: header flags %#x: obfuscated and encrypted at once",
				pack->name, flags);
	if (flags && !local)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"pack %s: %s pack: not supported here, only as a local archive",
				pack->name, flags & LDR_PACK_FLAG_XOR ? "obfuscated" : "encrypted");
	return LDR_OK;
}

/* What belongs to encrypted packs is zero in all others. */
static enum ldr_status check_header_rest(struct ldr_pack *pack, uint32_t flags,
					 struct ldr_error *err)
{
	const uint8_t *header = pack->header;
	bool sealed = flags & LDR_PACK_FLAG_ENCRYPTED;
	bool salt = !all_zero(header + HEADER_SALT, LDR_PACK_SALT_BYTES);

	if (!all_zero(header + HEADER_RESERVED, HEADER_SALT - HEADER_RESERVED) ||
	    (!sealed && !all_zero(header + HEADER_PROOF, LDR_PACK_PROOF_BYTES)))
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: reserved header bytes are not zero",
				pack->name);
	if (salt != sealed)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: %s", pack->name,
				salt ? "salt in a plain pack" : "encrypted without a salt");
	return LDR_OK;
}

static enum ldr_status check_header(struct ldr_pack *pack, const struct ldr_pack_options *options,
				    struct ldr_error *err)
{
	const uint8_t *header = pack->header;
	uint32_t version = (uint32_t)ldr_get_le(header + 8, 4);
	uint32_t align = (uint32_t)ldr_get_le(header + HEADER_ALIGN, 4);
	uint32_t flags = (uint32_t)ldr_get_le(header + HEADER_FLAGS, 4);
	enum ldr_status status;

	if (memcmp(header, LDR_PACK_MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: does not begin with %s", pack->name,
				LDR_PACK_MAGIC);
	if (version != LDR_PACK_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "pack %s: version %u, known is %u",
				pack->name, version, LDR_PACK_VERSION);
	status = check_header_flags(pack, flags, options->mode & LDR_PACK_LOCAL, err);
	if (status != LDR_OK)
		return status;
	if (align == 0 || align & (align - 1) || align > LDR_PACK_ALIGN_MAX)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: align %u, not a power of two up to %u",
				pack->name, align, LDR_PACK_ALIGN_MAX);
	pack->align = align;
	status = check_header_rest(pack, flags, err);
	if (status == LDR_OK)
		ldr_cipher_init(&pack->cipher, flags, options->title_key, header + HEADER_SALT);
	return status;
}

/* ---- trailer and table ---- */

struct table_place {
	uint64_t position;
	uint32_t length;
	uint64_t checksum;
};

static enum ldr_status read_trailer(const struct ldr_pack *pack, struct table_place *out_place,
				    struct ldr_error *err)
{
	uint64_t at = pack->file.size_bytes - LDR_PACK_TRAILER_BYTES;
	uint8_t trailer[LDR_PACK_TRAILER_BYTES];
	struct table_place place;
	enum ldr_status status;

	status = ldr_pack_file_read(&pack->file, pack->name, at, trailer, sizeof(trailer), err);
	if (status != LDR_OK)
		return status;
	place.position = ldr_get_le(trailer, 8);
	place.length = (uint32_t)ldr_get_le(trailer + 8, 4);
	place.checksum = ldr_get_le(trailer + 16, 8);
	if (memcmp(trailer + 24, LDR_PACK_TRAILER_MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: does not end with %s", pack->name,
				LDR_PACK_TRAILER_MAGIC);
	if (!all_zero(trailer + 12, 4))
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: reserved trailer bytes are not zero",
				pack->name);
	if (place.length < LDR_PACK_TABLE_HEAD_BYTES || place.length > TABLE_BYTES_MAX ||
	    (place.length - LDR_PACK_TABLE_HEAD_BYTES) % LDR_PACK_TABLE_ROW_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: table length %u, not %u and rows of %u", pack->name,
				place.length, LDR_PACK_TABLE_HEAD_BYTES, LDR_PACK_TABLE_ROW_BYTES);
	if (place.position > at || at - place.position != place.length)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: table at %" PRIu64 ", length %u, trailer at %" PRIu64,
				pack->name, place.position, place.length, at);
	*out_place = place;
	return LDR_OK;
}

static enum ldr_status check_table_head(const struct ldr_pack *pack,
					const struct table_place *place, const uint8_t *table,
					struct ldr_error *err)
{
	uint32_t rows = (place->length - LDR_PACK_TABLE_HEAD_BYTES) / LDR_PACK_TABLE_ROW_BYTES;
	uint64_t checksum = ldr_checksum(table, place->length);
	uint32_t count = (uint32_t)ldr_get_le(table + 8, 4);

	if (checksum != place->checksum)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: table at %" PRIu64 ": checksum %016" PRIx64
				", expected %016" PRIx64,
				pack->name, place->position, checksum, place->checksum);
	if (memcmp(table, LDR_PACK_TABLE_MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: table does not begin with %s",
				pack->name, LDR_PACK_TABLE_MAGIC);
	if (count != rows)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: %u sections, the table has %u rows",
				pack->name, count, rows);
	if (!all_zero(table + 12, 4))
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: reserved table bytes are not zero",
				pack->name);
	return LDR_OK;
}

static enum ldr_status read_row(const struct ldr_pack *pack, const uint8_t *row, uint32_t before,
				struct pack_section *out_section, struct ldr_error *err)
{
	uint32_t flags = (uint32_t)ldr_get_le(row + 4, 4);

	out_section->kind = (uint32_t)ldr_get_le(row, 4);
	out_section->position = ldr_get_le(row + 8, 8);
	out_section->length = ldr_get_le(row + 16, 8);
	out_section->checksum = ldr_get_le(row + 24, 8);
	memcpy(out_section->digest.bytes, row + 32, LDR_ID_BYTES);
	if (out_section->kind <= before)
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: section kind %u after %u", pack->name,
				out_section->kind, before);
	if (out_section->kind > LDR_SECTION_RECORD)
		return ldr_fail(err, LDR_EUNSUPPORTED, "pack %s: section kind %u, known up to %u",
				pack->name, out_section->kind, LDR_SECTION_RECORD);
	if (flags)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"pack %s: section %u: flags %#x, known are 0", pack->name,
				out_section->kind, flags);
	return LDR_OK;
}

/* The sections that every pack has come first, because rows are sorted by kind. */
static enum ldr_status check_required(const struct ldr_pack *pack, struct ldr_error *err)
{
	const struct pack_section *header = &pack->sections[0];

	for (uint32_t i = 0; i < SECTIONS_REQUIRED; i++)
		if (i >= pack->section_count || pack->sections[i].kind != i + 1)
			return ldr_fail(err, LDR_ECORRUPT, "pack %s: section %u is missing",
					pack->name, i + 1);
	if (header->position != 0 || header->length != LDR_PACK_HEADER_BYTES)
		return ldr_fail(
			err, LDR_ECORRUPT,
			"pack %s: header at %" PRIu64 ", length %" PRIu64 ", expected 0 and %u",
			pack->name, header->position, header->length, LDR_PACK_HEADER_BYTES);
	return LDR_OK;
}

/* Sections lie back to back from the end of the blocks to the table. */
static enum ldr_status check_places(struct ldr_pack *pack, uint64_t table_position,
				    struct ldr_error *err)
{
	uint64_t at = pack->sections[1].position;

	if (at < LDR_PACK_HEADER_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: section 2 at %" PRIu64 ", the header has %u bytes",
				pack->name, at, LDR_PACK_HEADER_BYTES);
	pack->blocks_end = at;
	for (uint32_t i = 1; i < pack->section_count; i++) {
		const struct pack_section *section = &pack->sections[i];

		if (section->position != at)
			return ldr_fail(err, LDR_ECORRUPT,
					"pack %s: section %u at %" PRIu64 ", expected %" PRIu64,
					pack->name, section->kind, section->position, at);
		if (at > table_position || section->length > table_position - at)
			return ldr_fail(err, LDR_ECORRUPT,
					"pack %s: section %u at %" PRIu64 ", length %" PRIu64
					", table at %" PRIu64,
					pack->name, section->kind, at, section->length,
					table_position);
		at += section->length;
	}
	if (at != table_position)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: sections end at %" PRIu64 ", table at %" PRIu64,
				pack->name, at, table_position);
	return LDR_OK;
}

static enum ldr_status read_table(struct ldr_pack *pack, const struct table_place *place,
				  struct ldr_error *err)
{
	uint8_t table[TABLE_BYTES_MAX];
	enum ldr_status status;
	uint32_t before = 0;

	status = ldr_pack_file_read(&pack->file, pack->name, place->position, table, place->length,
				    err);
	if (status == LDR_OK)
		status = check_table_head(pack, place, table, err);
	if (status == LDR_OK)
		status = ldr_digest_once(table, place->length, &pack->id, err);
	if (status != LDR_OK)
		return status;
	pack->section_count = (uint32_t)ldr_get_le(table + 8, 4);
	for (uint32_t i = 0; i < pack->section_count; i++) {
		const uint8_t *row = table + LDR_PACK_TABLE_HEAD_BYTES +
				     (size_t)i * LDR_PACK_TABLE_ROW_BYTES;

		status = read_row(pack, row, before, &pack->sections[i], err);
		if (status != LDR_OK)
			return status;
		before = pack->sections[i].kind;
	}
	status = check_required(pack, err);
	return status == LDR_OK ? check_places(pack, place->position, err) : status;
}

static enum ldr_status check_id(const struct ldr_pack *pack, const struct ldr_id *expected,
				struct ldr_error *err)
{
	char got[LDR_ID_HEX_CHARS + 1];
	char want[LDR_ID_HEX_CHARS + 1];

	if (!expected || ldr_id_equal(&pack->id, expected))
		return LDR_OK;
	ldr_id_to_hex(&pack->id, got);
	ldr_id_to_hex(expected, want);
	return ldr_fail(err, LDR_ECORRUPT, "pack %s: its id is %s, expected %s", pack->name, got,
			want);
}

/* ---- sections ---- */

static enum ldr_status check_counts(struct ldr_pack *pack, const struct ldr_pack_options *options,
				    struct ldr_error *err)
{
	uint64_t index_limit = options->max_index_bytes ? options->max_index_bytes
							: INDEX_BYTES_DEFAULT;
	uint32_t entry_limit = options->max_entries ? options->max_entries : ENTRIES_DEFAULT;
	uint64_t index = pack->file.size_bytes - LDR_PACK_TRAILER_BYTES - pack->blocks_end;
	uint64_t entries = pack->sections[1].length;
	uint64_t checksums = pack->sections[2].length;
	uint64_t count = entries / LDR_PACK_ENTRY_BYTES;

	if (entries % LDR_PACK_ENTRY_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: entries have %" PRIu64 " bytes, not a multiple of %u",
				pack->name, entries, LDR_PACK_ENTRY_BYTES);
	if (checksums != count * LDR_PACK_CHECKSUM_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: checksums have %" PRIu64 " bytes, %" PRIu64 " entries",
				pack->name, checksums, count);
	if (count > entry_limit)
		return ldr_fail(err, LDR_ELIMIT, "pack %s: %" PRIu64 " entries, limit %u",
				pack->name, count, entry_limit);
	if (index > index_limit || index > SIZE_MAX)
		return ldr_fail(err, LDR_ELIMIT,
				"pack %s: index has %" PRIu64 " bytes, limit %" PRIu64, pack->name,
				index, index_limit);
	if (count > pack->blocks_end - LDR_PACK_HEADER_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: %" PRIu64 " entries for %" PRIu64 " bytes of blocks",
				pack->name, count, pack->blocks_end - LDR_PACK_HEADER_BYTES);
	pack->entry_count = (uint32_t)count;
	return LDR_OK;
}

static enum ldr_status load_index(struct ldr_pack *pack, struct ldr_error *err)
{
	const struct pack_section *last = &pack->sections[pack->section_count - 1];
	size_t length = (size_t)(last->position + last->length - pack->blocks_end);
	enum ldr_status status;

	if (pack->file.map) {
		pack->index = pack->file.map + pack->blocks_end;
	} else {
		/* Page by page, the index of a million blocks would take longer to fault in than to
		 * read. */
		status = ldr_tree_memory_take(&pack->index_copy, length ? length : 1, err);
		if (status != LDR_OK)
			return ldr_error_prefix(err, status, "pack %s", pack->name);
		status = ldr_pack_file_read(&pack->file, pack->name, pack->blocks_end,
					    pack->index_copy.bytes, length, err);
		if (status != LDR_OK)
			return status;
		pack->index = pack->index_copy.bytes;
	}
	pack->entries = pack->index;
	pack->checksums = pack->index + pack->sections[1].length;
	return LDR_OK;
}

static const uint8_t *section_bytes(const struct ldr_pack *pack, const struct pack_section *section)
{
	return section->kind == LDR_SECTION_HEADER
		       ? pack->header
		       : pack->index + (section->position - pack->blocks_end);
}

static enum ldr_status check_checksums(const struct ldr_pack *pack, struct ldr_error *err)
{
	for (uint32_t i = 0; i < pack->section_count; i++) {
		const struct pack_section *section = &pack->sections[i];
		uint64_t checksum = ldr_checksum(section_bytes(pack, section),
						 (size_t)section->length);

		if (checksum != section->checksum)
			return ldr_fail(err, LDR_ECORRUPT,
					"pack %s: section %u at %" PRIu64 ": checksum %016" PRIx64
					", expected %016" PRIx64,
					pack->name, section->kind, section->position, checksum,
					section->checksum);
	}
	return LDR_OK;
}

enum ldr_status ldr_pack_check_digests(const struct ldr_pack *pack, struct ldr_error *err)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	struct ldr_id digest;

	if (!hasher)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no hasher", pack->name);
	for (uint32_t i = 0; i < pack->section_count; i++) {
		const struct pack_section *section = &pack->sections[i];
		char got[LDR_ID_HEX_CHARS + 1];
		char want[LDR_ID_HEX_CHARS + 1];

		ldr_digest(hasher, section_bytes(pack, section), (size_t)section->length, &digest);
		if (ldr_id_equal(&digest, &section->digest))
			continue;
		ldr_id_to_hex(&digest, got);
		ldr_id_to_hex(&section->digest, want);
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: section %u at %" PRIu64 ": digest %s, expected %s",
				pack->name, section->kind, section->position, got, want);
	}
	return LDR_OK;
}

/* The index is the one that the key's owner made: without it whoever can write the file could give
 * blocks other names. The digests have been checked. */
static enum ldr_status check_proof(const struct ldr_pack *pack, struct ldr_error *err)
{
	struct ldr_proven_section sections[LDR_PACK_SECTIONS_MAX];
	uint8_t proof[LDR_PACK_PROOF_BYTES];
	unsigned count = 0;

	for (uint32_t i = 0; i < pack->section_count; i++) {
		const struct pack_section *section = &pack->sections[i];

		/* Checksums only find damage; tags prove the blocks. */
		if (section->kind != LDR_SECTION_HEADER && section->kind != LDR_SECTION_CHECKSUMS)
			sections[count++] = (struct ldr_proven_section){
				section->kind, section->length, section->digest};
	}
	ldr_cipher_prove(&pack->cipher, pack->header, sections, count, proof);
	if (ldr_same_secret(proof, pack->header + HEADER_PROOF, sizeof(proof)))
		return LDR_OK;
	return ldr_fail(err, LDR_EUNTRUSTED,
			"pack %s: it was encrypted with another key, or its index was changed",
			pack->name);
}

/* ---- entries ---- */

static enum ldr_status bad_entry(const struct ldr_pack *pack, uint32_t i, enum ldr_status status,
				 struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;

	memcpy(id.bytes, pack_entry_bytes(pack, i), LDR_ID_BYTES);
	ldr_id_to_hex(&id, hex);
	return ldr_error_prefix(err, status, "pack %s: entry %u: block %s", pack->name, i, hex);
}

static enum ldr_status check_lengths(enum ldr_codec codec, uint32_t stored, uint32_t plain,
				     struct ldr_error *err)
{
	if (plain == 0 || plain > LDR_BLOCK_MAX_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "plain length %u, expected 1 to %u", plain,
				LDR_BLOCK_MAX_BYTES);
	if (codec == LDR_CODEC_NONE && stored != plain)
		return ldr_fail(err, LDR_ECORRUPT, "raw block: stored length %u, plain length %u",
				stored, plain);
	if (codec != LDR_CODEC_NONE && (stored == 0 || stored >= plain))
		return ldr_fail(err, LDR_ECORRUPT,
				"%s block: stored length %u, not below plain length %u",
				ldr_codec_name(codec), stored, plain);
	return LDR_OK;
}

static enum ldr_status check_entry(const struct ldr_pack *pack, uint32_t i, struct ldr_error *err)
{
	const uint8_t *entry = pack_entry_bytes(pack, i);
	uint64_t offset = ldr_get_le(entry + ENTRY_OFFSET, 6);
	uint32_t stored = (uint32_t)ldr_get_le(entry + ENTRY_STORED, 4);
	uint32_t extra = ldr_cipher_extra(pack->cipher.flags);
	enum ldr_status status;

	if (entry[ENTRY_CODEC] >= LDR_CODEC_COUNT)
		return ldr_fail(err, LDR_EUNSUPPORTED, "codec %u, known are below %u",
				entry[ENTRY_CODEC], LDR_CODEC_COUNT);
	if (entry[ENTRY_FLAGS])
		return ldr_fail(err, LDR_EUNSUPPORTED, "flags %#x, known are 0",
				entry[ENTRY_FLAGS]);
	if (stored < extra)
		return ldr_fail(err, LDR_ECORRUPT, "stored length %u, a tag has %u", stored, extra);
	status = check_lengths((enum ldr_codec)entry[ENTRY_CODEC], stored - extra,
			       (uint32_t)ldr_get_le(entry + ENTRY_PLAIN, 4), err);
	if (status != LDR_OK)
		return status;
	if (offset < LDR_PACK_HEADER_BYTES || offset > pack->blocks_end ||
	    stored > pack->blocks_end - offset)
		return ldr_fail(err, LDR_ECORRUPT,
				"at %" PRIu64 ", stored length %u, blocks lie from %u to %" PRIu64,
				offset, stored, LDR_PACK_HEADER_BYTES, pack->blocks_end);
	if (i > 0 && memcmp(entry - LDR_PACK_ENTRY_BYTES, entry, LDR_ID_BYTES) >= 0)
		return ldr_fail(err, LDR_ECORRUPT, "its id is not above that of the entry before");
	return LDR_OK;
}

/* Radix sort by offset, 11 bits a pass: linear, and no input makes it slow. */
static void sort_extents(struct pack_extent **extents, struct pack_extent **other, uint32_t count,
			 uint64_t end)
{
	for (unsigned shift = 0; shift < 48 && end >> shift; shift += 11) {
		uint32_t starts[2048] = {0};
		struct pack_extent *swap = *extents;
		uint32_t at = 0;

		for (uint32_t i = 0; i < count; i++)
			starts[((*extents)[i].offset >> shift) & 2047]++;
		for (unsigned digit = 0; digit < 2048; digit++) {
			uint32_t here = starts[digit];

			starts[digit] = at;
			at += here;
		}
		for (uint32_t i = 0; i < count; i++)
			(*other)[starts[((*extents)[i].offset >> shift) & 2047]++] = (*extents)[i];
		*extents = *other;
		*other = swap;
	}
}

struct pack_extent *ldr_pack_extents(const struct ldr_pack *pack)
{
	uint32_t count = pack->entry_count;
	LDR_AUTO_FREE struct pack_extent *extents = calloc((size_t)count + 1, sizeof(*extents));
	LDR_AUTO_FREE struct pack_extent *other = calloc((size_t)count + 1, sizeof(*other));

	if (!extents || !other)
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *entry = pack_entry_bytes(pack, i);

		extents[i].offset = ldr_get_le(entry + ENTRY_OFFSET, 6);
		extents[i].stored_bytes = (uint32_t)ldr_get_le(entry + ENTRY_STORED, 4);
		extents[i].entry = i;
	}
	sort_extents(&extents, &other, count, pack->blocks_end);
	return LDR_STEAL(extents);
}

/* Each block lies where the one before it and its codec say: no overlap, no gap but alignment. */
static enum ldr_status check_extents(const struct ldr_pack *pack, struct ldr_error *err)
{
	LDR_AUTO_FREE struct pack_extent *extents = ldr_pack_extents(pack);
	uint64_t end = LDR_PACK_HEADER_BYTES;

	if (!extents)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory for %u extents", pack->name,
				pack->entry_count);
	for (uint32_t i = 0; i < pack->entry_count; i++) {
		const struct pack_extent *extent = &extents[i];
		const uint8_t *entry = pack_entry_bytes(pack, extent->entry);
		uint64_t expected = pack_next_offset(end, pack->align,
						     (enum ldr_codec)entry[ENTRY_CODEC]);

		if (extent->offset != expected)
			return bad_entry(pack, extent->entry,
					 ldr_fail(err, LDR_ECORRUPT,
						  "at %" PRIu64 ", expected at %" PRIu64
						  ", align %u",
						  extent->offset, expected, pack->align),
					 err);
		end = extent->offset + extent->stored_bytes;
	}
	if (end != pack->blocks_end)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: blocks end at %" PRIu64 ", sections begin at %" PRIu64,
				pack->name, end, pack->blocks_end);
	return LDR_OK;
}

static enum ldr_status check_entries(const struct ldr_pack *pack, struct ldr_error *err)
{
	for (uint32_t i = 0; i < pack->entry_count; i++) {
		enum ldr_status status = check_entry(pack, i, err);

		if (status != LDR_OK)
			return bad_entry(pack, i, status, err);
	}
	return check_extents(pack, err);
}

static bool is_keyed(const struct ldr_pack *pack)
{
	return pack->cipher.flags & LDR_PACK_FLAG_ENCRYPTED && !pack->cipher.locked;
}

enum ldr_status ldr_pack_check(struct ldr_pack *pack, const struct ldr_pack_options *options,
			       struct ldr_error *err)
{
	struct table_place place;
	enum ldr_status status;

	status = ldr_pack_file_read(&pack->file, pack->name, 0, pack->header, sizeof(pack->header),
				    err);
	if (status == LDR_OK)
		status = check_header(pack, options, err);
	if (status == LDR_OK)
		status = read_trailer(pack, &place, err);
	if (status == LDR_OK)
		status = read_table(pack, &place, err);
	if (status == LDR_OK)
		status = check_id(pack, options->expected_id, err);
	if (status == LDR_OK)
		status = check_counts(pack, options, err);
	if (status == LDR_OK)
		status = load_index(pack, err);
	if (status == LDR_OK)
		status = check_checksums(pack, err);
	if (status == LDR_OK &&
	    (options->expected_id || (options->mode & LDR_PACK_DIGEST) || is_keyed(pack)))
		status = ldr_pack_check_digests(pack, err);
	if (status == LDR_OK && is_keyed(pack))
		status = check_proof(pack, err);
	return status == LDR_OK ? check_entries(pack, err) : status;
}
