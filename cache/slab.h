/*
 * Buffers for decoded blocks, cut out of one arena on huge pages.
 *
 * The arena is a row of 4 KiB pages; a buffer is a run of neighbouring pages, so that a block wastes
 * less than one page whatever its length (buffers of doubling sizes would waste a quarter, since the
 * chunker's lengths lie anywhere between 16 and 256 KiB). Free runs hang in bins by size, 4 KiB to
 * 256 KiB and over, and grow together with their free neighbours at once. A caller that needs room
 * releases buffers in the order of their addresses (ldr_slab_next), so that free runs join.
 *
 * Invariants
 *  1. Every page belongs to exactly one run, used or free; two free runs are never neighbours.
 *  2. Nothing is allocated from the system after ldr_slab_new.
 *  3. The arena takes real memory only as buffers are filled.
 *
 * Threads: one at a time per slab (its shard's lock); the bytes of a buffer belong to whoever the
 * caller gave them to.
 */
#ifndef LDR_CACHE_SLAB_H
#define LDR_CACHE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LDR_SLAB_PAGE_BYTES 4096u
#define LDR_SLAB_PAGES_MAX (UINT32_C(1) << 30)
#define LDR_SLAB_NONE UINT32_MAX
/* What the slab itself needs for each page, beside the page. */
#define LDR_SLAB_OVERHEAD_BYTES 16u

struct ldr_slab;

/* pages: 1 to LDR_SLAB_PAGES_MAX. LDR_EINVAL, LDR_ENOMEM. */
enum ldr_status ldr_slab_new(uint32_t pages, struct ldr_slab **out_slab, struct ldr_error *err);
void ldr_slab_free(struct ldr_slab *slab); /* NULL is allowed */

/* The first page of a run that holds length bytes (at least 1), or LDR_SLAB_NONE. */
uint32_t ldr_slab_take(struct ldr_slab *slab, size_t length);
/* Gives back the run that begins at page; gives the beginning of the free run that it is now part of,
 * which swallows the beginnings of the runs in it. */
uint32_t ldr_slab_release(struct ldr_slab *slab, uint32_t page);

/* The bytes of the run that begins at page. */
uint8_t *ldr_slab_at(const struct ldr_slab *slab, uint32_t page);
/* How many pages the run has that begins at page. */
uint32_t ldr_slab_run_pages(const struct ldr_slab *slab, uint32_t page);
/* The next used run at or behind page in the order of addresses, LDR_SLAB_NONE behind the last one.
 * page must be the beginning of a run or the end of the arena. */
uint32_t ldr_slab_next(const struct ldr_slab *slab, uint32_t page);
uint32_t ldr_slab_used_pages(const struct ldr_slab *slab);
uint32_t ldr_slab_pages(const struct ldr_slab *slab);

#endif
