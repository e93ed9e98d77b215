/*
 * What the command line asked for.
 */
#ifndef LDR_BENCH_STREAM_OPTIONS_H
#define LDR_BENCH_STREAM_OPTIONS_H

#include "bench/words.h"

enum stream_mode {
	STREAM_GRID,   /* the passes of the basic grid */
	STREAM_REPLAY, /* --stream: a trace at its own pace */
	STREAM_CHECK,  /* --check: whether a trace is one */
	STREAM_MIXED,  /* --mixed: local reads beside slow remote ones */
};

struct stream_options {
	enum stream_mode mode;
	const char *corpus;
	struct bench_words layouts;
	unsigned workers[BENCH_LIST_MAX];
	size_t worker_count;
	unsigned rounds;
	size_t inherited; /* descriptors beyond the first three that we were started with */
	bool wait;        /* sleep for completions instead of polling */

	const char *trace;
	bool independent; /* a slot opens its files for itself */
	unsigned load_threads;
	bool tracing;
	unsigned trace_records; /* of the ring */
	bool warm;              /* the trace is read and checked once before */
	unsigned poll_us;
	unsigned frame_us; /* 0: no frames */
	unsigned budget_us;
	const char *export_path; /* trace records as a Chrome trace */

	unsigned pairs;
	unsigned seconds;
	unsigned delay_ms;
	unsigned slow_reads;
};

enum stream_parse {
	STREAM_PARSE_OK,
	STREAM_PARSE_HELP,
	STREAM_PARSE_USAGE,
};

enum stream_parse stream_options_parse(int count, char **arguments, struct stream_options *out);
void stream_options_dispose(struct stream_options *options);

#endif
