/*
 * The disk cache: a folder of packs, shared by any number of processes.
 *
 *   FORMAT            "larder-cache 1\n"; a folder with another one is refused
 *   generation        changes its stamp when a pack is added or removed, so that others notice by a stat
 *   packs/<id>.pack   published packs, immutable
 *   packs/.larder-tmp.*  open packs: private temporaries of live processes, OFD-locked by their owner
 *   lookup            derived, rebuildable: id prefix -> pack and entry, of the published packs
 *   pins/ trees/ trust/ seen/   of the rooms above; `clear` keeps trust/, seen/ and pins/
 *
 * Life of a block: it arrives decoded and digested; put appends its stored form to this process's open
 * pack, from which it is readable at once; at 8 MiB, on flush, after 60 s without a put (checked by the
 * next call) or at close the open pack is sealed and published. After a crash at most 8 MiB per process
 * is gone; the temporaries of dead processes are swept at open; nothing is scanned, nothing is half
 * there. Closing also writes packs with bad blocks anew, and many small packs as one.
 *
 * Invariants
 *  1. A published pack is never changed; eviction and clear unlink (mappings and reads survive).
 *  2. A block that fails its checksum or digest is dropped from the tables, counted, and reported as
 *     not there: the caller fetches it again.
 *  3. The sum of all packs, temporaries and derived files stays within the quota, the file system keeps
 *     at least the free-space floor. No room, a read-only or a failing disk: puts do nothing but count;
 *     reads go on.
 *  4. Opening reads no pack contents: entries come from `lookup` where that file knows the pack, else
 *     from the pack's index. A pack whose index is damaged is removed.
 *  5. A hit makes one read and asks nobody; a miss looks for newcomers at most every 50 ms.
 *  6. A disk that hangs in one read for over two seconds is passed by until it answers.
 *
 * Threads: any thread may call everything but open and close. Locks: LDR_RANK_DISK, never held over
 * reads of block data.
 */
#ifndef LDR_CACHE_DISK_H
#define LDR_CACHE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/publisher.h"
#include "packs/codec.h"

#define LDR_CACHE_FORMAT "larder-cache 1\n"

struct ldr_disk_cache;

struct ldr_disk_options {
	uint64_t quota_bytes;          /* 0: 10 GiB */
	uint64_t free_floor_bytes;     /* 0: 256 MiB */
	uint64_t seal_bytes;           /* 0: 8 MiB; at most an eighth of the quota */
	bool read_only;                /* never write, not even FORMAT */
	const struct ldr_clock *clock; /* NULL: the system's */
};

struct ldr_disk_stat {
	uint64_t packs;
	uint64_t blocks;
	uint64_t bytes; /* on disk, with temporaries and derived files */
	uint64_t hits;
	uint64_t misses;
	uint64_t puts;          /* blocks accepted */
	uint64_t puts_dropped;  /* no room, read-only, failing disk; or lost with an open pack */
	uint64_t bad_blocks;    /* dropped because their bytes were wrong */
	uint64_t damaged_packs; /* removed because their index was wrong */
	uint64_t evicted_packs;
	uint64_t swept;    /* temporaries of dead processes removed */
	bool writable;     /* puts are being kept */
	char trouble[256]; /* why not, "" when writable */
};

/* Creates the folder where missing. LDR_EUNSUPPORTED: foreign FORMAT (names both). A folder that cannot
 * be written is opened for reading; one that cannot be read either is an error. options may be NULL. */
LDR_API enum ldr_status ldr_disk_open(const char *path, const struct ldr_disk_options *options,
				      struct ldr_disk_cache **out_cache, struct ldr_error *err);
/* Seals and publishes the open pack, then frees; NULL is allowed. */
LDR_API void ldr_disk_close(struct ldr_disk_cache *cache);
/* The folder, for the rooms above; borrowed until close. */
LDR_API const struct ldr_root *ldr_disk_root(const struct ldr_disk_cache *cache);

LDR_API bool ldr_disk_has(struct ldr_disk_cache *cache, const struct ldr_id *id);
/* Decodes and digests the block into plain (block->plain_bytes). LDR_ENOTFOUND when it is not held or
 * its bytes were wrong (invariant 2). coder and hasher are the caller's, one thread each. */
LDR_API enum ldr_status ldr_disk_read(struct ldr_disk_cache *cache,
				      const struct ldr_block_ref *block, struct ldr_coder *coder,
				      struct ldr_hasher *hasher, void *plain,
				      struct ldr_error *err);
/* Keeps a block whose stored form the caller has decoded and digested. Never fails: what cannot be kept
 * is counted. */
LDR_API void ldr_disk_put(struct ldr_disk_cache *cache, const struct ldr_block_ref *block,
			  enum ldr_codec codec, const void *stored, uint32_t stored_bytes);
/* Seals and publishes the open pack now. */
LDR_API enum ldr_status ldr_disk_flush(struct ldr_disk_cache *cache, struct ldr_error *err);
/* Evicts down to target_bytes (0: nothing but what is in use elsewhere stays). Works beside readers. */
LDR_API enum ldr_status ldr_disk_trim(struct ldr_disk_cache *cache, uint64_t target_bytes,
				      struct ldr_error *err);
LDR_API void ldr_disk_stat(struct ldr_disk_cache *cache, struct ldr_disk_stat *out);
/* Reads and digests every block of every published pack; packs with a bad block lose it (the good ones
 * are kept). Gives how many blocks were bad. */
LDR_API enum ldr_status ldr_disk_verify(struct ldr_disk_cache *cache, uint64_t *out_blocks,
					uint64_t *out_bad, struct ldr_error *err);

#endif
