/*
 * The disk cache: what is put can be read, by this process, by others, after a restart; what is damaged
 * is dropped and fetched again; what goes wrong costs the caching and never the reading. T rows of the
 * collected cases are named where they are tested.
 */
#include "cache/disk.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/disk_priv.h"
#include "common/publisher_seams.h"
#include "tests/unit/cache/blocks.h"
#include "tests/unit/cache/folder.h"

#define BLOCK 60000u

static struct test_folder folder;

static void setup(void)
{
	test_folder_make(&folder);
}

static void teardown(void)
{
	test_folder_remove(&folder);
}

TestSuite(disk, .init = setup, .fini = teardown);

static void put_many(struct ldr_disk_cache *cache, uint32_t first, uint32_t count)
{
	for (uint32_t seed = first; seed < first + count; seed++)
		test_cache_put(&folder, cache, seed, BLOCK);
}

static uint32_t read_many(struct ldr_disk_cache *cache, uint32_t first, uint32_t count)
{
	uint32_t good = 0;

	for (uint32_t seed = first; seed < first + count; seed++)
		good += test_cache_read(&folder, cache, seed, BLOCK) == LDR_OK;
	return good;
}

Test(disk, blocks_of_all_lengths_live_in_the_open_pack_and_after_a_restart)
{
	static const uint32_t lengths[] = {1, 15, 4096, 65536, 100001, LDR_BLOCK_MAX_BYTES};
	const unsigned count = sizeof(lengths) / sizeof(lengths[0]);
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	struct ldr_disk_stat stat;

	for (unsigned i = 0; i < count; i++) {
		cr_assert_eq(test_cache_read(&folder, cache, i, lengths[i]), LDR_ENOTFOUND);
		test_cache_put(&folder, cache, i, lengths[i]);
		test_cache_put(&folder, cache, i, lengths[i]);
		cr_assert_eq(test_cache_read(&folder, cache, i, lengths[i]), LDR_OK);
	}
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.puts, count, "a block that is there is not put again");
	cr_expect_eq(stat.blocks, count);
	cr_expect_eq(stat.hits, count);
	cr_expect_eq(stat.misses, count);
	cr_expect_eq(stat.packs, 0);
	cr_expect(stat.writable);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 0);
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 1);
	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(test_cache_read(&folder, cache, i, lengths[i]), LDR_OK);
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(test_cache_read(&folder, cache, i, lengths[i]), LDR_OK);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.packs, 1);
	cr_expect_eq(stat.hits, count);
	cr_expect_leq(test_folder_bytes(&folder), stat.bytes + 3 * 4096, "what is held is told");
	ldr_disk_close(cache);
	ldr_disk_close(NULL);
}

Test(disk, full_packs_are_sealed_and_idle_ones_too)
{
	struct ldr_disk_cache *cache;

	folder.options.seal_bytes = 5 * BLOCK;
	cache = test_cache_open(&folder);
	put_many(cache, 0, 12);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 2);
	cr_expect_eq(read_many(cache, 0, 12), 12);
	folder.time.now_ns += UINT64_C(59) * 1000000000;
	test_cache_stat(cache);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 2);
	folder.time.now_ns += UINT64_C(2) * 1000000000;
	test_cache_stat(cache);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 3,
		     "after a minute without a put");
	cr_expect_eq(read_many(cache, 0, 12), 12);
	ldr_disk_close(cache);
}

