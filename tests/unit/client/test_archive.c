/*
 * Local archives: packing a folder, exporting a release, and installing either; an output that may not be.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/archive.h"
#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "tests/support/client_world.h"

static struct client_world world;

static void setup(void)
{
	client_world_make(&world);
	client_noise(&world, "one/a", 300000, 1);
	client_noise(&world, "one/twin", 300000, 1);
	client_text(&world, "one/deep/b", "b");
	client_text(&world, "one/empty", "");
	client_link(&world, "one/link", "deep/b");
	client_publish(&world, "one", "live");
}

static void teardown(void)
{
	ldr_seam_reset();
	client_world_remove(&world);
}

TestSuite(archive, .init = setup, .fini = teardown);

static enum ldr_status pack(const char *tree, const char *out, struct ldr_archive_outcome *outcome,
			    struct ldr_error *err)
{
	const struct ldr_build_options build = {
		.size = sizeof(build), .codec = {.policy = LDR_POLICY_LZ4}, .workers = 2};
	char from[CLIENT_PATH_BYTES], to[CLIENT_PATH_BYTES];
	const struct ldr_archive_request request = {
		.size = sizeof(request),
		.folder = client_path(&world, tree, from),
		.out_path = client_path(&world, out, to),
		.build = &build,
	};

	return ldr_archive_folder(&request, outcome, err);
}

static enum ldr_status export(const char *source, const char *out,
			      struct ldr_archive_outcome *outcome, struct ldr_error *err) {
	LDR_AUTO_VIEW struct ldr_view *view = NULL; char to[CLIENT_PATH_BYTES];
	enum ldr_status status = client_open(&world, source, &view, err);

	return status ? status
		      : ldr_archive_export(view, client_path(&world, out, to), outcome, err);
}

/* Installs a pack, twice: the second time there is nothing to do. */
static void install(const char *name, const char *target, bool trusted)
{
	struct ldr_public_key *const keys[] = {world.public_key};
	const struct ldr_view_options options = {.keys = keys, .key_count = trusted};
	char path[CLIENT_PATH_BYTES], folder[CLIENT_PATH_BYTES];
	LDR_AUTO_LOCATION struct ldr_location location = {0};
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_install_outcome outcome;
	struct ldr_install_request request = {.size = sizeof(request), .sync = LDR_SYNC_NONE};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_location_parse_source(client_path(&world, name, path), &location, NULL),
		     LDR_OK);
	cr_assert_eq(ldr_view_open(&location, &options, &view, &err), LDR_OK, "%s", err.text);
	request.view = view;
	request.folder = client_path(&world, target, folder);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(ldr_install(&request, &outcome, &err), LDR_OK, "%s", err.text);
		cr_assert_eq(outcome.up_to_date, i == 1);
	}
	cr_assert(client_same(&world, "one", target));
}

Test(archive, a_folder_packed_and_installed_is_the_same)
{
	struct ldr_archive_outcome first, second;
	struct ldr_error err = {0};

	cr_assert_eq(pack("one", "one.pack", &first, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(first.totals.files, 4);
	cr_assert(first.blocks < first.totals.blocks); /* the twin costs nothing */
	cr_assert_eq(pack("one", "again.pack", &second, &err), LDR_OK);
	cr_assert(ldr_id_equal(&first.id, &second.id) && first.pack_bytes == second.pack_bytes);
	install("one.pack", "out", false);
	cr_assert_eq(err.status, LDR_OK);
}

Test(archive, an_export_holds_a_whole_release_and_its_record)
{
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {0};

	cr_assert_eq(export("live", "live.pack", &outcome, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(outcome.totals.files, 4);
	cr_assert(outcome.blocks && outcome.blocks < outcome.totals.blocks);
	install("live.pack", "out", true);
	/* A release without files too. */
	client_text(&world, "nothing/x", "");
	client_remove(&world, "nothing/x");
	client_publish(&world, "nothing", "none");
	cr_assert_eq(export("none", "none.pack", &outcome, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(outcome.blocks, 0);
	cr_assert_eq(err.status, LDR_OK);
}

Test(archive, outputs_that_may_not_be)
{
	static const struct {
		const char *out;
		enum ldr_status status;
	} rows[] = {
		{"one/inside.pack", LDR_EINVAL},   {"one/deep/inside.pack", LDR_EINVAL},
		{"alias/inside.pack", LDR_EINVAL}, {"missing/x.pack", LDR_ENOTFOUND},
		{"one/../beside.pack", LDR_OK},    {"one-more/x.pack", LDR_OK},
	};
	struct ldr_archive_outcome outcome;

	client_link(&world, "alias", "one/deep");
	client_text(&world, "one-more/y", "");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_error err = {0};

		cr_expect_eq(pack("one", rows[i].out, &outcome, &err), rows[i].status, "%s: %s",
			     rows[i].out, err.text);
		cr_expect_eq(client_exists(&world, rows[i].out), rows[i].status == LDR_OK);
		if (rows[i].status)
			cr_expect_eq(pack("one", rows[i].out, &outcome, NULL), rows[i].status);
	}
	cr_expect_eq(pack("nowhere", "x.pack", &outcome, NULL), LDR_ENOTFOUND);
	cr_expect_eq(pack("one/a", "x.pack", &outcome, NULL), LDR_ENOTDIR);
}

/* An older archive stays whole when a new one fails, and what a killed run left goes. */
Test(archive, a_failed_run_leaves_the_old_archive)
{
	struct ldr_archive_outcome first, failed;
	struct ldr_error err = {0};
	char from[CLIENT_PATH_BYTES], to[CLIENT_PATH_BYTES];

	client_text(&world, "out/half", "half a pack");
	cr_assert_eq(rename(client_path(&world, "out/half", from),
			    client_path(&world, "out/.larder-tmp.999999.1", to)),
		     0);
	cr_assert_eq(pack("one", "out/one.pack", &first, &err), LDR_OK, "%s", err.text);
	cr_assert_not(client_exists(&world, "out/.larder-tmp.999999.1"));
	client_noise(&world, "one/a", 300000, 9);
	for (unsigned number = 1; number <= 3; number++) {
		ldr_seam_fail(LDR_SEAM_WRITE, number, 1000, ENOSPC);
		cr_expect_eq(pack("one", "out/one.pack", &failed, &err), LDR_ENOSPACE);
		cr_expect_eq(export("live", "out/one.pack", &failed, &err), LDR_ENOSPACE);
		ldr_seam_reset();
	}
	client_noise(&world, "one/a", 300000, 1);
	install("out/one.pack", "installed", false);
}
