/*
 * SHA-256 over libcrypto; see digest.h.
 */
#include "common/digest.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>

struct ldr_hasher {
	EVP_MD *algorithm;
	EVP_MD_CTX *context;
};

struct ldr_hasher *ldr_hasher_new(void)
{
	struct ldr_hasher *hasher = calloc(1, sizeof(*hasher));

	if (!hasher)
		return NULL;
	hasher->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
	hasher->context = EVP_MD_CTX_new();
	if (!hasher->algorithm || !hasher->context) {
		ldr_hasher_free(hasher);
		return NULL;
	}
	return hasher;
}

void ldr_hasher_free(struct ldr_hasher *hasher)
{
	if (!hasher)
		return;
	EVP_MD_CTX_free(hasher->context);
	EVP_MD_free(hasher->algorithm);
	free(hasher);
}

void ldr_hasher_cleanup(struct ldr_hasher **hasher)
{
	ldr_hasher_free(*hasher);
}

void ldr_hasher_begin(struct ldr_hasher *hasher)
{
	int done = EVP_DigestInit_ex2(hasher->context, hasher->algorithm, NULL);

	assert(done == 1);
	(void)done;
}

void ldr_hasher_update(struct ldr_hasher *hasher, const void *bytes, size_t length)
{
	int done = length ? EVP_DigestUpdate(hasher->context, bytes, length) : 1;

	assert(done == 1);
	(void)done;
}

void ldr_hasher_end(struct ldr_hasher *hasher, struct ldr_id *out_id)
{
	int done = EVP_DigestFinal_ex(hasher->context, out_id->bytes, NULL);

	assert(done == 1);
	(void)done;
}

void ldr_digest(struct ldr_hasher *hasher, const void *bytes, size_t length, struct ldr_id *out_id)
{
	ldr_hasher_begin(hasher);
	ldr_hasher_update(hasher, bytes, length);
	ldr_hasher_end(hasher, out_id);
}

enum ldr_status ldr_digest_once(const void *bytes, size_t length, struct ldr_id *out_id,
				struct ldr_error *err)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();

	if (!hasher)
		return ldr_fail(err, LDR_ENOMEM, "sha-256: no hasher");
	ldr_digest(hasher, bytes, length, out_id);
	return LDR_OK;
}

void ldr_id_to_hex(const struct ldr_id *id, char hex[LDR_ID_HEX_CHARS + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < LDR_ID_BYTES; i++) {
		hex[2 * i] = digits[id->bytes[i] >> 4];
		hex[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	hex[LDR_ID_HEX_CHARS] = '\0';
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool ldr_id_from_hex(const char *text, size_t length, struct ldr_id *out_id)
{
	struct ldr_id id;

	if (length != LDR_ID_HEX_CHARS)
		return false;
	for (int i = 0; i < LDR_ID_BYTES; i++) {
		int high = digit_of(text[2 * i]);
		int low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		id.bytes[i] = (uint8_t)(high << 4 | low);
	}
	*out_id = id;
	return true;
}
