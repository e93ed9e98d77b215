/*
 * SHA-256 (FIPS 180-4) over libcrypto, and the 32-byte ids made of it.
 *
 * A block's id, a pack's id and a tree's digest are all SHA-256 values. A hasher keeps libcrypto's
 * fetched algorithm and context, since fetching anew costs more than digesting a small block.
 *
 * Threads: a hasher belongs to one thread at a time; everything else is free of state.
 */
#ifndef LDR_COMMON_DIGEST_H
#define LDR_COMMON_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"

#define LDR_ID_BYTES 32
#define LDR_ID_HEX_CHARS 64

struct ldr_id {
	uint8_t bytes[LDR_ID_BYTES];
};

struct ldr_hasher;

/* Heap; NULL when libcrypto gives no SHA-256 or memory is out. */
struct ldr_hasher *ldr_hasher_new(void);
void ldr_hasher_free(struct ldr_hasher *hasher);
/* cleanup attribute for a `struct ldr_hasher *` */
void ldr_hasher_cleanup(struct ldr_hasher **hasher);
#define LDR_AUTO_HASHER __attribute__((cleanup(ldr_hasher_cleanup)))

/* Streaming: begin, update as often as wanted, end. A failing libcrypto is an assertion: there is no
 * input that makes it fail. */
void ldr_hasher_begin(struct ldr_hasher *hasher);
void ldr_hasher_update(struct ldr_hasher *hasher, const void *bytes, size_t length);
void ldr_hasher_end(struct ldr_hasher *hasher, struct ldr_id *out_id);

/* begin, update, end in one. */
void ldr_digest(struct ldr_hasher *hasher, const void *bytes, size_t length, struct ldr_id *out_id);

/* A single digest where no hasher is at hand (small, rare things: records, tokens). */
enum ldr_status ldr_digest_once(const void *bytes, size_t length, struct ldr_id *out_id,
				struct ldr_error *err);

/* 64 lower-case hexadecimal digits and a NUL. */
void ldr_id_to_hex(const struct ldr_id *id, char hex[LDR_ID_HEX_CHARS + 1]);
/* True for exactly 64 lower-case hexadecimal digits at text (length chars). */
bool ldr_id_from_hex(const char *text, size_t length, struct ldr_id *out_id);

static inline int ldr_id_compare(const struct ldr_id *a, const struct ldr_id *b)
{
	return memcmp(a->bytes, b->bytes, LDR_ID_BYTES);
}

static inline bool ldr_id_equal(const struct ldr_id *a, const struct ldr_id *b)
{
	return ldr_id_compare(a, b) == 0;
}

/* Ids are uniform: their first eight bytes are a hash already. */
static inline uint64_t ldr_id_hash(const struct ldr_id *id)
{
	uint64_t hash;

	memcpy(&hash, id->bytes, sizeof(hash));
	return hash;
}

#endif
