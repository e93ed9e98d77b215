/*
 * The batch: what a plan does to a folder, refusals, changes of kind, faults of every call. Killed runs
 * are in test_batch_kill.c.
 */
#include "common/batch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/publisher_seams.h"
#include "tests/unit/common/installation.h"
#include "tests/unit/common/scratch.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

static struct scratch scratch;
static struct ldr_batch *batch;

static void begin(void)
{
	umask(0022);
	scratch_open(&scratch);
	ldr_seam_reset();
}

static void end(void)
{
	ldr_seam_reset();
	ldr_batch_end(batch);
	batch = NULL;
	scratch_close(&scratch);
}

TestSuite(batch, .init = begin, .fini = end);

static void start(enum ldr_sync sync)
{
	struct ldr_error err = {0};

	cr_assert_eq(ldr_batch_begin(scratch.path, sync, &batch, &err), LDR_OK, "%s", err.text);
}

static void stop(void)
{
	ldr_batch_end(batch);
	batch = NULL;
}

static void put(const char *name, const char *text)
{
	struct ldr_error err = {0};
	int fd = -1;

	cr_assert_eq(ldr_batch_open(batch, name, &fd, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void expect_tree(const char *wanted, const char *what)
{
	static char found[SCRATCH_TREE_BYTES];

	scratch_tree(&scratch, ".larder", found);
	cr_expect_str_eq(found, wanted, "%s: found\n%swanted\n%s", what, found, wanted);
}

/* ---- a first installation ---- */

static void install_first(enum ldr_sync sync)
{
	struct ldr_error err = {0};

	start(sync);
	cr_assert_eq(installation_first(batch, &err), LDR_OK, "%s", err.text);
	stop();
}

Test(batch, first_installation)
{
	static const mode_t masks[] = {0022, 0077, 0000};
	int descriptors = scratch_descriptors();

	for (size_t i = 0; i < CASES(masks); i++)
		for (int sync = LDR_SYNC_FILE_AND_FOLDER; sync <= LDR_SYNC_NONE; sync++) {
			umask(masks[i]);
			ldr_seam_reset();
			install_first(sync);
			cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNCFS),
				     sync == LDR_SYNC_NONE ? 0u : 2u);
			cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC),
				     sync == LDR_SYNC_NONE   ? 0u
				     : sync == LDR_SYNC_FILE ? 2u
							     : 4u,
				     "plan and record");
			expect_tree(installation_first_tree, "whatever the umask");
			cr_expect(scratch_is(&scratch, ".larder/installed", "the record", 10));
			cr_expect_not(scratch_exists(&scratch, ".larder/plan"));
			cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 0);
			cr_expect_eq(scratch_count(&scratch, ".larder", ""), 3,
				     "installed, lock, tmp");
			cr_expect_eq(scratch_mode(&scratch, ".larder/tmp"), 0700u);
			umask(0022);
			scratch_close(&scratch);
			scratch_open(&scratch);
		}
	cr_assert_eq(scratch_descriptors(), descriptors);
}

/* The price of a file is one openat and one renameat; a folder's is one mkdir, and one openat2 on the
 * way in. */
