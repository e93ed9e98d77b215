/*
 * Archives and releases as layers, beyond the contract that all layers share: keys, packs inside larger
 * files, files that are cut while they are mounted, very many open files, mappings, small caches read by
 * many threads, and a release through the client's view.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/archive.h"
#include "client/release_layer.h"
#include "tests/support/client_world.h"
#include "vfs/file.h"
#include "vfs/layer_tree.h"
#include "vfs/vfs.h"

#define BIG_BYTES 2000000u
#define FILES 8u
#define FILE_BYTES 400000u
#define THREADS 8u
#define READS 300u
#define FAR (5LL << 30)

static const uint8_t title_key[LDR_TITLE_KEY_BYTES] = {42, 1};

static struct client_world world;

static void setup(void)
{
	char name[32];

	client_world_make(&world);
	client_noise(&world, "tree/big", BIG_BYTES, 1);
	client_text(&world, "tree/sub/text", "the text");
	client_text(&world, "tree/empty", "");
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "tree/many/%u", i);
		client_noise(&world, name, FILE_BYTES + i, 100 + i);
	}
}

static void teardown(void)
{
	client_world_remove(&world);
}

TestSuite(layer_tree, .init = setup, .fini = teardown);

static void make_archive(enum ldr_codec_policy policy, uint32_t flags)
{
	const struct ldr_build_options build = {.size = sizeof(build), .codec = {.policy = policy}};
	char from[CLIENT_PATH_BYTES], to[CLIENT_PATH_BYTES];
	const struct ldr_archive_request request = {
		.size = sizeof(request),
		.folder = client_path(&world, "tree", from),
		.out_path = client_path(&world, "a.pack", to),
		.build = &build,
		.protection = {flags, title_key},
	};
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_archive_folder(&request, &outcome, &err), LDR_OK, "%s", err.text);
}

static enum ldr_status open_archive(const char *name, struct ldr_archive_options options,
				    struct ldr_layer **out_layer, struct ldr_error *err)
{
	char path[CLIENT_PATH_BYTES];

	options.size = sizeof(options);
	return ldr_layer_archive_open(client_path(&world, name, path), &options, out_layer, err);
}

/* An instance with the layer at its root. */
static struct ldr_vfs *mounted(struct ldr_layer *layer, uint32_t max_handles)
{
	const struct ldr_vfs_options options = {.size = sizeof(options),
						.max_handles = max_handles};
	const struct ldr_mount mount = {.id = 1, .layer = layer};
	struct ldr_error err = {0};
	struct ldr_vfs *vfs;

	cr_assert_eq(ldr_vfs_new(&options, &vfs, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_vfs_mount(vfs, &mount, &err), LDR_OK, "%s", err.text);
	ldr_layer_unref(layer);
	ldr_vfs_settle(vfs);
	return vfs;
}

static struct ldr_vfs *mount_archive(const char *name, struct ldr_archive_options options)
{
	struct ldr_error err = {0};
	struct ldr_layer *layer;

	cr_assert_eq(open_archive(name, options, &layer, &err), LDR_OK, "%s", err.text);
	return mounted(layer, 0);
}

static uint8_t *host_bytes(const char *name, size_t *out_length)
{
	char path[CLIENT_PATH_BYTES];
	FILE *file = fopen(client_path(&world, name, path), "rbe");
	uint8_t *bytes = malloc(BIG_BYTES + 1);

	cr_assert(file && bytes);
	*out_length = fread(bytes, 1, BIG_BYTES + 1, file);
	fclose(file);
	return bytes;
}

static enum ldr_status read_file(struct ldr_vfs *vfs, const char *path, void *bytes, size_t length,
				 uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_FILE struct ldr_file *file = NULL;
	enum ldr_status status = ldr_vfs_open(vfs, path, LDR_OPEN_READ, &file, err);

	return status ? status : ldr_file_pread(file, bytes, length, offset, out_length, err);
}

/* Whole, and by pieces that lie across blocks. */
static void check_same(struct ldr_vfs *vfs, const char *path)
{
	LDR_AUTO_FREE uint8_t *got = malloc(BIG_BYTES + 1);
	char host[64];
	size_t length, count;
	struct ldr_error err = {0};
	LDR_AUTO_FREE uint8_t *wanted = NULL;

	snprintf(host, sizeof(host), "tree/%s", path);
	wanted = host_bytes(host, &length);
	cr_assert_eq(read_file(vfs, path, got, BIG_BYTES + 1, 0, &count, &err), LDR_OK, "%s: %s",
		     path, err.text);
	cr_assert_eq(count, length);
	cr_assert(memcmp(got, wanted, length) == 0, "%s", path);
	for (size_t at = 0; at < length; at += 77777) {
		size_t rest = length - at < 99999 ? length - at : 99999;

		cr_assert_eq(read_file(vfs, path, got, 99999, at, &count, &err), LDR_OK);
		cr_assert_eq(count, rest);
		cr_assert(memcmp(got, wanted + at, rest) == 0, "%s at %zu", path, at);
	}
}

static void check_all(struct ldr_vfs *vfs)
{
	char name[32];

	check_same(vfs, "big");
	check_same(vfs, "sub/text");
	check_same(vfs, "empty");
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "many/%u", i);
		check_same(vfs, name);
	}
}

