/*
 * Writing a pack: append stored blocks, add sections, seal.
 *
 * Same appends in the same order give the same bytes: no time, path or randomness enters a pack.
 * The writer refuses an id that it has already (LDR_EEXISTS; callers ask ldr_pack_writer_has first)
 * and whatever a reader would refuse (LDR_EINVAL). After a failed write to the stream every further
 * call gives that failure's status.
 *
 * The bytes go to a stream of the publisher, which the caller began; sealing writes index and trailer
 * and gives the pack id, whereupon the caller commits the stream under the name that the id gives.
 *
 * Threads: one at a time.
 */
#ifndef LDR_PACKS_PACK_WRITER_H
#define LDR_PACKS_PACK_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/publisher.h"
#include "packs/pack.h"

struct ldr_pack_writer;

struct ldr_pack_writer_options {
	uint32_t align; /* of stored-raw blocks; 0 or 1: none; a power of two up to 64 KiB */
	/* Of the header: what was done to the blocks that are appended (packs/pack_protect.h does it). */
	uint32_t flags;
	/* Of encrypted packs: LDR_PACK_SALT_BYTES and LDR_PACK_PROOF_BYTES; else NULL. */
	const uint8_t *salt;
	const uint8_t *proof;
};

/* Borrows the stream, which must be empty, until the writer is freed. options may be NULL.
 * LDR_EINVAL, LDR_EUNSUPPORTED (flags), LDR_ENOMEM, and what the stream gives. */
enum ldr_status ldr_pack_writer_new(struct ldr_stream *stream,
				    const struct ldr_pack_writer_options *options,
				    struct ldr_pack_writer **out_writer, struct ldr_error *err);
void ldr_pack_writer_free(struct ldr_pack_writer *writer); /* NULL is allowed */
void ldr_pack_writer_cleanup(struct ldr_pack_writer **writer);
#define LDR_AUTO_PACK_WRITER __attribute__((cleanup(ldr_pack_writer_cleanup)))

bool ldr_pack_writer_has(const struct ldr_pack_writer *writer, const struct ldr_id *id);
/* Where the entry of an appended block is (as ldr_pack_find, before and after sealing); out_entry may be
 * NULL. */
bool ldr_pack_writer_find(const struct ldr_pack_writer *writer, const struct ldr_id *id,
			  struct ldr_pack_entry *out_entry);
/* Appends one stored block; gives its offset in the pack (out_offset may be NULL). */
enum ldr_status ldr_pack_writer_append(struct ldr_pack_writer *writer,
				       const struct ldr_block_ref *block, enum ldr_codec codec,
				       const void *stored, uint32_t stored_bytes,
				       uint64_t *out_offset, struct ldr_error *err);
uint32_t ldr_pack_writer_count(const struct ldr_pack_writer *writer);
/* Header, blocks and gaps so far. */
uint64_t ldr_pack_writer_bytes(const struct ldr_pack_writer *writer);
/* Adds a section (tree, record), borrowed until seal. Each kind once. */
enum ldr_status ldr_pack_writer_section(struct ldr_pack_writer *writer, enum ldr_section kind,
					const void *bytes, uint64_t length, struct ldr_error *err);
/* Writes index and trailer. Nothing may be appended afterwards. */
enum ldr_status ldr_pack_writer_seal(struct ldr_pack_writer *writer, struct ldr_id *out_id,
				     uint64_t *out_size, struct ldr_error *err);

#endif
