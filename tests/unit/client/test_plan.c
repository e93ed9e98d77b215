/*
 * What an update has to do: disk, old record and wanted tree compared; and which blocks are wanted, each
 * once, with every place where it goes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/plan.h"
#include "common/bytes.h"
#include "tests/support/client_world.h"

static struct client_world world;
static struct ldr_root *target;
static struct ldr_view *views[2]; /* of "old" and "wanted" */
static const struct ldr_tree *trees[2];
static struct ldr_installation record;

static void open_tree(unsigned i, const char *tree)
{
	client_publish(&world, tree, tree);
	cr_assert_eq(client_open(&world, tree, &views[i], NULL), LDR_OK);
	cr_assert_eq(ldr_view_tree(views[i], &trees[i], NULL), LDR_OK);
}

static void setup(void)
{
	char path[CLIENT_PATH_BYTES];

	client_world_make(&world);
	client_noise(&world, "old/big", 400000, 1);
	client_text(&world, "old/same", "same");
	client_text(&world, "old/text", "one");
	client_text(&world, "old/gone/file", "gone");
	client_link(&world, "old/link", "same");
	open_tree(0, "old");
	client_noise(&world, "wanted/moved/big", 400000, 1);
	client_noise(&world, "wanted/moved/twin", 400000, 1);
	client_text(&world, "wanted/same", "same");
	client_text(&world, "wanted/text", "two");
	client_text(&world, "wanted/empty", "");
	client_link(&world, "wanted/link", "text");
	open_tree(1, "wanted");
	cr_assert_eq(client_fetch(&world, "old", "out", NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_root_open(client_path(&world, "out", path), false, &target, NULL), LDR_OK);
	cr_assert_eq(ldr_installation_read(target, LDR_INSTALLED_PATH, &record, NULL), LDR_OK);
}

static void teardown(void)
{
	ldr_installation_dispose(&record);
	ldr_root_close(target);
	for (int i = 0; i < 2; i++)
		ldr_view_close(views[i]);
	client_world_remove(&world);
}

TestSuite(plan, .init = setup, .fini = teardown);

static bool has_step(const struct ldr_plan *plan, enum ldr_batch_kind kind, const char *path)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind == kind && strcmp(plan->steps[i].path, path) == 0)
			return true;
	return false;
}

