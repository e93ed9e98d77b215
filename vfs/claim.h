/*
 * The claim on a layer as a write target: what all its mounts share, in one instance or in several.
 * Inside vfs/ only.
 *
 * A layer has one set of whiteouts, however often it is mounted, and one owner. The first mount as
 * a write target takes the claim: the layer's lock against other layers over the same place and
 * other processes (side_lock), then the copies that a dead owner left are removed, then the log of
 * whiteouts is read. The last one to go gives it back. Whiteouts of a layer that keeps no log stay
 * with the layer while it lives.
 *
 * The turn makes slow changes of names through the layer (parents, copies, whiteouts) one at a
 * time, whatever instance they come from.
 *
 * States: free -> busy (being taken) -> held, by a number of mounts -> busy (being given back) ->
 * free. Whoever wants the claim while it is busy waits.
 *
 * Locks: LDR_RANK_OVERLAY for the members, never held while the layer works.
 */
#ifndef LDR_VFS_CLAIM_H
#define LDR_VFS_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/lock.h"

struct ldr_hidden;
struct ldr_layer;

struct ldr_claim {
	struct ldr_mutex lock;
	struct ldr_condition changed;
	bool busy;
	bool turn_taken;
	uint32_t holders;          /* mounts */
	struct ldr_hidden *hidden; /* owns */
};

void ldr_claim_init(struct ldr_claim *claim);
/* Nobody holds it (asserted). */
void ldr_claim_dispose(struct ldr_claim *claim);

/* For one mount more. LDR_ECONFLICT: another layer or process has the place. Whatever reading the
 * log gives. *out_hidden stays until ldr_claim_give. */
enum ldr_status ldr_claim_take(struct ldr_layer *layer, struct ldr_hidden **out_hidden,
			       struct ldr_error *err);
void ldr_claim_give(struct ldr_layer *layer);

void ldr_claim_turn_take(struct ldr_claim *claim);
void ldr_claim_turn_give(struct ldr_claim *claim);

#endif
