/*
 * The source: where a block comes from, who shares it, and what happens when it does not come. The
 * upstream is a fake that finds a block's contents by its place: the offset is the seed.
 */
#include "cache/source.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source_priv.h"
#include "tests/unit/cache/blocks.h"
#include "tests/unit/cache/folder.h"

#define BLOCK 30000u
#define THREADS 8u

enum manner {
	GOOD,
	BACKWARDS,     /* the last want first, and each twice */
	WRONG_FIRST,   /* wrong bytes, then right ones: another host */
	WRONG_ALWAYS,  /* wrong bytes, then an error */
	WRONG_SILENT,  /* wrong bytes, then success */
	FAIL,          /* an error without any bytes */
	FAIL_AT_THIRD, /* the first two wants arrive */
	NOTHING,       /* success without any bytes */
};

struct fake {
	struct ldr_upstream table;
	enum manner manner;
	atomic_uint calls;
	atomic_uint blocks;
	atomic_size_t most_bytes; /* wanted by one call */
	/* A call waits until so many readers have joined the flight of its first want. */
	struct ldr_source *source;
	unsigned readers;
	/* One failure, then all is well. */
	bool fails_once;
};

static struct test_folder folder;
static struct fake fake;

static unsigned readers_of(struct ldr_source *source, const struct ldr_id *id)
{
	struct ldr_flight *flight;
	unsigned readers = 0;

	ldr_mutex_lock(&source->flights.lock);
	flight = source->flights.heads[ldr_id_hash(id) % LDR_FLIGHT_HEADS];
	while (flight && !ldr_id_equal(&flight->block.id, id))
		flight = flight->next;
	/* One reference is that of the request itself. */
	if (flight)
		readers = flight->references - (flight->ask != NULL);
	ldr_mutex_unlock(&source->flights.lock);
	return readers;
}

typedef enum ldr_status arrived_function(void *arrival, size_t want, const void *stored,
					 struct ldr_error *err);

static enum ldr_status give(const struct ldr_placed_block *wants, size_t which, bool wrong,
			    arrived_function *arrived, void *arrival, struct ldr_error *err)
{
	uint8_t *bytes = malloc(LDR_BLOCK_MAX_BYTES);
	enum ldr_status status;

	test_block_fill((uint32_t)wants[which].place.offset, wants[which].block.plain_bytes, bytes);
	bytes[wants[which].block.plain_bytes / 2] ^= wrong;
	status = arrived(arrival, which, bytes, err);
	free(bytes);
	atomic_fetch_add(&fake.blocks, 1);
	return status;
}

static enum ldr_status fail_net(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENET, "host a.example: connection refused");
}

static enum ldr_status give_backwards(const struct ldr_placed_block *wants, size_t count,
				      arrived_function *arrived, void *arrival)
{
	for (size_t i = 2 * count; i > 0; i--)
		cr_assert_eq(give(wants, (i - 1) / 2, false, arrived, arrival, NULL), LDR_OK);
	return LDR_OK;
}

static enum ldr_status give_wrong(const struct ldr_placed_block *wants, size_t count,
				  arrived_function *arrived, void *arrival, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; i < count; i++) {
		status = give(wants, i, true, arrived, arrival, err);
		cr_assert_eq(status, LDR_ECORRUPT);
		if (fake.manner == WRONG_FIRST)
			status = give(wants, i, false, arrived, arrival, err);
		if (status)
			return fake.manner == WRONG_SILENT ? LDR_OK : status;
	}
	return status;
}

