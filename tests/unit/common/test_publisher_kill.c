/*
 * Processes that die: every step of every publication is cut by SIGKILL, and what the sweeper may take.
 * This is evidence about killed processes only; what a lost power leaves is for the recovery tests.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/publisher.h"
#include "common/publisher_seams.h"
#include "tests/unit/common/scratch.h"

#define LARGE_BYTES 12305

static struct scratch scratch;
static struct ldr_root *root;
static char large[LARGE_BYTES];

static void begin(void)
{
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * 37 + i / 256);
	scratch_open(&scratch);
	cr_assert_eq(ldr_root_open(scratch.path, false, &root, NULL), LDR_OK);
	ldr_seam_reset();
}

static void end(void)
{
	ldr_seam_reset();
	ldr_root_close(root);
	scratch_close(&scratch);
}

TestSuite(publisher_kill, .init = begin, .fini = end);

struct run {
	enum ldr_sync sync;
	size_t length;
	unsigned cut; /* the step to die after, counted over all kinds; 0: none */
	unsigned seen;
	bool renamed;
	int report_fd;
};

static void die_at_cut(void *context, enum ldr_seam_step step, unsigned number)
{
	struct run *run = context;

	(void)number;
	run->renamed |= step == LDR_STEP_RENAMED;
	if (++run->seen != run->cut)
		return;
	cr_assert_eq(write(run->report_fd, &run->renamed, sizeof(run->renamed)),
		     (ssize_t)sizeof(run->renamed));
	raise(SIGKILL);
}

static void publish_in_child(void *context)
{
	struct run *run = context;
	struct ldr_publish_options options = {.sync = run->sync};

	ldr_seam_reset();
	ldr_seam_cap_writes(4096);
	ldr_seam_on_step(die_at_cut, run);
	_exit(ldr_publish(root, "file", large, run->length, &options, NULL, NULL));
}

/* Cuts one publication after its n-th step, looks, publishes again. False when it has fewer steps. */
static bool cut_once(struct run *run, bool replace)
{
	bool renamed = false;
	int pipe_fds[2], end_of_child;

	if (scratch_exists(&scratch, "file"))
		scratch_remove(&scratch, "file");
	if (replace)
		scratch_write(&scratch, "file", "old");
	cr_assert_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
	run->report_fd = pipe_fds[1];
	end_of_child = scratch_child(publish_in_child, run);
	close(pipe_fds[1]);
	if (end_of_child == -SIGKILL)
		cr_assert_eq(read(pipe_fds[0], &renamed, sizeof(renamed)),
			     (ssize_t)sizeof(renamed));
	close(pipe_fds[0]);
	if (end_of_child != -SIGKILL) {
		cr_assert_eq(end_of_child, 0, "not cut, so published");
		return false;
	}
	if (renamed)
		cr_expect(scratch_is(&scratch, "file", large, run->length), "cut %u", run->cut);
	else if (replace)
		cr_expect(scratch_is(&scratch, "file", "old", 3), "cut %u", run->cut);
	else
		cr_expect_not(scratch_exists(&scratch, "file"), "cut %u", run->cut);
	/* Strays are tolerated, no lock outlives its owner, and the sweeper takes them. */
	cr_expect_eq(ldr_publish(root, "file", "again", 5, NULL, NULL, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, "file", "again", 5));
	cr_expect_eq(ldr_root_sweep(root, "", NULL, NULL), LDR_OK);
	cr_expect_eq(scratch_count(&scratch, ".", ""), 1, "cut %u: only the file", run->cut);
	return true;
}

Test(publisher_kill, every_step)
{
	static const size_t lengths[] = {0, LARGE_BYTES};
	unsigned cuts = 0;

	for (int replace = 0; replace < 2; replace++)
		for (int sync = LDR_SYNC_FILE_AND_FOLDER; sync <= LDR_SYNC_NONE; sync++)
			for (size_t i = 0; i < 2; i++)
				for (unsigned cut = 1;; cut++) {
					struct run run = {
						.sync = sync, .length = lengths[i], .cut = cut};

					if (!cut_once(&run, replace))
						break;
					cuts++;
				}
	/* begun, created, four writes or none, synced by policy, renaming, renamed, closed, folder synced
	 * by policy, returned: 2 x [(6 + 7 + 8) + (10 + 11 + 12)]. */
	cr_assert_eq(cuts, 108u);
}

/* ---- the sweeper ---- */

static void hold_stream(void *context)
{
	const int *fds = context;
	struct ldr_stream *stream;
	char byte = 'x';

	if (ldr_stream_begin(root, "", NULL, &stream, NULL) ||
	    ldr_stream_append(stream, "bytes", 5, NULL))
		_exit(1);
	/* Says that it is there, and waits to be killed. */
	if (write(fds[1], &byte, 1) != 1 || read(fds[2], &byte, 1) != 0)
		_exit(2);
}

static unsigned sweep(void)
{
	unsigned count = 77;

	cr_assert_eq(ldr_root_sweep(root, "", &count, NULL), LDR_OK);
	return count;
}

