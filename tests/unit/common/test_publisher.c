/*
 * The publisher's buffer form: results, conditions, refusals, faults of every call, edits from outside.
 * What a killed process leaves is in test_publisher_kill.c, streams and roots in test_stream.c.
 */
#include "common/publisher.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/publisher_seams.h"
#include "tests/unit/common/scratch.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))
/* Four writes of 4 KiB at most. */
#define LARGE_BYTES 12305

static struct scratch scratch;
static struct ldr_root *root;
static char large[LARGE_BYTES];

static void begin(void)
{
	struct ldr_error err = {0};

	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i * 31 + i / 256);
	scratch_open(&scratch);
	cr_assert_eq(ldr_root_open(scratch.path, false, &root, &err), LDR_OK, "%s", err.text);
	ldr_seam_reset();
}

static void end(void)
{
	ldr_seam_reset();
	ldr_root_close(root);
	root = NULL;
	scratch_close(&scratch);
}

TestSuite(publisher, .init = begin, .fini = end);

static int temporaries(void)
{
	return scratch_count(&scratch, ".", ".larder-tmp.");
}

static struct ldr_publish_options options_of(enum ldr_sync sync, enum ldr_condition_kind condition)
{
	return (struct ldr_publish_options){.sync = sync, .condition = condition};
}

/* ---- what success looks like ---- */

static void publish_and_look(enum ldr_sync sync, enum ldr_condition_kind condition, bool replace,
			     size_t length)
{
	struct ldr_publish_options options = options_of(sync, condition);
	struct ldr_publish_result result = {.outcome = LDR_EIO};
	struct ldr_error err = {0};
	unsigned syncs = sync == LDR_SYNC_NONE ? 0 : sync == LDR_SYNC_FILE ? 1 : 2;

	if (replace)
		scratch_write(&scratch, "file", "old");
	if (condition == LDR_IF_MATCHING)
		cr_assert_eq(ldr_root_observe(root, "file", &options.stamp, &err), LDR_OK);
	ldr_seam_reset();
	cr_assert_eq(ldr_publish(root, "file", large, length, &options, &result, &err), LDR_OK,
		     "%s", err.text);
	cr_expect_eq(result.outcome, LDR_OK);
	cr_expect(result.published);
	cr_expect_eq(result.file_synced, sync != LDR_SYNC_NONE);
	cr_expect_eq(result.folder_synced, sync == LDR_SYNC_FILE_AND_FOLDER);
	cr_expect_eq(result.cleanup, LDR_OK);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC), syncs, "syncs by policy");
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC_FOLDER), syncs / 2, "the second is the folder's");
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_LOCK), condition == LDR_IF_MATCHING ? 2u : 1u,
		     "the folder is locked only for a stamp");
	cr_expect(scratch_is(&scratch, "file", large, length));
	cr_expect_eq(scratch_mode(&scratch, "file"), 0644u);
	cr_expect_eq(err.text[0], '\0', "untouched on success");
	cr_expect_eq(temporaries(), 0);
	scratch_remove(&scratch, "file");
}

Test(publisher, results_by_policy_and_condition)
{
	static const size_t lengths[] = {0, 1, LARGE_BYTES};
	int descriptors = scratch_descriptors();

	for (int sync = LDR_SYNC_FILE_AND_FOLDER; sync <= LDR_SYNC_NONE; sync++)
		for (size_t i = 0; i < CASES(lengths); i++) {
			publish_and_look(sync, LDR_IF_ANY, false, lengths[i]);
			publish_and_look(sync, LDR_IF_ANY, true, lengths[i]);
			publish_and_look(sync, LDR_IF_MISSING, false, lengths[i]);
			publish_and_look(sync, LDR_IF_MATCHING, true, lengths[i]);
		}
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(publisher, defaults_modes_and_parents)
{
	struct ldr_publish_options options = {.mode = 0755, .make_parents = true};
	struct ldr_publish_result result;
	mode_t umask_before = umask(0077);

	cr_assert_eq(ldr_publish(root, "plain", "x", 1, NULL, &result, NULL), LDR_OK);
	cr_expect(result.file_synced && result.folder_synced, "no options: the safe policy");
	cr_expect_eq(scratch_mode(&scratch, "plain"), 0644u, "not the umask's business");
	ldr_seam_reset();
	cr_assert_eq(ldr_publish(root, "a/b/c", "x", 1, &options, NULL, NULL), LDR_OK);
	cr_expect_eq(scratch_mode(&scratch, "a/b/c"), 0755u);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC), 4u, "each new name, the file, its folder");
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC_FOLDER), 3u);
	ldr_seam_reset();
	cr_assert_eq(ldr_publish(root, "a/b/d", "x", 1, &options, NULL, NULL), LDR_OK);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC), 2u);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_MKDIR), 0u);
	options.sync = LDR_SYNC_NONE;
	ldr_seam_reset();
	cr_assert_eq(ldr_publish(root, "e/f/g", "x", 1, &options, NULL, NULL), LDR_OK);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC), 0u);
	umask(umask_before);
}

