/*
 * Which mount answers, and what a failure of one does: what the contract cannot see, because there
 * all stacks look alike.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/vfs/core_world.h"

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MOUNT(...) ((struct ldr_mount){__VA_ARGS__})

/* Runs with the merged table and without. */
static void both_ways(void (*run)(struct core_world *world, bool settled))
{
	for (int settled = 0; settled < 2; settled++) {
		struct core_world world;

		core_begin(&world);
		run(&world, settled);
		core_end(&world);
	}
}

static void settle(struct core_world *world, bool settled)
{
	if (settled)
		ldr_vfs_settle(world->vfs);
}

/* ---- the order of asking ---- */

static void orders(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"x", "table", 5}, {NULL, NULL, 0}};

	core_mount(w, core_memory(FILES("x=first")), MOUNT(.id = 1));
	core_mount(w, core_memory(FILES("x=second")), MOUNT(.id = 2));
	core_is(core_read(w, "x"), "second", "of equals the later");
	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 3));
	settle(w, settled);
	core_is(core_read(w, "x"), "table", "of equals the later, live or not");
	core_mount(w, core_memory(FILES("x=low")), MOUNT(.id = 4, .precedence = INT32_MIN));
	core_is(core_read(w, "x"), "table", "lower precedence");
	core_mount(w, core_memory(FILES("x=high")), MOUNT(.id = 5, .precedence = 1));
	core_is(core_read(w, "x"), "high", "higher precedence");
	core_mount(w, core_memory(FILES("x=over")),
		   MOUNT(.id = 6, .precedence = -7, .flags = LDR_MOUNT_OVERRIDE));
	settle(w, settled);
	core_is(core_read(w, "x"), "over", "an override comes before all others");
	core_mount(w, core_table(rows, false, NULL),
		   MOUNT(.id = 7, .precedence = -6, .flags = LDR_MOUNT_OVERRIDE));
	settle(w, settled);
	core_is(core_read(w, "x"), "table", "overrides among themselves by precedence");
	core_gives(ldr_vfs_unmount(w->vfs, 7, false, NULL), LDR_OK, "unmount");
	core_gives(ldr_vfs_unmount(w->vfs, 6, false, NULL), LDR_OK, "unmount");
	settle(w, settled);
	core_is(core_read(w, "x"), "high", "the one below is back");
}

Test(lookup, order_of_asking)
{
	both_ways(orders);
}

/* A switch of one of several equals must not put it in front of the others. */
static void switches(struct core_world *w, bool settled)
{
	struct ldr_layer *next = core_memory(FILES("x=one anew", "y=new"));
	struct ldr_mount changes[2] = {{.id = 1, .layer = next}, {.id = 4, .layer = next}};

	core_mount(w, core_memory(FILES("x=one")), MOUNT(.id = 1));
	core_mount(w, core_memory(FILES("x=two")), MOUNT(.id = 2));
	core_gives(ldr_vfs_apply(w->vfs, changes, 1, NULL), LDR_OK, "switch");
	settle(w, settled);
	core_is(core_read(w, "x"), "two", "the switched one stays behind");
	core_is(core_read(w, "y"), "new", "and is switched");
	changes[0].layer = NULL;
	core_gives(ldr_vfs_apply(w->vfs, changes, 2, NULL), LDR_OK, "out and in");
	settle(w, settled);
	core_is(core_read(w, "x"), "one anew", "another id is a new mount");
	ldr_layer_unref(next);
}

Test(lookup, a_switched_mount_keeps_its_place)
{
	both_ways(switches);
}

/* V1: one layer at two places, also twice at one. */
static void mounted_twice(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"x", "t", 1}, {NULL, NULL, 0}};
	struct ldr_layer *table = core_table(rows, false, NULL);
	struct ldr_layer *memory = core_memory(FILES("m=m"));

	core_mount(w, ldr_layer_ref(table), MOUNT(.id = 1, .at = "a"));
	core_mount(w, ldr_layer_ref(memory), MOUNT(.id = 2, .at = "a"));
	core_mount(w, table, MOUNT(.id = 3, .at = "b/c"));
	core_mount(w, memory, MOUNT(.id = 4, .at = "b/c"));
	settle(w, settled);
	core_is(core_read(w, "a/x"), "t", "first place");
	core_is(core_read(w, "b/c/x"), "t", "second place");
	core_is(core_list(w, "b/c"), "m x", "second place");
	core_gives(ldr_vfs_unmount(w->vfs, 1, false, NULL), LDR_OK, "unmount");
	settle(w, settled);
	core_is(core_read(w, "a/x"), "LDR_ENOTFOUND", "gone");
	core_is(core_read(w, "b/c/x"), "t", "the other place stays");
}

