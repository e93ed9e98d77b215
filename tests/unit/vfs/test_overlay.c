/*
 * Write targets beyond the contract: whiteouts that are read back, shared or owned by another;
 * copies of the dead; names in another case.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/publisher_seams.h"
#include "tests/unit/vfs/core_world.h"

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define MOUNT(...) ((struct ldr_mount){__VA_ARGS__})
#define TARGET(...) MOUNT(.flags = LDR_MOUNT_WRITE, __VA_ARGS__)

static const struct table_row lower[] = {
	{"a", "lower a", 7}, {"b", "lower b", 7},     {"d", NULL, 0},
	{"d/e", NULL, 0},    {"d/e/deep", "deep", 4}, {"d/x", "x", 1},
	{"f", "lower f", 7}, {"g", "lower g", 7},     {NULL, NULL, 0},
};

/* The target over the lower names, as a game finds them at every start. */
static void mount_both(struct core_world *w, bool settled)
{
	core_mount(w, core_table(lower, false, NULL), MOUNT(.id = 1));
	core_mount(w, core_native(w, "own"), TARGET(.id = 2));
	if (settled)
		ldr_vfs_settle(w->vfs);
}

static void restart(struct core_world *w, bool settled)
{
	core_restart(w);
	mount_both(w, settled);
}

/* Each case once settled and once not, before and after a restart. */
static void over_restarts(void (*change)(struct core_world *w), void (*check)(struct core_world *w))
{
	for (int settled = 0; settled < 2; settled++) {
		struct core_world w;

		core_begin(&w);
		mount_both(&w, settled);
		change(&w);
		check(&w);
		restart(&w, settled);
		check(&w);
		restart(&w, !settled);
		check(&w);
		core_end(&w);
	}
}

/* ---- read back: V17, V18, V19 ---- */

static void rename_onto_hidden(struct core_world *w)
{
	core_gives(ldr_vfs_remove(w->vfs, "g", NULL), LDR_OK, "remove g");
	core_write(w, "f", "new f");
	core_gives(ldr_vfs_rename(w->vfs, "f", "g", NULL), LDR_OK, "f to g");
}

static void f_is_hidden(struct core_world *w)
{
	core_gives(core_exists(w, "f"), LDR_ENOTFOUND, "f");
	core_is(core_read(w, "g"), "new f", "g");
	core_is(core_list(w, ""), "a b d/ g", "root");
}

Test(overlay, rename_onto_a_hidden_name)
{
	over_restarts(rename_onto_hidden, f_is_hidden);
}

static void make_anew(struct core_world *w)
{
	core_gives(ldr_vfs_remove(w->vfs, "a", NULL), LDR_OK, "remove a");
	core_write(w, "a", "anew");
	core_gives(ldr_vfs_remove(w->vfs, "b", NULL), LDR_OK, "remove b");
	core_gives(ldr_vfs_mkdir(w->vfs, "b", NULL), LDR_OK, "a folder b");
	core_gives(ldr_vfs_remove(w->vfs, "f", NULL), LDR_OK, "remove f");
}

static void anew_is_seen(struct core_world *w)
{
	core_is(core_read(w, "a"), "anew", "a");
	core_is(core_list(w, "b"), "", "b");
	core_is(core_read(w, "f"), "LDR_ENOTFOUND", "f");
	core_is(core_list(w, ""), "a b/ d/ g", "root");
}

Test(overlay, made_anew)
{
	over_restarts(make_anew, anew_is_seen);
}

static void folder_anew(struct core_world *w)
{
	core_gives(ldr_vfs_remove(w->vfs, "d/e/deep", NULL), LDR_OK, "deep");
	core_gives(ldr_vfs_remove(w->vfs, "d/e", NULL), LDR_OK, "e");
	core_gives(ldr_vfs_remove(w->vfs, "d/x", NULL), LDR_OK, "x");
	core_gives(ldr_vfs_remove(w->vfs, "d", NULL), LDR_OK, "d");
	core_gives(ldr_vfs_mkdir(w->vfs, "d/e", NULL), LDR_OK, "d/e anew");
}

