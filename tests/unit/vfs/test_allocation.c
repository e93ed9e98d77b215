/*
 * Every allocation of every call fails once: the status says so, nothing that was there is lost,
 * nothing is leaked (under the address sanitizer), and the same call works afterwards. And warm
 * calls allocate nothing.
 *
 * The linker puts the functions below between Larder and the allocator (test_allocation.mk). Only
 * allocations of the thread that armed them are counted.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vfs/core_world.h"
#include "vfs/watch.h"

#define MOUNT(...) ((struct ldr_mount){__VA_ARGS__})

static _Thread_local bool armed;
static _Thread_local unsigned long made;     /* since it was armed */
static _Thread_local unsigned long fails_at; /* 0: none */

static bool may_allocate(void)
{
	return !armed || ++made != fails_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return may_allocate() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return may_allocate() ? __real_realloc(old, bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return may_allocate() ? __real_aligned_alloc(alignment, bytes) : NULL;
}

char *__wrap_strdup(const char *text)
{
	return may_allocate() ? __real_strdup(text) : NULL;
}

char *__wrap_strndup(const char *text, size_t bytes)
{
	return may_allocate() ? __real_strndup(text, bytes) : NULL;
}

static void arm(unsigned long nth)
{
	made = 0;
	fails_at = nth;
	armed = true;
}

/* Whether the order was reached. */
static bool disarm(void)
{
	armed = false;
	return fails_at != 0 && made >= fails_at;
}

/* ---- the calls ---- */

static const struct table_row lower[] = {
	{"a", "lower a", 7}, {"b", "lower b", 7}, {"d", NULL, 0}, {"d/x", "x", 1},
	{"d/sub", NULL, 0},  {"d/sub/y", "y", 1}, {"g", "g", 1},  {NULL, NULL, 0},
};

static enum ldr_status open_and_close(struct core_world *w, const char *path, unsigned flags)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_file *file;
	enum ldr_status status = ldr_vfs_open(w->vfs, path, flags, &file, &err);

	if (status == LDR_OK)
		ldr_file_close(file);
	else
		cr_assert_eq(err.status, status, "%s", err.text);
	return status;
}

#define MANY 40u

/* More handles than one slab has. */
static enum ldr_status do_open(struct core_world *w)
{
	struct ldr_file *files[MANY];
	enum ldr_status status = LDR_OK;
	unsigned count;

	for (count = 0; count < MANY && status == LDR_OK; count++)
		status = ldr_vfs_open(w->vfs, "d/x", LDR_OPEN_READ, &files[count], NULL);
	count -= status != LDR_OK;
	while (count > 0)
		ldr_file_close(files[--count]);
	return status;
}

static enum ldr_status do_create(struct core_world *w)
{
	return open_and_close(w, "new/deep/file", LDR_OPEN_WRITE);
}

static enum ldr_status do_copy_up(struct core_world *w)
{
	return open_and_close(w, "d/sub/y", LDR_OPEN_APPEND);
}

static enum ldr_status do_mkdir(struct core_world *w)
{
	return ldr_vfs_mkdir(w->vfs, "new/deep/folder", NULL);
}

static enum ldr_status do_replace(struct core_world *w)
{
	return ldr_vfs_replace(w->vfs, "d/sub/new", "new", 3, LDR_SYNC_NONE, NULL);
}

static enum ldr_status do_remove(struct core_world *w)
{
	return ldr_vfs_remove(w->vfs, "g", NULL);
}

static enum ldr_status do_rename(struct core_world *w)
{
	return ldr_vfs_rename(w->vfs, "g", "d/sub/moved", NULL);
}

static enum ldr_status do_rename_own(struct core_world *w)
{
	return ldr_vfs_rename(w->vfs, "own", "d/moved", NULL);
}

static enum ldr_status do_list(struct core_world *w)
{
	struct ldr_list *list;
	enum ldr_status status = ldr_vfs_list(w->vfs, "d", &list, NULL);

	if (status == LDR_OK) {
		cr_assert_eq(ldr_list_count(list), 2);
		ldr_list_free(list);
	}
	return status;
}

static enum ldr_status do_map(struct core_world *w)
{
	struct ldr_mapping mapping;
	struct ldr_file *file;
	enum ldr_status status = ldr_vfs_open(w->vfs, "a", LDR_OPEN_READ, &file, NULL);

	if (status != LDR_OK)
		return status;
	status = ldr_file_map(file, 1, 3, LDR_MAP_COPY, &mapping, NULL);
	if (status == LDR_OK)
		ldr_file_unmap(&mapping);
	ldr_file_close(file);
	return status;
}

