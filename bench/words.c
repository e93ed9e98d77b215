/*
 * words.c   values of options.
 */
#include "bench/words.h"

#include <stdlib.h>
#include <string.h>

#include "bench/support.h"

bool bench_parse_unsigned(const char *name, const char *text, unsigned least, unsigned most,
			  unsigned *out)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end == text || *end || text[0] == '-' || value < least || value > most) {
		bench_say("--%s %s: a whole number from %u to %u", name, text, least, most);
		return false;
	}
	*out = (unsigned)value;
	return true;
}

bool bench_parse_words(const char *name, const char *text, struct bench_words *out)
{
	char *rest;

	free(out->text);
	out->text = rest = bench_copy(text);
	out->count = 0;
	for (char *word; (word = strsep(&rest, ","));) {
		if (!*word)
			continue;
		if (out->count == BENCH_LIST_MAX) {
			bench_say("--%s: more than %d words", name, BENCH_LIST_MAX);
			return false;
		}
		out->word[out->count++] = word;
	}
	if (out->count == 0)
		bench_say("--%s: no word in \"%s\"", name, text);
	return out->count > 0;
}