static enum ldr_status fetch(void *context, const struct ldr_placed_block *wants, size_t count,
			     arrived_function *arrived, void *arrival, struct ldr_error *err)
{
	size_t bytes = 0;

	cr_assert_eq(context, &fake);
	cr_assert_gt(count, 0);
	atomic_fetch_add(&fake.calls, 1);
	for (size_t i = 0; i < count; i++)
		bytes += wants[i].block.plain_bytes;
	if (bytes > fake.most_bytes)
		fake.most_bytes = bytes;
	while (fake.readers && readers_of(fake.source, &wants[0].block.id) < fake.readers)
		sched_yield();
	if (fake.fails_once) {
		fake.fails_once = false;
		fake.readers = 0;
		return fail_net(err);
	}
	switch (fake.manner) {
	case FAIL:
		return fail_net(err);
	case NOTHING:
		return LDR_OK;
	case BACKWARDS:
		return give_backwards(wants, count, arrived, arrival);
	case WRONG_FIRST:
	case WRONG_ALWAYS:
	case WRONG_SILENT:
		return give_wrong(wants, count, arrived, arrival, err);
	default:
		break;
	}
	for (size_t i = 0; i < count; i++) {
		if (fake.manner == FAIL_AT_THIRD && i == 2)
			return fail_net(err);
		cr_assert_eq(give(wants, i, false, arrived, arrival, err), LDR_OK);
	}
	return LDR_OK;
}

static void setup(void)
{
	test_folder_make(&folder);
	fake = (struct fake){.table = {.context = &fake, .fetch = fetch}};
}

static void teardown(void)
{
	test_folder_remove(&folder);
}

TestSuite(source, .init = setup, .fini = teardown);

static struct ldr_placed_block want_of(uint32_t seed, uint32_t length)
{
	static uint8_t bytes[LDR_BLOCK_MAX_BYTES];
	struct ldr_placed_block want = {
		.place = {.offset = seed, .stored_bytes = length, .codec = LDR_CODEC_NONE}};

	want.block = test_block_fill(seed, length, bytes);
	return want;
}

static enum ldr_status read_one(struct ldr_source *source, uint32_t seed, struct ldr_error *err)
{
	uint8_t *plain = calloc(1, BLOCK);
	struct ldr_placed_block want = want_of(seed, BLOCK);
	enum ldr_status status = ldr_source_read(source, &want, plain, err);

	if (status == LDR_OK)
		cr_assert(test_block_is(seed, BLOCK, plain), "seed %u: wrong bytes", seed);
	free(plain);
	return status;
}

static struct ldr_source *source_of(struct ldr_memory_cache *memory, struct ldr_disk_cache *disk)
{
	struct ldr_source *source = NULL;

	cr_assert_eq(ldr_source_new(memory, disk, &source, NULL), LDR_OK);
	ldr_source_set_upstream(source, &fake.table);
	fake.source = source;
	return source;
}

static struct ldr_memory_cache *memory_of(size_t bytes)
{
	struct ldr_memory_cache *memory = NULL;

	cr_assert_eq(ldr_memory_cache_new(bytes, &memory, NULL), LDR_OK);
	return memory;
}

static struct ldr_source_stat stat_of(struct ldr_source *source)
{
	struct ldr_source_stat stat;

	ldr_source_stat(source, &stat);
	return stat;
}

/* A pack with the blocks of these seeds, as an archive would be. */
static struct ldr_pack *pack_of(uint32_t first, uint32_t count, char path[512])
{
	struct test_folder other;
	struct ldr_disk_cache *cache;
	struct ldr_pack *pack = NULL;
	char from[512];
	size_t length;
	uint8_t *bytes;

	test_folder_make(&other);
	cache = test_cache_open(&other);
	for (uint32_t seed = first; seed < first + count; seed++)
		test_cache_put(&other, cache, seed, BLOCK);
	ldr_disk_close(cache);
	test_folder_pack(&other, 0, from);
	bytes = test_file_read(&other, from, &length);
	snprintf(path, 512, "%s/archive", folder.path);
	test_file_write(&folder, path, bytes, length);
	free(bytes);
	test_folder_remove(&other);
	cr_assert_eq(ldr_pack_open(path, NULL, &pack, NULL), LDR_OK);
	return pack;
}

