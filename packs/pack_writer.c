/*
 * Writing a pack; see pack_writer.h.
 *
 * Invariants
 *  1. What the stream holds is: header, then blocks, each where pack_next_offset says.
 *  2. entries[] is in the order of appending; slots[] finds an entry by its id (open addressing, at
 *     most half full, 0 is empty, else index + 1). Ids are digests, so their first bytes are a hash.
 *  3. After a failed write the writer is broken: the stream may hold part of a block.
 */
#include "packs/pack_writer.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "packs/pack_priv.h"

#define SLOTS_FIRST 1024u
#define ENTRIES_MAX (UINT32_C(1) << 30)

struct section {
	const void *bytes; /* borrows until sealed; NULL: none */
	uint64_t length;
	bool present;
};

struct ldr_pack_writer {
	struct ldr_stream *stream; /* borrows */
	uint32_t align;
	uint32_t extra; /* of each block: its tag */
	uint64_t end;   /* of the last block */
	uint8_t header[LDR_PACK_HEADER_BYTES];
	struct ldr_pack_entry *entries; /* owns */
	uint32_t count;
	uint32_t capacity;
	uint32_t *slots; /* owns */
	uint32_t slot_count;
	struct section sections[LDR_SECTION_RECORD + 1]; /* by kind */
	bool sealed;
	enum ldr_status broken;
};

/* ---- life ---- */

static enum ldr_status check_options(const struct ldr_pack_writer_options *options,
				     struct ldr_error *err)
{
	uint32_t align = options->align;

	if (align & (align - 1) || align > LDR_PACK_ALIGN_MAX)
		return ldr_fail(err, LDR_EINVAL, "align %u, not a power of two up to %u", align,
				LDR_PACK_ALIGN_MAX);
	if (options->flags & ~(LDR_PACK_FLAG_XOR | LDR_PACK_FLAG_ENCRYPTED) ||
	    options->flags == (LDR_PACK_FLAG_XOR | LDR_PACK_FLAG_ENCRYPTED))
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"header flags %#x: not supported by this build", options->flags);
	if (!options->salt != !(options->flags & LDR_PACK_FLAG_ENCRYPTED) ||
	    !options->proof != !options->salt)
		return ldr_fail(err, LDR_EINVAL,
				"header flags %#x with%s a salt and with%s a proof", options->flags,
				options->salt ? "" : "out", options->proof ? "" : "out");
	return LDR_OK;
}

static enum ldr_status put(struct ldr_pack_writer *writer, const void *bytes, size_t length,
			   struct ldr_error *err)
{
	enum ldr_status status = ldr_stream_append(writer->stream, bytes, length, err);

	if (status != LDR_OK)
		writer->broken = status;
	return status;
}

static enum ldr_status begin(struct ldr_pack_writer *writer,
			     const struct ldr_pack_writer_options *given, struct ldr_error *err)
{
	struct ldr_pack_writer_options options = {0};

	if (given)
		options = *given;
	if (options.align == 0)
		options.align = 1;
	writer->align = options.align;
	writer->extra = ldr_cipher_extra(options.flags);
	writer->slots = calloc(SLOTS_FIRST, sizeof(*writer->slots));
	if (!writer->slots)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a pack writer");
	writer->slot_count = SLOTS_FIRST;
	pack_put_header(writer->header, &options);
	writer->end = sizeof(writer->header);
	return put(writer, writer->header, sizeof(writer->header), err);
}

enum ldr_status ldr_pack_writer_new(struct ldr_stream *stream,
				    const struct ldr_pack_writer_options *options,
				    struct ldr_pack_writer **out_writer, struct ldr_error *err)
{
	struct ldr_pack_writer *writer;
	enum ldr_status status = options ? check_options(options, err) : LDR_OK;

