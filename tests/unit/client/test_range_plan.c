/*
 * Joining wants into ranges: a table of small cases, and the invariants over many random ones.
 */
#include "client/range_plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define WANTS_MAX 8
#define RANGES_MAX 4

struct want {
	uint32_t pack;
	uint64_t offset;
	uint32_t bytes;
};

struct row {
	const char *name;
	uint32_t range_bytes;
	uint32_t gap_bytes;
	struct want wants[WANTS_MAX]; /* up to bytes 0 */
	struct {
		uint32_t pack;
		uint64_t first, last;
		uint32_t wants;
	} ranges[RANGES_MAX]; /* up to wants 0 */
};

#define RANGE (1u << 20)
#define STORED_MAX LDR_STORED_MAX_BYTES

static const struct row rows[] = {
	{"nothing", RANGE, 0, {{0}}, {{0}}},
	{"one", RANGE, 0, {{1, 64, 10}}, {{1, 64, 73, 1}}},
	{"adjacent, in reverse", RANGE, 0, {{1, 74, 6}, {1, 64, 10}}, {{1, 64, 79, 2}}},
	{"gap as long as allowed", RANGE, 5, {{1, 64, 10}, {1, 79, 1}}, {{1, 64, 79, 2}}},
	{"gap a byte longer",
	 RANGE,
	 5,
	 {{1, 64, 10}, {1, 80, 1}},
	 {{1, 64, 73, 1}, {1, 80, 80, 1}}},
	{"packs are apart", RANGE, 99, {{2, 64, 10}, {1, 74, 6}}, {{1, 74, 79, 1}, {2, 64, 73, 1}}},
	{"same place twice", RANGE, 0, {{1, 64, 10}, {1, 64, 10}}, {{1, 64, 73, 2}}},
	{"one within another",
	 RANGE,
	 0,
	 {{1, 64, 100}, {1, 70, 5}, {1, 164, 1}},
	 {{1, 64, 164, 3}}},
	{"exactly full", RANGE, RANGE, {{1, 0, 10}, {1, RANGE - 10, 10}}, {{1, 0, RANGE - 1, 2}}},
	{"a byte over",
	 RANGE,
	 RANGE,
	 {{1, 0, 10}, {1, RANGE - 9, 10}},
	 {{1, 0, 9, 1}, {1, RANGE - 9, RANGE, 1}}},
	{"the longest block fits even a range that is too short",
	 1,
	 0,
	 {{1, 0, STORED_MAX}, {1, STORED_MAX, 1}},
	 {{1, 0, STORED_MAX - 1, 1}, {1, STORED_MAX, STORED_MAX, 1}}},
	{"far away",
	 RANGE,
	 0,
	 {{1, 0xffffffffffffull, 9}},
	 {{1, 0xffffffffffffull, 0x1000000000007ull, 1}}},
};

static size_t fill(struct ldr_placed_block *to, const struct want *from, size_t max)
{
	size_t count = 0;

	for (; count < max && from[count].bytes; count++)
		to[count].place = (struct ldr_place){.pack = from[count].pack,
						     .offset = from[count].offset,
						     .stored_bytes = from[count].bytes};
	return count;
}

Test(range_plan, table)
{
	for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
		const struct row *row = &rows[r];
		struct ldr_placed_block wants[WANTS_MAX] = {0};
		size_t count = fill(wants, row->wants, WANTS_MAX);
		struct ldr_range_plan plan;
		size_t expected = 0;

		cr_assert_eq(ldr_range_plan_make(wants, count, row->range_bytes, row->gap_bytes,
						 &plan, NULL),
			     LDR_OK, "%s", row->name);
		while (expected < RANGES_MAX && row->ranges[expected].wants)
			expected++;
		cr_assert_eq(plan.range_count, expected, "%s: %zu ranges", row->name,
			     plan.range_count);
		for (size_t i = 0; i < expected; i++) {
			cr_assert_eq(plan.ranges[i].pack, row->ranges[i].pack, "%s", row->name);
			cr_assert_eq(plan.ranges[i].first, row->ranges[i].first, "%s", row->name);
			cr_assert_eq(plan.ranges[i].last, row->ranges[i].last, "%s", row->name);
			cr_assert_eq(plan.ranges[i].want_count, row->ranges[i].wants, "%s",
				     row->name);
		}
		ldr_range_plan_dispose(&plan);
	}
}

