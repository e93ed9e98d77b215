/*
 * AES-256-GCM over libcrypto, HKDF and HMAC over mbedTLS; see aead.h.
 */
#include "common/aead.h"

#include <assert.h>
#include <mbedtls/hkdf.h>
#include <mbedtls/md.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct ldr_aead {
	EVP_CIPHER *algorithm;
	EVP_CIPHER_CTX *context;
};

struct ldr_aead *ldr_aead_new(void)
{
	struct ldr_aead *aead = calloc(1, sizeof(*aead));

	if (!aead)
		return NULL;
	aead->algorithm = EVP_CIPHER_fetch(NULL, "AES-256-GCM", NULL);
	aead->context = EVP_CIPHER_CTX_new();
	if (!aead->algorithm || !aead->context) {
		ldr_aead_free(aead);
		return NULL;
	}
	return aead;
}

void ldr_aead_free(struct ldr_aead *aead)
{
	if (!aead)
		return;
	EVP_CIPHER_CTX_free(aead->context);
	EVP_CIPHER_free(aead->algorithm);
	free(aead);
}

void ldr_aead_cleanup(struct ldr_aead **aead)
{
	ldr_aead_free(*aead);
}

void ldr_aead_seal(struct ldr_aead *aead, const struct ldr_aead_terms *terms, const void *plain,
		   size_t length, void *sealed)
{
	int got = 0, rest = 0;
	int done = EVP_EncryptInit_ex2(aead->context, aead->algorithm, terms->key, terms->nonce,
				       NULL);

	if (done == 1 && terms->data_length)
		done = EVP_EncryptUpdate(aead->context, NULL, &got, terms->data,
					 (int)terms->data_length);
	got = 0;
	if (done == 1 && length)
		done = EVP_EncryptUpdate(aead->context, sealed, &got, plain, (int)length);
	if (done == 1)
		done = EVP_EncryptFinal_ex(aead->context, (uint8_t *)sealed + got, &rest);
	if (done == 1)
		done = EVP_CIPHER_CTX_ctrl(aead->context, EVP_CTRL_AEAD_GET_TAG, LDR_AEAD_TAG_BYTES,
					   (uint8_t *)sealed + length);
	assert(done == 1 && (size_t)got == length && rest == 0);
	(void)done;
}

/* True when everything is as it was sealed. */
static bool open_sealed(struct ldr_aead *aead, const struct ldr_aead_terms *terms,
			const uint8_t *sealed, size_t length, uint8_t *plain)
{
	uint8_t tag[LDR_AEAD_TAG_BYTES];
	int got = 0;

	memcpy(tag, sealed + length, sizeof(tag));
	if (EVP_DecryptInit_ex2(aead->context, aead->algorithm, terms->key, terms->nonce, NULL) !=
	    1)
		return false;
	if (terms->data_length &&
	    EVP_DecryptUpdate(aead->context, NULL, &got, terms->data, (int)terms->data_length) != 1)
		return false;
	if (length && EVP_DecryptUpdate(aead->context, plain, &got, sealed, (int)length) != 1)
		return false;
	if (EVP_CIPHER_CTX_ctrl(aead->context, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) != 1)
		return false;
	return EVP_DecryptFinal_ex(aead->context, plain + length, &got) == 1;
}

enum ldr_status ldr_aead_open(struct ldr_aead *aead, const struct ldr_aead_terms *terms,
			      const void *sealed, size_t length, void *plain, struct ldr_error *err)
{
	if (open_sealed(aead, terms, sealed, length, plain))
		return LDR_OK;
	OPENSSL_cleanse(plain, length);
	return ldr_fail(err, LDR_EUNTRUSTED,
			"%zu sealed bytes: the tag does not match: another key, or changed bytes",
			length);
}

void ldr_derive_key(const uint8_t secret[LDR_AEAD_KEY_BYTES], const void *salt, size_t salt_length,
		    const char *info, uint8_t out_key[LDR_AEAD_KEY_BYTES])
{
	int code = mbedtls_hkdf(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), salt, salt_length,
				secret, LDR_AEAD_KEY_BYTES, (const uint8_t *)info, strlen(info),
				out_key, LDR_AEAD_KEY_BYTES);

	assert(code == 0);
	(void)code;
}

void ldr_mac(const uint8_t key[LDR_AEAD_KEY_BYTES], const void *bytes, size_t length,
	     uint8_t out_mac[LDR_MAC_BYTES])
{
	int code = mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), key,
				   LDR_AEAD_KEY_BYTES, bytes, length, out_mac);

	assert(code == 0);
	(void)code;
}

bool ldr_same_secret(const void *a, const void *b, size_t length)
{
	return CRYPTO_memcmp(a, b, length) == 0;
}

void ldr_wipe(void *bytes, size_t length)
{
	OPENSSL_cleanse(bytes, length);
}
