/*
 * Change hints: what is hinted and when, what is bounded, and a consumer that loses hints and still
 * ends up right.
 */
#include "vfs/watch.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/archive.h"
#include "tests/unit/vfs/core_world.h"
#include "vfs/layer_tree.h"

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MOUNT(...) ((struct ldr_mount){__VA_ARGS__})
#define TARGET(...) MOUNT(.flags = LDR_MOUNT_WRITE, __VA_ARGS__)

/* A clock that stands still until it is moved; files get times of their own that differ. */
struct watching {
	struct core_world world;
	struct ldr_clock clock;
	uint64_t now_ns;
	struct ldr_watch *watch;
	int64_t stamp;
};

static uint64_t held_now(const struct ldr_clock *clock)
{
	const struct watching *w = clock->context;

	return w->now_ns;
}

static void watch_begin(struct watching *w, uint32_t max_hints)
{
	struct ldr_watch_options options = {
		.size = sizeof(options), .max_hints = max_hints, .clock = &w->clock};

	w->clock = (struct ldr_clock){.now_ns = held_now, .context = w};
	w->now_ns = 1;
	w->stamp = 1000000000;
	core_gives(ldr_watch_new(w->world.vfs, &options, &w->watch, NULL), LDR_OK, "watch");
}

static struct ldr_watch_token add(struct watching *w, const char *path)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_watch_token token;

	cr_assert_eq(ldr_watch_add(w->watch, path, &token, &err), LDR_OK, "%s", err.text);
	return token;
}

static void move(struct watching *w, unsigned milliseconds)
{
	w->now_ns += milliseconds * UINT64_C(1000000);
}

/* Written long ago, each time at another second. */
static void put(struct watching *w, const char *path, const char *text)
{
	struct timespec times[2] = {{.tv_sec = w->stamp}, {.tv_sec = w->stamp}};

	w->stamp++;
	scratch_write(&w->world.scratch, path, text);
	cr_assert_eq(utimensat(w->world.scratch.fd, path, times, 0), 0);
}