Test(lookup, one_layer_at_two_places)
{
	both_ways(mounted_twice);
}

/* ---- A190: only "not here" lets the lookup go on ---- */

static const enum ldr_status failures[] = {LDR_EIO,      LDR_EDENIED,   LDR_ECORRUPT, LDR_ENET,
					   LDR_EOFFLINE, LDR_ENOMEM,    LDR_ELIMIT,   LDR_ELINK,
					   LDR_ENOTREG,  LDR_EUNTRUSTED};

/* Whatever the storage held before: a status, and one line that can be shown. */
static void check_text(const struct ldr_error *err, enum ldr_status status, const char *what)
{
	size_t length = strnlen(err->text, sizeof(err->text));

	cr_assert_eq(err->status, status, "%s: the text's status is %d", what, (int)err->status);
	cr_assert(length > 0 && length < sizeof(err->text), "%s: no text", what);
	for (size_t i = 0; i < length; i++)
		cr_assert(err->text[i] >= ' ' && err->text[i] <= '~', "%s: byte %zu is 0x%02x",
			  what, i, (unsigned char)err->text[i]);
}

static void fails_everywhere(struct core_world *w, enum ldr_status status)
{
	struct ldr_stat found;
	struct ldr_file *file;
	struct ldr_list *list;
	struct ldr_which which;
	struct ldr_error err;

	for (int way = 0; way < 8; way++) {
		enum ldr_status got = LDR_OK;

		memset(&err, 0x81, sizeof(err));
		switch (way) {
		case 0:
			got = ldr_vfs_stat(w->vfs, "d/x", &found, &err);
			break;
		case 1:
			got = ldr_vfs_exists(w->vfs, "d/x", &err);
			break;
		case 2:
			got = ldr_vfs_open(w->vfs, "d/x", LDR_OPEN_READ, &file, &err);
			break;
		case 3:
			got = ldr_vfs_list(w->vfs, "d/x", &list, &err);
			break;
		case 4:
			got = ldr_vfs_which(w->vfs, "d/x", &which, NULL, 0, NULL, &err);
			break;
		case 5:
			got = ldr_vfs_remove(w->vfs, "d/x", &err);
			break;
		case 6:
			got = ldr_vfs_open(w->vfs, "d/x", LDR_OPEN_APPEND, &file, &err);
			break;
		case 7:
			got = ldr_vfs_rename(w->vfs, "d/x", "d/y", &err);
			break;
		}
		cr_assert_eq(got, status, "way %d: %s, wanted %s", way, ldr_status_name(got),
			     ldr_status_name(status));
		check_text(&err, status, ldr_status_name(status));
	}
}

/* exists asks no immutable layer twice, so it is asked while the layer is live. */
static void fails(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {
		{"d", NULL, 0}, {"d/x", "above", 5}, {"d/only", "o", 1}, {NULL, NULL, 0}};
	static struct table_moods moods;

	core_mount(w, core_memory(FILES("d/x=below", "d/z=z")), MOUNT(.id = 1));
	core_mount(w, core_memory(NULL), MOUNT(.id = 2, .flags = LDR_MOUNT_WRITE, .precedence = 1));
	core_mount(w, core_table(rows, true, &moods), MOUNT(.id = 3, .precedence = 2));
	settle(w, settled);
	moods.failing_path = "d/x";
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		for (int silent = 0; silent < 2; silent++) {
			moods.failure = failures[i];
			moods.silent = silent;
			fails_everywhere(w, failures[i]);
		}
	}
	moods.failure = LDR_ENOTFOUND;
	core_is(core_read(w, "d/x"), "below", "not here goes on");
	core_is(core_which(w, "d/x", 8),
		"mount 1 file | 3:LDR_ENOTFOUND 2:LDR_ENOTFOUND 1:LDR_OK"
		" of 3",
		"not here");
	moods.failure = LDR_EGONE;
	core_is(core_read(w, "d/x"), "LDR_ENOTFOUND", "hidden here ends");
	core_is(core_which(w, "d/x", 8), "LDR_ENOTFOUND | 3:LDR_ENOTFOUND! of 1", "hidden here");
	core_is(core_read(w, "d/z"), "z", "others are as before");
	moods.failing_path = NULL;
	core_is(core_read(w, "d/x"), "above", "well again");
}

