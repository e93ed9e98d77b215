/*
 * Obfuscated and encrypted blocks; see cipher.h.
 */
#include "packs/cipher.h"

#include <assert.h>
#include <string.h>

#include "packs/pack_priv.h"

#define INFO_SALT "larder pack 1: salt"
#define INFO_BLOCKS "larder pack 1: blocks"
#define INFO_PROOF "larder pack 1: proof"
#define PROOF_ROW_BYTES (4 + 8 + LDR_ID_BYTES)

void ldr_cipher_init(struct ldr_cipher *cipher, uint32_t flags, const uint8_t *title_key,
		     const uint8_t salt[LDR_PACK_SALT_BYTES])
{
	*cipher = (struct ldr_cipher){.flags = flags};
	if (!(flags & LDR_PACK_FLAG_ENCRYPTED))
		return;
	cipher->locked = !title_key;
	if (cipher->locked)
		return;
	ldr_derive_key(title_key, salt, LDR_PACK_SALT_BYTES, INFO_BLOCKS, cipher->block_key);
	ldr_derive_key(title_key, salt, LDR_PACK_SALT_BYTES, INFO_PROOF, cipher->proof_key);
}

void ldr_cipher_dispose(struct ldr_cipher *cipher)
{
	ldr_wipe(cipher, sizeof(*cipher));
}

void ldr_cipher_salt(const uint8_t title_key[LDR_TITLE_KEY_BYTES], const struct ldr_id *contents,
		     uint8_t out_salt[LDR_PACK_SALT_BYTES])
{
	uint8_t key[LDR_AEAD_KEY_BYTES], mac[LDR_MAC_BYTES];

	ldr_derive_key(title_key, NULL, 0, INFO_SALT, key);
	ldr_mac(key, contents->bytes, sizeof(contents->bytes), mac);
	memcpy(out_salt, mac, LDR_PACK_SALT_BYTES);
	ldr_wipe(key, sizeof(key));
}

void ldr_cipher_prove(const struct ldr_cipher *cipher, const uint8_t *header,
		      const struct ldr_proven_section *sections, unsigned count,
		      uint8_t out_proof[LDR_PACK_PROOF_BYTES])
{
	uint8_t text[HEADER_PROOF + LDR_PACK_SECTIONS_MAX * PROOF_ROW_BYTES];
	uint8_t mac[LDR_MAC_BYTES];
	size_t length = HEADER_PROOF;

	assert(count <= LDR_PACK_SECTIONS_MAX);
	memcpy(text, header, HEADER_PROOF);
	for (unsigned i = 0; i < count; i++) {
		ldr_put_le(text + length, 4, sections[i].kind);
		ldr_put_le(text + length + 4, 8, sections[i].length);
		memcpy(text + length + 12, sections[i].digest.bytes, LDR_ID_BYTES);
		length += PROOF_ROW_BYTES;
	}
	ldr_mac(cipher->proof_key, text, length, mac);
	memcpy(out_proof, mac, LDR_PACK_PROOF_BYTES);
}

/* Each byte with one of the block's id: the same way there and back. */
static void obfuscate(const struct ldr_id *id, const uint8_t *from, uint8_t *to, size_t length)
{
	size_t whole = length - length % LDR_ID_BYTES;

	for (size_t at = 0; at < whole; at += LDR_ID_BYTES)
		for (size_t i = 0; i < LDR_ID_BYTES; i++)
			to[at + i] = from[at + i] ^ id->bytes[i];
	for (size_t at = whole; at < length; at++)
		to[at] = from[at] ^ id->bytes[at - whole];
}

/* Nonce and associated data of a block. */
struct block_terms {
	uint8_t nonce[LDR_AEAD_NONCE_BYTES];
	uint8_t row[LDR_PACK_ENTRY_BYTES];
	struct ldr_aead_terms terms;
};

static void set_terms(const struct ldr_cipher *cipher, const struct ldr_pack_entry *entry,
		      struct block_terms *out)
{
	memset(out->nonce, 0, sizeof(out->nonce));
	ldr_put_le(out->nonce, 8, entry->offset);
	pack_put_entry(out->row, entry);
	out->terms = (struct ldr_aead_terms){cipher->block_key, out->nonce, out->row,
					     sizeof(out->row)};
}

void ldr_cipher_seal(const struct ldr_cipher *cipher, struct ldr_aead *aead,
		     const struct ldr_pack_entry *entry, const void *stored, void *out)
{
	struct block_terms block;

	if (!(cipher->flags & LDR_PACK_FLAG_ENCRYPTED)) {
		obfuscate(&entry->id, stored, out, entry->stored_bytes);
		return;
	}
	assert(!cipher->locked && entry->stored_bytes >= LDR_AEAD_TAG_BYTES);
	set_terms(cipher, entry, &block);
	ldr_aead_seal(aead, &block.terms, stored, entry->stored_bytes - LDR_AEAD_TAG_BYTES, out);
}

enum ldr_status ldr_cipher_open(const struct ldr_cipher *cipher, struct ldr_aead *aead,
				const struct ldr_pack_entry *entry, const void *sealed, void *out,
				struct ldr_error *err)
{
	struct block_terms block;

	if (!(cipher->flags & LDR_PACK_FLAG_ENCRYPTED)) {
		obfuscate(&entry->id, sealed, out, entry->stored_bytes);
		return LDR_OK;
	}
	if (cipher->locked)
		return ldr_fail(err, LDR_ENOKEY, "encrypted, and no key was given");
	assert(entry->stored_bytes >= LDR_AEAD_TAG_BYTES);
	set_terms(cipher, entry, &block);
	return ldr_aead_open(aead, &block.terms, sealed, entry->stored_bytes - LDR_AEAD_TAG_BYTES,
			     out, err);
}

enum ldr_status ldr_title_key_parse(const char *text, size_t length, const char *name,
				    uint8_t out_key[LDR_TITLE_KEY_BYTES], struct ldr_error *err)
{
	size_t digits = length;
	struct ldr_id bytes;

	if (digits > 0 && text[digits - 1] == '\n')
		digits--;
	if (digits > 0 && digits < length && text[digits - 1] == '\r')
		digits--;
	if (!ldr_id_from_hex(text, digits, &bytes))
		return ldr_fail(err, LDR_EINVAL,
				"%s: %zu characters, a key is 64 lower-case hexadecimal digits",
				name, digits);
	memcpy(out_key, bytes.bytes, LDR_TITLE_KEY_BYTES);
	ldr_wipe(&bytes, sizeof(bytes));
	return LDR_OK;
}
