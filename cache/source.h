/*
 * The chain a block comes through: memory, packs at hand (archives, then the disk cache), and when all
 * miss, upwards through a small table that the network gives. Knows block ids and places, no names.
 *
 * A block in flight is shared by everyone who wants it: the first asks upwards, the others wait for it.
 * What arrives from above is decoded and digested here, before anyone sees a byte; then it goes into
 * the disk cache in its stored form and into memory decoded. Readers that share a failing flight share
 * its error; the next reader asks anew. Blocks of packs at hand are never put on the disk again; their
 * checksum is tested on every read, their digest not (the disk cache's is).
 *
 * Threads: any thread may read; attaching packs and the upstream happens before the first read.
 * Locks: LDR_RANK_SOURCE for the table of blocks in flight, never held over I/O or the upstream.
 */
#ifndef LDR_CACHE_SOURCE_H
#define LDR_CACHE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "cache/disk.h"
#include "cache/memory.h"
#include "common/wait.h"
#include "packs/map.h"
#include "packs/pack_reader.h"

/* A request that nobody's thread waits for. Borrows wants until done has returned; arrived is that of
 * ldr_upstream. Both are called from any thread, with no lock held. */
struct ldr_upstream_request {
	const struct ldr_placed_block *wants;
	size_t count; /* at least 1 */
	unsigned
		priority; /* 0 is served first; LDR_PRIORITY_BACKGROUND leaves room for the others */
	enum ldr_status (*arrived)(void *arrival, size_t want, const void *stored,
				   struct ldr_error *err);
	void (*done)(void *arrival, const struct ldr_error *error); /* status LDR_OK: all arrived */
	void *arrival;
};

/* Blocks from above, in stored form (place.codec, place.stored_bytes). The upstream calls arrived for
 * each block it could get, from any thread, in any order, with bytes borrowed for the call; arrived
 * gives LDR_OK (also for a block that has arrived already), or LDR_ECORRUPT when the bytes are not the
 * block's, whereupon the upstream may try another host. It returns when all wanted blocks have arrived
 * or the first could not be had, after its own retries, and calls arrived no more once it has returned.
 * Every wait of it must have a deadline: whoever shares a block in flight waits for it. */
struct ldr_upstream {
	void *context;
	enum ldr_status (*fetch)(void *context, const struct ldr_placed_block *wants, size_t count,
				 enum ldr_status (*arrived)(void *arrival, size_t want,
							    const void *stored,
							    struct ldr_error *err),
				 void *arrival, struct ldr_error *err);
	/* The same without a thread that waits; NULL: there is only fetch. LDR_OK: done comes once, after
	 * the last arrived, perhaps before start has returned. *out_ticket is set before either comes,
	 * and names the request until done has returned. */
	enum ldr_status (*start)(void *context, const struct ldr_upstream_request *request,
				 void **out_ticket, struct ldr_error *err);
	void (*set_priority)(void *context, void *ticket, unsigned priority);
};

struct ldr_source;

/* Every block given to a caller is counted once; from_upstream also has what arrived and was not handed
 * on, since its window failed before. */
struct ldr_source_stat {
	uint64_t from_memory;
	uint64_t from_packs;
	uint64_t from_disk;
	uint64_t from_upstream;
	uint64_t upstream_bytes; /* stored */
	uint64_t shared; /* taken from what somebody else (or an earlier want) had asked for */
};

/* Borrows memory and disk (either may be NULL) until freed. */
LDR_API enum ldr_status ldr_source_new(struct ldr_memory_cache *memory, struct ldr_disk_cache *disk,
				       struct ldr_source **out_source, struct ldr_error *err);
LDR_API void ldr_source_free(struct ldr_source *source);
/* Adds a pack at hand; takes a reference. */
LDR_API enum ldr_status ldr_source_add_pack(struct ldr_source *source, struct ldr_pack *pack,
					    struct ldr_error *err);
/* Borrows the context until freed. Without an upstream a miss is LDR_EOFFLINE. */
LDR_API void ldr_source_set_upstream(struct ldr_source *source,
				     const struct ldr_upstream *upstream);

/* One block into plain (block.plain_bytes). place matters only when the block comes from above. */
LDR_API enum ldr_status ldr_source_read(struct ldr_source *source,
					const struct ldr_placed_block *want, void *plain,
					struct ldr_error *err);
/* A part of one block that the caller has not found in memory, from a pack at hand. Allocates nothing once
 * threads have read before. Where the whole is not wanted in memory (LDR_MEMORY_IF_ASKED_AGAIN) no more is
 * decoded than the part needs, and what is asked for whole goes straight to the caller. LDR_ENOTFOUND, which leaves err
 * alone: the block must come from elsewhere (ldr_source_read_many), because no pack has it or because the one
 * that has it is damaged and there is somewhere else to go. */
struct ldr_block_part {
	uint32_t from; /* from + length: at most the block's length */
	uint32_t length;
	void *bytes;
};
LDR_API enum ldr_status ldr_source_read_part(struct ldr_source *source,
					     const struct ldr_block_ref *block,
					     const struct ldr_block_part *part,
					     enum ldr_memory_want want, struct ldr_error *err);
/* Many blocks, one request upwards for all that miss, so that ranges can be joined. deliver is called
 * once per block in the order of wants, from the calling thread, with bytes borrowed for the call; a
 * status other than LDR_OK stops and is returned. window_bytes bounds the decoded bytes held at once
 * (0: 16 MiB). */
LDR_API enum ldr_status ldr_source_read_many(struct ldr_source *source,
					     const struct ldr_placed_block *wants, size_t count,
					     size_t window_bytes,
					     enum ldr_status (*deliver)(void *context, size_t want,
									const void *plain,
									struct ldr_error *err),
					     void *context, struct ldr_error *err);
/* The same, without waiting for the upstream when there is a wait: LDR_EAGAIN, and the wait's ready comes
 * (common/wait.h). All wants must lie in one window, so that what came stays until it is read; blocks are
 * delivered again from the first when the caller comes again. */
struct ldr_source_read {
	const struct ldr_placed_block *wants;
	size_t count;
	size_t window_bytes;
	enum ldr_status (*deliver)(void *context, size_t want, const void *plain,
				   struct ldr_error *err);
	void *context;
	struct ldr_wait *wait; /* NULL: the calling thread waits */
};
LDR_API enum ldr_status ldr_source_read_or_wait(struct ldr_source *source,
						const struct ldr_source_read *read,
						struct ldr_error *err);
/* True when the block can be had without the upstream. */
LDR_API bool ldr_source_holds(struct ldr_source *source, const struct ldr_id *id);
LDR_API void ldr_source_stat(struct ldr_source *source, struct ldr_source_stat *out);

#endif