/* One thing is changed in the folder; the plan for the release that is installed has exactly one step. */
Test(plan, one_change_is_one_step)
{
	static const struct {
		const char *command; /* in the folder */
		enum ldr_batch_kind kind;
		const char *path;
		bool with_record; /* else the folder is adopted */
	} rows[] = {
		{"printf ONE >text", LDR_BATCH_FILE, "text", true},
		{"printf ONE >text", LDR_BATCH_FILE, "text", false},
		{"printf oneone >text", LDR_BATCH_FILE, "text", true},
		{"rm text", LDR_BATCH_FILE, "text", true},
		{"rm text; mkdir text", LDR_BATCH_FILE, "text", true},
		{"rm text; ln -s same text", LDR_BATCH_FILE, "text", true},
		{"rm text; mkfifo text", LDR_BATCH_FILE, "text", true},
		{"chmod 600 text", LDR_BATCH_MODE, "text", true},
		{"chmod 700 gone", LDR_BATCH_MODE, "gone", true},
		{"rm link", LDR_BATCH_SYMLINK, "link", true},
		{"rm link; ln -s text link", LDR_BATCH_SYMLINK, "link", false},
		{"rm link; ln -s samesame link", LDR_BATCH_SYMLINK, "link", true},
		{"rm link; cp same link", LDR_BATCH_SYMLINK, "link", true},
		{"printf x | dd of=big bs=1 seek=399999 conv=notrunc 2>/dev/null", LDR_BATCH_FILE,
		 "big", true},
		{"printf x | dd of=big bs=1 seek=399999 conv=notrunc 2>/dev/null", LDR_BATCH_FILE,
		 "big", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_plan *plan;
		struct ldr_error err = {0};
		char command[700];

		snprintf(command, sizeof(command), "cd '%s/out' && { %s; }", world.folder,
			 rows[i].command);
		cr_assert_eq(system(command), 0); /* style: a test's own folder */
		cr_assert_eq(ldr_plan_make(target, trees[0], rows[i].with_record ? &record : NULL,
					   NULL, &plan, &err),
			     LDR_OK, "%s", err.text);
		cr_expect_eq(plan->step_count, 1, "%s: %zu steps", rows[i].command,
			     plan->step_count);
		cr_expect(has_step(plan, rows[i].kind, rows[i].path), "%s", rows[i].command);
		cr_expect_eq(err.status, LDR_OK);
		ldr_plan_free(plan);
		/* Back to what was installed, stamps of the record included. */
		snprintf(command, sizeof(command), "rm -rf '%s/out'", world.folder);
		cr_assert_eq(system(command), 0); /* style: a test's own folder */
		teardown();
		setup();
	}
}

/* The same bytes under a new date are kept; the same date over other bytes is told by its inode. */
Test(plan, stamps)
{
	struct ldr_plan *plan;
	char command[600];

	snprintf(command, sizeof(command),
		 "cd '%s/out' && touch big same && cp -p text copy && printf two >copy && "
		 "touch -r text copy && mv copy text",
		 world.folder);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
	cr_assert_eq(ldr_plan_make(target, trees[0], &record, NULL, &plan, NULL), LDR_OK);
	cr_expect_eq(plan->step_count, 1);
	cr_expect(has_step(plan, LDR_BATCH_FILE, "text"));
	ldr_plan_free(plan);
}

Test(plan, an_update)
{
	struct ldr_plan *plan;
	struct ldr_error err = {0};
	uint64_t places = 0, local = 0, big_blocks;
	struct ldr_tree_node node;
	uint32_t found;

	cr_assert_eq(ldr_plan_make(target, trees[1], &record, NULL, &plan, &err), LDR_OK, "%s",
		     err.text);
	cr_expect(has_step(plan, LDR_BATCH_REMOVE, "big"));
	cr_expect(has_step(plan, LDR_BATCH_REMOVE, "gone/file"));
	cr_expect(has_step(plan, LDR_BATCH_UNMAKE, "gone"));
	cr_expect(has_step(plan, LDR_BATCH_FOLDER, "moved"));
	cr_expect(has_step(plan, LDR_BATCH_FILE, "moved/big"));
	cr_expect(has_step(plan, LDR_BATCH_FILE, "moved/twin"));
	cr_expect(has_step(plan, LDR_BATCH_FILE, "text"));
	cr_expect(has_step(plan, LDR_BATCH_FILE, "empty"));
	cr_expect(has_step(plan, LDR_BATCH_SYMLINK, "link"));
	cr_expect_eq(plan->step_count, 9);
	cr_expect_eq(plan->removal_steps, 3);
	cr_expect_eq(plan->removals, 2);
	cr_expect_eq(plan->file_count, 4);
	cr_expect_eq(plan->bytes_to_write, 800003);

	/* Each block once, in rising order, with all of its places; those of "big" lie in the old file. */
	cr_assert(ldr_tree_find(trees[1], "moved/big", 9, &found));
	ldr_tree_node(trees[1], found, &node);
	big_blocks = node.block_count;
	cr_expect_eq(plan->wanted_count, big_blocks + 1);
	for (uint64_t i = 0; i < plan->wanted_count; i++) {
		uint32_t at = plan->wanted[i].destinations;

		cr_expect(i == 0 || plan->wanted[i].ordinal > plan->wanted[i - 1].ordinal);
		local += plan->wanted[i].local_node != LDR_PLAN_NONE;
		for (; at != LDR_PLAN_NONE; at = plan->destinations[at].next, places++)
			cr_expect_eq(plan->destinations[at].wanted, i);
	}
	cr_expect_eq(local, big_blocks);
	cr_expect_eq(places, 2 * big_blocks + 1);
	cr_expect_eq(places, plan->destination_count);
	/* Temporaries are told apart by path, and are the same the next time. */
	for (uint32_t i = 1; i < plan->file_count; i++)
		cr_expect_str_neq(plan->files[i].temporary, plan->files[i - 1].temporary);
	ldr_plan_free(plan);
}

/* What an update that was cut off may have brought goes too. */
Test(plan, of_a_cut_off_update)
{
	LDR_AUTO_INSTALLATION struct ldr_installation cut = {0};
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0};
	const uint8_t *tree_bytes;
	size_t length;
	struct ldr_plan *plan;
	uint8_t *copy;

	cr_assert_eq(ldr_view_tree_bytes(views[1], &tree_bytes, &length, NULL), LDR_OK);
	cr_assert_eq(ldr_installation_write(NULL, 0, tree_bytes, length, NULL,
					    ldr_tree_node_count(trees[1]), &bytes, NULL),
		     LDR_OK);
	length = bytes.length;
	copy = ldr_buffer_take(&bytes);
	cr_assert_eq(ldr_installation_parse(copy, length, &cut, NULL), LDR_OK);
	cr_assert_eq(ldr_plan_make(target, trees[0], &record, &cut, &plan, NULL), LDR_OK);
	cr_expect_eq(plan->removal_steps, 4);
	cr_expect(has_step(plan, LDR_BATCH_REMOVE, "moved/big"));
	cr_expect(has_step(plan, LDR_BATCH_REMOVE, "moved/twin"));
	cr_expect(has_step(plan, LDR_BATCH_REMOVE, "empty"));
	cr_expect(has_step(plan, LDR_BATCH_UNMAKE, "moved"));
	cr_expect_eq(plan->step_count, 4);
	ldr_plan_free(plan);
	ldr_plan_free(NULL);
}