	if (status != LDR_OK)
		return status;
	if (ldr_stream_length(stream) != 0)
		return ldr_fail(err, LDR_EINVAL,
				"a pack's stream has %" PRIu64 " bytes, expected 0",
				ldr_stream_length(stream));
	writer = calloc(1, sizeof(*writer));
	if (!writer)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a pack writer");
	writer->stream = stream;
	status = begin(writer, options, err);
	if (status != LDR_OK) {
		ldr_pack_writer_free(writer);
		return status;
	}
	*out_writer = writer;
	return LDR_OK;
}

void ldr_pack_writer_free(struct ldr_pack_writer *writer)
{
	if (!writer)
		return;
	free(writer->entries);
	free(writer->slots);
	free(writer);
}

void ldr_pack_writer_cleanup(struct ldr_pack_writer **writer)
{
	ldr_pack_writer_free(*writer);
}

/* ---- the entries so far ---- */

/* The slot that holds the id, or the empty one where it belongs. */
static uint32_t slot_of(const struct ldr_pack_writer *writer, const struct ldr_id *id)
{
	uint32_t mask = writer->slot_count - 1;
	uint32_t slot = (uint32_t)ldr_id_hash(id) & mask;

	while (writer->slots[slot] &&
	       !ldr_id_equal(&writer->entries[writer->slots[slot] - 1].id, id))
		slot = (slot + 1) & mask;
	return slot;
}

static bool grow_slots(struct ldr_pack_writer *writer)
{
	uint32_t wanted = writer->slot_count * 2;
	uint32_t *old = writer->slots;
	uint32_t *slots = calloc(wanted, sizeof(*slots));

	if (!slots)
		return false;
	writer->slots = slots;
	writer->slot_count = wanted;
	for (uint32_t i = 0; i < writer->count; i++)
		slots[slot_of(writer, &writer->entries[i].id)] = i + 1;
	free(old);
	return true;
}

/* Room for one more entry, before a byte of it is written. */
static enum ldr_status reserve(struct ldr_pack_writer *writer, struct ldr_error *err)
{
	if (writer->count >= ENTRIES_MAX)
		return ldr_fail(err, LDR_ELIMIT, "a pack of %u entries, limit %u",
				writer->count + 1, ENTRIES_MAX);
	if (writer->count == writer->capacity) {
		uint32_t wanted = writer->capacity ? writer->capacity * 2 : SLOTS_FIRST / 2;
		struct ldr_pack_entry *entries = reallocarray(writer->entries, wanted,
							      sizeof(*entries));

		if (!entries)
			return ldr_fail(err, LDR_ENOMEM, "no memory for %u entries", wanted);
		writer->entries = entries;
		writer->capacity = wanted;
	}
	if (writer->count >= writer->slot_count / 2 && !grow_slots(writer))
		return ldr_fail(err, LDR_ENOMEM, "no memory for %u ids", writer->count);
	return LDR_OK;
}

bool ldr_pack_writer_find(const struct ldr_pack_writer *writer, const struct ldr_id *id,
			  struct ldr_pack_entry *out_entry)
{
	uint32_t at = writer->slots[slot_of(writer, id)];

	if (at && out_entry)
		*out_entry = writer->entries[at - 1];
	return at != 0;
}

bool ldr_pack_writer_has(const struct ldr_pack_writer *writer, const struct ldr_id *id)
{
	return ldr_pack_writer_find(writer, id, NULL);
}

uint32_t ldr_pack_writer_count(const struct ldr_pack_writer *writer)
{
	return writer->count;
}

uint64_t ldr_pack_writer_bytes(const struct ldr_pack_writer *writer)
{
	return writer->end;
}

/* ---- appending ---- */

static enum ldr_status check_open(const struct ldr_pack_writer *writer, struct ldr_error *err)
{
	if (writer->broken != LDR_OK)
		return ldr_fail(err, writer->broken, "an earlier write to this pack failed");
	if (writer->sealed)
		return ldr_fail(err, LDR_EINVAL, "the pack is sealed");
	return LDR_OK;
}