Test(disk, T7_T14_a_foreign_format_is_refused_and_a_missing_one_is_made)
{
	static const struct {
		const char *text;
		enum ldr_status status;
	} rows[] = {{"larder-cache 0\n", LDR_EUNSUPPORTED}, {"larder-cache 2\n", LDR_EUNSUPPORTED},
		    {"larder-cache 1", LDR_EUNSUPPORTED},   {"\xff\xfe\n", LDR_EUNSUPPORTED},
		    {"larder-cache 1\n", LDR_OK},           {"", LDR_OK}};
	struct ldr_disk_cache *cache = NULL;
	struct ldr_error err = {0};
	char long_text[1000];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		test_file_write(&folder, "FORMAT", rows[i].text, strlen(rows[i].text));
		cr_expect_eq(ldr_disk_open(folder.path, &folder.options, &cache, &err),
			     rows[i].status, "FORMAT %s", rows[i].text);
		if (rows[i].status) {
			cr_expect(strstr(err.text, "FORMAT") && strstr(err.text, "larder-cache 1"),
				  "%s", err.text);
			cr_expect_eq(test_folder_count(&folder, "", ""), 1, "nothing else made");
		} else {
			size_t length;
			uint8_t *text;

			ldr_disk_close(cache);
			text = test_file_read(&folder, "FORMAT", &length);
			cr_expect_eq(length, strlen(LDR_CACHE_FORMAT));
			free(text);
		}
	}
	memset(long_text, 'x', sizeof(long_text));
	test_file_write(&folder, "FORMAT", long_text, sizeof(long_text));
	cr_expect_eq(ldr_disk_open(folder.path, NULL, &cache, &err), LDR_EUNSUPPORTED);
}

Test(disk, two_processes_share_a_folder)
{
	struct ldr_disk_cache *a = test_cache_open(&folder), *b = test_cache_open(&folder);
	struct ldr_disk_stat stat;

	put_many(a, 0, 5);
	cr_expect_eq(read_many(b, 0, 5), 0, "an open pack is its process's own");
	cr_assert_eq(ldr_disk_flush(a, NULL), LDR_OK);
	folder.time.now_ns += UINT64_C(1000000000);
	cr_expect_eq(read_many(b, 0, 5), 5, "newcomers are noticed");
	put_many(b, 0, 7);
	stat = test_cache_stat(b);
	cr_expect_eq(stat.puts, 2, "what the other has is not put again");
	/* The same two blocks, in the same order, by both: the same pack. */
	put_many(a, 5, 2);
	cr_assert_eq(ldr_disk_flush(a, NULL), LDR_OK);
	cr_assert_eq(ldr_disk_flush(b, NULL), LDR_OK);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 2);
	cr_expect_eq(test_cache_stat(a).packs, 2);
	cr_expect_eq(test_cache_stat(b).packs, 2);
	cr_expect_eq(test_cache_stat(b).puts_dropped, 0);
	/* One clears while the other reads. */
	cr_expect_eq(read_many(b, 0, 7), 7);
	cr_assert_eq(ldr_disk_trim(a, 0, NULL), LDR_OK);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 0);
	cr_expect_eq(test_cache_stat(b).packs, 0, "removed packs vanish");
	cr_expect_eq(read_many(b, 0, 7), 0);
	cr_expect_eq(test_cache_stat(b).bad_blocks, 0);
	put_many(b, 0, 7);
	cr_expect_eq(read_many(b, 0, 7), 7);
	ldr_disk_close(a);
	ldr_disk_close(b);
}

Test(disk, temporaries_of_the_dead_are_swept_those_of_the_living_stay)
{
	struct ldr_disk_cache *a = test_cache_open(&folder), *b;
	struct ldr_disk_stat stat;

	put_many(a, 0, 3);
	test_file_write(&folder, "packs/.larder-tmp.1.1", "dead", 4);
	test_file_write(&folder, ".larder-tmp.1.2", "dead", 4);
	b = test_cache_open(&folder);
	stat = test_cache_stat(b);
	cr_expect_eq(stat.swept, 2);
	cr_assert_eq(ldr_disk_flush(a, NULL), LDR_OK, "the living one's is untouched");
	cr_expect_eq(read_many(a, 0, 3), 3);
	ldr_disk_close(a);
	ldr_disk_close(b);
}

/* Changes one byte of the stored form of a block in the first pack; stored as they are, blocks are found
 * by their bytes. */
