/*
 * names.c   paths made beforehand.
 */
#include "bench/vfs_bench/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_texts_make(uint32_t count, void (*write_one)(void *context, uint32_t i, char *out),
		      void *context, struct bench_texts *out)
{
	struct bench_texts made = {.count = count};
	size_t total = 0, at = 0;
	char one[BENCH_TEXT_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		write_one(context, i, one);
		total += strlen(one) + 1;
	}
	made.bytes = malloc(total + 1);
	made.text = malloc((count + 1) * sizeof(*made.text));
	if (!made.bytes || !made.text) {
		bench_texts_dispose(&made);
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		write_one(context, i, one);
		made.text[i] = memcpy(made.bytes + at, one, strlen(one) + 1);
		at += strlen(one) + 1;
	}
	*out = made;
	return true;
}

void bench_texts_dispose(struct bench_texts *texts)
{
	free(texts->bytes);
	free(texts->text);
	*texts = (struct bench_texts){0};
}

/* What a path is made of: prefix and folder, then a letter and a number, or a traced path. */
struct parts {
	const char *prefix;
	const char *folder;
	char letter;
	const struct bench_texts *traced;
};

static void numbered(void *context, uint32_t i, char *out)
{
	const struct parts *parts = context;

	snprintf(out, BENCH_TEXT_BYTES, "%s%s%s/%c%06u.bin", parts->prefix,
		 *parts->prefix ? "/" : "", parts->folder, parts->letter, i);
}

static void traced_path(void *context, uint32_t i, char *out)
{
	const struct parts *parts = context;

	snprintf(out, BENCH_TEXT_BYTES, "%s%s%s", parts->prefix, *parts->prefix ? "/" : "",
		 parts->traced->text[i]);
}

static bool make(const struct parts *parts, uint32_t count, struct bench_texts *out)
{
	struct parts copy = *parts;

	return bench_texts_make(count, parts->traced ? traced_path : numbered, &copy, out);
}

bool bench_names_make(const struct bench_env *env, const char *data_prefix,
		      const struct bench_texts *traced, struct bench_names *out)
{
	const char *at = data_prefix;
	struct bench_names names = {0};
	bool good;

	if (traced)
		good = make(&(struct parts){at, NULL, 0, traced}, traced->count, &names.traced);
	else
		good = make(&(struct parts){at, "small", 'f', NULL}, env->counts.small,
			    &names.small) &&
		       make(&(struct parts){at, "small", 'x', NULL}, env->counts.small,
			    &names.absent) &&
		       make(&(struct parts){at, "medium", 'm', NULL}, env->counts.medium,
			    &names.medium);
	names.large = bench_join(at, "large/l000000.bin");
	names.folder = bench_join(at, "small");
	*out = names;
	if (!good)
		bench_names_dispose(out);
	return good;
}

void bench_names_dispose(struct bench_names *names)
{
	bench_texts_dispose(&names->small);
	bench_texts_dispose(&names->medium);
	bench_texts_dispose(&names->absent);
	bench_texts_dispose(&names->traced);
	free(names->large);
	free(names->folder);
	*names = (struct bench_names){0};
}