Test(batch, system_calls_of_many_files)
{
	enum { FOLDERS = 20, FILES = 50 };
	static struct ldr_batch_step steps[FOLDERS + FOLDERS * FILES];
	static char paths[CASES(steps)][48], names[CASES(steps)][16];
	size_t count = 0;

	start(LDR_SYNC_FILE_AND_FOLDER);
	ldr_seam_reset();
	for (int i = 0; i < FOLDERS; i++) {
		snprintf(paths[count], sizeof(paths[0]), "folder%d", i);
		steps[count] = (struct ldr_batch_step){LDR_BATCH_FOLDER, paths[count], NULL, 0755};
		count++;
		for (int k = 0; k < FILES; k++) {
			int fd;

			snprintf(paths[count], sizeof(paths[0]), "folder%d/file%d", i, k);
			snprintf(names[count], sizeof(names[0]), "t%zu", count);
			cr_assert_eq(ldr_batch_open(batch, names[count], &fd, NULL), LDR_OK);
			close(fd);
			steps[count] = (struct ldr_batch_step){LDR_BATCH_FILE, paths[count],
							       names[count], 0644};
			count++;
		}
	}
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_OPEN), FOLDERS * FILES);
	ldr_seam_reset();
	cr_assert_eq(installation_apply(batch, steps, count, NULL), LDR_OK);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_RENAME), FOLDERS * FILES + 2u, "files, plan, record");
	cr_expect_leq(ldr_seam_calls(LDR_SEAM_OPEN), FOLDERS + 12u);
	cr_expect_leq(ldr_seam_calls(LDR_SEAM_CHMOD), 2u, "plan and record");
	cr_expect_leq(ldr_seam_calls(LDR_SEAM_STAT), 10u);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_MKDIR), (unsigned)FOLDERS);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNCFS), 2u);
}

/* ---- changes: what was there, the steps, what is there ---- */

struct change {
	const char *what;
	struct ldr_batch_step steps[6];
	const char *tree;
};

static const char before_tree[] = "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nl l -> f\n";

