/*
 * A cache folder for the tests: a temporary folder of its own, a clock that stands still, and the few
 * things that tests do to a cache and behind its back.
 */
#ifndef LDR_TESTS_UNIT_CACHE_FOLDER_H
#define LDR_TESTS_UNIT_CACHE_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "cache/disk.h"

struct test_clock {
	struct ldr_clock clock;
	uint64_t now_ns;
	int64_t wall_s;
};

struct test_folder {
	char path[128];
	struct test_clock time;
	struct ldr_disk_options options; /* with this clock; the floor is 1 byte */
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
};

void test_folder_make(struct test_folder *folder);
void test_folder_remove(struct test_folder *folder);

struct ldr_disk_cache *test_cache_open(struct test_folder *folder);
/* Puts the block of this seed, stored as it is or by lz4. */
void test_cache_put(struct test_folder *folder, struct ldr_disk_cache *cache, uint32_t seed,
		    uint32_t length);
/* Reads it; LDR_OK only with the right bytes. */
enum ldr_status test_cache_read(struct test_folder *folder, struct ldr_disk_cache *cache,
				uint32_t seed, uint32_t length);
struct ldr_disk_stat test_cache_stat(struct ldr_disk_cache *cache);

/* How many files there are in a folder of the cache ("" is the cache itself), whose name has this
 * ending; and the size of everything in the cache in whole pages. */
unsigned test_folder_count(const struct test_folder *folder, const char *in, const char *ending);
uint64_t test_folder_bytes(const struct test_folder *folder);
/* The i-th pack by name: its path. */
void test_folder_pack(const struct test_folder *folder, unsigned i, char path[512]);
/* Reads and writes a whole file below the folder (or by its full path). */
uint8_t *test_file_read(const struct test_folder *folder, const char *name, size_t *out_length);
void test_file_write(const struct test_folder *folder, const char *name, const void *bytes,
		     size_t length);

#endif