/* A batch: one out, one switched, two new. */
static enum ldr_status do_apply(struct core_world *w)
{
	static const char *const files[] = {"m/z=z", NULL};
	uint64_t before = ldr_vfs_generation(w->vfs);
	struct ldr_mount changes[4] = {
		{.id = 3}, {.id = 1}, {.id = 5, .at = "p/q"}, {.id = 6, .flags = LDR_MOUNT_WRITE}};
	enum ldr_status status;

	armed = false;
	changes[1].layer = core_table(lower, false, NULL);
	changes[2].layer = core_memory(files);
	changes[3].layer = core_memory(NULL);
	armed = true;
	status = ldr_vfs_apply(w->vfs, changes, 4, NULL);
	for (size_t i = 1; i < 4; i++)
		ldr_layer_unref(changes[i].layer);
	cr_assert_eq(ldr_vfs_generation(w->vfs), before + (status == LDR_OK), "half a batch");
	return status;
}

static enum ldr_status do_unmount(struct core_world *w)
{
	return ldr_vfs_unmount(w->vfs, 3, true, NULL);
}

/* The folder of a target with whiteouts, mounted anew: its log is read. */
static enum ldr_status do_remount(struct core_world *w)
{
	struct ldr_native_options options = {.size = sizeof(options), .make = true};
	struct ldr_mount mount = {.id = 8, .flags = LDR_MOUNT_WRITE, .precedence = 5};
	enum ldr_status status;
	char path[256];

	scratch_join(&w->scratch, "other", path);
	status = ldr_layer_native_new(path, &options, &mount.layer, NULL);
	if (status != LDR_OK)
		return status;
	status = ldr_vfs_mount(w->vfs, &mount, NULL);
	ldr_layer_unref(mount.layer);
	return status;
}

static enum ldr_status do_memory(struct core_world *w)
{
	struct ldr_layer *layer;
	enum ldr_status status = ldr_layer_memory_new(NULL, &layer, NULL);

	(void)w;
	if (status != LDR_OK)
		return status;
	status = ldr_layer_memory_put(layer, "x/y/z", "text", 4, NULL);
	ldr_layer_unref(layer);
	return status;
}

static enum ldr_status do_watch(struct core_world *w)
{
	struct ldr_watch *watch;
	enum ldr_status status = ldr_watch_new(w->vfs, NULL, &watch, NULL);

	if (status == LDR_OK)
		ldr_watch_free(watch);
	return status;
}

static enum ldr_status do_instance(struct core_world *w)
{
	struct ldr_vfs *vfs;
	enum ldr_status status = ldr_vfs_new(NULL, &vfs, NULL);

	(void)w;
	if (status == LDR_OK)
		ldr_vfs_free(vfs);
	return status;
}

static const struct {
	const char *name;
	enum ldr_status (*run)(struct core_world *w);
	/* Of these the call takes away. */
	const char *takes;
	unsigned long least; /* allocations that there are at least: the test reaches them */
} calls[] = {
	{"instance", do_instance, "", 2},
	{"memory layer", do_memory, "", 3},
	{"open", do_open, "", 1},
	{"create", do_create, "", 0},
	{"copy up", do_copy_up, "", 1},
	{"mkdir", do_mkdir, "", 0},
	{"replace", do_replace, "", 0},
	{"remove", do_remove, "g", 2},
	{"rename", do_rename, "g", 3},
	{"rename own", do_rename_own, "own/f", 0},
	{"list", do_list, "", 2}, /* a failed one leaves its memory to the next */
	{"map", do_map, "", 1},
	{"apply", do_apply, "spare", 6},
	{"unmount", do_unmount, "spare", 2},
	{"mount with a log", do_remount, "b", 8},
	{"watch", do_watch, "", 1},
};

/* ---- the world they are made in ---- */

static void begin(struct core_world *w, bool on_disk, bool settled)
{
	static const char *const spare[] = {"spare=spare", NULL};

	core_begin(w);
	/* A folder with a log that hides b: mounted by one call only. */
	core_mount(w, core_table(lower, false, NULL), MOUNT(.id = 1));
	core_mount(w, core_native(w, "other"), MOUNT(.id = 7, .flags = LDR_MOUNT_WRITE));
	core_gives(ldr_vfs_remove(w->vfs, "b", NULL), LDR_OK, "b");
	core_gives(ldr_vfs_unmount(w->vfs, 7, false, NULL), LDR_OK, "unmount");
	core_mount(w, on_disk ? core_native(w, "target") : core_memory(NULL),
		   MOUNT(.id = 2, .flags = LDR_MOUNT_WRITE));
	core_mount(w, core_memory(spare), MOUNT(.id = 3, .precedence = -1));
	core_write(w, "own/f", "own");
	if (settled)
		ldr_vfs_settle(w->vfs);
}

