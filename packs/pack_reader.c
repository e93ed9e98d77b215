/*
 * Opening a pack, finding and reading its blocks; see pack_reader.h.
 */
#include "packs/pack_reader.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "common/os.h"
#include "packs/pack_priv.h"

/* ---- life ---- */

static enum ldr_status open_fd(int fd, const char *name, const struct ldr_pack_options *options,
			       struct ldr_pack **out_pack, struct ldr_error *err)
{
	static const struct ldr_pack_options defaults;
	LDR_AUTO_FD int owned = fd;
	LDR_AUTO_PACK struct ldr_pack *pack = calloc(1, sizeof(*pack));
	enum ldr_status status;

	if (pack) {
		atomic_init(&pack->references, 1);
		pack->file.fd = ldr_steal_fd(&owned);
		pack->name = strdup(name);
	}
	if (!pack || !pack->name)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory to open it", name);
	if (!options)
		options = &defaults;
	status = ldr_pack_file_init(&pack->file, pack->name, options, err);
	if (status == LDR_OK)
		status = ldr_pack_check(pack, options, err);
	if (status == LDR_OK)
		*out_pack = LDR_STEAL(pack);
	return status;
}

enum ldr_status ldr_pack_open_fd(int fd, const char *name, const struct ldr_pack_options *options,
				 struct ldr_pack **out_pack, struct ldr_error *err)
{
	return open_fd(fd, name, options, out_pack, err);
}

enum ldr_status ldr_pack_open(const char *path, const struct ldr_pack_options *options,
			      struct ldr_pack **out_pack, struct ldr_error *err)
{
	int fd;
	int code = ldr_os_open_file(path, &fd);

	if (code)
		return ldr_fail_errno(err, code, "pack %s: opening it", path);
	return open_fd(fd, path, options, out_pack, err);
}

struct ldr_pack *ldr_pack_ref(struct ldr_pack *pack)
{
	atomic_fetch_add_explicit(&pack->references, 1, memory_order_relaxed);
	return pack;
}

void ldr_pack_unref(struct ldr_pack *pack)
{
	/* Whoever gives up the last reference sees what the others did before they gave up theirs. */
	if (!pack || atomic_fetch_sub_explicit(&pack->references, 1, memory_order_acq_rel) != 1)
		return;
	ldr_pack_file_dispose(&pack->file);
	ldr_cipher_dispose(&pack->cipher);
	ldr_tree_memory_give(&pack->index_copy);
	free(pack->name);
	free(pack);
}

void ldr_pack_cleanup(struct ldr_pack **pack)
{
	ldr_pack_unref(*pack);
}

/* ---- index ---- */

const struct ldr_id *ldr_pack_id(const struct ldr_pack *pack)
{
	return &pack->id;
}

const char *ldr_pack_name(const struct ldr_pack *pack)
{
	return pack->name;
}

uint32_t ldr_pack_flags(const struct ldr_pack *pack)
{
	return pack->cipher.flags;
}

bool ldr_pack_is_locked(const struct ldr_pack *pack)
{
	return pack->cipher.locked;
}

uint64_t ldr_pack_size(const struct ldr_pack *pack)
{
	return pack->file.size_bytes;
}

uint32_t ldr_pack_entry_count(const struct ldr_pack *pack)
{
	return pack->entry_count;
}

void ldr_pack_entry_at(const struct ldr_pack *pack, uint32_t i, struct ldr_pack_entry *out_entry)
{
	const uint8_t *entry;

	assert(i < pack->entry_count);
	entry = pack_entry_bytes(pack, i);
	memcpy(out_entry->id.bytes, entry, LDR_ID_BYTES);
	out_entry->offset = ldr_get_le(entry + ENTRY_OFFSET, 6);
	out_entry->stored_bytes = (uint32_t)ldr_get_le(entry + ENTRY_STORED, 4);
	out_entry->plain_bytes = (uint32_t)ldr_get_le(entry + ENTRY_PLAIN, 4);
	out_entry->codec = (enum ldr_codec)entry[ENTRY_CODEC];
	out_entry->checksum = ldr_get_le(pack->checksums + (size_t)i * LDR_PACK_CHECKSUM_BYTES,
					 LDR_PACK_CHECKSUM_BYTES);
}

/* The first 32 bits of an id: digests spread evenly over them. */
static int64_t prefix_of(const uint8_t *id)
{
	uint32_t prefix;

	memcpy(&prefix, id, sizeof(prefix));
	return be32toh(prefix);
}

/* Where the id would be if the ids were spread evenly, corrected twice by how far off the place is: from
 * some 500 places in a million to a handful. */
static uint32_t guess(const struct ldr_pack *pack, const struct ldr_id *id)
{
	int64_t count = pack->entry_count;
	int64_t wanted = prefix_of(id->bytes);
	int64_t at = wanted * count >> 32;

	for (unsigned i = 0; i < 2; i++) {
		at += (wanted - prefix_of(pack_entry_bytes(pack, (uint32_t)at))) * count /
		      (INT64_C(1) << 32);
		at = at < 0 ? 0 : at < count ? at : count - 1;
	}
	return (uint32_t)at;
}

