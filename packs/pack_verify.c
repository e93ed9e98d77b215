/*
 * Reading the whole of a pack; see pack_reader.h.
 *
 * Blocks are read in the order of their offsets, so that a disk is read once from front to back.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "packs/pack_priv.h"

#define GAP_PIECE_BYTES 4096u

struct walk {
	const struct ldr_pack *pack;
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
	uint8_t *plain;
	void (*each_fault)(void *context, const struct ldr_pack_entry *entry,
			   const struct ldr_error *fault);
	void *context;
	struct ldr_pack_verify_report report;
	struct ldr_error first;
};

static enum ldr_status check_gap(const struct ldr_pack *pack, uint64_t from, uint64_t to,
				 struct ldr_error *err)
{
	uint8_t piece[GAP_PIECE_BYTES];

	while (from < to) {
		size_t length = to - from < sizeof(piece) ? (size_t)(to - from) : sizeof(piece);
		enum ldr_status status = ldr_pack_file_read(&pack->file, pack->name, from, piece,
							    length, err);

		if (status != LDR_OK)
			return status;
		for (size_t i = 0; i < length; i++)
			if (piece[i])
				return ldr_fail(err, LDR_ECORRUPT,
						"pack %s: byte %#x in the gap at %" PRIu64
						", expected 0",
						pack->name, piece[i], from + i);
		from += length;
	}
	return LDR_OK;
}

/* Counts and reports one fault; false ends the walk. */
static bool note(struct walk *walk, const struct ldr_pack_entry *entry, bool block_is_bad,
		 const struct ldr_error *fault)
{
	if (walk->first.status == LDR_OK)
		walk->first = *fault;
	walk->report.bad_blocks += block_is_bad;
	if (!walk->each_fault)
		return false;
	walk->each_fault(walk->context, entry, fault);
	return true;
}

static bool visit(struct walk *walk, uint32_t i, uint64_t *end)
{
	struct ldr_error fault = {0};
	struct ldr_pack_entry entry;

	ldr_pack_entry_at(walk->pack, i, &entry);
	if (check_gap(walk->pack, *end, entry.offset, &fault) != LDR_OK &&
	    !note(walk, &entry, false, &fault))
		return false;
	*end = entry.offset + entry.stored_bytes;
	walk->report.blocks++;
	walk->report.plain_bytes += entry.plain_bytes;
	if (ldr_pack_read(walk->pack, &entry, walk->coder, walk->hasher, walk->plain, &fault) !=
	    LDR_OK)
		return note(walk, &entry, true, &fault);
	return true;
}

static enum ldr_status walk_blocks(struct walk *walk, struct ldr_error *err)
{
	LDR_AUTO_FREE struct pack_extent *extents = ldr_pack_extents(walk->pack);
	uint64_t end = LDR_PACK_HEADER_BYTES;

	if (!extents)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory for %u extents",
				walk->pack->name, walk->pack->entry_count);
	for (uint32_t i = 0; i < walk->pack->entry_count; i++)
		if (!visit(walk, extents[i].entry, &end))
			break;
	return LDR_OK;
}

/* Without the key nobody can say more than that it is as it was written. */
static enum ldr_status verify_locked(const struct ldr_pack *pack, struct ldr_error *err)
{
	enum ldr_status status = ldr_pack_check_digests(pack, err);

	if (status == LDR_OK)
		status = ldr_pack_verify_stored(pack, err);
	if (status != LDR_OK)
		return status;
	return ldr_fail(err, LDR_ENOKEY,
			"pack %s: its stored bytes are right; it is encrypted, and no key was "
			"given to look inside",
			pack->name);
}

enum ldr_status ldr_pack_verify(const struct ldr_pack *pack,
				void (*each_fault)(void *context,
						   const struct ldr_pack_entry *entry,
						   const struct ldr_error *fault),
				void *context, struct ldr_pack_verify_report *out_report,
				struct ldr_error *err)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	LDR_AUTO_FREE uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	struct walk walk = {
		.pack = pack,
		.coder = coder,
		.hasher = hasher,
		.plain = plain,
		.each_fault = each_fault,
		.context = context,
	};
	enum ldr_status status;

	if (pack->cipher.locked)
		return verify_locked(pack, err);
	if (!coder || !hasher || !plain)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory to verify it", pack->name);
	status = ldr_pack_check_digests(pack, err);
	if (status == LDR_OK)
		status = walk_blocks(&walk, err);
	if (status != LDR_OK)
		return status;
	if (out_report)
		*out_report = walk.report;
	if (walk.first.status != LDR_OK && err)
		*err = walk.first;
	return walk.first.status;
}

enum ldr_status ldr_pack_verify_stored(const struct ldr_pack *pack, struct ldr_error *err)
{
	LDR_AUTO_FREE struct pack_extent *extents = ldr_pack_extents(pack);
	LDR_AUTO_FREE uint8_t *stored = malloc(LDR_STORED_MAX_BYTES);
	uint64_t end = LDR_PACK_HEADER_BYTES;
	enum ldr_status status = LDR_OK;

	if (!extents || !stored)
		return ldr_fail(err, LDR_ENOMEM, "pack %s: no memory to verify it", pack->name);
	for (uint32_t i = 0; !status && i < pack->entry_count; i++) {
		struct ldr_pack_entry entry;

		ldr_pack_entry_at(pack, extents[i].entry, &entry);
		status = check_gap(pack, end, entry.offset, err);
		if (!status)
			status = ldr_pack_read_stored(pack, &entry, stored, err);
		end = entry.offset + entry.stored_bytes;
	}
	return status;
}
