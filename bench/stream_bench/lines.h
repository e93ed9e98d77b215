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

/* The next line without its newline. LDR_ENOTFOUND: there is none; LDR_EINVAL: the last one has no newline. */
enum ldr_status stream_line_next(struct stream_lines *lines, const char **out_line,
				 size_t *out_length, struct ldr_error *err);

/* One field of a line: digits alone, up to `until` or the line's end, at *at; *at moves behind them and behind the
 * separator. LDR_EINVAL: no digit, another character, a number over 2^64 - 1. */
enum ldr_status stream_field_number(const struct stream_lines *lines, const char **at,
				    const char *line_end, char until, const char *what,
				    uint64_t *out, struct ldr_error *err);

#endif
