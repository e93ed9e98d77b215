/*
 * Joining wanted blocks into ranges; see range_plan.h.
 */
#include "client/range_plan.h"

#include <stdlib.h>

static uint64_t last_of(const struct ldr_placed_block *want)
{
	return want->place.offset + want->place.stored_bytes - 1;
}

static int compare(const void *left, const void *right, void *context)
{
	const struct ldr_placed_block *wants = context;
	const struct ldr_place *a = &wants[*(const uint32_t *)left].place;
	const struct ldr_place *b = &wants[*(const uint32_t *)right].place;

	if (a->pack != b->pack)
		return a->pack < b->pack ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	if (a->stored_bytes != b->stored_bytes)
		return a->stored_bytes < b->stored_bytes ? -1 : 1;
	return 0;
}

static enum ldr_status check(const struct ldr_placed_block *wants, size_t count,
			     struct ldr_error *err)
{
	if (count > UINT32_MAX)
		return ldr_fail(err, LDR_ELIMIT, "%zu blocks wanted at once, limit %u", count,
				UINT32_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct ldr_place *place = &wants[i].place;

		if (place->stored_bytes == 0 || place->stored_bytes > LDR_STORED_MAX_BYTES ||
		    place->offset > UINT64_MAX - place->stored_bytes)
			return ldr_fail(
				err, LDR_ECORRUPT,
				"block at %llu of pack number %u: stored length %u, limit %u",
				(unsigned long long)place->offset, place->pack, place->stored_bytes,
				LDR_STORED_MAX_BYTES);
	}
	return LDR_OK;
}

/* Does the want still go into this range? */
static bool joins(const struct ldr_planned_range *range, const struct ldr_placed_block *want,
		  uint32_t range_bytes, uint32_t gap_bytes)
{
	uint64_t last = last_of(want) > range->last ? last_of(want) : range->last;

	if (want->place.pack != range->pack || last - range->first >= range_bytes)
		return false;
	return want->place.offset <= range->last ||
	       want->place.offset - range->last - 1 <= gap_bytes;
}

/* Fills ranges, or only counts them when ranges is NULL. */
static size_t join(const struct ldr_placed_block *wants, const uint32_t *order, size_t count,
		   const uint32_t limits[2], struct ldr_planned_range *ranges)
{
	struct ldr_planned_range current = {0};
	size_t range_count = 0;

	for (size_t i = 0; i < count; i++) {
		const struct ldr_placed_block *want = &wants[order[i]];

		if (range_count && joins(&current, want, limits[0], limits[1])) {
			current.want_count++;
			if (last_of(want) > current.last)
				current.last = last_of(want);
		} else {
			current = (struct ldr_planned_range){.first = want->place.offset,
							     .last = last_of(want),
							     .pack = want->place.pack,
							     .want_first = (uint32_t)i,
							     .want_count = 1};
			range_count++;
		}
		if (ranges)
			ranges[range_count - 1] = current;
	}
	return range_count;
}

enum ldr_status ldr_range_plan_make(const struct ldr_placed_block *wants, size_t count,
				    uint32_t range_bytes, uint32_t gap_bytes,
				    struct ldr_range_plan *out_plan, struct ldr_error *err)
{
	uint32_t limits[2] = {range_bytes, gap_bytes};
	struct ldr_range_plan plan = {0};
	enum ldr_status status = check(wants, count, err);

	if (status)
		return status;
	if (limits[0] < LDR_STORED_MAX_BYTES)
		limits[0] = LDR_STORED_MAX_BYTES;
	plan.order = malloc(count ? count * sizeof(*plan.order) : 1);
	if (!plan.order)
		return ldr_fail(err, LDR_ENOMEM, "plan of %zu blocks: out of memory", count);
	for (size_t i = 0; i < count; i++)
		plan.order[i] = (uint32_t)i;
	qsort_r(plan.order, count, sizeof(*plan.order), compare, (void *)(uintptr_t)wants);
	plan.range_count = join(wants, plan.order, count, limits, NULL);
	plan.ranges = calloc(plan.range_count ? plan.range_count : 1, sizeof(*plan.ranges));
	if (!plan.ranges) {
		ldr_range_plan_dispose(&plan);
		return ldr_fail(err, LDR_ENOMEM, "plan of %zu blocks: out of memory", count);
	}
	join(wants, plan.order, count, limits, plan.ranges);
	*out_plan = plan;
	return LDR_OK;
}

void ldr_range_plan_dispose(struct ldr_range_plan *plan)
{
	free(plan->order);
	free(plan->ranges);
	*plan = (struct ldr_range_plan){0};
}

void ldr_range_extent(const struct ldr_placed_block *wants, const uint32_t *order, size_t count,
		      uint64_t *out_first, uint64_t *out_last)
{
	*out_first = wants[order[0]].place.offset;
	*out_last = last_of(&wants[order[0]]);
	for (size_t i = 1; i < count; i++)
		if (last_of(&wants[order[i]]) > *out_last)
			*out_last = last_of(&wants[order[i]]);
}
