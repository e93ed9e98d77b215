/*
 * ECDSA P-256 keys over mbedTLS: make, load, sign, check.
 *
 * A signature is the raw form of JWS ES256 (RFC 7518 §3.4): r and s, 32 bytes each, big-endian. The
 * name of a key (kid) is its JWK thumbprint (RFC 7638): base64url of the SHA-256 of the canonical JWK,
 * 43 characters. Private keys are PEM (SEC1, unencrypted), public keys are PEM (SubjectPublicKeyInfo).
 *
 * Threads: a key is immutable after it is made; signing takes randomness from its own generator and
 * belongs to one thread at a time.
 */
#ifndef LDR_COMMON_KEYS_H
#define LDR_COMMON_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LDR_SIGNATURE_BYTES 64
#define LDR_KID_CHARS 43
#define LDR_KEY_PEM_MAX_BYTES 1024

struct ldr_key; /* private, with its public half */
struct ldr_public_key;

LDR_API enum ldr_status ldr_key_generate(struct ldr_key **out_key, struct ldr_error *err);
/* PEM text of at most LDR_KEY_PEM_MAX_BYTES; LDR_ECORRUPT when it is no P-256 key. `name` is for
 * messages. Zeroes nothing of the caller's. */
LDR_API enum ldr_status ldr_key_parse(const char *pem, size_t length, const char *name,
				      struct ldr_key **out_key, struct ldr_error *err);
LDR_API void ldr_key_free(struct ldr_key *key); /* wipes; NULL is allowed */
void ldr_key_cleanup(struct ldr_key **key);
#define LDR_AUTO_KEY __attribute__((cleanup(ldr_key_cleanup)))
/* NUL-terminated PEM. */
LDR_API enum ldr_status ldr_key_to_pem(const struct ldr_key *key, char pem[LDR_KEY_PEM_MAX_BYTES],
				       struct ldr_error *err);
/* A new object that the caller owns. */
LDR_API enum ldr_status ldr_key_public(const struct ldr_key *key,
				       struct ldr_public_key **out_public, struct ldr_error *err);
LDR_API enum ldr_status ldr_key_sign(struct ldr_key *key, const void *bytes, size_t length,
				     uint8_t signature[LDR_SIGNATURE_BYTES], struct ldr_error *err);

LDR_API enum ldr_status ldr_public_key_parse(const char *pem, size_t length, const char *name,
					     struct ldr_public_key **out_key,
					     struct ldr_error *err);
LDR_API void ldr_public_key_free(struct ldr_public_key *key);
void ldr_public_key_cleanup(struct ldr_public_key **key);
#define LDR_AUTO_PUBLIC_KEY __attribute__((cleanup(ldr_public_key_cleanup)))
LDR_API enum ldr_status ldr_public_key_to_pem(const struct ldr_public_key *key,
					      char pem[LDR_KEY_PEM_MAX_BYTES],
					      struct ldr_error *err);
/* NUL-terminated, borrowed until free. */
LDR_API const char *ldr_public_key_kid(const struct ldr_public_key *key);
/* LDR_EUNTRUSTED when the signature is not this key's over these bytes. */
LDR_API enum ldr_status ldr_public_key_check(const struct ldr_public_key *key, const void *bytes,
					     size_t length,
					     const uint8_t signature[LDR_SIGNATURE_BYTES],
					     struct ldr_error *err);

/* Cryptographic randomness from the system (getrandom), for ids and tokens. */
LDR_API enum ldr_status ldr_random(void *bytes, size_t length, struct ldr_error *err);

/* base64url without padding (RFC 7515 §2). Encoding gives a NUL-terminated string that the caller
 * frees, NULL on no memory; decoding refuses padding, foreign characters and non-zero left-over bits,
 * and gives bytes that the caller frees. */
LDR_API char *ldr_base64url_encode(const void *bytes, size_t length);
LDR_API enum ldr_status ldr_base64url_decode(const char *text, size_t length, uint8_t **out_bytes,
					     size_t *out_length, struct ldr_error *err);

#endif
