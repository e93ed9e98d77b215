/*
 * The batch among killed processes, threads and users without rights.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/batch.h"
#include "common/publisher_seams.h"
#include "tests/unit/common/installation.h"
#include "tests/unit/common/scratch.h"

static struct scratch scratch;

static void begin(void)
{
	umask(0022);
	scratch_open(&scratch);
	ldr_seam_reset();
}

static void end(void)
{
	ldr_seam_reset();
	scratch_close(&scratch);
}

TestSuite(batch_kill, .init = begin, .fini = end);

static void install_first(void)
{
	struct ldr_batch *batch = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &batch, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(installation_first(batch, &err), LDR_OK, "%s", err.text);
	ldr_batch_end(batch);
}

static enum ldr_status update(struct ldr_error *err)
{
	struct ldr_batch *batch = NULL;
	enum ldr_status status = ldr_batch_begin(scratch.path, LDR_SYNC_FILE, &batch, err);

	if (!status)
		status = installation_update(batch, &scratch, err);
	ldr_batch_end(batch);
	return status;
}

/* ---- killed after each step ---- */

struct run {
	unsigned cut; /* counted over all kinds of steps */
	unsigned seen;
	bool planned;
	int report_fd;
};

static void die_at_cut(void *context, enum ldr_seam_step step, unsigned number)
{
	struct run *run = context;

	(void)number;
	run->planned |= step == LDR_STEP_BATCH_PLANNED;
	if (++run->seen != run->cut)
		return;
	cr_assert_eq(write(run->report_fd, &run->planned, sizeof(run->planned)),
		     (ssize_t)sizeof(run->planned));
	raise(SIGKILL);
}

static void update_in_child(void *context)
{
	ldr_seam_on_step(die_at_cut, context);
	_exit(update(NULL));
}

static bool has_line(const char *tree, const char *line, size_t length)
{
	for (const char *here = tree; (here = strstr(here, line)); here++)
		if ((here == tree || here[-1] == '\n') && here[length] == '\n')
			return true;
	return false;
}

/* Each path is as the one or as the other release has it; those that both have in one kind are there. */
static void expect_old_or_new(unsigned cut)
{
	static const char *const kept[] = {"bin",           "data",          "data/maps",
					   "data/maps/one", "data/maps/two", "data/maps/up"};
	static char tree[SCRATCH_TREE_BYTES];
	char line[512];

	scratch_tree(&scratch, ".larder", tree);
	for (const char *here = tree; *here; here = strchr(here, '\n') + 1) {
		size_t length = strcspn(here, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)length, here);
		cr_expect(has_line(installation_first_tree, line, length) ||
				  has_line(installation_update_tree, line, length),
			  "cut %u: neither old nor new: %s", cut, line);
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		cr_expect(scratch_exists(&scratch, kept[i]), "cut %u: %s is gone", cut, kept[i]);
}

static bool cut_once(unsigned cut)
{
	struct run run = {.cut = cut};
	static char tree[SCRATCH_TREE_BYTES];
	struct ldr_error err = {0};
	int pipe_fds[2], end_of_child;
	bool planned = false;

	install_first();
	cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
	run.report_fd = pipe_fds[1];
	end_of_child = scratch_child(update_in_child, &run);
	close(pipe_fds[1]);
	if (end_of_child == -SIGKILL)
		cr_assert_eq(read(pipe_fds[0], &planned, sizeof(planned)),
			     (ssize_t)sizeof(planned));
	close(pipe_fds[0]);
	if (end_of_child != -SIGKILL) {
		cr_assert_eq(end_of_child, 0);
		return false;
	}
	scratch_tree(&scratch, ".larder", tree);
	if (!planned)
		cr_expect_str_eq(tree, installation_first_tree, "cut %u: untouched so far", cut);
	expect_old_or_new(cut);
	cr_expect_eq(update(&err), LDR_OK, "cut %u: %s", cut, err.text);
	scratch_tree(&scratch, ".larder", tree);
	cr_expect_str_eq(tree, installation_update_tree, "cut %u", cut);
	cr_expect_not(scratch_exists(&scratch, ".larder/plan"), "cut %u", cut);
	cr_expect(scratch_is(&scratch, ".larder/installed", "the record", 10));
	cr_expect_eq(scratch_count(&scratch, ".larder", ""), 3, "cut %u", cut);
	cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), 0, "cut %u", cut);
	return true;
}

Test(batch_kill, every_step, .timeout = 120)
{
	unsigned cut = 1;

	for (; cut_once(cut); cut++) {
		scratch_close(&scratch);
		scratch_open(&scratch);
	}
	/* begun; two opened, two wrote; modes, synced; the plan (8 steps); planned; ten steps; applied,
	 * resynced; the record (8 steps); recorded, cleaned. */
	cr_assert_eq(cut - 1, 38u, "%u", cut - 1);
}

