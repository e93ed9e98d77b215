/*
 * The release as a signed record: the JWS around the payload. See release.h; the payload is
 * release_payload.c.
 */
#include "packs/release.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "packs/pack.h"
#include "packs/release_priv.h"

/* The header, byte for byte: no white space, no other member, no other order. */
#define HEADER_BEGIN "{\"alg\":\"ES256\",\"kid\":\""
#define HEADER_END "\"}"
#define HEADER_BYTES (sizeof(HEADER_BEGIN) - 1 + LDR_KID_CHARS + sizeof(HEADER_END) - 1)
#define HEADER_CHARS ((HEADER_BYTES * 4 + 2) / 3)
#define SIGNATURE_CHARS ((size_t)(LDR_SIGNATURE_BYTES * 4 + 2) / 3)

/* The three parts of a JWS in compact form, borrowed. */
struct parts {
	const char *payload;
	size_t payload_chars;
	const char *signature;
	size_t signed_chars; /* header, dot, payload */
};

void ldr_release_dispose(struct ldr_release *release)
{
	free(release->packs);
	*release = (struct ldr_release){0};
}

bool ldr_channel_name_ok(const char *name)
{
	size_t length = strnlen(name, LDR_CHANNEL_MAX_CHARS + 1);

	if (!length || length > LDR_CHANNEL_MAX_CHARS || strchr("._-", name[0]))
		return false;
	return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

const struct ldr_release_pack *ldr_release_pack(const struct ldr_release *release, uint32_t number)
{
	uint32_t low = 0, high = release->pack_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (release->packs[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == release->pack_count || release->packs[low].number != number)
		return NULL;
	return release->packs + low;
}

enum ldr_status ldr_release_check_place(const struct ldr_release *release,
					const struct ldr_place *place, struct ldr_error *err)
{
	const struct ldr_release_pack *pack = ldr_release_pack(release, place->pack);
	char hex[LDR_ID_HEX_CHARS + 1];
	uint64_t end;

	if (!pack)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %" PRIu32 " is not among the release's %" PRIu32, place->pack,
				release->pack_count);
	/* Offsets have 48 bits, so neither sum can overflow. */
	end = place->offset + place->stored_bytes;
	if (place->offset >= LDR_PACK_HEADER_BYTES && place->offset < pack->size_bytes &&
	    end + LDR_PACK_TABLE_HEAD_BYTES + LDR_PACK_TRAILER_BYTES <= pack->size_bytes)
		return LDR_OK;
	ldr_id_to_hex(&pack->id, hex);
	return ldr_fail(err, LDR_ECORRUPT,
			"bytes %" PRIu64 " to %" PRIu64 " are not among the blocks of pack %" PRIu32
			" (%.16s, %" PRIu64 " bytes)",
			place->offset, end, place->pack, hex, pack->size_bytes);
}

/* ---- the three parts ---------------------------------------------------------------------------- */

static enum ldr_status fail_header(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ECORRUPT, "header is not exactly " HEADER_BEGIN "..." HEADER_END);
}

static enum ldr_status read_header(const char *chars, char out_kid[LDR_KID_CHARS + 1],
				   struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *header = NULL;
	size_t length = 0, begin = sizeof(HEADER_BEGIN) - 1;
	enum ldr_status status = ldr_base64url_decode(chars, HEADER_CHARS, &header, &length, err);
	static const char kid_chars[] = "abcdefghijklmnopqrstuvwxyz"
					"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	if (status)
		return ldr_error_prefix(err, status, "header");
	if (length != HEADER_BYTES || memcmp(header, HEADER_BEGIN, begin) != 0 ||
	    memcmp(header + begin + LDR_KID_CHARS, HEADER_END, sizeof(HEADER_END) - 1) != 0)
		return fail_header(err);
	for (size_t i = 0; i < LDR_KID_CHARS; i++)
		if (!memchr(kid_chars, header[begin + i], sizeof(kid_chars) - 1))
			return fail_header(err);
	memcpy(out_kid, header + begin, LDR_KID_CHARS);
	out_kid[LDR_KID_CHARS] = '\0';
	return LDR_OK;
}

static enum ldr_status split(const char *jws, size_t length, struct parts *out,
			     char out_kid[LDR_KID_CHARS + 1], struct ldr_error *err)
{
	const char *first, *second, *end = jws + length;

	if (length > LDR_RELEASE_MAX_BYTES)
		return ldr_fail(err, LDR_ELIMIT, "record of %zu bytes, limit %u", length,
				LDR_RELEASE_MAX_BYTES);
	first = length ? memchr(jws, '.', length) : NULL;
	second = first ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
	if (!second)
		return ldr_fail(err, LDR_ECORRUPT,
				"record of %zu bytes has not the three parts of a JWS", length);
	if ((size_t)(first - jws) != HEADER_CHARS)
		return fail_header(err);
	if ((size_t)(end - second - 1) != SIGNATURE_CHARS)
		return ldr_fail(err, LDR_ECORRUPT, "signature of %zu characters, wanted %zu",
				(size_t)(end - second - 1), SIGNATURE_CHARS);
	out->payload = first + 1;
	out->payload_chars = (size_t)(second - first - 1);
	out->signature = second + 1;
	out->signed_chars = (size_t)(second - jws);
	return read_header(jws, out_kid, err);
}

enum ldr_status ldr_release_kid(const char *jws, size_t length, char out_kid[LDR_KID_CHARS + 1],
				struct ldr_error *err)
{
	struct parts parts;

	return split(jws, length, &parts, out_kid, err);
}

/* ---- checking ----------------------------------------------------------------------------------- */