static void damage(uint32_t seed, uint32_t at)
{
	static uint8_t plain[LDR_BLOCK_MAX_BYTES];
	char path[512];
	size_t length;
	uint8_t *bytes, *found;

	test_folder_pack(&folder, 0, path);
	bytes = test_file_read(&folder, path, &length);
	test_block_fill(seed, BLOCK, plain);
	found = memmem(bytes, length, plain, BLOCK);
	cr_assert_not_null(found);
	found[at] ^= 0x10;
	test_file_write(&folder, path, bytes, length);
	free(bytes);
}

Test(disk, T3_T16_a_flipped_bit_costs_one_refetch_and_the_fresh_copy_wins)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);

	put_many(cache, 0, 6);
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	cr_assert_eq(test_cache_read(&folder, cache, 2, BLOCK), LDR_OK);
	damage(2, 12345);
	cr_expect_eq(test_cache_read(&folder, cache, 2, BLOCK), LDR_ENOTFOUND, "T16: read again");
	cr_expect_eq(test_cache_read(&folder, cache, 2, BLOCK), LDR_ENOTFOUND);
	cr_expect_eq(test_cache_stat(cache).bad_blocks, 1, "counted once");
	cr_expect_eq(read_many(cache, 0, 6), 5, "the others are untouched");
	test_cache_put(&folder, cache, 2, BLOCK);
	cr_expect_eq(test_cache_read(&folder, cache, 2, BLOCK), LDR_OK, "T3: the second is a hit");
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 6), 6);
	cr_expect_eq(test_cache_stat(cache).bad_blocks, 0, "also after a restart");
	ldr_disk_close(cache);
	/* Without `lookup` the packs' own indexes say what there is: the bad copy is in none of them. */
	test_file_write(&folder, "lookup", "", 0);
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 6), 6);
	cr_expect_eq(test_cache_stat(cache).bad_blocks, 0);
	ldr_disk_close(cache);
}

Test(disk, a_killed_process_leaves_the_bad_copy_behind_and_the_fresh_one_still_wins)
{
	struct ldr_disk_cache *a = test_cache_open(&folder), *b;

	put_many(a, 0, 6);
	cr_assert_eq(ldr_disk_flush(a, NULL), LDR_OK);
	damage(4, 1);
	cr_expect_eq(test_cache_read(&folder, a, 4, BLOCK), LDR_ENOTFOUND);
	test_cache_put(&folder, a, 4, BLOCK);
	cr_assert_eq(ldr_disk_flush(a, NULL), LDR_OK);
	/* Nothing is tidied: this is how another process finds the folder meanwhile. */
	b = test_cache_open(&folder);
	cr_expect_eq(read_many(b, 0, 6), 6);
	cr_expect_leq(test_cache_stat(b).bad_blocks, 1);
	ldr_disk_close(b);
	ldr_disk_close(a);
}

Test(disk, verify_finds_all_bad_blocks_and_keeps_the_good_ones)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	uint64_t blocks = 0, bad = 0;

	put_many(cache, 0, 20);
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	cr_assert_eq(ldr_disk_verify(cache, &blocks, &bad, NULL), LDR_OK);
	cr_expect_eq(blocks, 20);
	cr_expect_eq(bad, 0);
	damage(3, 0);
	damage(11, BLOCK - 1);
	cr_assert_eq(ldr_disk_verify(cache, &blocks, &bad, NULL), LDR_OK);
	cr_expect_eq(blocks, 20);
	cr_expect_eq(bad, 2);
	cr_assert_eq(ldr_disk_verify(cache, &blocks, &bad, NULL), LDR_OK);
	cr_expect_eq(blocks, 18, "the pack was written anew without them");
	cr_expect_eq(bad, 0);
	cr_expect_eq(read_many(cache, 0, 20), 18);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 1);
	cr_expect_eq(test_cache_stat(cache).bad_blocks, 2);
	ldr_disk_close(cache);
}

enum harm { TRUNCATE_0, TRUNCATE_HALF, CUT_TAIL, ZERO_PAGES, ZERO_INDEX, REMOVE };

