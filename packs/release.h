/*
 * The release: one signed record. docs/formats/release.md is the normative text.
 *
 * A record is a JWS in compact form (RFC 7515), header exactly {"alg":"ES256","kid":"..."}; anything
 * else is refused before the payload is looked at, and the payload is parsed only after its signature
 * has been checked. Signature and content are one object, so no cache can serve halves.
 *
 * Packs carry explicit numbers: rising, never used again within a channel's history, so that maps stay
 * similar from release to release and a pack that nothing refers to any more can leave the list.
 *
 * Threads: immutable after parsing.
 */
#ifndef LDR_PACKS_RELEASE_H
#define LDR_PACKS_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys.h"
#include "packs/layout.h"
#include "packs/map.h"
#include "packs/tree_reader.h"

#define LDR_RELEASE_FORMAT 1u
#define LDR_RELEASE_MAX_BYTES (6u * 1024 * 1024) /* base64url of a 4 MiB payload, and a little */
#define LDR_RELEASE_PAYLOAD_MAX_BYTES (4u * 1024 * 1024)
#define LDR_CHANNEL_MAX_CHARS 64
#define LDR_NOTE_MAX_BYTES 1024

struct ldr_release_pack {
	uint32_t number;
	struct ldr_id id;
	uint64_t size_bytes;
};

/* Everything in the payload. Owns packs. */
struct ldr_release {
	uint8_t store[LDR_STORE_ID_BYTES]; /* random, made at the store's first publication */
	char channel[LDR_CHANNEL_MAX_CHARS + 1];
	uint64_t sequence; /* from 1 */
	int64_t created_s; /* seconds since 1970 */
	int64_t expires_s; /* 0: never. Matters only when following over the network */
	struct ldr_tree_totals totals;
	uint64_t tree_bytes;
	uint64_t map_bytes;
	struct ldr_placed_block top;
	struct ldr_release_pack *packs; /* rising by number */
	uint32_t pack_count;
	uint64_t previous_sequence;    /* 0: the channel's first release */
	struct ldr_id previous_digest; /* of the previous record's bytes */
	struct ldr_id tree_digest;     /* SHA-256 of the tree's bytes: names the content */
	char note[LDR_NOTE_MAX_BYTES + 1];
	/* Set by verify and sign, not part of the payload: */
	struct ldr_id digest; /* SHA-256 of the record's bytes (the JWS) */
	char kid[LDR_KID_CHARS + 1];
};

void ldr_release_dispose(struct ldr_release *release);
#define LDR_AUTO_RELEASE __attribute__((cleanup(ldr_release_dispose)))

/* Channel names: 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit. */
LDR_API bool ldr_channel_name_ok(const char *name);

/* Signs and gives the JWS, NUL-terminated (owns: free()); sets release->digest and kid.
 * LDR_EINVAL when a field breaks its rule. Same fields, same key: same bytes. */
LDR_API enum ldr_status ldr_release_sign(struct ldr_release *release, struct ldr_key *key,
					 char **out_jws, size_t *out_length, struct ldr_error *err);

/* The kid of a JWS whose header is exactly right, without trusting anything else of it. */
LDR_API enum ldr_status ldr_release_kid(const char *jws, size_t length,
					char out_kid[LDR_KID_CHARS + 1], struct ldr_error *err);

/* Checks the signature with whichever of the keys the header names, then parses. LDR_EUNTRUSTED: the
 * key is not among them, or the signature is wrong; LDR_ECORRUPT: malformed; LDR_EUNSUPPORTED: another
 * format number; LDR_ELIMIT. `name` (URL or file) is for messages. On success *out must be disposed. */
LDR_API enum ldr_status ldr_release_verify(const char *jws, size_t length, const char *name,
					   struct ldr_public_key *const *keys, size_t key_count,
					   struct ldr_release *out, struct ldr_error *err);

/* The pack with this number, or NULL. */
LDR_API const struct ldr_release_pack *ldr_release_pack(const struct ldr_release *release,
							uint32_t number);
/* The place lies inside a listed pack's block area, else LDR_ECORRUPT naming pack and both values. */
LDR_API enum ldr_status ldr_release_check_place(const struct ldr_release *release,
						const struct ldr_place *place,
						struct ldr_error *err);

#endif
