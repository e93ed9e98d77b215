/*
 * Making obfuscated and encrypted packs; see pack_protect.h.
 */
#include "packs/pack_protect.h"

#include <assert.h>
#include <stdlib.h>

#include "packs/pack_priv.h"
#include "packs/pack_writer.h"

struct copy {
	const struct ldr_pack *plain;
	struct ldr_cipher cipher;
	struct pack_extent *extents;    /* owns; the plain pack's, in the order of offsets */
	struct ldr_pack_entry *entries; /* owns; the copy's, in the order of ids */
	struct ldr_aead *aead;          /* owns */
	struct ldr_hasher *hasher;      /* owns */
	uint8_t *bytes;                 /* owns; of one block */
	uint8_t salt[LDR_PACK_SALT_BYTES];
	uint8_t proof[LDR_PACK_PROOF_BYTES];
	struct ldr_pack_writer_options options;
	struct ldr_pack_writer *writer; /* owns */
};

static void copy_dispose(struct copy *copy)
{
	ldr_cipher_dispose(&copy->cipher);
	ldr_pack_writer_free(copy->writer);
	ldr_aead_free(copy->aead);
	ldr_hasher_free(copy->hasher);
	free(copy->extents);
	free(copy->entries);
	free(copy->bytes);
}

static enum ldr_status check_request(const struct ldr_pack *plain,
				     const struct ldr_protection *protection, struct ldr_error *err)
{
	if (ldr_pack_flags(plain))
		return ldr_fail(err, LDR_EINVAL, "pack %s: flags %#x, it is protected already",
				plain->name, ldr_pack_flags(plain));
	if (protection->flags != LDR_PACK_FLAG_XOR && protection->flags != LDR_PACK_FLAG_ENCRYPTED)
		return ldr_fail(err, LDR_EINVAL, "pack %s: protection %#x, known are %#x and %#x",
				plain->name, protection->flags, LDR_PACK_FLAG_XOR,
				LDR_PACK_FLAG_ENCRYPTED);
	if (protection->flags == LDR_PACK_FLAG_ENCRYPTED && !protection->title_key)
		return ldr_fail(err, LDR_EINVAL, "pack %s: to be encrypted without a key",
				plain->name);
	return LDR_OK;
}

static enum ldr_status copy_init(struct copy *copy, const struct ldr_pack *plain,
				 struct ldr_error *err)
{
	copy->plain = plain;
	copy->extents = ldr_pack_extents(plain);
	copy->entries = calloc((size_t)plain->entry_count + 1, sizeof(*copy->entries));
	copy->aead = ldr_aead_new();
	copy->hasher = ldr_hasher_new();
	copy->bytes = malloc(LDR_STORED_MAX_BYTES);
	if (copy->extents && copy->entries && copy->aead && copy->hasher && copy->bytes)
		return LDR_OK;
	return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory to copy %u blocks", plain->name,
			plain->entry_count);
}

/* Where each block will lie: the same order, each longer by the tag. */
static void place_entries(struct copy *copy, uint32_t flags)
{
	uint64_t end = LDR_PACK_HEADER_BYTES;

	for (uint32_t i = 0; i < copy->plain->entry_count; i++) {
		uint32_t number = copy->extents[i].entry;
		struct ldr_pack_entry *entry = &copy->entries[number];

		ldr_pack_entry_at(copy->plain, number, entry);
		entry->stored_bytes += ldr_cipher_extra(flags);
		entry->offset = pack_next_offset(end, copy->plain->align, entry->codec);
		end = entry->offset + entry->stored_bytes;
	}
}

static void set_salt(struct copy *copy, const uint8_t *title_key)
{
	size_t count = copy->plain->entry_count;
	struct ldr_id contents;

	ldr_hasher_begin(copy->hasher);
	ldr_hasher_update(copy->hasher, copy->plain->entries, count * LDR_PACK_ENTRY_BYTES);
	ldr_hasher_update(copy->hasher, copy->plain->checksums, count * LDR_PACK_CHECKSUM_BYTES);
	ldr_hasher_end(copy->hasher, &contents);
	ldr_cipher_salt(title_key, &contents, copy->salt);
}