/* What a reader would refuse is not written. */
static enum ldr_status check_block(const struct ldr_pack_writer *writer,
				   const struct ldr_block_ref *block, enum ldr_codec codec,
				   uint32_t stored_bytes, struct ldr_error *err)
{
	if (!ldr_codec_name(codec))
		return ldr_fail(err, LDR_EINVAL, "unknown codec %u", (unsigned)codec);
	if (block->plain_bytes == 0 || block->plain_bytes > LDR_BLOCK_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "plain length %u, expected 1 to %u",
				block->plain_bytes, LDR_BLOCK_MAX_BYTES);
	if (codec == LDR_CODEC_NONE ? stored_bytes != block->plain_bytes + writer->extra
				    : stored_bytes <= writer->extra ||
					      stored_bytes - writer->extra >= block->plain_bytes)
		return ldr_fail(err, LDR_EINVAL, "codec %s: stored length %u, plain length %u",
				ldr_codec_name(codec), stored_bytes, block->plain_bytes);
	if (ldr_pack_writer_has(writer, &block->id))
		return ldr_fail(err, LDR_EEXISTS, "the pack has this block already");
	if (writer->end + LDR_PACK_ALIGN_MAX + stored_bytes >= PACK_BYTES_MAX)
		return ldr_fail(err, LDR_ELIMIT, "a pack of %" PRIu64 " bytes, limit %" PRIu64,
				writer->end + stored_bytes, PACK_BYTES_MAX);
	return LDR_OK;
}

static enum ldr_status put_zeros(struct ldr_pack_writer *writer, uint64_t length,
				 struct ldr_error *err)
{
	static const uint8_t zeros[4096];
	enum ldr_status status = LDR_OK;

	while (length > 0 && status == LDR_OK) {
		size_t piece = length < sizeof(zeros) ? (size_t)length : sizeof(zeros);

		status = put(writer, zeros, piece, err);
		length -= piece;
	}
	return status;
}

static void remember(struct ldr_pack_writer *writer, const struct ldr_pack_entry *entry)
{
	writer->slots[slot_of(writer, &entry->id)] = writer->count + 1;
	writer->entries[writer->count++] = *entry;
	writer->end = entry->offset + entry->stored_bytes;
}

static enum ldr_status append(struct ldr_pack_writer *writer, const struct ldr_pack_entry *entry,
			      const void *stored, struct ldr_error *err)
{
	enum ldr_status status = reserve(writer, err);

	if (status == LDR_OK)
		status = put_zeros(writer, entry->offset - writer->end, err);
	if (status == LDR_OK)
		status = put(writer, stored, entry->stored_bytes, err);
	if (status == LDR_OK)
		remember(writer, entry);
	return status;
}