static const struct ldr_public_key *find_key(struct ldr_public_key *const *keys, size_t key_count,
					     const char *kid)
{
	for (size_t i = 0; i < key_count; i++)
		if (!strcmp(ldr_public_key_kid(keys[i]), kid))
			return keys[i];
	return NULL;
}

static enum ldr_status check_signature(const char *jws, const struct parts *parts,
				       const struct ldr_public_key *key, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *signature = NULL;
	size_t length = 0;
	enum ldr_status status = ldr_base64url_decode(parts->signature, SIGNATURE_CHARS, &signature,
						      &length, err);

	if (status)
		return ldr_error_prefix(err, status, "signature");
	return ldr_public_key_check(key, jws, parts->signed_chars, signature, err);
}

static enum ldr_status verify(const char *jws, size_t length, struct ldr_public_key *const *keys,
			      size_t key_count, struct ldr_release *out, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *payload = NULL;
	size_t payload_bytes = 0;
	const struct ldr_public_key *key;
	struct parts parts;
	char kid[LDR_KID_CHARS + 1];
	enum ldr_status status = split(jws, length, &parts, kid, err);

	if (status)
		return status;
	key = find_key(keys, key_count, kid);
	if (!key)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"signed by key %s, which is not among the %zu trusted", kid,
				key_count);
	status = check_signature(jws, &parts, key, err);
	if (!status)
		status = ldr_base64url_decode(parts.payload, parts.payload_chars, &payload,
					      &payload_bytes, err);
	if (!status)
		status = ldr_release_parse_payload((const char *)payload, payload_bytes, "payload",
						   out, err);
	if (status)
		return status;
	memcpy(out->kid, kid, sizeof(kid));
	status = ldr_digest_once(jws, length, &out->digest, err);
	if (status)
		ldr_release_dispose(out);
	return status;
}

/* Seven parameters: keys and their count are one thing, and every caller has them apart. */
/* NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_release_verify(const char *jws, size_t length, const char *name,
				   struct ldr_public_key *const *keys, size_t key_count,
				   struct ldr_release *out, struct ldr_error *err)
{
	enum ldr_status status = verify(jws, length, keys, key_count, out, err);

	return status ? ldr_error_prefix(err, status, "release %s", name) : LDR_OK;
}

/* ---- signing ------------------------------------------------------------------------------------ */

/* Appends base64url of bytes to a text. */
static void put_base64url(struct ldr_buffer *text, const void *bytes, size_t length)
{
	LDR_AUTO_FREE char *chars = ldr_base64url_encode(bytes, length);

	if (chars)
		ldr_buffer_put(text, chars, strlen(chars));
	else
		text->failed = true;
}

static void put_header(struct ldr_buffer *text, const char *kid)
{
	char header[HEADER_BYTES + 1] = HEADER_BEGIN;

	memcpy(header + sizeof(HEADER_BEGIN) - 1, kid, LDR_KID_CHARS);
	memcpy(header + sizeof(HEADER_BEGIN) - 1 + LDR_KID_CHARS, HEADER_END, sizeof(HEADER_END));
	put_base64url(text, header, HEADER_BYTES);
}

static enum ldr_status sign_text(struct ldr_buffer *text, struct ldr_key *key,
				 struct ldr_error *err)
{
	uint8_t signature[LDR_SIGNATURE_BYTES];
	enum ldr_status status;

	if (text->failed)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	status = ldr_key_sign(key, text->data, text->length, signature, err);
	if (status)
		return status;
	ldr_buffer_u8(text, '.');
	put_base64url(text, signature, sizeof(signature));
	ldr_buffer_u8(text, 0);
	return text->failed ? ldr_fail(err, LDR_ENOMEM, "out of memory") : LDR_OK;
}

static enum ldr_status make_jws(const struct ldr_release *release, struct ldr_key *key,
				const char *kid, struct ldr_buffer *text, struct ldr_error *err)
{
	LDR_AUTO_FREE char *payload = NULL;
	size_t length = 0;
	enum ldr_status status = ldr_release_check_fields(release, LDR_EINVAL, err);

	if (!status)
		status = ldr_release_write_payload(release, &payload, &length, err);
	if (status)
		return status;
	if (length > LDR_RELEASE_PAYLOAD_MAX_BYTES)
		return ldr_fail(err, LDR_ELIMIT, "payload of %zu bytes, limit %u", length,
				LDR_RELEASE_PAYLOAD_MAX_BYTES);
	put_header(text, kid);
	ldr_buffer_u8(text, '.');
	put_base64url(text, payload, length);
	return sign_text(text, key, err);
}

enum ldr_status ldr_release_sign(struct ldr_release *release, struct ldr_key *key, char **out_jws,
				 size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer text = {.max_bytes = LDR_RELEASE_MAX_BYTES + 1};
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = NULL;
	struct ldr_id digest;
	size_t length = 0;
	enum ldr_status status = ldr_key_public(key, &public, err);

	if (!status)
		status = make_jws(release, key, ldr_public_key_kid(public), &text, err);
	if (!status) {
		length = text.length - 1; /* without its NUL */
		status = ldr_digest_once(text.data, length, &digest, err);
	}
	if (status)
		return ldr_error_prefix(err, status, "release %.*s@%" PRIu64, LDR_CHANNEL_MAX_CHARS,
					release->channel, release->sequence);
	release->digest = digest;
	memcpy(release->kid, ldr_public_key_kid(public), LDR_KID_CHARS + 1);
	*out_jws = (char *)ldr_buffer_take(&text);
	*out_length = length;
	return LDR_OK;
}
