/*
 * lines.c   lines and numbers, strictly.
 */
#include "bench/stream_bench/lines.h"

#include <string.h>

enum ldr_status stream_line_next(struct stream_lines *lines, const char **out_line,
				 size_t *out_length, struct ldr_error *err)
{
	const char *newline;

	if (lines->next == lines->end)
		return ldr_fail(err, LDR_ENOTFOUND, "no line behind line %zu", lines->number);
	newline = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));
	if (!newline)
		return ldr_fail(err, LDR_EINVAL, "line %zu: no newline behind it",
				lines->number + 1);
	lines->number++;
	*out_line = lines->next;
	*out_length = (size_t)(newline - lines->next);
	lines->next = newline + 1;
	return LDR_OK;
}

enum ldr_status stream_field_number(const struct stream_lines *lines, const char **at,
				    const char *line_end, char until, const char *what,
				    uint64_t *out, struct ldr_error *err)
{
	const char *digit = *at;
	uint64_t value = 0;

	for (; digit < line_end && *digit >= '0' && *digit <= '9'; digit++) {
		unsigned one = (unsigned)(*digit - '0');

		if (value > (UINT64_MAX - one) / 10)
			return ldr_fail(err, LDR_EINVAL, "line %zu: %s passes 64 bits",
					lines->number, what);
		value = value * 10 + one;
	}
	if (digit == *at)
		return ldr_fail(err, LDR_EINVAL, "line %zu: no %s", lines->number, what);
	if (digit < line_end && *digit != until)
		return ldr_fail(err, LDR_EINVAL, "line %zu: byte 0x%02x in %s", lines->number,
				(unsigned char)*digit, what);
	*at = digit < line_end ? digit + 1 : digit;
	*out = value;
	return LDR_OK;
}