/* A block, its stored form with its length, and an output are seven. */
/* NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_pack_writer_append(struct ldr_pack_writer *writer,
				       const struct ldr_block_ref *block, enum ldr_codec codec,
				       const void *stored, uint32_t stored_bytes,
				       uint64_t *out_offset, struct ldr_error *err)
{
	struct ldr_pack_entry entry = {
		.id = block->id,
		.offset = pack_next_offset(writer->end, writer->align, codec),
		.stored_bytes = stored_bytes,
		.plain_bytes = block->plain_bytes,
		.codec = codec,
	};
	char hex[LDR_ID_HEX_CHARS + 1];
	enum ldr_status status = check_open(writer, err);

	if (status == LDR_OK)
		status = check_block(writer, block, codec, stored_bytes, err);
	if (status == LDR_OK) {
		entry.checksum = ldr_checksum(stored, stored_bytes);
		status = append(writer, &entry, stored, err);
	}
	if (status != LDR_OK) {
		ldr_id_to_hex(&block->id, hex);
		return ldr_error_prefix(err, status, "appending block %s", hex);
	}
	if (out_offset)
		*out_offset = entry.offset;
	return LDR_OK;
}

enum ldr_status ldr_pack_writer_section(struct ldr_pack_writer *writer, enum ldr_section kind,
					const void *bytes, uint64_t length, struct ldr_error *err)
{
	enum ldr_status status = check_open(writer, err);

	if (status != LDR_OK)
		return status;
	if (kind != LDR_SECTION_TREE && kind != LDR_SECTION_RECORD)
		return ldr_fail(err, LDR_EINVAL, "section kind %u, expected %u or %u",
				(unsigned)kind, LDR_SECTION_TREE, LDR_SECTION_RECORD);
	if (writer->sections[kind].present)
		return ldr_fail(err, LDR_EEXISTS, "the pack has a section %u already",
				(unsigned)kind);
	if (length > SIZE_MAX)
		return ldr_fail(err, LDR_ELIMIT, "section %u of %" PRIu64 " bytes, limit %zu",
				(unsigned)kind, length, SIZE_MAX);
	writer->sections[kind] = (struct section){bytes, length, true};
	return LDR_OK;
}

/* ---- sealing ---- */

/* The beginning of an id, as a number, decides nearly always, and spares a look at the entry. */
struct place_in_order {
	uint64_t prefix;
	uint32_t entry;
};

static int by_id(const void *a, const void *b, void *entries)
{
	const struct place_in_order *left = a;
	const struct place_in_order *right = b;
	const struct ldr_pack_entry *all = entries;

	if (left->prefix != right->prefix)
		return left->prefix < right->prefix ? -1 : 1;
	return ldr_id_compare(&all[left->entry].id, &all[right->entry].id);
}

/* owns: free(). NULL: out of memory. */
static struct place_in_order *make_order(const struct ldr_pack_writer *writer)
{
	struct place_in_order *order = reallocarray(NULL, (size_t)writer->count + 1,
						    sizeof(*order));

	for (uint32_t i = 0; order && i < writer->count; i++)
		order[i] = (struct place_in_order){be64toh(ldr_id_hash(&writer->entries[i].id)), i};
	if (order && writer->count)
		qsort_r(order, writer->count, sizeof(*order), by_id, writer->entries);
	return order;
}

/* Entries and checksums, in the order of ids, one behind the other in index. */
static enum ldr_status make_index(const struct ldr_pack_writer *writer, uint8_t *index,
				  struct ldr_error *err)
{
	LDR_AUTO_FREE struct place_in_order *order = make_order(writer);
	uint8_t *checksums = index + (size_t)writer->count * LDR_PACK_ENTRY_BYTES;

	if (!order)
		return ldr_fail(err, LDR_ENOMEM, "no memory to sort %u entries", writer->count);
	for (uint32_t i = 0; i < writer->count; i++) {
		const struct ldr_pack_entry *entry = &writer->entries[order[i].entry];
		uint8_t *row = index + (size_t)i * LDR_PACK_ENTRY_BYTES;

		pack_put_entry(row, entry);
		ldr_put_le(checksums + (size_t)i * LDR_PACK_CHECKSUM_BYTES, LDR_PACK_CHECKSUM_BYTES,
			   entry->checksum);
	}
	return LDR_OK;
}

/* The table, and what is written before it. */
struct table {
	struct ldr_hasher *hasher;
	uint8_t bytes[TABLE_BYTES_MAX];
	uint32_t length;
	uint32_t rows;
	uint64_t position; /* of the next section */
};

static void add_row(struct table *table, enum ldr_section kind, uint64_t position,
		    const void *bytes, uint64_t length)
{
	uint8_t *row = table->bytes + table->length;
	struct ldr_id digest;

	assert(table->length + LDR_PACK_TABLE_ROW_BYTES <= sizeof(table->bytes));
	ldr_digest(table->hasher, bytes, (size_t)length, &digest);
	ldr_put_le(row, 4, kind);
	ldr_put_le(row + 8, 8, position);
	ldr_put_le(row + 16, 8, length);
	ldr_put_le(row + 24, 8, ldr_checksum(bytes, (size_t)length));
	memcpy(row + 32, digest.bytes, LDR_ID_BYTES);
	table->length += LDR_PACK_TABLE_ROW_BYTES;
	table->rows++;
}

