/*
 * The publisher's stream form, and roots: opening, reading, observing, removing.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/publisher.h"
#include "common/publisher_seams.h"
#include "tests/unit/common/scratch.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

static struct scratch scratch;
static struct ldr_root *root;

static void begin(void)
{
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

TestSuite(stream, .init = begin, .fini = end);

static int temporaries(const char *folder)
{
	return scratch_count(&scratch, folder, ".larder-tmp.");
}

static struct ldr_stream *start(const char *folder, struct ldr_publish_options options)
{
	struct ldr_stream *stream = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_stream_begin(root, folder, &options, &stream, &err), LDR_OK, "%s",
		     err.text);
	return stream;
}

Test(stream, append_read_back_commit)
{
	static const char piece[] = "0123456789";
	struct ldr_publish_options options = {.make_parents = true, .mode = 0444};
	struct ldr_publish_result result;
	struct ldr_stream *stream = start("packs", options);
	int descriptors = scratch_descriptors();
	char found[20] = "";

	for (unsigned i = 0; i < 2000; i++) {
		cr_assert_eq(ldr_stream_length(stream), i * 10u);
		cr_assert_eq(ldr_stream_append(stream, piece, 10, NULL), LDR_OK);
	}
	cr_assert_eq(ldr_stream_append(stream, NULL, 0, NULL), LDR_OK);
	cr_assert_eq(pread(ldr_stream_fd(stream), found, 5, 19995), 5);
	cr_expect_str_eq(found, "56789");
	cr_expect_eq(temporaries("packs"), 1);
	cr_assert_eq(ldr_stream_commit(stream, "packs/aa/x.pack", &result, NULL), LDR_OK);
	cr_expect(result.published && result.file_synced && result.folder_synced);
	cr_expect_eq(temporaries("packs"), 0);
	cr_expect_eq(scratch_mode(&scratch, "packs/aa/x.pack"), 0444u);
	cr_expect_eq(scratch_descriptors(), descriptors - 2, "temporary and folder");
	{
		uint8_t *data = NULL;
		size_t length = 0;

		cr_assert_eq(
			ldr_root_read_file(root, "packs/aa/x.pack", 20000, &data, &length, NULL),
			LDR_OK);
		cr_assert_eq(length, 20000u);
		for (size_t i = 0; i < length; i++)
			cr_assert_eq(data[i], piece[i % 10]);
		cr_expect_eq(data[length], 0);
		free(data);
	}
}

/* Somebody else was first with the same content-addressed name. */
Test(stream, content_addressed_names)
{
	struct ldr_publish_options options = {.condition = LDR_IF_MISSING, .sync = LDR_SYNC_NONE};
	struct ldr_publish_result result;
	struct ldr_stream *first = start("", options), *second = start("", options);

	cr_assert_eq(ldr_stream_append(first, "same", 4, NULL), LDR_OK);
	cr_assert_eq(ldr_stream_append(second, "same", 4, NULL), LDR_OK);
	cr_expect_eq(temporaries("."), 2);
	cr_assert_eq(ldr_stream_commit(first, "name", &result, NULL), LDR_OK);
	cr_expect(result.published && !result.file_synced && !result.folder_synced);
	cr_assert_eq(ldr_stream_commit(second, "name", &result, NULL), LDR_ECONFLICT);
	cr_expect(!result.published && result.cleanup == LDR_OK);
	cr_expect_eq(temporaries("."), 0);
	cr_expect(scratch_is(&scratch, "name", "same", 4));
}