static void folder_is_empty(struct core_world *w)
{
	core_is(core_list(w, "d"), "e/", "d");
	core_is(core_list(w, "d/e"), "", "d/e");
	core_gives(core_exists(w, "d/e/deep"), LDR_ENOTFOUND, "deep");
	core_gives(ldr_vfs_remove(w->vfs, "d/e", NULL), LDR_OK, "rmdir");
	core_gives(ldr_vfs_mkdir(w->vfs, "d/e", NULL), LDR_OK, "and again");
}

Test(overlay, folder_made_anew)
{
	over_restarts(folder_anew, folder_is_empty);
}

/* A folder that shows the target's names alone can be renamed, whatever it hides. */
static void rename_anew(struct core_world *w)
{
	folder_anew(w);
	core_write(w, "d/e/mine", "mine");
	core_gives(ldr_vfs_rename(w->vfs, "d", "moved", NULL), LDR_OK, "d to moved");
	core_gives(ldr_vfs_rename(w->vfs, "moved", "d", NULL), LDR_OK, "and back");
	core_gives(ldr_vfs_rename(w->vfs, "d/e", "e", NULL), LDR_OK, "d/e to e");
}

static void renamed_anew(struct core_world *w)
{
	core_is(core_list(w, "d"), "", "d");
	core_is(core_list(w, "e"), "mine", "e");
	core_is(core_read(w, "e/mine"), "mine", "mine");
	core_is(core_list(w, ""), "a b d/ e/ f g", "root");
}

Test(overlay, folder_made_anew_is_renamed)
{
	over_restarts(rename_anew, renamed_anew);
}

Test(overlay, folder_of_both_is_not_renamed)
{
	struct core_world w;

	core_begin(&w);
	mount_both(&w, true);
	core_write(&w, "d/mine", "mine");
	core_gives(ldr_vfs_rename(w.vfs, "d", "moved", NULL), LDR_EUNSUPPORTED, "of both");
	core_is(core_list(&w, "d"), "e/ mine x", "nothing has happened");
	core_end(&w);
}

/* ---- one layer, several mounts ---- */

/* One set of whiteouts for a layer, however often it is mounted: in one instance and in two. */
static void shared(bool second_instance, bool on_disk)
{
	struct ldr_vfs_metrics metrics;
	struct core_world w, other;
	struct core_world *second = second_instance ? &other : &w;
	struct ldr_layer *own;

	core_begin(&w);
	core_begin(&other);
	own = on_disk ? core_native(&w, "own") : core_memory(NULL);
	core_mount(&w, core_table(lower, false, NULL), MOUNT(.id = 1, .at = "p"));
	core_mount(second, core_table(lower, false, NULL), MOUNT(.id = 2, .at = "q"));
	core_mount(&w, ldr_layer_ref(own), TARGET(.id = 3, .at = "p"));
	core_mount(second, own, TARGET(.id = 4, .at = "q"));
	core_gives(ldr_vfs_remove(w.vfs, "p/a", NULL), LDR_OK, "a by the first");
	core_gives(core_exists(second, "q/a"), LDR_ENOTFOUND, "a by the second");
	core_gives(ldr_vfs_remove(second->vfs, "q/b", NULL), LDR_OK, "b by the second");
	core_gives(core_exists(&w, "p/b"), LDR_ENOTFOUND, "b by the first");
	core_gives(ldr_vfs_remove(w.vfs, "p/f", NULL), LDR_OK, "f by the first");
	core_is(core_list(&w, "p"), "d/ g", "p");
	core_is(core_list(second, "q"), "d/ g", "q");
	ldr_vfs_metrics(second->vfs, &metrics);
	cr_assert_eq(metrics.whiteouts, 3, "%llu", (unsigned long long)metrics.whiteouts);
	/* One of them goes: the other works on. */
	core_gives(ldr_vfs_unmount(w.vfs, 3, false, NULL), LDR_OK, "unmount");
	core_is(core_list(second, "q"), "d/ g", "q");
	core_gives(ldr_vfs_remove(second->vfs, "q/g", NULL), LDR_OK, "g by the second");
	core_gives(ldr_vfs_unmount(second->vfs, 4, false, NULL), LDR_OK, "unmount");
	if (on_disk) {
		core_mount(&w, core_native(&w, "own"), TARGET(.id = 5, .at = "p"));
		core_is(core_list(&w, "p"), "d/", "all records are in the log");
	}
	core_end(&w);
	core_end(&other);
}