Test(lookup, only_not_here_falls_through)
{
	both_ways(fails);
}

/* The same of a layer that is asked by node, and of an open file. */
static void fails_by_node(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"x", "above", 5}, {NULL, NULL, 0}};
	static struct table_moods moods;
	struct ldr_file *open, *file;
	struct ldr_stat found;
	struct ldr_error err;
	char byte;
	size_t got;

	memset(&moods, 0, sizeof(moods));
	core_mount(w, core_memory(FILES("x=below")), MOUNT(.id = 1));
	core_mount(w, core_table(rows, false, &moods), MOUNT(.id = 2));
	settle(w, settled);
	core_gives(ldr_vfs_open(w->vfs, "x", LDR_OPEN_READ, &open, NULL), LDR_OK, "open");
	moods.failing_path = "x";
	moods.failing_read = moods.silent = true;
	moods.failure = LDR_ECORRUPT;
	memset(&err, 0x81, sizeof(err));
	core_gives(ldr_vfs_stat(w->vfs, "x", &found, &err), LDR_ECORRUPT, "stat");
	check_text(&err, LDR_ECORRUPT, "stat");
	memset(&err, 0x81, sizeof(err));
	core_gives(ldr_vfs_open(w->vfs, "x", LDR_OPEN_READ, &file, &err), LDR_ECORRUPT, "open");
	check_text(&err, LDR_ECORRUPT, "open");
	memset(&err, 0x81, sizeof(err));
	core_gives(ldr_file_pread(open, &byte, 1, 0, &got, &err), LDR_ECORRUPT, "pread");
	check_text(&err, LDR_ECORRUPT, "pread");
	ldr_file_close(open);
}

Test(lookup, failures_of_nodes_and_open_files)
{
	both_ways(fails_by_node);
}

/* Both functions say the same of a path that is not there, however long. */
Test(lookup, exists_and_stat_name_the_same_path)
{
	struct ldr_error by_stat = {.status = LDR_OK}, by_exists = {.status = LDR_OK};
	struct ldr_stat found;
	struct core_world w;
	char path[400];

	core_begin(&w);
	for (size_t i = 0; i < sizeof(path); i += 2)
		memcpy(path + i, i % 100 == 98 ? "/a" : "\xc3\xa4", 2);
	path[sizeof(path) - 2] = '\0';
	core_gives(ldr_vfs_stat(w.vfs, path, &found, &by_stat), LDR_ENOTFOUND, "stat");
	core_gives(ldr_vfs_exists(w.vfs, path, &by_exists), LDR_ENOTFOUND, "exists");
	core_is(by_exists.text, by_stat.text, "the texts");
	check_text(&by_exists, LDR_ENOTFOUND, "exists");
	core_end(&w);
}

/* ---- files where folders must be ---- */

