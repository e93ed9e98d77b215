/*
 * Objects of a store as bytes in memory: what is opened, what is refused, what is noticed, what is let
 * go; and the guard of mappings.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "packs/pack.h"
#include "server/guard.h"
#include "server/objects.h"

#define PACK_BYTES 20000u

struct held_clock {
	struct ldr_clock clock;
	uint64_t ms;
};

static uint64_t held_now(const struct ldr_clock *clock)
{
	const struct held_clock *held = clock->context;

	return held->ms * 1000000;
}

static int64_t held_wall(const struct ldr_clock *clock)
{
	(void)clock;
	return 0;
}

struct fixture {
	char folder[64];
	struct ldr_root *root;
	struct ldr_objects *objects;
	struct held_clock held;
};

static void begin(struct fixture *f, size_t max_objects, size_t max_copied_bytes)
{
	struct ldr_objects_options options = {
		.clock = &f->held.clock,
		.max_objects = max_objects,
		.max_copied_bytes = max_copied_bytes,
		.recheck_ms = 1000,
	};

	f->held = (struct held_clock){.ms = 1};
	f->held.clock = (struct ldr_clock){held_now, held_wall, &f->held};
	snprintf(f->folder, sizeof(f->folder), "/tmp/larder-objects-XXXXXX");
	cr_assert_not_null(mkdtemp(f->folder));
	cr_assert_eq(ldr_root_open(f->folder, false, &f->root, NULL), LDR_OK);
	options.root = f->root;
	cr_assert_eq(ldr_objects_new(&options, &f->objects, NULL), LDR_OK);
}

static void finish(struct fixture *f)
{
	char command[128];

	ldr_objects_free(f->objects);
	ldr_root_close(f->root);
	snprintf(command, sizeof(command), "rm -rf %s", f->folder);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
}

static struct ldr_object_name channel(const char *name)
{
	struct ldr_object_name object = {.kind = LDR_OBJECT_CHANNEL};

	snprintf(object.channel, sizeof(object.channel), "%s", name);
	return object;
}

static struct ldr_object_name pack(uint8_t first)
{
	struct ldr_object_name object = {.kind = LDR_OBJECT_PACK};

	object.pack.bytes[0] = first;
	return object;
}

static void publish(struct fixture *f, const struct ldr_object_name *name, const void *bytes,
		    size_t length)
{
	struct ldr_publish_options options = {.make_parents = true};
	char path[LDR_STORE_PATH_BYTES];

	ldr_store_path(name, path);
	cr_assert_eq(ldr_publish(f->root, path, bytes, length, &options, NULL, NULL), LDR_OK);
}

/* Header, filling, a table of 100 bytes and a trailer that may tell another position. */
static uint8_t *fill_pack(uint8_t *bytes, size_t length, uint64_t off_by)
{
	memset(bytes, 0x77, length);
	memcpy(bytes, LDR_PACK_MAGIC, 8);
	ldr_put_le(bytes + length - 32, 8, length - 132 + off_by);
	ldr_put_le(bytes + length - 24, 8, 100);
	memcpy(bytes + length - 8, LDR_PACK_TRAILER_MAGIC, 8);
	return bytes;
}

static enum ldr_status get(struct fixture *f, struct ldr_object_name name,
			   struct ldr_object **object, struct ldr_error *err)
{
	*object = NULL;
	return ldr_objects_get(f->objects, &name, object, err);
}

static size_t open_count(struct fixture *f)
{
	struct ldr_objects_stat stat;

	ldr_objects_stat(f->objects, &stat);
	return stat.opened;
}

Test(objects, a_small_object_is_its_bytes_and_their_digest)
{
	struct fixture f;
	struct ldr_object *object;
	struct ldr_object *again;

	begin(&f, 0, 0);
	publish(&f, &(struct ldr_object_name){.kind = LDR_OBJECT_CHANNEL, .channel = "live"}, "abc",
		3);
	cr_assert_eq(get(&f, channel("live"), &object, NULL), LDR_OK);
	cr_expect_eq(ldr_object_length(object), 3);
	cr_expect_eq(memcmp(ldr_object_bytes(object), "abc", 3), 0);
	cr_expect_str_eq(ldr_object_etag(object), "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a"
						  "9cb410ff61f20015ad\"");
	cr_assert_eq(get(&f, channel("live"), &again, NULL), LDR_OK);
	cr_expect_eq(object, again, "the same object serves both");
	cr_expect_eq(open_count(&f), 1);
	ldr_object_unref(object);
	ldr_object_unref(again);
	finish(&f);
}

