/*
 * options.c   the command line.
 */
#include "bench/stream_bench/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/support.h"

static const char usage[] =
	"stream_bench CORPUS [OPTION]...   asynchronous reads of Larder, on a corpus of bench/stream_corpus.py\n"
	"\n"
	"The basic grid (default): 2,048 reads of 263 MiB per pass, a line of figures for each\n"
	"  --layouts A,B      of loose raw.pack lz4.pack raw.pack+anew lz4.pack+anew remote-warm remote-cold\n"
	"                     parent-crc (the first three)\n"
	"  --workers LIST     0 reads synchronously (0,1,4)\n"
	"  --rounds N         the whole grid N times, interleaved (1)\n"
	"  --wait             sleeps for completions instead of polling and yielding\n"
	"\n"
	"  --stream           replays a trace at its own pace instead; one line of JSON\n"
	"  --trace FILE       fs-r2 1 (bench/stream_bench/trace.h)\n"
	"  --layouts, --workers   one of each\n"
	"  --open MODE        shared: a handle a file; independent: one for each of the 16 slots (shared)\n"
	"  --load N           threads that keep processors busy meanwhile (0)\n"
	"  --tracing on|off   the scheduler's trace ring (off)\n"
	"  --trace-records N  size of that ring (4096)\n"
	"  --export FILE      the trace records as a Chrome trace; needs --tracing on\n"
	"  --cache MODE       warm: reads and checks the trace once before; uncontrolled: does not;\n"
	"                     cold-start: does not, and the caller has dropped the page cache (warm)\n"
	"  --poll-us N        the host's tick (1000)\n"
	"  --frame-us N       ticks are frames: time in them, frames over the budget, time to ready\n"
	"  --frame-budget-us N   how much of a frame reads may take (1000)\n"
	"\n"
	"  --mixed            p99 of local warm reads without and with slow remote reads in flight\n"
	"  --pairs N          pairs of both, in turn (5)\n"
	"  --seconds N        how long each lasts (2)\n"
	"  --slow-reads N     how many are in flight (100)\n"
	"  --delay-ms N       how slow they are (1000)\n"
	"\n"
	"  --check FILE       whether a trace is one for this corpus, and nothing else\n"
	"  --version\n"
	"  --help\n";

enum option_code {
	OPT_LAYOUTS = 256,
	OPT_WORKERS,
	OPT_ROUNDS,
	OPT_WAIT,
	OPT_STREAM,
	OPT_TRACE,
	OPT_OPEN,
	OPT_LOAD,
	OPT_TRACING,
	OPT_TRACE_RECORDS,
	OPT_EXPORT,
	OPT_CACHE,
	OPT_POLL_US,
	OPT_FRAME_US,
	OPT_BUDGET_US,
	OPT_MIXED,
	OPT_PAIRS,
	OPT_SECONDS,
	OPT_SLOW_READS,
	OPT_DELAY_MS,
	OPT_CHECK,
	OPT_VERSION,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"layouts", required_argument, NULL, OPT_LAYOUTS},
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"rounds", required_argument, NULL, OPT_ROUNDS},
	{"wait", no_argument, NULL, OPT_WAIT},
	{"stream", no_argument, NULL, OPT_STREAM},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"open", required_argument, NULL, OPT_OPEN},
	{"load", required_argument, NULL, OPT_LOAD},
	{"tracing", required_argument, NULL, OPT_TRACING},
	{"trace-records", required_argument, NULL, OPT_TRACE_RECORDS},
	{"export", required_argument, NULL, OPT_EXPORT},
	{"cache", required_argument, NULL, OPT_CACHE},
	{"poll-us", required_argument, NULL, OPT_POLL_US},
	{"frame-us", required_argument, NULL, OPT_FRAME_US},
	{"frame-budget-us", required_argument, NULL, OPT_BUDGET_US},
	{"mixed", no_argument, NULL, OPT_MIXED},
	{"pairs", required_argument, NULL, OPT_PAIRS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"slow-reads", required_argument, NULL, OPT_SLOW_READS},
	{"delay-ms", required_argument, NULL, OPT_DELAY_MS},
	{"check", required_argument, NULL, OPT_CHECK},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static bool parse_workers(const char *text, struct stream_options *out)
{
	struct bench_words words = {0};
	bool good = bench_parse_words("workers", text, &words);

	out->worker_count = 0;
	for (size_t i = 0; good && i < words.count; i++)
		good = bench_parse_unsigned("workers", words.word[i], 0, 64,
					    &out->workers[out->worker_count++]);
	free(words.text);
	return good;
}

/* Which of two words. */
static bool parse_either(const char *name, const char *text, const char *yes, const char *no,
			 bool *out)
{
	*out = strcmp(text, yes) == 0;
	if (*out || strcmp(text, no) == 0)
		return true;
	bench_say("--%s %s: %s or %s", name, text, yes, no);
	return false;
}

static bool parse_cache(const char *text, bool *out_warm)
{
	*out_warm = strcmp(text, "warm") == 0;
	if (*out_warm || !strcmp(text, "uncontrolled") || !strcmp(text, "cold-start"))
		return true;
	bench_say("--cache %s: warm, uncontrolled or cold-start", text);
	return false;
}

