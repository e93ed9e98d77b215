/*
 * packs.c   packs of the tree, made by liblarder.
 */
#include "bench/vfs_bench/packs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/archive.h"
#include "common/os.h"

#define BLOCK_MOST (256u * 1024)

struct ldr_chunk_sizes bench_pack_chunks(const struct bench_env *env)
{
	uint32_t normal = env->options->block_kib * 1024, most = normal * 4;

	return (struct ldr_chunk_sizes){normal / 4, normal, most < BLOCK_MOST ? most : BLOCK_MOST};
}

const uint8_t *bench_pack_key(void)
{
	/* Nothing is secret here. */
	static const uint8_t key[LDR_TITLE_KEY_BYTES] = {1, 2, 3, 4};

	return key;
}

static bool build(const struct bench_env *env, enum bench_pack_kind kind, const char *path)
{
	const struct ldr_scan_options scan = {.size = sizeof(scan), .links = LDR_LINKS_DROP};
	struct ldr_build_options options = {.size = sizeof(options)};
	struct ldr_archive_request request = {.size = sizeof(request)};
	struct ldr_archive_outcome outcome;
	struct ldr_error error = {0};

	options.chunks = bench_pack_chunks(env);
	if (kind == BENCH_PACK_LZ4)
		options.codec.policy = LDR_POLICY_LZ4;
	if (kind == BENCH_PACK_ZSTD)
		options.codec.policy = LDR_POLICY_ZSTD;
	request.folder = env->tree;
	request.out_path = path;
	request.scan = &scan;
	request.build = &options;
	if (kind == BENCH_PACK_XOR)
		request.protection.flags = LDR_PACK_FLAG_XOR;
	if (kind == BENCH_PACK_AES)
		request.protection = (struct ldr_protection){LDR_PACK_FLAG_ENCRYPTED,
							     bench_pack_key()};
	if (ldr_archive_folder(&request, &outcome, &error)) {
		bench_say("%s: %s", path, error.text);
		return false;
	}
	printf("pack: %s, %.1f MiB in %llu blocks\n", path,
	       (double)outcome.pack_bytes / (1024 * 1024), (unsigned long long)outcome.blocks);
	return true;
}

char *bench_pack(const struct bench_env *env, enum bench_pack_kind kind)
{
	static const char *const names[] = {"plain", "xor", "lz4", "zstd", "aes"};
	char name[64];
	char *path;
	uint64_t size;

	snprintf(name, sizeof(name), "%s-%u.pack", names[kind], env->options->block_kib);
	path = bench_join(env->made, name);
	if (bench_target_posix.ops->stat(NULL, path, &size) || build(env, kind, path))
		return path;
	free(path);
	return NULL;
}

static bool copy_behind(int from, int to, uint64_t *out_length)
{
	enum { CHUNK = 1 << 20 };
	uint8_t *chunk = malloc(CHUNK);
	uint64_t at = 0;
	size_t length = 0;
	bool good = chunk != NULL;

	do {
		good = good && !ldr_os_pread(from, chunk, CHUNK, at, &length) &&
		       !ldr_os_pwrite(to, chunk, length, BENCH_EMBEDDED_BASE + at);
		at += length;
	} while (good && length == CHUNK);
	good = good && !ldr_os_truncate(to, BENCH_EMBEDDED_BASE + at + BENCH_EMBEDDED_TAIL);
	free(chunk);
	*out_length = at;
	return good;
}

char *bench_embedded(const struct bench_env *env, uint64_t *out_length)
{
	char *pack = bench_pack(env, BENCH_PACK_PLAIN);
	char *path = bench_join(env->made, "embedded.bin");
	int from = -1, to = -1;
	bool good = pack && !ldr_os_open_file(pack, &from);

	if (good)
		to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	good = good && to >= 0 && copy_behind(from, to, out_length);
	if (from >= 0)
		ldr_os_close(from);
	if (to >= 0)
		ldr_os_close(to);
	free(pack);
	if (good)
		return path;
	bench_say("%s: cannot be made", path);
	free(path);
	return NULL;
}