/* A file that a mount point covers hides nothing: every function must agree on that. */
static void covered(struct core_world *w, bool settled)
{
	static const struct table_row below[] = {{"a", NULL, 0},
						 {"a/sub", NULL, 0},
						 {"a/sub/deep", "d", 1},
						 {"a/c", "c", 1},
						 {NULL, NULL, 0}};
	static const struct table_row above[] = {{"a", "file", 4}, {NULL, NULL, 0}};

	core_mount(w, core_table(below, false, NULL), MOUNT(.id = 1));
	core_mount(w, core_memory(FILES("a=a file")), MOUNT(.id = 2));
	core_mount(w, core_table(above, true, NULL), MOUNT(.id = 3));
	core_mount(w, core_memory(FILES("p=p")), MOUNT(.id = 4, .at = "a/point"));
	settle(w, settled);
	core_is(core_list(w, "a"), "c point/ sub/", "the folder above the point");
	core_is(core_read(w, "a/c"), "c", "a file beside the point");
	core_is(core_read(w, "a/sub/deep"), "d", "a file in a folder beside it");
	core_is(core_list(w, "a/sub"), "deep", "that folder");
	core_is(core_which(w, "a", 8), "mount 1 folder | 3:LDR_ENOTDIR 2:LDR_ENOTDIR 1:LDR_OK of 3",
		"everyone who was asked");
	core_gives(ldr_vfs_unmount(w->vfs, 4, false, NULL), LDR_OK, "unmount");
	settle(w, settled);
	core_is(core_read(w, "a"), "file", "the file is back");
	core_is(core_read(w, "a/c"), "LDR_ENOTDIR", "and hides");
	core_is(core_list(w, "a/sub"), "LDR_ENOTDIR", "and hides");
}

Test(lookup, files_under_mount_points)
{
	both_ways(covered);
}

/* What is written must be seen, or the writing refused. */
static void write_below_a_file(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"a", "file", 4}, {NULL, NULL, 0}};
	struct ldr_file *file;

	core_mount(w, core_memory(FILES("a/there=t", "x=x")),
		   MOUNT(.id = 1, .flags = LDR_MOUNT_WRITE));
	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 2, .precedence = 1));
	settle(w, settled);
	core_is(core_read(w, "a/there"), "LDR_ENOTDIR", "hidden by the file");
	core_gives(ldr_vfs_open(w->vfs, "a/new", LDR_OPEN_WRITE, &file, NULL), LDR_ENOTDIR, "open");
	core_gives(ldr_vfs_open(w->vfs, "a/there", LDR_OPEN_OVERLAPPED, &file, NULL), LDR_ENOTDIR,
		   "open what is hidden");
	core_gives(ldr_vfs_mkdir(w->vfs, "a/new", NULL), LDR_ENOTDIR, "mkdir");
	core_gives(ldr_vfs_replace(w->vfs, "a/new", "", 0, LDR_SYNC_NONE, NULL), LDR_ENOTDIR,
		   "replace");
	core_gives(ldr_vfs_rename(w->vfs, "x", "a/new", NULL), LDR_ENOTDIR, "rename");
	core_gives(ldr_vfs_rename(w->vfs, "a/there", "y", NULL), LDR_ENOTDIR, "rename hidden");
	core_gives(ldr_vfs_remove(w->vfs, "a/there", NULL), LDR_ENOTDIR, "remove hidden");
	core_gives(ldr_vfs_unmount(w->vfs, 2, false, NULL), LDR_OK, "unmount");
	settle(w, settled);
	core_is(core_list(w, "a"), "there", "nothing was done behind the file");
	core_is(core_read(w, "x"), "x", "nor before it");
}

Test(lookup, writing_below_a_file_of_another_mount)
{
	both_ways(write_below_a_file);
}

/* ---- reserved names ---- */

static void reserved(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{".larder", NULL, 0},
						{".larder/log", "l", 1},
						{"d", NULL, 0},
						{"d/.larder", "inner", 5},
						{NULL, NULL, 0}};

	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 1));
	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 2, .at = "p"));
	settle(w, settled);
	core_is(core_read(w, ".larder/log"), "LDR_ENOTFOUND", "a file of it");
	core_gives(core_exists(w, ".larder"), LDR_ENOTFOUND, "the folder");
	core_gives(core_exists(w, "p/.larder"), LDR_ENOTFOUND, "the folder, at a mount point");
	core_is(core_list(w, "p/.larder"), "LDR_ENOTFOUND", "its names");
	core_is(core_list(w, ""), "d/ p/", "the root");
	core_is(core_read(w, "d/.larder"), "inner", "not at the root it is a name like any");
}

Test(lookup, reserved_names)
{
	both_ways(reserved);
}

/* ---- which ---- */

