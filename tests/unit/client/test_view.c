/*
 * Opening releases and packs: keys, sequences, offline, caches that cannot be had, and every changed byte
 * of a store refused before anything is shown.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/archive.h"
#include "common/publisher_seams.h"
#include "packs/layout.h"
#include "tests/support/client_world.h"

static struct client_world world;
static struct ldr_public_key *other_key;

static void setup(void)
{
	struct ldr_key *other;

	client_world_make(&world);
	client_noise(&world, "one/a", 300000, 1);
	client_text(&world, "one/deep/b", "b of one");
	client_publish(&world, "one", "live");
	client_noise(&world, "two/a", 300000, 1);
	client_text(&world, "two/deep/b", "b of two");
	client_publish(&world, "two", "live");
	cr_assert_eq(ldr_key_generate(&other, NULL), LDR_OK);
	cr_assert_eq(ldr_key_public(other, &other_key, NULL), LDR_OK);
	ldr_key_free(other);
}

static void teardown(void)
{
	ldr_seam_reset();
	ldr_public_key_free(other_key);
	client_world_remove(&world);
}

TestSuite(view, .init = setup, .fini = teardown);

enum who { NOBODY, RIGHT, WRONG };

static enum ldr_status open_text(const char *text, enum who who, const char *cache, bool offline,
				 struct ldr_view **out, struct ldr_error *err)
{
	struct ldr_public_key *const keys[] = {who == RIGHT ? world.public_key : other_key};
	char path[CLIENT_PATH_BYTES];
	const struct ldr_view_options options = {
		.keys = keys,
		.key_count = who != NOBODY,
		.offline = offline,
		.cache_path = cache ? client_path(&world, cache, path) : NULL,
	};
	LDR_AUTO_LOCATION struct ldr_location location = {0};

	cr_assert_eq(ldr_location_parse_source(text, &location, NULL), LDR_OK);
	return ldr_view_open(&location, &options, out, err);
}

static enum ldr_status open_channel(const char *channel, enum who who, const char *cache,
				    bool offline, struct ldr_view **out, struct ldr_error *err)
{
	char text[CLIENT_PATH_BYTES + 80];

	snprintf(text, sizeof(text), "%s#%s", world.store_path, channel);
	return open_text(text, who, cache, offline, out, err);
}

static enum ldr_status append(void *context, const void *bytes, size_t length,
			      struct ldr_error *err)
{
	char *text = context;

	(void)err;
	strncat(text, bytes, length);
	return LDR_OK;
}

static enum ldr_status read_b(struct ldr_view *view, char text[64], struct ldr_error *err)
{
	const struct ldr_tree *tree;
	uint32_t node;
	enum ldr_status status = ldr_view_tree(view, &tree, err);

	text[0] = '\0';
	if (status)
		return status;
	cr_assert(ldr_tree_find(tree, "deep/b", 6, &node));
	return ldr_view_read_file(view, node, append, text, err);
}

/* In this order, with one cache: what the rows before leave in it matters. */
Test(view, keys_sequences_and_offline)
{
	static const struct {
		const char *channel;
		enum who who;
		bool offline;
		enum ldr_status status;
		const char *says; /* the message, or the bytes of deep/b */
	} rows[] = {
		{"live", NOBODY, false, LDR_EUSAGE, "--trust KEY.pub"},
		{"live", NOBODY, true, LDR_EUSAGE, "--trust KEY.pub"},
		{"live", WRONG, false, LDR_EUNTRUSTED, "#live"},
		{"live", NOBODY, false, LDR_EUSAGE,
		 "--trust KEY.pub"}, /* the wrong key left no pin */
		{"live", RIGHT, true, LDR_EOFFLINE, "no record of it is held"},
		{"none", RIGHT, false, LDR_ENOTFOUND, "channel \"none\""},
		{"live@9", RIGHT, false, LDR_ENOTFOUND, "such release of channel \"live\""},
		{"live@1", RIGHT, false, LDR_OK, "b of one"},
		{"live@1", NOBODY, false, LDR_EUSAGE,
		 "--trust"}, /* a named sequence pins nothing */
		{"live", RIGHT, false, LDR_OK, "b of two"},
		{"live", NOBODY, false, LDR_OK, "b of two"},
		{"live@1", NOBODY, false, LDR_OK, "b of one"},
		{"live", WRONG, false, LDR_EUNTRUSTED, "#live"},
		{"live", NOBODY, true, LDR_OK, "b of two"},
		{"live@2", NOBODY, true, LDR_OK, "b of two"},
		{"live@1", NOBODY, true, LDR_EOFFLINE, "sequence 2 is the one that is held"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		LDR_AUTO_VIEW struct ldr_view *view = NULL;
		struct ldr_error err = {0};
		char text[64];

		cr_expect_eq(open_channel(rows[i].channel, rows[i].who, "own", rows[i].offline,
					  &view, &err),
			     rows[i].status, "row %zu: %s", i, err.text);
		if (rows[i].status) {
			cr_expect(strstr(err.text, rows[i].says), "row %zu: %s", i, err.text);
			cr_expect_null(view);
			cr_expect_eq(open_channel(rows[i].channel, rows[i].who, "own",
						  rows[i].offline, &view, NULL),
				     rows[i].status);
			continue;
		}
		cr_assert(view, "row %zu", i);
		cr_expect_eq(read_b(view, text, &err), LDR_OK, "row %zu: %s", i, err.text);
		cr_expect_str_eq(text, rows[i].says);
		cr_expect_eq(err.status, LDR_OK, "row %zu touched: %s", i, err.text);
	}
}

Test(view, a_channel_that_went_back_is_refused)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_error err = {0};
	char text[4096];

	cr_assert_eq(open_channel("live", RIGHT, "own", false, &view, &err), LDR_OK);
	client_text(&world, "store/channels/live",
		    client_read(&world, "store/releases/live/1", text));
	ldr_view_close(view);
	view = NULL;
	cr_assert_eq(open_channel("live", RIGHT, "own", false, &view, &err), LDR_EUNTRUSTED);
	cr_assert(strstr(err.text, "sequence 1, seen before: 2"), "%s", err.text);
	/* Another channel's record, well signed, is not this channel's. */
	client_publish(&world, "one", "beta");
	client_text(&world, "store/channels/live",
		    client_read(&world, "store/channels/beta", text));
	cr_assert_eq(open_channel("live", RIGHT, "own", false, &view, &err), LDR_EUNTRUSTED);
	cr_assert(strstr(err.text, "beta"), "%s", err.text);
}

