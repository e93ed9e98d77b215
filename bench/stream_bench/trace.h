/*
 * Streaming traces: which bytes of which file a program wanted at which moment.
 *
 *	fs-r2 1 COUNT
 *	RELEASE-NS FILE OFFSET LENGTH PRIORITY CANCEL		COUNT such rows
 *
 * Decimal numbers with one space between them and a newline behind each row. FILE counts the files of the corpus
 * (corpus.h) from 0; PRIORITY is 0 critical, 1 high, 2 normal, 3 background; CANCEL is 1 where the program changed
 * its mind at once.
 *
 * Refused: another header, a COUNT of 0 or over STREAM_REQUESTS_MAX or other than the rows there are, a row of fewer or
 * more fields, a number that is none or passes 64 bits, a release before the one above it, a file that is not in the
 * corpus, a range that is empty, longer than STREAM_LENGTH_MAX or not inside its file, a priority over 3, a cancel over 1.
 *
 * Threads: immutable once parsed.
 */
#ifndef LDR_BENCH_STREAM_TRACE_H
#define LDR_BENCH_STREAM_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define STREAM_REQUESTS_MAX 4096u
#define STREAM_LENGTH_MAX (1024u * 1024)
#define STREAM_PRIORITIES 4u

struct stream_request {
	uint64_t release_ns; /* since the start of the replay */
	uint64_t offset;
	uint32_t file;
	uint32_t length;
	uint8_t priority;
	bool cancel;
};

struct stream_trace {
	struct stream_request *request; /* owned */
	size_t count;
};

/* sizes: of the corpus's files. LDR_EINVAL with the line's number and both values; LDR_ENOMEM. */
enum ldr_status stream_trace_parse(const char *text, size_t length, const uint64_t *sizes,
				   size_t file_count, struct stream_trace *out,
				   struct ldr_error *err);
void stream_trace_dispose(struct stream_trace *trace);

#endif
