/*
 * ECDSA P-256 keys over mbedTLS 2.28; see keys.h.
 *
 * A public key keeps its point and its PEM text, never a group: mbedTLS stores a table of precomputed
 * points in the group when it multiplies, so a shared group would be written by every check. Each
 * check loads its own.
 */
#include "common/keys.h"

#include <assert.h>
#include <mbedtls/base64.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/ecdsa.h>
#include <mbedtls/ecp.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform_util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/digest.h"

#define COORDINATE_BYTES 32
#define POINT_BYTES (1 + 2 * COORDINATE_BYTES) /* 4, x, y: SEC1's uncompressed form */

struct random_source {
	mbedtls_entropy_context entropy;
	mbedtls_ctr_drbg_context drbg;
};

struct ldr_key {
	mbedtls_pk_context pk;
	struct random_source *random; /* owns */
};

struct ldr_public_key {
	mbedtls_ecp_point point;
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char kid[LDR_KID_CHARS + 1];
};

static enum ldr_status fail_mbedtls(struct ldr_error *err, enum ldr_status status, const char *what,
				    int code)
{
	char text[128] = "";

	mbedtls_strerror(code, text, sizeof(text));
	return ldr_fail(err, status, "%s: %s", what, text);
}

static enum ldr_status fail_key(struct ldr_error *err, const char *name, int code)
{
	return ldr_error_prefix(err, fail_mbedtls(err, LDR_ECORRUPT, "not a usable key", code),
				"key %s", name);
}

/* ---- randomness ------------------------------------------------------------------------------- */

static void random_free(struct random_source *random)
{
	if (!random)
		return;
	mbedtls_ctr_drbg_free(&random->drbg);
	mbedtls_entropy_free(&random->entropy);
	free(random);
}

static enum ldr_status random_new(struct random_source **out_random, struct ldr_error *err)
{
	struct random_source *random = calloc(1, sizeof(*random));
	int code;

	if (!random)
		return ldr_fail(err, LDR_ENOMEM, "random generator: out of memory");
	mbedtls_entropy_init(&random->entropy);
	mbedtls_ctr_drbg_init(&random->drbg);
	code = mbedtls_ctr_drbg_seed(&random->drbg, mbedtls_entropy_func, &random->entropy, NULL,
				     0);
	if (code) {
		random_free(random);
		return fail_mbedtls(err, LDR_EIO, "random generator: cannot seed", code);
	}
	*out_random = random;
	return LDR_OK;
}

static int fill(struct random_source *random, uint8_t *bytes, size_t length)
{
	while (length) {
		size_t step = length < MBEDTLS_CTR_DRBG_MAX_REQUEST ? length
								    : MBEDTLS_CTR_DRBG_MAX_REQUEST;
		int code = mbedtls_ctr_drbg_random(&random->drbg, bytes, step);

		if (code)
			return code;
		bytes += step;
		length -= step;
	}
	return 0;
}

enum ldr_status ldr_random(void *bytes, size_t length, struct ldr_error *err)
{
	struct random_source *random = NULL;
	enum ldr_status status = random_new(&random, err);
	int code;

	if (status)
		return status;
	code = fill(random, bytes, length);
	random_free(random);
	return code ? fail_mbedtls(err, LDR_EIO, "random generator", code) : LDR_OK;
}

/* ---- making and freeing ------------------------------------------------------------------------- */

void ldr_key_free(struct ldr_key *key)
{
	if (!key)
		return;
	mbedtls_pk_free(&key->pk); /* wipes the private number */
	random_free(key->random);
	free(key);
}

void ldr_key_cleanup(struct ldr_key **key)
{
	ldr_key_free(*key);
}

void ldr_public_key_free(struct ldr_public_key *key)
{
	if (!key)
		return;
	mbedtls_ecp_point_free(&key->point);
	free(key);
}

void ldr_public_key_cleanup(struct ldr_public_key **key)
{
	ldr_public_key_free(*key);
}

static enum ldr_status key_new(struct ldr_key **out_key, struct ldr_error *err)
{
	LDR_AUTO_KEY struct ldr_key *key = calloc(1, sizeof(*key));
	enum ldr_status status;

	if (!key)
		return ldr_fail(err, LDR_ENOMEM, "key: out of memory");
	mbedtls_pk_init(&key->pk);
	status = random_new(&key->random, err);
	if (status)
		return status;
	*out_key = LDR_STEAL(key);
	return LDR_OK;
}

enum ldr_status ldr_key_generate(struct ldr_key **out_key, struct ldr_error *err)
{
	LDR_AUTO_KEY struct ldr_key *key = NULL;
	enum ldr_status status = key_new(&key, err);
	int code;

