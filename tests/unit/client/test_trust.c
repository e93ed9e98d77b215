/*
 * Pins and the highest record seen: what is remembered, what is refused, and what a damaged file says.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/trust.h"
#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "packs/layout.h"
#include "tests/support/client_world.h"

#define SEQUENCES 6

static struct client_world world;
static struct ldr_root *cache;
static struct ldr_public_key *other_key;
/* The channel's records 1 to 5, and another record under sequence 3. */
static struct ldr_release releases[SEQUENCES + 1];
static char *records[SEQUENCES + 1];
static size_t lengths[SEQUENCES + 1];

static void sign(size_t slot, uint64_t sequence, const char *note)
{
	struct ldr_release next = releases[0];
	struct ldr_error err = {0};

	ldr_release_dispose(&releases[slot]);
	free(records[slot]);
	next.sequence = sequence;
	next.previous_sequence = 0;
	snprintf(next.note, sizeof(next.note), "%s", note);
	cr_assert_eq(ldr_release_sign(&next, world.key, &records[slot], &lengths[slot], &err),
		     LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_release_verify(records[slot], lengths[slot], "made", &world.public_key, 1,
					&releases[slot], &err),
		     LDR_OK, "%s", err.text);
}

static void setup(void)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_key *other;
	const char *record;
	size_t length;

	client_world_make(&world);
	client_text(&world, "one/a", "a");
	client_publish(&world, "one", "live");
	cr_assert_eq(client_open(&world, "live", &view, NULL), LDR_OK);
	record = ldr_view_record(view, &length);
	cr_assert_eq(ldr_release_verify(record, length, "live", &world.public_key, 1, &releases[0],
					NULL),
		     LDR_OK);
	for (size_t i = 1; i <= 5; i++)
		sign(i, i, "");
	sign(6, 3, "another three");
	cr_assert_eq(ldr_root_open(client_path(&world, "trusting", (char[CLIENT_PATH_BYTES]){0}),
				   true, &cache, NULL),
		     LDR_OK);
	cr_assert_eq(ldr_key_generate(&other, NULL), LDR_OK);
	cr_assert_eq(ldr_key_public(other, &other_key, NULL), LDR_OK);
	ldr_key_free(other);
}

static void teardown(void)
{
	ldr_seam_reset();
	for (size_t i = 0; i <= SEQUENCES; i++) {
		ldr_release_dispose(&releases[i]);
		free(records[i]);
	}
	ldr_public_key_free(other_key);
	ldr_root_close(cache);
	client_world_remove(&world);
}

TestSuite(trust, .init = setup, .fini = teardown);

static enum ldr_status advance(size_t slot, struct ldr_error *err)
{
	return ldr_trust_advance(cache, &releases[slot], records[slot], lengths[slot], "store#live",
				 &world.public_key, 1, err);
}

static bool seen_is(size_t slot)
{
	LDR_AUTO_FREE uint8_t *seen = NULL;
	size_t length;

	return ldr_trust_seen(cache, releases[0].store, "live", &seen, &length, NULL) == LDR_OK &&
	       length == lengths[slot] && memcmp(seen, records[slot], length) == 0;
}

