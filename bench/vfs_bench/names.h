/*
 * The paths that scenarios use, with a target's prefix, made before anything is timed.
 *
 * Threads: immutable once made.
 */
#ifndef LDR_BENCH_NAMES_H
#define LDR_BENCH_NAMES_H

#include "bench/vfs_bench/env.h"

/* Texts side by side in one allocation. */
struct bench_texts {
	char *bytes;
	const char **text;
	uint32_t count;
};

struct bench_names {
	struct bench_texts small;
	struct bench_texts medium;
	struct bench_texts absent;
	struct bench_texts traced; /* of a trace: by the number of its path */
	char *large;
	char *folder; /* of the small files */
};

/* traced may be NULL. */
bool bench_names_make(const struct bench_env *env, const char *data_prefix,
		      const struct bench_texts *traced, struct bench_names *out);
void bench_names_dispose(struct bench_names *names);

/* count texts, each given by write_one into at most 1100 bytes. */
bool bench_texts_make(uint32_t count, void (*write_one)(void *context, uint32_t i, char *out),
		      void *context, struct bench_texts *out);
void bench_texts_dispose(struct bench_texts *texts);

#define BENCH_TEXT_BYTES 4096

#endif