	if (status)
		return status;
	assert(key); /* as OK promises */
	code = mbedtls_pk_setup(&key->pk, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));
	if (!code)
		code = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(key->pk),
					   mbedtls_ctr_drbg_random, &key->random->drbg);
	if (code)
		return fail_mbedtls(err, LDR_EIO, "key: cannot generate", code);
	*out_key = LDR_STEAL(key);
	return LDR_OK;
}

/* ---- PEM ---------------------------------------------------------------------------------------- */

/* mbedTLS wants the NUL, and would take DER too; a key file is text. */
static enum ldr_status copy_pem(const char *pem, size_t length, const char *name,
				char text[LDR_KEY_PEM_MAX_BYTES], struct ldr_error *err)
{
	if (length >= LDR_KEY_PEM_MAX_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "key %s: %zu bytes, limit %d", name, length,
				LDR_KEY_PEM_MAX_BYTES - 1);
	ldr_copy(text, pem, length);
	text[length] = '\0';
	if (strlen(text) != length || !strstr(text, "-----BEGIN "))
		return ldr_fail(err, LDR_ECORRUPT, "key %s: not a PEM text", name);
	return LDR_OK;
}

static enum ldr_status check_curve(const mbedtls_pk_context *pk, const char *name,
				   struct ldr_error *err)
{
	if (!mbedtls_pk_can_do(pk, MBEDTLS_PK_ECKEY) ||
	    mbedtls_pk_ec(*pk)->grp.id != MBEDTLS_ECP_DP_SECP256R1)
		return ldr_fail(err, LDR_ECORRUPT, "key %s: %s %zu bits, wanted an EC key on P-256",
				name, mbedtls_pk_get_name(pk), mbedtls_pk_get_bitlen(pk));
	return LDR_OK;
}

enum ldr_status ldr_key_parse(const char *pem, size_t length, const char *name,
			      struct ldr_key **out_key, struct ldr_error *err)
{
	LDR_AUTO_KEY struct ldr_key *key = NULL;
	char text[LDR_KEY_PEM_MAX_BYTES] = "";
	enum ldr_status status = copy_pem(pem, length, name, text, err);
	int code;

	if (!status)
		status = key_new(&key, err);
	if (status)
		goto out;
	assert(key); /* as OK promises */
	code = mbedtls_pk_parse_key(&key->pk, (const unsigned char *)text, length + 1, NULL, 0);
	if (code) {
		status = fail_key(err, name, code);
		goto out;
	}
	status = check_curve(&key->pk, name, err);
	/* A file may hold a public half that is not the private one's. */
	if (!status && mbedtls_ecp_check_pub_priv(mbedtls_pk_ec(key->pk), mbedtls_pk_ec(key->pk)))
		status = ldr_fail(err, LDR_ECORRUPT,
				  "key %s: its two halves do not belong together", name);
	if (!status)
		*out_key = LDR_STEAL(key);
out:
	mbedtls_platform_zeroize(text, sizeof(text));
	return status;
}

enum ldr_status ldr_key_to_pem(const struct ldr_key *key, char pem[LDR_KEY_PEM_MAX_BYTES],
			       struct ldr_error *err)
{
	mbedtls_pk_context pk = key->pk; /* mbedTLS reads only, but does not say so */
	unsigned char text[LDR_KEY_PEM_MAX_BYTES];
	int code = mbedtls_pk_write_key_pem(&pk, text, sizeof(text));

	if (!code)
		memcpy(pem, text, sizeof(text));
	mbedtls_platform_zeroize(text, sizeof(text));
	return code ? fail_mbedtls(err, LDR_EIO, "key: cannot write as PEM", code) : LDR_OK;
}

/* ---- public keys -------------------------------------------------------------------------------- */

/* RFC 7638 §3: the required members only, in the order of their names, no white space. */
static enum ldr_status make_kid(const uint8_t point[POINT_BYTES], char kid[LDR_KID_CHARS + 1],
				struct ldr_error *err)
{
	LDR_AUTO_FREE char *x = ldr_base64url_encode(point + 1, COORDINATE_BYTES);
	LDR_AUTO_FREE char *y = ldr_base64url_encode(point + 1 + COORDINATE_BYTES,
						     COORDINATE_BYTES);
	LDR_AUTO_FREE char *print = NULL;
	char jwk[192];
	struct ldr_id digest;
	enum ldr_status status;
	int length;

	if (!x || !y)
		return ldr_fail(err, LDR_ENOMEM, "key: out of memory");
	length = snprintf(jwk, sizeof(jwk),
			  "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}", x, y);
	status = ldr_digest_once(jwk, (size_t)length, &digest, err);
	if (status)
		return status;
	print = ldr_base64url_encode(digest.bytes, sizeof(digest.bytes));
	if (!print)
		return ldr_fail(err, LDR_ENOMEM, "key: out of memory");
	memcpy(kid, print, LDR_KID_CHARS + 1);
	return LDR_OK;
}

