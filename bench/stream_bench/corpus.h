/*
 * A corpus of the streaming benchmarks, as bench/stream_corpus.py makes it:
 *
 *	files.tsv	"fs-r2-files 1 COUNT", then a row a file: SIZE, tab, PATH
 *	expected.bin	the bytes of all files, one after the other, in that order
 *	loose/		the files
 *	raw.pack lz4.pack	packs of loose/
 *
 * What is read through Larder is compared with expected.bin, which no part of Larder has written or read.
 *
 * Threads: immutable once loaded.
 */
#ifndef LDR_BENCH_STREAM_CORPUS_H
#define LDR_BENCH_STREAM_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define STREAM_FILES_MAX 65536u

struct stream_corpus {
	char *folder; /* owned */
	char *text;   /* owned: the paths lie in it */
	size_t count;
	const char **path; /* owned; below loose/ */
	uint64_t *size;    /* owned */
	const uint8_t **expected;
	const uint8_t *
		mapping; /* expected.bin, all of its pages present; NULL where only the list was parsed */
	size_t mapping_bytes;
};

/* The list alone; text is copied. LDR_EINVAL with the line's number: another header, a count of 0 or over
 * STREAM_FILES_MAX or other than the rows, a path that is empty, too long or no path (common/path.h), sizes that together
 * pass 2^48. */
enum ldr_status stream_corpus_parse(const char *text, size_t length, struct stream_corpus *out,
				    struct ldr_error *err);
/* The folder's list and expected bytes. */
enum ldr_status stream_corpus_load(const char *folder, struct stream_corpus *out,
				   struct ldr_error *err);
void stream_corpus_dispose(struct stream_corpus *corpus);

/* A whole file; the caller frees it. */
enum ldr_status stream_read_text(const char *path, char **out_text, size_t *out_length,
				 struct ldr_error *err);

#endif