static void harm_pack(enum harm harm)
{
	char path[512];
	size_t length;
	uint8_t *bytes;

	test_folder_pack(&folder, 0, path);
	bytes = test_file_read(&folder, path, &length);
	if (harm == ZERO_PAGES)
		memset(bytes + 4096, 0, 3 * 65536);
	else if (harm == ZERO_INDEX)
		memset(bytes + length - 200, 0, 200);
	else
		length = harm == TRUNCATE_0 ? 0 : harm == TRUNCATE_HALF ? length / 2 : length - 1;
	if (harm == REMOVE)
		cr_assert_eq(unlink(path), 0);
	else
		test_file_write(&folder, path, bytes, length);
	free(bytes);
}

/* Reads everything, puts what is missing, reads again: what a source does. */
static void heals(struct ldr_disk_cache *cache, uint32_t at_least, const char *when)
{
	uint32_t good = read_many(cache, 0, 10);

	cr_expect_geq(good, at_least, "%s: %u good", when, good);
	cr_expect_lt(good, 10, "%s", when);
	put_many(cache, 0, 10);
	cr_expect_eq(read_many(cache, 0, 10), 10, "%s", when);
}

Test(disk, T2_T5_T12_harmed_packs_cost_their_blocks_and_nothing_else)
{
	static const struct {
		const char *name;
		enum harm harm;
		uint32_t good; /* blocks that survive a start */
	} rows[] = {{"empty", TRUNCATE_0, 0},        {"half", TRUNCATE_HALF, 0},
		    {"one byte short", CUT_TAIL, 0}, {"zeroed pages", ZERO_PAGES, 5},
		    {"zeroed index", ZERO_INDEX, 0}, {"removed", REMOVE, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_disk_cache *cache = test_cache_open(&folder);

		cr_assert_eq(ldr_disk_trim(cache, 0, NULL), LDR_OK);
		put_many(cache, 0, 10);
		ldr_disk_close(cache);
		test_file_write(&folder, "lookup", "", 0);
		harm_pack(rows[i].harm);
		cache = test_cache_open(&folder);
		heals(cache, rows[i].good, rows[i].name);
		/* Again, while the cache is open and knows the pack. */
		cr_assert_eq(ldr_disk_trim(cache, 0, NULL), LDR_OK);
		put_many(cache, 0, 10);
		cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
		harm_pack(rows[i].harm);
		if (rows[i].harm != REMOVE && rows[i].harm != ZERO_INDEX &&
		    rows[i].harm != CUT_TAIL)
			heals(cache, 0, rows[i].name);
		ldr_disk_close(cache);
		cache = test_cache_open(&folder);
		put_many(cache, 0, 10);
		cr_expect_eq(read_many(cache, 0, 10), 10, "%s", rows[i].name);
		ldr_disk_close(cache);
	}
}

Test(disk, T6_the_derived_table_may_be_anything)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	size_t length;
	uint8_t *bytes;
	uint32_t random = 7;

	folder.options.seal_bytes = 5 * BLOCK;
	put_many(cache, 0, 20);
	ldr_disk_close(cache);
	bytes = test_file_read(&folder, "lookup", &length);
	cr_assert_gt(length, 20 * 56);
	for (unsigned i = 0; i < 60; i++) {
		random = random * 1664525u + 1013904223u;
		if (i % 3 == 0)
			test_file_write(&folder, "lookup", bytes, (random >> 8) % length);
		else {
			size_t at = (random >> 8) % length;

			bytes[at] ^= (uint8_t)(1u << (i % 8));
			test_file_write(&folder, "lookup", bytes, length);
			bytes[at] ^= (uint8_t)(1u << (i % 8));
		}
		folder.options.read_only = true;
		cache = test_cache_open(&folder);
		cr_assert_eq(read_many(cache, 0, 20), 20, "step %u", i);
		ldr_disk_close(cache);
	}
	free(bytes);
	folder.options.read_only = false;
	cache = test_cache_open(&folder);
	ldr_disk_close(cache);
	bytes = test_file_read(&folder, "lookup", &length);
	cr_expect_gt(length, 20 * 56, "rebuilt");
	free(bytes);
}