static int compare_at(const struct ldr_pack *pack, uint32_t i, const struct ldr_id *id)
{
	return memcmp(pack_entry_bytes(pack, i), id->bytes, LDR_ID_BYTES);
}

/*
 * From the guess outwards in doubling steps until the id is between low and high, then halving: a few
 * probes near one place for digests, and never more than 2 log2(count) for whatever a stranger puts in.
 */
static bool find_index(const struct ldr_pack *pack, const struct ldr_id *id, uint32_t *out_index)
{
	uint32_t count = pack->entry_count;
	uint64_t low, high, step = 1;

	if (!count)
		return false;
	low = high = guess(pack, id);
	if (compare_at(pack, (uint32_t)low, id) <= 0) {
		for (; high < count && compare_at(pack, (uint32_t)high, id) <= 0; step *= 2) {
			low = high;
			high += step;
		}
		high = high < count ? high : count;
	} else {
		for (; low > 0 && compare_at(pack, (uint32_t)low, id) > 0; step *= 2) {
			high = low;
			low = low > step ? low - step : 0;
		}
	}
	/* If it is there at all, it is in [low, high). */
	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;

		if (compare_at(pack, (uint32_t)middle, id) <= 0)
			low = middle;
		else
			high = middle;
	}
	*out_index = (uint32_t)low;
	return compare_at(pack, (uint32_t)low, id) == 0;
}

bool ldr_pack_find(const struct ldr_pack *pack, const struct ldr_id *id,
		   struct ldr_pack_entry *out_entry)
{
	uint32_t i;

	if (!find_index(pack, id, &i))
		return false;
	ldr_pack_entry_at(pack, i, out_entry);
	return true;
}

bool ldr_pack_section(const struct ldr_pack *pack, enum ldr_section kind, const uint8_t **out_bytes,
		      uint64_t *out_length)
{
	for (unsigned i = 0; i < pack->section_count; i++) {
		const struct pack_section *section = &pack->sections[i];

		if (section->kind != kind)
			continue;
		*out_bytes = kind == LDR_SECTION_HEADER
				     ? pack->header
				     : pack->index + (section->position - pack->blocks_end);
		*out_length = section->length;
		return true;
	}
	return false;
}

/* ---- blocks ---- */

static enum ldr_status bad_block(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				 enum ldr_status status, struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(&entry->id, hex);
	return ldr_error_prefix(err, status, "pack %s: block %s at %" PRIu64, pack->name, hex,
				entry->offset);
}

/* The entry comes from the caller, and a mapping has no other guard. */
static enum ldr_status check_bounds(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				    struct ldr_error *err)
{
	if (entry->offset >= LDR_PACK_HEADER_BYTES && entry->offset <= pack->blocks_end &&
	    entry->stored_bytes <= pack->blocks_end - entry->offset &&
	    entry->stored_bytes <= LDR_STORED_MAX_BYTES &&
	    entry->plain_bytes <= LDR_BLOCK_MAX_BYTES)
		return LDR_OK;
	return bad_block(
		pack, entry,
		ldr_fail(err, LDR_EINVAL,
			 "stored length %u, plain length %u, blocks lie from %u to %" PRIu64,
			 entry->stored_bytes, entry->plain_bytes, LDR_PACK_HEADER_BYTES,
			 pack->blocks_end),
		err);
}

static enum ldr_status check_stored(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				    const uint8_t *stored, struct ldr_error *err)
{
	uint64_t checksum = ldr_checksum(stored, entry->stored_bytes);

	if (checksum == entry->checksum)
		return LDR_OK;
	return bad_block(pack, entry,
			 ldr_fail(err, LDR_ECORRUPT,
				  "checksum %016" PRIx64 ", expected %016" PRIx64, checksum,
				  entry->checksum),
			 err);
}

enum ldr_status ldr_pack_read_stored(const struct ldr_pack *pack,
				     const struct ldr_pack_entry *entry, void *stored,
				     struct ldr_error *err)
{
	enum ldr_status status = check_bounds(pack, entry, err);

	if (status == LDR_OK)
		status = ldr_pack_file_read(&pack->file, pack->name, entry->offset, stored,
					    entry->stored_bytes, err);
	if (status == LDR_OK)
		status = check_stored(pack, entry, stored, err);
	return status;
}

const uint8_t *ldr_pack_peek_stored(const struct ldr_pack *pack, const struct ldr_pack_entry *entry)
{
	if (!pack->file.map || check_bounds(pack, entry, NULL) != LDR_OK)
		return NULL;
	return pack->file.map + entry->offset;
}

