/*
 * The memory layer by itself: what is put, what is refused, room that comes back, holes, and that an
 * empty layer, which costs a lookup nothing, is seen as soon as it has a name.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/vfs.h"

#define MIB ((size_t)1024 * 1024)

static struct ldr_layer *memory_of(uint64_t max_bytes)
{
	const struct ldr_memory_layer_options options = {.size = sizeof(options),
							 .max_bytes = max_bytes};
	struct ldr_layer *layer = NULL;

	cr_assert_eq(ldr_layer_memory_new(&options, &layer, NULL), LDR_OK);
	return layer;
}

static struct ldr_vfs *vfs_new(void)
{
	struct ldr_vfs *vfs = NULL;

	cr_assert_eq(ldr_vfs_new(NULL, &vfs, NULL), LDR_OK);
	return vfs;
}

static void mount_at(struct ldr_vfs *vfs, uint32_t id, struct ldr_layer *layer, const char *at,
		     unsigned flags)
{
	struct ldr_mount mount = {.id = id, .layer = layer, .at = at, .flags = flags};

	cr_assert_eq(ldr_vfs_mount(vfs, &mount, NULL), LDR_OK);
}

/* ---- an immutable layer with the one file "data" ---- */

static bool is_data(const struct ldr_layer_path *path)
{
	return path->length == 4 && memcmp(path->text, "data", 4) == 0;
}

static enum ldr_status one_stat(void *self, const struct ldr_layer_path *path, struct ldr_stat *out,
				struct ldr_error *err)
{
	(void)self;
	(void)err;
	if (path->length > 0 && !is_data(path))
		return LDR_ENOTFOUND;
	*out = (struct ldr_stat){.kind = path->length ? LDR_KIND_FILE : LDR_KIND_FOLDER};
	return LDR_OK;
}

static enum ldr_status one_open(void *self, const struct ldr_layer_path *path, unsigned how,
				struct ldr_layer_file *file, struct ldr_error *err)
{
	(void)self;
	(void)path;
	(void)how;
	(void)file;
	return ldr_fail(err, LDR_EUNSUPPORTED, "not opened here");
}

static enum ldr_status one_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				void *context, struct ldr_error *err)
{
	(void)self;
	(void)path;
	return emit(context, "data", 4, LDR_KIND_FILE, err);
}

static enum ldr_status one_walk(void *self, ldr_emit_node emit, void *context,
				struct ldr_error *err)
{
	(void)self;
	return emit(context, "data", 4, LDR_KIND_FILE, 1, err);
}

static enum ldr_status one_stat_node(void *self, uint64_t node, struct ldr_stat *out,
				     struct ldr_error *err)
{
	(void)self;
	(void)node;
	(void)err;
	*out = (struct ldr_stat){.kind = LDR_KIND_FILE};
	return LDR_OK;
}

static enum ldr_status one_open_node(void *self, uint64_t node, struct ldr_layer_file *file,
				     struct ldr_error *err)
{
	(void)node;
	return one_open(self, NULL, 0, file, err);
}

static void one_free(void *self)
{
	(void)self;
}

static const struct ldr_layer_ops one_ops = {
	.size = sizeof(one_ops),
	.kind = "one",
	.free = one_free,
	.stat = one_stat,
	.open = one_open,
	.list = one_list,
	.walk = one_walk,
	.stat_node = one_stat_node,
	.open_node = one_open_node,
};

/* Mounted at the root, so that there is a merged table and lookups skip who sleeps. */
static void mount_one(struct ldr_vfs *vfs)
{
	struct ldr_layer *layer = NULL;

	cr_assert_eq(ldr_layer_new(&one_ops, NULL, LDR_LAYER_IMMUTABLE, &layer, NULL), LDR_OK);
	mount_at(vfs, 1, layer, NULL, 0);
	ldr_layer_unref(layer);
}

static uint32_t answers(struct ldr_vfs *vfs, const char *path)
{
	struct ldr_which which;

	return ldr_vfs_which(vfs, path, &which, NULL, 0, NULL, NULL) == LDR_OK ? which.mount_id : 0;
}