static enum ldr_status public_from_pk(mbedtls_pk_context *pk, struct ldr_public_key **out_key,
				      struct ldr_error *err)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *key = calloc(1, sizeof(*key));
	mbedtls_ecp_keypair *pair = mbedtls_pk_ec(*pk);
	unsigned char text[LDR_KEY_PEM_MAX_BYTES];
	uint8_t point[POINT_BYTES];
	size_t length = 0;
	enum ldr_status status;
	int code;

	if (!key)
		return ldr_fail(err, LDR_ENOMEM, "key: out of memory");
	mbedtls_ecp_point_init(&key->point);
	code = mbedtls_ecp_copy(&key->point, &pair->Q);
	if (!code)
		code = mbedtls_ecp_point_write_binary(&pair->grp, &pair->Q,
						      MBEDTLS_ECP_PF_UNCOMPRESSED, &length, point,
						      sizeof(point));
	if (!code)
		code = mbedtls_pk_write_pubkey_pem(pk, text, sizeof(text));
	if (code)
		return fail_mbedtls(err, LDR_EIO, "key: cannot take its public half", code);
	memcpy(key->pem, text, sizeof(text));
	status = make_kid(point, key->kid, err);
	if (!status)
		*out_key = LDR_STEAL(key);
	return status;
}

enum ldr_status ldr_key_public(const struct ldr_key *key, struct ldr_public_key **out_public,
			       struct ldr_error *err)
{
	mbedtls_pk_context pk = key->pk;

	return public_from_pk(&pk, out_public, err);
}

enum ldr_status ldr_public_key_parse(const char *pem, size_t length, const char *name,
				     struct ldr_public_key **out_key, struct ldr_error *err)
{
	char text[LDR_KEY_PEM_MAX_BYTES] = "";
	mbedtls_pk_context pk;
	enum ldr_status status = copy_pem(pem, length, name, text, err);
	int code;

	if (status)
		return status;
	mbedtls_pk_init(&pk);
	code = mbedtls_pk_parse_public_key(&pk, (const unsigned char *)text, length + 1);
	status = code ? fail_key(err, name, code) : check_curve(&pk, name, err);
	if (!status)
		status = public_from_pk(&pk, out_key, err);
	mbedtls_pk_free(&pk);
	/* Whoever gives a private key for a public one has shown it to this buffer. */
	mbedtls_platform_zeroize(text, sizeof(text));
	return status;
}

enum ldr_status ldr_public_key_to_pem(const struct ldr_public_key *key,
				      char pem[LDR_KEY_PEM_MAX_BYTES], struct ldr_error *err)
{
	(void)err;
	memcpy(pem, key->pem, sizeof(key->pem));
	return LDR_OK;
}

const char *ldr_public_key_kid(const struct ldr_public_key *key)
{
	return key->kid;
}

/* ---- signatures --------------------------------------------------------------------------------- */

/* Deterministic (RFC 6979): the same bytes and key give the same signature, and a bad generator cannot
 * give the key away; the randomness only blinds the arithmetic. */
static int sign_digest(struct ldr_key *key, const struct ldr_id *digest,
		       uint8_t signature[LDR_SIGNATURE_BYTES])
{
	mbedtls_ecp_keypair *pair = mbedtls_pk_ec(key->pk);
	mbedtls_mpi r, s;
	int code;

	mbedtls_mpi_init(&r);
	mbedtls_mpi_init(&s);
	code = mbedtls_ecdsa_sign_det_ext(&pair->grp, &r, &s, &pair->d, digest->bytes,
					  sizeof(digest->bytes), MBEDTLS_MD_SHA256,
					  mbedtls_ctr_drbg_random, &key->random->drbg);
	if (!code)
		code = mbedtls_mpi_write_binary(&r, signature, COORDINATE_BYTES);
	if (!code)
		code = mbedtls_mpi_write_binary(&s, signature + COORDINATE_BYTES, COORDINATE_BYTES);
	mbedtls_mpi_free(&r);
	mbedtls_mpi_free(&s);
	return code;
}

enum ldr_status ldr_key_sign(struct ldr_key *key, const void *bytes, size_t length,
			     uint8_t signature[LDR_SIGNATURE_BYTES], struct ldr_error *err)
{
	uint8_t made[LDR_SIGNATURE_BYTES];
	struct ldr_id digest;
	enum ldr_status status = ldr_digest_once(bytes, length, &digest, err);
	int code;

	if (status)
		return status;
	code = sign_digest(key, &digest, made);
	if (code)
		return fail_mbedtls(err, LDR_EIO, "key: cannot sign", code);
	memcpy(signature, made, sizeof(made));
	return LDR_OK;
}