static enum ldr_status put_section(struct ldr_pack_writer *writer, struct table *table,
				   enum ldr_section kind, const void *bytes, uint64_t length,
				   struct ldr_error *err)
{
	add_row(table, kind, table->position, bytes, length);
	table->position += length;
	return length ? put(writer, bytes, (size_t)length, err) : LDR_OK;
}

static enum ldr_status put_sections(struct ldr_pack_writer *writer, struct table *table,
				    const uint8_t *index, struct ldr_error *err)
{
	uint64_t entries = (uint64_t)writer->count * LDR_PACK_ENTRY_BYTES;
	uint64_t checksums = (uint64_t)writer->count * LDR_PACK_CHECKSUM_BYTES;
	enum ldr_status status;

	table->position = writer->end;
	table->length = LDR_PACK_TABLE_HEAD_BYTES;
	add_row(table, LDR_SECTION_HEADER, 0, writer->header, sizeof(writer->header));
	status = put_section(writer, table, LDR_SECTION_ENTRIES, index, entries, err);
	if (status == LDR_OK)
		status = put_section(writer, table, LDR_SECTION_CHECKSUMS, index + entries,
				     checksums, err);
	for (unsigned kind = LDR_SECTION_TREE; kind <= LDR_SECTION_RECORD; kind++) {
		const struct section *section = &writer->sections[kind];

		if (status == LDR_OK && section->present)
			status = put_section(writer, table, (enum ldr_section)kind, section->bytes,
					     section->length, err);
	}
	return status;
}

static enum ldr_status put_table(struct ldr_pack_writer *writer, struct table *table,
				 struct ldr_error *err)
{
	uint8_t trailer[LDR_PACK_TRAILER_BYTES] = {0};
	enum ldr_status status;

	memcpy(table->bytes, LDR_PACK_TABLE_MAGIC, 8);
	ldr_put_le(table->bytes + 8, 4, table->rows);
	ldr_put_le(trailer, 8, table->position);
	ldr_put_le(trailer + 8, 4, table->length);
	ldr_put_le(trailer + 16, 8, ldr_checksum(table->bytes, table->length));
	memcpy(trailer + 24, LDR_PACK_TRAILER_MAGIC, 8);
	status = put(writer, table->bytes, table->length, err);
	return status == LDR_OK ? put(writer, trailer, sizeof(trailer), err) : status;
}

enum ldr_status ldr_pack_writer_seal(struct ldr_pack_writer *writer, struct ldr_id *out_id,
				     uint64_t *out_size, struct ldr_error *err)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	LDR_AUTO_FREE uint8_t *index = malloc(
		(size_t)writer->count * (LDR_PACK_ENTRY_BYTES + LDR_PACK_CHECKSUM_BYTES) + 1);
	struct table table = {.hasher = hasher};
	enum ldr_status status = check_open(writer, err);

	if (status != LDR_OK)
		return status;
	if (!hasher || !index)
		return ldr_fail(err, LDR_ENOMEM, "no memory to seal a pack of %u entries",
				writer->count);
	status = make_index(writer, index, err);
	if (status == LDR_OK)
		status = put_sections(writer, &table, index, err);
	if (status == LDR_OK)
		status = put_table(writer, &table, err);
	if (status != LDR_OK)
		return status;
	writer->sealed = true;
	ldr_digest(hasher, table.bytes, table.length, out_id);
	*out_size = table.position + table.length + LDR_PACK_TRAILER_BYTES;
	return LDR_OK;
}
