/*
 * What a GET's conditions and its Range ask for, as RFC 9110 §13 and §14 say. Pure text and numbers:
 * nothing here knows sockets, files or the library that speaks HTTP.
 *
 * Invariants
 *  1. Only single byte ranges are served. Several ranges, another unit or a malformed header are as if
 *     there were none: the whole body is right in every such case.
 *  2. Range is looked at last: If-Match, then If-None-Match, then If-Range, then Range.
 *  3. No Last-Modified is ever sent, so a condition on a date is never met and never harms.
 *
 * Threads: no state.
 */
#ifndef LDR_SERVER_RANGE_H
#define LDR_SERVER_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ldr_range_kind {
	LDR_RANGE_NONE,   /* no range, or one that is ignored: the whole body */
	LDR_RANGE_ONE,    /* first to last, both inside the body */
	LDR_RANGE_BEYOND, /* well formed, but nothing of it is inside: 416 */
};

struct ldr_range {
	enum ldr_range_kind kind;
	uint64_t first;
	uint64_t last; /* inclusive, as in HTTP */
};

/* The value of one Range header over a body of size bytes. */
struct ldr_range ldr_range_parse(const char *value, size_t length, uint64_t size);

/* Is etag (with its quotes) in the list, or the list "*"? Weak tags ("W/...") count only with weak set.
 * A malformed list ends at its first fault. */
bool ldr_etag_listed(const char *list, size_t length, const char *etag, bool weak);

/* The headers of one request, NULL where it has none. */
struct ldr_conditions {
	const char *if_match;
	const char *if_none_match;
	const char *if_range;
	const char *range;
	bool get; /* a Range means something for GET only */
};

/* The status of the answer about a thing that is there: 200, 206, 304, 412 or 416. The range is the
 * body's part with 206, and kind LDR_RANGE_NONE otherwise. */
unsigned ldr_conditions_judge(const struct ldr_conditions *conditions, const char *etag,
			      uint64_t size, struct ldr_range *out_range);

#endif
