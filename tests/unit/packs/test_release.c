/*
 * Releases: signed and read back; every field missing, of a wrong kind and out of its range; every way
 * in which a record can be cut, bent or signed by somebody else.
 */
#include "packs/release.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/json.h"
#include "packs/pack.h"
#include "packs/release_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The key of RFC 6979 appendix A.2.5 and the one of RFC 7515 appendix A.3. */
static const char key_pem[] =
	"-----BEGIN EC PRIVATE KEY-----\n"
	"MDECAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49AwEH\n"
	"-----END EC PRIVATE KEY-----\n";
static const char other_pem[] =
	"-----BEGIN EC PRIVATE KEY-----\n"
	"MDECAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49AwEH\n"
	"-----END EC PRIVATE KEY-----\n";

static struct ldr_key *parse_key(const char *pem)
{
	struct ldr_key *key = NULL;

	cr_assert_eq(ldr_key_parse(pem, strlen(pem), "test", &key, NULL), LDR_OK);
	return key;
}

static struct ldr_public_key *public_of(const char *pem)
{
	LDR_AUTO_KEY struct ldr_key *key = parse_key(pem);
	struct ldr_public_key *public = NULL;

	cr_assert_eq(ldr_key_public(key, &public, NULL), LDR_OK);
	return public;
}

/* A release with every field set; dispose. */
static struct ldr_release make_release(void)
{
	struct ldr_release release = {
		.channel = "live",
		.sequence = 7,
		.created_s = 1700000000,
		.expires_s = 1800000000,
		.totals = {3, 2, 1, 500000, 4},
		.tree_bytes = 400,
		.map_bytes = 56,
		.top = {.block = {.plain_bytes = 124}, .place = {5, 64, 124, LDR_CODEC_NONE}},
		.pack_count = 3,
		.previous_sequence = 6,
		.note = "the \xc3\xa4nd\n\tof it \"all\"",
	};

	memset(release.store, 0xa1, sizeof(release.store));
	memset(release.top.block.id.bytes, 0xb2, LDR_ID_BYTES);
	memset(release.previous_digest.bytes, 0xc3, LDR_ID_BYTES);
	memset(release.tree_digest.bytes, 0xd4, LDR_ID_BYTES);
	release.packs = calloc(3, sizeof(*release.packs));
	for (uint32_t i = 0; i < 3; i++) {
		release.packs[i] = (struct ldr_release_pack){.number = 3 + i * 2,
							     .size_bytes = 1000 + i};
		memset(release.packs[i].id.bytes, (int)(0xe0 + i), LDR_ID_BYTES);
	}
	return release;
}

