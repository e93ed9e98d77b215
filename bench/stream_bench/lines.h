/*
 * Reading text files of numbers, strictly: a line at a time, a decimal number at a time.
 *
 * Threads: a reader belongs to one thread.
 */
#ifndef LDR_BENCH_STREAM_LINES_H
#define LDR_BENCH_STREAM_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct stream_lines {
	const char *next;
	const char *end;
	size_t number; /* of the line that was read last */
};

/* A line without its newline, read field by field. */
struct stream_line {
	const char *at; /* the next field */
	const char *end;
	size_t number;
};

/* LDR_ENOTFOUND: there is no line any more; LDR_EINVAL: the last one has no newline. */
enum ldr_status stream_line_next(struct stream_lines *lines, struct stream_line *out,
				 struct ldr_error *err);

/* One field of a line: digits alone, up to `until` or the line's end; the line then is at what follows. LDR_EINVAL: no
 * digit, another character, a number over 2^64 - 1. */
enum ldr_status stream_field_number(struct stream_line *line, char until, const char *what,
				    uint64_t *out, struct ldr_error *err);

/* The first line: header, then a count of 1 to most. LDR_EINVAL: another line, another count, nothing at all. */
enum ldr_status stream_header_count(struct stream_lines *lines, const char *header,
				    const char *what, size_t most, size_t *out_count,
				    struct ldr_error *err);

#endif
