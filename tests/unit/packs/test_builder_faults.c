/*
 * The builder when things go wrong: files that change, vanish or cannot be read, a store that refuses, a
 * caller that cancels, calls to the system that fail. Nothing is left behind, and no bytes are ever stored
 * under an id that is not theirs.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "packs/builder.h"
#include "tests/unit/packs/build_fixture.h"

static struct folder folder;
static struct store store;

static void begin(void)
{
	umask(022);
	folder_begin(&folder);
	store_begin(&store);
}

static void end(void)
{
	store_end(&store);
	folder_end(&folder);
}

TestSuite(builder_faults, .init = begin, .fini = end);

/* ---- a file that changes at a chosen moment ---- */

/* The moments that the builder gives to its caller: after the first stamp of a file was taken and before
 * its bytes are read (the question for a codec), inside a large file, and after a file (progress). */
enum moment { BEFORE_READING, WHILE_READING, AFTER_READING };

enum change { GROWS, SHRINKS, SAME_SIZE, REPLACED, VANISHES, BECOMES_LINK, BECOMES_FOLDER };

struct changing {
	const char *path;
	enum moment moment;
	enum change change;
	unsigned times;
	unsigned done;
	uint64_t seen_files;
};

static void change_file(struct changing *changing)
{
	const char *path = changing->path;
	char name[64];
	size_t length;
	uint8_t *bytes;

	if (changing->done == changing->times)
		return;
	changing->done++;
	if (changing->change >= VANISHES) {
		folder_remove(&folder, path);
		if (changing->change == BECOMES_LINK)
			folder_link(&folder, path, "other");
		if (changing->change == BECOMES_FOLDER)
			folder_make(&folder, path, 0755);
		return;
	}
	bytes = folder_read(&folder, path, &length);
	if (changing->change == REPLACED) {
		snprintf(name, sizeof(name), "%s.new", path);
		folder_file(&folder, name, bytes, length);
		cr_assert_eq(rename(folder_path(&folder, name), folder_path(&folder, path)), 0);
	} else if (changing->change == GROWS) {
		bytes = realloc(bytes, length + 1000);
		memset(bytes + length, 'g', 1000);
		folder_file(&folder, path, bytes, length + 1000);
	} else {
		memset(bytes, 's' + (int)changing->done, 100);
		folder_file(&folder, path, bytes,
			    changing->change == SHRINKS ? length - 1000 : length);
	}
	free(bytes);
}

static const struct ldr_codec_choice *before_reading(void *context, const char *path)
{
	struct changing *changing = context;

	if (changing->moment == BEFORE_READING && strcmp(path, changing->path) == 0)
		change_file(changing);
	return NULL;
}

static bool on_progress(void *context, const struct ldr_build_progress *progress)
{
	struct changing *changing = context;
	bool inside = progress->files_read == changing->seen_files;

	changing->seen_files = progress->files_read;
	cr_assert_leq(progress->files_read, progress->files_total);
	if (changing->moment == WHILE_READING && inside && progress->bytes_read > 0)
		change_file(changing);
	if (changing->moment == AFTER_READING && progress->files_read == progress->files_total)
		change_file(changing);
	return true;
}

static enum ldr_status build_changing(struct changing *changing, struct ldr_build *out_build,
				      struct ldr_error *err)
{
	struct ldr_build_options options = release_options(&store);

	options.codec_for = before_reading;
	options.progress = on_progress;
	options.codec_context = options.progress_context = changing;
	return build_from(&folder, &options, &store, out_build, err);
}

static void fresh(size_t length)
{
	end();
	begin();
	folder_random(&folder, "file", length, length);
	folder_text(&folder, "other", "another file");
	/* Old, so that a change shows in its stamp however coarse the file system's clock is. */
	folder_age(&folder, "file");
}

/* One change at any moment: read a second time, and the tree shows what was there at the end. */
Test(builder_faults, a_file_that_changes_is_read_again)
{
	static const size_t sizes[] = {2000, 512 * 1024, 2000000};

	for (unsigned row = 0; row < 3 * 3 * 4; row++) {
		struct changing changing = {
			.path = "file",
			.moment = row % 3,
			.change = row / 9,
			.times = 1,
		};
		size_t size = sizes[row / 3 % 3];
		struct ldr_error err = {.status = LDR_OK};
		struct ldr_build build;

		if (changing.moment == WHILE_READING && size <= 512 * 1024)
			continue;
		fresh(size);
		cr_assert_eq(build_changing(&changing, &build, &err), LDR_OK, "row %u: %s", row,
			     err.text);
		cr_assert_eq(changing.done, 1, "row %u", row);
		cr_assert_eq(build.stats.files_read_again, 1, "row %u", row);
		check_build(&folder, &store, &build);
		ldr_build_dispose(&build);
	}
}

