/*
 * The memory cache: decoded blocks, keyed by block id.
 *
 * Sharded CLOCK over slab buffers (cache/slab.h): a hit takes one shard's lock shortly, sets the
 * used bit and pins the block by an atomic count; the bytes of a pinned block never move or change.
 * A block that finds no room (all pinned) is simply not kept.
 *
 * A block may be decoded where it will lie (reserve, filled), so that a miss copies nothing. There a
 * caller that can do without the block (LDR_MEMORY_IF_ASKED_AGAIN) is refused where it would push
 * others out and was not asked for lately (cache/recent.h).
 *
 * Each shard's hand goes through its arena in the order of addresses, not of arrival: what it
 * evicts lies side by side, so that room for a long block appears after a few short ones.
 *
 * Bounds: all blocks and their headers together stay within the capacity given. A hit allocates
 * nothing.
 *
 * Threads: any thread may call everything but free.
 */
#ifndef LDR_CACHE_MEMORY_H
#define LDR_CACHE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packs/block.h"

struct ldr_memory_cache;

/* A pinned block: bytes are borrowed until ldr_memory_unpin. */
struct ldr_memory_block {
	const uint8_t *bytes;
	uint32_t length;
	void *pin; /* the cache's own */
};

struct ldr_memory_stat {
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	uint64_t blocks;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t refused; /* puts and reservations that found no room, or were not worth it */
};

/* capacity_bytes of 0 gives a cache that keeps nothing and always misses. */
LDR_API enum ldr_status ldr_memory_cache_new(size_t capacity_bytes,
					     struct ldr_memory_cache **out_cache,
					     struct ldr_error *err);
/* All pins must have been given back (asserted). NULL is allowed. */
LDR_API void ldr_memory_cache_free(struct ldr_memory_cache *cache);

/* Whether a get would find it now; counts nothing and marks nothing as used. */
LDR_API bool ldr_memory_has(struct ldr_memory_cache *cache, const struct ldr_id *id);
/* True: *out is pinned. */
LDR_API bool ldr_memory_get(struct ldr_memory_cache *cache, const struct ldr_id *id,
			    struct ldr_memory_block *out);
/* The same without a lock, for readers that come back to a block: the hint says where it was the
 * last time. LDR_MEMORY_NO_HINT, or one that is not right any more, gives false and costs little;
 * then get, and keep what ldr_memory_hint says of the pin. */
#define LDR_MEMORY_NO_HINT 0u
LDR_API bool ldr_memory_get_hinted(struct ldr_memory_cache *cache,
				   const struct ldr_block_ref *block, uint32_t hint,
				   struct ldr_memory_block *out);
/* Asks the processor for the bytes at offset in the block that the hint leads to, so that they come
 * while get_hinted finds out whether it is right. Any hint will do. */
LDR_API void ldr_memory_prefetch(const struct ldr_memory_cache *cache, uint32_t hint,
				 uint32_t offset);
LDR_API uint32_t ldr_memory_hint(const struct ldr_memory_cache *cache,
				 const struct ldr_memory_block *block);
/* Copies the bytes in (a block that is there already is left as it is). With out, the block is also
 * pinned; false when it was not kept (out is then untouched). */
LDR_API bool ldr_memory_put(struct ldr_memory_cache *cache, const struct ldr_block_ref *block,
			    const void *bytes, struct ldr_memory_block *out);

enum ldr_memory_want {
	LDR_MEMORY_ALWAYS,
	LDR_MEMORY_IF_ASKED_AGAIN, /* where others must go for it, only when asked for lately */
};
enum ldr_memory_room {
	LDR_MEMORY_REFUSED, /* the block is not kept, out is untouched */
	LDR_MEMORY_HELD,    /* it is there by now, and pinned */
	LDR_MEMORY_FILL, /* *out_bytes is room for it, the caller's alone until ldr_memory_filled */
};
LDR_API enum ldr_memory_room ldr_memory_reserve(struct ldr_memory_cache *cache,
						const struct ldr_block_ref *block,
						enum ldr_memory_want want,
						struct ldr_memory_block *out, uint8_t **out_bytes);
/* Ends a filling. good: the block can be found, and *room is pinned (perhaps as somebody else put it
 * meanwhile: look at room->bytes). Else its room is given back. */
LDR_API void ldr_memory_filled(struct ldr_memory_cache *cache, struct ldr_memory_block *room,
			       bool good);
LDR_API void ldr_memory_unpin(struct ldr_memory_cache *cache, struct ldr_memory_block *block);
LDR_API void ldr_memory_clear(struct ldr_memory_cache *cache);
LDR_API void ldr_memory_stat(struct ldr_memory_cache *cache, struct ldr_memory_stat *out);

#endif
