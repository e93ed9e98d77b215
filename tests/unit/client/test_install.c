/*
 * Installing, updating, resuming, extracting: what the folder looks like afterwards, whatever was there
 * and wherever the run before was cut off.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/installation.h"
#include "common/publisher_seams.h"
#include "tests/support/client_world.h"

static struct client_world world;

/* Three releases: paths change kind, go, come, and change content between them. */
static void setup(void)
{
	client_world_make(&world);
	client_noise(&world, "one/same", 200000, 1);
	client_noise(&world, "one/changed", 150000, 2);
	client_text(&world, "one/gone/deep/file", "gone");
	client_text(&world, "one/kind", "a file");
	client_text(&world, "one/turn/inside", "a folder");
	client_text(&world, "one/empty", "");
	client_link(&world, "one/link", "same");
	client_text(&world, "one/run.sh", "#!/bin/sh\n");
	client_mode(&world, "one/run.sh", 0755);
	client_publish(&world, "one", "live");

	client_noise(&world, "two/same", 200000, 1);
	client_noise(&world, "two/changed", 150000, 3);
	client_noise(&world, "two/only-two", 90000, 4);
	client_text(&world, "two/kind/now", "a folder");
	client_text(&world, "two/turn", "a file");
	client_text(&world, "two/empty", "");
	client_link(&world, "two/link", "changed");
	client_text(&world, "two/run.sh", "#!/bin/sh\n");
	client_mode(&world, "two/run.sh", 0700);
	client_publish(&world, "two", "live");

	client_noise(&world, "three/same", 200000, 1);
	client_noise(&world, "three/late", 70000, 5);
	client_publish(&world, "three", "live");
}

static void teardown(void)
{
	ldr_seam_reset();
	client_world_remove(&world);
}

TestSuite(install, .init = setup, .fini = teardown);

static void fetch(const char *source, const char *target, struct ldr_install_outcome *outcome)
{
	struct ldr_error err = {0};

	cr_assert_eq(client_fetch(&world, source, target, outcome, &err), LDR_OK, "%s: %s", source,
		     err.text);
	cr_assert_eq(err.status, LDR_OK, "error object touched: %s", err.text);
}

static uint64_t traffic_of(const char *source, const char *target)
{
	char path[CLIENT_PATH_BYTES];
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_install_outcome outcome;
	struct ldr_install_request request = {.size = sizeof(request),
					      .folder = client_path(&world, target, path),
					      .sync = LDR_SYNC_NONE};
	uint64_t requests, bytes;

	cr_assert_eq(client_open(&world, source, &view, NULL), LDR_OK);
	request.view = view;
	cr_assert_eq(ldr_install(&request, &outcome, NULL), LDR_OK);
	ldr_view_traffic(view, &requests, &bytes);
	return bytes;
}

Test(install, every_release_follows_every_other)
{
	static const char *const trees[] = {"one", "two", "three"};
	struct ldr_install_outcome outcome;
	char source[32];

	for (int from = 1; from <= 3; from++)
		for (int to = 1; to <= 3; to++) {
			snprintf(source, sizeof(source), "live@%d", from);
			fetch(source, "out", NULL);
			snprintf(source, sizeof(source), "live@%d", to);
			fetch(source, "out", &outcome);
			cr_assert(client_same(&world, trees[to - 1], "out"), "%d to %d", from, to);
			cr_assert_eq(outcome.up_to_date, from == to);
			cr_assert_eq(outcome.totals.files > 0, true);
		}
}

Test(install, the_same_again_fetches_and_writes_nothing)
{
	struct ldr_install_outcome outcome;

	fetch("live@1", "out", &outcome);
	cr_assert_eq(outcome.files_written, 7);
	cr_assert(traffic_of("live@1", "out") < 3000); /* the record */
	fetch("live@1", "out", &outcome);
	cr_assert(outcome.up_to_date && outcome.files_written == 0 && outcome.bytes_written == 0);
	/* An update takes what did not change from the folder. */
	fetch("live@2", "out", &outcome);
	cr_assert(outcome.files_written >= 4 && outcome.bytes_written < 245000, "%llu written",
		  (unsigned long long)outcome.bytes_written);
}