Test(stream, abort_limit_and_broken)
{
	struct ldr_publish_options limited = {.max_bytes = 10};
	struct ldr_publish_result result;
	struct ldr_error err = {0};
	int descriptors = scratch_descriptors();
	struct ldr_stream *stream = start("", limited);

	ldr_stream_abort(NULL);
	cr_assert_eq(ldr_stream_append(stream, "12345", 5, NULL), LDR_OK);
	ldr_stream_abort(stream);
	cr_expect_eq(temporaries("."), 0);

	stream = start("", limited);
	cr_assert_eq(ldr_stream_append(stream, "1234567890", 10, NULL), LDR_OK);
	cr_assert_eq(ldr_stream_append(stream, "1", 1, &err), LDR_ELIMIT);
	cr_expect(strstr(err.text, "length 11, limit 10") != NULL, "%s", err.text);
	cr_assert_eq(ldr_stream_append(stream, "", 0, NULL), LDR_ELIMIT, "broken for good");
	cr_assert_eq(ldr_stream_commit(stream, "file", &result, NULL), LDR_ELIMIT);
	cr_expect(!result.published && result.cleanup == LDR_OK);

	stream = start("", limited);
	ldr_seam_reset();
	ldr_seam_cap_writes(3);
	ldr_seam_fail(LDR_SEAM_WRITE, 2, 1, ENOSPC);
	cr_assert_eq(ldr_stream_append(stream, "12345", 5, NULL), LDR_ENOSPACE);
	cr_expect_eq(ldr_stream_length(stream), 0u);
	ldr_seam_reset();
	cr_assert_eq(ldr_stream_append(stream, "12345", 5, NULL), LDR_ENOSPACE);
	cr_assert_eq(ldr_stream_commit(stream, "file", NULL, NULL), LDR_ENOSPACE);
	cr_expect_eq(scratch_count(&scratch, ".", ""), 0);
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(stream, refusals_and_faults)
{
	static const struct {
		enum ldr_seam_call call;
		unsigned first;
		int sys_errno;
		enum ldr_status status;
	} begins[] = {
		{LDR_SEAM_ALLOC, 1, ENOMEM, LDR_ENOMEM},  {LDR_SEAM_OPEN, 1, EMFILE, LDR_EIO},
		{LDR_SEAM_OPEN, 2, ENOSPC, LDR_ENOSPACE}, {LDR_SEAM_LOCK, 1, EIO, LDR_EIO},
		{LDR_SEAM_STAT, 1, EIO, LDR_EIO},
	};
	static const struct {
		const char *path;
		enum ldr_status status;
	} commits[] = {
		{"../x", LDR_EINVAL},      {".larder-tmp.1.1", LDR_EINVAL},
		{"gone/x", LDR_ENOTFOUND}, {"folder", LDR_ENOTREG},
		{"link", LDR_ELINK},       {"link/x", LDR_ELINK},
		{"file/x", LDR_ENOTDIR},
	};
	struct ldr_publish_options wrong = {.sync = 9};
	struct ldr_stream *stream = NULL;
	int descriptors = scratch_descriptors();

	for (size_t i = 0; i < CASES(begins); i++) {
		ldr_seam_reset();
		ldr_seam_fail(begins[i].call, begins[i].first, 1, begins[i].sys_errno);
		cr_expect_eq(ldr_stream_begin(root, "", NULL, &stream, NULL), begins[i].status);
		cr_expect_null(stream);
		cr_expect_eq(scratch_count(&scratch, ".", ""), 0, "%zu", i);
	}
	ldr_seam_reset();
	cr_expect_eq(ldr_stream_begin(root, "", &wrong, &stream, NULL), LDR_EINVAL);
	cr_expect_eq(ldr_stream_begin(root, "gone", NULL, &stream, NULL), LDR_ENOTFOUND);
	cr_expect_eq(ldr_stream_begin(root, "a/..", NULL, &stream, NULL), LDR_EINVAL);
	scratch_mkdir(&scratch, "folder");
	scratch_write(&scratch, "file", "old");
	scratch_link(&scratch, "link", "folder");
	cr_expect_eq(ldr_stream_begin(root, "link", NULL, &stream, NULL), LDR_ELINK);
	for (size_t i = 0; i < CASES(commits); i++) {
		struct ldr_publish_result result;

		stream = start("folder", (struct ldr_publish_options){0});
		cr_assert_eq(ldr_stream_append(stream, "x", 1, NULL), LDR_OK);
		cr_expect_eq(ldr_stream_commit(stream, commits[i].path, &result, NULL),
			     commits[i].status, "%s", commits[i].path);
		cr_expect(!result.published && result.cleanup == LDR_OK);
		cr_expect_eq(temporaries("folder"), 0);
	}
	cr_expect_eq(scratch_count(&scratch, ".", ""), 3);
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(stream, matching)
{
	struct ldr_publish_options options = {.condition = LDR_IF_MATCHING};
	struct ldr_stream *stream;

	scratch_write(&scratch, "file", "old");
	cr_assert_eq(ldr_root_observe(root, "file", &options.stamp, NULL), LDR_OK);
	stream = start("", options);
	cr_assert_eq(ldr_stream_append(stream, "new", 3, NULL), LDR_OK);
	cr_assert_eq(ldr_stream_commit(stream, "file", NULL, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, "file", "new", 3));
	stream = start("", options);
	cr_assert_eq(ldr_stream_commit(stream, "file", NULL, NULL), LDR_ECONFLICT);
	cr_expect(scratch_is(&scratch, "file", "new", 3));
}

/* ---- roots ---- */

TestSuite(root, .init = begin, .fini = end);

Test(root, opening)
{
	struct ldr_root *other = NULL;
	struct ldr_error err = {0};
	char path[256];
	int descriptors = scratch_descriptors();

	cr_expect_eq(ldr_root_open(scratch_join(&scratch, "gone", path), false, &other, &err),
		     LDR_ENOTFOUND);
	cr_expect(strstr(err.text, path) != NULL, "%s", err.text);
	cr_expect_null(other);
	scratch_write(&scratch, "file", "x");
	cr_expect_eq(ldr_root_open(scratch_join(&scratch, "file", path), true, &other, NULL),
		     LDR_ENOTDIR);
	cr_expect_eq(ldr_root_open(scratch_join(&scratch, "file/x", path), true, &other, NULL),
		     LDR_ENOTDIR);
	cr_expect_eq(ldr_root_open("", true, &other, NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_root_open(scratch_join(&scratch, "a/b//c/", path), true, &other, NULL),
		     LDR_OK);
	cr_expect_str_eq(ldr_root_path(other), path);
	cr_expect_geq(ldr_root_fd(other), 0);
	ldr_root_close(other);
	cr_expect(scratch_exists(&scratch, "a/b/c"));
	/* Its own path may lead through symlinks; a HOME may be one. */
	scratch_link(&scratch, "home", "a");
	cr_assert_eq(ldr_root_open(scratch_join(&scratch, "home/b/new", path), true, &other, NULL),
		     LDR_OK);
	cr_expect_eq(ldr_publish(other, "file", "x", 1, NULL, NULL, NULL), LDR_OK);
	cr_expect(scratch_is(&scratch, "a/b/new/file", "x", 1));
	ldr_root_close(other);
	ldr_root_close(NULL);
	ldr_seam_fail(LDR_SEAM_ALLOC, 1, 1, ENOMEM);
	cr_expect_eq(ldr_root_open(scratch.path, false, &other, NULL), LDR_ENOMEM);
	ldr_seam_reset();
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(root, kinds_of_files)
{
	static const struct {
		const char *path;
		enum ldr_status status;
	} cases[] = {
		{"file", LDR_OK},        {"folder/file", LDR_OK},
		{"gone", LDR_ENOTFOUND}, {"gone/x", LDR_ENOTFOUND},
		{"folder", LDR_EISDIR},  {"file/x", LDR_ENOTDIR},
		{"link", LDR_ELINK},     {"dangling", LDR_ELINK},
		{"way", LDR_ELINK},      {"way/file", LDR_ELINK},
		{"outside", LDR_ELINK},  {"pipe", LDR_ENOTREG},
		{"socket", LDR_ENOTREG}, {"../x", LDR_EINVAL},
		{"", LDR_EINVAL},        {"folder/../file", LDR_EINVAL},
	};
	int descriptors = scratch_descriptors();

	scratch_write(&scratch, "file", "1234");
	scratch_mkdir(&scratch, "folder");
	scratch_write(&scratch, "folder/file", "1234");
	scratch_link(&scratch, "link", "file");
	scratch_link(&scratch, "dangling", "nowhere");
	scratch_link(&scratch, "way", "folder");
	scratch_link(&scratch, "outside", "/etc/hostname");
	cr_assert_eq(mkfifoat(scratch.fd, "pipe", 0600), 0);
	cr_assert_eq(mknodat(scratch.fd, "socket", S_IFSOCK | 0600, 0), 0);
	for (int walking = 0; walking < 2; walking++)
		for (size_t i = 0; i < CASES(cases); i++) {
			struct ldr_stamp stamp = {0};
			struct ldr_error err = {0};
			uint8_t *data = NULL;
			size_t length = 0;
			int fd = -1;

			for (int way = 0; way < 3; way++) {
				enum ldr_status got;

				ldr_seam_reset();
				ldr_seam_fail(LDR_SEAM_OPEN, 1, (unsigned)walking, ENOSYS);
				got = way == 0 ? ldr_root_open_file(root, cases[i].path, &fd, &err)
				      : way == 1
					      ? ldr_root_read_file(root, cases[i].path, 4, &data,
								   &length, &err)
					      : ldr_root_observe(root, cases[i].path, &stamp, &err);
				cr_expect_eq(got, cases[i].status, "%s by way %d, walking %d: %s",
					     cases[i].path, way, walking, err.text);
			}
			if (cases[i].status)
				continue;
			cr_expect_eq(length, 4u);
			cr_expect_str_eq((char *)data, "1234");
			cr_expect_eq(stamp.size_bytes, 4u);
			free(data);
			close(fd);
		}
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(root, reading_limits_and_faults)
{
	uint8_t *data = NULL;
	size_t length = 99;
	struct ldr_error err = {0};
	int descriptors = scratch_descriptors();

	scratch_write(&scratch, "empty", "");
	scratch_write(&scratch, "file", "12345");
	cr_assert_eq(ldr_root_read_file(root, "empty", 0, &data, &length, NULL), LDR_OK);
	cr_expect_eq(length, 0u);
	cr_expect_eq(data[0], 0);
	free(data);
	data = NULL;
	cr_expect_eq(ldr_root_read_file(root, "file", 4, &data, &length, &err), LDR_ELIMIT);
	cr_expect(strstr(err.text, "length 5, limit 4") != NULL, "%s", err.text);
	ldr_seam_fail(LDR_SEAM_ALLOC, 1, 1, ENOMEM);
	cr_expect_eq(ldr_root_read_file(root, "file", 5, &data, &length, NULL), LDR_ENOMEM);
	ldr_seam_reset();
	ldr_seam_fail(LDR_SEAM_READ, 1, 1, EIO);
	cr_expect_eq(ldr_root_read_file(root, "file", 5, &data, &length, NULL), LDR_EIO);
	ldr_seam_reset();
	ldr_seam_fail(LDR_SEAM_READ, 1, 1, 0);
	cr_expect_eq(ldr_root_read_file(root, "file", 5, &data, &length, NULL), LDR_ECHANGED,
		     "it ended early");
	cr_expect_null(data);
	ldr_seam_reset();
	ldr_seam_cap_writes(2);
	ldr_seam_fail(LDR_SEAM_READ, 2, 3, EINTR);
	cr_expect_eq(ldr_root_read_file(root, "file", 5, &data, &length, NULL), LDR_OK);
	cr_expect(length == 5 && memcmp(data, "12345", 5) == 0, "pieces and interruptions");
	free(data);
	cr_assert_eq(scratch_descriptors(), descriptors);
}

Test(root, removing_and_folders)
{
	static const struct {
		const char *path;
		enum ldr_status status;
	} cases[] = {
		{"file", LDR_OK},     {"file", LDR_ENOTFOUND}, {"gone/x", LDR_ENOTFOUND},
		{"way/x", LDR_ELINK}, {"folder", LDR_EISDIR},  {"../x", LDR_EINVAL},
		{"dangling", LDR_OK}, {"folder/x", LDR_OK},
	};
	struct ldr_error err = {0};
	int descriptors = scratch_descriptors();

	scratch_write(&scratch, "file", "x");
	cr_assert_eq(ldr_root_make_folder(root, "folder", NULL), LDR_OK);
	scratch_write(&scratch, "folder/x", "x");
	scratch_link(&scratch, "way", "folder");
	scratch_link(&scratch, "dangling", "nowhere");
	for (size_t i = 0; i < CASES(cases); i++)
		cr_expect_eq(ldr_root_remove(root, cases[i].path, LDR_SYNC_FILE_AND_FOLDER, NULL),
			     cases[i].status, "%s", cases[i].path);
	ldr_seam_reset();
	scratch_write(&scratch, "file", "x");
	cr_expect_eq(ldr_root_remove(root, "file", LDR_SYNC_NONE, NULL), LDR_OK);
	cr_expect_eq(ldr_seam_calls(LDR_SEAM_SYNC), 0u);
	scratch_write(&scratch, "file", "x");
	ldr_seam_fail(LDR_SEAM_SYNC, 1, 1, EIO);
	cr_expect_eq(ldr_root_remove(root, "file", LDR_SYNC_FILE, &err), LDR_EIO);
	cr_expect(strstr(err.text, "removed; sync") != NULL, "%s", err.text);
	cr_expect_not(scratch_exists(&scratch, "file"));
	ldr_seam_reset();
	cr_expect_eq(ldr_root_make_folder(root, "a/b/c", NULL), LDR_OK);
	cr_expect_eq(ldr_root_make_folder(root, "a/b/c", NULL), LDR_OK);
	cr_expect(scratch_exists(&scratch, "a/b/c"));
	cr_expect_eq(ldr_root_make_folder(root, "way/c", NULL), LDR_ELINK);
	scratch_write(&scratch, "a/file", "x");
	cr_expect_eq(ldr_root_make_folder(root, "a/file", NULL), LDR_ENOTDIR);
	ldr_seam_fail(LDR_SEAM_MKDIR, 1, 1, ENOSPC);
	cr_expect_eq(ldr_root_make_folder(root, "a/d", NULL), LDR_ENOSPACE);
	cr_assert_eq(scratch_descriptors(), descriptors);
}
