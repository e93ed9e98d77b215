/*
 * Reading a pack: open, find, decode.
 *
 * A pack is checked before it costs anything: trailer, table and counts against the file's size before
 * any allocation; every section's checksum; entries strictly rising by id; every block exactly where
 * the one before it, its codec and align put it; plain lengths 1 to 256 KiB; known version, flags,
 * sections and codecs only. A stored block is checked (XXH3-64) whenever it is decoded, so mounting does not read
 * the payload.
 *
 * Statuses: LDR_ECORRUPT malformed; LDR_EUNSUPPORTED unknown version, flag, section or codec;
 * LDR_ELIMIT a limit of the options; LDR_EISDIR, LDR_ENOTREG; LDR_ENOTFOUND and others from the system. Messages name pack, entry, offset.
 *
 * A pack that is truncated or changed underneath a mapping is the caller's choice: the default mode
 * reads by pread and can only fail; LDR_PACK_MAP is for packs that we publish and guard ourselves
 * (cache, store), whose files are immutable.
 *
 * Threads: immutable after open; any thread may call anything but unref of its last reference.
 */
#ifndef LDR_PACKS_PACK_READER_H
#define LDR_PACKS_PACK_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packs/codec.h"
#include "packs/pack.h"

struct ldr_pack;

enum ldr_pack_mode {
	LDR_PACK_MAP = 1u,    /* map the file; stored bytes can be borrowed */
	LDR_PACK_DIGEST = 2u, /* check the sections' SHA-256 too and so prove the pack id */
	/* A local archive, which may be obfuscated or encrypted; else such a pack is
	 * LDR_EUNSUPPORTED, since nothing that is published is either. */
	LDR_PACK_LOCAL = 4u,
};

/* Zero means the default in brackets. */
struct ldr_pack_options {
	unsigned mode;
	uint64_t max_pack_bytes;  /* (1 TiB) */
	uint64_t max_index_bytes; /* sections and table (1 GiB) */
	uint32_t max_entries;     /* (16 Mi) */
	/* Where the pack begins and how long it is inside a larger file; length 0: to the end. */
	uint64_t base;
	uint64_t length;
	/* When given, the id it must have, else LDR_ECORRUPT naming both. Implies LDR_PACK_DIGEST. */
	const struct ldr_id *expected_id;
	/* LDR_TITLE_KEY_BYTES, copied. Of no use to a plain pack; an encrypted one without it can be
	 * listed, its blocks are LDR_ENOKEY. LDR_EUNTRUSTED when opening: another key, or an index
	 * that the key's owner has not made. */
	const uint8_t *title_key;
};

/* Takes the descriptor (closed on failure too); name is copied and used in messages. */
LDR_API enum ldr_status ldr_pack_open_fd(int fd, const char *name,
					 const struct ldr_pack_options *options,
					 struct ldr_pack **out_pack, struct ldr_error *err);
LDR_API enum ldr_status ldr_pack_open(const char *path, const struct ldr_pack_options *options,
				      struct ldr_pack **out_pack, struct ldr_error *err);
/* Shared ownership by atomic count. */
LDR_API struct ldr_pack *ldr_pack_ref(struct ldr_pack *pack);
LDR_API void ldr_pack_unref(struct ldr_pack *pack); /* NULL is allowed */
void ldr_pack_cleanup(struct ldr_pack **pack);
#define LDR_AUTO_PACK __attribute__((cleanup(ldr_pack_cleanup)))