Test(trust, a_channel_never_goes_back)
{
	static const struct {
		size_t slot;
		enum ldr_status status;
		size_t seen;
		const char *says;
	} rows[] = {
		{2, LDR_OK, 2, ""},
		{2, LDR_OK, 2, ""},
		{1, LDR_EUNTRUSTED, 2, "sequence 1, seen before: 2"},
		{3, LDR_OK, 3, ""},
		{6, LDR_EUNTRUSTED, 3, "sequence 3 has other bytes"},
		{5, LDR_OK, 5, ""}, /* gaps are normal */
		{4, LDR_EUNTRUSTED, 5, "sequence 4, seen before: 5"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_error err = {0};

		cr_expect_eq(advance(rows[i].slot, &err), rows[i].status, "row %zu: %s", i,
			     err.text);
		cr_expect(strstr(err.text, rows[i].says), "%s", err.text);
		cr_expect(rows[i].status || err.status == LDR_OK, "touched: %s", err.text);
		cr_expect_eq(advance(rows[i].slot, NULL), rows[i].status);
		cr_expect(seen_is(rows[i].seen), "row %zu", i);
	}
}

Test(trust, a_damaged_record_of_what_was_seen_is_replaced)
{
	char hex[LDR_STORE_ID_CHARS + 1], name[CLIENT_PATH_BYTES];
	struct ldr_error err = {0};

	cr_assert_eq(advance(5, &err), LDR_OK);
	ldr_store_id_to_hex(releases[0].store, hex);
	snprintf(name, sizeof(name), "trusting/seen/%s/live", hex);
	client_text(&world, name, "no record");
	cr_assert_eq(advance(2, &err), LDR_OK, "%s", err.text);
	cr_assert(seen_is(2));
	cr_assert_eq(err.status, LDR_OK);
}

/* Another process remembers record 5 between our look and our writing. */
static void rival_remembers(void *context, enum ldr_seam_step step, unsigned number)
{
	bool *done = context;

	(void)number;
	if (step != LDR_STEP_CREATED || *done)
		return;
	*done = true;
	cr_assert_eq(ldr_trust_advance(cache, &releases[5], records[5], lengths[5], "rival",
				       &world.public_key, 1, NULL),
		     LDR_OK);
}

/* The rival needs the folder's lock, which we hold when a record is there: the first one is missing. */
Test(trust, of_two_at_once_the_newer_record_stays)
{
	struct ldr_error err = {0};
	bool done = false;

	ldr_seam_on_step(rival_remembers, &done);
	cr_assert_eq(advance(3, &err), LDR_EUNTRUSTED, "%s", err.text);
	cr_assert(done);
	cr_assert(seen_is(5));
	ldr_seam_reset();
	/* A lock that is held for a moment is waited for. */
	cr_assert_eq(advance(5, NULL), LDR_OK);
	ldr_seam_fail(LDR_SEAM_LOCK, 1, 2, EAGAIN);
	sign(1, 9, "later");
	cr_assert_eq(advance(1, &err), LDR_OK, "%s", err.text);
	cr_assert(seen_is(1));
}

Test(trust, pins)
{
	struct ldr_pin pin = {0};
	struct ldr_error err = {0};
	uint8_t store[LDR_STORE_ID_BYTES];

	memset(store, 0xab, sizeof(store));
	cr_assert_eq(ldr_trust_find_pin(cache, "http://a", &pin, NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_trust_pin(cache, "http://a", world.public_key, store, &err), LDR_OK);
	cr_assert_eq(ldr_trust_find_pin(cache, "http://b", &pin, NULL), LDR_ENOTFOUND);
	cr_assert_eq(ldr_trust_find_pin(cache, "http://a", &pin, &err), LDR_OK);
	cr_assert_eq(memcmp(pin.store, store, sizeof(store)), 0);
	cr_assert_str_eq(ldr_public_key_kid(pin.key), ldr_public_key_kid(world.public_key));
	ldr_public_key_free(pin.key);
	/* Another key for the same place replaces it. */
	cr_assert_eq(ldr_trust_pin(cache, "http://a", other_key, store, &err), LDR_OK);
	cr_assert_eq(ldr_trust_find_pin(cache, "http://a", &pin, &err), LDR_OK);
	cr_assert_str_eq(ldr_public_key_kid(pin.key), ldr_public_key_kid(other_key));
	ldr_public_key_free(pin.key);
	cr_assert_eq(err.status, LDR_OK);
}

Test(trust, a_damaged_pin_is_never_used_and_named)
{
	static const char *const texts[] = {
		"",
		"{}",
		"[1]",
		"{\"location\":\"http://other\",\"store\":\"%s\",\"key\":\"x\"}",
		"{\"location\":\"http://a\",\"store\":\"abc\",\"key\":\"x\"}",
		("{\"location\":\"http://a\",\"store\":\"00112233445566778899aabbccddeeff\",\"key\":"
		 "\"x\"}"),
	};
	char command[600], listed[CLIENT_PATH_BYTES] = "", name[2 * CLIENT_PATH_BYTES];
	uint8_t store[LDR_STORE_ID_BYTES] = {0};
	FILE *pipe;

	cr_assert_eq(ldr_trust_pin(cache, "http://a", world.public_key, store, NULL), LDR_OK);
	snprintf(command, sizeof(command), "ls '%s/trusting/trust'", world.folder);
	pipe = popen(command, "re");
	cr_assert(pipe && fgets(listed, sizeof(listed), pipe));
	pclose(pipe);
	listed[strcspn(listed, "\n")] = '\0';
	snprintf(name, sizeof(name), "trusting/trust/%s", listed);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct ldr_pin pin = {0};
		struct ldr_error err = {0};

		client_text(&world, name, texts[i]);
		cr_expect_neq(ldr_trust_find_pin(cache, "http://a", &pin, &err), LDR_OK);
		cr_expect_null(pin.key);
		cr_expect(strstr(err.text, listed) && strstr(err.text, "--trust"), "%s", err.text);
	}
}

/* A process that dies while it remembers a record or a pin leaves a temporary there; whoever opens a view next removes it. */
Test(trust, what_the_dead_left_is_swept)
{
	LDR_AUTO_VIEW struct ldr_view *first = NULL;
	LDR_AUTO_VIEW struct ldr_view *second = NULL;
	char hex[LDR_STORE_ID_CHARS + 1], seen[256];
	const char *const names[] = {"cache/trust/.larder-tmp.1.1", seen};

	cr_assert_eq(client_open(&world, "live", &first, NULL), LDR_OK);
	ldr_store_id_to_hex(releases[0].store, hex);
	snprintf(seen, sizeof(seen), "cache/seen/%s/.larder-tmp.1.2", hex);
	for (size_t i = 0; i < 2; i++) {
		FILE *file = fopen(client_path(&world, names[i], (char[CLIENT_PATH_BYTES]){0}),
				   "w");

		cr_assert(file && fputs("half", file) >= 0 && fclose(file) == 0);
	}
	cr_assert_eq(client_open(&world, "live", &second, NULL), LDR_OK);
	for (size_t i = 0; i < 2; i++)
		cr_expect_not(client_exists(&world, names[i]), "%s is left", names[i]);
}
