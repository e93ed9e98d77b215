/*
 * Which ranges of which packs to ask for, given the places of wanted blocks. Pure: no network, no clock.
 *
 * Invariants of a plan
 *  1. Ranges are sorted by (pack, first); each covers its wants wholly and begins and ends with one.
 *  2. A range is at most range_bytes long (which is raised to the longest stored block), and no gap
 *     between its wants is longer than gap_bytes.
 *  3. order holds every want's index exactly once; a range's wants are a run of it, by rising offset.
 *     Wants of the same place stand side by side in one range (so they are fetched once), unless
 *     overlapping wants would make it too long.
 *
 * Threads: no state.
 */
#ifndef LDR_CLIENT_RANGE_PLAN_H
#define LDR_CLIENT_RANGE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "packs/map.h"

struct ldr_planned_range {
	uint64_t first;
	uint64_t last; /* inclusive */
	uint32_t pack;
	uint32_t want_first; /* in order */
	uint32_t want_count;
};

struct ldr_range_plan {
	uint32_t *order; /* owns both */
	struct ldr_planned_range *ranges;
	size_t range_count;
};

/* LDR_ECORRUPT: a stored length of 0 or over its limit, or an extent past the end of 64 bits; LDR_ELIMIT:
 * more than 2^32 - 1 wants; LDR_ENOMEM. */
enum ldr_status ldr_range_plan_make(const struct ldr_placed_block *wants, size_t count,
				    uint32_t range_bytes, uint32_t gap_bytes,
				    struct ldr_range_plan *out_plan, struct ldr_error *err);
void ldr_range_plan_dispose(struct ldr_range_plan *plan);

/* First and last byte of the wants order[0..count), which are not empty. */
void ldr_range_extent(const struct ldr_placed_block *wants, const uint32_t *order, size_t count,
		      uint64_t *out_first, uint64_t *out_last);

#endif
