/*
 * Ranges and conditions: each row is one header, what it means for a body, and why.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "server/range.h"

static const struct {
	const char *value;
	uint64_t size;
	enum ldr_range_kind kind;
	uint64_t first;
	uint64_t last;
} ranges[] = {
	{"bytes=0-0", 10, LDR_RANGE_ONE, 0, 0},
	{"bytes=0-9", 10, LDR_RANGE_ONE, 0, 9},
	{"bytes=0-10", 10, LDR_RANGE_ONE, 0, 9}, /* past the end is cut */
	{"bytes=9-9", 10, LDR_RANGE_ONE, 9, 9},
	{"bytes=3-", 10, LDR_RANGE_ONE, 3, 9},
	{"bytes=0-", 10, LDR_RANGE_ONE, 0, 9},
	{"bytes=-1", 10, LDR_RANGE_ONE, 9, 9},
	{"bytes=-10", 10, LDR_RANGE_ONE, 0, 9},
	{"bytes=-11", 10, LDR_RANGE_ONE, 0, 9}, /* more than there is: all */
	{"BYTES=1-2", 10, LDR_RANGE_ONE, 1, 2},
	{"bytes= 1-2 ", 10, LDR_RANGE_ONE, 1, 2},
	{"bytes=007-8", 10, LDR_RANGE_ONE, 7, 8},
	{"bytes=2-99999999999999999999999999", 10, LDR_RANGE_ONE, 2, 9},
	{"bytes=0-18446744073709551615", 10, LDR_RANGE_ONE, 0, 9},
	{"bytes=0-0", 1, LDR_RANGE_ONE, 0, 0},
	{"bytes=5-7", UINT64_MAX, LDR_RANGE_ONE, 5, 7},
	{"bytes=-18446744073709551615", 10, LDR_RANGE_ONE, 0, 9},
	/* nothing of it is there */
	{"bytes=10-", 10, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=10-10", 10, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=99999999999999999999999999-", 10, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=-0", 10, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=0-0", 0, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=0-", 0, LDR_RANGE_BEYOND, 0, 0},
	{"bytes=-1", 0, LDR_RANGE_BEYOND, 0, 0},
	/* as if there were no header */
	{"", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=-", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=--1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=a-b", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=2-1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=0-1,3-4", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=0-1,", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=,0-1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=0-1;q=1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=+0-1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=0x0-0x1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes =0-1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes:0-1", 10, LDR_RANGE_NONE, 0, 0},
	{"items=0-1", 10, LDR_RANGE_NONE, 0, 0},
	{"bytes=0 -1", 10, LDR_RANGE_NONE, 0, 0},
};

Test(range, each_header_means_what_rfc_9110_says)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct ldr_range got = ldr_range_parse(ranges[i].value, strlen(ranges[i].value),
						       ranges[i].size);

		cr_expect_eq(got.kind, ranges[i].kind, "%s of %llu: kind %d", ranges[i].value,
			     (unsigned long long)ranges[i].size, got.kind);
		cr_expect_eq(got.first, ranges[i].first, "%s: first %llu", ranges[i].value,
			     (unsigned long long)got.first);
		cr_expect_eq(got.last, ranges[i].last, "%s: last %llu", ranges[i].value,
			     (unsigned long long)got.last);
	}
}

Test(range, a_text_is_read_by_its_length)
{
	struct ldr_range got = ldr_range_parse("bytes=1-23", 9, 100);

	cr_assert_eq(got.kind, LDR_RANGE_ONE);
	cr_assert_eq(got.last, 2);
	cr_assert_eq(ldr_range_parse("bytes=1-2", 7, 100).kind, LDR_RANGE_NONE);
}

static const struct {
	const char *list;
	bool weak;
	bool listed;
} tags[] = {
	{"\"a\"", false, true},
	{"  \"a\" ", false, true},
	{"\"b\", \"a\"", false, true},
	{"\"b\",\"a\",", false, true},
	{",, \"a\"", false, true},
	{"\"b,\" ,\"a\"", false, true},
	{"*", false, true},
	{" * ", false, true},
	{"W/\"a\"", true, true},
	{"W/\"b\", W/\"a\"", true, true},
	{"W/\"a\"", false, false},
	{"\"b\"", true, false},
	{"\"A\"", true, false},
	{"\"aa\"", true, false},
	{"\"\"", true, false},
	{"a", true, false},
	{"\"a", true, false},
	{"w/\"a\"", true, false},
	{"", true, false},
	{"*, \"b\"", true, false},
	{"\"b\" \"a\"", true, true}, /* a missing comma harms nobody */
	{"b, \"a\"", true, false},   /* after a fault nothing counts */
};

Test(range, entity_tags_are_found_in_lists)
{
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		cr_expect_eq(
			ldr_etag_listed(tags[i].list, strlen(tags[i].list), "\"a\"", tags[i].weak),
			tags[i].listed, "%s, weak %d", tags[i].list, tags[i].weak);
}

static const struct {
	struct ldr_conditions conditions;
	unsigned status;
} judged[] = {
	{{NULL, NULL, NULL, NULL, true}, 200},
	{{NULL, NULL, NULL, "bytes=0-1", true}, 206},
	{{NULL, NULL, NULL, "bytes=0-1", false}, 200},
	{{NULL, NULL, NULL, "bytes=0-1,4-5", true}, 200},
	{{NULL, NULL, NULL, "bytes=100-", true}, 416},
	{{NULL, NULL, NULL, "bytes=100-", false}, 200},
	{{"\"e\"", NULL, NULL, NULL, true}, 200},
	{{"\"f\"", NULL, NULL, NULL, true}, 412},
	{{"W/\"e\"", NULL, NULL, NULL, true}, 412},
	{{"*", NULL, NULL, NULL, true}, 200},
	{{"\"f\"", "\"e\"", NULL, NULL, true}, 412},
	{{NULL, "\"e\"", NULL, NULL, true}, 304},
	{{NULL, "W/\"e\"", NULL, NULL, true}, 304},
	{{NULL, "*", NULL, NULL, false}, 304},
	{{NULL, "\"f\"", NULL, NULL, true}, 200},
	{{NULL, "\"e\"", NULL, "bytes=0-1", true}, 304},
	{{NULL, "\"f\"", NULL, "bytes=0-1", true}, 206},
	{{"\"e\"", "\"f\"", "\"e\"", "bytes=0-1", true}, 206},
	{{NULL, NULL, "\"e\"", "bytes=0-1", true}, 206},
	{{NULL, NULL, "\"f\"", "bytes=0-1", true}, 200},
	{{NULL, NULL, "\"f\"", "bytes=100-", true}, 200},
	{{NULL, NULL, "\"e\"", "bytes=100-", true}, 416},
	{{NULL, NULL, "W/\"e\"", "bytes=0-1", true}, 200},
	{{NULL, NULL, "Sat, 29 Oct 1994 19:43:31 GMT", "bytes=0-1", true}, 200},
	{{NULL, NULL, "\"e\"", NULL, true}, 200},
};

Test(range, conditions_are_judged_in_their_order)
{
	for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
		struct ldr_range range;
		unsigned status = ldr_conditions_judge(&judged[i].conditions, "\"e\"", 100, &range);

		cr_expect_eq(status, judged[i].status, "row %zu: %u", i, status);
		cr_expect_eq(range.kind == LDR_RANGE_ONE, status == 206, "row %zu", i);
	}
}
