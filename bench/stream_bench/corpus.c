/*
 * corpus.c   the list of a corpus's files, and their bytes as another program made them.
 */
#include "bench/stream_bench/corpus.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/stream_bench/lines.h"
#include "bench/support.h"
#include "common/os.h"
#include "common/path.h"

#define HEADER "fs-r2-files 1 "
#define TOTAL_MAX ((uint64_t)1 << 48)
#define TEXT_MAX ((uint64_t)128 * 1024 * 1024)

/* The newline behind the path becomes its end. */
static enum ldr_status parse_row(struct stream_lines *lines, uint64_t *out_size, char **out_path,
				 struct ldr_error *err)
{
	struct stream_line line = {0};
	enum ldr_status status = stream_line_next(lines, &line, err);

	if (status == LDR_OK)
		status = stream_field_number(&line, '\t', "size", out_size, err);
	if (status)
		return status;
	status = ldr_path_check(line.at, (size_t)(line.end - line.at), err);
	if (status)
		return ldr_error_prefix(err, status, "line %zu", line.number);
	*out_path = (char *)(uintptr_t)line.at;
	(*out_path)[line.end - line.at] = '\0';
	return LDR_OK;
}

static enum ldr_status parse_rows(struct stream_lines *lines, struct stream_corpus *corpus,
				  size_t count, struct ldr_error *err)
{
	uint64_t total = 0;

	for (corpus->count = 0; corpus->count < count; corpus->count++) {
		uint64_t size = 0;
		char *path = NULL;
		enum ldr_status status = parse_row(lines, &size, &path, err);

		if (status == LDR_ENOTFOUND)
			return ldr_fail(err, LDR_EINVAL, "%zu rows, the header says %zu",
					corpus->count, count);
		if (status)
			return status;
		if (size > TOTAL_MAX - total)
			return ldr_fail(err, LDR_EINVAL,
					"line %zu: %llu bytes more pass the limit of %llu",
					lines->number, (unsigned long long)size,
					(unsigned long long)TOTAL_MAX);
		total += size;
		corpus->size[corpus->count] = size;
		corpus->path[corpus->count] = path;
	}
	if (lines->next != lines->end)
		return ldr_fail(err, LDR_EINVAL, "line %zu: more than the %zu rows of the header",
				lines->number + 1, count);
	return LDR_OK;
}

static bool make_tables(struct stream_corpus *corpus, size_t count)
{
	assert(count > 0);
	corpus->size = calloc(count, sizeof(*corpus->size));
	corpus->path = calloc(count, sizeof(*corpus->path));
	corpus->expected = calloc(count, sizeof(*corpus->expected));
	return corpus->size && corpus->path && corpus->expected;
}

enum ldr_status stream_corpus_parse(const char *text, size_t length, struct stream_corpus *out,
				    struct ldr_error *err)
{
	struct stream_corpus corpus = {.text = malloc(length + 1)};
	struct stream_lines lines = {corpus.text, corpus.text + length, 0};
	enum ldr_status status;
	size_t count = 0;
	bool made;

	if (!corpus.text)
		return ldr_fail(err, LDR_ENOMEM, "a list of %zu bytes", length);
	if (length)
		memcpy(corpus.text, text, length);
	status = stream_header_count(&lines, HEADER, "files", STREAM_FILES_MAX, &count, err);
	made = status == LDR_OK && make_tables(&corpus, count);
	if (made)
		status = parse_rows(&lines, &corpus, count, err);
	else if (status == LDR_OK)
		status = ldr_fail(err, LDR_ENOMEM, "%zu files", count);
	if (status)
		stream_corpus_dispose(&corpus);
	else
		*out = corpus;
	return status;
}

enum ldr_status stream_read_text(const char *path, char **out_text, size_t *out_length,
				 struct ldr_error *err)
{
	struct stat held = {0};
	char *text = NULL;
	int fd, code = ldr_os_open_file(path, &fd);

	if (code)
		return ldr_fail_errno(err, code, "%s", path);
	code = ldr_os_stat(fd, &held);
	if (!code && (uint64_t)held.st_size > TEXT_MAX) {
		ldr_os_close(fd);
		return ldr_fail(err, LDR_ELIMIT, "%s: %llu bytes, limit %llu", path,
				(unsigned long long)held.st_size, (unsigned long long)TEXT_MAX);
	}
	text = code ? NULL : malloc((size_t)held.st_size + 1);
	if (text)
		code = ldr_os_read(fd, text, (size_t)held.st_size, out_length);
	ldr_os_close(fd);
	if (!text || code) {
		free(text);
		return ldr_fail_errno(err, code ? code : ENOMEM, "%s", path);
	}
	*out_text = text;
	return LDR_OK;
}

static enum ldr_status map_expected(struct stream_corpus *corpus, const char *path,
				    struct ldr_error *err)
{
	struct stat held = {0};
	uint64_t total = 0;
	const void *bytes = NULL;
	int fd, code = ldr_os_open_file(path, &fd);

	for (size_t i = 0; i < corpus->count; i++)
		total += corpus->size[i];
	if (code)
		return ldr_fail_errno(err, code, "%s", path);
	code = ldr_os_stat(fd, &held);
	if (!code && (uint64_t)held.st_size != total) {
		ldr_os_close(fd);
		return ldr_fail(err, LDR_ECORRUPT, "%s: %llu bytes, the files have %llu", path,
				(unsigned long long)held.st_size, (unsigned long long)total);
	}
	if (!code && total)
		code = ldr_os_map(fd, (size_t)total, &bytes);
	ldr_os_close(fd);
	if (code)
		return ldr_fail_errno(err, code, "%s", path);
	corpus->mapping = bytes;
	corpus->mapping_bytes = (size_t)total;
	return LDR_OK;
}

/* Comparing must not wait for the disk within a run. */
static void place_expected(struct stream_corpus *corpus)
{
	const uint8_t *at = corpus->mapping;

	if (at)
		(void)madvise((void *)(uintptr_t)at, corpus->mapping_bytes, MADV_POPULATE_READ);
	for (size_t i = 0; i < corpus->count; i++) {
		corpus->expected[i] = at;
		at = at ? at + corpus->size[i] : NULL;
	}
}

enum ldr_status stream_corpus_load(const char *folder, struct stream_corpus *out,
				   struct ldr_error *err)
{
	struct stream_corpus corpus = {0};
	char *list = bench_join(folder, "files.tsv");
	char *expected = bench_join(folder, "expected.bin");
	char *text = NULL;
	size_t length;
	enum ldr_status status = stream_read_text(list, &text, &length, err);

	if (text) {
		status = stream_corpus_parse(text, length, &corpus, err);
		if (status)
			ldr_error_prefix(err, status, "%s", list);
	}
	free(text);
	if (status == LDR_OK)
		status = map_expected(&corpus, expected, err);
	free(list);
	free(expected);
	if (status) {
		stream_corpus_dispose(&corpus);
		return status;
	}
	place_expected(&corpus);
	corpus.folder = bench_copy(folder);
	*out = corpus;
	return LDR_OK;
}

void stream_corpus_dispose(struct stream_corpus *corpus)
{
	if (corpus->mapping)
		ldr_os_unmap(corpus->mapping, corpus->mapping_bytes);
	free(corpus->folder);
	free(corpus->text);
	free(corpus->path);
	free(corpus->size);
	free(corpus->expected);
	*corpus = (struct stream_corpus){0};
}
