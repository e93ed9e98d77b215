/*
 * stream_bench.c   asynchronous reads: the basic grid, replayed traces, local reads beside slow ones
 * (docs/internals/stream_bench.md).
 *
 * Exit status: 0 done, 1 failed, 2 usage.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench/stream_bench/grid.h"
#include "bench/stream_bench/mixed.h"
#include "bench/stream_bench/replay.h"
#include "bench/support.h"

static bool check_trace(const char *path, const struct stream_corpus *corpus)
{
	struct stream_trace trace = {0};
	struct ldr_error error = {0};
	uint64_t bytes = 0;
	size_t length, cancels = 0;
	char *text = NULL;

	if (stream_read_text(path, &text, &length, &error) ||
	    stream_trace_parse(text, length, corpus->size, corpus->count, &trace, &error)) {
		bench_say("%s: %s", path, error.text);
		free(text);
		return false;
	}
	for (size_t i = 0; i < trace.count; i++) {
		bytes += trace.request[i].length;
		cancels += trace.request[i].cancel;
	}
	printf("%s: %zu requests of %llu bytes, %zu cancelled, over %.3f s\n", path, trace.count,
	       (unsigned long long)bytes, cancels,
	       (double)trace.request[trace.count - 1].release_ns / 1e9);
	stream_trace_dispose(&trace);
	free(text);
	return true;
}

/* Sixteen handles of every file of a folder are sixteen descriptors. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static bool run(const struct stream_options *options, const struct stream_corpus *corpus)
{
	switch (options->mode) {
	case STREAM_GRID:
		bench_print_build();
		return stream_grid(options, corpus);
	case STREAM_REPLAY:
		return stream_replay(options, corpus);
	case STREAM_MIXED:
		bench_print_build();
		return stream_mixed(options, corpus);
	case STREAM_CHECK:
		return check_trace(options->trace, corpus);
	}
	return false;
}

int main(int count, char **arguments)
{
	struct stream_options options;
	struct stream_corpus corpus = {0};
	struct ldr_error error = {0};
	enum stream_parse parsed = stream_options_parse(count, arguments, &options);
	bool good = true;

	if (parsed == STREAM_PARSE_OK) {
		allow_descriptors();
		curl_global_init(CURL_GLOBAL_DEFAULT);
		good = !stream_corpus_load(options.corpus, &corpus, &error);
		if (!good)
			bench_say("%s", error.text);
		good = good && run(&options, &corpus);
		stream_corpus_dispose(&corpus);
	}
	stream_options_dispose(&options);
	return parsed == STREAM_PARSE_USAGE ? 2 : good ? 0 : 1;
}
