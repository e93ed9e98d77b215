/*
 * lines.c   lines and numbers, strictly.
 */
#include "bench/stream_bench/lines.h"

#include <string.h>

enum ldr_status stream_line_next(struct stream_lines *lines, struct stream_line *out,
				 struct ldr_error *err)
{
	const char *newline;

	if (lines->next == lines->end)
		return ldr_fail(err, LDR_ENOTFOUND, "no line behind line %zu", lines->number);
	newline = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));
	if (!newline)
		return ldr_fail(err, LDR_EINVAL, "line %zu: no newline behind it",
				lines->number + 1);
	lines->number++;
	*out = (struct stream_line){lines->next, newline, lines->number};
	lines->next = newline + 1;
	return LDR_OK;
}

enum ldr_status stream_field_number(struct stream_line *line, char until, const char *what,
				    uint64_t *out, struct ldr_error *err)
{
	const char *digit = line->at;
	uint64_t value = 0;

	for (; digit < line->end && *digit >= '0' && *digit <= '9'; digit++) {
		unsigned one = (unsigned)(*digit - '0');

		if (value > (UINT64_MAX - one) / 10)
			return ldr_fail(err, LDR_EINVAL, "line %zu: %s passes 64 bits",
					line->number, what);
		value = value * 10 + one;
	}
	if (digit == line->at)
		return ldr_fail(err, LDR_EINVAL, "line %zu: no %s", line->number, what);
	if (digit < line->end && *digit != until)
		return ldr_fail(err, LDR_EINVAL, "line %zu: byte 0x%02x in %s", line->number,
				(unsigned char)*digit, what);
	line->at = digit < line->end ? digit + 1 : digit;
	*out = value;
	return LDR_OK;
}

enum ldr_status stream_header_count(struct stream_lines *lines, const char *header,
				    const char *what, size_t most, size_t *out_count,
				    struct ldr_error *err)
{
	struct stream_line line = {0};
	uint64_t count = 0;
	enum ldr_status status = stream_line_next(lines, &line, err);

	if (status == LDR_ENOTFOUND)
		return ldr_fail(err, LDR_EINVAL, "empty");
	if (status || !line.at)
		return status;
	if ((size_t)(line.end - line.at) < strlen(header) ||
	    memcmp(line.at, header, strlen(header)) != 0)
		return ldr_fail(err, LDR_EINVAL, "line 1: not \"%sCOUNT\"", header);
	line.at += strlen(header);
	status = stream_field_number(&line, '\n', "count", &count, err);
	if (status)
		return status;
	if (count == 0 || count > most)
		return ldr_fail(err, LDR_EINVAL, "line 1: %llu %s, 1 to %zu may be",
				(unsigned long long)count, what, most);
	*out_count = (size_t)count;
	return LDR_OK;
}