static char *sign(struct ldr_release *release, const char *pem, size_t *out_length)
{
	LDR_AUTO_KEY struct ldr_key *key = parse_key(pem);
	struct ldr_error err = {0};
	char *jws = NULL;

	cr_assert_eq(ldr_release_sign(release, key, &jws, out_length, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(strlen(jws), *out_length);
	return jws;
}

/* Signs any text as a payload, right or not, under any header. */
static char *sign_text(const char *header, const char *payload, size_t *out_length)
{
	LDR_AUTO_KEY struct ldr_key *key = parse_key(key_pem);
	LDR_AUTO_FREE char *head = ldr_base64url_encode(header, strlen(header));
	LDR_AUTO_FREE char *body = ldr_base64url_encode(payload, strlen(payload));
	LDR_AUTO_FREE char *mark = NULL;
	uint8_t signature[LDR_SIGNATURE_BYTES];
	char *text = NULL, *jws = NULL;

	cr_assert_gt(asprintf(&text, "%s.%s", head, body), 0);
	cr_assert_eq(ldr_key_sign(key, text, strlen(text), signature, NULL), LDR_OK);
	mark = ldr_base64url_encode(signature, sizeof(signature));
	cr_assert_gt(asprintf(&jws, "%s.%s", text, mark), 0);
	free(text);
	*out_length = strlen(jws);
	return jws;
}

static enum ldr_status verify(const char *jws, size_t length, struct ldr_release *out,
			      struct ldr_error *err)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *mine = public_of(key_pem);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *other = public_of(other_pem);
	struct ldr_public_key *const keys[] = {other, mine};

	return ldr_release_verify(jws, length, "live@7", keys, 2, out, err);
}

static void same_release(const struct ldr_release *a, const struct ldr_release *b)
{
	cr_assert_arr_eq(a->store, b->store, sizeof(a->store));
	cr_assert_str_eq(a->channel, b->channel);
	cr_assert_eq(a->sequence, b->sequence);
	cr_assert_eq(a->created_s, b->created_s);
	cr_assert_eq(a->expires_s, b->expires_s);
	cr_assert(!memcmp(&a->totals, &b->totals, sizeof(a->totals)));
	cr_assert_eq(a->tree_bytes, b->tree_bytes);
	cr_assert_eq(a->map_bytes, b->map_bytes);
	cr_assert(ldr_id_equal(&a->top.block.id, &b->top.block.id));
	cr_assert_eq(a->top.block.plain_bytes, b->top.block.plain_bytes);
	cr_assert_eq(a->top.place.pack, b->top.place.pack);
	cr_assert_eq(a->top.place.offset, b->top.place.offset);
	cr_assert_eq(a->top.place.stored_bytes, b->top.place.stored_bytes);
	cr_assert_eq(a->top.place.codec, b->top.place.codec);
	cr_assert_eq(a->pack_count, b->pack_count);
	for (uint32_t i = 0; i < a->pack_count; i++) {
		cr_assert_eq(a->packs[i].number, b->packs[i].number);
		cr_assert_eq(a->packs[i].size_bytes, b->packs[i].size_bytes);
		cr_assert(ldr_id_equal(&a->packs[i].id, &b->packs[i].id));
	}
	cr_assert_eq(a->previous_sequence, b->previous_sequence);
	cr_assert(ldr_id_equal(&a->previous_digest, &b->previous_digest));
	cr_assert(ldr_id_equal(&a->tree_digest, &b->tree_digest));
	cr_assert_str_eq(a->note, b->note);
	cr_assert(ldr_id_equal(&a->digest, &b->digest));
	cr_assert_str_eq(a->kid, b->kid);
}

/* ---- round trip --------------------------------------------------------------------------------- */

Test(release, what_is_signed_is_read_back)
{
	for (unsigned variant = 0; variant < 4; variant++) {
		LDR_AUTO_RELEASE struct ldr_release release = make_release();
		LDR_AUTO_RELEASE struct ldr_release back = {0};
		LDR_AUTO_FREE char *jws = NULL, *again = NULL;
		struct ldr_error err = {0};
		char kid[LDR_KID_CHARS + 1];
		size_t length = 0, again_length = 0;

		if (variant & 1)
			release.expires_s = 0;
		if (variant & 2) {
			release.previous_sequence = 0;
			memset(&release.previous_digest, 0, sizeof(release.previous_digest));
			release.note[0] = '\0';
			release.totals = (struct ldr_tree_totals){0};
			release.map_bytes = 0;
		}
		jws = sign(&release, key_pem, &length);
		cr_assert_eq(verify(jws, length, &back, &err), LDR_OK, "%s", err.text);
		same_release(&release, &back);
		cr_assert_eq(ldr_release_kid(jws, length, kid, NULL), LDR_OK);
		cr_assert_str_eq(kid, release.kid);
		/* The same release is the same bytes, whatever signed it before. */
		memset(&release.digest, 0xff, sizeof(release.digest));
		again = sign(&release, key_pem, &again_length);
		cr_assert_str_eq(jws, again);
	}
}

Test(release, the_payload_has_the_documented_form)
{
	static const char wanted[] =
		"{\"channel\":\"live\",\"created\":1700000000,\"deltas\":[],\"expires\":1800000000,\"format\":1,"
		"\"note\":\"the \xc3\xa4nd\\n\\tof it \\\"all\\\"\",\"packs\":[";
	LDR_AUTO_RELEASE struct ldr_release release = make_release();
	LDR_AUTO_FREE char *json = NULL;
	LDR_AUTO_FREE char *jws = NULL;
	size_t length = 0, jws_length = 0;

	cr_assert_eq(ldr_release_write_payload(&release, &json, &length, NULL), LDR_OK);
	cr_assert_eq(strlen(json), length);
	cr_assert(!strncmp(json, wanted, strlen(wanted)), "%s", json);
	cr_assert(strstr(json, "\"previous\":{\"digest\":\"c3c3"), "%s", json);
	cr_assert(strstr(json, "\"top\":{\"codec\":\"none\",\"id\":\"b2b2"), "%s", json);
	jws = sign(&release, key_pem, &jws_length);
	/* The base64url of {"alg":"ES256","kid":" */
	cr_assert(!strncmp(jws, "eyJhbGciOiJFUzI1NiIsImtpZCI6I", 29), "%s", jws);
}

Test(release, packs_and_places)
{
	static const struct {
		struct ldr_place place;
		enum ldr_status status;
	} rows[] = {
		{{3, 64, 1, 0}, LDR_OK},
		{{3, 63, 1, 0}, LDR_ECORRUPT},
		{{3, 0, 1, 0}, LDR_ECORRUPT},
		{{3, 64, 1000 - 64 - 48, 0}, LDR_OK},
		{{3, 64, 1000 - 64 - 47, 0}, LDR_ECORRUPT},
		{{5, 64, 1000 - 64 - 47, 0}, LDR_OK},
		{{7, 953, 1, 0}, LDR_OK},
		{{7, 954, 1, 0}, LDR_ECORRUPT},
		{{7, (UINT64_C(1) << 48) - 1, LDR_STORED_MAX_BYTES, 0}, LDR_ECORRUPT},
		{{7, UINT64_MAX, LDR_STORED_MAX_BYTES, 0}, LDR_ECORRUPT},
		{{0, 64, 1, 0}, LDR_ECORRUPT},
		{{4, 64, 1, 0}, LDR_ECORRUPT},
		{{8, 64, 1, 0}, LDR_ECORRUPT},
	};
	LDR_AUTO_RELEASE struct ldr_release release = make_release();

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ldr_error err = {0};
		const struct ldr_release_pack *pack = ldr_release_pack(&release,
								       rows[i].place.pack);

		cr_assert_eq(ldr_release_check_place(&release, &rows[i].place, &err),
			     rows[i].status, "row %zu: %s", i, err.text);
		cr_assert(!pack || pack->number == rows[i].place.pack);
	}
	cr_assert_null(ldr_release_pack(&release, 4));
	cr_assert_eq(ldr_release_pack(&release, 7)->size_bytes, 1002);
}

