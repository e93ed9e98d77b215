/*
 * What the files of the source share; for cache/source*.c only.
 *
 *   source.c          making, what is held here, one block
 *   source_part.c     a part of a block out of a pack
 *   source_window.c   many blocks: look, ask upwards, hand over
 *   source_ask.c      what is asked of the upstream, and what arrives
 *   source_wait.c     readers that wait with no thread
 */
#ifndef LDR_CACHE_SOURCE_PRIV_H
#define LDR_CACHE_SOURCE_PRIV_H

#include <stdatomic.h>

#include "cache/flight.h"
#include "cache/source.h"
#include "common/lock.h"

/* What a thread needs to decode. */
struct ldr_source_scratch {
	struct ldr_source_scratch *next;
	struct ldr_coder *coder;   /* owns */
	struct ldr_hasher *hasher; /* owns */
	uint8_t *plain;            /* owns; room for a block, made when first wanted; may be NULL */
};

struct ldr_source_pack {
	struct ldr_pack *pack; /* shares */
};

struct ldr_source {
	struct ldr_memory_cache *memory; /* borrows; may be NULL */
	struct ldr_disk_cache *disk;     /* borrows; may be NULL */
	struct ldr_source_pack *packs;   /* owns */
	size_t pack_count;
	struct ldr_upstream upstream;
	struct ldr_flights flights;
	struct ldr_mutex ask_lock; /* what the upstream is told of priorities */
	struct ldr_mutex scratch_lock;
	struct ldr_source_scratch *idle; /* owns, at most 16 */
	unsigned idle_count;
	atomic_uint_fast64_t from_memory;
	atomic_uint_fast64_t from_packs;
	atomic_uint_fast64_t from_disk;
	atomic_uint_fast64_t from_upstream;
	atomic_uint_fast64_t upstream_bytes;
	atomic_uint_fast64_t shared;
};

static inline void ldr_source_count(atomic_uint_fast64_t *counter, uint64_t more)
{
	atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static inline bool ldr_source_has_upstream(const struct ldr_source *source)
{
	return source->upstream.start || source->upstream.fetch;
}

enum ldr_status ldr_source_scratch_take(struct ldr_source *source,
					struct ldr_source_scratch **out_scratch,
					struct ldr_error *err);
void ldr_source_scratch_give(struct ldr_source *source, struct ldr_source_scratch *scratch);

/* Where a block goes, and how much of it is wanted. */
struct ldr_block_until {
	uint32_t until;
	void *plain; /* room for all of it */
};
/* Where the packs have a block. */
struct ldr_source_place {
	size_t pack;
	struct ldr_pack_entry entry;
};
/* In the first pack from the one with this number on; false: in none. */
bool ldr_source_find(const struct ldr_source *source, const struct ldr_id *id, size_t from,
		     struct ldr_source_place *out);
/* The first until bytes of a block, from the first pack at or behind place that is not damaged there; else the
 * first one's error. */
enum ldr_status ldr_source_read_place(struct ldr_source *source, struct ldr_source_place place,
				      const struct ldr_block_ref *block, struct ldr_coder *coder,
				      const struct ldr_block_until *to, struct ldr_error *err);

/* LDR_EINVAL for a length that no block has. */
enum ldr_status ldr_source_check_want(const struct ldr_placed_block *want, struct ldr_error *err);
/* Pins the block in memory; false when it is not there, or there with another length: an id has one
 * length, so the caller's tree is wrong and must not get these bytes. */
bool ldr_source_pin(struct ldr_source *source, const struct ldr_block_ref *block,
		    struct ldr_memory_block *out_pin);
/* From packs or disk into plain, and so into memory. LDR_ENOTFOUND leaves err alone. */
enum ldr_status ldr_source_read_stored(struct ldr_source *source, const struct ldr_block_ref *block,
				       void *plain, struct ldr_error *err);
/* A block that is not in memory: from a pack, the disk, or above. */
enum ldr_status ldr_source_read_below(struct ldr_source *source,
				      const struct ldr_placed_block *want, void *plain,
				      struct ldr_error *err);
/* A block that is not held here. */
enum ldr_status ldr_source_read_above(struct ldr_source *source,
				      const struct ldr_placed_block *want, void *plain,
				      struct ldr_error *err);

/* Asks upwards for flights that have just been made, and sees to it that they end. Takes both arrays, and a
 * reference of its own to each flight. priority: of who is about to wait. */
void ldr_source_ask(struct ldr_source *source, struct ldr_placed_block *wants,
		    struct ldr_flight **flights, size_t count, enum ldr_priority priority);
/* Somebody waits for it now or does not any more. */
void ldr_source_flight_priority_changed(struct ldr_source *source, struct ldr_flight *flight);

/* Takes the watches (flights with a reference each): whoever called comes again when all have ended. LDR_OK:
 * they have. LDR_EAGAIN: the wait's ready comes. Else why it is no use to come again. */
enum ldr_status ldr_source_wait_begin(struct ldr_source *source, struct ldr_wait *wait,
				      struct ldr_flight_watch *watches, size_t count,
				      struct ldr_error *err);
/* Why the last thing that the wait stood for failed, if asking again is of no use; else LDR_OK. */
enum ldr_status ldr_source_wait_verdict(const struct ldr_wait *wait, struct ldr_error *err);

#endif