static int check_digest(const struct ldr_public_key *key, const struct ldr_id *digest,
			const uint8_t signature[LDR_SIGNATURE_BYTES])
{
	mbedtls_ecp_group group;
	mbedtls_mpi r, s;
	int code;

	mbedtls_ecp_group_init(&group);
	mbedtls_mpi_init(&r);
	mbedtls_mpi_init(&s);
	code = mbedtls_ecp_group_load(&group, MBEDTLS_ECP_DP_SECP256R1);
	if (!code)
		code = mbedtls_mpi_read_binary(&r, signature, COORDINATE_BYTES);
	if (!code)
		code = mbedtls_mpi_read_binary(&s, signature + COORDINATE_BYTES, COORDINATE_BYTES);
	if (!code)
		code = mbedtls_ecdsa_verify(&group, digest->bytes, sizeof(digest->bytes),
					    &key->point, &r, &s);
	mbedtls_mpi_free(&r);
	mbedtls_mpi_free(&s);
	mbedtls_ecp_group_free(&group);
	return code;
}

enum ldr_status ldr_public_key_check(const struct ldr_public_key *key, const void *bytes,
				     size_t length, const uint8_t signature[LDR_SIGNATURE_BYTES],
				     struct ldr_error *err)
{
	struct ldr_id digest;
	enum ldr_status status = ldr_digest_once(bytes, length, &digest, err);
	int code;

	if (status)
		return status;
	code = check_digest(key, &digest, signature);
	if (code == MBEDTLS_ERR_MPI_ALLOC_FAILED || code == MBEDTLS_ERR_ECP_ALLOC_FAILED)
		return ldr_fail(err, LDR_ENOMEM, "key %s: out of memory", key->kid);
	if (code)
		return ldr_fail(err, LDR_EUNTRUSTED,
				"signature is not of key %s over these %zu bytes", key->kid,
				length);
	return LDR_OK;
}

/* ---- base64url ---------------------------------------------------------------------------------- */

static void translate(char *text, size_t length, const char from[2], const char to[2])
{
	for (size_t i = 0; i < length; i++)
		for (int k = 0; k < 2; k++)
			if (text[i] == from[k])
				text[i] = to[k];
}

char *ldr_base64url_encode(const void *bytes, size_t length)
{
	static const uint8_t nothing[1];
	size_t room = length / 3 * 4 + 5;
	char *text = length < SIZE_MAX / 2 ? malloc(room) : NULL;
	size_t written = 0;

	if (!text)
		return NULL;
	if (mbedtls_base64_encode((unsigned char *)text, room, &written, length ? bytes : nothing,
				  length)) {
		free(text);
		return NULL;
	}
	while (written && text[written - 1] == '=')
		written--;
	text[written] = '\0';
	translate(text, written, "+/", "-_");
	return text;
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* mbedTLS skips white space and ignores left-over bits, either of which would give one value two
 * spellings. */
static enum ldr_status check_text(const char *text, size_t length, struct ldr_error *err)
{
	static const int left_over[4] = {0, 0, 15, 3};

	for (size_t i = 0; i < length; i++)
		if (value_of(text[i]) < 0)
			return ldr_fail(err, LDR_ECORRUPT, "base64url: byte 0x%02x at %zu",
					(unsigned char)text[i], i);
	if (length % 4 == 1)
		return ldr_fail(err, LDR_ECORRUPT, "base64url: %zu characters are no whole bytes",
				length);
	if (length && value_of(text[length - 1]) & left_over[length % 4])
		return ldr_fail(err, LDR_ECORRUPT, "base64url: left-over bits of '%c' are not zero",
				text[length - 1]);
	return LDR_OK;
}

enum ldr_status ldr_base64url_decode(const char *text, size_t length, uint8_t **out_bytes,
				     size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_FREE char *padded = NULL;
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	size_t whole = (length + 3) / 4 * 4;
	size_t written = 0;
	enum ldr_status status = check_text(text, length, err);

	if (status)
		return status;
	padded = malloc(whole + 1);
	bytes = malloc(whole / 4 * 3 + 1);
	if (!padded || !bytes)
		return ldr_fail(err, LDR_ENOMEM, "base64url: out of memory");
	ldr_copy(padded, text, length);
	memset(padded + length, '=', whole - length);
	translate(padded, length, "-_", "+/");
	if (mbedtls_base64_decode(bytes, whole / 4 * 3 + 1, &written, (unsigned char *)padded,
				  whole))
		return ldr_fail(err, LDR_ECORRUPT, "base64url: malformed");
	*out_bytes = LDR_STEAL(bytes);
	*out_length = written;
	return LDR_OK;
}