Test(range_plan, refused)
{
	static const struct {
		struct want want;
		enum ldr_status status;
	} refused[] = {
		{{1, 64, STORED_MAX + 1}, LDR_ECORRUPT},
		{{1, UINT64_MAX - 5, 10}, LDR_ECORRUPT},
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct ldr_placed_block want = {0};
		struct ldr_range_plan plan;
		struct ldr_error err = {0};

		fill(&want, &refused[i].want, 1);
		cr_assert_eq(ldr_range_plan_make(&want, 1, RANGE, 0, &plan, &err),
			     refused[i].status);
		cr_assert_not_null(strstr(err.text, "pack number 1"), "%s", err.text);
	}
	/* A stored length of 0 */
	struct ldr_placed_block none = {.place = {.pack = 1, .offset = 64}};
	struct ldr_range_plan plan;

	cr_assert_eq(ldr_range_plan_make(&none, 1, RANGE, 0, &plan, NULL), LDR_ECORRUPT);
}

static void check_range(const struct ldr_placed_block *wants, const struct ldr_range_plan *plan,
			size_t r, uint32_t gap_bytes)
{
	const struct ldr_planned_range *range = &plan->ranges[r];
	uint64_t reached = range->first;

	cr_assert_gt(range->want_count, 0);
	cr_assert_leq(range->last - range->first + 1, RANGE);
	cr_assert_eq(wants[plan->order[range->want_first]].place.offset, range->first);
	for (uint32_t i = 0; i < range->want_count; i++) {
		const struct ldr_place *place = &wants[plan->order[range->want_first + i]].place;

		cr_assert_eq(place->pack, range->pack);
		cr_assert_leq(place->offset, reached + gap_bytes);
		if (place->offset + place->stored_bytes > reached)
			reached = place->offset + place->stored_bytes;
	}
	cr_assert_eq(reached, range->last + 1);
	if (r) {
		const struct ldr_planned_range *before = range - 1;

		cr_assert(before->pack < range->pack ||
			  (before->pack == range->pack && before->first < range->first));
		cr_assert_eq(before->want_first + before->want_count, range->want_first);
	}
}

Test(range_plan, invariants)
{
	enum { COUNT = 3000 };
	struct ldr_placed_block *wants = calloc(COUNT, sizeof(*wants));
	char *seen = calloc(COUNT, 1);

	srand(11);
	for (int round = 0; round < 30; round++) {
		uint32_t gap_bytes = (uint32_t)(rand() % 70000);
		struct ldr_range_plan plan;
		size_t total = 0;

		for (size_t i = 0; i < COUNT; i++)
			wants[i].place = (struct ldr_place){
				.pack = (uint32_t)(rand() % 3),
				.offset = (uint64_t)rand() % (64u << 20),
				.stored_bytes = 1 + (uint32_t)rand() % 60000};
		cr_assert_eq(ldr_range_plan_make(wants, COUNT, RANGE, gap_bytes, &plan, NULL),
			     LDR_OK);
		memset(seen, 0, COUNT);
		for (size_t i = 0; i < COUNT; i++)
			seen[plan.order[i]]++;
		for (size_t i = 0; i < COUNT; i++)
			cr_assert_eq(seen[i], 1);
		for (size_t r = 0; r < plan.range_count; r++) {
			check_range(wants, &plan, r, gap_bytes);
			total += plan.ranges[r].want_count;
		}
		cr_assert_eq(total, COUNT);
		ldr_range_plan_dispose(&plan);
	}
	free(wants);
	free(seen);
}