Test(objects, a_channel_that_moves_is_seen_at_once_and_old_bytes_stay_readable)
{
	struct fixture f;
	struct ldr_object_name live = channel("live");
	struct ldr_object *first;
	struct ldr_object *second;

	begin(&f, 0, 0);
	publish(&f, &live, "one", 3);
	cr_assert_eq(get(&f, live, &first, NULL), LDR_OK);
	publish(&f, &live, "two", 3);
	cr_assert_eq(get(&f, live, &second, NULL), LDR_OK);
	cr_expect_eq(memcmp(ldr_object_bytes(second), "two", 3), 0);
	cr_expect_eq(memcmp(ldr_object_bytes(first), "one", 3), 0);
	ldr_object_unref(first);
	ldr_object_unref(second);
	finish(&f);
}

Test(objects, packs_are_checked_against_their_trailer)
{
	static uint8_t bytes[PACK_BYTES];
	struct fixture f;
	struct ldr_object_name name = pack(1);
	struct ldr_object *object;
	struct ldr_error error = {0};

	begin(&f, 0, 0);
	cr_expect_eq(get(&f, name, &object, &error), LDR_ENOTFOUND);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES);
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
	cr_expect_eq(ldr_object_length(object), PACK_BYTES);
	cr_expect_eq(memcmp(ldr_object_bytes(object), bytes, PACK_BYTES), 0);
	cr_expect_eq(strncmp(ldr_object_etag(object), "\"0100", 5), 0);
	ldr_object_unref(object);

	name = pack(2);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 1), PACK_BYTES);
	cr_expect_eq(get(&f, name, &object, &error), LDR_ECORRUPT, "the table elsewhere");
	cr_expect_not_null(strstr(error.text, "20000"), "%s", error.text);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES - 1);
	cr_expect_eq(get(&f, name, &object, &error), LDR_ECORRUPT, "the end missing");
	publish(&f, &name, bytes, 95);
	cr_expect_eq(get(&f, name, &object, &error), LDR_ECORRUPT, "too short for any pack");
	publish(&f, &name, "", 0);
	cr_expect_eq(get(&f, name, &object, &error), LDR_ECORRUPT, "empty");
	finish(&f);
}

Test(objects, a_symlink_or_folder_is_never_served)
{
	struct fixture f;
	struct ldr_object *object;
	char path[128];

	begin(&f, 0, 0);
	cr_assert_eq(ldr_root_make_folder(f.root, "channels/folder", NULL), LDR_OK);
	snprintf(path, sizeof(path), "%s/channels/link", f.folder);
	cr_assert_eq(symlink("/etc/passwd", path), 0);
	cr_expect_neq(get(&f, channel("folder"), &object, NULL), LDR_OK);
	cr_expect_neq(get(&f, channel("link"), &object, NULL), LDR_OK);
	finish(&f);
}

Test(objects, a_removed_pack_is_missed_after_the_recheck_and_at_once_when_forgotten)
{
	static uint8_t bytes[PACK_BYTES];
	struct fixture f;
	struct ldr_object_name name = pack(1);
	struct ldr_object *object;
	char path[LDR_STORE_PATH_BYTES];

	begin(&f, 0, 0);
	ldr_store_path(&name, path);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES);
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
	ldr_object_unref(object);
	cr_assert_eq(ldr_root_remove(f.root, path, LDR_SYNC_NONE, NULL), LDR_OK);
	f.held.ms += 999;
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK, "not looked at yet");
	ldr_object_unref(object);
	f.held.ms += 1;
	cr_expect_eq(get(&f, name, &object, NULL), LDR_ENOTFOUND);

	publish(&f, &name, bytes, PACK_BYTES);
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
	ldr_object_unref(object);
	cr_assert_eq(ldr_root_remove(f.root, path, LDR_SYNC_NONE, NULL), LDR_OK);
	ldr_objects_forget(f.objects, &name);
	cr_expect_eq(get(&f, name, &object, NULL), LDR_ENOTFOUND);
	finish(&f);
}