Test(builder_faults, a_file_that_keeps_changing)
{
	struct changing changing = {
		.path = "file",
		.moment = WHILE_READING,
		.change = GROWS,
		.times = 100,
	};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_build build;

	fresh(3000000);
	cr_assert_eq(build_changing(&changing, &build, &err), LDR_ECHANGED);
	cr_assert_not_null(strstr(err.text, "file file below"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "second time: size 30"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "then size 30"), "%s", err.text);
	cr_assert_eq(store_files(&store), 0, "nothing is left behind");
}

Test(builder_faults, a_file_that_is_no_file_any_more)
{
	static const struct {
		enum moment moment;
		enum change change;
		enum ldr_status status;
		const char *says;
	} rows[] = {
		{BEFORE_READING, VANISHES, LDR_ENOTFOUND, "opening"},
		{AFTER_READING, VANISHES, LDR_ENOTFOUND, "looking again at"},
		{AFTER_READING, BECOMES_LINK, LDR_ECHANGED, "no longer a regular file"},
		{AFTER_READING, BECOMES_FOLDER, LDR_ECHANGED, "no longer a regular file"},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct changing changing = {
			.path = "file",
			.moment = rows[i].moment,
			.change = rows[i].change,
			.times = 1,
		};
		struct ldr_error err = {.status = LDR_OK};
		struct ldr_build build;

		fresh(5000);
		cr_assert_eq(build_changing(&changing, &build, &err), rows[i].status, "row %u: %s",
			     i, err.text);
		cr_assert_not_null(strstr(err.text, rows[i].says), "row %u: %s", i, err.text);
		cr_assert_not_null(strstr(err.text, "file file below"), "row %u: %s", i, err.text);
		cr_assert_eq(store_files(&store), 0);
	}
}

/* Between the scan and the build: what counts is what is there when it is read. */
Test(builder_faults, a_file_that_changes_after_the_scan)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	struct ldr_build build;

	fresh(5000);
	options = release_options(&store);
	cr_assert_eq(ldr_scan_folder(folder.path, NULL, NULL, &scan, &err), LDR_OK);
	folder_words(&folder, "file", 3, 700000);
	folder_mode(&folder, "file", 0755);
	cr_assert_eq(ldr_build_run(scan, &options, &store.sink, &build, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(build.stats.files_read_again, 0);
	check_build(&folder, &store, &build);
	ldr_build_dispose(&build);
	folder_remove(&folder, "file");
	cr_assert_eq(ldr_build_run(scan, &options, &store.sink, &build, &err), LDR_ENOTFOUND);
	cr_assert_not_null(strstr(err.text, "opening file file"), "%s", err.text);
	ldr_scan_free(scan);
}

Test(builder_faults, a_file_that_cannot_be_read)
{
	struct ldr_build_options options;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_build build;
	enum ldr_status status;

	fresh(5000);
	folder_mode(&folder, "", 0755);
	folder_mode(&folder, "file", 0000);
	cr_assert_eq(chmod(store.folder.path, 0777), 0);
	options = release_options(&store);
	if (geteuid() == 0)
		cr_assert_eq(seteuid(65534), 0);
	status = build_from(&folder, &options, &store, &build, &err);
	if (getuid() == 0)
		cr_assert_eq(seteuid(0), 0);
	cr_assert_eq(status, LDR_EDENIED);
	cr_assert_not_null(strstr(err.text, "opening file file"), "%s", err.text);
}

/* ---- copied links ---- */

Test(builder_faults, copied_links_are_read_through)
{
	struct ldr_scan_options copy = {.size = sizeof(copy), .links = LDR_LINKS_COPY};
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	struct folder other, expected = folder;
	struct ldr_build build;

	folder_begin(&other);
	folder_random(&other, "data/sub/file", 1, 50000);
	folder_text(&other, "beside", "beside");
	folder_link(&other, "data/sub/beside", "../../beside");
	folder_link(&folder, "to/file", folder_path(&other, "data/sub/file"));
	folder_link(&folder, "to/tree", folder_path(&other, "data"));
	cr_assert_eq(ldr_scan_folder(folder.path, &copy, NULL, &scan, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(ldr_build_run(scan, &options, &store.sink, &build, &err), LDR_OK, "%s",
		     err.text);
	ldr_scan_free(scan);
	/* The same as a folder that holds copies. */
	folder_begin(&expected);
	folder_random(&expected, "to/file", 1, 50000);
	folder_random(&expected, "to/tree/sub/file", 1, 50000);
	folder_text(&expected, "to/tree/sub/beside", "beside");
	check_build(&expected, &store, &build);
	folder_end(&expected);
	folder_end(&other);
	ldr_build_dispose(&build);
}

/* ---- stores and callers that refuse ---- */

static void make_files(void)
{
	char path[32];

	for (unsigned i = 0; i < 6; i++) {
		snprintf(path, sizeof(path), "file-%u", i);
		folder_random(&folder, path, i, 300000);
	}
}

Test(builder_faults, a_store_that_refuses)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_build build;

	make_files();
	options.pack_target_bytes = 600000;
	for (unsigned n = 1; n <= 3; n++) {
		store.pack_count = 0;
		store.fail_begin = n;
		cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_ENOSPACE);
		cr_assert_not_null(strstr(err.text, "no room for pack"), "%s", err.text);
		cr_assert_eq(store.finished, n - 1);
		store.fail_begin = 0;
		store.pack_count = 0;
		store.fail_finish = n;
		cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_EDENIED);
		cr_assert_eq(store.finished, n);
		store.fail_finish = 0;
	}
	/* Only whole packs are there, no temporaries; and the next run completes. */
	cr_assert_eq(store_files(&store), 2);
	store.pack_count = 0;
	built(&folder, &options, &store, &build);
	cr_assert_eq(store_files(&store), build.pack_count);
	check_build(&folder, &store, &build);
	ldr_build_dispose(&build);
}