Test(overlay, one_layer_mounted_twice)
{
	for (int way = 0; way < 4; way++)
		shared(way & 1, way & 2);
}

/* A switch of a target's mount keeps what it hides, also where no log does. */
Test(overlay, switched_target)
{
	struct ldr_layer *own = core_memory(NULL);
	struct ldr_mount change = TARGET(.id = 2, .layer = own, .precedence = 3);
	struct core_world w;

	core_begin(&w);
	core_mount(&w, core_table(lower, false, NULL), MOUNT(.id = 1));
	core_mount(&w, ldr_layer_ref(own), TARGET(.id = 2));
	core_gives(ldr_vfs_remove(w.vfs, "a", NULL), LDR_OK, "remove");
	core_gives(ldr_vfs_apply(w.vfs, &change, 1, NULL), LDR_OK, "switch");
	ldr_vfs_settle(w.vfs);
	core_gives(core_exists(&w, "a"), LDR_ENOTFOUND, "still hidden");
	core_gives(ldr_vfs_unmount(w.vfs, 2, false, NULL), LDR_OK, "unmount");
	core_is(core_read(&w, "a"), "lower a", "shown without the target");
	core_mount(&w, own, TARGET(.id = 2));
	core_gives(core_exists(&w, "a"), LDR_ENOTFOUND, "the layer remembers");
	core_end(&w);
}

/* ---- the owner ---- */

/* Mounts "own" of the scratch folder as a write target; gives what came. */
static enum ldr_status mount_own(struct core_world *w, uint32_t id)
{
	struct ldr_layer *layer = core_native(w, "own");
	struct ldr_mount mount = TARGET(.id = id, .layer = layer);
	struct ldr_error err = {.status = LDR_OK};
	enum ldr_status status = ldr_vfs_mount(w->vfs, &mount, &err);

	cr_assert(status == LDR_OK || strstr(err.text, "own"), "the folder is not named: %s",
		  err.text);
	ldr_layer_unref(layer);
	return status;
}

/* A layer of its own over the same folder is another owner, in this process as in any. */
Test(overlay, one_owner)
{
	struct ldr_file *file;
	struct core_world w;

	core_begin(&w);
	core_gives(mount_own(&w, 1), LDR_OK, "first");
	core_gives(mount_own(&w, 2), LDR_ECONFLICT, "second");
	core_mount(&w, core_native(&w, "own"), MOUNT(.id = 3, .precedence = -1));
	core_write(&w, "x", "x");
	core_gives(ldr_vfs_open(w.vfs, "x", LDR_OPEN_APPEND, &file, NULL), LDR_OK, "open");
	core_gives(ldr_vfs_unmount(w.vfs, 1, false, NULL), LDR_OK, "unmount");
	core_gives(mount_own(&w, 2), LDR_OK, "after the unmount, a handle being open");
	core_gives(ldr_file_pwrite(file, "y", 1, 0, NULL), LDR_OK, "the handle works on");
	ldr_file_close(file);
	core_is(core_read(&w, "x"), "xy", "and wrote");
	core_end(&w);
}