static bool parse_number(int code, const char *text, struct stream_options *out)
{
	switch (code) {
	case OPT_ROUNDS:
		return bench_parse_unsigned("rounds", text, 1, 1000, &out->rounds);
	case OPT_LOAD:
		return bench_parse_unsigned("load", text, 0, 64, &out->load_threads);
	case OPT_POLL_US:
		return bench_parse_unsigned("poll-us", text, 1, 1000000, &out->poll_us);
	case OPT_FRAME_US:
		return bench_parse_unsigned("frame-us", text, 1, 1000000, &out->frame_us);
	case OPT_BUDGET_US:
		return bench_parse_unsigned("frame-budget-us", text, 1, 1000000, &out->budget_us);
	case OPT_TRACE_RECORDS:
		return bench_parse_unsigned("trace-records", text, 1, 4096, &out->trace_records);
	case OPT_PAIRS:
		return bench_parse_unsigned("pairs", text, 1, 100, &out->pairs);
	case OPT_SECONDS:
		return bench_parse_unsigned("seconds", text, 1, 60, &out->seconds);
	case OPT_SLOW_READS:
		return bench_parse_unsigned("slow-reads", text, 1, 200, &out->slow_reads);
	case OPT_DELAY_MS:
		return bench_parse_unsigned("delay-ms", text, 0, 10000, &out->delay_ms);
	}
	return false;
}

static bool parse_mode(int code, const char *text, struct stream_options *out)
{
	switch (code) {
	case OPT_STREAM:
		out->mode = STREAM_REPLAY;
		return true;
	case OPT_MIXED:
		out->mode = STREAM_MIXED;
		return true;
	case OPT_CHECK:
		out->mode = STREAM_CHECK;
		out->trace = text;
		return true;
	}
	return parse_number(code, text, out);
}

static bool parse_one(int code, const char *text, struct stream_options *out)
{
	switch (code) {
	case OPT_LAYOUTS:
		return bench_parse_words("layouts", text, &out->layouts);
	case OPT_WORKERS:
		return parse_workers(text, out);
	case OPT_WAIT:
		out->wait = true;
		return true;
	case OPT_TRACE:
		out->trace = text;
		return true;
	case OPT_OPEN:
		return parse_either("open", text, "independent", "shared", &out->independent);
	case OPT_TRACING:
		return parse_either("tracing", text, "on", "off", &out->tracing);
	case OPT_EXPORT:
		out->export_path = text;
		return true;
	case OPT_CACHE:
		return parse_cache(text, &out->warm);
	}
	return parse_mode(code, text, out);
}

static bool complete(const struct stream_options *options)
{
	const char *missing = NULL;

	if (options->mode == STREAM_REPLAY && !options->trace)
		missing = "--stream needs --trace";
	else if (options->mode == STREAM_REPLAY &&
		 (options->layouts.count != 1 || options->worker_count != 1))
		missing = "--stream takes one layout and one number of workers";
	else if (options->export_path && !options->tracing)
		missing = "--export needs --tracing on";
	else if (!options->corpus)
		missing = "no corpus (bench/stream_corpus.py makes one)";
	if (missing)
		bench_say("%s", missing);
	return !missing;
}

static enum stream_parse parse_all(int count, char **arguments, struct stream_options *out)
{
	for (;;) {
		int code = getopt_long(count, arguments, "", long_options, NULL);

		if (code < 0)
			break;
		if (code == OPT_HELP) {
			fputs(usage, stdout);
			return STREAM_PARSE_HELP;
		}
		if (code == OPT_VERSION) {
			bench_print_build();
			return STREAM_PARSE_HELP;
		}
		if (code == '?' || !parse_one(code, optarg, out))
			return STREAM_PARSE_USAGE;
	}
	if (optind < count)
		out->corpus = arguments[optind++];
	if (optind < count) {
		bench_say("%s: one corpus is enough", arguments[optind]);
		return STREAM_PARSE_USAGE;
	}
	return complete(out) ? STREAM_PARSE_OK : STREAM_PARSE_USAGE;
}

enum stream_parse stream_options_parse(int count, char **arguments, struct stream_options *out)
{
	size_t started_with = bench_descriptors();

	*out = (struct stream_options){
		.rounds = 1,
		.inherited = started_with > 3 ? started_with - 3 : 0,
		.warm = true,
		.trace_records = 4096,
		.poll_us = 1000,
		.budget_us = 1000,
		.pairs = 5,
		.seconds = 2,
		.delay_ms = 1000,
		.slow_reads = 100,
	};
	if (!parse_workers("0,1,4", out) ||
	    !bench_parse_words("layouts", "loose,raw.pack,lz4.pack", &out->layouts))
		return STREAM_PARSE_USAGE;
	return parse_all(count, arguments, out);
}

void stream_options_dispose(struct stream_options *options)
{
	free(options->layouts.text);
	options->layouts.text = NULL;
}