/* ---- temporaries outlive their process ---- */

static void write_and_die(void *context)
{
	struct ldr_batch *batch = NULL;
	int fd = -1;

	(void)context;
	if (ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &batch, NULL) ||
	    ldr_batch_open(batch, "half", &fd, NULL) || write(fd, "half of it", 10) != 10)
		_exit(1);
	raise(SIGKILL);
}

Test(batch_kill, temporaries_are_found_again)
{
	static const struct ldr_batch_step step = {LDR_BATCH_FILE, "whole", "half", 0644};
	struct ldr_batch *batch = NULL;
	char found[32] = "";
	int fd = -1;

	cr_assert_eq(scratch_child(write_and_die, NULL), -SIGKILL);
	cr_assert_eq(ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &batch, NULL), LDR_OK,
		     "the lock died with its owner");
	cr_assert_eq(ldr_batch_open(batch, "half", &fd, NULL), LDR_OK);
	cr_assert_eq(read(fd, found, sizeof(found)), 10);
	cr_expect_str_eq(found, "half of it");
	cr_assert_eq(write(fd, ", and the rest", 14), 14);
	close(fd);
	cr_assert_eq(installation_apply(batch, &step, 1, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, "whole", "half of it, and the rest", 24));
	ldr_batch_end(batch);
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 100 };

struct worker {
	struct ldr_batch *batch;
	int number;
	int failures;
};

static void *open_many(void *argument)
{
	struct worker *worker = argument;
	char name[32];

	for (int i = 0; i < EACH; i++) {
		int fd = -1;

		snprintf(name, sizeof(name), "t%d-%d", worker->number, i);
		if (ldr_batch_open(worker->batch, name, &fd, NULL) ||
		    write(fd, name, strlen(name)) != (ssize_t)strlen(name))
			worker->failures++;
		close(fd);
		if (i % 2 && ldr_batch_discard(worker->batch, name, NULL))
			worker->failures++;
	}
	return NULL;
}

Test(batch_kill, temporaries_by_many_threads)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct ldr_batch *batch = NULL;

	cr_assert_eq(ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &batch, NULL), LDR_OK);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){batch, i, 0};
		cr_assert_eq(pthread_create(&threads[i], NULL, open_many, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		cr_expect_eq(workers[i].failures, 0);
	}
	cr_expect_eq(scratch_count(&scratch, ".larder/tmp", ""), THREADS * EACH / 2);
	cr_expect(scratch_is(&scratch, ".larder/tmp/t3-98", "t3-98", 5));
	ldr_batch_end(batch);
}

/* ---- a user without rights ---- */

/* Root may write everywhere, so this needs somebody else. Folders of mode 555 are legal in a release: they
 * are opened up while something below them changes, and are as they were afterwards. */
static void change_read_only_folders(void *context)
{
	static const struct ldr_batch_step first[] = {
		{LDR_BATCH_FOLDER, "a", NULL, 0555},
		{LDR_BATCH_FOLDER, "a/b", NULL, 0555},
		{LDR_BATCH_FILE, "a/b/old", "t1", 0444},
		{LDR_BATCH_FILE, "a/x", "t2", 0444},
	};
	static const struct ldr_batch_step second[] = {
		{LDR_BATCH_REMOVE, "a/b/old", NULL, 0}, {LDR_BATCH_UNMAKE, "a/b", NULL, 0},
		{LDR_BATCH_FOLDER, "a/c", NULL, 0500},  {LDR_BATCH_FILE, "a/c/new", "t1", 0644},
		{LDR_BATCH_SYMLINK, "a/l", "x", 0},
	};
	struct ldr_batch *batch = NULL;
	int fd = -1;

	(void)context;
	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
			       setresuid(65534, 65534, 65534)))
		_exit(10);
	if (ldr_batch_begin(scratch.path, LDR_SYNC_NONE, &batch, NULL))
		_exit(11);
	for (int run = 0; run < 2; run++) {
		if (ldr_batch_open(batch, "t1", &fd, NULL) || close(fd) ||
		    ldr_batch_open(batch, "t2", &fd, NULL) || close(fd))
			_exit(12);
		if (installation_apply(batch, run ? second : first, run ? 5 : 4, NULL))
			_exit(13 + run);
	}
	ldr_batch_end(batch);
}

Test(batch_kill, read_only_folders)
{
	static char tree[SCRATCH_TREE_BYTES];

	if (geteuid() == 0)
		cr_assert_eq(fchown(scratch.fd, 65534, 65534), 0);
	cr_assert_eq(scratch_child(change_read_only_folders, NULL), 0);
	scratch_tree(&scratch, ".larder", tree);
	cr_expect_str_eq(tree, "d 555 a\nd 500 a/c\nf 644 a/c/new \nl a/l -> x\nf 444 a/x \n");
}
