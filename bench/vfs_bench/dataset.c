/*
 * dataset.c   the files that are read: made by seed, or kept from the last run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/vfs_bench/env.h"
#include "common/os.h"

#define PIECE_BYTES (64u * 1024)
/* lz4 keeps 3 bytes of its own beside the literals for each match of the lengths below. */
#define LITERAL_LEAST 4
#define LITERAL_SPAN 8
#define MATCH_LEAST 28
#define MATCH_SPAN 32
#define HISTORY_LEAST 64
#define HISTORY_MOST 2048

uint64_t bench_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static size_t fill_literals(uint64_t *state, uint8_t *bytes, size_t at, size_t end)
{
	for (; at < end; at++)
		bytes[at] = (uint8_t)bench_random(state);
	return at;
}

void bench_fill(uint64_t seed, uint8_t *bytes, size_t length)
{
	uint64_t state = seed;
	size_t at = fill_literals(&state, bytes, 0,
				  length < HISTORY_LEAST ? length : HISTORY_LEAST);

	while (at < length) {
		uint64_t dice = bench_random(&state);
		size_t literals = at + LITERAL_LEAST + dice % LITERAL_SPAN;
		size_t history, back, end;

		at = fill_literals(&state, bytes, at, literals < length ? literals : length);
		history = at < HISTORY_MOST ? at : HISTORY_MOST;
		back = HISTORY_LEAST + (dice >> 16) % (history - HISTORY_LEAST + 1);
		end = at + MATCH_LEAST + (dice >> 40) % MATCH_SPAN;
		for (; at < end && at < length; at++)
			bytes[at] = bytes[at - back];
	}
}

static bool write_pieces(int fd, uint64_t size, uint64_t seed, uint8_t *piece)
{
	for (uint64_t at = 0; at < size; at += PIECE_BYTES) {
		size_t length = size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES;

		bench_fill(seed + at * 7, piece, length);
		if (ldr_os_pwrite(fd, piece, length, at))
			return false;
	}
	return true;
}

static bool folder_above(const char *path)
{
	char *folder = bench_copy(path);
	char *slash = strrchr(folder, '/');
	bool good;

	if (slash)
		*slash = '\0';
	good = !slash || bench_make_folders(folder);
	free(folder);
	return good;
}

bool bench_write_file(const char *path, uint64_t size, uint64_t seed)
{
	static _Thread_local uint8_t piece[PIECE_BYTES];
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	int fd = open(path, flags, 0644);
	bool good;

	if (fd < 0 && errno == ENOENT && folder_above(path))
		fd = open(path, flags, 0644);
	if (fd < 0) {
		bench_say("%s: %s", path, strerror(errno));
		return false;
	}
	good = write_pieces(fd, size, seed, piece);
	if (!good)
		bench_say("%s: cannot be written", path);
	ldr_os_close(fd);
	return good;
}

bool bench_item_load(const struct bench_env *env, const struct bench_item *item, uint8_t *bytes)
{
	char *path = bench_join(env->tree, item->path);
	size_t length = 0;
	int fd, code = ldr_os_open_file(path, &fd);

	if (!code) {
		code = ldr_os_pread(fd, bytes, item->size, 0, &length);
		ldr_os_close(fd);
	}
	if (code || length != item->size)
		bench_say("%s: %zu bytes read, %llu wanted", path, length,
			  (unsigned long long)item->size);
	free(path);
	return !code && length == item->size;
}

static bool make_numbered(const struct bench_env *env, const char *folder, uint32_t count,
			  uint64_t size, uint64_t seed)
{
	bool good = true;

	for (uint32_t i = 0; good && i < count; i++) {
		char name[64];
		char *path;

		/* The file's letter is the folder's, but for the small ones (names.c). */
		snprintf(name, sizeof(name), "%s/%c%06u.bin", folder,
			 *folder == 's' ? 'f' : *folder, i);
		path = bench_join(env->tree, name);
		good = bench_write_file(path, size, seed + (uint64_t)i * 1000003);
		free(path);
	}
	return good;
}

static char *stamp_text(const struct bench_env *env)
{
	char *text;

	if (asprintf(&text, "vfs_bench 2: seed %llu, small %u, medium %u, large %llu\n",
		     (unsigned long long)env->options->seed, env->counts.small, env->counts.medium,
		     (unsigned long long)env->counts.large_bytes) < 0)
		abort();
	return text;
}

static bool stamp_matches(const char *path, const char *text)
{
	char held[256];
	size_t length = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	length = fread(held, 1, sizeof(held) - 1, file);
	fclose(file);
	held[length] = '\0';
	return !strcmp(held, text);
}

static bool write_stamp(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	bool good = file && fputs(text, file) >= 0;

	if (file && fclose(file))
		good = false;
	return good;
}

static bool make_all(struct bench_env *env)
{
	uint64_t seed = env->options->seed * 1000000007;

	bench_remove_all(env->tree);
	bench_remove_all(env->made);
	return bench_make_folders(env->tree) && bench_make_folders(env->made) &&
	       make_numbered(env, "small", env->counts.small, BENCH_SMALL_BYTES, seed) &&
	       make_numbered(env, "medium", env->counts.medium, BENCH_MEDIUM_BYTES, seed + 1) &&
	       make_numbered(env, "large", 1, env->counts.large_bytes, seed + 2);
}

bool bench_dataset(struct bench_env *env)
{
	char *stamp = bench_join(env->work, "stamp");
	char *text = stamp_text(env);
	char *area = bench_join(env->tree, "write");
	bool good = true;

	if (!env->options->keep || !stamp_matches(stamp, text)) {
		unlink(stamp);
		good = make_all(env) && write_stamp(stamp, text);
		bench_settle(env);
	}
	bench_remove_all(area);
	good = good && bench_env_walk(env) && bench_make_folders(area);
	free(area);
	free(text);
	free(stamp);
	return good;
}