static int by_letter(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

/* A letter for each hint: the slot. */
static const char *poll_all(struct watching *w, uint32_t steps, bool *out_rescan)
{
	struct ldr_watch_token hints[16];
	size_t count = ldr_watch_poll(w->watch, steps, hints, 16, out_rescan);

	for (size_t i = 0; i < count; i++)
		w->world.text[i] = (char)('a' + hints[i].slot);
	w->world.text[count] = '\0';
	qsort(w->world.text, count, 1, by_letter);
	return w->world.text;
}

/* Hints after a change: none at once, these when it has been quiet, then none again. */
static void hints_are(struct watching *w, const char *wanted, const char *what)
{
	bool rescan = true;

	core_is(poll_all(w, 100, &rescan), "", what);
	move(w, 49);
	core_is(poll_all(w, 100, &rescan), "", what);
	move(w, 1);
	core_is(poll_all(w, 100, &rescan), wanted, what);
	move(w, 1000);
	core_is(poll_all(w, 100, &rescan), "", what);
	cr_assert(!rescan, "%s: rescan", what);
}

static void kinds_of_change(bool watched)
{
	struct ldr_native_options options = {.size = sizeof(options), .watched = watched};
	static const struct table_row rows[] = {{"gone", "back", 4}, {NULL, NULL, 0}};
	struct ldr_layer *layer;
	struct watching w;
	char path[256];

	core_begin(&w.world);
	scratch_mkdir(&w.world.scratch, "n");
	put(&w, "n/file", "1");
	put(&w, "n/gone", "1");
	scratch_join(&w.world.scratch, "n", path);
	cr_assert_eq(ldr_layer_native_new(path, &options, &layer, NULL), LDR_OK);
	core_mount(&w.world, layer, MOUNT(.id = 1));
	watch_begin(&w, 0);
	put(&w, "n/file", "1");
	put(&w, "n/gone", "1");
	add(&w, "file");
	add(&w, "gone");
	add(&w, "none");
	add(&w, "file/below");
	hints_are(&w, "", "nothing has happened");
	put(&w, "n/file", "2");
	hints_are(&w, "a", "written");
	put(&w, "n/none", "1");
	scratch_remove(&w.world.scratch, "n/gone");
	core_gives(ldr_vfs_sync(w.world.vfs, NULL), LDR_OK, "sync");
	hints_are(&w, "bc", "made and removed");
	scratch_remove(&w.world.scratch, "n/file");
	scratch_mkdir(&w.world.scratch, "n/file");
	put(&w, "n/file/below", "1");
	core_gives(ldr_vfs_sync(w.world.vfs, NULL), LDR_OK, "sync");
	hints_are(&w, "ad", "a folder in its place");
	core_mount(&w.world, core_table(rows, false, NULL), MOUNT(.id = 2));
	hints_are(&w, "b", "a mount above");
	ldr_vfs_settle(w.world.vfs);
	hints_are(&w, "", "the same answer out of the merged table");
	core_gives(ldr_vfs_unmount(w.world.vfs, 2, false, NULL), LDR_OK, "unmount");
	hints_are(&w, "b", "and away");
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

Test(watch, kinds_of_change)
{
	kinds_of_change(false);
	kinds_of_change(true);
}

/* The stack's own writes are changes like any. */
Test(watch, own_writes)
{
	struct watching w;

	core_begin(&w.world);
	core_mount(&w.world, core_memory(FILES("a=1", "b=1", "c=1")), MOUNT(.id = 1));
	core_mount(&w.world, core_memory(NULL), TARGET(.id = 2));
	watch_begin(&w, 0);
	add(&w, "a");
	add(&w, "b");
	add(&w, "c");
	move(&w, 60);
	{
		bool rescan;

		poll_all(&w, 100, &rescan); /* they were made just now */
	}
	hints_are(&w, "", "quiet");
	core_write(&w.world, "a", "longer");
	core_gives(ldr_vfs_remove(w.world.vfs, "b", NULL), LDR_OK, "remove");
	hints_are(&w, "ab", "copied up, hidden");
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

Test(watch, debounce)
{
	struct watching w;
	bool rescan;

	core_begin(&w.world);
	scratch_mkdir(&w.world.scratch, "n");
	core_mount(&w.world, core_native(&w.world, "n"), MOUNT(.id = 1));
	watch_begin(&w, 0);
	put(&w, "n/f", "0");
	add(&w, "f");
	for (int i = 0; i < 10; i++) {
		put(&w, "n/f", "1");
		core_is(poll_all(&w, 1, &rescan), "", "not quiet yet");
		move(&w, 30);
	}
	core_is(poll_all(&w, 1, &rescan), "", "quiet for 30 ms");
	move(&w, 20);
	core_is(poll_all(&w, 0, &rescan), "a", "one hint for all, without a look");
	core_is(poll_all(&w, 1, &rescan), "", "once");
	/* Written just now: within the tick it may be written again, so it is hinted once more. */
	scratch_write(&w.world.scratch, "n/g", "1");
	add(&w, "g");
	hints_are(&w, "b", "young");
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

/* ---- bounds ---- */

Test(watch, more_than_the_list_holds)
{
	struct watching w;
	bool rescan;
	char path[16];

	core_begin(&w.world);
	scratch_mkdir(&w.world.scratch, "n");
	core_mount(&w.world, core_native(&w.world, "n"), MOUNT(.id = 1));
	watch_begin(&w, 2);
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "f%d", i);
		add(&w, path);
	}
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "n/f%d", i);
		put(&w, path, "1");
	}
	poll_all(&w, 100, &rescan);
	cr_assert(rescan, "three hints were dropped");
	move(&w, 50);
	core_is(poll_all(&w, 0, &rescan), "ab", "two are kept");
	cr_assert(rescan, "it is sticky");
	ldr_watch_rescanned(w.watch);
	core_is(poll_all(&w, 100, &rescan), "", "all is known");
	cr_assert(!rescan, "until it is answered");
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

Test(watch, steps_are_looks)
{
	static const struct table_row rows[] = {
		{"a", "1", 1}, {"b", "1", 1}, {"c", "1", 1}, {NULL, NULL, 0}};
	static struct table_moods moods;
	struct watching w;
	bool rescan;

	core_begin(&w.world);
	core_mount(&w.world, core_table(rows, true, &moods), MOUNT(.id = 1));
	watch_begin(&w, 0);
	add(&w, "a");
	add(&w, "b");
	add(&w, "c");
	for (uint32_t steps = 0; steps < 8; steps++) {
		uint32_t before = moods.asked, wanted = steps < 3 ? steps : 3;

		poll_all(&w, steps, &rescan);
		cr_assert_eq(moods.asked - before, wanted, "%u steps: %u looks", steps,
			     moods.asked - before);
	}
	/* In turn: three polls of one step look at all. */
	moods.failing_path = "b";
	moods.failure = LDR_EIO;
	for (int i = 0; i < 3; i++)
		poll_all(&w, 1, &rescan);
	cr_assert(rescan, "a path that cannot be looked at");
	ldr_watch_rescanned(w.watch);
	for (int i = 0; i < 3; i++)
		poll_all(&w, 1, &rescan);
	cr_assert(!rescan, "told once");
	moods.failing_path = NULL;
	hints_are(&w, "b", "well again");
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

Test(watch, tokens_and_limits)
{
	struct ldr_watch_options options = {.size = sizeof(options), .max_paths = 2};
	struct ldr_watch_token first, second, strange, token;
	struct ldr_watch *watch, *other;
	struct core_world w;

	core_begin(&w);
	core_gives(ldr_watch_new(w.vfs, &options, &watch, NULL), LDR_OK, "new");
	core_gives(ldr_watch_new(w.vfs, NULL, &other, NULL), LDR_OK, "new");
	core_gives(ldr_watch_add(watch, "a", &first, NULL), LDR_OK, "add");
	core_gives(ldr_watch_add(watch, "a", &token, NULL), LDR_EEXISTS, "again");
	core_gives(ldr_watch_add(watch, "a/", &token, NULL), LDR_EINVAL, "path");
	core_gives(ldr_watch_add(watch, "b", &second, NULL), LDR_OK, "add");
	core_gives(ldr_watch_add(watch, "c", &token, NULL), LDR_ELIMIT, "third");
	core_gives(ldr_watch_add(other, "a", &strange, NULL), LDR_OK, "elsewhere");
	core_gives(ldr_watch_remove(watch, strange, NULL), LDR_ESTALE, "of another watch");
	core_gives(ldr_watch_remove(watch, first, NULL), LDR_OK, "remove");
	core_gives(ldr_watch_remove(watch, first, NULL), LDR_ESTALE, "twice");
	core_gives(ldr_watch_add(watch, "a", &token, NULL), LDR_OK, "room again");
	core_gives(ldr_watch_remove(watch, first, NULL), LDR_ESTALE, "the slot's new path stays");
	token.slot = UINT32_MAX;
	core_gives(ldr_watch_remove(watch, token, NULL), LDR_ESTALE, "no slot at all");
	ldr_watch_free(watch);
	ldr_watch_free(other);
	ldr_watch_free(NULL);
	options.max_paths = LDR_WATCH_PATHS_MAX + 1;
	core_gives(ldr_watch_new(w.vfs, &options, &watch, NULL), LDR_ELIMIT, "paths");
	options.max_paths = 1;
	options.max_hints = LDR_WATCH_HINTS_MAX + 1;
	core_gives(ldr_watch_new(w.vfs, &options, &watch, NULL), LDR_ELIMIT, "hints");
	options.max_hints = 1;
	options.debounce_ms = 19;
	core_gives(ldr_watch_new(w.vfs, &options, &watch, NULL), LDR_EINVAL, "debounce");
	options.size--;
	core_gives(ldr_watch_new(w.vfs, &options, &watch, NULL), LDR_EINVAL, "size");
	core_end(&w);
}

/* ---- a switch of releases ---- */

static struct ldr_layer *archive_of(struct watching *w, const char *folder, const char *pack)
{
	struct ldr_build_options build = {.size = sizeof(build)};
	struct ldr_archive_request request = {.size = sizeof(request), .build = &build};
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	char source[256], path[256];

	request.folder = scratch_join(&w->world.scratch, folder, source);
	request.out_path = scratch_join(&w->world.scratch, pack, path);
	cr_assert_eq(ldr_archive_folder(&request, &outcome, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_layer_archive_open(path, NULL, &layer, &err), LDR_OK, "%s", err.text);
	return layer;
}

/* Only paths whose bytes are others, however alike size and time are. */
Test(watch, switch_of_releases)
{
	struct ldr_mount change = {.id = 1};
	struct watching w;

	core_begin(&w.world);
	w.stamp = 1;
	scratch_mkdir(&w.world.scratch, "r");
	put(&w, "r/same", "the same");
	put(&w, "r/other", "version 1");
	put(&w, "r/goes", "1");
	core_mount(&w.world, archive_of(&w, "r", "1.pack"), MOUNT(.id = 1));
	watch_begin(&w, 0);
	add(&w, "same");
	add(&w, "other");
	add(&w, "goes");
	add(&w, "comes");
	put(&w, "r/other", "version 2");
	put(&w, "r/comes", "2");
	scratch_remove(&w.world.scratch, "r/goes");
	change.layer = archive_of(&w, "r", "2.pack");
	core_gives(ldr_vfs_apply(w.world.vfs, &change, 1, NULL), LDR_OK, "switch");
	hints_are(&w, "bcd", "the switch");
	ldr_vfs_settle(w.world.vfs);
	hints_are(&w, "", "settled");
	core_gives(ldr_vfs_apply(w.world.vfs, &change, 1, NULL), LDR_OK, "the same again");
	hints_are(&w, "", "the same again");
	ldr_layer_unref(change.layer);
	ldr_watch_free(w.watch);
	core_end(&w.world);
}

/* ---- a consumer that reloads, and loses hints ---- */

#define LOADED 24

struct consumer {
	struct watching watching;
	struct ldr_watch_token tokens[LOADED];
	char loaded[LOADED][16];
};

static void load(struct consumer *c, uint32_t i)
{
	char path[16];

	snprintf(path, sizeof(path), "f%u", i);
	snprintf(c->loaded[i], sizeof(c->loaded[i]), "%.15s", core_read(&c->watching.world, path));
}

/* Takes hints as they come; on a rescan it loads all. Gives whether there was anything. */
static bool consume(struct consumer *c, uint32_t steps)
{
	struct ldr_watch_token hints[4];
	bool rescan;
	size_t count = ldr_watch_poll(c->watching.watch, steps, hints, 4, &rescan);

	if (rescan) {
		ldr_watch_rescanned(c->watching.watch);
		for (uint32_t i = 0; i < LOADED; i++)
			load(c, i);
		return true;
	}
	for (size_t k = 0; k < count; k++) {
		for (uint32_t i = 0; i < LOADED; i++) {
			if (c->tokens[i].slot == hints[k].slot &&
			    c->tokens[i].serial == hints[k].serial)
				load(c, i);
		}
	}
	return count > 0;
}

static void change_some(struct consumer *c, unsigned *seed)
{
	for (int k = rand_r(seed) % 12; k > 0; k--) {
		char path[16], text[16];

		snprintf(path, sizeof(path), "n/f%d", rand_r(seed) % LOADED);
		snprintf(text, sizeof(text), "%d", rand_r(seed) % 1000);
		if (rand_r(seed) % 4 > 0)
			put(&c->watching, path, text);
		else if (scratch_exists(&c->watching.world.scratch, path))
			scratch_remove(&c->watching.world.scratch, path);
	}
}

Test(watch, a_consumer_converges)
{
	static struct consumer c;
	unsigned seed = 7;
	unsigned reloads = 0;

	core_begin(&c.watching.world);
	scratch_mkdir(&c.watching.world.scratch, "n");
	core_mount(&c.watching.world, core_native(&c.watching.world, "n"), MOUNT(.id = 1));
	watch_begin(&c.watching, 3);
	for (uint32_t i = 0; i < LOADED; i++) {
		char path[16];

		snprintf(path, sizeof(path), "f%u", i);
		c.tokens[i] = add(&c.watching, path);
		load(&c, i);
	}
	for (int round = 0; round < 60; round++) {
		change_some(&c, &seed);
		for (int frame = 0; frame < 8; frame++) {
			move(&c.watching, 16);
			reloads += consume(&c, 5);
		}
	}
	cr_assert(reloads > 50, "%u reloads", reloads);
	for (int quiet = 0; quiet < 12; quiet++) {
		move(&c.watching, 16);
		if (consume(&c, 5))
			quiet = 0;
	}
	for (uint32_t i = 0; i < LOADED; i++) {
		char path[16], held[16];

		snprintf(held, sizeof(held), "%s", c.loaded[i]);
		snprintf(path, sizeof(path), "f%u", i);
		load(&c, i);
		cr_assert_str_eq(c.loaded[i], held, "%s: \"%s\" is held, \"%s\" is there", path,
				 held, c.loaded[i]);
	}
	ldr_watch_free(c.watching.watch);
	core_end(&c.watching.world);
}
