/*
 * Any bytes as a trace of the streaming benchmarks, or (behind a first byte of 'F') as the list of a corpus's files. What is
 * accepted obeys every rule of the formats, and a trace that is written again from what was understood is understood the same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stream_bench/corpus.h"
#include "bench/stream_bench/trace.h"
#include "common/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t sizes[] = {0, 1, 4096, 2097152, UINT64_MAX};
#define FILES (sizeof(sizes) / sizeof(sizes[0]))

static char *written(const struct stream_trace *trace, size_t *out_length)
{
	size_t room = 64 + trace->count * 96, used;
	char *text = malloc(room);

	if (!text)
		abort();
	used = (size_t)snprintf(text, room, "fs-r2 1 %zu\n", trace->count);
	for (size_t i = 0; i < trace->count; i++) {
		const struct stream_request *one = &trace->request[i];

		used += (size_t)snprintf(text + used, room - used, "%llu %u %llu %u %u %d\n",
					 (unsigned long long)one->release_ns, one->file,
					 (unsigned long long)one->offset, one->length,
					 one->priority, one->cancel);
	}
	*out_length = used;
	return text;
}

static void check_request(const struct stream_request *one, uint64_t before)
{
	assert(one->release_ns >= before);
	assert(one->file < FILES && one->priority < STREAM_PRIORITIES);
	assert(one->length > 0 && one->length <= STREAM_LENGTH_MAX);
	assert(one->offset <= sizes[one->file] && one->length <= sizes[one->file] - one->offset);
}

static void try_trace(const char *text, size_t length)
{
	struct stream_trace trace, again;
	size_t again_length;
	char *again_text;
	uint64_t before = 0;

	if (stream_trace_parse(text, length, sizes, FILES, &trace, NULL))
		return;
	assert(trace.count > 0 && trace.count <= STREAM_REQUESTS_MAX);
	for (size_t i = 0; i < trace.count; i++) {
		check_request(&trace.request[i], before);
		before = trace.request[i].release_ns;
	}
	again_text = written(&trace, &again_length);
	assert(!stream_trace_parse(again_text, again_length, sizes, FILES, &again, NULL));
	assert(again.count == trace.count);
	for (size_t i = 0; i < trace.count; i++)
		assert(again.request[i].offset == trace.request[i].offset &&
		       again.request[i].length == trace.request[i].length &&
		       again.request[i].cancel == trace.request[i].cancel);
	free(again_text);
	stream_trace_dispose(&again);
	stream_trace_dispose(&trace);
}

static void try_list(const char *text, size_t length)
{
	struct stream_corpus corpus;

	if (stream_corpus_parse(text, length, &corpus, NULL))
		return;
	assert(corpus.count > 0 && corpus.count <= STREAM_FILES_MAX);
	for (size_t i = 0; i < corpus.count; i++)
		assert(!ldr_path_check(corpus.path[i], strlen(corpus.path[i]), NULL));
	stream_corpus_dispose(&corpus);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	if (size && *text == 'F')
		try_list(text + 1, size - 1);
	else
		try_trace(text, size);
	return 0;
}