static void digest_entries(struct copy *copy, struct ldr_proven_section *out)
{
	uint8_t row[LDR_PACK_ENTRY_BYTES];

	out->kind = LDR_SECTION_ENTRIES;
	out->length = (uint64_t)copy->plain->entry_count * sizeof(row);
	ldr_hasher_begin(copy->hasher);
	for (uint32_t i = 0; i < copy->plain->entry_count; i++) {
		pack_put_entry(row, &copy->entries[i]);
		ldr_hasher_update(copy->hasher, row, sizeof(row));
	}
	ldr_hasher_end(copy->hasher, &out->digest);
}

static void set_proof(struct copy *copy)
{
	struct ldr_proven_section sections[LDR_SECTION_RECORD];
	uint8_t header[LDR_PACK_HEADER_BYTES];
	unsigned count = 1;

	digest_entries(copy, &sections[0]);
	for (unsigned kind = LDR_SECTION_TREE; kind <= LDR_SECTION_RECORD; kind++) {
		struct ldr_proven_section *section = &sections[count];
		const uint8_t *bytes;

		section->kind = kind;
		if (!ldr_pack_section(copy->plain, (enum ldr_section)kind, &bytes,
				      &section->length))
			continue;
		ldr_digest(copy->hasher, bytes, (size_t)section->length, &section->digest);
		count++;
	}
	pack_put_header(header, &copy->options);
	ldr_cipher_prove(&copy->cipher, header, sections, count, copy->proof);
}

static void prepare(struct copy *copy, const struct ldr_protection *protection)
{
	copy->options = (struct ldr_pack_writer_options){.align = copy->plain->align,
							 .flags = protection->flags};
	place_entries(copy, protection->flags);
	if (protection->flags == LDR_PACK_FLAG_ENCRYPTED) {
		set_salt(copy, protection->title_key);
		copy->options.salt = copy->salt;
	}
	ldr_cipher_init(&copy->cipher, protection->flags, protection->title_key, copy->salt);
	if (protection->flags == LDR_PACK_FLAG_ENCRYPTED) {
		set_proof(copy);
		copy->options.proof = copy->proof;
	}
}

static enum ldr_status copy_block(struct copy *copy, uint32_t number, struct ldr_error *err)
{
	const struct ldr_pack_entry *entry = &copy->entries[number];
	const struct ldr_block_ref block = {entry->id, entry->plain_bytes};
	struct ldr_pack_entry plain;
	uint64_t offset;
	enum ldr_status status;

	ldr_pack_entry_at(copy->plain, number, &plain);
	status = ldr_pack_read_stored(copy->plain, &plain, copy->bytes, err);
	if (status != LDR_OK)
		return status;
	ldr_cipher_seal(&copy->cipher, copy->aead, entry, copy->bytes, copy->bytes);
	status = ldr_pack_writer_append(copy->writer, &block, entry->codec, copy->bytes,
					entry->stored_bytes, &offset, err);
	/* The offset is sealed into the block: the writer must put it where it was placed. */
	assert(status != LDR_OK || offset == entry->offset);
	return status;
}

static enum ldr_status copy_sections(struct copy *copy, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (unsigned kind = LDR_SECTION_TREE; kind <= LDR_SECTION_RECORD; kind++) {
		const uint8_t *bytes;
		uint64_t length;

		if (status == LDR_OK &&
		    ldr_pack_section(copy->plain, (enum ldr_section)kind, &bytes, &length))
			status = ldr_pack_writer_section(copy->writer, (enum ldr_section)kind,
							 bytes, length, err);
	}
	return status;
}

enum ldr_status ldr_pack_protect(const struct ldr_pack *plain,
				 const struct ldr_protection *protection, struct ldr_stream *stream,
				 struct ldr_id *out_id, uint64_t *out_size, struct ldr_error *err)
{
	struct copy copy = {0};
	enum ldr_status status = check_request(plain, protection, err);

	if (status == LDR_OK)
		status = copy_init(&copy, plain, err);
	if (status == LDR_OK) {
		prepare(&copy, protection);
		status = ldr_pack_writer_new(stream, &copy.options, &copy.writer, err);
	}
	for (uint32_t i = 0; status == LDR_OK && i < plain->entry_count; i++)
		status = copy_block(&copy, copy.extents[i].entry, err);
	if (status == LDR_OK)
		status = copy_sections(&copy, err);
	if (status == LDR_OK)
		status = ldr_pack_writer_seal(copy.writer, out_id, out_size, err);
	copy_dispose(&copy);
	return status;
}