Test(objects, the_table_keeps_to_its_bounds_and_lets_the_least_lately_used_go)
{
	static uint8_t bytes[PACK_BYTES];
	struct fixture f;
	struct ldr_objects_stat stat;
	struct ldr_object *held;
	struct ldr_object *object;

	begin(&f, 4, 25);
	for (uint8_t i = 0; i < 6; i++) {
		struct ldr_object_name name = pack(i);

		publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES);
	}
	cr_assert_eq(get(&f, pack(0), &held, NULL), LDR_OK);
	for (uint8_t i = 1; i < 6; i++) {
		cr_assert_eq(get(&f, pack(i), &object, NULL), LDR_OK);
		ldr_object_unref(object);
	}
	ldr_objects_stat(f.objects, &stat);
	cr_expect_eq(stat.objects, 4);
	cr_expect_eq(stat.opened, 6);
	cr_expect_eq(((const uint8_t *)ldr_object_bytes(held))[100], 0x77, "still held");
	cr_assert_eq(get(&f, pack(5), &object, NULL), LDR_OK);
	ldr_object_unref(object);
	cr_expect_eq(open_count(&f), 6, "the newest is kept");
	ldr_object_unref(held);

	for (char c = 'a'; c < 'e'; c++) {
		char text[2] = {c, 0};
		struct ldr_object_name name = channel(text);

		publish(&f, &name, "0123456789", 10);
		cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
		ldr_object_unref(object);
		ldr_objects_stat(f.objects, &stat);
		cr_expect_leq(stat.copied_bytes, 25);
	}
	finish(&f);
}

static unsigned descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	cr_assert_not_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

Test(objects, a_mapping_costs_no_descriptor)
{
	static uint8_t bytes[PACK_BYTES];
	struct fixture f;
	struct ldr_object_name name = pack(1);
	struct ldr_object *object;
	unsigned before;

	begin(&f, 0, 0);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES);
	before = descriptors();
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
	cr_expect_eq(descriptors(), before);
	ldr_object_unref(object);
	finish(&f);
}

Test(objects, a_pack_cut_underneath_its_mapping_reads_as_zeros_and_is_marked)
{
	static uint8_t bytes[PACK_BYTES];
	struct fixture f;
	struct ldr_object_name name = pack(1);
	struct ldr_object *object;
	const volatile uint8_t *mapped;
	char path[LDR_STORE_PATH_BYTES];
	char whole[256];

	begin(&f, 0, 0);
	ldr_store_path(&name, path);
	publish(&f, &name, fill_pack(bytes, PACK_BYTES, 0), PACK_BYTES);
	cr_assert_eq(get(&f, name, &object, NULL), LDR_OK);
	snprintf(whole, sizeof(whole), "%s/%s", f.folder, path);
	cr_assert_eq(truncate(whole, 4096), 0);
	mapped = ldr_object_bytes(object);
	cr_expect_eq(mapped[100], 0x77, "what is left can be read");
	cr_expect_not(ldr_object_broken(object));
	cr_expect_eq(mapped[10000], 0, "the rest is zeros, not the end of the process");
	cr_expect(ldr_object_broken(object));
	ldr_object_unref(object);
	cr_expect_eq(get(&f, name, &object, NULL), LDR_ECORRUPT, "and is not served again");
	finish(&f);
}

Test(objects, a_bus_error_outside_guarded_mappings_still_ends_the_process, .signal = SIGBUS)
{
	char name[] = "/tmp/larder-guard-XXXXXX";
	int fd = mkstemp(name);
	const volatile uint8_t *mapped;

	ldr_guard_install();
	unlink(name);
	if (ftruncate(fd, 8192))
		abort();
	mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	if (ftruncate(fd, 0))
		abort();
	(void)mapped[0];
}