Test(install, what_the_user_has_changed_is_put_right)
{
	struct ldr_install_outcome outcome;
	struct ldr_check_report report;
	char path[CLIENT_PATH_BYTES], text[4096];
	struct ldr_error err = {0};

	fetch("live@1", "out", NULL);
	cr_assert_eq(ldr_install_check(client_path(&world, "out", path), NULL, NULL, &report, &err),
		     LDR_OK, "%s", err.text);
	cr_assert_eq(report.files, 7);
	client_text(&world, "out/kind", "b file"); /* the same length */
	client_noise(&world, "out/changed", 10, 1);
	client_remove(&world, "out/empty");
	client_remove(&world, "out/link");
	client_link(&world, "out/link", "elsewhere");
	client_mode(&world, "out/run.sh", 0644);
	client_mode(&world, "out/gone", 0700);
	client_text(&world, "out/mine", "my own");
	client_text(&world, "out/gone/mine", "my own too");
	cr_assert_eq(ldr_install_check(path, NULL, NULL, &report, &err), LDR_ECORRUPT);
	cr_assert_eq(report.faults, 6, "%llu", (unsigned long long)report.faults);
	fetch("live@1", "out", &outcome);
	cr_assert_eq(outcome.files_written, 3);
	cr_assert_eq(ldr_install_check(path, NULL, NULL, &report, NULL), LDR_OK);
	cr_assert_str_eq(client_read(&world, "out/mine", text), "my own");
	/* A folder that goes stays while something of the user's is in it. */
	fetch("live@3", "out", NULL);
	cr_assert_str_eq(client_read(&world, "out/gone/mine", text), "my own too");
	cr_assert_not(client_exists(&world, "out/gone/deep"));
	cr_assert_str_eq(client_read(&world, "out/mine", text), "my own");
}

Test(install, a_folder_without_a_record_is_adopted)
{
	struct ldr_install_outcome outcome;
	char path[CLIENT_PATH_BYTES], command[600];

	snprintf(command, sizeof(command), "cp -a '%s' '%s/copy'", client_path(&world, "one", path),
		 world.folder);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
	fetch("live@1", "copy", &outcome);
	cr_assert_eq(outcome.files_written, 0);
	cr_assert_not(outcome.up_to_date); /* it has a record now */
	cr_assert(client_exists(&world, "copy/.larder/installed"));
	cr_assert(client_same(&world, "one", "copy"));
	fetch("live@2", "copy", &outcome);
	cr_assert(client_same(&world, "two", "copy"));
}

Test(install, a_damaged_record_costs_a_look_at_every_file)
{
	struct ldr_install_outcome outcome;

	fetch("live@1", "out", NULL);
	client_text(&world, "out/.larder/installed", "not a record");
	fetch("live@1", "out", &outcome);
	cr_assert(strstr(outcome.trouble, "installed"), "%s", outcome.trouble);
	cr_assert_eq(outcome.files_written, 0);
	fetch("live@1", "out", &outcome);
	cr_assert(outcome.up_to_date);
	cr_assert_str_empty(outcome.trouble);
}

Test(install, the_target_may_be_a_symlink_but_nothing_below_it)
{
	char text[4096];

	client_text(&world, "real/x", "x");
	client_link(&world, "alias", "real");
	fetch("live@1", "alias", NULL);
	cr_assert_str_eq(client_read(&world, "real/kind", text), "a file");
	/* A folder of the release that was made a link to elsewhere is made a folder again. */
	client_text(&world, "outside/file", "untouched");
	client_remove(&world, "real/gone/deep/file");
	client_remove(&world, "real/gone/deep");
	client_link(&world, "real/gone/deep", "../../outside");
	fetch("live@1", "alias", NULL);
	cr_assert_str_eq(client_read(&world, "outside/file", text), "untouched");
	cr_assert_str_eq(client_read(&world, "real/gone/deep/file", text), "gone");
}

