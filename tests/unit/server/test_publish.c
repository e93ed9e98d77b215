/*
 * Publishing by hand-made requests: what is taken, what is refused and how, what a loser of a race gets,
 * what can be done again.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "tests/unit/server/publishing.h"

static void says(const struct publishing *p, int got, int wanted, const char *text)
{
	cr_expect_eq(got, wanted, "status %d, wanted %d: %s", got, wanted, p->text);
	cr_expect_not_null(strstr(p->text, text), "\"%s\" is not in: %s", text, p->text);
	cr_expect_null(strstr(p->text, p->store_path), "a path of the server: %s", p->text);
	cr_expect(strlen(p->text) > 0 && strchr(p->text, '\n') == p->text + strlen(p->text) - 1,
		  "one line: %s", p->text);
}

Test(publish, a_release_arrives_and_again_changes_nothing)
{
	struct publishing p;
	struct world_release first;
	struct world_release second;
	char etag[128];

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &first);
	says(&p, publishing_put_key(&p), 201, "stored");
	says(&p, publishing_put_packs(&p, &first), 201, "stored");
	says(&p, publishing_put_record(&p, &first), 201, "stored");
	cr_expect_eq(publishing_get(&p, "channels/live"), 404, "nothing is seen before the move");
	says(&p, publishing_put_channel(&p, &first, NULL), 201, "sequence 1");
	snprintf(etag, sizeof(etag), "%s", p.etag);
	cr_expect_eq(publishing_get(&p, "channels/live"), 200);
	cr_expect_str_eq(p.etag, etag);
	cr_expect_eq(strncmp(p.text, first.jws, 500), 0);

	says(&p, publishing_put_key(&p), 200, "already there");
	says(&p, publishing_put_packs(&p, &first), 200, "already there");
	says(&p, publishing_put_record(&p, &first), 200, "already there");
	says(&p, publishing_put_channel(&p, &first, NULL), 200, "already there");

	release_world_build(&p.world, 2, "live", 7, &first, &second);
	publishing_put_all(&p, &second);
	says(&p, publishing_put_channel(&p, &second, etag), 200, "sequence 7");
	says(&p, publishing_put_channel(&p, &second, etag), 200, "already there");
	cr_expect_eq(publishing_get(&p, "channels/live"), 200);
	cr_expect_eq(strncmp(p.text, second.jws, 500), 0);
	cr_expect_eq(publishing_get(&p, "releases/live/1"), 200, "the old one stays");
	world_release_dispose(&first);
	world_release_dispose(&second);
	publishing_end(&p);
}

Test(publish, only_a_token_that_may_publish_here_gets_in)
{
	struct publishing p;
	struct world_release release;
	struct ldr_transport *all;
	char token[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	struct ldr_token_grant grants[] = {
		{LDR_TOKEN_READ, "*", NULL},
		{LDR_TOKEN_PUBLISH, "beta*", NULL},
	};

	publishing_begin(&p, NULL, 0);
	all = p.transport;
	release_world_build(&p.world, 1, "live", 1, NULL, &release);
	p.transport = publishing_transport(NULL);
	says(&p, publishing_put_key(&p), 401, "token");
	ldr_transport_free(p.transport);
	p.transport = publishing_transport("lrd_wrong");
	says(&p, publishing_put_key(&p), 401, "not known");
	ldr_transport_free(p.transport);

	cr_assert_eq(ldr_tokens_add(p.tokens_path, &grants[0], ldr_clock_system(), token, id, NULL),
		     LDR_OK);
	p.transport = publishing_transport(token);
	says(&p, publishing_put_key(&p), 403, "read");
	ldr_transport_free(p.transport);

	cr_assert_eq(ldr_tokens_add(p.tokens_path, &grants[1], ldr_clock_system(), token, id, NULL),
		     LDR_OK);
	p.transport = publishing_transport(token);
	says(&p, publishing_put_key(&p), 201, "stored");
	says(&p, publishing_put_record(&p, &release), 403, "beta*");
	says(&p, publishing_put_channel(&p, &release, NULL), 403, "live");
	cr_assert_eq(ldr_tokens_revoke(p.tokens_path, id, NULL), LDR_OK);
	says(&p, publishing_put_key(&p), 401, "revoked");
	ldr_transport_free(p.transport);

	p.transport = all;
	says(&p, publishing_put_key(&p), 200, "already there");
	remove(p.tokens_path);
	says(&p, publishing_put_key(&p), 503, "tokens");
	cr_expect_eq(publishing_get(&p, "FORMAT"), 200, "reading goes on");
	world_release_dispose(&release);
	publishing_end(&p);
}

/* ---- packs ---- */