Test(disk, T1_T12_a_full_disk_costs_the_caching_only_and_ends)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	struct ldr_disk_stat stat;
	unsigned calls;

	put_many(cache, 0, 4);
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	put_many(cache, 10, 2);
	ldr_seam_reset();
	ldr_seam_fail(LDR_SEAM_WRITE, 1, 1000000, 28 /* ENOSPC */);
	test_cache_put(&folder, cache, 12, BLOCK);
	stat = test_cache_stat(cache);
	cr_expect_not(stat.writable);
	cr_expect_not_null(strstr(stat.trouble, "No space"), "%s", stat.trouble);
	cr_expect_eq(stat.puts_dropped, 3, "this one and the two of the open pack");
	cr_expect_eq(test_cache_read(&folder, cache, 10, BLOCK), LDR_ENOTFOUND);
	cr_expect_eq(read_many(cache, 0, 4), 4, "reads go on");
	calls = ldr_seam_calls(LDR_SEAM_WRITE);
	put_many(cache, 20, 5);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_WRITE), calls, "nothing is tried before its time");
	cr_expect_eq(test_cache_stat(cache).puts_dropped, 8);
	folder.time.now_ns += UINT64_C(1100000000);
	put_many(cache, 30, 1);
	cr_expect_gt(ldr_seam_calls(LDR_SEAM_WRITE), calls, "then it is tried once more");
	ldr_seam_reset();
	folder.time.now_ns += UINT64_C(1100000000);
	put_many(cache, 40, 1);
	cr_expect_eq(test_cache_read(&folder, cache, 40, BLOCK), LDR_ENOTFOUND,
		     "the back-off has doubled");
	folder.time.now_ns += UINT64_C(1100000000);
	put_many(cache, 50, 5);
	cr_expect_eq(read_many(cache, 50, 5), 5, "later puts are kept");
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	stat = test_cache_stat(cache);
	cr_expect(stat.writable, "%s", stat.trouble);
	cr_expect_eq(test_folder_count(&folder, "packs", ""), 2, "no rest of the failed ones");
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 4) + read_many(cache, 50, 5), 9);
	ldr_disk_close(cache);
}

Test(disk, every_call_may_fail_once)
{
	static const enum ldr_seam_call calls[] = {LDR_SEAM_OPEN, LDR_SEAM_READ,   LDR_SEAM_WRITE,
						   LDR_SEAM_SYNC, LDR_SEAM_RENAME, LDR_SEAM_LIST,
						   LDR_SEAM_LOCK, LDR_SEAM_STAT};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (unsigned nth = 1; nth < 40; nth += nth < 12 ? 1 : 5) {
			struct ldr_disk_cache *cache = NULL;
			uint32_t good;

			ldr_seam_reset();
			ldr_seam_fail(calls[i], nth, 1, 5 /* EIO */);
			if (ldr_disk_open(folder.path, &folder.options, &cache, NULL))
				continue;
			put_many(cache, 0, 3);
			ldr_disk_flush(cache, NULL);
			read_many(cache, 0, 3);
			ldr_seam_reset();
			folder.time.now_ns += UINT64_C(100000000000);
			put_many(cache, 0, 3);
			good = read_many(cache, 0, 3);
			cr_expect_eq(good, 3, "call %d number %u: %u", calls[i], nth, good);
			ldr_disk_trim(cache, 0, NULL);
			ldr_disk_close(cache);
		}
	}
}

/* What somebody does to the folder of a cache behind its back. */
static void harm(const char *script)
{
	char command[512];
	FILE *shell;

	snprintf(command, sizeof(command), "cd '%s' && %s", folder.path, script);
	shell = popen(command, "we");
	cr_assert_not_null(shell);
	cr_assert_eq(pclose(shell), 0, "%s", command);
}

