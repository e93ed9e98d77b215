/*
 * Publishing into a folder store: what a second release stores, lists and numbers; borrowing from another
 * channel; dry runs; races lost and won again; the same release whatever is killed before.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/publisher_seams.h"
#include "packs/layout.h"
#include "tests/support/client_world.h"

static struct client_world world;

static void setup(void)
{
	client_world_make(&world);
	client_noise(&world, "one/a", 300000, 1);
	client_noise(&world, "one/deep/b", 5000, 2);
	client_text(&world, "one/empty", "");
	client_noise(&world, "two/a", 300000, 1);
	client_noise(&world, "two/deep/b", 5000, 3);
	client_text(&world, "two/c", "new");
}

static void teardown(void)
{
	client_world_remove(&world);
}

TestSuite(publish, .init = setup, .fini = teardown);

static enum ldr_status publish(const char *tree, const char *channel,
			       void (*change)(struct ldr_publish_request *request),
			       struct ldr_publish_outcome *out, struct ldr_error *err)
{
	char path[CLIENT_PATH_BYTES];
	struct ldr_publish_request request = client_request(&world, client_path(&world, tree, path),
							    channel);

	if (change)
		change(&request);
	return ldr_publish_folder(&request, out, err);
}

static uint32_t highest_pack(const char *source, uint32_t *out_count)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	const struct ldr_release *release;

	cr_assert_eq(client_open(&world, source, &view, NULL), LDR_OK);
	release = ldr_view_release(view);
	*out_count = release->pack_count;
	return release->packs[release->pack_count - 1].number;
}

Test(publish, a_second_release_stores_only_what_is_new)
{
	struct ldr_publish_outcome first, second, same;
	struct ldr_error err = {0};

	cr_assert_eq(publish("one", "live", NULL, &first, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(first.sequence, 1);
	cr_assert_eq(first.previous_sequence, 0);
	cr_assert_eq(publish("two", "live", NULL, &second, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(second.sequence, 2);
	cr_assert_eq(second.previous_sequence, 1);
	cr_assert(second.stats.new_blocks >= 2 && second.pack_bytes < 20000,
		  "stored %llu bytes anew", (unsigned long long)second.pack_bytes);
	cr_assert_eq(publish("two", "live", NULL, &same, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(same.sequence, 3);
	cr_assert(same.pack_bytes < 2000);
	for (int i = 1; i <= 3; i++) {
		char source[32], target[32];

		snprintf(source, sizeof(source), "live@%d", i);
		snprintf(target, sizeof(target), "out%d", i);
		cr_assert_eq(client_fetch(&world, source, target, NULL, &err), LDR_OK, "%s",
			     err.text);
		cr_assert(client_same(&world, i == 1 ? "one" : "two", target));
	}
	cr_assert_eq(err.status, LDR_OK, "error object touched: %s", err.text);
}

Test(publish, an_empty_folder_is_a_release)
{
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};

	client_text(&world, "nothing/x", "x");
	client_remove(&world, "nothing/x");
	cr_assert_eq(publish("nothing", "live", NULL, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.totals.files, 0);
	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(publish("nothing", "live", NULL, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(client_fetch(&world, "live@2", "out", NULL, &err), LDR_OK, "%s", err.text);
	cr_assert(client_same(&world, "one", "out"));
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, &err), LDR_OK, "%s", err.text);
	cr_assert(client_same(&world, "nothing", "out"));
}

static void like_live(struct ldr_publish_request *request)
{
	request->like = "live";
}

static void like_beta(struct ldr_publish_request *request)
{
	request->like = "beta";
}

/* Numbers of packs are 24 bits wide: they may not double with every loan. */
Test(publish, channels_that_borrow_from_each_other_keep_small_numbers)
{
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};
	uint32_t count, highest;

	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(publish("one", "beta", like_live, &out, &err), LDR_OK, "%s", err.text);
	cr_assert(out.pack_bytes < 2000, "%llu bytes for a tree that live has",
		  (unsigned long long)out.pack_bytes);
	for (int i = 0; i < 15; i++) {
		cr_assert_eq(publish(i % 2 ? "one" : "two", "live", like_beta, &out, &err), LDR_OK,
			     "%s", err.text);
		cr_assert_eq(publish(i % 2 ? "two" : "one", "beta", like_live, &out, &err), LDR_OK,
			     "%s", err.text);
	}
	highest = highest_pack("beta", &count);
	cr_assert(highest < 200, "pack number %u", highest);
	cr_assert(count <= 6, "%u packs listed for two files", count);
	cr_assert_eq(client_fetch(&world, "beta", "out", NULL, &err), LDR_OK, "%s", err.text);
	cr_assert(client_same(&world, "one", "out"));
	cr_assert_eq(publish("one", "live", like_beta, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, &err), LDR_OK, "%s", err.text);
	cr_assert(client_same(&world, "one", "out"));
}

Test(publish, like_a_channel_that_is_not_there_names_it)
{
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};

	cr_assert_eq(publish("one", "live", like_beta, &out, &err), LDR_ENOTFOUND);
	cr_assert(strstr(err.text, "beta"), "%s", err.text);
	cr_assert_eq(publish("one", "live", like_beta, &out, NULL), LDR_ENOTFOUND);
}