Test(layer_tree, keys)
{
	static const uint8_t other[LDR_TITLE_KEY_BYTES] = {43, 1};
	struct ldr_error err = {0};
	struct ldr_layer *layer;
	struct ldr_stat stat;
	struct ldr_vfs *vfs;
	uint8_t byte;
	size_t count;

	make_archive(LDR_POLICY_LZ4, LDR_PACK_FLAG_ENCRYPTED);
	cr_assert_eq(
		open_archive("a.pack", (struct ldr_archive_options){.key = other}, &layer, &err),
		LDR_EUNTRUSTED);
	vfs = mount_archive("a.pack", (struct ldr_archive_options){0});
	cr_expect_eq(ldr_vfs_stat(vfs, "big", &stat, &err), LDR_OK);
	cr_expect_eq(stat.size_bytes, BIG_BYTES);
	cr_expect_eq(read_file(vfs, "big", &byte, 1, 0, &count, &err), LDR_ENOKEY);
	cr_expect_eq(read_file(vfs, "none", &byte, 1, 0, &count, &err), LDR_ENOTFOUND);
	ldr_vfs_free(vfs);
	for (unsigned map = 0; map < 2; map++) {
		vfs = mount_archive(
			"a.pack", (struct ldr_archive_options){.key = title_key, .map = map != 0});
		check_all(vfs);
		ldr_vfs_free(vfs);
	}
}

Test(layer_tree, a_pack_inside_a_larger_file)
{
	char path[CLIENT_PATH_BYTES];
	struct ldr_error err = {0};
	struct ldr_layer *layer;
	size_t length;
	LDR_AUTO_FREE uint8_t *pack = NULL;
	FILE *file;

	client_remove(&world, "tree/big");
	client_noise(&world, "tree/big", 100000, 9);
	for (unsigned i = 3; i < FILES; i++) {
		snprintf(path, sizeof(path), "tree/many/%u", i);
		client_remove(&world, path);
	}
	make_archive(LDR_POLICY_LZ4, 0);
	pack = host_bytes("a.pack", &length);
	file = fopen(client_path(&world, "game.exe", path), "wbe");
	cr_assert(file);
	/* A hole: it takes no space, but every place behind it needs more than 32 bits. */
	cr_assert_eq(fseeko(file, FAR - 13, SEEK_SET), 0);
	cr_assert_eq(fwrite("code of the game", 1, 13, file), 13);
	cr_assert_eq(fwrite(pack, 1, length, file), length);
	cr_assert_eq(fwrite("more behind it", 1, 14, file), 14);
	fclose(file);
	for (unsigned map = 0; map < 2; map++) {
		struct ldr_archive_options options = {
			.base = FAR, .length = length, .map = map != 0};
		struct ldr_vfs *vfs = mount_archive("game.exe", options);

		check_same(vfs, "big");
		check_same(vfs, "many/2");
		ldr_vfs_free(vfs);
		options.base = FAR - 1;
		cr_expect_eq(open_archive("game.exe", options, &layer, &err), LDR_ECORRUPT);
		options.base = FAR;
		options.length = length + 15;
		cr_expect_eq(open_archive("game.exe", options, &layer, &err), LDR_ECORRUPT);
	}
}