Test(publish, a_pack_is_checked_to_the_last_bit_before_it_is_seen)
{
	struct publishing p;
	struct world_release release;
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	char path[LDR_STORE_PATH_BYTES];
	char other[LDR_STORE_PATH_BYTES];
	size_t length = 0;

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &release);
	bytes = release_world_pack(&p.world, &release, 0, &length);
	ldr_store_pack_path(&release.release.packs[0].id, path);
	ldr_store_pack_path(&release.release.packs[1].id, other);
	for (size_t i = 0; i < 40; i++) {
		/* From the header over blocks and index to the trailer. */
		size_t at = i < 30 ? i * (length / 30) : length - 1 - (i - 30) * 40;

		bytes[at] ^= 1;
		cr_expect_eq(publishing_put(&p, path, bytes, length, NULL, NULL), 422,
			     "bit at %zu of %zu: %d %s", at, length, p.status, p.text);
		bytes[at] ^= 1;
	}
	cr_expect_eq(publishing_put(&p, path, bytes, length - 1, NULL, NULL), 422);
	cr_expect_eq(publishing_put(&p, path, bytes, 200, NULL, NULL), 422);
	cr_expect_eq(publishing_put(&p, path, "", 0, NULL, NULL), 400);
	cr_expect_eq(publishing_put(&p, other, bytes, length, NULL, NULL), 422, "another id");
	cr_expect_eq(publishing_get(&p, path), 404);
	cr_expect_eq(publishing_temporaries(&p), 0);
	cr_expect_eq(publishing_put(&p, path, bytes, length, NULL, NULL), 201, "%s", p.text);
	cr_expect_eq(publishing_put(&p, path, bytes, length - 1, NULL, NULL), 422,
		     "another length than the one that is there");
	world_release_dispose(&release);
	publishing_end(&p);
}

Test(publish, a_pack_that_was_damaged_on_the_disk_is_replaced)
{
	struct publishing p;
	struct world_release release;
	struct ldr_publish_options over = {.condition = LDR_IF_ANY};
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	char path[LDR_STORE_PATH_BYTES];
	size_t length = 0;

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &release);
	publishing_put_packs(&p, &release);
	bytes = release_world_pack(&p.world, &release, 0, &length);
	ldr_store_pack_path(&release.release.packs[0].id, path);
	cr_assert_eq(ldr_publish(p.store.root, path, bytes, length / 2, &over, NULL, NULL), LDR_OK);
	ldr_objects_forget(p.objects,
			   &(struct ldr_object_name){.kind = LDR_OBJECT_PACK,
						     .pack = release.release.packs[0].id});
	cr_expect_eq(publishing_get(&p, path), 500);
	cr_expect_eq(publishing_put(&p, path, bytes, length, NULL, NULL), 201, "%s", p.text);
	cr_expect_eq(publishing_get(&p, path), 200);
	world_release_dispose(&release);
	publishing_end(&p);
}

/* ---- keys and records ---- */