Test(release, channel_names)
{
	static const struct {
		const char *name;
		bool ok;
	} rows[] = {
		{"live", true},
		{"a", true},
		{"0.9_beta-2", true},
		{"", false},
		{".hidden", false},
		{"-x", false},
		{"_x", false},
		{"Live", false},
		{"a/b", false},
		{"..", false},
		{"a b", false},
		{"\xc3\xa4", false},
		{"a\n", false},
		{"a#b", false},
		{"a@1", false},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		cr_assert_eq(ldr_channel_name_ok(rows[i].name), rows[i].ok, "%s", rows[i].name);
}

/* ---- fields ------------------------------------------------------------------------------------- */

static json_t *payload(void)
{
	LDR_AUTO_RELEASE struct ldr_release release = make_release();
	LDR_AUTO_FREE char *json = NULL;
	size_t length = 0;

	cr_assert_eq(ldr_release_write_payload(&release, &json, &length, NULL), LDR_OK);
	return json_loads(json, 0, NULL);
}

/* "a.b" is b of a; "packs.b" is b of the packs' second. Gives the object and the last name. */
static json_t *object_of(json_t *root, const char *field, const char **out_name)
{
	const char *dot = strchr(field, '.');
	char first[32] = "";
	json_t *object;

	*out_name = dot ? dot + 1 : field;
	if (!dot)
		return root;
	memcpy(first, field, (size_t)(dot - field));
	object = json_object_get(root, first);
	return json_is_array(object) ? json_array_get(object, 1) : object;
}

static enum ldr_status parse_json(const json_t *root, struct ldr_error *err)
{
	LDR_AUTO_FREE char *text = json_dumps(root, JSON_COMPACT);
	LDR_AUTO_RELEASE struct ldr_release release = {0};

	return ldr_release_parse_payload(text, strlen(text), "p", &release, err);
}

static const char *const fields[] = {
	"format",           "store",        "channel",       "sequence",
	"created",          "totals",       "totals.files",  "totals.folders",
	"totals.symlinks",  "totals.bytes", "totals.blocks", "totals.tree_bytes",
	"totals.map_bytes", "tree",         "top",           "top.id",
	"top.plain",        "top.pack",     "top.offset",    "top.stored",
	"top.codec",        "packs",        "packs.no",      "packs.id",
	"packs.size",       "deltas",       "previous",      "previous.sequence",
	"previous.digest",  "note",         "expires",
};

Test(release, every_field_missing_or_of_another_kind)
{
	static const char *const values[] = {"null", "true", "7.5", "[]",
					     "{}",   "\"\"", "-1",  "[[]]"};

	for (size_t f = 0; f < COUNT(fields); f++) {
		LDR_AUTO_JSON json_t *root = payload();
		struct ldr_error err = {0};
		const char *name;
		json_t *object = object_of(root, fields[f], &name);
		enum ldr_status wanted = strcmp(fields[f], "expires") ? LDR_ECORRUPT : LDR_OK;

		cr_assert_eq(json_object_del(object, name), 0, "%s", fields[f]);
		cr_assert_eq(parse_json(root, &err), wanted, "%s missing", fields[f]);
		cr_assert(!wanted || strstr(err.text, name), "%s: %s", fields[f], err.text);
		for (size_t v = 0; v < COUNT(values); v++) {
			/* What is right for the kind: no deltas, no previous, no note. */
			bool right = (!strcmp(fields[f], "deltas") && !strcmp(values[v], "[]")) ||
				     (!strcmp(fields[f], "previous") &&
				      !strcmp(values[v], "null")) ||
				     (!strcmp(fields[f], "note") && !strcmp(values[v], "\"\""));

			json_object_set_new(object, name,
					    json_loads(values[v], JSON_DECODE_ANY, NULL));
			memset(&err, 0, sizeof(err));
			cr_assert_eq(parse_json(root, &err) == LDR_OK, right, "%s = %s: %s",
				     fields[f], values[v], err.text);
			cr_assert(right || !strncmp(err.text, "p: ", 3), "%s", err.text);
		}
	}
}

Test(release, every_field_out_of_its_range)
{
	static const struct {
		const char *field, *value;
		enum ldr_status status;
	} rows[] = {
		{"format", "2", LDR_EUNSUPPORTED},
		{"format", "0", LDR_EUNSUPPORTED},
		{"store", "\"A1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\"", LDR_ECORRUPT},
		{"store", "\"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a\"", LDR_ECORRUPT},
		{"channel", "\"../x\"", LDR_ECORRUPT},
		{"sequence", "0", LDR_ECORRUPT},
		{"sequence", "6", LDR_ECORRUPT}, /* the previous one has it */
		{"sequence", "9007199254740991", LDR_OK},
		{"sequence", "9007199254740992", LDR_ECORRUPT},
		{"created", "0", LDR_OK},
		{"created", "1800000000", LDR_ECORRUPT}, /* when it expires */
		{"created", "253402300800", LDR_ECORRUPT},
		{"expires", "0", LDR_ECORRUPT},
		{"expires", "1700000001", LDR_OK},
		{"expires", "253402300800", LDR_ECORRUPT},
		{"totals.files", "16777216", LDR_OK},
		{"totals.files", "16777217", LDR_ECORRUPT},
		{"totals.folders", "16777217", LDR_ECORRUPT},
		{"totals.symlinks", "16777217", LDR_ECORRUPT},
		{"totals.bytes", "4", LDR_OK},
		{"totals.bytes", "3", LDR_ECORRUPT},
		{"totals.bytes", "1048576", LDR_OK},
		{"totals.bytes", "1048577", LDR_ECORRUPT},
		{"totals.blocks", "3", LDR_ECORRUPT},
		{"totals.blocks", "67108865", LDR_ECORRUPT},
		{"totals.tree_bytes", "17", LDR_ECORRUPT},
		{"totals.tree_bytes", "1073741824", LDR_OK},
		{"totals.tree_bytes", "1073741825", LDR_ECORRUPT},
		{"totals.map_bytes", "55", LDR_ECORRUPT},
		{"totals.map_bytes", "70", LDR_ECORRUPT},
		{"top.plain", "73", LDR_ECORRUPT},
		{"top.plain", "74", LDR_OK},
		{"top.plain", "262145", LDR_ECORRUPT},
		{"top.pack", "4", LDR_ECORRUPT},
		{"top.pack", "16777216", LDR_ECORRUPT},
		{"top.offset", "63", LDR_ECORRUPT},
		{"top.offset", "829", LDR_OK},
		{"top.offset", "830", LDR_ECORRUPT},
		{"top.offset", "281474976710656", LDR_ECORRUPT},
		{"top.stored", "0", LDR_ECORRUPT},
		{"top.stored", "262209", LDR_ECORRUPT},
		{"top.codec", "\"lz4\"", LDR_OK},
		{"top.codec", "\"gzip\"", LDR_EUNSUPPORTED},
		{"top.codec", "\"LZ4\"", LDR_EUNSUPPORTED},
		{"packs.no", "3", LDR_ECORRUPT},
		{"packs.no", "7", LDR_ECORRUPT},
		{"packs.no", "16777216", LDR_ECORRUPT},
		{"packs.size", "111", LDR_ECORRUPT},
		{"packs.size", "281474976710656", LDR_ECORRUPT},
		{"packs.id", "\"e1\"", LDR_ECORRUPT},
		{"deltas", "[{\"id\":1,\"what\":[]}]", LDR_OK},
		{"deltas", "[[]]", LDR_ECORRUPT},
		{"previous.sequence", "0", LDR_ECORRUPT},
		{"previous.sequence", "7", LDR_ECORRUPT},
		{"previous.sequence", "1", LDR_OK},
		{"note", "\"\\u001b[2J\"", LDR_ECORRUPT},
		{"note", "\"\\u007f\"", LDR_ECORRUPT},
		{"note", "\"\\n\\t\"", LDR_OK},
		{"another", "{\"field\":[1,2]}", LDR_OK},
		{"totals.another", "1", LDR_OK},
		{"top.another", "1", LDR_OK},
		{"packs.another", "1", LDR_OK},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_JSON json_t *root = payload();
		struct ldr_error err = {0};
		const char *name;
		json_t *object = object_of(root, rows[i].field, &name);

		json_object_set_new(object, name, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		cr_assert_eq(parse_json(root, &err), rows[i].status, "%s = %s: %s", rows[i].field,
			     rows[i].value, err.text);
	}
}

/* What reading refuses, signing refuses too; what only C can say as well. */
Test(release, signing_refuses_what_reading_would)
{
	LDR_AUTO_KEY struct ldr_key *key = parse_key(key_pem);

	for (unsigned i = 0; i < 12; i++) {
		LDR_AUTO_RELEASE struct ldr_release release = make_release();
		struct ldr_error err = {0};
		char *jws = NULL;
		size_t length;

		switch (i) {
		case 0:
			release.channel[0] = 'L';
			break;
		case 1:
			release.sequence = 0;
			break;
		case 2:
			release.created_s = -1;
			break;
		case 3:
			release.expires_s = -1;
			break;
		case 4:
			release.pack_count = 0;
			break;
		case 5:
			release.packs[1].number = 3;
			break;
		case 6:
			release.top.place.pack = 4;
			break;
		case 7:
			release.top.place.codec = LDR_CODEC_COUNT;
			break;
		case 8:
			memcpy(release.note, "\xff", 2);
			break;
		case 9:
			memset(release.note, 'n', sizeof(release.note));
			break;
		case 10:
			memset(release.channel, 'n', sizeof(release.channel));
			break;
		default:
			release.map_bytes++;
			break;
		}
		cr_assert_eq(ldr_release_sign(&release, key, &jws, &length, &err), LDR_EINVAL,
			     "case %u: %s", i, err.text);
		cr_assert_eq(err.status, LDR_EINVAL);
		cr_assert_null(jws);
	}
}

/* ---- the signed record -------------------------------------------------------------------------- */

Test(release, headers_other_than_the_one_are_refused)
{
	static const char kid[] = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
	static const struct {
		const char *before, *after;
	} rows[] = {
		{"{\"alg\":\"none\",\"kid\":\"", "\"}"},
		{"{\"alg\":\"HS256\",\"kid\":\"", "\"}"},
		{"{\"alg\":\"ES384\",\"kid\":\"", "\"}"},
		{"{\"kid\":\"", "\",\"alg\":\"ES256\"}"},
		{"{\"alg\":\"ES256\", \"kid\":\"", "\"}"},
		{"{\"alg\":\"ES256\",\"kid\":\"", "\"} "},
		{"{\"alg\":\"ES256\",\"kid\":\"", "\",\"x\":1}"},
		{"{\"alg\":\"ES256\",\"kid\":\"", "\",\"alg\":\"none\"}"},
		{"{\"alg\":\"ES256\",\"jwk\":\"", "\"}"},
		{"", ""},
	};
	LDR_AUTO_JSON json_t *root = payload();
	LDR_AUTO_FREE char *json = json_dumps(root, JSON_COMPACT);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = public_of(key_pem);

	for (size_t i = 0; i < 2 * COUNT(rows); i++) {
		char header[256], out[LDR_KID_CHARS + 1] = "";
		LDR_AUTO_FREE char *jws = NULL;
		struct ldr_release release;
		struct ldr_error err = {0};
		size_t length = 0;

		/* With the kid of the right key, and with one that is nobody's. */
		snprintf(header, sizeof(header), "%s%s%s", rows[i / 2].before,
			 i % 2 ? kid : ldr_public_key_kid(public), rows[i / 2].after);
		jws = sign_text(header, json, &length);
		cr_assert_eq(verify(jws, length, &release, &err), LDR_ECORRUPT, "%s: %s", header,
			     err.text);
		cr_assert_eq(ldr_release_kid(jws, length, out, NULL), LDR_ECORRUPT);
		cr_assert_str_eq(out, "");
	}
	for (unsigned i = 0; i < 2; i++) {
		char header[256], out[LDR_KID_CHARS + 1] = "";
		LDR_AUTO_FREE char *jws = NULL;
		LDR_AUTO_RELEASE struct ldr_release release = {0};
		size_t length = 0;

		snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"kid\":\"%s\"}",
			 i ? kid : ldr_public_key_kid(public));
		jws = sign_text(header, json, &length);
		cr_assert_eq(verify(jws, length, &release, NULL), i ? LDR_EUNTRUSTED : LDR_OK);
		cr_assert_eq(ldr_release_kid(jws, length, out, NULL), LDR_OK);
		cr_assert_str_eq(out, i ? kid : ldr_public_key_kid(public));
	}
	{
		/* A kid is base64url; a quote in it could end the string. */
		char header[256], out[LDR_KID_CHARS + 1];
		LDR_AUTO_FREE char *jws = NULL;
		size_t length = 0;

		snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"kid\":\"\"%s\"}", kid + 1);
		jws = sign_text(header, json, &length);
		cr_assert_eq(ldr_release_kid(jws, length, out, NULL), LDR_ECORRUPT);
	}
}