static void check(struct core_world *w, const char *name, const char *taken)
{
	static const char *const files[][2] = {
		{"a", "lower a"}, {"b", "lower b"}, {"d/x", "x"},       {"d/sub/y", "y"},
		{"g", "g"},       {"own/f", "own"}, {"spare", "spare"},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		bool gone = strcmp(files[i][0], taken) == 0;
		const char *got = core_read(w, files[i][0]);

		cr_assert_str_eq(got, gone ? "LDR_ENOTFOUND" : files[i][1], "%s: %s is \"%s\"",
				 name, files[i][0], got);
	}
}

/* The call with its n-th allocation failing. Gives whether there was one. Where the library can do
 * without the memory, the call may succeed. */
static bool fail_nth(struct core_world *w, size_t call, unsigned long nth, bool *out_done)
{
	const char *name = calls[call].name;
	enum ldr_status status;
	bool reached;

	arm(nth);
	status = calls[call].run(w);
	reached = disarm();
	*out_done = status == LDR_OK;
	cr_assert(*out_done || reached, "%s: %s without a failed allocation", name,
		  ldr_status_name(status));
	/* To a memory layer, no memory for a name is no room. */
	cr_assert(*out_done || status == LDR_ENOMEM || status == LDR_ENOSPACE,
		  "%s: allocation %lu: %s", name, nth, ldr_status_name(status));
	check(w, name, *out_done ? calls[call].takes : "");
	return reached;
}

static void fail_each(size_t call, bool on_disk, bool settled)
{
	bool reached = true, done = false;
	unsigned long nth;
	struct core_world w;

	begin(&w, on_disk, settled);
	for (nth = 1; reached; nth++) {
		if (done) {
			core_end(&w);
			begin(&w, on_disk, settled);
		}
		cr_assert(nth < 200, "%s: no end of allocations", calls[call].name);
		reached = fail_nth(&w, call, nth, &done);
	}
	cr_assert(done && nth > calls[call].least + 1, "%s: %lu allocations, at least %lu awaited",
		  calls[call].name, nth - 2, calls[call].least);
	core_end(&w);
}

Test(allocation, each_fails)
{
	for (int way = 0; way < 4; way++) {
		for (size_t call = 0; call < sizeof(calls) / sizeof(calls[0]); call++)
			fail_each(call, way & 1, way & 2);
	}
}

/* ---- warm calls ---- */

static void warm(struct core_world *w, struct ldr_file *open, struct ldr_watch *watch)
{
	struct ldr_watch_token token, hint;
	bool rescan;
	struct ldr_stat found;
	char bytes[8];
	size_t got;

	cr_assert_eq(open_and_close(w, "d/x", LDR_OPEN_READ), LDR_OK);
	cr_assert_eq(ldr_vfs_stat(w->vfs, "d/sub/y", &found, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_exists(w->vfs, "d/none", NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_vfs_stat(w->vfs, "d/x/none", &found, NULL), LDR_ENOTDIR);
	cr_assert_eq(ldr_vfs_exists(w->vfs, "g", NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_file_pread(open, bytes, 8, 0, &got, NULL), LDR_OK);
	cr_assert_eq(ldr_watch_add(watch, "d/x", &token, NULL), LDR_OK);
	ldr_watch_poll(watch, 3, &hint, 1, &rescan);
	cr_assert_eq(ldr_watch_remove(watch, token, NULL), LDR_OK);
}

Test(allocation, warm_calls_allocate_nothing)
{
	for (int way = 0; way < 4; way++) {
		struct ldr_watch *watch;
		struct ldr_file *open;
		struct core_world w;

		begin(&w, way & 1, way & 2);
		cr_assert_eq(do_remove(&w), LDR_OK);
		cr_assert_eq(ldr_vfs_open(w.vfs, "a", LDR_OPEN_READ, &open, NULL), LDR_OK);
		cr_assert_eq(ldr_watch_new(w.vfs, NULL, &watch, NULL), LDR_OK);
		warm(&w, open, watch);
		arm(0);
		warm(&w, open, watch);
		armed = false;
		cr_assert_eq(made, 0, "way %d: %lu allocations", way, made);
		ldr_file_close(open);
		ldr_watch_free(watch);
		core_end(&w);
	}
}