Test(source, a_block_comes_from_the_nearest_place)
{
	struct ldr_memory_cache *memory = memory_of(4 << 20);
	struct ldr_disk_cache *disk = test_cache_open(&folder);
	struct ldr_source *source = source_of(memory, disk);
	struct ldr_source_stat stat;
	struct ldr_id id = want_of(1, BLOCK).block.id;

	cr_expect_not(ldr_source_holds(source, &id));
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	cr_expect(ldr_source_holds(source, &id));
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	ldr_memory_clear(memory);
	cr_expect(ldr_source_holds(source, &id));
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	stat = stat_of(source);
	cr_expect_eq(stat.from_upstream, 1);
	cr_expect_eq(stat.upstream_bytes, BLOCK);
	cr_expect_eq(stat.from_memory, 2);
	cr_expect_eq(stat.from_disk, 1);
	cr_expect_eq(stat.from_packs, 0);
	cr_expect_eq(stat.shared, 0);
	cr_expect_eq(fake.calls, 1);
	ldr_source_free(source);
	/* Without memory and disk every read goes up. */
	source = source_of(NULL, NULL);
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	cr_expect_eq(fake.calls, 3);
	ldr_source_free(source);
	ldr_source_free(NULL);
	ldr_memory_cache_free(memory);
	ldr_disk_close(disk);
}

Test(source, T57_what_an_archive_holds_is_neither_fetched_nor_cached)
{
	struct ldr_memory_cache *memory = memory_of(4 << 20);
	struct ldr_disk_cache *disk = test_cache_open(&folder);
	struct ldr_source *source = source_of(memory, disk);
	struct ldr_source_stat stat;
	struct ldr_disk_stat disk_stat;
	char path[512];
	struct ldr_pack *pack = pack_of(1, 5, path);

	cr_assert_eq(ldr_source_add_pack(source, pack, NULL), LDR_OK);
	ldr_pack_unref(pack);
	for (uint32_t seed = 1; seed <= 5; seed++)
		cr_assert_eq(read_one(source, seed, NULL), LDR_OK);
	cr_assert_eq(read_one(source, 5, NULL), LDR_OK);
	stat = stat_of(source);
	ldr_disk_stat(disk, &disk_stat);
	cr_expect_eq(fake.calls, 0);
	cr_expect_eq(disk_stat.puts + disk_stat.puts_dropped, 0);
	cr_expect_eq(stat.from_packs, 5);
	cr_expect_eq(stat.from_memory, 1);
	ldr_source_free(source);
	ldr_memory_cache_free(memory);
	ldr_disk_close(disk);
}

Test(source, a_damaged_archive_is_helped_by_the_upstream_and_named_without_one)
{
	const struct ldr_upstream none = {0};
	struct ldr_source *source = source_of(NULL, NULL);
	struct ldr_error err = {0};
	char path[512];
	struct ldr_pack *pack = pack_of(1, 2, path);
	uint8_t *bytes;
	size_t length;

	bytes = test_file_read(&folder, path, &length);
	bytes[200] ^= 1;
	test_file_write(&folder, path, bytes, length);
	free(bytes);
	ldr_pack_unref(pack);
	cr_assert_eq(ldr_pack_open(path, NULL, &pack, NULL), LDR_OK);
	cr_assert_eq(ldr_source_add_pack(source, pack, NULL), LDR_OK);
	ldr_pack_unref(pack);
	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	cr_assert_eq(read_one(source, 2, NULL), LDR_OK);
	cr_expect_eq(fake.calls, 1, "only the damaged one");
	ldr_source_set_upstream(source, &none);
	cr_expect_eq(read_one(source, 1, &err) + read_one(source, 2, &err), LDR_ECORRUPT);
	cr_expect_not_null(strstr(err.text, "archive"), "%s", err.text);
	cr_expect_eq(read_one(source, 9, &err), LDR_EOFFLINE);
	ldr_source_free(source);
}