Test(release, payloads_that_are_signed_and_still_refused)
{
	static const struct {
		const char *text;
		enum ldr_status status;
	} rows[] = {
		{"", LDR_ECORRUPT},
		{"{}", LDR_ECORRUPT},
		{"[]", LDR_ECORRUPT},
		{"{\"format\":1}", LDR_ECORRUPT},
		{"{\"format\":2}", LDR_EUNSUPPORTED},
		{"{\"format\":1,\"format\":1}", LDR_ECORRUPT},
		{"{\"format\":99999999999999999999}", LDR_ECORRUPT},
	};
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = public_of(key_pem);
	char header[256];

	snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"kid\":\"%s\"}",
		 ldr_public_key_kid(public));
	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_FREE char *jws = NULL;
		struct ldr_release release;
		struct ldr_error err = {0};
		size_t length = 0;

		jws = sign_text(header, rows[i].text, &length);
		cr_assert_eq(verify(jws, length, &release, &err), rows[i].status, "%s: %s",
			     rows[i].text, err.text);
		cr_assert(!strncmp(err.text, "release live@7: payload", 23), "%s", err.text);
	}
}

Test(release, keys_that_are_not_trusted)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *other = public_of(other_pem);
	LDR_AUTO_RELEASE struct ldr_release release = make_release();
	LDR_AUTO_FREE char *jws = NULL;
	struct ldr_public_key *const keys[] = {other};
	struct ldr_release out;
	struct ldr_error err = {0};
	size_t length = 0;

	jws = sign(&release, key_pem, &length);
	cr_assert_eq(ldr_release_verify(jws, length, "r", keys, 1, &out, &err), LDR_EUNTRUSTED);
	cr_assert(strstr(err.text, release.kid), "%s", err.text);
	cr_assert_eq(ldr_release_verify(jws, length, "r", NULL, 0, &out, &err), LDR_EUNTRUSTED);
}