/* ---- cut off ---- */

struct cut {
	enum ldr_seam_step step;
	unsigned number;
};

static void end_here(void *context, enum ldr_seam_step step, unsigned number)
{
	const struct cut *cut = context;

	if (step == cut->step && number == cut->number)
		_exit(77);
}

/* Fetches in a process that ends at the step; false when the run completed before. */
static bool fetch_cut(const char *source, const char *target, struct cut cut)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct ldr_error err = {0};

		ldr_seam_reset();
		ldr_seam_on_step(end_here, &cut);
		_exit(client_fetch(&world, source, target, NULL, &err) ? 1 : 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77),
		  "status %x", (unsigned)status);
	return WEXITSTATUS(status) == 77;
}

static const enum ldr_seam_step cut_steps[] = {
	LDR_STEP_BATCH_BEGUN,    LDR_STEP_BATCH_OPENED,  LDR_STEP_BATCH_MODES,
	LDR_STEP_BATCH_SYNCED,   LDR_STEP_BATCH_PLANNED, LDR_STEP_BATCH_REMOVED,
	LDR_STEP_BATCH_UNMADE,   LDR_STEP_BATCH_FOLDER,  LDR_STEP_BATCH_FILE,
	LDR_STEP_BATCH_SYMLINK,  LDR_STEP_BATCH_MODE,    LDR_STEP_BATCH_APPLIED,
	LDR_STEP_BATCH_RECORDED, LDR_STEP_BATCH_CLEANED,
};
#define CUT_STEPS (sizeof(cut_steps) / sizeof(cut_steps[0]))

Test(install, a_run_cut_off_anywhere_is_finished_by_the_next, .timeout = 120)
{
	unsigned cuts = 0;

	for (size_t i = 0; i < CUT_STEPS; i++)
		for (unsigned number = 1; number <= 2; number++) {
			fetch("live@1", "out", NULL);
			cuts += fetch_cut("live@2", "out", (struct cut){cut_steps[i], number});
			fetch("live@2", "out", NULL);
			cr_assert(client_same(&world, "two", "out"), "%s %u",
				  ldr_seam_step_name(cut_steps[i]), number);
			cr_assert_not(client_exists(&world, "out/.larder/plan"));
		}
	cr_assert(cuts >= CUT_STEPS, "%u of %zu", cuts, CUT_STEPS);
}

Test(install, a_run_cut_off_may_be_followed_by_another_release, .timeout = 120)
{
	for (size_t i = 0; i < CUT_STEPS; i++) {
		fetch("live@1", "out", NULL);
		fetch_cut("live@2", "out", (struct cut){cut_steps[i], 1});
		fetch("live@3", "out", NULL);
		cr_assert(client_same(&world, "three", "out"), "%s",
			  ldr_seam_step_name(cut_steps[i]));
		/* And back to what was there: temporaries of the cut run are of no use. */
		fetch("live@1", "out", NULL);
		fetch_cut("live@2", "out", (struct cut){cut_steps[i], 1});
		fetch("live@1", "out", NULL);
		cr_assert(client_same(&world, "one", "out"), "%s",
			  ldr_seam_step_name(cut_steps[i]));
	}
}

/* The second cut run has published its own plan: what the first one brought must be gone by then. */
Test(install, two_cut_runs_in_a_row_leave_nothing_behind, .timeout = 120)
{
	static const struct cut first = {LDR_STEP_BATCH_APPLIED, 1};

	struct ldr_check_report report;
	char path[CLIENT_PATH_BYTES];
	struct ldr_error err = {0};

	fetch("live@1", "out", NULL);
	cr_assert(fetch_cut("live@2", "out", first));
	cr_assert_eq(ldr_install_check(client_path(&world, "out", path), NULL, NULL, &report, &err),
		     LDR_ECORRUPT);
	cr_assert(strstr(err.text, "cut off"), "%s", err.text);
	for (size_t i = 0; i < CUT_STEPS; i++)
		for (unsigned number = 1; number <= 2; number++) {
			fetch("live@1", "out", NULL);
			cr_assert(fetch_cut("live@2", "out", first));
			fetch_cut("live@3", "out", (struct cut){cut_steps[i], number});
			fetch("live@1", "out", NULL);
			cr_assert(client_same(&world, "one", "out"), "%s %u",
				  ldr_seam_step_name(cut_steps[i]), number);
		}
}

