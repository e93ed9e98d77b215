/*
 * What the command line asked for.
 */
#ifndef LDR_BENCH_OPTIONS_H
#define LDR_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/words.h"

#define BENCH_THREADS_MAX 256

struct bench_options {
	struct bench_words filter;
	struct bench_words targets;
	struct bench_words scenarios;
	double scale;
	unsigned threads[BENCH_LIST_MAX];
	size_t thread_count;
	unsigned iterations;
	unsigned min_ms; /* a timed run is made at least so long by repeating it */
	unsigned max_ms; /* and ends early past it */
	const char *csv;
	const char *md;
	const char *spread;
	const char *folder;
	unsigned block_kib;
	uint64_t seed;
	bool keep;
	bool cold;
	bool list;
	bool strict;
	bool allocations;
	bool verify;
	unsigned handles; /* 0: not asked for */
	const char *trace;
	const char *data;
};

enum bench_parse {
	BENCH_PARSE_OK,
	BENCH_PARSE_HELP,
	BENCH_PARSE_USAGE,
};

enum bench_parse bench_options_parse(int count, char **arguments, struct bench_options *out);
void bench_options_dispose(struct bench_options *options);
/* Whether a scenario and target are asked for. */
bool bench_options_want(const struct bench_options *options, const char *scenario,
			const char *target);

#endif