static bool cancel_at(void *context, const struct ldr_build_progress *progress)
{
	uint64_t *at = context;

	return progress->files_read < *at;
}

Test(builder_faults, a_caller_that_cancels)
{
	for (uint64_t at = 1; at <= 6; at++) {
		struct ldr_build_options options = release_options(&store);
		struct ldr_error err = {.status = LDR_OK};
		struct ldr_build build;

		make_files();
		options.progress = cancel_at;
		options.progress_context = &at;
		cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_ECANCELLED);
		cr_assert_eq(store_files(&store), 0);
	}
}

Test(builder_faults, options_that_are_wrong)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_build build;

	make_files();
	options.size = 8;
	cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_EINVAL);
	options = release_options(&store);
	options.chunks = (struct ldr_chunk_sizes){16384, 65537, 262144};
	cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_EINVAL);
	options = release_options(&store);
	options.align = 3;
	cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_EINVAL);
	options = release_options(&store);
	options.first_pack_number = LDR_MAP_PACK_MAX + 1;
	cr_assert_eq(build_from(&folder, &options, &store, &build, &err), LDR_ELIMIT);
	cr_assert_eq(store_files(&store), 0);
}

/* Every call of a kind fails once: never success with something missing, never a leftover. */
Test(builder_faults, failing_calls)
{
	static const struct {
		enum ldr_seam_call call;
		int code;
		enum ldr_status status;
	} rows[] = {
		{LDR_SEAM_OPEN, EIO, LDR_EIO},
		{LDR_SEAM_STAT, EIO, LDR_EIO},
		{LDR_SEAM_READ, EIO, LDR_EIO},
		{LDR_SEAM_WRITE, ENOSPC, LDR_ENOSPACE},
	};
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};

	folder_random(&folder, "a/file", 1, 600000);
	folder_text(&folder, "b/file", "text");
	for (unsigned row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		for (unsigned i = 1;; i++) {
			struct ldr_scan *scan = NULL;
			struct ldr_build build;
			enum ldr_status status;
			bool reached;

			ldr_seam_reset();
			store.pack_count = store.begun = store.finished = 0;
			cr_assert_eq(ldr_scan_folder(folder.path, NULL, NULL, &scan, &err), LDR_OK);
			ldr_seam_reset();
			ldr_seam_fail(rows[row].call, i, 1, rows[row].code);
			status = ldr_build_run(scan, &options, &store.sink, &build, &err);
			reached = ldr_seam_calls(rows[row].call) >= i;
			ldr_seam_reset();
			ldr_scan_free(scan);
			if (!reached) {
				cr_assert_eq(status, LDR_OK, "%s", err.text);
				cr_assert_gt(i, 2);
				check_build(&folder, &store, &build);
				ldr_build_dispose(&build);
				break;
			}
			cr_assert_eq(status, rows[row].status, "row %u, call %u: %s", row, i,
				     err.text);
			cr_assert_eq(store_files(&store), 0, "row %u, call %u", row, i);
		}
		store_end(&store);
		store_begin(&store);
	}
}
