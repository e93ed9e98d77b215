/*
 * Eviction: which packs go, in which order, and what other processes have to say about it.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/disk.h"
#include "common/publisher_seams.h"
#include "tests/unit/cache/blocks.h"
#include "tests/unit/cache/folder.h"

#define BLOCK 60000u
#define PACK (4u * BLOCK)

static struct test_folder folder;

static void setup(void)
{
	test_folder_make(&folder);
}

static void teardown(void)
{
	test_folder_remove(&folder);
}

TestSuite(evict, .init = setup, .fini = teardown);

/* Packs of one block each, put one second apart, pack i with the block of seed i. */
static void fill(struct ldr_disk_cache *cache, uint32_t first, uint32_t count)
{
	for (uint32_t seed = first; seed < first + count; seed++) {
		folder.time.wall_s++;
		test_cache_put(&folder, cache, seed, BLOCK);
		cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	}
}

static bool held(struct ldr_disk_cache *cache, uint32_t seed)
{
	return test_cache_read(&folder, cache, seed, BLOCK) == LDR_OK;
}

/* Sets the time of the pack that holds the block of this seed. */
static void set_time(uint32_t seed, int64_t wall_s)
{
	static uint8_t plain[LDR_BLOCK_MAX_BYTES];
	struct timespec times[2] = {{.tv_sec = wall_s}, {.tv_sec = wall_s}};
	char path[512];

	test_block_fill(seed, BLOCK, plain);
	for (unsigned i = 0; i < test_folder_count(&folder, "packs", ".pack"); i++) {
		size_t length;
		uint8_t *bytes;
		bool here;

		test_folder_pack(&folder, i, path);
		bytes = test_file_read(&folder, path, &length);
		here = memmem(bytes, length, plain, BLOCK) != NULL;
		free(bytes);
		if (here) {
			cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
			return;
		}
	}
	cr_assert(false, "no pack holds seed %u", seed);
}

Test(evict, the_longest_unused_go_first_and_a_use_is_a_second_chance)
{
	struct ldr_disk_cache *cache;

	cache = test_cache_open(&folder);
	fill(cache, 0, 10);
	cr_assert(held(cache, 0) && held(cache, 3));
	cr_assert_eq(ldr_disk_trim(cache, test_folder_bytes(&folder) - 4 * BLOCK, NULL), LDR_OK);
	cr_expect(held(cache, 0) && held(cache, 3), "used");
	cr_expect_not(held(cache, 1) || held(cache, 2) || held(cache, 4) || held(cache, 5),
		      "the oldest of the unused");
	cr_expect(held(cache, 6) && held(cache, 9));
	ldr_disk_close(cache);
}

Test(evict, the_order_outlives_the_process)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);

	fill(cache, 0, 6);
	for (uint32_t seed = 0; seed < 6; seed++)
		set_time(seed, 1000000000 + seed);
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	cr_assert(held(cache, 0));
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	cr_assert_eq(ldr_disk_trim(cache, test_folder_bytes(&folder) - 2 * BLOCK, NULL), LDR_OK);
	cr_expect(held(cache, 0), "its use is written in its file's time");
	cr_expect_not(held(cache, 1) || held(cache, 2));
	cr_expect(held(cache, 3) && held(cache, 4) && held(cache, 5));
	ldr_disk_close(cache);
}

Test(evict, what_another_process_used_is_spared)
{
	struct ldr_disk_cache *a = test_cache_open(&folder), *b;

	fill(a, 0, 6);
	for (uint32_t seed = 0; seed < 6; seed++)
		set_time(seed, 1000000000 + seed);
	b = test_cache_open(&folder);
	/* Another process used pack 0 after b had looked. */
	set_time(0, 1900000000);
	cr_assert_eq(ldr_disk_trim(b, test_folder_bytes(&folder) - 2 * BLOCK, NULL), LDR_OK);
	cr_expect(held(b, 0));
	cr_expect_not(held(b, 1) || held(b, 2));
	ldr_disk_close(a);
	ldr_disk_close(b);
}

Test(evict, files_that_cannot_be_removed_are_reported_and_not_forgotten)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	struct ldr_error err = {0};

	fill(cache, 0, 3);
	ldr_seam_reset();
	ldr_seam_fail(LDR_SEAM_UNLINK, 1, 100, 13 /* EACCES */);
	cr_expect_eq(ldr_disk_trim(cache, 0, &err), LDR_EDENIED);
	cr_expect_not_null(strstr(err.text, ".pack"), "%s", err.text);
	ldr_seam_reset();
	cr_expect(held(cache, 0) && held(cache, 1) && held(cache, 2));
	cr_assert_eq(ldr_disk_trim(cache, 0, NULL), LDR_OK);
	cr_expect_eq(test_folder_count(&folder, "packs", ""), 0);
	ldr_disk_close(cache);
}

Test(evict, a_quota_that_only_the_open_pack_fills_seals_it_and_goes_on)
{
	struct ldr_disk_cache *cache;
	struct ldr_disk_stat stat;

	folder.options.quota_bytes = 8 * PACK;
	folder.options.seal_bytes = 100 * PACK;
	cache = test_cache_open(&folder);
	for (uint32_t seed = 0; seed < 200; seed++)
		test_cache_put(&folder, cache, seed, BLOCK);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.puts_dropped, 0, "%llu", (unsigned long long)stat.puts_dropped);
	cr_expect_leq(test_folder_bytes(&folder), 8 * PACK);
	cr_expect(held(cache, 199));
	ldr_disk_close(cache);
}

Test(evict, T10_several_open_packs_count_for_what_they_may_become)
{
	struct ldr_disk_cache *caches[3];
	uint64_t most = 0;

	folder.options.quota_bytes = 12 * PACK;
	folder.options.seal_bytes = PACK;
	for (unsigned i = 0; i < 3; i++)
		caches[i] = test_cache_open(&folder);
	for (uint32_t seed = 0; seed < 300; seed++) {
		uint64_t bytes;

		folder.time.now_ns += 1000000;
		test_cache_put(&folder, caches[seed % 3], seed, BLOCK);
		bytes = test_folder_bytes(&folder);
		most = bytes > most ? bytes : most;
	}
	cr_expect_leq(most, 12 * PACK, "%llu of %u", (unsigned long long)most, 12 * PACK);
	cr_expect_gt(most, 6 * PACK);
	for (unsigned i = 0; i < 3; i++)
		ldr_disk_close(caches[i]);
	cr_expect_leq(test_folder_bytes(&folder), 12 * PACK);
}
