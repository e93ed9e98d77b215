/*
 * What stands between a block's stored form and the bytes of an obfuscated or encrypted pack
 * (docs/formats/pack.md, "Packs with keys"). Local archives only; no published pack is either.
 *
 * Everything of an encrypted pack hangs on its title key, 32 bytes that the owner keeps, and the
 * salt in its header, which follows from title key and contents: no two contents share a key, so the
 * offset in the pack is a nonce that comes once. A block is sealed with its whole entry as associated
 * data; the proof in the header seals the index and the tree.
 *
 * Threads: immutable after init; a context of common/aead belongs to one thread at a time.
 */
#ifndef LDR_PACKS_CIPHER_H
#define LDR_PACKS_CIPHER_H

#include <stdbool.h>

#include "common/aead.h"
#include "packs/pack.h"

struct ldr_cipher {
	uint32_t flags; /* of the header; 0: the stored forms lie there as they are */
	bool locked;    /* encrypted, and no key was given */
	uint8_t block_key[LDR_AEAD_KEY_BYTES];
	uint8_t proof_key[LDR_AEAD_KEY_BYTES];
};

/* What a section adds to the proof. */
struct ldr_proven_section {
	uint32_t kind;
	uint64_t length;
	struct ldr_id digest;
};

/* title_key may be NULL. */
void ldr_cipher_init(struct ldr_cipher *cipher, uint32_t flags, const uint8_t *title_key,
		     const uint8_t salt[LDR_PACK_SALT_BYTES]);
void ldr_cipher_dispose(struct ldr_cipher *cipher); /* wipes */
/* How much longer the bytes in the pack are than the stored form. */
static inline uint32_t ldr_cipher_extra(uint32_t flags)
{
	return flags & LDR_PACK_FLAG_ENCRYPTED ? LDR_AEAD_TAG_BYTES : 0;
}

/* The salt of a pack whose blocks, not yet sealed, have this digest (SHA-256 of the sections
 * entries and checksums as a plain pack would have them, one behind the other). */
void ldr_cipher_salt(const uint8_t title_key[LDR_TITLE_KEY_BYTES], const struct ldr_id *contents,
		     uint8_t out_salt[LDR_PACK_SALT_BYTES]);
/* The proof over the header up to itself and the sections; at most LDR_PACK_SECTIONS_MAX. */
void ldr_cipher_prove(const struct ldr_cipher *cipher, const uint8_t *header,
		      const struct ldr_proven_section *sections, unsigned count,
		      uint8_t out_proof[LDR_PACK_PROOF_BYTES]);

/* stored has entry->stored_bytes less ldr_cipher_extra, out gets entry->stored_bytes and may be stored
 * itself. aead is used for encrypted packs alone. */
void ldr_cipher_seal(const struct ldr_cipher *cipher, struct ldr_aead *aead,
		     const struct ldr_pack_entry *entry, const void *stored, void *out);
/* The way back: `sealed` has entry->stored_bytes, at least ldr_cipher_extra. LDR_EUNTRUSTED, and out is
 * zeroed; LDR_ENOKEY. */
enum ldr_status ldr_cipher_open(const struct ldr_cipher *cipher, struct ldr_aead *aead,
				const struct ldr_pack_entry *entry, const void *sealed, void *out,
				struct ldr_error *err);

/* A key file is 64 lower-case hexadecimal digits and at most one line end behind them (`openssl rand
 * -hex 32`). LDR_EINVAL names the file. */
enum ldr_status ldr_title_key_parse(const char *text, size_t length, const char *name,
				    uint8_t out_key[LDR_TITLE_KEY_BYTES], struct ldr_error *err);

#endif