/* Each check costs a millisecond, so bits of the payload and the signature are sampled. */
Test(release, a_record_cut_or_bent_is_refused)
{
	LDR_AUTO_RELEASE struct ldr_release release = make_release();
	LDR_AUTO_FREE char *jws = NULL, *bent = NULL;
	struct ldr_release out;
	struct ldr_error err = {0};
	size_t length = 0, dots = 0;

	jws = sign(&release, key_pem, &length);
	bent = malloc(length + 2);
	for (size_t cut = 0; cut < length; cut += cut < 100 || cut + 100 > length ? 1 : 37) {
		memcpy(bent, jws, cut);
		cr_assert_eq(verify(bent, cut, &out, NULL), LDR_ECORRUPT, "cut at %zu", cut);
	}
	for (size_t at = 0; at < length; at += at < 100 || at + 88 > length ? 1 : 29)
		for (unsigned bit = 0; bit < 8; bit += at < 100 || at + 88 > length ? 3 : 7) {
			enum ldr_status status;

			memcpy(bent, jws, length);
			bent[at] = (char)(bent[at] ^ 1 << bit);
			status = verify(bent, length, &out, &err);
			cr_assert(status == LDR_ECORRUPT || status == LDR_EUNTRUSTED,
				  "byte %zu: %s", at, ldr_status_name(status));
		}
	for (size_t i = 0; i < 5; i++) {
		static const char more[] = {'\n', '.', '=', 'A', '\0'};

		memcpy(bent, jws, length);
		bent[length] = more[i];
		cr_assert_eq(verify(bent, length + 1, &out, NULL), LDR_ECORRUPT, "byte %d",
			     more[i]);
		memmove(bent + 1, jws, length);
		bent[0] = more[i];
		cr_assert_eq(verify(bent, length + 1, &out, NULL), LDR_ECORRUPT, "byte %d",
			     more[i]);
	}
	for (size_t i = 0; i < length; i++)
		dots += jws[i] == '.';
	cr_assert_eq(dots, 2);
}