/* Raw blocks go straight to where they are wanted, without a stop in the scratch buffer. */
static enum ldr_status read_raw(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				void *plain, struct ldr_error *err)
{
	if (entry->stored_bytes != entry->plain_bytes)
		return bad_block(pack, entry,
				 ldr_fail(err, LDR_ECORRUPT,
					  "raw block: stored length %u, plain length %u",
					  entry->stored_bytes, entry->plain_bytes),
				 err);
	return ldr_pack_read_stored(pack, entry, plain, err);
}

static enum ldr_status read_coded(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				  struct ldr_coder *coder, uint32_t until, void *plain,
				  struct ldr_error *err)
{
	const uint8_t *stored = ldr_pack_peek_stored(pack, entry);
	struct ldr_coded coded = {.codec = entry->codec, .bytes = entry->stored_bytes};
	enum ldr_status status;

	if (stored) {
		status = check_stored(pack, entry, stored, err);
	} else {
		uint8_t *scratch = ldr_coder_scratch(coder);

		if (!scratch)
			return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory for a stored block",
					pack->name);
		status = ldr_pack_read_stored(pack, entry, scratch, err);
		stored = scratch;
	}
	if (status != LDR_OK)
		return status;
	coded.stored = stored;
	status = ldr_decode_until(coder, &coded, until, plain, entry->plain_bytes, err);
	return status == LDR_OK ? status : bad_block(pack, entry, status, err);
}

/* A block that is not stored as it is: opened into the scratch buffer, or, when raw, to where it is
 * wanted. */
static enum ldr_status read_sealed(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				   struct ldr_coder *coder, uint8_t *scratch, void *plain,
				   struct ldr_error *err)
{
	uint32_t extra = ldr_cipher_extra(pack->cipher.flags);
	bool raw = entry->codec == LDR_CODEC_NONE;
	enum ldr_status status;

	if (entry->stored_bytes <= extra ||
	    (raw && entry->stored_bytes - extra != entry->plain_bytes))
		return bad_block(pack, entry,
				 ldr_fail(err, LDR_ECORRUPT,
					  "stored length %u with a tag of %u, plain length %u",
					  entry->stored_bytes, extra, entry->plain_bytes),
				 err);
	status = ldr_pack_read_stored(pack, entry, scratch, err);
	if (status != LDR_OK)
		return status;
	status = ldr_cipher_open(&pack->cipher, ldr_coder_aead(coder), entry, scratch,
				 raw ? plain : scratch, err);
	if (status == LDR_OK && !raw)
		status = ldr_decode(coder, entry->codec, scratch, entry->stored_bytes - extra,
				    plain, entry->plain_bytes, err);
	return status == LDR_OK ? status : bad_block(pack, entry, status, err);
}

static enum ldr_status read_protected(const struct ldr_pack *pack,
				      const struct ldr_pack_entry *entry, struct ldr_coder *coder,
				      void *plain, struct ldr_error *err)
{
	uint8_t *scratch = ldr_coder_scratch(coder);

	if (pack->cipher.locked)
		return ldr_fail(err, LDR_ENOKEY, "pack %s: is encrypted, and no key was given",
				pack->name);
	if (!scratch || !ldr_coder_aead(coder))
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory for a stored block",
				pack->name);
	return read_sealed(pack, entry, coder, scratch, plain, err);
}

static enum ldr_status check_id(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				struct ldr_hasher *hasher, const void *plain, struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;

	ldr_digest(hasher, plain, entry->plain_bytes, &id);
	if (ldr_id_equal(&id, &entry->id))
		return LDR_OK;
	ldr_id_to_hex(&id, hex);
	return bad_block(pack, entry, ldr_fail(err, LDR_ECORRUPT, "its bytes digest to %s", hex),
			 err);
}

enum ldr_status ldr_pack_read_until(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				    struct ldr_coder *coder, uint32_t until, void *plain,
				    struct ldr_error *err)
{
	enum ldr_status status = check_bounds(pack, entry, err);

	if (status != LDR_OK)
		return status;
	if (pack->cipher.flags)
		status = read_protected(pack, entry, coder, plain, err);
	else if (entry->codec == LDR_CODEC_NONE)
		status = read_raw(pack, entry, plain, err);
	else
		status = read_coded(pack, entry, coder, until, plain, err);
	/* No unchecked byte stays behind in the caller's buffer. */
	if (status != LDR_OK)
		memset(plain, 0, entry->plain_bytes);
	return status;
}

enum ldr_status ldr_pack_read(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
			      struct ldr_coder *coder, struct ldr_hasher *hasher, void *plain,
			      struct ldr_error *err)
{
	enum ldr_status status = ldr_pack_read_until(pack, entry, coder, entry->plain_bytes, plain,
						     err);

	if (status == LDR_OK && hasher) {
		status = check_id(pack, entry, hasher, plain, err);
		if (status != LDR_OK)
			memset(plain, 0, entry->plain_bytes);
	}
	return status;
}