static void traces(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"a", "t", 1}, {"b", "t", 1}, {NULL, NULL, 0}};

	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 9));
	core_mount(w, core_memory(NULL), MOUNT(.id = 8, .flags = LDR_MOUNT_WRITE));
	core_mount(w, core_memory(FILES("only=8")), MOUNT(.id = 7, .at = "p/q"));
	settle(w, settled);
	core_gives(ldr_vfs_remove(w->vfs, "a", NULL), LDR_OK, "remove");
	core_is(core_which(w, "a", 8), "LDR_ENOTFOUND | 8:LDR_ENOTFOUND! of 1", "a whiteout");
	core_is(core_which(w, "b", 8), "mount 9 file | 8:LDR_ENOTFOUND 9:LDR_OK of 2", "two asked");
	core_is(core_which(w, "b", 1), "mount 9 file | 8:LDR_ENOTFOUND of 2", "room for one");
	core_is(core_which(w, "b", 0), "mount 9 file | of 2", "room for none");
	core_is(core_which(w, "none", 8), "LDR_ENOTFOUND | 8:LDR_ENOTFOUND 9:LDR_ENOTFOUND of 2",
		"nobody");
	core_is(core_which(w, "p", 8), "mount 0 folder | 8:LDR_ENOTFOUND 9:LDR_ENOTFOUND of 2",
		"above a mount point");
	core_is(core_which(w, "p/q", 8), "mount 7 folder | 7:LDR_OK of 1", "a mount point");
}

Test(lookup, which)
{
	both_ways(traces);
}

/* A folder that was removed and is above a mount point now shows the way to it and nothing else. */
static void hidden_point(struct core_world *w, bool settled)
{
	static const struct table_row rows[] = {{"d", NULL, 0}, {NULL, NULL, 0}};
	struct ldr_stat found;

	scratch_mkdir(&w->scratch, "low");
	scratch_mkdir(&w->scratch, "low/d");
	cr_assert_eq(fchmodat(w->scratch.fd, "low/d", 0700, 0), 0);
	core_mount(w, core_table(rows, false, NULL), MOUNT(.id = 1));
	core_mount(w, core_native(w, "low"), MOUNT(.id = 2));
	core_mount(w, core_memory(NULL), MOUNT(.id = 3, .flags = LDR_MOUNT_WRITE));
	settle(w, settled);
	core_gives(ldr_vfs_remove(w->vfs, "d", NULL), LDR_OK, "remove");
	core_mount(w, core_memory(NULL), MOUNT(.id = 4, .at = "d/e"));
	settle(w, settled);
	core_is(core_which(w, "d", 8), "mount 0 folder | 3:LDR_ENOTFOUND! of 1",
		"the whiteout still hides what lies below");
	core_gives(ldr_vfs_stat(w->vfs, "d", &found, NULL), LDR_OK, "the point");
	cr_assert_eq(found.mode, 0755, "attributes of a hidden folder: %o", found.mode);
	core_is(core_list(w, "d"), "e/", "only the way to the point");
}

Test(lookup, which_at_a_hidden_point)
{
	both_ways(hidden_point);
}

/* ---- handles ---- */

Test(lookup, shared_handles)
{
	struct ldr_vfs_metrics metrics;
	struct ldr_file *file, *second;
	struct core_world w;
	char bytes[8];
	size_t got;

	core_begin(&w);
	core_mount(&w, core_memory(FILES("x=12345")), MOUNT(.id = 1));
	core_gives(ldr_vfs_open(w.vfs, "x", LDR_OPEN_READ, &file, NULL), LDR_OK, "open");
	second = ldr_file_ref(file);
	cr_assert_eq(second, file);
	ldr_file_close(file);
	ldr_vfs_metrics(w.vfs, &metrics);
	cr_assert_eq(metrics.handles_open, 1, "one reference is left");
	core_gives(ldr_file_pread(second, bytes, 8, 0, &got, NULL), LDR_OK, "pread");
	cr_assert(got == 5 && memcmp(bytes, "12345", 5) == 0);
	ldr_file_unref(second);
	ldr_vfs_metrics(w.vfs, &metrics);
	cr_assert_eq(metrics.handles_open, 0, "the last reference closes");
	ldr_file_unref(NULL);
	core_end(&w);
}