static unsigned temporaries(const char *target)
{
	char path[CLIENT_PATH_BYTES], command[600], name[CLIENT_PATH_BYTES];
	unsigned count = 0;
	FILE *pipe;

	snprintf(name, sizeof(name), "%s/.larder/tmp", target);
	snprintf(command, sizeof(command), "ls -A '%s'", client_path(&world, name, path));
	pipe = popen(command, "re");
	cr_assert(pipe);
	while (fgets(name, sizeof(name), pipe))
		count++;
	pclose(pipe);
	return count;
}

Test(install, temporaries_of_another_release_go)
{
	struct ldr_install_outcome outcome;

	fetch("live@1", "out", NULL);
	cr_assert(fetch_cut("live@2", "out", (struct cut){LDR_STEP_BATCH_MODES, 1}));
	cr_assert(temporaries("out") >= 4, "%u", temporaries("out"));
	fetch("live@1", "out", &outcome);
	cr_assert(outcome.up_to_date);
	cr_assert_eq(temporaries("out"), 0);
}

Test(install, a_resumed_run_fetches_only_what_it_has_not)
{
	uint64_t whole = traffic_of("live@1", "whole");

	cr_assert(fetch_cut("live@1", "out", (struct cut){LDR_STEP_BATCH_MODES, 1}));
	cr_assert(traffic_of("live@1", "out") * 10 < whole, "%llu", (unsigned long long)whole);
	cr_assert(client_same(&world, "one", "out"));
	/* Wrong bytes in a temporary are found. */
	cr_assert(fetch_cut("live@1", "bad", (struct cut){LDR_STEP_BATCH_MODES, 1}));
	{
		char path[CLIENT_PATH_BYTES], command[600];

		snprintf(command, sizeof(command),
			 "for f in '%s'/*; do printf x | dd of=\"$f\" conv=notrunc 2>/dev/null; "
			 "printf longer >>\"$f\"; done",
			 client_path(&world, "bad/.larder/tmp", path));
		cr_assert_eq(system(command), 0); /* style: a test's own folder */
	}
	fetch("live@1", "bad", NULL);
	cr_assert(client_same(&world, "one", "bad"));
}

/* ---- no room ---- */

/* What is staged already needs no more room: else a full disk could never be got over. */
Test(install, a_full_disk_is_told_and_the_next_run_goes_on)
{
	struct ldr_install_outcome outcome;
	char path[CLIENT_PATH_BYTES], text[4096];
	struct ldr_error err = {0};

	client_noise(&world, "big/a", 600000, 11);
	client_noise(&world, "big/b", 600000, 12);
	client_publish(&world, "big", "big");
	client_text(&world, "disk/x", "x");
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", client_path(&world, "disk", path), "tmpfs", 0, "size=2m"))
		cr_skip_test("no file system may be mounted here");
	client_noise(&world, "disk/ballast", 1400000, 13);
	cr_expect_eq(client_fetch(&world, "big", "disk/out", NULL, &err), LDR_ENOSPACE);
	cr_expect(strstr(err.text, "1200000 bytes to write"), "%s", err.text);
	client_remove(&world, "disk/ballast");
	cr_expect(fetch_cut("big", "disk/out", (struct cut){LDR_STEP_BATCH_MODES, 1}));
	client_noise(&world, "disk/ballast", 600000, 13);
	cr_expect_eq(client_fetch(&world, "big", "disk/out", &outcome, &err), LDR_OK, "%s",
		     err.text);
	cr_expect(client_same(&world, "big", "disk/out"));
	client_remove(&world, "disk/ballast");
	/* A write that fails half way: exit status 7, the old installation whole, then it goes on. */
	ldr_seam_fail(LDR_SEAM_WRITE, 3, 1000, ENOSPC);
	cr_expect_eq(client_fetch(&world, "live@1", "disk/small", NULL, &err), LDR_ENOSPACE);
	ldr_seam_reset();
	cr_expect_str_empty(client_read(&world, "disk/small/kind", text));
	cr_expect_eq(client_fetch(&world, "live@1", "disk/small", NULL, &err), LDR_OK, "%s",
		     err.text);
	umount2(path, MNT_DETACH);
}