/* ---- refusals: nothing changes ---- */

struct refusal {
	const char *path;
	struct ldr_publish_options options;
	size_t length;
	enum ldr_status status;
	const char *text;
};

static void make_obstacles(void)
{
	scratch_mkdir(&scratch, "folder");
	scratch_write(&scratch, "folder/x", "x");
	scratch_write(&scratch, "file", "old");
	scratch_link(&scratch, "link", "file");
	scratch_link(&scratch, "dangling", "nowhere");
	scratch_link(&scratch, "way", "folder");
	cr_assert_eq(mkfifoat(scratch.fd, "pipe", 0600), 0);
}

Test(publisher, refusals)
{
	static const struct refusal refusals[] = {
		{"folder", {0}, 1, LDR_ENOTREG, "not a regular file"},
		{"pipe", {0}, 1, LDR_ENOTREG, "not a regular file"},
		{"link", {0}, 1, LDR_ELINK, "symbolic link"},
		{"dangling", {0}, 1, LDR_ELINK, "symbolic link"},
		{"way/new", {0}, 1, LDR_ELINK, "folder above"},
		{"way/x", {.make_parents = true}, 1, LDR_ELINK, "folder above"},
		{"missing/new", {0}, 1, LDR_ENOTFOUND, "folder above"},
		{"file/new", {0}, 1, LDR_ENOTDIR, "folder above"},
		{"file/new", {.make_parents = true}, 1, LDR_ENOTDIR, "folder above"},
		{"file/a/new", {.make_parents = true}, 1, LDR_ENOTDIR, "folder above"},
		{"../new", {0}, 1, LDR_EINVAL, ".."},
		{"/etc/new", {0}, 1, LDR_EINVAL, "absolute"},
		{"", {0}, 1, LDR_EINVAL, "empty"},
		{".larder-tmp.1.2", {0}, 1, LDR_EINVAL, "temporaries only"},
		{"folder/.larder-tmp.1.2", {0}, 1, LDR_EINVAL, "temporaries only"},
		{"new", {.sync = 3}, 1, LDR_EINVAL, "sync policy 3"},
		{"new", {.condition = 3}, 1, LDR_EINVAL, "condition 3"},
		{"new", {.mode = 04755}, 1, LDR_EINVAL, "mode 4755"},
		{"new", {.max_bytes = 4}, 5, LDR_ELIMIT, "length 5, limit 4"},
		{"new", {0}, (32u << 20) + 1, LDR_ELIMIT, "limit 33554432"},
		{"file", {.condition = LDR_IF_MISSING}, 1, LDR_ECONFLICT, "exists already"},
		{"link", {.condition = LDR_IF_MISSING}, 1, LDR_ECONFLICT, "exists already"},
		{"folder", {.condition = LDR_IF_MISSING}, 1, LDR_ECONFLICT, "exists already"},
		{"new", {.condition = LDR_IF_MATCHING}, 1, LDR_ECONFLICT, "removed since"},
		{"file", {.condition = LDR_IF_MATCHING}, 1, LDR_ECONFLICT, "changed since"},
		{"link", {.condition = LDR_IF_MATCHING}, 1, LDR_ELINK, "symbolic link"},
	};
	static char before[SCRATCH_TREE_BYTES], after[SCRATCH_TREE_BYTES];
	int descriptors = scratch_descriptors();

	make_obstacles();
	scratch_tree(&scratch, NULL, before);
	for (size_t i = 0; i < CASES(refusals); i++) {
		const struct refusal *row = &refusals[i];
		struct ldr_publish_result result = {.published = true};
		struct ldr_error err = {0};
		enum ldr_status got = ldr_publish(root, row->path, large, row->length,
						  &row->options, &result, &err);

		cr_expect_eq(got, row->status, "%zu %s: %s", i, row->path, err.text);
		cr_expect_eq(result.outcome, row->status);
		cr_expect(!result.published && !result.file_synced && !result.folder_synced);
		cr_expect_eq(result.cleanup, LDR_OK);
		cr_expect(strstr(err.text, row->text) != NULL, "%s: %s", row->path, err.text);
	}
	scratch_tree(&scratch, NULL, after);
	cr_assert_str_eq(before, after);
	cr_assert_eq(scratch_descriptors(), descriptors);
}