Test(publish, a_key_has_its_thumbprint_for_a_name)
{
	struct publishing p;
	struct ldr_key *other = NULL;
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public_key = NULL;
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char path[LDR_STORE_PATH_BYTES];

	publishing_begin(&p, NULL, 0);
	cr_assert_eq(ldr_key_generate(&other, NULL), LDR_OK);
	cr_assert_eq(ldr_key_public(other, &public_key, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_to_pem(public_key, pem, NULL), LDR_OK);
	ldr_store_key_path(ldr_public_key_kid(p.world.public_key), path);
	says(&p, publishing_put(&p, path, pem, strlen(pem), NULL, NULL), 422,
	     ldr_public_key_kid(public_key));
	says(&p, publishing_put(&p, path, "nonsense", 8, NULL, NULL), 422, path);
	cr_assert_eq(ldr_key_to_pem(other, pem, NULL), LDR_OK);
	says(&p, publishing_put(&p, path, pem, strlen(pem), NULL, NULL), 422, path);
	cr_expect_eq(publishing_get(&p, path), 404);
	ldr_key_free(other);
	publishing_end(&p);
}

Test(publish, a_record_is_refused_for_what_is_wrong_with_it)
{
	struct publishing p;
	struct world_release r;
	struct ldr_key *other = NULL;
	char hex[LDR_ID_HEX_CHARS + 1];

	publishing_begin(&p, NULL, 0);
	cr_assert_eq(ldr_key_generate(&other, NULL), LDR_OK);
	release_world_build(&p.world, 1, "live", 1, NULL, &r);
	says(&p, publishing_put_record(&p, &r), 422, "is not there");
	cr_assert_eq(publishing_put_key(&p), 201);
	ldr_id_to_hex(&r.release.packs[0].id, hex);
	says(&p, publishing_put_record(&p, &r), 422, hex);
	publishing_put_packs(&p, &r);

	r.release.packs[0].size_bytes++;
	release_world_sign(&p.world, &r, NULL);
	says(&p, publishing_put_record(&p, &r), 422, "the record says");
	r.release.packs[0].size_bytes--;

	r.release.store[0] ^= 1;
	release_world_sign(&p.world, &r, NULL);
	says(&p, publishing_put_record(&p, &r), 422, "made for store");
	r.release.store[0] ^= 1;

	release_world_sign(&p.world, &r, other);
	says(&p, publishing_put_record(&p, &r), 422, "is not there");

	release_world_sign(&p.world, &r, NULL);
	says(&p, publishing_put(&p, "releases/live/2", r.jws, r.length, NULL, "*"), 422,
	     "sequence 1");
	says(&p, publishing_put(&p, "releases/beta/1", r.jws, r.length, NULL, "*"), 422,
	     "channel live");
	says(&p, publishing_put(&p, "releases/live/1", "a.b.c", 5, NULL, "*"), 422, "releases");
	r.jws[r.length - 3] = r.jws[r.length - 3] == 'A' ? 'B' : 'A';
	says(&p, publishing_put_record(&p, &r), 422, "releases/live/1");
	says(&p, publishing_put(&p, "releases/live/1", r.jws, r.length, "\"x\"", NULL), 412,
	     "never changes");
	cr_expect_eq(publishing_get(&p, "releases/live/1"), 404);

	release_world_sign(&p.world, &r, NULL);
	says(&p, publishing_put_record(&p, &r), 201, "stored");
	snprintf(r.release.note, sizeof(r.release.note), "another");
	release_world_sign(&p.world, &r, NULL);
	says(&p, publishing_put_record(&p, &r), 412, "other bytes");
	ldr_key_free(other);
	world_release_dispose(&r);
	publishing_end(&p);
}

Test(publish, the_key_of_a_channel_stays)
{
	struct publishing p;
	struct world_release first;
	struct world_release second;
	struct ldr_key *other = NULL;
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public_key = NULL;
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char path[LDR_STORE_PATH_BYTES];

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &first);
	publishing_put_all(&p, &first);
	cr_assert_eq(publishing_put_channel(&p, &first, NULL), 201);
	cr_assert_eq(ldr_key_generate(&other, NULL), LDR_OK);
	cr_assert_eq(ldr_key_public(other, &public_key, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_to_pem(public_key, pem, NULL), LDR_OK);
	ldr_store_key_path(ldr_public_key_kid(public_key), path);
	cr_assert_eq(publishing_put(&p, path, pem, strlen(pem), NULL, NULL), 201);
	release_world_build(&p.world, 2, "live", 2, &first, &second);
	publishing_put_packs(&p, &second);
	release_world_sign(&p.world, &second, other);
	says(&p, publishing_put_record(&p, &second), 422, ldr_public_key_kid(p.world.public_key));

	/* A channel of its own is another matter. */
	world_release_dispose(&second);
	release_world_build(&p.world, 2, "beta", 1, NULL, &second);
	publishing_put_packs(&p, &second);
	release_world_sign(&p.world, &second, other);
	says(&p, publishing_put_record(&p, &second), 201, "stored");
	says(&p, publishing_put_channel(&p, &second, NULL), 201, "sequence 1");
	ldr_key_free(other);
	world_release_dispose(&first);
	world_release_dispose(&second);
	publishing_end(&p);
}

Test(publish, publish_keys_are_the_only_ones)
{
	struct publishing p;
	struct world_release r;
	struct ldr_key *operators = NULL;
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public_key = NULL;

	cr_assert_eq(ldr_key_generate(&operators, NULL), LDR_OK);
	cr_assert_eq(ldr_key_public(operators, &public_key, NULL), LDR_OK);
	publishing_begin(&p, &public_key, 1);
	release_world_build(&p.world, 1, "live", 1, NULL, &r);
	publishing_put_packs(&p, &r);
	cr_assert_eq(publishing_put_key(&p), 201);
	cr_expect_eq(publishing_put_record(&p, &r), 422, "%s", p.text);
	release_world_sign(&p.world, &r, operators);
	says(&p, publishing_put_record(&p, &r), 201, "stored");
	says(&p, publishing_put_channel(&p, &r, NULL), 201, "sequence 1");
	ldr_key_free(operators);
	world_release_dispose(&r);
	publishing_end(&p);
}

/* ---- channels ---- */

Test(publish, a_channel_moves_only_from_the_version_that_was_named)
{
	struct publishing p;
	struct world_release first;
	struct world_release second;
	struct world_release third;
	char etag[128];

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &first);
	says(&p, publishing_put(&p, "channels/live", first.jws, first.length, NULL, NULL), 428,
	     "required");
	says(&p, publishing_put(&p, "channels/live", first.jws, first.length, "\"a\"", "*"), 400,
	     "together");
	says(&p, publishing_put(&p, "channels/live", first.jws, first.length, NULL, "\"a\""), 400,
	     "can only be *");
	publishing_put_all(&p, &first);
	says(&p, publishing_put_channel(&p, &first, "\"a\""), 412, "not there");
	cr_assert_eq(publishing_put_channel(&p, &first, NULL), 201);
	snprintf(etag, sizeof(etag), "%s", p.etag);

	release_world_build(&p.world, 2, "live", 2, &first, &second);
	publishing_put_all(&p, &second);
	says(&p, publishing_put_channel(&p, &second, NULL), 412, etag);
	says(&p, publishing_put_channel(&p, &second, "\"a\""), 412, etag);
	cr_assert_eq(publishing_put_channel(&p, &second, etag), 200, "%s", p.text);

	/* The loser: made from the first release, while the second has won. */
	release_world_build(&p.world, 3, "live", 3, &first, &third);
	publishing_put_all(&p, &third);
	says(&p, publishing_put_channel(&p, &third, etag), 412, p.etag);
	snprintf(etag, sizeof(etag), "%s", p.etag);
	says(&p, publishing_put_channel(&p, &third, etag), 412, "follows 1");
	third.release.previous_sequence = 2;
	third.release.previous_digest = second.release.digest;
	third.release.sequence = 4;
	release_world_sign(&p.world, &third, NULL);
	cr_assert_eq(publishing_put_record(&p, &third), 201);
	says(&p, publishing_put_channel(&p, &third, etag), 200, "sequence 4");
	world_release_dispose(&first);
	world_release_dispose(&second);
	world_release_dispose(&third);
	publishing_end(&p);
}