Test(source, whatever_the_upstream_does_gives_right_bytes_or_an_error)
{
	static const struct {
		enum manner manner;
		enum ldr_status one, many;
		unsigned delivered; /* of five */
		const char *text;
	} rows[] = {
		{GOOD, LDR_OK, LDR_OK, 5, ""},
		{BACKWARDS, LDR_OK, LDR_OK, 5, ""},
		{WRONG_FIRST, LDR_OK, LDR_OK, 5, ""},
		{WRONG_ALWAYS, LDR_ECORRUPT, LDR_ECORRUPT, 0, "digest"},
		{WRONG_SILENT, LDR_EIO, LDR_EIO, 0, "not delivered"},
		{FAIL, LDR_ENET, LDR_ENET, 0, "a.example"},
		{FAIL_AT_THIRD, LDR_OK, LDR_ENET, 2, "a.example"},
		{NOTHING, LDR_EIO, LDR_EIO, 0, "not delivered"},
	};

	const struct ldr_id id = want_of(7, BLOCK).block.id;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_memory_cache *memory = memory_of(4 << 20);
		struct ldr_source *source = source_of(memory, NULL);
		struct ldr_error err = {0};

		fake.manner = rows[i].manner;
		cr_expect_eq(read_one(source, 7, &err), rows[i].one, "manner %d: %s",
			     rows[i].manner, err.text);
		if (rows[i].one)
			cr_expect_not_null(strstr(err.text, rows[i].text), "%s", err.text);
		cr_expect_eq(ldr_source_holds(source, &id), rows[i].one == LDR_OK,
			     "wrong bytes are kept nowhere");
		fake.manner = GOOD;
		cr_expect_eq(read_one(source, 7, NULL), LDR_OK, "T4: the next reader tries anew");
		ldr_source_free(source);
		ldr_memory_cache_free(memory);
	}
}

/* ---- many ---- */

struct taken {
	const struct ldr_placed_block *wants;
	size_t count;
	size_t stop_at;
};

static enum ldr_status take(void *context, size_t which, const void *plain, struct ldr_error *err)
{
	struct taken *taken = context;
	const struct ldr_placed_block *want = &taken->wants[which];

	cr_assert_eq(which, taken->count, "in order");
	if (taken->stop_at && which == taken->stop_at)
		return ldr_fail(err, LDR_ECANCELLED, "enough");
	taken->count++;
	cr_assert(test_block_is((uint32_t)want->place.offset, want->block.plain_bytes, plain),
		  "want %zu", which);
	return LDR_OK;
}

Test(source, many_blocks_come_in_order_by_windows)
{
	static const struct {
		enum manner manner;
		size_t window;
		bool memory, disk;
		unsigned calls;
	} rows[] = {
		{GOOD, 0, true, true, 1},
		{GOOD, 10 * BLOCK, true, true, 10},
		{BACKWARDS, 10 * BLOCK, true, false, 10},
		{GOOD, 1, false, false, 100},
		{WRONG_FIRST, 50 * BLOCK, false, true, 2},
	};
	struct ldr_placed_block wants[100];

	for (unsigned i = 0; i < 100; i++)
		wants[i] = want_of(i, BLOCK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_memory_cache *memory = rows[i].memory ? memory_of(16 << 20) : NULL;
		struct ldr_disk_cache *disk = rows[i].disk ? test_cache_open(&folder) : NULL;
		struct ldr_source *source = source_of(memory, disk);
		struct taken taken = {.wants = wants};

		fake.manner = rows[i].manner;
		fake.calls = 0;
		fake.most_bytes = 0;
		cr_assert_eq(ldr_source_read_many(source, wants, 100, rows[i].window, take, &taken,
						  NULL),
			     LDR_OK);
		cr_expect_eq(taken.count, 100);
		cr_expect_eq(fake.calls, rows[i].calls, "row %zu: %u calls", i, fake.calls);
		if (rows[i].window > BLOCK)
			cr_expect_leq(fake.most_bytes, rows[i].window, "T59: bounded");
		cr_expect_eq(stat_of(source).from_upstream, 100);
		taken.count = 0;
		cr_assert_eq(ldr_source_read_many(source, wants, 100, 0, take, &taken, NULL),
			     LDR_OK);
		if (rows[i].memory || rows[i].disk)
			cr_expect_eq(fake.calls, rows[i].calls, "all is held");
		ldr_source_free(source);
		ldr_memory_cache_free(memory);
		if (disk)
			ldr_disk_trim(disk, 0, NULL);
		ldr_disk_close(disk);
	}
}

