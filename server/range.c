/*
 * Conditions and ranges; see range.h.
 */
#include "server/range.h"

#include <string.h>
#include <strings.h>

struct text {
	const char *next;
	const char *end;
};

static void skip_blanks(struct text *text)
{
	while (text->next < text->end && (*text->next == ' ' || *text->next == '\t'))
		text->next++;
}

static bool take_char(struct text *text, char c)
{
	if (text->next == text->end || *text->next != c)
		return false;
	text->next++;
	return true;
}

/* Digits; a number past 64 bits stays at the largest, which is past every body. */
static bool take_number(struct text *text, uint64_t *out)
{
	const char *start = text->next;
	uint64_t value = 0;

	for (; text->next < text->end && *text->next >= '0' && *text->next <= '9'; text->next++) {
		uint64_t digit = (uint64_t)(*text->next - '0');

		if (value > (UINT64_MAX - digit) / 10)
			value = UINT64_MAX;
		else
			value = value * 10 + digit;
	}
	*out = value;
	return text->next > start;
}

/* "-n": the last n bytes. */
static struct ldr_range suffix_range(uint64_t count, uint64_t size)
{
	struct ldr_range range = {LDR_RANGE_BEYOND, 0, 0};

	if (count == 0 || size == 0)
		return range;
	range.kind = LDR_RANGE_ONE;
	range.first = count < size ? size - count : 0;
	range.last = size - 1;
	return range;
}

static struct ldr_range plain_range(uint64_t first, uint64_t last, uint64_t size)
{
	struct ldr_range range = {LDR_RANGE_BEYOND, 0, 0};

	if (first >= size)
		return range;
	range.kind = LDR_RANGE_ONE;
	range.first = first;
	range.last = last < size ? last : size - 1;
	return range;
}

/* What stands behind "bytes=". */
static struct ldr_range parse_spec(struct text *text, uint64_t size)
{
	struct ldr_range none = {LDR_RANGE_NONE, 0, 0};
	uint64_t first = 0;
	uint64_t last = UINT64_MAX;
	bool has_first;
	bool has_last;

	skip_blanks(text);
	has_first = take_number(text, &first);
	if (!take_char(text, '-'))
		return none;
	has_last = take_number(text, &last);
	skip_blanks(text);
	if (text->next != text->end || (!has_first && !has_last))
		return none;
	if (!has_first)
		return suffix_range(last, size);
	if (!has_last)
		last = UINT64_MAX;
	if (last < first)
		return none;
	return plain_range(first, last, size);
}

struct ldr_range ldr_range_parse(const char *value, size_t length, uint64_t size)
{
	static const char unit[] = "bytes=";
	size_t unit_length = sizeof(unit) - 1;
	struct ldr_range none = {LDR_RANGE_NONE, 0, 0};
	struct text text = {value, value + length};

	if (length < unit_length || strncasecmp(value, unit, unit_length) != 0)
		return none;
	text.next += unit_length;
	return parse_spec(&text, size);
}

/* One entity tag with its quotes; false at the list's end or first fault. */
static bool take_tag(struct text *text, bool *out_weak, struct text *out_tag)
{
	const char *close;

	while (text->next < text->end &&
	       (*text->next == ' ' || *text->next == '\t' || *text->next == ','))
		text->next++;
	*out_weak = text->end - text->next >= 2 && memcmp(text->next, "W/", 2) == 0;
	if (*out_weak)
		text->next += 2;
	if (text->next == text->end || *text->next != '"')
		return false;
	close = memchr(text->next + 1, '"', (size_t)(text->end - text->next - 1));
	if (!close)
		return false;
	*out_tag = (struct text){text->next, close + 1};
	text->next = close + 1;
	return true;
}

static bool tag_is(const struct text *tag, const char *etag)
{
	size_t length = (size_t)(tag->end - tag->next);

	return length == strlen(etag) && memcmp(tag->next, etag, length) == 0;
}

bool ldr_etag_listed(const char *list, size_t length, const char *etag, bool weak)
{
	struct text text = {list, list + length};
	struct text tag;
	bool is_weak;

	skip_blanks(&text);
	if (take_char(&text, '*')) {
		skip_blanks(&text);
		return text.next == text.end;
	}
	while (take_tag(&text, &is_weak, &tag))
		if ((weak || !is_weak) && tag_is(&tag, etag))
			return true;
	return false;
}

/* If-Range holds one strong tag; a date never matches (invariant 3). */
static bool range_still_wanted(const char *if_range, const char *etag)
{
	return !if_range || strcmp(if_range, etag) == 0;
}

unsigned ldr_conditions_judge(const struct ldr_conditions *conditions, const char *etag,
			      uint64_t size, struct ldr_range *out_range)
{
	struct ldr_range range = {LDR_RANGE_NONE, 0, 0};

	*out_range = range;
	if (conditions->if_match &&
	    !ldr_etag_listed(conditions->if_match, strlen(conditions->if_match), etag, false))
		return 412;
	if (conditions->if_none_match &&
	    ldr_etag_listed(conditions->if_none_match, strlen(conditions->if_none_match), etag,
			    true))
		return 304;
	if (!conditions->get || !conditions->range ||
	    !range_still_wanted(conditions->if_range, etag))
		return 200;
	range = ldr_range_parse(conditions->range, strlen(conditions->range), size);
	if (range.kind == LDR_RANGE_BEYOND)
		return 416;
	if (range.kind == LDR_RANGE_NONE)
		return 200;
	*out_range = range;
	return 206;
}