/* Each field of the stamp counts. */
Test(publisher, stamps)
{
	struct ldr_publish_options options = options_of(LDR_SYNC_NONE, LDR_IF_MATCHING);
	struct ldr_stamp right;

	scratch_write(&scratch, "file", "old");
	cr_assert_eq(ldr_root_observe(root, "file", &right, NULL), LDR_OK);
	for (int field = 0; field < 5; field++) {
		options.stamp = right;
		options.stamp.device += field == 0;
		options.stamp.inode += field == 1;
		options.stamp.size_bytes += field == 2;
		options.stamp.modified_ns += field == 3;
		options.stamp.changed_ns += field == 4;
		cr_expect_eq(ldr_publish(root, "file", "new", 3, &options, NULL, NULL),
			     LDR_ECONFLICT, "field %d", field);
		cr_expect(scratch_is(&scratch, "file", "old", 3));
	}
	options.stamp = right;
	cr_assert_eq(ldr_publish(root, "file", "new", 3, &options, NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_publish(root, "file", "two", 3, &options, NULL, NULL), LDR_ECONFLICT);
	cr_assert(scratch_is(&scratch, "file", "new", 3));
}

/* ---- faults ---- */

struct fault {
	enum ldr_seam_call call;
	unsigned first, count;
	int sys_errno;
	enum ldr_status status;
	bool published;
	enum ldr_status cleanup;
	int left; /* temporaries */
};

/* With LDR_IF_MATCHING and the full policy the calls are: open folder, open temporary; lock folder, lock
 * temporary; stat destination, temporary, destination; write; chmod; sync file, sync folder; rename. */
Test(publisher, faults)
{
	static const struct fault faults[] = {
		{LDR_SEAM_OPEN, 1, 1, EMFILE, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_OPEN, 1, 1, EACCES, LDR_EDENIED, false, LDR_OK, 0},
		{LDR_SEAM_OPEN, 1, 1, ENOSYS, LDR_OK, true, LDR_OK, 0},
		{LDR_SEAM_OPEN, 2, 1, ENOSPC, LDR_ENOSPACE, false, LDR_OK, 0},
		{LDR_SEAM_OPEN, 2, 1, EROFS, LDR_EDENIED, false, LDR_OK, 0},
		{LDR_SEAM_OPEN, 2, 15, EEXIST, LDR_OK, true, LDR_OK, 0},
		{LDR_SEAM_OPEN, 2, 16, EEXIST, LDR_ELIMIT, false, LDR_OK, 0},
		{LDR_SEAM_LOCK, 1, 1, EWOULDBLOCK, LDR_ECONFLICT, false, LDR_OK, 0},
		{LDR_SEAM_LOCK, 1, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_LOCK, 2, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_LOCK, 2, 1, ENOLCK, LDR_OK, true, LDR_OK, 0},
		/* A sweeper holds it: the name is given up to the sweeper. */
		{LDR_SEAM_LOCK, 2, 1, EAGAIN, LDR_OK, true, LDR_OK, 1},
		{LDR_SEAM_STAT, 1, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_STAT, 2, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_STAT, 3, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 1, 1, ENOSPC, LDR_ENOSPACE, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 1, 1, EDQUOT, LDR_ENOSPACE, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 3, 1, ENOSPC, LDR_ENOSPACE, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 4, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 1, 1, 0, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_WRITE, 2, 1, 0, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_CHMOD, 1, 1, EPERM, LDR_EDENIED, false, LDR_OK, 0},
		{LDR_SEAM_SYNC, 1, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_SYNC, 1, 1, ENOSPC, LDR_ENOSPACE, false, LDR_OK, 0},
		{LDR_SEAM_SYNC, 2, 1, EIO, LDR_EIO, true, LDR_OK, 0},
		{LDR_SEAM_RENAME, 1, 1, EIO, LDR_EIO, false, LDR_OK, 0},
		{LDR_SEAM_RENAME, 1, 1, EACCES, LDR_EDENIED, false, LDR_OK, 0},
		{LDR_SEAM_RENAME, 1, 1, EXDEV, LDR_EUNSUPPORTED, false, LDR_OK, 0},
		{LDR_SEAM_RENAME, 1, 1, EISDIR, LDR_ENOTREG, false, LDR_OK, 0},
		{LDR_SEAM_CLOSE, 1, 1, EIO, LDR_EIO, true, LDR_OK, 0},
	};
	int descriptors = scratch_descriptors();

	for (size_t i = 0; i < CASES(faults); i++) {
		const struct fault *row = &faults[i];
		struct ldr_publish_options options = {.condition = LDR_IF_MATCHING};
		struct ldr_publish_result result;
		struct ldr_error err = {0};
		unsigned swept;

		scratch_write(&scratch, "file", "old");
		cr_assert_eq(ldr_root_observe(root, "file", &options.stamp, NULL), LDR_OK);
		ldr_seam_reset();
		ldr_seam_cap_writes(4096);
		ldr_seam_fail(row->call, row->first, row->count, row->sys_errno);
		ldr_publish(root, "file", large, sizeof(large), &options, &result, &err);
		ldr_seam_reset();
		cr_expect_eq(result.outcome, row->status, "%zu: %s", i, err.text);
		cr_expect_eq(result.published, row->published, "%zu: %s", i, err.text);
		cr_expect_eq(result.cleanup, row->cleanup, "%zu", i);
		cr_expect(row->published ? scratch_is(&scratch, "file", large, sizeof(large))
					 : scratch_is(&scratch, "file", "old", 3),
			  "%zu: wholly old or wholly new", i);
		cr_expect_eq(temporaries(), row->left, "%zu", i);
		cr_assert_eq(ldr_root_sweep(root, "", &swept, NULL), LDR_OK);
		cr_expect_eq(swept, (unsigned)row->left, "%zu", i);
	}
	cr_assert_eq(scratch_descriptors(), descriptors);
}

/* A temporary that cannot be taken away is told apart from why the publication failed. */
Test(publisher, failed_cleanup)
{
	struct ldr_publish_result result;
	struct ldr_error err = {0};

	ldr_seam_fail(LDR_SEAM_SYNC, 1, 1, ENOSPC);
	ldr_seam_fail(LDR_SEAM_UNLINK, 1, 1, EIO);
	cr_assert_eq(ldr_publish(root, "file", "x", 1, NULL, &result, &err), LDR_ENOSPACE);
	cr_expect_eq(result.cleanup, LDR_EIO);
	cr_expect(strstr(err.text, "file: sync") != NULL, "%s", err.text);
	cr_expect_eq(temporaries(), 1);
	ldr_seam_reset();
	cr_expect_eq(ldr_root_sweep(root, "", NULL, NULL), LDR_OK);
	cr_expect_eq(temporaries(), 0);
}

/* Every call of every kind is failed once, and interrupted once. */
static void sweep_over_calls(enum ldr_seam_call call, int sys_errno, unsigned *made)
{
	for (unsigned number = 1;; number++) {
		struct ldr_publish_options options = {.condition = LDR_IF_MATCHING};
		struct ldr_publish_result result;
		bool reached;

		scratch_write(&scratch, "file", "old");
		cr_assert_eq(ldr_root_observe(root, "file", &options.stamp, NULL), LDR_OK);
		ldr_seam_reset();
		ldr_seam_cap_writes(4096);
		ldr_seam_fail(call, number, sys_errno == EINTR ? 5 : 1, sys_errno);
		ldr_publish(root, "file", large, sizeof(large), &options, &result, NULL);
		reached = ldr_seam_calls(call) >= number;
		ldr_seam_reset();
		if (sys_errno == EINTR)
			cr_expect_eq(result.outcome, LDR_OK, "call kind %d, %u", call, number);
		cr_expect(result.published || result.outcome);
		cr_expect(result.published ? scratch_is(&scratch, "file", large, sizeof(large))
					   : scratch_is(&scratch, "file", "old", 3));
		cr_expect_eq(temporaries(), 0, "call kind %d, %u", call, number);
		if (!reached)
			return;
		++*made;
	}
}

Test(publisher, every_call_fails_once)
{
	static const enum ldr_seam_call kinds[] = {
		LDR_SEAM_OPEN, LDR_SEAM_STAT,  LDR_SEAM_LOCK,   LDR_SEAM_WRITE,
		LDR_SEAM_SYNC, LDR_SEAM_CHMOD, LDR_SEAM_RENAME,
	};
	int descriptors = scratch_descriptors();
	unsigned failed = 0, interrupted = 0, closed = 0;

	for (size_t i = 0; i < CASES(kinds); i++) {
		sweep_over_calls(kinds[i], EIO, &failed);
		sweep_over_calls(kinds[i], EINTR, &interrupted);
	}
	/* Close is never retried: its failure is told once, and the descriptor is gone. */
	sweep_over_calls(LDR_SEAM_CLOSE, EIO, &closed);
	cr_expect_geq(failed, 15u);
	cr_expect_geq(interrupted, 15u);
	cr_expect_eq(closed, 2u);
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(publisher, short_writes)
{
	static const size_t caps[] = {1, 2, 4096, 12304, 12305};

	for (size_t i = 0; i < CASES(caps); i++) {
		ldr_seam_reset();
		ldr_seam_cap_writes(caps[i]);
		cr_assert_eq(ldr_publish(root, "file", large, sizeof(large), NULL, NULL, NULL),
			     LDR_OK);
		cr_expect_eq(ldr_seam_calls(LDR_SEAM_WRITE),
			     (sizeof(large) + caps[i] - 1) / caps[i]);
		cr_expect(scratch_is(&scratch, "file", large, sizeof(large)));
	}
}

/* File systems without RENAME_NOREPLACE, kernels without openat2. */
Test(publisher, ways_around)
{
	struct ldr_publish_options missing = options_of(LDR_SYNC_NONE, LDR_IF_MISSING);
	struct ldr_publish_result result;

	ldr_seam_fail(LDR_SEAM_RENAME, 1, 1, EINVAL);
	cr_assert_eq(ldr_publish(root, "file", "one", 3, &missing, &result, NULL), LDR_OK);
	cr_expect(result.published && scratch_is(&scratch, "file", "one", 3));
	cr_expect_eq(temporaries(), 0);
	scratch_mkdir(&scratch, "folder");
	scratch_link(&scratch, "way", "folder");
	for (int walking = 0; walking < 2; walking++) {
		static const struct {
			const char *path;
			enum ldr_status status;
		} cases[] = {
			{"folder/new", LDR_OK},        {"way/new", LDR_ELINK},
			{"file/new", LDR_ENOTDIR},     {"gone/new", LDR_ENOTFOUND},
			{"folder/a/b", LDR_ENOTFOUND},
		};

		for (size_t i = 0; i < CASES(cases); i++) {
			ldr_seam_reset();
			ldr_seam_fail(LDR_SEAM_OPEN, 1, (unsigned)walking, ENOSYS);
			cr_expect_eq(ldr_publish(root, cases[i].path, "x", 1, NULL, NULL, NULL),
				     cases[i].status, "%s, walking %d", cases[i].path, walking);
		}
	}
}

/* ---- edits from outside, between the steps ---- */

struct edit {
	enum ldr_seam_step when;
	void (*make)(void);
	enum ldr_condition_kind condition;
	bool present; /* whether there is an old file */
	enum ldr_status status;
};

static void edit_write(void)
{
	scratch_write(&scratch, "file", "edited");
}

static void edit_remove(void)
{
	scratch_remove(&scratch, "file");
}

static void edit_folder(void)
{
	if (scratch_exists(&scratch, "file"))
		scratch_remove(&scratch, "file");
	scratch_mkdir(&scratch, "file");
}

static void edit_link(void)
{
	if (scratch_exists(&scratch, "file"))
		scratch_remove(&scratch, "file");
	scratch_link(&scratch, "file", "elsewhere");
}

static void edit_mode(void)
{
	cr_assert_eq(fchmodat(scratch.fd, "file", 0600, 0), 0);
}

static void run_edit(void *context, enum ldr_seam_step step, unsigned number)
{
	const struct edit *edit = context;

	if (step == edit->when && number == 1)
		edit->make();
}

Test(publisher, edits_from_outside)
{
	static const struct edit edits[] = {
		{LDR_STEP_BEGUN, edit_write, LDR_IF_MATCHING, true, LDR_ECONFLICT},
		{LDR_STEP_SYNCED, edit_write, LDR_IF_MATCHING, true, LDR_ECONFLICT},
		{LDR_STEP_SYNCED, edit_mode, LDR_IF_MATCHING, true, LDR_ECONFLICT},
		{LDR_STEP_SYNCED, edit_remove, LDR_IF_MATCHING, true, LDR_ECONFLICT},
		{LDR_STEP_SYNCED, edit_link, LDR_IF_MATCHING, true, LDR_ELINK},
		{LDR_STEP_SYNCED, edit_folder, LDR_IF_MATCHING, true, LDR_ENOTREG},
		{LDR_STEP_SYNCED, edit_write, LDR_IF_MISSING, false, LDR_ECONFLICT},
		{LDR_STEP_RENAMING, edit_write, LDR_IF_MISSING, false, LDR_ECONFLICT},
		{LDR_STEP_RENAMING, edit_link, LDR_IF_MISSING, false, LDR_ECONFLICT},
		{LDR_STEP_RENAMING, edit_folder, LDR_IF_MISSING, false, LDR_ECONFLICT},
		{LDR_STEP_SYNCED, edit_link, LDR_IF_ANY, true, LDR_ELINK},
		{LDR_STEP_SYNCED, edit_folder, LDR_IF_ANY, true, LDR_ENOTREG},
		{LDR_STEP_RENAMING, edit_folder, LDR_IF_ANY, true, LDR_ENOTREG},
		{LDR_STEP_SYNCED, edit_write, LDR_IF_ANY, true, LDR_OK},
		{LDR_STEP_SYNCED, edit_remove, LDR_IF_ANY, true, LDR_OK},
	};

	for (size_t i = 0; i < CASES(edits); i++) {
		struct edit edit = edits[i];
		struct ldr_publish_options options = {.condition = edit.condition};
		struct ldr_publish_result result;
		static char before[SCRATCH_TREE_BYTES], after[SCRATCH_TREE_BYTES];

		if (edits[i].present)
			scratch_write(&scratch, "file", "old");
		if (edits[i].condition == LDR_IF_MATCHING)
			cr_assert_eq(ldr_root_observe(root, "file", &options.stamp, NULL), LDR_OK);
		ldr_seam_on_step(run_edit, &edit);
		ldr_publish(root, "file", "new", 3, &options, &result, NULL);
		ldr_seam_reset();
		cr_expect_eq(result.outcome, edits[i].status, "%zu", i);
		cr_expect_eq(result.published, edits[i].status == LDR_OK, "%zu", i);
		cr_expect_eq(temporaries(), 0, "%zu", i);
		scratch_tree(&scratch, NULL, after);
		if (edits[i].status == LDR_OK) {
			cr_expect(scratch_is(&scratch, "file", "new", 3), "%zu", i);
		} else {
			/* What the other made is as the other made it. */
			if (scratch_exists(&scratch, "file"))
				scratch_remove(&scratch, "file");
			if (edits[i].present && edits[i].make == edit_mode)
				scratch_write(&scratch, "file", "old");
			edits[i].make == edit_remove ? (void)0 : edits[i].make();
			scratch_tree(&scratch, NULL, before);
			cr_expect_str_eq(after, before, "%zu", i);
		}
		if (scratch_exists(&scratch, "file"))
			scratch_remove(&scratch, "file");
	}
}

/* Somebody puts a file of his own in the temporary's place: it stays. */
static void steal_temporary(void *context, enum ldr_seam_step step, unsigned number)
{
	char name[256];

	(void)context;
	(void)number;
	if (step != LDR_STEP_CREATED)
		return;
	cr_assert(scratch_first(&scratch, ".", ".larder-tmp.", name));
	scratch_remove(&scratch, name);
	scratch_write(&scratch, name, "foreign");
	ldr_seam_fail(LDR_SEAM_WRITE, 1, 1, ENOSPC);
}

Test(publisher, foreign_files_are_never_removed)
{
	struct ldr_publish_result result;

	ldr_seam_on_step(steal_temporary, NULL);
	cr_assert_eq(ldr_publish(root, "file", "x", 1, NULL, &result, NULL), LDR_ENOSPACE);
	cr_expect_eq(result.cleanup, LDR_ECHANGED);
	cr_expect_eq(temporaries(), 1);
	cr_expect_not(scratch_exists(&scratch, "file"));
}

/* ---- who else may publish meanwhile ---- */

struct second {
	struct ldr_publish_options options;
	const char *path;
	enum ldr_status status;
};

static void publish_second(void *context, enum ldr_seam_step step, unsigned number)
{
	struct second *second = context;

	(void)number;
	if (step == LDR_STEP_CREATED)
		second->status = ldr_publish(root, second->path, "second", 6, &second->options,
					     NULL, NULL);
}

Test(publisher, reentrant_and_contended)
{
	struct ldr_publish_options matching = {.condition = LDR_IF_MATCHING};
	struct second second = {.path = "other"};
	int lock_fd;

	scratch_write(&scratch, "file", "old");
	scratch_write(&scratch, "other", "old");
	cr_assert_eq(ldr_root_observe(root, "file", &matching.stamp, NULL), LDR_OK);
	cr_assert_eq(ldr_root_observe(root, "other", &second.options.stamp, NULL), LDR_OK);
	second.options.condition = LDR_IF_MATCHING;
	ldr_seam_on_step(publish_second, &second);
	cr_assert_eq(ldr_publish(root, "file", "new", 3, &matching, NULL, NULL), LDR_OK);
	cr_expect_eq(second.status, LDR_ECONFLICT, "the folder's lock is the first one's");
	cr_expect(scratch_is(&scratch, "other", "old", 3));

	second.options.condition = LDR_IF_ANY;
	cr_assert_eq(ldr_publish(root, "file", "newer", 5, NULL, NULL, NULL), LDR_OK);
	cr_expect_eq(second.status, LDR_OK, "without a condition there is no lock");
	cr_expect(scratch_is(&scratch, "other", "second", 6));
	ldr_seam_reset();

	lock_fd = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(lock_fd, LOCK_EX | LOCK_NB), 0, "given back after each publication");
	cr_assert_eq(ldr_root_observe(root, "file", &matching.stamp, NULL), LDR_OK);
	cr_expect_eq(ldr_publish(root, "file", "x", 1, &matching, NULL, NULL), LDR_ECONFLICT);
	cr_expect_eq(ldr_publish(root, "new", "x", 1, NULL, NULL, NULL), LDR_OK);
	close(lock_fd);
	cr_expect_eq(ldr_publish(root, "file", "x", 1, &matching, NULL, NULL), LDR_OK);
}

/* ---- readers and moved roots ---- */

Test(publisher, readers_keep_their_revision_and_roots_are_pinned)
{
	char moved[160], found[8] = "";
	int reader;

	scratch_mkdir(&scratch, "inner");
	cr_assert_eq(ldr_publish(root, "inner/file", "old", 3, NULL, NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_root_open_file(root, "inner/file", &reader, NULL), LDR_OK);
	cr_assert_eq(ldr_publish(root, "inner/file", "new", 3, NULL, NULL, NULL), LDR_OK);
	cr_assert_eq(read(reader, found, sizeof(found)), 3);
	cr_expect_str_eq(found, "old");
	close(reader);

	snprintf(moved, sizeof(moved), "%s.moved", scratch.path);
	cr_assert_eq(rename(scratch.path, moved), 0);
	cr_assert_eq(mkdir(scratch.path, 0700), 0);
	cr_assert_eq(ldr_publish(root, "inner/file", "here", 4, NULL, NULL, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, "inner/file", "here", 4), "followed the folder");
	cr_assert_eq(rmdir(scratch.path), 0, "and not its old path");
	cr_assert_eq(rename(moved, scratch.path), 0);
}