/* Runs in a process of its own, which says what came and then waits until it is killed. */
static pid_t own_elsewhere(const struct core_world *w, enum ldr_status *out_status)
{
	enum ldr_status status;
	int pipe_fd[2];
	pid_t child;

	cr_assert_eq(pipe2(pipe_fd, O_CLOEXEC), 0);
	child = fork();
	cr_assert(child >= 0);
	if (child == 0) {
		struct core_world copy = *w;

		/* It must not outlive a test that fails. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pipe_fd[0]);
		status = ldr_vfs_new(NULL, &copy.vfs, NULL);
		if (status == LDR_OK)
			status = mount_own(&copy, 1);
		if (write(pipe_fd[1], &status, sizeof(status)) != sizeof(status))
			_exit(1);
		for (;;)
			pause();
	}
	close(pipe_fd[1]);
	cr_assert_eq(read(pipe_fd[0], out_status, sizeof(*out_status)),
		     (ssize_t)sizeof(*out_status));
	close(pipe_fd[0]);
	return child;
}

Test(overlay, owner_in_another_process)
{
	enum ldr_status elsewhere;
	struct core_world w = {.vfs = NULL};
	pid_t child;
	int status;

	scratch_open(&w.scratch);
	child = own_elsewhere(&w, &elsewhere);
	core_gives(elsewhere, LDR_OK, "the other process");
	scratch_write(&w.scratch, "own/.larder/copy-0123456789abcdef", "half");
	cr_assert_eq(ldr_vfs_new(NULL, &w.vfs, NULL), LDR_OK);
	core_gives(mount_own(&w, 1), LDR_ECONFLICT, "while it lives");
	cr_assert(scratch_exists(&w.scratch, "own/.larder/copy-0123456789abcdef"),
		  "a copy of a living owner was swept");
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	core_gives(mount_own(&w, 1), LDR_OK, "after its death");
	cr_assert(!scratch_exists(&w.scratch, "own/.larder/copy-0123456789abcdef"),
		  "a copy of a dead owner was left");
	core_end(&w);
}

/* Mounting a layer that is mounted already sweeps nothing: its copies may be under way. */
Test(overlay, living_copies_stay)
{
	struct core_world w, other;
	struct ldr_layer *own;

	core_begin(&w);
	core_begin(&other);
	own = core_native(&w, "own");
	core_mount(&w, ldr_layer_ref(own), TARGET(.id = 1));
	scratch_write(&w.scratch, "own/.larder/copy-0123456789abcdef", "half");
	core_mount(&w, ldr_layer_ref(own), TARGET(.id = 2, .at = "again"));
	core_mount(&other, own, TARGET(.id = 1));
	cr_assert(scratch_exists(&w.scratch, "own/.larder/copy-0123456789abcdef"));
	core_end(&other);
	cr_assert(scratch_exists(&w.scratch, "own/.larder/copy-0123456789abcdef"));
	core_restart(&w);
	core_mount(&w, core_native(&w, "own"), TARGET(.id = 1));
	cr_assert(!scratch_exists(&w.scratch, "own/.larder/copy-0123456789abcdef"));
	core_end(&w);
}

/* ---- whatever their case ---- */

static void check_folded(struct core_world *w)
{
	core_gives(core_exists(w, "Dir/File"), LDR_ENOTFOUND, "as it was removed");
	core_gives(core_exists(w, "dir/FILE"), LDR_ENOTFOUND, "in another case");
	core_gives(core_exists(w, "dir/file"), LDR_ENOTFOUND, "as it is written below");
	core_gives(core_exists(w, "\xc3\x84"
				  "RGER"),
		   LDR_ENOTFOUND, "beyond ASCII");
	core_gives(core_exists(w, "\xc3\xa4rger"), LDR_ENOTFOUND, "beyond ASCII, as below");
	core_gives(core_exists(w, "tree/inner/leaf"), LDR_ENOTFOUND, "below a hidden folder");
	core_is(core_list(w, "dir"), "stays", "the folder");
	core_is(core_list(w, ""), "dir/", "the root");
}

/* The target folds, or only what lies below it does. */
static void folded(unsigned target, unsigned below, bool on_disk, bool settled)
{
	static const char *const files[] = {"dir/file=1", "dir/stays=2", "\xc3\xa4rger=3",
					    "tree/inner/leaf=4", NULL};
	struct ldr_vfs_metrics before, after;
	struct core_world w;

	core_begin(&w);
	core_mount(&w, core_memory(files), MOUNT(.id = 1, .flags = below));
	core_mount(&w, on_disk ? core_native(&w, "own") : core_memory(NULL),
		   MOUNT(.id = 2, .flags = LDR_MOUNT_WRITE | target));
	if (settled)
		ldr_vfs_settle(w.vfs);
	core_gives(ldr_vfs_remove(w.vfs, below ? "Dir/File" : "dir/file", NULL), LDR_OK, "file");
	core_gives(ldr_vfs_remove(w.vfs, below ? "\xc3\x84RGER" : "\xc3\xa4rger", NULL), LDR_OK,
		   "beyond ASCII");
	core_gives(ldr_vfs_remove(w.vfs, below ? "TREE/Inner/LEAF" : "tree/inner/leaf", NULL),
		   LDR_OK, "leaf");
	core_gives(ldr_vfs_remove(w.vfs, below ? "tree/INNER" : "tree/inner", NULL), LDR_OK,
		   "inner");
	core_gives(ldr_vfs_remove(w.vfs, below ? "Tree" : "tree", NULL), LDR_OK, "tree");
	check_folded(&w);
	ldr_vfs_metrics(w.vfs, &before);
	if (on_disk) {
		core_restart(&w);
		core_mount(&w, core_memory(files), MOUNT(.id = 1, .flags = below));
		core_mount(&w, core_native(&w, "own"),
			   MOUNT(.id = 2, .flags = LDR_MOUNT_WRITE | target));
		check_folded(&w);
	}
	/* Made anew and removed in every case: no record for each of them. */
	for (unsigned i = 0; target && i < 16; i++) {
		char name[] = "dir/file";

		for (unsigned bit = 0; bit < 4; bit++)
			name[4 + bit] = (char)(name[4 + bit] - (i >> bit & 1 ? 32 : 0));
		core_write(&w, name, "anew");
		core_is(core_read(&w, "dir/file"), "anew", "anew");
		core_gives(ldr_vfs_remove(w.vfs, name, NULL), LDR_OK, name);
	}
	check_folded(&w);
	ldr_vfs_metrics(w.vfs, &after);
	cr_assert_eq(after.whiteouts, before.whiteouts, "whiteouts grew");
	core_end(&w);
}

Test(overlay, whiteouts_fold)
{
	for (unsigned way = 0; way < 12; way++) {
		unsigned kinds = way % 3 + 1;

		folded(kinds & 1 ? LDR_MOUNT_FOLD_CASE : 0, kinds & 2 ? LDR_MOUNT_FOLD_CASE : 0,
		       way / 3 & 1, way / 6 & 1);
	}
}

/* Where nobody folds, names of another case are other names. */
Test(overlay, whiteouts_do_not_fold)
{
	struct core_world w;

	core_begin(&w);
	core_mount(&w, core_memory(FILES("a=small", "A=large")), MOUNT(.id = 1));
	core_mount(&w, core_memory(NULL), TARGET(.id = 2));
	core_mount(&w, core_memory(FILES("z=z")),
		   MOUNT(.id = 3, .at = "elsewhere", .flags = LDR_MOUNT_FOLD_CASE));
	core_gives(ldr_vfs_remove(w.vfs, "A", NULL), LDR_OK, "remove");
	core_is(core_read(&w, "a"), "small", "the other one stays");
	core_is(core_list(&w, ""), "a elsewhere/", "root");
	core_end(&w);
}

/* ---- limits and failures ---- */

Test(overlay, largest_copy)
{
	const struct ldr_vfs_options options = {.size = sizeof(options), .max_copy_bytes = 6};
	static const struct table_row rows[] = {
		{"six", "123456", 6}, {"seven", "1234567", 7}, {NULL, NULL, 0}};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_vfs_metrics metrics;
	struct ldr_file *file;
	struct core_world w;

	core_begin(&w);
	ldr_vfs_free(w.vfs);
	cr_assert_eq(ldr_vfs_new(&options, &w.vfs, NULL), LDR_OK);
	core_mount(&w, core_table(rows, false, NULL), MOUNT(.id = 1));
	core_mount(&w, core_native(&w, "own"), TARGET(.id = 2));
	core_gives(ldr_vfs_open(w.vfs, "six", LDR_OPEN_APPEND, &file, NULL), LDR_OK, "at it");
	ldr_file_close(file);
	core_gives(ldr_vfs_open(w.vfs, "seven", LDR_OPEN_APPEND, &file, &err), LDR_ELIMIT, "over");
	cr_assert(strstr(err.text, "7") && strstr(err.text, "6"), "both values: %s", err.text);
	core_gives(ldr_vfs_rename(w.vfs, "seven", "other", NULL), LDR_ELIMIT, "renamed");
	core_is(core_read(&w, "seven"), "1234567", "as it was");
	core_gives(core_exists(&w, "other"), LDR_ENOTFOUND, "nothing half");
	core_gives(ldr_vfs_open(w.vfs, "seven", LDR_OPEN_WRITE, &file, NULL), LDR_OK,
		   "no copy is needed where it is emptied");
	ldr_file_close(file);
	ldr_vfs_metrics(w.vfs, &metrics);
	cr_assert_eq(metrics.copied_up, 1);
	cr_assert_eq(scratch_count(&w.scratch, "own/.larder", "copy-"), 0);
	core_end(&w);
}

/* A record that could not be written hides nothing, and the next one repairs the log. */
Test(overlay, log_that_fails)
{
	static const enum ldr_seam_call calls[] = {LDR_SEAM_WRITE, LDR_SEAM_SYNC, LDR_SEAM_OPEN};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct core_world w;

		core_begin(&w);
		mount_both(&w, true);
		core_gives(ldr_vfs_remove(w.vfs, "a", NULL), LDR_OK, "a");
		ldr_seam_fail(calls[i], 1, 1, EIO);
		core_gives(ldr_vfs_remove(w.vfs, "b", NULL), LDR_EIO, "b");
		ldr_seam_reset();
		core_is(core_read(&w, "b"), "lower b", "b is as it was");
		core_gives(ldr_vfs_remove(w.vfs, "f", NULL), LDR_OK, "f");
		restart(&w, true);
		core_is(core_list(&w, ""), "b d/ g", "after a restart");
		core_end(&w);
	}
}

/* What a crash left at the end is cut off; what it can not have left keeps the mount away. */
Test(overlay, torn_log)
{
	const char *log = "own/.larder/overlay.log";
	struct ldr_layer *layer;
	struct core_world w;
	char path[256];
	FILE *file;

	core_begin(&w);
	mount_both(&w, true);
	core_gives(ldr_vfs_remove(w.vfs, "a", NULL), LDR_OK, "a");
	ldr_vfs_free(w.vfs);
	file = fopen(scratch_join(&w.scratch, log, path), "abe");
	cr_assert(file);
	for (int i = 0; i < 11; i++)
		fputc(0, file);
	fclose(file);
	cr_assert_eq(ldr_vfs_new(NULL, &w.vfs, NULL), LDR_OK);
	mount_both(&w, true);
	core_is(core_list(&w, ""), "b d/ f g", "the record before it holds");
	core_gives(ldr_vfs_remove(w.vfs, "b", NULL), LDR_OK, "b");
	restart(&w, true);
	core_is(core_list(&w, ""), "d/ f g", "and so do later ones");
	ldr_vfs_free(w.vfs);
	cr_assert_eq(ldr_vfs_new(NULL, &w.vfs, NULL), LDR_OK);
	file = fopen(path, "r+be");
	cr_assert(file && fseek(file, 20, SEEK_SET) == 0);
	fputc(0x55, file);
	fclose(file);
	layer = core_native(&w, "own");
	core_mount_gives(&w, layer, TARGET(.id = 2), LDR_ECORRUPT);
	core_end(&w);
}