Test(source, many_mixed_held_missing_and_repeated)
{
	struct ldr_memory_cache *memory = memory_of(16 << 20);
	struct ldr_disk_cache *disk = test_cache_open(&folder);
	struct ldr_source *source = source_of(memory, disk);
	struct ldr_placed_block wants[60];
	struct taken taken = {.wants = wants};
	struct ldr_source_stat stat;
	struct ldr_error err = {0};
	char path[512];
	struct ldr_pack *pack = pack_of(1000, 10, path);

	cr_assert_eq(ldr_source_add_pack(source, pack, NULL), LDR_OK);
	ldr_pack_unref(pack);
	for (uint32_t seed = 2000; seed < 2010; seed++)
		test_cache_put(&folder, disk, seed, BLOCK);
	for (uint32_t seed = 3000; seed < 3010; seed++)
		read_one(source, seed, NULL);
	fake.calls = 0;
	/* From each place in turn, two missing ones among them, one of these again and again. */
	for (unsigned i = 0; i < 60; i++) {
		static const uint32_t firsts[] = {1000, 2000, 3000, 4000, 4000, 5000};

		wants[i] = want_of(firsts[i % 6] + (i % 6 == 5 ? 0 : i / 6), BLOCK);
	}
	cr_assert_eq(ldr_source_read_many(source, wants, 60, 0, take, &taken, NULL), LDR_OK);
	cr_expect_eq(fake.calls, 1);
	stat = stat_of(source);
	cr_expect_eq(stat.from_packs, 10);
	cr_expect_eq(stat.from_disk, 10);
	cr_expect_eq(stat.from_memory, 10);
	cr_expect_eq(stat.from_upstream, 10 + 11);
	cr_expect_eq(stat.shared, 19);
	taken = (struct taken){.wants = wants, .stop_at = 17};
	cr_expect_eq(ldr_source_read_many(source, wants, 60, 0, take, &taken, &err),
		     LDR_ECANCELLED);
	cr_expect_str_eq(err.text, "enough");
	cr_expect_eq(taken.count, 17);
	cr_assert_eq(ldr_source_read_many(source, wants, 0, 0, take, &taken, NULL), LDR_OK);
	ldr_source_free(source);
	ldr_memory_cache_free(memory);
	ldr_disk_close(disk);
}

Test(source, lengths_that_no_block_has_are_refused_and_lies_get_nothing)
{
	struct ldr_memory_cache *memory = memory_of(4 << 20);
	struct ldr_source *source = source_of(memory, NULL);
	struct ldr_placed_block want = want_of(1, BLOCK);
	struct taken taken = {.wants = &want};
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES + 1);

	cr_assert_eq(read_one(source, 1, NULL), LDR_OK);
	fake.manner = FAIL;
	want.block.plain_bytes = BLOCK - 1;
	cr_expect_eq(ldr_source_read(source, &want, plain, NULL), LDR_ENET,
		     "the block in memory is not the wanted one");
	want.block.plain_bytes = LDR_BLOCK_MAX_BYTES;
	cr_expect_eq(ldr_source_read(source, &want, plain, NULL), LDR_ENET);
	want.block.plain_bytes = 0;
	cr_expect_eq(ldr_source_read(source, &want, plain, NULL), LDR_EINVAL);
	want.block.plain_bytes = LDR_BLOCK_MAX_BYTES + 1;
	cr_expect_eq(ldr_source_read(source, &want, plain, NULL), LDR_EINVAL);
	cr_expect_eq(ldr_source_read_many(source, &want, 1, 0, take, &taken, NULL), LDR_EINVAL);
	free(plain);
	ldr_source_free(source);
	ldr_memory_cache_free(memory);
}