/* The largest list that fits is read, and one more is refused before anything is parsed. */
Test(release, sizes)
{
	LDR_AUTO_RELEASE struct ldr_release release = make_release();
	LDR_AUTO_KEY struct ldr_key *key = parse_key(key_pem);
	LDR_AUTO_RELEASE struct ldr_release back = {0};
	LDR_AUTO_FREE char *jws = NULL;
	char *large = calloc(1, LDR_RELEASE_MAX_BYTES + 1);
	struct ldr_error err = {0};
	struct ldr_release out;
	size_t length = 0;

	memset(large, 'A', LDR_RELEASE_MAX_BYTES + 1);
	cr_assert_eq(verify(large, LDR_RELEASE_MAX_BYTES + 1, &out, &err), LDR_ELIMIT, "%s",
		     err.text);
	cr_assert_eq(verify(large, LDR_RELEASE_MAX_BYTES, &out, &err), LDR_ECORRUPT, "%s",
		     err.text);
	free(large);
	free(release.packs);
	release.packs = calloc(60000, sizeof(*release.packs));
	for (uint32_t i = 0; i < 60000; i++)
		release.packs[i] = (struct ldr_release_pack){.number = i, .size_bytes = 1 << 20};
	release.pack_count = 60000;
	cr_assert_eq(ldr_release_sign(&release, key, &jws, &length, &err), LDR_ELIMIT, "%s",
		     err.text);
	release.pack_count = 40000;
	cr_assert_eq(ldr_release_sign(&release, key, &jws, &length, &err), LDR_OK, "%s", err.text);
	cr_assert_lt(length, LDR_RELEASE_MAX_BYTES);
	cr_assert_eq(verify(jws, length, &back, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(back.pack_count, 40000);
	cr_assert_eq(back.packs[39999].number, 39999);
}