Test(disk, T1_folders_that_are_removed_or_cannot_be_made_cost_the_caching_until_they_can)
{
	static const struct {
		const char *before; /* the cache is opened */
		const char *during;
		const char *repair;
	} rows[] = {
		{"true", "rm -rf packs", "true"},
		{"true", "rm -rf \"$PWD\"", "true"},
		{"true", "rm -rf packs && touch packs", "rm packs"},
		{"touch packs", "true", "rm packs"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ldr_disk_cache *cache;
		struct ldr_disk_stat stat;

		mkdir(folder.path, 0700);
		harm("rm -rf *");
		harm(rows[i].before);
		cache = test_cache_open(&folder);
		put_many(cache, 1, 1);
		harm(rows[i].during);
		ldr_disk_flush(cache, NULL);
		put_many(cache, 2, 1);
		if (i != 1)
			harm(rows[i].repair);
		/* The longest back-off. */
		folder.time.now_ns += UINT64_C(61000000000);
		put_many(cache, 3, 1);
		cr_expect_eq(ldr_disk_flush(cache, NULL), LDR_OK, "row %zu", i);
		stat = test_cache_stat(cache);
		cr_expect_gt(stat.puts_dropped, 0u, "row %zu", i);
		cr_expect(stat.writable, "row %zu: %s", i, stat.trouble);
		cr_expect_eq(read_many(cache, 3, 1), 1u, "row %zu", i);
		ldr_disk_close(cache);
		cache = test_cache_open(&folder);
		cr_expect_eq(read_many(cache, 3, 1), 1u, "row %zu: the next process", i);
		ldr_disk_close(cache);
	}
}

Test(disk, T5_a_pack_that_cannot_be_opened_is_let_go_and_its_blocks_are_kept_anew)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);

	put_many(cache, 0, 3);
	ldr_disk_close(cache);
	/* A root may open anything but this. */
	harm("cd packs && for pack in *.pack; do ln -sf nowhere $pack; done");
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 3), 0u);
	put_many(cache, 0, 3);
	cr_expect_neq(ldr_disk_flush(cache, NULL), LDR_OK);
	cr_expect_eq(test_cache_stat(cache).puts_dropped, 3u);
	folder.time.now_ns += UINT64_C(61000000000);
	put_many(cache, 0, 3);
	cr_expect_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	cr_expect_eq(read_many(cache, 0, 3), 3u);
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 3), 3u);
	cr_expect_eq(test_cache_stat(cache).puts, 0u);
	ldr_disk_close(cache);
}

/* What is put again makes the very pack that has lost blocks, and would be taken for it. */
Test(disk, T3_a_fresh_copy_takes_the_name_of_the_pack_that_went_bad)
{
	static const struct {
		enum ldr_seam_call call;
		int code;
	} rows[] = {
		{LDR_SEAM_READ, 5 /* EIO */},
		{LDR_SEAM_OPEN, 13 /* EACCES */},
		{LDR_SEAM_OPEN, 24 /* EMFILE */},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_disk_cache *cache = test_cache_open(&folder);

		put_many(cache, 0, 1);
		ldr_disk_close(cache);
		cache = test_cache_open(&folder);
		ldr_seam_reset();
		ldr_seam_fail(rows[i].call, 1, 1000, rows[i].code);
		cr_expect_eq(read_many(cache, 0, 1), 0u, "row %zu", i);
		ldr_seam_reset();
		put_many(cache, 0, 1);
		cr_expect_eq(read_many(cache, 0, 1), 1u, "row %zu: kept anew", i);
		ldr_disk_close(cache);
		cache = test_cache_open(&folder);
		cr_expect_eq(read_many(cache, 0, 1), 1u, "row %zu: and stays", i);
		cr_assert_eq(ldr_disk_trim(cache, 0, NULL), LDR_OK);
		ldr_disk_close(cache);
	}
}

