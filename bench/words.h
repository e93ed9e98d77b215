/*
 * Values of options: numbers within bounds, lists of words.
 *
 * Threads: no state.
 */
#ifndef LDR_BENCH_WORDS_H
#define LDR_BENCH_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#define BENCH_LIST_MAX 64

struct bench_words {
	char *text; /* owned; cut at the commas */
	const char *word[BENCH_LIST_MAX];
	size_t count;
};

/* False after bench_say, which names the option. */
bool bench_parse_unsigned(const char *name, const char *text, unsigned least, unsigned most,
			  unsigned *out);
/* Replaces what out had. */
bool bench_parse_words(const char *name, const char *text, struct bench_words *out);

#endif