/* Before each: d/ with d/f "old", e/ empty, f "old", l -> f; mode 755 and 644. Temporary t: "new". */
static const struct change changes[] = {
	{"replace a file",
	 {{LDR_BATCH_FILE, "f", "t", 0755}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 755 f new\nl l -> f\n"},
	{"remove a file and a symlink",
	 {{LDR_BATCH_REMOVE, "f", NULL, 0}, {LDR_BATCH_REMOVE, "l", NULL, 0}},
	 "d 755 d\nf 644 d/f old\nd 755 e\n"},
	{"remove what is not there",
	 {{LDR_BATCH_REMOVE, "x", NULL, 0},
	  {LDR_BATCH_REMOVE, "x/y", NULL, 0},
	  {LDR_BATCH_REMOVE, "f/y", NULL, 0},
	  {LDR_BATCH_REMOVE, "e", NULL, 0},
	  {LDR_BATCH_UNMAKE, "x/y", NULL, 0},
	  {LDR_BATCH_UNMAKE, "f", NULL, 0}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nl l -> f\n"},
	{"an empty folder goes, a folder with somebody's file stays",
	 {{LDR_BATCH_UNMAKE, "d", NULL, 0}, {LDR_BATCH_UNMAKE, "e", NULL, 0}},
	 "d 755 d\nf 644 d/f old\nf 644 f old\nl l -> f\n"},
	{"a folder and its file go, whatever the order given",
	 {{LDR_BATCH_UNMAKE, "d", NULL, 0}, {LDR_BATCH_REMOVE, "d/f", NULL, 0}},
	 "d 755 e\nf 644 f old\nl l -> f\n"},
	{"file to folder",
	 {{LDR_BATCH_FOLDER, "f", NULL, 0755}, {LDR_BATCH_FILE, "f/x", "t", 0644}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nd 755 f\nf 644 f/x new\nl l -> f\n"},
	{"symlink to folder",
	 {{LDR_BATCH_FOLDER, "l", NULL, 0755}, {LDR_BATCH_FILE, "l/x", "t", 0644}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nd 755 l\nf 644 l/x new\n"},
	{"folder to file",
	 {{LDR_BATCH_REMOVE, "d/f", NULL, 0},
	  {LDR_BATCH_UNMAKE, "d", NULL, 0},
	  {LDR_BATCH_FILE, "d", "t", 0644}},
	 "f 644 d new\nd 755 e\nf 644 f old\nl l -> f\n"},
	{"an empty folder that is left to a file",
	 {{LDR_BATCH_FILE, "e", "t", 0644}},
	 "d 755 d\nf 644 d/f old\nf 644 e new\nf 644 f old\nl l -> f\n"},
	{"an empty folder that is left to a symlink",
	 {{LDR_BATCH_SYMLINK, "e", "f", 0}},
	 "d 755 d\nf 644 d/f old\nl e -> f\nf 644 f old\nl l -> f\n"},
	{"folder to symlink",
	 {{LDR_BATCH_REMOVE, "d/f", NULL, 0},
	  {LDR_BATCH_UNMAKE, "d", NULL, 0},
	  {LDR_BATCH_SYMLINK, "d", "e", 0}},
	 "l d -> e\nd 755 e\nf 644 f old\nl l -> f\n"},
	{"symlink to file, its target untouched",
	 {{LDR_BATCH_FILE, "l", "t", 0644}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nf 644 l new\n"},
	{"file to symlink",
	 {{LDR_BATCH_SYMLINK, "f", "d/f", 0}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nl f -> d/f\nl l -> f\n"},
	{"symlink to symlink, and the same again",
	 {{LDR_BATCH_SYMLINK, "l", "d/f", 0}, {LDR_BATCH_SYMLINK, "l", "d/f", 0}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nl l -> d/f\n"},
	{"nothing is removed through a symlink",
	 {{LDR_BATCH_SYMLINK, "l", "d", 0},
	  {LDR_BATCH_REMOVE, "l/f", NULL, 0},
	  {LDR_BATCH_UNMAKE, "l/e", NULL, 0}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nl l -> d\n"},
	{"modes",
	 {{LDR_BATCH_MODE, "f", NULL, 0600},
	  {LDR_BATCH_MODE, "d", NULL, 0750},
	  {LDR_BATCH_FOLDER, "e", NULL, 0700}},
	 "d 750 d\nf 644 d/f old\nd 700 e\nf 600 f old\nl l -> f\n"},
	{"nothing", {{0}}, before_tree},
	{"a file in a folder that may not be written to",
	 {{LDR_BATCH_FOLDER, "r", NULL, 0555}, {LDR_BATCH_FILE, "r/x", "t", 0444}},
	 "d 755 d\nf 644 d/f old\nd 755 e\nf 644 f old\nl l -> f\nd 555 r\nf 444 r/x new\n"},
};

static size_t count_steps(const struct ldr_batch_step steps[6])
{
	size_t count = 0;

	while (count < 6 && steps[count].path)
		count++;
	return count;
}

static void make_before(void)
{
	scratch_mkdir(&scratch, "d");
	scratch_write(&scratch, "d/f", "old");
	scratch_mkdir(&scratch, "e");
	scratch_write(&scratch, "f", "old");
	scratch_link(&scratch, "l", "f");
}

/* Each change, and the same once more: all steps but a rename can be repeated. */
Test(batch, changes)
{
	for (size_t i = 0; i < CASES(changes); i++)
		for (int again = 0; again < 2; again++) {
			const struct change *row = &changes[i];
			struct ldr_error err = {0};

			if (!again)
				make_before();
			start(LDR_SYNC_NONE);
			put("t", "new");
			cr_expect_eq(installation_apply(batch, row->steps, count_steps(row->steps),
							&err),
				     LDR_OK, "%s: %s", row->what, err.text);
			stop();
			/* The second FOLDER in place of a file finds its own folder. */
			expect_tree(row->tree, row->what);
			if (again) {
				scratch_close(&scratch);
				scratch_open(&scratch);
			}
		}
}

/* ---- refusals: nothing of them happens ---- */

struct refusal {
	struct ldr_batch_step step;
	enum ldr_status status;
	const char *text;
};

Test(batch, refused_before_anything_happens)
{
	static const struct refusal refusals[] = {
		{{LDR_BATCH_FILE, "../x", "t", 0644}, LDR_EINVAL, ".."},
		{{LDR_BATCH_FILE, "/x", "t", 0644}, LDR_EINVAL, "absolute"},
		{{LDR_BATCH_REMOVE, "a//b", NULL, 0}, LDR_EINVAL, "empty component"},
		{{LDR_BATCH_FILE, ".larder/x", "t", 0644}, LDR_EINVAL, "reserved"},
		{{LDR_BATCH_REMOVE, ".larder", NULL, 0}, LDR_EINVAL, "reserved"},
		{{LDR_BATCH_FOLDER, ".LARDER/tmp", NULL, 0755}, LDR_EINVAL, "reserved"},
		{{LDR_BATCH_FILE, "x", "t", 04755}, LDR_EINVAL, "mode 4755"},
		{{LDR_BATCH_FILE, "x", NULL, 0644}, LDR_EINVAL, "no source"},
		{{LDR_BATCH_FILE, "x", "", 0644}, LDR_EINVAL, "name of a temporary"},
		{{LDR_BATCH_FILE, "x", ".link", 0644}, LDR_EINVAL, "name of a temporary"},
		{{LDR_BATCH_FILE, "x", "../lock", 0644}, LDR_EINVAL, "name of a temporary"},
		{{LDR_BATCH_SYMLINK, "x", NULL, 0}, LDR_EINVAL, "no source"},
		{{LDR_BATCH_SYMLINK, "x", "../y", 0}, LDR_ELINK, "leads out"},
		{{LDR_BATCH_SYMLINK, "a/x", "../../y", 0}, LDR_ELINK, "leads out"},
		{{LDR_BATCH_SYMLINK, "x", "/etc", 0}, LDR_ELINK, "absolute"},
		{{LDR_BATCH_SYMLINK, "x", "", 0}, LDR_ELINK, "empty"},
		{{7, "x", NULL, 0}, LDR_EINVAL, "kind of step 7"},
		{{LDR_BATCH_FILE, "x", "gone", 0755}, LDR_ENOTFOUND, "temporary gone"},
	};

	make_before();
	start(LDR_SYNC_NONE);
	put("t", "new");
	for (size_t i = 0; i < CASES(refusals); i++) {
		struct ldr_batch_step steps[] = {{LDR_BATCH_REMOVE, "f", NULL, 0},
						 {LDR_BATCH_FILE, "new", "t", 0644},
						 refusals[i].step};
		struct ldr_error err = {0};

		cr_expect_eq(installation_apply(batch, steps, 3, &err), refusals[i].status,
			     "%zu: %s", i, err.text);
		cr_expect(strstr(err.text, refusals[i].text) != NULL, "%zu: %s", i, err.text);
		expect_tree(before_tree, "nothing has happened");
		cr_expect(scratch_is(&scratch, ".larder/tmp/t", "new", 3));
		cr_expect_not(scratch_exists(&scratch, ".larder/plan"));
		cr_expect_not(scratch_exists(&scratch, ".larder/installed"));
	}
}

/* Refused when it comes to them: a symlink on the way above all, put there by whomever. */
Test(batch, refused_on_the_way)
{
	static const struct refusal refusals[] = {
		{{LDR_BATCH_FILE, "way/x", "t", 0644}, LDR_ELINK, "way/x: folder above"},
		{{LDR_BATCH_FILE, "outside/x", "t", 0644}, LDR_ELINK, "folder above"},
		{{LDR_BATCH_FOLDER, "way/x", NULL, 0755}, LDR_ELINK, "folder above"},
		{{LDR_BATCH_SYMLINK, "way/x", "f", 0}, LDR_ELINK, "folder above"},
		{{LDR_BATCH_MODE, "way/f", NULL, 0600}, LDR_ELINK, "folder above"},
		{{LDR_BATCH_MODE, "way", NULL, 0600}, LDR_EIO, "set the mode"},
		{{LDR_BATCH_MODE, "gone", NULL, 0600}, LDR_ENOTFOUND, "set the mode"},
		{{LDR_BATCH_FILE, "gone/x", "t", 0644}, LDR_ENOTFOUND, "folder above"},
		{{LDR_BATCH_FILE, "f/x", "t", 0644}, LDR_ENOTDIR, "folder above"},
		{{LDR_BATCH_FILE, "d", "t", 0644}, LDR_ENOTEMPTY, "d: put in place"},
		{{LDR_BATCH_SYMLINK, "d", "f", 0}, LDR_ENOTEMPTY, "d: link"},
		{{LDR_BATCH_FILE, "x", "gone", 0644}, LDR_ENOTFOUND, "temporary gone"},
	};
	static char wanted[SCRATCH_TREE_BYTES];
	struct scratch elsewhere;

	scratch_open(&elsewhere);
	make_before();
	scratch_link(&scratch, "way", "d");
	scratch_link(&scratch, "outside", elsewhere.path);
	scratch_tree(&scratch, NULL, wanted);
	start(LDR_SYNC_NONE);
	for (size_t i = 0; i < CASES(refusals); i++) {
		struct ldr_error err = {0};

		put("t", "new");
		cr_expect_eq(installation_apply(batch, &refusals[i].step, 1, &err),
			     refusals[i].status, "%zu: %s", i, err.text);
		cr_expect(strstr(err.text, refusals[i].text) != NULL, "%zu: %s", i, err.text);
		expect_tree(wanted, refusals[i].step.path);
		cr_expect(scratch_is(&scratch, ".larder/tmp/t", "new", 3), "kept for the next run");
		cr_expect(scratch_is(&scratch, ".larder/plan", "the plan", 8), "names what is due");
		cr_expect_not(scratch_exists(&scratch, ".larder/installed"));
	}
	cr_expect_eq(scratch_count(&elsewhere, ".", ""), 0, "nothing was led outside");
	scratch_close(&elsewhere);
}

/* ---- temporaries ---- */

static bool keep_even(void *context, const char *name)
{
	++*(int *)context;
	return (name[1] - '0') % 2 == 0;
}

Test(batch, temporaries)
{
	static const char *const wrong[] = {"", ".", "..", ".x", "a/b", "/", "../lock"};
	struct ldr_error err = {0};
	int asked = 0, fd = -1;
	char found[8] = "", long_name[300];

	start(LDR_SYNC_NONE);
	memset(long_name, 'a', sizeof(long_name));
	long_name[256] = '\0';
	cr_expect_eq(ldr_batch_open(batch, long_name, &fd, NULL), LDR_EINVAL);
	long_name[255] = '\0';
	cr_expect_eq(ldr_batch_open(batch, long_name, &fd, NULL), LDR_OK);
	close(fd);
	cr_expect_eq(ldr_batch_discard(batch, long_name, NULL), LDR_OK);
	for (size_t i = 0; i < CASES(wrong); i++) {
		cr_expect_eq(ldr_batch_open(batch, wrong[i], &fd, &err), LDR_EINVAL, "%s",
			     wrong[i]);
		cr_expect_eq(ldr_batch_discard(batch, wrong[i], NULL), LDR_EINVAL);
	}
	for (char name[] = "t0"; name[1] < '8'; name[1]++)
		put(name, name);
	cr_expect_eq(ldr_batch_discard(batch, "t7", NULL), LDR_OK);
	cr_expect_eq(ldr_batch_discard(batch, "t7", NULL), LDR_OK, "gone already");
	stop();

	/* The next run finds them, with their bytes, whatever mode an interrupted run gave them. */
	cr_assert_eq(fchmodat(scratch.fd, ".larder/tmp/t2", 0400, 0), 0);
	cr_assert_eq(fchmodat(scratch.fd, ".larder/tmp", 0755, 0), 0);
	start(LDR_SYNC_NONE);
	cr_expect_eq(scratch_mode(&scratch, ".larder/tmp"), 0700u);
	cr_assert_eq(ldr_batch_open(batch, "t2", &fd, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(read(fd, found, sizeof(found)), 2);
	cr_expect_str_eq(found, "t2");
	cr_assert_eq(write(fd, "+", 1), 1);
	close(fd);
	cr_expect_eq(scratch_mode(&scratch, ".larder/tmp/t2"), 0644u);
	scratch_write(&scratch, ".larder/tmp/.own", "x");
	cr_expect_eq(ldr_batch_sweep(batch, keep_even, &asked, NULL), LDR_OK);
	cr_expect_eq(asked, 7);
	cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 4);
	cr_expect(scratch_is(&scratch, ".larder/tmp/t2", "t2+", 3));
	cr_expect_eq(ldr_batch_sweep(batch, NULL, NULL, NULL), LDR_OK);
	cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 0);
	scratch_link(&scratch, ".larder/tmp/link", "../lock");
	cr_expect_neq(ldr_batch_open(batch, "link", &fd, NULL), LDR_OK, "never through a symlink");
	scratch_mkdir(&scratch, ".larder/tmp/folder");
	cr_expect_neq(ldr_batch_open(batch, "folder", &fd, NULL), LDR_OK);
}

/* ---- begin and finish ---- */

static void begin_elsewhere(void *context)
{
	struct ldr_batch *other = NULL;

	_exit(ldr_batch_begin(context, LDR_SYNC_NONE, &other, NULL));
}

Test(batch, one_at_a_time)
{
	struct ldr_batch *other = NULL;
	struct ldr_error err = {0};

	start(LDR_SYNC_NONE);
	cr_expect_eq(scratch_child(begin_elsewhere, scratch.path), LDR_ECONFLICT);
	cr_expect_eq(ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &other, &err), LDR_ECONFLICT,
		     "not even by the same process");
	cr_expect(strstr(err.text, "another process") != NULL, "%s", err.text);
	cr_expect_null(other);
	stop();
	cr_expect_eq(scratch_child(begin_elsewhere, scratch.path), LDR_OK);
	start(LDR_SYNC_NONE);
}

Test(batch, begin_refusals_and_faults)
{
	static const enum ldr_seam_call kinds[] = {LDR_SEAM_ALLOC, LDR_SEAM_OPEN,  LDR_SEAM_STAT,
						   LDR_SEAM_LOCK,  LDR_SEAM_MKDIR, LDR_SEAM_UNLINK};
	int descriptors = scratch_descriptors();
	struct scratch elsewhere;
	char path[256];

	for (size_t i = 0; i < CASES(kinds); i++)
		for (unsigned number = 1;; number++) {
			enum ldr_status status;
			bool reached;

			ldr_seam_reset();
			ldr_seam_fail(kinds[i], number, 1, EIO);
			status = ldr_batch_begin(scratch_join(&scratch, "a/b", path), LDR_SYNC_NONE,
						 &batch, NULL);
			reached = ldr_seam_calls(kinds[i]) >= number;
			ldr_seam_reset();
			cr_expect_eq(status != LDR_OK, reached, "kind %d, %u", kinds[i], number);
			stop();
			cr_expect_eq(scratch_descriptors(), descriptors);
			if (scratch_exists(&scratch, "a/b/.larder/tmp/.probe"))
				scratch_remove(&scratch, "a/b/.larder/tmp/.probe");
			if (!reached)
				break;
			while (scratch_count(&scratch, ".", "")) /* from the beginning */
				scratch_close(&scratch), scratch_open(&scratch);
		}
	scratch_open(&elsewhere);
	scratch_mkdir(&scratch, "x");
	scratch_link(&scratch, "x/.larder", elsewhere.path);
	cr_expect_eq(
		ldr_batch_begin(scratch_join(&scratch, "x", path), LDR_SYNC_NONE, &batch, NULL),
		LDR_ELINK);
	cr_expect_eq(scratch_count(&elsewhere, ".", ""), 0);
	scratch_close(&elsewhere);
	scratch_write(&scratch, "file", "x");
	cr_expect_eq(
		ldr_batch_begin(scratch_join(&scratch, "file", path), LDR_SYNC_NONE, &batch, NULL),
		LDR_ENOTDIR);
	cr_assert_eq(scratch_descriptors(), descriptors);
	ldr_batch_end(NULL);
}

/* The record that needs what apply did is published by the caller's second call. */
Test(batch, finish_apart)
{
	static const struct ldr_batch_step step = {LDR_BATCH_FILE, "f", "t", 0644};
	struct ldr_batch_plan plan = {
		.steps = &step, .step_count = 1, .plan = "p", .plan_bytes = 1};
	struct ldr_stamp stamp;

	start(LDR_SYNC_FILE_AND_FOLDER);
	put("t", "new");
	put("left", "over");
	cr_assert_eq(ldr_batch_apply(batch, &plan, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, ".larder/plan", "p", 1));
	cr_expect_not(scratch_exists(&scratch, ".larder/installed"));
	cr_expect(scratch_is(&scratch, ".larder/tmp/left", "over", 4));
	cr_assert_eq(ldr_root_observe(ldr_batch_target(batch), "f", &stamp, NULL), LDR_OK);
	scratch_write(&scratch, ".larder/.larder-tmp.1.1", "of a dead run");
	cr_assert_eq(ldr_batch_finish(batch, "rr", 2, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, ".larder/installed", "rr", 2));
	cr_expect_not(scratch_exists(&scratch, ".larder/plan"));
	cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 0);
	cr_expect_eq(scratch_count(&scratch, ".larder", ".larder-tmp"), 0);
	cr_assert_eq(ldr_batch_finish(batch, "rr", 2, NULL), LDR_OK, "no plan: nothing to remove");
	cr_expect_str_eq(strrchr(ldr_root_path(ldr_batch_private(batch)), '/'), "/.larder");
}

/* ---- every call of an update fails once; the next run completes it ---- */

Test(batch, every_call_of_an_update_fails_once, .timeout = 120)
{
	static const enum ldr_seam_call kinds[] = {
		LDR_SEAM_OPEN,   LDR_SEAM_WRITE,   LDR_SEAM_SYNC,  LDR_SEAM_SYNCFS,
		LDR_SEAM_STAT,   LDR_SEAM_CHMOD,   LDR_SEAM_MKDIR, LDR_SEAM_RENAME,
		LDR_SEAM_UNLINK, LDR_SEAM_SYMLINK, LDR_SEAM_LOCK,  LDR_SEAM_LIST,
	};
	int descriptors = scratch_descriptors();
	unsigned failed = 0;

	for (size_t i = 0; i < CASES(kinds); i++)
		for (unsigned number = 1;; number++) {
			struct ldr_error err = {0};
			enum ldr_status status;
			bool reached;

			install_first(LDR_SYNC_NONE);
			start(LDR_SYNC_FILE_AND_FOLDER);
			ldr_seam_reset();
			ldr_seam_fail(kinds[i], number, 1, ENOSPC);
			status = installation_update(batch, &scratch, &err);
			reached = ldr_seam_calls(kinds[i]) >= number;
			ldr_seam_reset();
			if (status) {
				cr_expect_eq(status, LDR_ENOSPACE, "%s", err.text);
				cr_expect(reached, "%s", err.text);
				failed++;
			}
			stop();
			cr_expect_eq(scratch_descriptors(), descriptors);
			/* Whatever needs room is written before the first change. */
			if (status && kinds[i] == LDR_SEAM_WRITE)
				expect_tree(installation_first_tree, err.text);
			start(LDR_SYNC_NONE);
			cr_expect_eq(installation_update(batch, &scratch, &err), LDR_OK,
				     "kind %d, %u: %s", kinds[i], number, err.text);
			stop();
			expect_tree(installation_update_tree, err.text);
			cr_expect_not(scratch_exists(&scratch, ".larder/plan"));
			cr_expect_eq(scratch_count(&scratch, ".larder", ""), 3);
			cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 0);
			scratch_close(&scratch);
			scratch_open(&scratch);
			if (!reached)
				break;
		}
	cr_assert_geq(failed, 50u);
}
