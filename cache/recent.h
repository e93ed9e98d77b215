/*
 * Which blocks were asked for lately without being kept: what a full memory cache goes by.
 *
 * A block that would push others out earns its place when it is asked for a second time within a
 * window of bytes. So what is read once costs no block that is read again its place, nor the
 * decoding of what nobody asked for. Of the others one in LDR_RECENT_LOTTERY gets in all the same:
 * where far more is read in turns than the cache holds, no window would see a block twice, and the
 * cache would keep for ever what is not read any more.
 *
 * One line an id, and ids that share one overwrite each other: what is forgotten waits one time more.
 *
 * Threads: one at a time (its shard's lock).
 */
#ifndef LDR_CACHE_RECENT_H
#define LDR_CACHE_RECENT_H

#include <stdbool.h>
#include <stdint.h>

struct ldr_recent_line {
	uint32_t tag;
	uint32_t at; /* pages asked for before, modulo 2^32 */
};

struct ldr_recent {
	struct ldr_recent_line *lines; /* owns */
	uint32_t mask;
	uint32_t window;  /* pages */
	uint32_t now;     /* pages asked for so far */
	uint32_t refused; /* since the last one that was let in by lot */
};

/* For a cache of so many pages; what it needs is at most LDR_RECENT_PAGE_BYTES a page. False: out of
 * memory. */
#define LDR_RECENT_PAGE_BYTES 2u
bool ldr_recent_init(struct ldr_recent *recent, uint32_t pages);
void ldr_recent_dispose(struct ldr_recent *recent);
/* Whether the block with this hash may push others out, which is then forgotten; else it is
 * remembered. pages: how long it is. */
#define LDR_RECENT_LOTTERY 16u
bool ldr_recent_admits(struct ldr_recent *recent, uint64_t hash, uint32_t pages);

#endif