/* A cache folder is a help, not a condition. */
Test(view, a_cache_that_cannot_be_had_or_written_is_gone_without)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_error err = {0};
	char text[64];

	ldr_seam_fail(LDR_SEAM_MKDIR, 1, 100, EROFS);
	cr_assert_eq(open_channel("live", RIGHT, "nowhere/cache", false, &view, &err), LDR_OK, "%s",
		     err.text);
	cr_assert(strstr(ldr_view_trouble(view), "nowhere/cache"), "%s", ldr_view_trouble(view));
	cr_assert_eq(read_b(view, text, &err), LDR_OK, "%s", err.text);
	cr_assert_str_eq(text, "b of two");
	cr_assert_eq(err.status, LDR_OK);
	ldr_view_close(LDR_STEAL(view));
	/* Without a key there is nobody to say whom to trust, offline nothing to read. */
	cr_assert_eq(open_channel("live", NOBODY, "nowhere/cache", false, &view, &err),
		     LDR_EDENIED);
	cr_assert_eq(open_channel("live", RIGHT, "nowhere/cache", true, &view, &err), LDR_EDENIED);
	ldr_seam_reset();
	cr_assert_eq(open_channel("live", RIGHT, "own", false, &view, &err), LDR_OK);
	cr_assert_str_empty(ldr_view_trouble(view));
	ldr_view_close(LDR_STEAL(view));
	/* Full: the next record cannot be remembered. */
	client_publish(&world, "one", "live");
	err = (struct ldr_error){0};
	ldr_seam_fail(LDR_SEAM_WRITE, 1, 10000, ENOSPC);
	cr_assert_eq(open_channel("live", RIGHT, "own", false, &view, &err), LDR_OK, "%s",
		     err.text);
	cr_assert(strstr(ldr_view_trouble(view), "not remembered"), "%s", ldr_view_trouble(view));
	cr_assert_eq(read_b(view, text, &err), LDR_OK, "%s", err.text);
	cr_assert_str_eq(text, "b of one");
	cr_assert_eq(err.status, LDR_OK, "touched: %s", err.text);
}

static void flip(const char *name, size_t at)
{
	char path[CLIENT_PATH_BYTES];
	FILE *file = fopen(client_path(&world, name, path), "r+e");
	int byte;

	cr_assert(file && fseek(file, (long)at, SEEK_SET) == 0);
	byte = fgetc(file);
	cr_assert(fseek(file, (long)at, SEEK_SET) == 0 && fputc(byte ^ 0x10, file) != EOF);
	fclose(file);
}