/* ---- sharing ---- */

struct reader {
	struct ldr_source *source;
	enum ldr_status status;
	struct ldr_error err;
};

static void *reader_run(void *argument)
{
	struct reader *reader = argument;

	reader->status = read_one(reader->source, 42, &reader->err);
	return NULL;
}

static void start_readers(struct ldr_source *source, struct reader readers[THREADS],
			  pthread_t threads[THREADS])
{
	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){.source = source};
		cr_assert_eq(pthread_create(&threads[i], NULL, reader_run, &readers[i]), 0);
	}
}

static unsigned join_readers(struct reader readers[THREADS], pthread_t threads[THREADS],
			     enum ldr_status status)
{
	unsigned count = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		count += readers[i].status == status;
	}
	return count;
}

Test(source, T4_readers_of_one_block_share_one_fetch_its_result_and_its_error)
{
	static const struct {
		enum manner manner;
		enum ldr_status status;
	} rows[] = {{GOOD, LDR_OK},
		    {WRONG_FIRST, LDR_OK},
		    {FAIL, LDR_ENET},
		    {WRONG_ALWAYS, LDR_ECORRUPT}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_memory_cache *memory = memory_of(4 << 20);
		struct ldr_source *source = source_of(memory, NULL);
		struct reader readers[THREADS];
		pthread_t threads[THREADS];
		struct ldr_source_stat stat;

		fake.manner = rows[i].manner;
		fake.calls = 0;
		fake.readers = THREADS;
		start_readers(source, readers, threads);
		cr_expect_eq(join_readers(readers, threads, rows[i].status), THREADS);
		cr_expect_eq(fake.calls, 1, "exactly one fetch");
		stat = stat_of(source);
		if (rows[i].status == LDR_OK)
			cr_expect_eq(stat.from_upstream + stat.shared, THREADS);
		else
			cr_expect_str_eq(readers[0].err.text, readers[THREADS - 1].err.text);
		fake.readers = 0;
		fake.manner = GOOD;
		cr_expect_eq(read_one(source, 42, NULL), LDR_OK, "and nothing hangs on");
		ldr_source_free(source);
		ldr_memory_cache_free(memory);
	}
}

static void *many_run(void *argument)
{
	struct reader *reader = argument;
	struct ldr_placed_block wants[] = {want_of(42, BLOCK), want_of(43, BLOCK)};
	struct taken taken = {.wants = wants};

	reader->status = ldr_source_read_many(reader->source, wants, 2, 0, take, &taken,
					      &reader->err);
	return NULL;
}

Test(source, T26_a_demand_read_outlives_the_failure_of_a_prefetch_that_held_its_block)
{
	struct ldr_memory_cache *memory = memory_of(4 << 20);
	struct ldr_source *source = source_of(memory, NULL);
	struct reader prefetch = {.source = source}, readers[THREADS];
	pthread_t thread, threads[THREADS];
	struct ldr_id id = want_of(42, BLOCK).block.id;

	fake.fails_once = true;
	fake.readers = THREADS + 1;
	cr_assert_eq(pthread_create(&thread, NULL, many_run, &prefetch), 0);
	while (readers_of(source, &id) == 0)
		sched_yield();
	start_readers(source, readers, threads);
	pthread_join(thread, NULL);
	cr_expect_eq(prefetch.status, LDR_ENET);
	cr_expect_eq(join_readers(readers, threads, LDR_OK), THREADS);
	cr_expect_eq(fake.calls, 2, "one fetch more for all of them: %u", fake.calls);
	ldr_source_free(source);
	ldr_memory_cache_free(memory);
}