/* `lookup`, FORMAT and `generation` are within the quota too, at every moment and after closing. */
Test(disk, T10_small_quotas_hold_when_the_cache_is_closed)
{
	for (uint32_t length = 900; length < 9000; length += 1350) {
		struct ldr_disk_cache *cache;

		folder.options.quota_bytes = 131072;
		cache = test_cache_open(&folder);
		for (uint32_t seed = 0; seed < 150; seed++) {
			test_cache_put(&folder, cache, seed * 10000 + length, length);
			folder.time.wall_s++;
		}
		cr_expect_leq(test_folder_bytes(&folder), 131072u, "length %u, in use", length);
		cr_expect_gt(test_cache_stat(cache).evicted_packs, 0u, "length %u", length);
		ldr_disk_close(cache);
		cr_expect_leq(test_folder_bytes(&folder), 131072u, "length %u, closed", length);
		cr_expect_geq(test_folder_bytes(&folder), 65536u, "length %u: is used", length);
	}
}

Test(disk, T10_T19_quota_holds_and_what_is_used_stays)
{
	struct ldr_disk_cache *cache;
	const uint64_t quota = 60 * BLOCK;
	struct ldr_disk_stat stat;
	uint64_t most = 0;

	folder.options.quota_bytes = quota;
	folder.options.seal_bytes = 4 * BLOCK;
	cache = test_cache_open(&folder);
	put_many(cache, 0, 4);
	for (uint32_t seed = 100; seed < 700; seed++) {
		folder.time.wall_s++;
		test_cache_put(&folder, cache, seed, BLOCK);
		if (seed % 4 == 0)
			cr_assert_eq(test_cache_read(&folder, cache, 0, BLOCK), LDR_OK,
				     "used all the time, seed %u", seed);
		if (test_folder_bytes(&folder) > most)
			most = test_folder_bytes(&folder);
	}
	cr_expect_leq(most, quota, "%llu of %llu", (unsigned long long)most,
		      (unsigned long long)quota);
	cr_expect_gt(most, quota / 2);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.puts_dropped, 0);
	cr_expect_gt(stat.evicted_packs, 100);
	cr_expect_eq(read_many(cache, 100, 4), 0, "the oldest unused went");
	cr_expect_eq(read_many(cache, 696, 4), 4);
	ldr_disk_close(cache);
	cr_expect_leq(test_folder_bytes(&folder), quota);
}

Test(disk, T10_the_floor_stops_the_caching)
{
	struct ldr_disk_cache *cache;
	struct ldr_disk_stat stat;

	folder.options.free_floor_bytes = UINT64_C(1) << 60;
	cache = test_cache_open(&folder);
	put_many(cache, 0, 3);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.puts_dropped, 3);
	cr_expect_not(stat.writable);
	cr_expect_not_null(strstr(stat.trouble, "floor"), "%s", stat.trouble);
	cr_expect_eq(test_folder_count(&folder, "packs", ""), 0);
	ldr_disk_close(cache);
}

Test(disk, T11_a_cache_far_over_its_quota_opens_at_once_and_shrinks_in_steps)
{
	struct ldr_disk_cache *cache;
	unsigned packs, before;

	folder.options.seal_bytes = BLOCK / 2;
	cache = test_cache_open(&folder);
	put_many(cache, 0, 60);
	ldr_disk_close(cache);
	cache = test_cache_open(&folder);
	put_many(cache, 0, 60);
	cr_assert_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	before = test_folder_count(&folder, "packs", ".pack");
	cr_assert_gt(before, 0);
	ldr_disk_close(cache);
	folder.options.quota_bytes = 20 * BLOCK;
	cache = test_cache_open(&folder);
	packs = test_folder_count(&folder, "packs", ".pack");
	cr_expect_eq(packs, before, "opening evicts nothing");
	for (uint32_t seed = 1000; seed < 1010; seed++) {
		test_cache_put(&folder, cache, seed, BLOCK);
		cr_expect_leq(packs - test_folder_count(&folder, "packs", ".pack"), 17);
		packs = test_folder_count(&folder, "packs", ".pack");
		folder.time.now_ns += UINT64_C(100000000000);
	}
	cr_expect_leq(test_folder_bytes(&folder), folder.options.quota_bytes);
	ldr_disk_close(cache);
}