LDR_API const struct ldr_id *ldr_pack_id(const struct ldr_pack *pack);
LDR_API const char *ldr_pack_name(const struct ldr_pack *pack);
/* Of the header: 0, LDR_PACK_FLAG_XOR or LDR_PACK_FLAG_ENCRYPTED. */
LDR_API uint32_t ldr_pack_flags(const struct ldr_pack *pack);
/* Encrypted, and opened without its key. */
LDR_API bool ldr_pack_is_locked(const struct ldr_pack *pack);
LDR_API uint64_t ldr_pack_size(const struct ldr_pack *pack);
LDR_API uint32_t ldr_pack_entry_count(const struct ldr_pack *pack);
/* The i-th entry in the order of ids; i < count is the caller's duty (asserted). */
LDR_API void ldr_pack_entry_at(const struct ldr_pack *pack, uint32_t i,
			       struct ldr_pack_entry *out_entry);
/* Interpolated search over the sorted ids; false when it is not there. */
LDR_API bool ldr_pack_find(const struct ldr_pack *pack, const struct ldr_id *id,
			   struct ldr_pack_entry *out_entry);
/* A section's bytes, borrowed until the last unref; false when the pack has none. */
LDR_API bool ldr_pack_section(const struct ldr_pack *pack, enum ldr_section kind,
			      const uint8_t **out_bytes, uint64_t *out_length);

/* Reads the stored form into stored (entry->stored_bytes) and tests its checksum; obfuscated or sealed
 * where the pack is. */
LDR_API enum ldr_status ldr_pack_read_stored(const struct ldr_pack *pack,
					     const struct ldr_pack_entry *entry, void *stored,
					     struct ldr_error *err);
/* Borrowed stored bytes in a mapped pack, NULL without LDR_PACK_MAP. Not checked. */
LDR_API const uint8_t *ldr_pack_peek_stored(const struct ldr_pack *pack,
					    const struct ldr_pack_entry *entry);
/* Reads, checks and decodes into plain (entry->plain_bytes). With hasher not NULL the plain bytes'
 * SHA-256 is compared with the id too. coder and hasher are the caller's, one thread each. On failure
 * plain is zeroed: no unchecked byte stays in it. LDR_EINVAL: the entry is not one of this pack.
 * Of an encrypted pack: LDR_ENOKEY; LDR_EUNTRUSTED when the block is not the one that was sealed with this
 * entry. */
LDR_API enum ldr_status ldr_pack_read(const struct ldr_pack *pack,
				      const struct ldr_pack_entry *entry, struct ldr_coder *coder,
				      struct ldr_hasher *hasher, void *plain,
				      struct ldr_error *err);

/* As ldr_pack_read without a hasher, where only the first until bytes are wanted: the stored bytes are checked
 * as ever, and of an lz4 block no more is decoded than that. plain has room for entry->plain_bytes; what is
 * in it behind until is undefined. */
LDR_API enum ldr_status ldr_pack_read_until(const struct ldr_pack *pack,
					    const struct ldr_pack_entry *entry,
					    struct ldr_coder *coder, uint32_t until, void *plain,
					    struct ldr_error *err);

/* Reads everything: section digests, gaps zero, every block decoded and digested. The first fault is
 * returned; with each_fault every block's fault is reported (a fault of the gap before a block, too, which
 * makes no bad block) and the walk goes on. The report is written whenever the blocks were walked, after
 * faults too; out_report may be NULL. Each call has its own buffers; any thread. A locked pack's stored bytes
 * are checked, and then it is LDR_ENOKEY. */
struct ldr_pack_verify_report {
	uint64_t blocks;
	uint64_t bad_blocks;
	uint64_t plain_bytes;
};
LDR_API enum ldr_status ldr_pack_verify(const struct ldr_pack *pack,
					void (*each_fault)(void *context,
							   const struct ldr_pack_entry *entry,
							   const struct ldr_error *fault),
					void *context, struct ldr_pack_verify_report *out_report,
					struct ldr_error *err);

/* The cheap half of verify, for whoever has just digested and encoded the blocks himself: every stored block
 * against its checksum, gaps zero, as they lie in the file now. The first fault is returned. */
LDR_API enum ldr_status ldr_pack_verify_stored(const struct ldr_pack *pack, struct ldr_error *err);

#endif