Test(publish, a_channel_moves_only_to_a_release_that_is_there_and_whole)
{
	struct publishing p;
	struct world_release first;
	struct world_release second;
	char path[LDR_STORE_PATH_BYTES];
	char etag[128];

	publishing_begin(&p, NULL, 0);
	release_world_build(&p.world, 1, "live", 1, NULL, &first);
	cr_assert_eq(publishing_put_key(&p), 201);
	publishing_put_packs(&p, &first);
	says(&p, publishing_put_channel(&p, &first, NULL), 422, "releases/live/1");
	cr_assert_eq(publishing_put_record(&p, &first), 201);
	cr_assert_eq(publishing_put_channel(&p, &first, NULL), 201);
	snprintf(etag, sizeof(etag), "%s", p.etag);

	/* Right by itself, but a pack has gone since its record came. */
	release_world_build(&p.world, 2, "live", 2, &first, &second);
	publishing_put_all(&p, &second);
	ldr_store_pack_path(&second.release.packs[0].id, path);
	cr_assert_eq(ldr_root_remove(p.store.root, path, LDR_SYNC_NONE, NULL), LDR_OK);
	says(&p, publishing_put_channel(&p, &second, etag), 422, path);
	ldr_objects_forget(p.objects,
			   &(struct ldr_object_name){.kind = LDR_OBJECT_PACK,
						     .pack = second.release.packs[0].id});
	publishing_put_packs(&p, &second);

	/* A record whose parts disagree: the closure finds it. */
	second.release.totals.files++;
	second.release.sequence = 3;
	release_world_sign(&p.world, &second, NULL);
	cr_assert_eq(publishing_put_record(&p, &second), 201, "%s", p.text);
	says(&p, publishing_put_channel(&p, &second, etag), 422, "not whole");
	second.release.totals.files--;
	second.release.sequence = 4;
	second.release.previous_sequence = 3;
	release_world_sign(&p.world, &second, NULL);
	cr_assert_eq(publishing_put_record(&p, &second), 201);
	says(&p, publishing_put_channel(&p, &second, etag), 422, "previous");
	second.release.sequence = 5;
	second.release.previous_sequence = 1;
	release_world_sign(&p.world, &second, NULL);
	cr_assert_eq(publishing_put_record(&p, &second), 201);
	says(&p, publishing_put_channel(&p, &second, etag), 200, "sequence 5");
	cr_expect_eq(publishing_get(&p, "channels/live"), 200);
	cr_expect_eq(strncmp(p.text, second.jws, 500), 0);
	world_release_dispose(&first);
	world_release_dispose(&second);
	publishing_end(&p);
}

Test(publish, nothing_else_can_be_put)
{
	struct publishing p;

	publishing_begin(&p, NULL, 0);
	says(&p, publishing_put(&p, "FORMAT", "x", 1, NULL, NULL), 403, "FORMAT");
	says(&p, publishing_put(&p, "elsewhere", "x", 1, NULL, NULL), 404, "elsewhere");
	says(&p, publishing_put(&p, "channels/..%2fFORMAT", "x", 1, NULL, NULL), 404, "FORMAT");
	publishing_end(&p);
}
