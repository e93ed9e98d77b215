/*
 * A folder as a store to publish into: what it makes of a folder that is there, immutable objects, the
 * compare-and-swap of a channel, and what killed publishers leave.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/store.h"
#include "common/publisher_seams.h"
#include "packs/layout.h"
#include "tests/support/client_world.h"

static struct client_world world;

static void setup(void)
{
	client_world_make(&world);
	client_noise(&world, "one/a", 50000, 1);
	client_noise(&world, "two/a", 50000, 2);
}

static void teardown(void)
{
	ldr_seam_reset();
	client_world_remove(&world);
}

TestSuite(store_folder, .init = setup, .fini = teardown);

static enum ldr_status open_store(struct ldr_store **out, struct ldr_error *err)
{
	const struct ldr_store_options options = {0};

	return ldr_store_open(&world.store, &options, out, err);
}

/* A file under a name that the publisher keeps for itself. */
static void leave_behind(const char *name)
{
	char from[CLIENT_PATH_BYTES], to[CLIENT_PATH_BYTES];

	client_text(&world, "half", "half of it");
	cr_assert_eq(rename(client_path(&world, "half", from), client_path(&world, name, to)), 0);
}

Test(store_folder, a_folder_with_something_else_in_it_is_no_store)
{
	LDR_AUTO_STORE struct ldr_store *store = NULL;
	struct ldr_error err = {0};
	char text[4096];

	client_text(&world, "store/holiday.jpg", "not ours");
	cr_assert_eq(open_store(&store, &err), LDR_EUNSUPPORTED);
	cr_assert(strstr(err.text, "holiday.jpg") && strstr(err.text, world.store_path), "%s",
		  err.text);
	cr_assert_eq(open_store(&store, NULL), LDR_EUNSUPPORTED);
	cr_assert_not(client_exists(&world, "store/FORMAT"));
	cr_assert_not(client_exists(&world, "store/packs"));
	client_remove(&world, "store/holiday.jpg");
	client_text(&world, "store/FORMAT", "something-else 3\n");
	cr_assert_eq(open_store(&store, &err), LDR_EUNSUPPORTED);
	cr_assert_str_eq(client_read(&world, "store/FORMAT", text), "something-else 3\n");
}

