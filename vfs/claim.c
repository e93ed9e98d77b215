/*
 * Taking and giving back claims; see claim.h.
 */
#include "vfs/claim.h"

#include <assert.h>

#include "vfs/vfs_priv.h"

void ldr_claim_init(struct ldr_claim *claim)
{
	*claim = (struct ldr_claim){.busy = false};
	ldr_mutex_init(&claim->lock, LDR_RANK_OVERLAY);
	ldr_condition_init(&claim->changed);
}

void ldr_claim_dispose(struct ldr_claim *claim)
{
	assert(claim->holders == 0 && !claim->busy && !claim->turn_taken);
	ldr_hidden_free(claim->hidden);
	ldr_condition_dispose(&claim->changed);
	ldr_mutex_dispose(&claim->lock);
}

static void wait_while_busy(struct ldr_claim *claim)
{
	while (claim->busy)
		ldr_condition_wait(&claim->changed, &claim->lock);
}

/* Busy, so alone. */
static enum ldr_status open_claim(struct ldr_layer *layer, struct ldr_error *err)
{
	const struct ldr_layer_ops *ops = layer->ops;
	struct ldr_claim *claim = &layer->claim;
	enum ldr_status status = LDR_OK;

	if (ops->side_lock)
		status = ops->side_lock(layer->self, err);
	if (status != LDR_OK)
		return status;
	ldr_copy_sweep(ops, layer->self);
	if (!claim->hidden)
		status = ldr_hidden_load(ops, layer->self, &claim->hidden, err);
	if (status != LDR_OK && ops->side_unlock)
		ops->side_unlock(layer->self);
	return status;
}

static void close_claim(struct ldr_layer *layer)
{
	struct ldr_claim *claim = &layer->claim;

	if (layer->ops->side_read) {
		ldr_hidden_free(claim->hidden);
		claim->hidden = NULL;
	}
	if (layer->ops->side_unlock)
		layer->ops->side_unlock(layer->self);
}

enum ldr_status ldr_claim_take(struct ldr_layer *layer, struct ldr_hidden **out_hidden,
			       struct ldr_error *err)
{
	struct ldr_claim *claim = &layer->claim;
	enum ldr_status status = LDR_OK;

	ldr_mutex_lock(&claim->lock);
	wait_while_busy(claim);
	if (claim->holders == 0) {
		claim->busy = true;
		ldr_mutex_unlock(&claim->lock);
		status = open_claim(layer, err);
		ldr_mutex_lock(&claim->lock);
		claim->busy = false;
		ldr_condition_broadcast(&claim->changed);
	}
	if (status == LDR_OK) {
		claim->holders++;
		*out_hidden = claim->hidden;
	}
	ldr_mutex_unlock(&claim->lock);
	return status;
}

void ldr_claim_give(struct ldr_layer *layer)
{
	struct ldr_claim *claim = &layer->claim;

	ldr_mutex_lock(&claim->lock);
	wait_while_busy(claim);
	if (--claim->holders == 0) {
		claim->busy = true;
		ldr_mutex_unlock(&claim->lock);
		close_claim(layer);
		ldr_mutex_lock(&claim->lock);
		claim->busy = false;
		ldr_condition_broadcast(&claim->changed);
	}
	ldr_mutex_unlock(&claim->lock);
}

void ldr_claim_turn_take(struct ldr_claim *claim)
{
	ldr_mutex_lock(&claim->lock);
	while (claim->turn_taken)
		ldr_condition_wait(&claim->changed, &claim->lock);
	claim->turn_taken = true;
	ldr_mutex_unlock(&claim->lock);
}

void ldr_claim_turn_give(struct ldr_claim *claim)
{
	ldr_mutex_lock(&claim->lock);
	claim->turn_taken = false;
	ldr_condition_broadcast(&claim->changed);
	ldr_mutex_unlock(&claim->lock);
}