Test(view, a_changed_byte_anywhere_is_refused_and_named)
{
	char name[CLIENT_PATH_BYTES], path[LDR_STORE_PATH_BYTES], text[64];
	const struct ldr_release *release;
	struct ldr_placed_block place;
	struct ldr_view *view;
	struct ldr_error err = {0};
	struct ldr_top top;
	const struct ldr_top *borrowed;
	size_t record_length, targets[3];

	cr_assert_eq(open_channel("live", RIGHT, NULL, false, &view, NULL), LDR_OK);
	release = ldr_view_release(view);
	ldr_view_record(view, &record_length);
	cr_assert_eq(ldr_view_top(view, &borrowed, NULL), LDR_OK);
	top = *borrowed;
	cr_assert_eq(ldr_view_places(view,
				     ldr_tree_totals(({
					     const struct ldr_tree *tree;
					     cr_assert_eq(ldr_view_tree(view, &tree, NULL), LDR_OK);
					     tree;
				     }))->blocks -
					     1,
				     1, &place, NULL),
		     LDR_OK);
	targets[0] = release->top.place.offset;
	targets[1] = top.tree[0].place.offset;
	targets[2] = place.place.offset;
	ldr_store_pack_path(&ldr_release_pack(release, place.place.pack)->id, path);
	cr_assert_eq(release->top.place.pack, place.place.pack);
	snprintf(name, sizeof(name), "store/%s", path);
	ldr_view_close(view);
	for (size_t i = 0; i < record_length; i += 29) {
		flip("store/channels/live", i);
		view = NULL;
		cr_expect_neq(open_channel("live", RIGHT, NULL, false, &view, &err), LDR_OK,
			      "byte %zu", i);
		cr_expect_eq(ldr_status_exit(err.status), 4, "byte %zu: %s", i, err.text);
		flip("store/channels/live", i);
	}
	for (size_t i = 0; i < 3; i++) {
		flip(name, targets[i]);
		view = NULL;
		cr_expect_eq(open_channel("live", RIGHT, NULL, false, &view, &err), LDR_OK);
		cr_expect_eq(read_b(view, text, &err), LDR_ECORRUPT, "target %zu: %s", i, err.text);
		cr_expect_eq(read_b(view, text, NULL), LDR_ECORRUPT, "again");
		flip(name, targets[i]);
		/* The same view tries anew and finds it whole. */
		cr_expect_eq(read_b(view, text, &err), LDR_OK, "target %zu: %s", i, err.text);
		cr_expect_str_eq(text, "b of two");
		ldr_view_close(view);
	}
}

/* ---- packs ---- */

Test(view, a_pack_is_taken_as_it_is_unless_a_key_is_given)
{
	static const struct {
		const char *pack;
		enum who who;
		enum ldr_status status;
	} rows[] = {
		{"export.pack", NOBODY, LDR_OK},        {"export.pack", RIGHT, LDR_OK},
		{"export.pack", WRONG, LDR_EUNTRUSTED}, {"plain.pack", NOBODY, LDR_OK},
		{"plain.pack", RIGHT, LDR_EUNTRUSTED},  {"missing.pack", NOBODY, LDR_ENOTFOUND},
	};
	char path[CLIENT_PATH_BYTES], from[CLIENT_PATH_BYTES], text[64];
	const struct ldr_build_options build = {.size = sizeof(build),
						.codec = {.policy = LDR_POLICY_LZ4}};
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {0};
	struct ldr_view *view = NULL;

	cr_assert_eq(open_channel("live", RIGHT, NULL, false, &view, NULL), LDR_OK);
	cr_assert_eq(
		ldr_archive_export(view, client_path(&world, "export.pack", path), &outcome, &err),
		LDR_OK, "%s", err.text);
	ldr_view_close(LDR_STEAL(view));
	cr_assert_eq(ldr_archive_folder(
			     &(struct ldr_archive_request){
				     .size = sizeof(struct ldr_archive_request),
				     .folder = client_path(&world, "two", from),
				     .out_path = client_path(&world, "plain.pack", path),
				     .build = &build,
			     },
			     &outcome, &err),
		     LDR_OK, "%s", err.text);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		err = (struct ldr_error){0};
		client_path(&world, rows[i].pack, path);
		cr_expect_eq(open_text(path, rows[i].who, NULL, false, &view, &err), rows[i].status,
			     "%s: %s", rows[i].pack, err.text);
		if (rows[i].status) {
			cr_expect(strstr(err.text, rows[i].pack), "%s", err.text);
			continue;
		}
		cr_expect(ldr_view_is_pack(view));
		cr_expect_eq(ldr_view_release(view) != NULL, rows[i].who == RIGHT);
		cr_expect_eq(read_b(view, text, &err), LDR_OK, "%s", err.text);
		cr_expect_str_eq(text, "b of two");
		ldr_view_close(LDR_STEAL(view));
	}
}