Test(layer_memory, an_empty_layer_is_seen_as_soon_as_it_has_a_name)
{
	struct ldr_vfs *vfs = vfs_new(), *other = vfs_new();
	struct ldr_layer *layers[4];
	struct ldr_stat stat;

	mount_one(vfs);
	mount_one(other);
	for (uint32_t i = 0; i < 4; i++) {
		layers[i] = memory_of(0);
		mount_at(vfs, 10 + i, layers[i], i == 3 ? "deep/er" : NULL, 0);
	}
	/* One layer in two instances: only the first can be told of its names. */
	mount_at(other, 10, layers[0], NULL, 0);
	ldr_vfs_settle(vfs);
	ldr_vfs_settle(other);
	cr_assert_eq(ldr_vfs_stat(vfs, "new", &stat, NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_vfs_stat(other, "new", &stat, NULL), LDR_ENOTFOUND);
	cr_assert_eq(answers(vfs, "data"), 1);
	cr_assert_eq(ldr_layer_memory_put(layers[0], "new", "x", 1, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_stat(vfs, "new", &stat, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_stat(other, "new", &stat, NULL), LDR_OK);
	cr_assert_eq(ldr_layer_memory_put(layers[1], "data", "xy", 2, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_stat(vfs, "data", &stat, NULL), LDR_OK);
	cr_assert_eq(stat.size_bytes, 2, "the later mount hides the immutable one");
	cr_assert_eq(ldr_vfs_exists(vfs, "deep/er/x", NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_layer_memory_put(layers[3], "x", "", 0, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_exists(vfs, "deep/er/x", NULL), LDR_OK);
	/* A new snapshot takes count of who is awake by then, and the last one still sleeps. */
	cr_assert_eq(ldr_vfs_unmount(vfs, 10, false, NULL), LDR_OK);
	ldr_vfs_settle(vfs);
	cr_assert_eq(ldr_vfs_exists(vfs, "new", NULL), LDR_ENOTFOUND);
	cr_assert_eq(answers(vfs, "data"), 11);
	cr_assert_eq(ldr_layer_memory_put(layers[2], "late", "", 0, NULL), LDR_OK);
	cr_assert_eq(answers(vfs, "late"), 12);
	/* Whoever was unmounted can be told again by another instance, and outlives the first. */
	ldr_vfs_free(vfs);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(ldr_layer_memory_put(layers[i], "after", "", 0, NULL), LDR_OK);
		ldr_layer_unref(layers[i]);
	}
	cr_assert_eq(answers(other, "after"), 10);
	ldr_vfs_free(other);
}

#define RACES 60

static void *put_first(void *layer)
{
	cr_assert_eq(ldr_layer_memory_put(layer, "raced", "", 0, NULL), LDR_OK);
	return NULL;
}

Test(layer_memory, a_first_name_that_races_with_the_mount_is_not_lost)
{
	struct ldr_vfs *vfs = vfs_new();

	mount_one(vfs);
	for (uint32_t i = 0; i < RACES; i++) {
		struct ldr_layer *layer = memory_of(0);
		pthread_t thread;

		cr_assert_eq(pthread_create(&thread, NULL, put_first, layer), 0);
		mount_at(vfs, 2, layer, NULL, 0);
		if (i % 2)
			ldr_vfs_settle(vfs);
		pthread_join(thread, NULL);
		ldr_vfs_settle(vfs);
		cr_assert_eq(answers(vfs, "raced"), 2, "round %u", i);
		cr_assert_eq(ldr_vfs_unmount(vfs, 2, false, NULL), LDR_OK);
		ldr_layer_unref(layer);
	}
	ldr_vfs_free(vfs);
}

Test(layer_memory, what_is_put_and_what_is_refused)
{
	static const struct {
		const char *path;
		enum ldr_status status;
	} rows[] = {
		{"a/b/c", LDR_OK},         {"a/b/c", LDR_EEXISTS}, {"a/b", LDR_EEXISTS},
		{"a/b/d", LDR_OK},         {"", LDR_EISDIR},       {"a/../b", LDR_EINVAL},
		{"/absolute", LDR_EINVAL}, {"a//b", LDR_EINVAL},   {"a/b/", LDR_EINVAL},
	};
	const struct ldr_memory_layer_options wrong = {.size = sizeof(wrong) - 1};
	struct ldr_layer *layer = memory_of(0), *one = NULL, *none = NULL;
	struct ldr_vfs *vfs = vfs_new();
	struct ldr_error err = {0};
	struct ldr_list *list;
	struct ldr_stat stat;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_eq(ldr_layer_memory_put(layer, rows[i].path, "12345", 5, &err),
			     rows[i].status, "%s: %s", rows[i].path, err.text);
	mount_at(vfs, 1, layer, NULL, 0);
	cr_assert_eq(ldr_vfs_stat(vfs, "a/b/c", &stat, NULL), LDR_OK);
	cr_expect_eq(stat.size_bytes, 5);
	cr_assert_eq(ldr_vfs_list(vfs, "a/b", &list, NULL), LDR_OK);
	cr_expect_eq(ldr_list_count(list), 2);
	ldr_list_free(list);
	cr_expect_eq(ldr_layer_memory_new(&wrong, &none, &err), LDR_EINVAL);
	cr_assert_eq(ldr_layer_new(&one_ops, NULL, LDR_LAYER_IMMUTABLE, &one, NULL), LDR_OK);
	cr_expect_eq(ldr_layer_memory_put(one, "x", "", 0, &err), LDR_EINVAL);
	cr_expect_not_null(strstr(err.text, "one layer"), "%s", err.text);
	ldr_vfs_free(vfs);
	ldr_layer_unref(one);
	ldr_layer_unref(layer);
}

static struct ldr_file *open_for(struct ldr_vfs *vfs, const char *path, unsigned flags)
{
	struct ldr_file *file = NULL;

	cr_assert_eq(ldr_vfs_open(vfs, path, flags, &file, NULL), LDR_OK);
	return file;
}

Test(layer_memory, room_is_bounded_and_comes_back)
{
	struct ldr_layer *layer = memory_of(4 * MIB);
	struct ldr_vfs *vfs = vfs_new();
	uint8_t *bytes = calloc(1, 3 * MIB);
	struct ldr_error err = {0};
	struct ldr_file *file;

	mount_at(vfs, 1, layer, NULL, LDR_MOUNT_WRITE);
	for (unsigned round = 0; round < 10; round++) {
		file = open_for(vfs, "a", LDR_OPEN_WRITE);
		cr_assert_eq(ldr_file_pwrite(file, bytes, 3 * MIB, 0, &err), LDR_OK, "%u: %s",
			     round, err.text);
		cr_assert_eq(ldr_file_pwrite(file, bytes, 3 * MIB, 3 * MIB, NULL), LDR_ENOSPACE);
		cr_assert_eq(ldr_vfs_replace(vfs, "b", bytes, 3 * MIB, LDR_SYNC_NONE, NULL),
			     LDR_ENOSPACE);
		cr_assert_eq(ldr_vfs_exists(vfs, "b", NULL), LDR_ENOTFOUND);
		/* Removed while it is open, it keeps its room until it is closed. */
		cr_assert_eq(ldr_vfs_remove(vfs, "a", NULL), LDR_OK);
		cr_assert_eq(ldr_layer_memory_put(layer, "c", bytes, 3 * MIB, NULL), LDR_ENOSPACE);
		ldr_file_close(file);
		cr_assert_eq(ldr_layer_memory_put(layer, "c", bytes, 3 * MIB, NULL), LDR_OK);
		cr_assert_eq(ldr_vfs_remove(vfs, "c", NULL), LDR_OK);
	}
	file = open_for(vfs, "a", LDR_OPEN_OVERLAPPED);
	cr_assert_eq(ldr_file_pwrite(file, bytes, 3 * MIB, 0, NULL), LDR_OK);
	cr_assert_eq(ldr_file_truncate(file, 1, NULL), LDR_OK);
	cr_assert_eq(ldr_layer_memory_put(layer, "b", bytes, 3 * MIB, NULL), LDR_ENOSPACE,
		     "a file that is cut keeps its room");
	ldr_file_close(file);
	cr_assert_eq(ldr_vfs_replace(vfs, "a", "", 0, LDR_SYNC_NONE, NULL), LDR_OK);
	cr_assert_eq(ldr_layer_memory_put(layer, "b", bytes, 3 * MIB, &err), LDR_OK,
		     "until it is replaced: %s", err.text);
	ldr_vfs_free(vfs);
	ldr_layer_unref(layer);
	free(bytes);
}

/* Bytes are checked against a plain buffer after every write, cut and extension. */
Test(layer_memory, holes_cuts_and_extensions_read_as_a_plain_buffer_would)
{
	const size_t limit = 3 * MIB;
	uint8_t *model = calloc(1, limit), *seen = malloc(limit), *piece = malloc(limit);
	struct ldr_layer *layer = memory_of(16 * MIB);
	struct ldr_vfs *vfs = vfs_new();
	struct ldr_file *file;
	size_t length = 0, got;
	uint64_t state = 1;

	mount_at(vfs, 1, layer, NULL, LDR_MOUNT_WRITE);
	file = open_for(vfs, "f", LDR_OPEN_OVERLAPPED);
	for (unsigned step = 0; step < 120; step++) {
		size_t at, size;

		state = state * 6364136223846793005u + 1442695040888963407u;
		at = (size_t)(state >> 33) % (limit / 2);
		size = (size_t)(state >> 20) % (step % 3 ? 5000 : limit / 2);
		if (step % 5 == 4) {
			cr_assert_eq(ldr_file_truncate(file, at, NULL), LDR_OK);
			if (at < length)
				memset(model + at, 0, length - at);
			length = at;
		} else {
			memset(piece, (int)(step + 1), size);
			cr_assert_eq(ldr_file_pwrite(file, piece, size, at, NULL), LDR_OK);
			memcpy(model + at, piece, size);
			if (size > 0 && at + size > length)
				length = at + size;
		}
		memset(seen, 0xee, limit);
		cr_assert_eq(ldr_file_pread(file, seen, limit, 0, &got, NULL), LDR_OK);
		cr_assert_eq(got, length, "step %u: %zu bytes, wanted %zu", step, got, length);
		cr_assert_eq(memcmp(seen, model, length), 0, "step %u", step);
	}
	ldr_file_close(file);
	ldr_vfs_free(vfs);
	ldr_layer_unref(layer);
	free(model);
	free(seen);
	free(piece);
}
