/*
 * V3: archives inside mounts, of every kind of layer, one in another, over themselves.
 */
#include "vfs/layer_inner.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/archive.h"
#include "tests/unit/vfs/core_world.h"

#define MOUNT(...) ((struct ldr_mount){__VA_ARGS__})

static void pack(struct core_world *w, const char *folder, const char *to)
{
	struct ldr_build_options build = {.size = sizeof(build)};
	struct ldr_archive_request request = {.size = sizeof(request), .build = &build};
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {.status = LDR_OK};
	char source[256], path[256];

	request.folder = scratch_join(&w->scratch, folder, source);
	request.out_path = scratch_join(&w->scratch, to, path);
	cr_assert_eq(ldr_archive_folder(&request, &outcome, &err), LDR_OK, "%s", err.text);
}

/* n/dir/x.pack holds a/f. */
static void begin(struct core_world *w)
{
	core_begin(w);
	scratch_mkdir(&w->scratch, "src");
	scratch_mkdir(&w->scratch, "src/a");
	scratch_write(&w->scratch, "src/a/f", "inner");
	scratch_mkdir(&w->scratch, "n");
	scratch_mkdir(&w->scratch, "n/dir");
	scratch_write(&w->scratch, "n/dir/no.pack", "this is no pack");
	pack(w, "src", "n/dir/x.pack");
}

static struct ldr_layer *open_inside(struct core_world *w, const char *path)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;

	cr_assert_eq(ldr_layer_archive_open_inside(w->vfs, path, NULL, &layer, &err), LDR_OK, "%s",
		     err.text);
	return layer;
}

/* Mounted beside itself and over itself, and longer than what it lies in. */
static void check_inner(struct core_world *w, uint32_t outer)
{
	core_mount(w, open_inside(w, "dir/x.pack"), MOUNT(.id = 50, .at = "dir/x"));
	core_is(core_read(w, "dir/x/a/f"), "inner", "beside itself");
	core_mount(w, open_inside(w, "dir/x.pack"), MOUNT(.id = 51, .at = "dir/x.pack"));
	ldr_vfs_settle(w->vfs);
	core_is(core_read(w, "dir/x.pack/a/f"), "inner", "over itself");
	core_gives(ldr_layer_archive_open_inside(w->vfs, "dir/x.pack", NULL, NULL, NULL),
		   LDR_EISDIR, "what is mounted is a folder");
	core_gives(ldr_vfs_unmount(w->vfs, outer, false, NULL), LDR_OK, "unmount");
	core_is(core_list(w, "dir"), "x/ x.pack/", "without the outer one");
	core_is(core_read(w, "dir/x/a/f"), "inner", "without the outer one");
	core_gives(ldr_vfs_unmount(w->vfs, 50, false, NULL), LDR_OK, "unmount");
	core_gives(ldr_vfs_unmount(w->vfs, 51, false, NULL), LDR_OK, "unmount");
}

Test(layer_inner, every_kind_of_layer)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	struct core_world w;
	char path[256];
	uint8_t bytes[65536];
	size_t length;
	FILE *file;

	begin(&w);
	core_mount(&w, core_native(&w, "n"), MOUNT(.id = 1));
	check_inner(&w, 1);
	pack(&w, "n", "outer.pack");
	cr_assert_eq(ldr_layer_archive_open(scratch_join(&w.scratch, "outer.pack", path), NULL,
					    &layer, &err),
		     LDR_OK, "%s", err.text);
	core_mount(&w, layer, MOUNT(.id = 2));
	check_inner(&w, 2);
	file = fopen(scratch_join(&w.scratch, "n/dir/x.pack", path), "rbe");
	cr_assert(file);
	length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	layer = core_memory(NULL);
	cr_assert_eq(ldr_layer_memory_put(layer, "dir/x.pack", bytes, length, NULL), LDR_OK);
	core_mount(&w, layer, MOUNT(.id = 3));
	check_inner(&w, 3);
	core_end(&w);
}