Test(store_folder, an_empty_folder_becomes_one_and_stays_the_same)
{
	struct ldr_store *store;
	uint8_t id[LDR_STORE_ID_BYTES];
	struct ldr_error err = {0};

	/* The leavings of a first publication that was killed, and of a file system's maker. */
	client_text(&world, "store/lost+found/x", "x");
	leave_behind("store/.larder-tmp.999999.1");
	cr_assert_eq(open_store(&store, &err), LDR_OK, "%s", err.text);
	memcpy(id, ldr_store_id(store), sizeof(id));
	ldr_store_close(store);
	client_text(&world, "store/index.html", "may lie beside it now");
	cr_assert_eq(open_store(&store, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(memcmp(id, ldr_store_id(store), sizeof(id)), 0);
	ldr_store_close(store);
	cr_assert_eq(err.status, LDR_OK);
}

Test(store_folder, immutable_objects)
{
	LDR_AUTO_STORE struct ldr_store *store = NULL;
	struct ldr_error err = {0};
	uint8_t *data;
	size_t length;

	cr_assert_eq(open_store(&store, &err), LDR_OK);
	cr_assert_eq(ldr_store_get(store, "releases/live/1", 100, &data, &length, NULL),
		     LDR_ENOTFOUND);
	cr_assert_eq(ldr_store_put(store, "releases/live/1", "abc", 3, &err), LDR_OK);
	cr_assert_eq(ldr_store_put(store, "releases/live/1", "abc", 3, &err), LDR_OK);
	cr_assert_eq(err.status, LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_store_put(store, "releases/live/1", "abd", 3, &err), LDR_ECONFLICT);
	cr_assert(strstr(err.text, "releases/live/1"), "%s", err.text);
	cr_assert_eq(ldr_store_put(store, "releases/live/1", "abcd", 4, NULL), LDR_ECONFLICT);
	cr_assert_eq(ldr_store_get(store, "releases/live/1", 2, &data, &length, NULL), LDR_ELIMIT);
	cr_assert_eq(ldr_store_get(store, "releases/live/1", 3, &data, &length, NULL), LDR_OK);
	cr_assert(length == 3 && memcmp(data, "abc", 4) == 0);
	free(data);
}

/* A release that is whole, so that moving a channel to it passes the closure check. */
static void load(const char *channel, struct ldr_view **view)
{
	cr_assert_eq(client_open(&world, channel, view, NULL), LDR_OK);
}

Test(store_folder, a_channel_moves_only_from_what_was_expected)
{
	LDR_AUTO_STORE struct ldr_store *store = NULL;
	LDR_AUTO_VIEW struct ldr_view *first = NULL;
	LDR_AUTO_VIEW struct ldr_view *second = NULL;
	const char *old, *next;
	size_t old_length, next_length;
	struct ldr_error err = {0};

	client_publish(&world, "one", "live");
	client_publish(&world, "two", "live");
	load("live@1", &first);
	load("live@2", &second);
	old = ldr_view_record(first, &old_length);
	next = ldr_view_record(second, &next_length);
	cr_assert_eq(open_store(&store, NULL), LDR_OK);
#define MOVE(from, from_length, error)                                                       \
	ldr_store_move_channel(                                                              \
		store, "live", (from) ? &(struct ldr_store_bytes){from, from_length} : NULL, \
		&(struct ldr_store_bytes){next, next_length}, ldr_view_release(second), error)
	cr_expect_eq(MOVE(old, old_length, &err), LDR_ECONFLICT); /* it is at 2 already */
	cr_expect(strstr(err.text, "channels/live"), "%s", err.text);
	cr_expect_eq(MOVE((const char *)NULL, 0, &err), LDR_ECONFLICT);
	cr_expect_eq(MOVE(next, next_length - 1, NULL), LDR_ECONFLICT);
	err = (struct ldr_error){0};
	cr_expect_eq(MOVE(next, next_length, &err), LDR_OK);
	/* Somebody else holds the folder's lock for a moment, say to move another channel. */
	ldr_seam_fail(LDR_SEAM_LOCK, 1, 3, EAGAIN);
	cr_expect_eq(MOVE(next, next_length, &err), LDR_OK, "%s", err.text);
	ldr_seam_reset();
	cr_expect_eq(err.status, LDR_OK, "error object touched: %s", err.text);
	client_remove(&world, "store/channels/live");
	cr_expect_eq(MOVE(next, next_length, &err), LDR_ECONFLICT, "%s", err.text);
	cr_expect_eq(MOVE((const char *)NULL, 0, &err), LDR_OK);
#undef MOVE
}

Test(store_folder, a_release_that_is_not_whole_moves_nothing)
{
	LDR_AUTO_STORE struct ldr_store *store = NULL;
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	char path[LDR_STORE_PATH_BYTES], name[CLIENT_PATH_BYTES];
	const char *record;
	size_t length;
	struct ldr_error err = {0};

	client_publish(&world, "one", "live");
	load("live", &view);
	record = ldr_view_record(view, &length);
	ldr_store_pack_path(&ldr_view_release(view)->packs[0].id, path);
	snprintf(name, sizeof(name), "store/%s", path);
	client_remove(&world, name);
	cr_assert_eq(open_store(&store, NULL), LDR_OK);
	cr_assert_neq(ldr_store_move_channel(store, "beta", NULL,
					     &(struct ldr_store_bytes){record, length},
					     ldr_view_release(view), &err),
		      LDR_OK);
	cr_assert(strstr(err.text, "channel beta stays"), "%s", err.text);
	cr_assert_not(client_exists(&world, "store/channels/beta"));
}

Test(store_folder, leavings_of_killed_publishers_go)
{
	static const char *const names[] = {
		"store/packs/.larder-tmp.999999.1",
		"store/channels/.larder-tmp.999999.2",
		"store/releases/live/.larder-tmp.999999.3",
	};

	client_publish(&world, "one", "live");
	for (int i = 0; i < 3; i++)
		leave_behind(names[i]);
	client_publish(&world, "two", "live");
	for (int i = 0; i < 3; i++)
		cr_expect_not(client_exists(&world, names[i]), "%s", names[i]);
}
