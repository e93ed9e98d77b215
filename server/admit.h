/*
 * What a store lets in: the rules for records and channels, apart from how they arrive.
 *
 * A record is let in when
 *  1. its signature is by a key that the store accepts: one of the publish keys where the operator named
 *     some; else the key of the channel's current release (by induction that of its first one); else, for
 *     a new channel, the key keys/<kid>.pub that lies in the store;
 *  2. it carries the store's id, and the channel and sequence of its path;
 *  3. every pack that it lists lies in the store with the size that it says.
 *
 * A channel moves to a record when the record is let in and
 *  4. it lies in the store as a release, byte for byte;
 *  5. its `previous` names the channel's current release, and its sequence is higher (for a new channel:
 *     it has no previous);
 *  6. its closure is whole (packs/closure.h).
 *
 * Threads: any; nothing is kept between calls.
 */
#ifndef LDR_SERVER_ADMIT_H
#define LDR_SERVER_ADMIT_H

#include "common/keys.h"
#include "common/publisher.h"
#include "packs/release.h"

/* All borrowed. */
struct ldr_admission {
	const struct ldr_root *root;
	const uint8_t *store; /* LDR_STORE_ID_BYTES */
	struct ldr_public_key *const *keys;
	size_t key_count;
};

/* A record as it came, and where it belongs. */
struct ldr_candidate {
	const char *path;
	const char *channel;
	const char *jws;
	size_t length;
};

/* Rules 1 to 3; sequence 0 means any. LDR_EUNTRUSTED, LDR_ECORRUPT, ...; LDR_ENOTFOUND: a pack. On success
 * *out must be disposed. */
enum ldr_status ldr_admit_record(const struct ldr_admission *admission,
				 const struct ldr_candidate *candidate, uint64_t sequence,
				 struct ldr_release *out, struct ldr_error *err);

/* Rules 4 to 6, after 1 to 3. current is the channel as it is; its jws is NULL for a new channel.
 * LDR_ECONFLICT: rule 5; LDR_ENOTFOUND: the release or a part of it is not in the store; LDR_ECORRUPT. */
enum ldr_status ldr_admit_move(const struct ldr_admission *admission,
			       const struct ldr_candidate *candidate,
			       const struct ldr_release *release,
			       const struct ldr_candidate *current, struct ldr_error *err);

#endif