/* Eight one in another are read, nine refused. */
Test(layer_inner, depth)
{
	struct ldr_inner_options options = {.size = sizeof(options), .max_depth = 9};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	struct core_world w;
	char from[32], to[32];
	uint32_t depth;

	begin(&w);
	for (unsigned i = 0; i < 9; i++) {
		snprintf(from, sizeof(from), i ? "s%u" : "src", i);
		snprintf(to, sizeof(to), "s%u", i + 1);
		scratch_mkdir(&w.scratch, to);
		snprintf(to, sizeof(to), "s%u/in.pack", i + 1);
		pack(&w, from, to);
	}
	core_mount(&w, core_native(&w, "s9"), MOUNT(.id = 1));
	for (depth = 1; depth <= 8; depth++)
		core_mount(&w, open_inside(&w, "in.pack"),
			   MOUNT(.id = 1 + depth, .precedence = (int32_t)depth));
	core_gives(ldr_layer_archive_open_inside(w.vfs, "in.pack", NULL, &layer, &err), LDR_ELIMIT,
		   "nine");
	cr_assert(strstr(err.text, "9") && strstr(err.text, "8"), "both values: %s", err.text);
	core_gives(ldr_layer_archive_open_inside(w.vfs, "in.pack", &options, &layer, &err), LDR_OK,
		   "nine where they may be");
	core_mount(&w, layer, MOUNT(.id = 20));
	core_is(core_read(&w, "a/f"), "inner", "the innermost");
	core_end(&w);
}

static unsigned open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	cr_assert(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

Test(layer_inner, refusals)
{
	struct ldr_inner_options options = {.size = sizeof(options), .max_copy_bytes = 100};
	struct ldr_vfs_metrics metrics;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	struct core_world w;
	unsigned before;
	char path[256];

	begin(&w);
	core_mount(&w, core_native(&w, "n"), MOUNT(.id = 1));
	core_gives(ldr_layer_archive_open_inside(w.vfs, "dir/none", NULL, &layer, NULL),
		   LDR_ENOTFOUND, "missing");
	core_gives(ldr_layer_archive_open_inside(w.vfs, "dir", NULL, &layer, NULL), LDR_EISDIR,
		   "folder");
	core_gives(ldr_layer_archive_open_inside(w.vfs, "../x", NULL, &layer, NULL), LDR_EINVAL,
		   "path");
	core_gives(ldr_layer_archive_open_inside(w.vfs, "dir/no.pack", NULL, &layer, NULL),
		   LDR_ECORRUPT, "no pack");
	core_gives(ldr_layer_archive_open_inside(w.vfs, "dir/x.pack", &options, &layer, NULL),
		   LDR_OK, "a host's file is not copied");
	ldr_layer_unref(layer);
	pack(&w, "n", "outer.pack");
	cr_assert_eq(ldr_layer_archive_open(scratch_join(&w.scratch, "outer.pack", path), NULL,
					    &layer, NULL),
		     LDR_OK);
	core_mount(&w, layer, MOUNT(.id = 2, .at = "o"));
	before = open_descriptors();
	core_gives(ldr_layer_archive_open_inside(w.vfs, "o/dir/x.pack", &options, &layer, &err),
		   LDR_ELIMIT, "too much to copy");
	cr_assert(strstr(err.text, "limit 100"), "%s", err.text);
	core_gives(ldr_layer_archive_open_inside(w.vfs, "o/dir/no.pack", NULL, &layer, NULL),
		   LDR_ECORRUPT, "no pack, copied");
	options.size--;
	core_gives(ldr_layer_archive_open_inside(w.vfs, "o/dir/x.pack", &options, &layer, NULL),
		   LDR_EINVAL, "size");
	ldr_vfs_metrics(w.vfs, &metrics);
	cr_assert_eq(metrics.handles_open, 0);
	cr_assert_eq(open_descriptors(), before, "descriptors are left");
	core_end(&w);
}

/* A pack that is cut while it is mounted gives a status, never a signal. */
Test(layer_inner, cut_underneath)
{
	struct core_world w;
	char path[256];
	const char *got;

	begin(&w);
	core_mount(&w, core_native(&w, "n"), MOUNT(.id = 1));
	core_mount(&w, open_inside(&w, "dir/x.pack"), MOUNT(.id = 2, .at = "in"));
	cr_assert_eq(truncate(scratch_join(&w.scratch, "n/dir/x.pack", path), 8), 0);
	got = core_read(&w, "in/a/f");
	cr_assert(strncmp(got, "LDR_E", 5) == 0 || strcmp(got, "inner") == 0, "%s", got);
	core_end(&w);
}
