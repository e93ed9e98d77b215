/*
 * Sealed bytes: AES-256-GCM (NIST SP 800-38D) over libcrypto, HKDF (RFC 5869) and HMAC (RFC 2104),
 * both with SHA-256, over mbedTLS.
 *
 * A sealed text is the ciphertext and behind it the 16-byte tag. Opening proves text and associated
 * data; without that no byte of it is given out. Never seal two texts with the same key and nonce:
 * that gives both of them away, and the key's tags with them.
 *
 * Threads: a context belongs to one thread at a time; everything else is free of state.
 */
#ifndef LDR_COMMON_AEAD_H
#define LDR_COMMON_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LDR_AEAD_KEY_BYTES 32u
#define LDR_AEAD_NONCE_BYTES 12u
#define LDR_AEAD_TAG_BYTES 16u
#define LDR_MAC_BYTES 32u

struct ldr_aead;

/* Under what a text is sealed; all borrowed for the call. */
struct ldr_aead_terms {
	const uint8_t *key;   /* LDR_AEAD_KEY_BYTES */
	const uint8_t *nonce; /* LDR_AEAD_NONCE_BYTES */
	const void *data;     /* associated data: proven, not hidden */
	size_t data_length;
};

/* Heap; NULL when libcrypto gives no AES-256-GCM or memory is out. */
struct ldr_aead *ldr_aead_new(void);
void ldr_aead_free(struct ldr_aead *aead); /* wipes; NULL is allowed */
void ldr_aead_cleanup(struct ldr_aead **aead);
#define LDR_AUTO_AEAD __attribute__((cleanup(ldr_aead_cleanup)))

/* Writes length + LDR_AEAD_TAG_BYTES to sealed, which may be plain itself. A failing libcrypto is an
 * assertion: there is no input that makes it fail. length is at most 2^31 - 64. */
void ldr_aead_seal(struct ldr_aead *aead, const struct ldr_aead_terms *terms, const void *plain,
		   size_t length, void *sealed);
/* sealed has length + LDR_AEAD_TAG_BYTES, plain gets length bytes and may be sealed itself.
 * LDR_EUNTRUSTED: text, data, nonce or key are not those of the sealing; plain is then zeroed. */
enum ldr_status ldr_aead_open(struct ldr_aead *aead, const struct ldr_aead_terms *terms,
			      const void *sealed, size_t length, void *plain,
			      struct ldr_error *err);

/* A key derived from a secret of 32 bytes: HKDF with this salt and the text `info`. */
void ldr_derive_key(const uint8_t secret[LDR_AEAD_KEY_BYTES], const void *salt, size_t salt_length,
		    const char *info, uint8_t out_key[LDR_AEAD_KEY_BYTES]);
void ldr_mac(const uint8_t key[LDR_AEAD_KEY_BYTES], const void *bytes, size_t length,
	     uint8_t out_mac[LDR_MAC_BYTES]);
/* Whether two runs of bytes are the same, in a time that does not tell where they differ. */
bool ldr_same_secret(const void *a, const void *b, size_t length);
/* Overwrites key material so that no compiler leaves it out. */
void ldr_wipe(void *bytes, size_t length);

#endif
