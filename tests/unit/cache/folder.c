/*
 * A cache folder for the tests; see folder.h.
 */
#include "tests/unit/cache/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/cache/blocks.h"

static uint64_t test_now_ns(const struct ldr_clock *clock)
{
	return ((const struct test_clock *)clock->context)->now_ns;
}

static int64_t test_wall_s(const struct ldr_clock *clock)
{
	return ((const struct test_clock *)clock->context)->wall_s;
}

void test_folder_make(struct test_folder *folder)
{
	const char *parent = getenv("TMPDIR");

	memset(folder, 0, sizeof(*folder));
	snprintf(folder->path, sizeof(folder->path), "%s/larder-cache.XXXXXX",
		 parent ? parent : "/tmp");
	cr_assert_not_null(mkdtemp(folder->path));
	folder->time.clock = (struct ldr_clock){test_now_ns, test_wall_s, &folder->time};
	folder->time.now_ns = 1000000000;
	folder->time.wall_s = 2000000000;
	folder->options.clock = &folder->time.clock;
	folder->options.free_floor_bytes = 1;
	folder->coder = ldr_coder_new();
	folder->hasher = ldr_hasher_new();
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)walk;
	(void)type;
	return remove(path);
}

void test_folder_remove(struct test_folder *folder)
{
	nftw(folder->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	ldr_coder_free(folder->coder);
	ldr_hasher_free(folder->hasher);
}

struct ldr_disk_cache *test_cache_open(struct test_folder *folder)
{
	struct ldr_disk_cache *cache = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_disk_open(folder->path, &folder->options, &cache, &err), LDR_OK, "%s",
		     err.text);
	return cache;
}

void test_cache_put(struct test_folder *folder, struct ldr_disk_cache *cache, uint32_t seed,
		    uint32_t length)
{
	static uint8_t plain[LDR_BLOCK_MAX_BYTES], stored[LDR_STORED_MAX_BYTES];
	const struct ldr_codec_choice choice = {.policy = LDR_POLICY_LZ4};
	struct ldr_block_ref block = test_block_fill(seed, length, plain);
	enum ldr_codec codec;
	uint32_t stored_bytes;

	ldr_encode(folder->coder, &choice, plain, length, stored, &codec, &stored_bytes);
	ldr_disk_put(cache, &block, codec, stored, stored_bytes);
}

enum ldr_status test_cache_read(struct test_folder *folder, struct ldr_disk_cache *cache,
				uint32_t seed, uint32_t length)
{
	static uint8_t plain[LDR_BLOCK_MAX_BYTES];
	struct ldr_block_ref block = test_block_fill(seed, length, plain);
	enum ldr_status status;

	memset(plain, 0, length);
	status = ldr_disk_read(cache, &block, folder->coder, folder->hasher, plain, NULL);
	if (status == LDR_OK)
		cr_assert(test_block_is(seed, length, plain), "seed %u: wrong bytes", seed);
	return status;
}

struct ldr_disk_stat test_cache_stat(struct ldr_disk_cache *cache)
{
	struct ldr_disk_stat stat;

	ldr_disk_stat(cache, &stat);
	return stat;
}

static void join(const struct test_folder *folder, const char *name, char path[512])
{
	if (name[0] == '/')
		snprintf(path, 512, "%s", name);
	else
		snprintf(path, 512, "%s/%s", folder->path, name);
}

static bool ends(const char *name, const char *ending)
{
	size_t length = strlen(name), end = strlen(ending);

	return length >= end && strcmp(name + length - end, ending) == 0;
}

unsigned test_folder_count(const struct test_folder *folder, const char *in, const char *ending)
{
	struct dirent *entry;
	char path[512];
	unsigned count = 0;
	DIR *names;

	join(folder, in, path);
	names = opendir(path);
	while (names && (entry = readdir(names)) != NULL)
		count += entry->d_name[0] != '.' && ends(entry->d_name, ending);
	if (names)
		closedir(names);
	return count;
}

static uint64_t bytes_in(const char *path)
{
	struct dirent *entry;
	char name[800];
	struct stat info;
	uint64_t bytes = 0;
	DIR *names = opendir(path);

	while (names && (entry = readdir(names)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (lstat(name, &info) == 0 && S_ISREG(info.st_mode))
			bytes += ((uint64_t)info.st_size + 4095) / 4096 * 4096;
	}
	if (names)
		closedir(names);
	return bytes;
}

uint64_t test_folder_bytes(const struct test_folder *folder)
{
	char packs[512];

	join(folder, "packs", packs);
	return bytes_in(folder->path) + bytes_in(packs);
}

void test_folder_pack(const struct test_folder *folder, unsigned i, char path[512])
{
	struct dirent **entries = NULL;
	char packs[512];
	unsigned seen = 0;
	int count;

	join(folder, "packs", packs);
	count = scandir(packs, &entries, NULL, alphasort);
	path[0] = '\0';
	for (int k = 0; k < count; k++) {
		if (ends(entries[k]->d_name, ".pack") && seen++ == i)
			snprintf(path, 512, "%.200s/%.255s", packs, entries[k]->d_name);
		free(entries[k]);
	}
	free(entries);
	cr_assert_neq(path[0], '\0', "there are only %u packs", seen);
}

uint8_t *test_file_read(const struct test_folder *folder, const char *name, size_t *out_length)
{
	char path[512];
	struct stat info;
	uint8_t *bytes;
	FILE *file;

	join(folder, name, path);
	cr_assert_eq(stat(path, &info), 0, "%s", path);
	bytes = malloc((size_t)info.st_size + 1);
	file = fopen(path, "rbe");
	cr_assert(bytes && file);
	cr_assert_eq(fread(bytes, 1, (size_t)info.st_size, file), (size_t)info.st_size);
	fclose(file);
	*out_length = (size_t)info.st_size;
	return bytes;
}

void test_file_write(const struct test_folder *folder, const char *name, const void *bytes,
		     size_t length)
{
	char path[512];
	FILE *file;

	join(folder, name, path);
	file = fopen(path, "wbe");
	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	fclose(file);
}