static void dry(struct ldr_publish_request *request)
{
	request->dry_run = true;
}

Test(publish, a_dry_run_stores_nothing_and_makes_no_store)
{
	struct ldr_publish_outcome out, real;
	struct ldr_error err = {0};
	uint32_t count;

	cr_assert_eq(publish("one", "live", dry, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.sequence, 1);
	cr_assert_not(client_exists(&world, "store"));
	cr_assert_eq(publish("one", "live", NULL, &real, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.stats.new_blocks, real.stats.new_blocks);
	cr_assert_eq(publish("two", "live", dry, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.sequence, 2);
	cr_assert(out.stats.new_blocks >= 2);
	cr_assert_eq(highest_pack("live", &count), 1);
	cr_assert_not(client_exists(&world, "store/releases/live/2"));
}

/* Another publisher gets in between the reading of the channel and its moving. */
struct rival {
	bool busy;
	unsigned left;
};

static void rival_publishes(void *context, enum ldr_seam_step step, unsigned number)
{
	struct rival *rival = context;
	struct ldr_publish_outcome out;

	(void)number;
	if (step != LDR_STEP_CREATED || rival->busy || !rival->left)
		return;
	rival->busy = true;
	rival->left--;
	cr_assert_eq(publish("two", "live", NULL, &out, NULL), LDR_OK);
	rival->busy = false;
}

static void rebasing(struct ldr_publish_request *request)
{
	request->rebase = true;
}

Test(publish, a_lost_race_is_a_conflict_or_done_again)
{
	struct rival rival = {0};
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};

	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK);
	client_text(&world, "one/more", "more");
	rival.left = 1;
	ldr_seam_on_step(rival_publishes, &rival);
	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_ECONFLICT);
	cr_assert(strstr(err.text, "live"), "%s", err.text);
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, NULL), LDR_OK);
	cr_assert(client_same(&world, "two", "out"));
	rival.left = 1;
	cr_assert_eq(publish("one", "live", rebasing, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.attempts, 2);
	ldr_seam_reset();
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, NULL), LDR_OK);
	cr_assert(client_same(&world, "one", "out"));
}

/* A publication stopped at any step: the channel stays as it was, and the next run completes. */
struct stop {
	enum ldr_seam_step step;
	unsigned number;
};

static void stop_here(void *context, enum ldr_seam_step step, unsigned number)
{
	const struct stop *stop = context;

	/* As good as a kill for the disk: every later call of these kinds fails. */
	if (step == stop->step && number == stop->number)
		ldr_seam_fail(LDR_SEAM_RENAME, 1, 1000000, EIO);
}

Test(publish, a_publication_that_stops_anywhere_can_be_repeated)
{
	static const enum ldr_seam_step steps[] = {LDR_STEP_CREATED, LDR_STEP_SYNCED,
						   LDR_STEP_RENAMED};
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};
	unsigned stopped = 0;

	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned number = 1; number <= 5; number++) {
			struct stop stop = {steps[i], number};
			enum ldr_status status;

			client_noise(&world, "two/extra", 9000, 100 + i * 10 + number);
			ldr_seam_reset();
			ldr_seam_on_step(stop_here, &stop);
			status = publish("two", "live", NULL, &out, NULL);
			ldr_seam_reset();
			stopped += status != LDR_OK;
			cr_assert_eq(publish("two", "live", NULL, &out, &err), LDR_OK, "%s",
				     err.text);
			cr_assert_eq(client_fetch(&world, "live", "out", NULL, &err), LDR_OK, "%s",
				     err.text);
			cr_assert(client_same(&world, "two", "out"));
		}
	cr_assert(stopped >= 6, "only %u were stopped", stopped);
}

Test(publish, a_dead_publishers_record_blocks_nothing)
{
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};

	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK);
	client_text(&world, "store/releases/live/2", "left behind");
	client_text(&world, "store/releases/live/3", "this one too");
	cr_assert_eq(publish("two", "live", NULL, &out, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(out.sequence, 4);
	cr_assert_eq(out.previous_sequence, 1);
}

static void with_other_key(struct ldr_publish_request *request)
{
	static struct ldr_key *key;

	if (!key)
		cr_assert_eq(ldr_key_generate(&key, NULL), LDR_OK);
	request->key = key;
}

static void with_other_key_and_trust(struct ldr_publish_request *request)
{
	static struct ldr_public_key *keys[1];

	with_other_key(request);
	keys[0] = world.public_key;
	request->keys = keys;
	request->key_count = 1;
}

Test(publish, another_key_needs_to_trust_the_channels)
{
	struct ldr_publish_outcome out;
	struct ldr_error err = {0};

	cr_assert_eq(publish("one", "live", NULL, &out, &err), LDR_OK);
	cr_assert_eq(publish("two", "live", with_other_key, &out, &err), LDR_EUNTRUSTED);
	cr_assert_eq(publish("two", "live", with_other_key_and_trust, &out, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(out.sequence, 2);
}