Test(disk, T19_clear_works_beside_a_reader)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);
	struct ldr_disk_stat stat;

	put_many(cache, 0, 10);
	cr_assert_eq(ldr_disk_trim(cache, 0, NULL), LDR_OK);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.packs, 0);
	cr_expect_eq(stat.blocks, 0);
	cr_expect_eq(test_folder_count(&folder, "packs", ""), 0);
	cr_expect_eq(read_many(cache, 0, 10), 0);
	put_many(cache, 0, 10);
	cr_expect_eq(read_many(cache, 0, 10), 10);
	ldr_disk_close(cache);
}

Test(disk, read_only_reads_and_writes_nothing)
{
	struct ldr_disk_cache *cache = NULL;
	struct ldr_disk_stat stat;
	char missing[256];
	uint64_t bytes;

	snprintf(missing, sizeof(missing), "%s/none", folder.path);
	folder.options.read_only = true;
	cr_expect_eq(ldr_disk_open(missing, &folder.options, &cache, NULL), LDR_ENOTFOUND);
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 1), 0);
	cr_expect_eq(test_folder_count(&folder, "", ""), 0, "not even FORMAT");
	ldr_disk_close(cache);
	folder.options.read_only = false;
	cache = test_cache_open(&folder);
	put_many(cache, 0, 3);
	ldr_disk_close(cache);
	bytes = test_folder_bytes(&folder);
	folder.options.read_only = true;
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 3), 3);
	put_many(cache, 5, 3);
	cr_expect_eq(ldr_disk_trim(cache, 0, NULL), LDR_EDENIED);
	cr_expect_eq(ldr_disk_flush(cache, NULL), LDR_OK);
	stat = test_cache_stat(cache);
	cr_expect_eq(stat.puts_dropped, 3);
	cr_expect_not(stat.writable);
	cr_expect_neq(stat.trouble[0], '\0');
	ldr_disk_close(cache);
	cr_expect_eq(test_folder_bytes(&folder), bytes);
}

Test(disk, many_packs_need_few_descriptors_and_become_one)
{
	struct ldr_disk_cache *cache;
	unsigned before, descriptors;

	folder.options.seal_bytes = 2 * BLOCK;
	cache = test_cache_open(&folder);
	before = test_folder_count(&folder, "/proc/self/fd", "");
	put_many(cache, 0, 200);
	cr_expect_gt(test_folder_count(&folder, "packs", ".pack"), 90);
	cr_expect_eq(read_many(cache, 0, 200), 200);
	descriptors = test_folder_count(&folder, "/proc/self/fd", "");
	cr_expect_leq(descriptors - before, 32, "%u descriptors", descriptors - before);
	ldr_disk_close(cache);
	folder.options.seal_bytes = 0;
	cache = test_cache_open(&folder);
	ldr_disk_close(cache);
	cr_expect_eq(test_folder_count(&folder, "packs", ".pack"), 1, "merged");
	cache = test_cache_open(&folder);
	cr_expect_eq(read_many(cache, 0, 200), 200);
	ldr_disk_close(cache);
}

Test(disk, T17_while_a_read_hangs_the_others_pass_by)
{
	struct ldr_disk_cache *cache = test_cache_open(&folder);

	put_many(cache, 0, 3);
	/* As if another thread had begun a read just now, and were still in it. */
	cache->reading[5] = folder.time.now_ns;
	folder.time.now_ns += UINT64_C(1900000000);
	cr_expect_eq(read_many(cache, 0, 3), 3, "not yet for long");
	folder.time.now_ns += UINT64_C(200000000);
	cr_expect_eq(read_many(cache, 0, 3), 0);
	cr_expect_eq(test_cache_stat(cache).bad_blocks, 0);
	cache->reading[5] = 0;
	cr_expect_eq(read_many(cache, 0, 3), 3, "the disk has answered");
	ldr_disk_close(cache);
}
