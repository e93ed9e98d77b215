/*
 * Trust: which keys may sign for a store, and the highest release seen of each channel.
 *
 * Both live in the cache folder and outlive `cache clear`:
 *
 *	trust/<32 hex>.json        a pin: for this location, this store id and this public key. Made when a
 *	                           record was checked with a key that the user gave (--trust); used when
 *	                           none is given. The name is a digest of the location.
 *	seen/<store>/<channel>     the newest record (JWS) seen of a channel
 *
 * A channel may never go back: a record with a lower sequence than the one seen, or the same sequence
 * with other bytes, is LDR_EUNTRUSTED. An operator goes back by publishing the older tree under a new
 * sequence. A sequence that the user names (`@n`) is neither checked nor remembered.
 *
 * Threads: one at a time per cache folder; several processes are safe (the publisher).
 */
#ifndef LDR_CLIENT_TRUST_H
#define LDR_CLIENT_TRUST_H

#include <stddef.h>

#include "common/keys.h"
#include "common/publisher.h"
#include "packs/release.h"

struct ldr_pin {
	struct ldr_public_key *key; /* owns */
	uint8_t store[LDR_STORE_ID_BYTES];
};

/* LDR_ENOTFOUND when nothing is pinned for the location; LDR_ECORRUPT names the file to remove. */
enum ldr_status ldr_trust_find_pin(const struct ldr_root *cache, const char *location,
				   struct ldr_pin *out_pin, struct ldr_error *err);
/* Remembers the pin, replacing another. */
enum ldr_status ldr_trust_pin(const struct ldr_root *cache, const char *location,
			      const struct ldr_public_key *key,
			      const uint8_t store[LDR_STORE_ID_BYTES], struct ldr_error *err);

/* Refuses a record that goes back, remembers one that goes on. LDR_ECONFLICT: others have held the
 * folder's lock for a second, the record is good but not remembered. */
enum ldr_status ldr_trust_advance(const struct ldr_root *cache, const struct ldr_release *release,
				  const char *jws, size_t length, const char *name,
				  struct ldr_public_key *const *keys, size_t key_count,
				  struct ldr_error *err);
/* The newest record seen of a channel of a pinned store, for use without a network. Owns: free(). */
enum ldr_status ldr_trust_seen(const struct ldr_root *cache,
			       const uint8_t store[LDR_STORE_ID_BYTES], const char *channel,
			       uint8_t **out_jws, size_t *out_length, struct ldr_error *err);

/* Removes what processes left that died while they remembered something. */
void ldr_trust_sweep(const struct ldr_root *cache);

#endif
