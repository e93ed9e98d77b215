/*
 * trace.c   the parser of streaming traces.
 */
#include "bench/stream_bench/trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stream_bench/lines.h"

#define HEADER "fs-r2 1 "

enum field { RELEASE, FILE_INDEX, OFFSET, LENGTH, PRIORITY, CANCEL, FIELDS };

static const char *const field_names[FIELDS] = {
	[RELEASE] = "release", [FILE_INDEX] = "file",   [OFFSET] = "offset",
	[LENGTH] = "length",   [PRIORITY] = "priority", [CANCEL] = "cancel",
};

struct parser {
	struct stream_lines lines;
	const uint64_t *sizes;
	size_t file_count;
};

static enum ldr_status parse_fields(struct parser *parser, uint64_t field[FIELDS],
				    struct ldr_error *err)
{
	struct stream_line line = {0};
	enum ldr_status status = stream_line_next(&parser->lines, &line, err);

	for (int i = 0; status == LDR_OK && i < FIELDS; i++)
		status = stream_field_number(&line, ' ', field_names[i], &field[i], err);
	if (status == LDR_OK && (line.at != line.end || line.at[-1] == ' '))
		return ldr_fail(err, LDR_EINVAL, "line %zu: more than %d fields", line.number,
				(int)FIELDS);
	return status;
}

static enum ldr_status check_range(const struct parser *parser, const uint64_t field[FIELDS],
				   struct ldr_error *err)
{
	size_t line = parser->lines.number;
	uint64_t size;

	if (field[FILE_INDEX] >= parser->file_count)
		return ldr_fail(err, LDR_EINVAL, "line %zu: file %llu of %zu", line,
				(unsigned long long)field[FILE_INDEX], parser->file_count);
	size = parser->sizes[field[FILE_INDEX]];
	if (field[LENGTH] == 0 || field[LENGTH] > STREAM_LENGTH_MAX)
		return ldr_fail(err, LDR_EINVAL, "line %zu: length %llu, 1 to %u may be", line,
				(unsigned long long)field[LENGTH], STREAM_LENGTH_MAX);
	if (field[OFFSET] > size || field[LENGTH] > size - field[OFFSET])
		return ldr_fail(
			err, LDR_EINVAL,
			"line %zu: offset %llu, length %llu pass the %llu bytes of file %llu", line,
			(unsigned long long)field[OFFSET], (unsigned long long)field[LENGTH],
			(unsigned long long)size, (unsigned long long)field[FILE_INDEX]);
	return LDR_OK;
}

static enum ldr_status parse_row(struct parser *parser, uint64_t release_before,
				 struct stream_request *out, struct ldr_error *err)
{
	uint64_t field[FIELDS] = {0};
	enum ldr_status status = parse_fields(parser, field, err);

	if (status == LDR_OK)
		status = check_range(parser, field, err);
	if (status)
		return status;
	if (field[RELEASE] < release_before)
		return ldr_fail(err, LDR_EINVAL, "line %zu: release %llu behind one of %llu",
				parser->lines.number, (unsigned long long)field[RELEASE],
				(unsigned long long)release_before);
	if (field[PRIORITY] >= STREAM_PRIORITIES)
		return ldr_fail(err, LDR_EINVAL, "line %zu: priority %llu, 0 to %u may be",
				parser->lines.number, (unsigned long long)field[PRIORITY],
				STREAM_PRIORITIES - 1);
	if (field[CANCEL] > 1)
		return ldr_fail(err, LDR_EINVAL, "line %zu: cancel %llu, 0 or 1 may be",
				parser->lines.number, (unsigned long long)field[CANCEL]);
	*out = (struct stream_request){
		.release_ns = field[RELEASE],
		.offset = field[OFFSET],
		.file = (uint32_t)field[FILE_INDEX],
		.length = (uint32_t)field[LENGTH],
		.priority = (uint8_t)field[PRIORITY],
		.cancel = field[CANCEL] == 1,
	};
	return LDR_OK;
}

static enum ldr_status parse_rows(struct parser *parser, struct stream_request *request,
				  size_t count, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	uint64_t release = 0;

	for (size_t i = 0; status == LDR_OK && i < count; i++) {
		status = parse_row(parser, release, &request[i], err);
		if (status == LDR_ENOTFOUND)
			return ldr_fail(err, LDR_EINVAL, "%zu rows, the header says %zu", i, count);
		release = request[i].release_ns;
	}
	if (status == LDR_OK && parser->lines.next != parser->lines.end)
		return ldr_fail(err, LDR_EINVAL, "line %zu: more than the %zu rows of the header",
				parser->lines.number + 1, count);
	return status;
}

enum ldr_status stream_trace_parse(const char *text, size_t length, const uint64_t *sizes,
				   size_t file_count, struct stream_trace *out,
				   struct ldr_error *err)
{
	struct parser parser = {{text, text + length, 0}, sizes, file_count};
	struct stream_request *request;
	size_t count = 0;
	enum ldr_status status = stream_header_count(&parser.lines, HEADER, "requests",
						     STREAM_REQUESTS_MAX, &count, err);

	if (status)
		return status;
	assert(count > 0);
	request = calloc(count, sizeof(*request));
	if (!request)
		return ldr_fail(err, LDR_ENOMEM, "%zu requests", count);
	status = parse_rows(&parser, request, count, err);
	if (status) {
		free(request);
		return status;
	}
	*out = (struct stream_trace){request, count};
	return LDR_OK;
}

void stream_trace_dispose(struct stream_trace *trace)
{
	free(trace->request);
	*trace = (struct stream_trace){0};
}