/* ---- extraction ---- */

static enum ldr_status extract(const char *source, const char *target, struct ldr_error *err)
{
	char path[CLIENT_PATH_BYTES];
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_install_outcome outcome;
	struct ldr_install_request request = {.size = sizeof(request),
					      .folder = client_path(&world, target, path),
					      .sync = LDR_SYNC_NONE,
					      .without_record = true};

	cr_assert_eq(client_open(&world, source, &view, NULL), LDR_OK);
	request.view = view;
	return ldr_install(&request, &outcome, err);
}

Test(install, an_extraction_keeps_no_record_and_takes_none_away)
{
	struct ldr_error err = {0};
	char text[4096];

	client_text(&world, "plain/mine", "my own");
	client_text(&world, "plain/kind", "older");
	cr_assert_eq(extract("live@1", "plain", &err), LDR_OK, "%s", err.text);
	cr_assert_not(client_exists(&world, "plain/.larder"));
	cr_assert_str_eq(client_read(&world, "plain/mine", text), "my own");
	cr_assert_str_eq(client_read(&world, "plain/kind", text), "a file");
	cr_assert_eq(extract("live@3", "plain", &err), LDR_OK, "%s", err.text);
	cr_assert_str_eq(client_read(&world, "plain/kind", text), "a file"); /* nothing goes */

	fetch("live@1", "out", NULL);
	cr_assert_eq(extract("live@3", "out", &err), LDR_EEXISTS);
	cr_assert(strstr(err.text, "out") && strstr(err.text, "fetch"), "%s", err.text);
	cr_assert(client_same(&world, "one", "out"));
	cr_assert(client_exists(&world, "out/.larder/installed"));
	cr_assert_eq(extract("live@3", "out", NULL), LDR_EEXISTS);
}

/* ---- several at once ---- */

/* Another process has finished an update between our reading of the record and our lock. */
static void somebody_was_faster(void *context, enum ldr_seam_step step, unsigned number)
{
	char command[600];

	(void)context;
	(void)number;
	if (step != LDR_STEP_BATCH_BEGUN)
		return;
	snprintf(command, sizeof(command),
		 "cd '%s' && rm -r out/[a-z]* && cp -a theirs/[a-z]* out && "
		 "cp theirs/.larder/installed out/.larder/new && "
		 "mv out/.larder/new out/.larder/installed",
		 world.folder);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
}

Test(install, an_update_by_another_process_in_between_is_seen)
{
	fetch("live@1", "out", NULL);
	fetch("live@2", "theirs", NULL);
	ldr_seam_on_step(somebody_was_faster, NULL);
	fetch("live@3", "out", NULL);
	ldr_seam_reset();
	cr_assert(client_same(&world, "three", "out"));
}

Test(install, two_at_once_in_one_folder_are_a_conflict)
{
	struct ldr_batch *batch;
	struct ldr_error err = {0};
	char path[CLIENT_PATH_BYTES];

	cr_assert_eq(ldr_batch_begin(client_path(&world, "out", path), LDR_SYNC_NONE, &batch, NULL),
		     LDR_OK);
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, &err), LDR_ECONFLICT);
	cr_assert(strstr(err.text, "out"), "%s", err.text);
	ldr_batch_end(batch);
	fetch("live", "out", NULL);
}