Test(publisher_kill, sweeper_respects_a_live_owner)
{
	int fds[4];
	char byte;
	pid_t child;

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(fds + 2, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		close(fds[3]);
		hold_stream(fds);
		_exit(0);
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &byte, 1), 1);
	cr_expect_eq(scratch_count(&scratch, ".", ".larder-tmp."), 1);
	cr_expect_eq(sweep(), 0u, "its owner lives");
	cr_expect_eq(scratch_count(&scratch, ".", ".larder-tmp."), 1);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_expect_eq(sweep(), 1u, "its owner is dead");
	cr_expect_eq(scratch_count(&scratch, ".", ""), 0);
	close(fds[0]);
	close(fds[2]);
	close(fds[3]);
}

Test(publisher_kill, sweeper_takes_only_temporaries)
{
	static const char *const kept[] = {
		".larder-tmp.",      ".larder-tmp.1",    ".larder-tmp.1.",
		".larder-tmp..2",    ".larder-tmp.1.2x", ".larder-tmp.x.2",
		".larder-tmp.1.2.3", "larder-tmp.1.2",   "x",
	};
	struct ldr_stream *own = NULL;
	int count = (int)(sizeof(kept) / sizeof(kept[0]));

	for (int i = 0; i < count; i++)
		scratch_write(&scratch, kept[i], "kept");
	scratch_mkdir(&scratch, ".larder-tmp.1.20");
	scratch_link(&scratch, ".larder-tmp.1.21", "x");
	cr_assert_eq(mkfifoat(scratch.fd, ".larder-tmp.1.22", 0600), 0);
	scratch_write(&scratch, ".larder-tmp.1.23", "a dead one");
	scratch_write(&scratch, ".larder-tmp.4000000.18446744073709551615", "another");
	cr_assert_eq(ldr_stream_begin(root, "", NULL, &own, NULL), LDR_OK);
	cr_expect_eq(sweep(), 2u);
	cr_expect_eq(scratch_count(&scratch, ".", ""), count + 4, "a stream of this process too");
	cr_assert_eq(ldr_stream_commit(own, "done", NULL, NULL), LDR_OK);
	cr_expect_eq(sweep(), 0u);
	cr_expect_eq(scratch_count(&scratch, ".", ""), count + 4);
	cr_expect_eq(ldr_root_sweep(root, "nowhere", NULL, NULL), LDR_ENOTFOUND);
	scratch_mkdir(&scratch, "inner");
	scratch_write(&scratch, "inner/.larder-tmp.1.1", "below");
	cr_expect_eq(sweep(), 0u, "directly in the folder only");
	cr_expect_eq(ldr_root_sweep(root, "inner", NULL, NULL), LDR_OK);
	cr_expect_eq(scratch_count(&scratch, "inner", ""), 0);
}

/* Between the sweeper's lock and its removal the name gets a new owner. */
static void replace_temporary(void *context, enum ldr_seam_step step, unsigned number)
{
	(void)context;
	(void)number;
	if (step != LDR_STEP_SWEEPING)
		return;
	scratch_remove(&scratch, ".larder-tmp.1.2");
	scratch_write(&scratch, ".larder-tmp.1.2", "new owner");
}

static void remove_temporary(void *context, enum ldr_seam_step step, unsigned number)
{
	(void)context;
	(void)number;
	if (step == LDR_STEP_SWEEPING)
		scratch_remove(&scratch, ".larder-tmp.1.2");
}

Test(publisher_kill, sweeper_races)
{
	scratch_write(&scratch, ".larder-tmp.1.2", "dead");
	ldr_seam_on_step(replace_temporary, NULL);
	cr_expect_eq(sweep(), 0u);
	cr_expect(scratch_is(&scratch, ".larder-tmp.1.2", "new owner", 9));
	ldr_seam_on_step(remove_temporary, NULL);
	cr_expect_eq(sweep(), 0u);
	cr_expect_eq(scratch_count(&scratch, ".", ""), 0);
	ldr_seam_reset();
	/* The sweeper is faster than the owner between creation and lock: the owner takes another name. */
	ldr_seam_fail(LDR_SEAM_LOCK, 1, 1, EAGAIN);
	cr_expect_eq(ldr_publish(root, "file", "x", 1, NULL, NULL, NULL), LDR_OK);
	ldr_seam_reset();
	cr_expect_eq(sweep(), 1u, "the name that was left to the sweeper");
	cr_expect_eq(scratch_count(&scratch, ".", ""), 1);
}

Test(publisher_kill, sweeper_faults)
{
	static const enum ldr_seam_call kinds[] = {LDR_SEAM_OPEN, LDR_SEAM_LOCK, LDR_SEAM_STAT,
						   LDR_SEAM_UNLINK, LDR_SEAM_LIST};
	int descriptors = scratch_descriptors();

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (unsigned number = 1;; number++) {
			struct ldr_error err = {0};
			enum ldr_status status;
			bool reached;

			scratch_write(&scratch, ".larder-tmp.1.2", "dead");
			ldr_seam_reset();
			ldr_seam_fail(kinds[i], number, 1, EIO);
			status = ldr_root_sweep(root, "", NULL, &err);
			reached = ldr_seam_calls(kinds[i]) >= number;
			cr_expect_eq(status, reached ? LDR_EIO : LDR_OK, "kind %d, %u: %s",
				     kinds[i], number, err.text);
			ldr_seam_reset();
			cr_expect_eq(ldr_root_sweep(root, "", NULL, NULL), LDR_OK);
			if (!reached)
				break;
		}
	cr_assert_eq(scratch_descriptors(), descriptors);
}
