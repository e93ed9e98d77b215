/*
 * Filling temporaries: every block from the nearest place that has it, and only after its digest was
 * looked at, wherever it came from.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/stage.h"
#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "packs/layout.h"
#include "tests/support/client_world.h"

static struct client_world world;
static struct ldr_view *view;
static const struct ldr_tree *tree;
static struct ldr_batch *batch;
static struct ldr_plan *plan;
static struct ldr_stage_progress progress;

static void setup(void)
{
	client_world_make(&world);
	client_noise(&world, "one/a", 500000, 1);
	client_noise(&world, "one/twin", 500000, 1);
	client_noise(&world, "one/b", 70000, 2);
	client_text(&world, "one/empty", "");
	client_publish(&world, "one", "live");
	cr_assert_eq(client_open(&world, "live", &view, NULL), LDR_OK);
	cr_assert_eq(ldr_view_tree(view, &tree, NULL), LDR_OK);
}

static void teardown(void)
{
	ldr_seam_reset();
	ldr_plan_free(plan);
	ldr_batch_end(batch);
	ldr_view_close(view);
	client_world_remove(&world);
}

TestSuite(stage, .init = setup, .fini = teardown);

static enum ldr_status fill(const char *target, unsigned workers, struct ldr_error *err)
{
	char path[CLIENT_PATH_BYTES];
	struct ldr_stage stage = {
		.view = view, .workers = workers, .progress = &progress, .old = NULL};

	ldr_plan_free(plan);
	plan = NULL;
	ldr_batch_end(batch);
	batch = NULL;
	progress = (struct ldr_stage_progress){0};
	cr_assert_eq(
		ldr_batch_begin(client_path(&world, target, path), LDR_SYNC_NONE, &batch, NULL),
		LDR_OK);
	cr_assert_eq(ldr_plan_make(ldr_batch_target(batch), tree, NULL, NULL, &plan, NULL), LDR_OK);
	stage.batch = batch;
	stage.plan = plan;
	return ldr_stage_fill(&stage, err);
}

/* Every temporary is the file that it is to become, and its stamp was taken. */
static void check_temporaries(const char *target)
{
	for (uint32_t i = 0; i < plan->file_count; i++) {
		char path[LDR_PATH_MAX_BYTES + 1], command[2 * CLIENT_PATH_BYTES + 400];

		ldr_tree_path(tree, plan->files[i].node, path);
		snprintf(command, sizeof(command), "cmp '%s/one/%.100s' '%s/%s/.larder/tmp/%s'",
			 world.folder, path, world.folder, target, plan->files[i].temporary);
		cr_expect_eq(system(command), 0, "%s", path); /* style: a test's own folder */
		cr_expect_neq(plan->stamps[plan->files[i].node].inode, 0);
	}
}

static uint64_t traffic(void)
{
	uint64_t requests, bytes;

	ldr_view_traffic(view, &requests, &bytes);
	return bytes;
}

Test(stage, fills_with_any_number_of_workers)
{
	struct ldr_error err = {0};

	for (unsigned workers = 1; workers <= 4; workers++) {
		char target[32];

		snprintf(target, sizeof(target), "out%u", workers);
		cr_assert_eq(fill(target, workers, &err), LDR_OK, "%s", err.text);
		check_temporaries(target);
		cr_expect_eq(progress.bytes_total, 1070000);
		cr_expect_eq(progress.bytes_done, 1070000);
		cr_expect_eq(progress.bytes_reused, 0);
		cr_expect_eq(progress.files_done, 4);
		cr_expect_eq(err.status, LDR_OK);
	}
}

Test(stage, what_is_there_already_is_taken_and_what_is_wrong_in_it_is_not)
{
	char command[600];
	uint64_t before;

	cr_assert_eq(fill("out", 2, NULL), LDR_OK);
	before = traffic();
	cr_assert_eq(fill("out", 2, NULL), LDR_OK);
	cr_expect_eq(traffic(), before);
	cr_expect_eq(progress.bytes_reused, 1070000);
	check_temporaries("out");
	/* Cut, longer, changed at its end, and one that nobody knows. */
	snprintf(
		command, sizeof(command),
		"cd '%s/out/.larder/tmp' && n=0 && for f in *; do n=$((n+1)); case $n in "
		"1) truncate -s 1000 $f;; 2) echo longer >>$f;; 3) printf x | dd of=$f bs=1 "
		"seek=69999 conv=notrunc 2>/dev/null;; 4) rm $f;; esac; done; echo x >%s; echo x >short",
		world.folder, "0123456789abcdef0123456789abcdef");
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
	cr_assert_eq(fill("out", 2, NULL), LDR_OK);
	check_temporaries("out");
	cr_expect_eq(progress.bytes_done, 1070000);
	cr_expect_not(client_exists(&world, "out/.larder/tmp/short"));
	cr_expect_not(client_exists(&world, "out/.larder/tmp/0123456789abcdef0123456789abcdef"));
}

Test(stage, wrong_bytes_of_a_store_are_never_written)
{
	char path[LDR_STORE_PATH_BYTES], command[700];
	struct ldr_placed_block block;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_view_places(view, 0, 1, &block, NULL), LDR_OK);
	ldr_store_pack_path(&ldr_release_pack(ldr_view_release(view), block.place.pack)->id, path);
	snprintf(command, sizeof(command),
		 "printf wrong | dd of='%s/store/%s' bs=1 seek=%llu conv=notrunc 2>/dev/null",
		 world.folder, path, (unsigned long long)block.place.offset);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
	cr_expect_eq(fill("out", 2, &err), LDR_ECORRUPT, "%s", err.text);
	cr_expect(strlen(err.text) > 20, "%s", err.text);
	snprintf(command, sizeof(command), "! grep -rq wrong '%s/out/.larder/tmp'", world.folder);
	cr_expect_eq(system(command), 0); /* style: a test's own folder */
	cr_expect_eq(fill("out", 2, NULL), LDR_ECORRUPT);
}

Test(stage, a_failed_write_names_the_file)
{
	static const struct {
		enum ldr_seam_call call;
		int code;
		enum ldr_status status;
	} rows[] = {
		{LDR_SEAM_WRITE, ENOSPC, LDR_ENOSPACE},
		{LDR_SEAM_WRITE, EIO, LDR_EIO},
		{LDR_SEAM_OPEN, EACCES, LDR_EDENIED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_error err = {0};
		struct ldr_stage stage = {.view = view, .workers = 2, .progress = &progress};

		cr_assert_eq(fill("out", 1, NULL), LDR_OK);
		cr_assert_eq(ldr_batch_sweep(batch, NULL, NULL, NULL), LDR_OK);
		ldr_plan_free(plan);
		cr_assert_eq(ldr_plan_make(ldr_batch_target(batch), tree, NULL, NULL, &plan, NULL),
			     LDR_OK);
		stage.batch = batch;
		stage.plan = plan;
		progress = (struct ldr_stage_progress){0};
		ldr_seam_fail(rows[i].call, rows[i].call == LDR_SEAM_OPEN ? 3 : 1, 100000,
			      rows[i].code);
		cr_expect_eq(ldr_stage_fill(&stage, &err), rows[i].status, "row %zu: %s", i,
			     err.text);
		ldr_seam_reset();
		cr_expect(err.text[0], "row %zu", i);
	}
}