/* V32: without `map` a file that is cut underneath is an error of the reads that need it. */
Test(layer_tree, a_file_that_is_cut_while_mounted)
{
	LDR_AUTO_FREE uint8_t *bytes = malloc(BIG_BYTES);
	char path[CLIENT_PATH_BYTES];
	struct ldr_error err = {0};
	struct ldr_vfs *vfs;
	size_t count;

	make_archive(LDR_POLICY_NONE, 0);
	vfs = mount_archive("a.pack", (struct ldr_archive_options){0});
	check_same(vfs, "many/3");
	cr_assert_eq(truncate(client_path(&world, "a.pack", path), 100), 0);
	check_same(vfs, "many/3"); /* in memory */
	cr_expect_eq(read_file(vfs, "big", bytes, BIG_BYTES, 0, &count, &err), LDR_ECORRUPT);
	cr_expect(strstr(err.text, "a.pack"), "%s", err.text);
	cr_expect_eq(read_file(vfs, "many/4", bytes, 1, 0, &count, &err), LDR_ECORRUPT);
	ldr_vfs_free(vfs);
}

static unsigned descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	cr_assert(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* V31: an open file of an archive costs a handle, never a descriptor. */
Test(layer_tree, a_hundred_thousand_open_files)
{
	enum { OPEN = 100000 };
	struct ldr_file **files = calloc(OPEN + 1, sizeof(*files));
	struct ldr_error err = {0};
	struct ldr_layer *layer;
	struct ldr_vfs *vfs;
	unsigned before;
	char name[32], text[9];
	size_t count;

	make_archive(LDR_POLICY_LZ4, 0);
	cr_assert_eq(open_archive("a.pack", (struct ldr_archive_options){0}, &layer, &err), LDR_OK);
	vfs = mounted(layer, OPEN);
	before = descriptors();
	for (unsigned i = 0; i < OPEN; i++) {
		snprintf(name, sizeof(name), "many/%u", i % FILES);
		cr_assert_eq(ldr_vfs_open(vfs, i % 2 ? name : "sub/text", LDR_OPEN_READ, &files[i],
					  &err),
			     LDR_OK, "open %u: %s", i, err.text);
	}
	cr_expect_eq(descriptors(), before);
	cr_expect_eq(ldr_vfs_open(vfs, "big", LDR_OPEN_READ, &files[OPEN], &err), LDR_ELIMIT);
	cr_assert_eq(ldr_file_pread(files[77776], text, sizeof(text), 0, &count, &err), LDR_OK);
	cr_expect(count == 8 && memcmp(text, "the text", 8) == 0);
	ldr_file_close(files[0]);
	cr_expect_eq(ldr_vfs_open(vfs, "big", LDR_OPEN_READ, &files[0], &err), LDR_OK,
		     "one was given back");
	for (unsigned i = 0; i < OPEN; i++)
		ldr_file_close(files[i]);
	free(files);
	ldr_vfs_free(vfs);
}

Test(layer_tree, a_mapping_outlives_its_mount)
{
	struct ldr_mapping mapping, other;
	struct ldr_error err = {0};
	struct ldr_file *file;
	struct ldr_vfs *vfs;

	make_archive(LDR_POLICY_LZ4, 0);
	vfs = mount_archive("a.pack", (struct ldr_archive_options){0});
	cr_assert_eq(ldr_vfs_open(vfs, "sub/text", LDR_OPEN_READ, &file, &err), LDR_OK);
	cr_assert_eq(ldr_file_map(file, 4, 4, 0, &mapping, &err), LDR_OK, "%s", err.text);
	cr_expect_not(mapping.copied);
	ldr_file_close(file);
	/* Several blocks do not lie side by side. */
	cr_assert_eq(ldr_vfs_open(vfs, "big", LDR_OPEN_READ, &file, &err), LDR_OK);
	cr_expect_eq(ldr_file_map(file, 0, BIG_BYTES, 0, &other, &err), LDR_EUNSUPPORTED);
	ldr_file_close(file);
	cr_assert_eq(ldr_vfs_unmount(vfs, 1, false, &err), LDR_OK);
	cr_expect(mapping.length == 4 && memcmp(mapping.bytes, "text", 4) == 0);
	ldr_file_unmap(&mapping);
	ldr_vfs_free(vfs);
}

/* ---- many threads, a cache that holds a part ---- */

struct reader {
	struct ldr_vfs *vfs;
	uint8_t *const *wanted;
	unsigned seed;
	unsigned wrong;
	pthread_t handle;
};

static void *read_at_random(void *context)
{
	struct reader *reader = context;
	uint8_t bytes[20000];

	for (unsigned i = 0; i < READS; i++) {
		unsigned number = (unsigned)rand_r(&reader->seed) % FILES;
		size_t offset = (size_t)rand_r(&reader->seed) % FILE_BYTES;
		size_t length = (size_t)rand_r(&reader->seed) % sizeof(bytes);
		size_t left = FILE_BYTES + number - offset, count = 0;
		char name[32];

		snprintf(name, sizeof(name), "many/%u", number);
		if (read_file(reader->vfs, name, bytes, length, offset, &count, NULL) != LDR_OK ||
		    count != (length < left ? length : left) ||
		    memcmp(bytes, reader->wanted[number] + offset, count) != 0)
			reader->wrong++;
	}
	return NULL;
}

static void read_by_threads(struct ldr_vfs *vfs)
{
	struct reader readers[THREADS];
	uint8_t *wanted[FILES];

	for (unsigned i = 0; i < FILES; i++) {
		char name[32];
		size_t length;

		snprintf(name, sizeof(name), "tree/many/%u", i);
		wanted[i] = host_bytes(name, &length);
		cr_assert_eq(length, FILE_BYTES + i);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){.vfs = vfs, .wanted = wanted, .seed = i};
		cr_assert_eq(pthread_create(&readers[i].handle, NULL, read_at_random, &readers[i]),
			     0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(readers[i].handle, NULL);
		cr_expect_eq(readers[i].wrong, 0, "thread %u", i);
	}
	for (unsigned i = 0; i < FILES; i++)
		free(wanted[i]);
}

Test(layer_tree, threads_read_the_bytes_whatever_the_cache_holds)
{
	static const size_t sizes[] = {4096, 700000, 2000000, 64u << 20};
	static const uint32_t flags[] = {0, LDR_PACK_FLAG_ENCRYPTED, 0, LDR_PACK_FLAG_XOR};

	for (unsigned i = 0; i < 4; i++) {
		struct ldr_vfs *vfs;

		make_archive(i % 2 ? LDR_POLICY_LZ4 : LDR_POLICY_NONE, flags[i]);
		vfs = mount_archive("a.pack", (struct ldr_archive_options){.memory_bytes = sizes[i],
									   .key = title_key,
									   .map = i >= 2});
		read_by_threads(vfs);
		ldr_vfs_free(vfs);
	}
}

Test(layer_tree, a_release_is_read_from_its_store_and_then_offline)
{
	struct ldr_public_key *const keys[] = {world.public_key};
	char source[2 * CLIENT_PATH_BYTES];
	struct ldr_view_options options = {.cache_path = world.cache_path,
					   .keys = keys,
					   .key_count = 1,
					   .memory_bytes = 1u << 20};
	LDR_AUTO_LOCATION struct ldr_location location = {0};
	struct ldr_error err = {0};

	client_publish(&world, "tree", "live");
	snprintf(source, sizeof(source), "%s#live", world.store_path);
	cr_assert_eq(ldr_location_parse_source(source, &location, &err), LDR_OK, "%s", err.text);
	for (unsigned round = 0; round < 2; round++) {
		struct ldr_layer *layer;
		struct ldr_vfs *vfs;

		options.offline = round == 1;
		cr_assert_eq(ldr_release_layer_open(&location, &options, &layer, &err), LDR_OK,
			     "%s", err.text);
		cr_expect_str_eq(ldr_layer_kind(layer), "release");
		vfs = mounted(layer, 0);
		if (round == 0)
			check_all(vfs);
		read_by_threads(vfs);
		ldr_vfs_free(vfs);
	}
}
