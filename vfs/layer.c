/*
 * A layer's object: counted references to a table and what stands behind it; see layer.h.
 */
#include "vfs/layer.h"

#include <assert.h>
#include <stdlib.h>

#include "vfs/layer_priv.h"

static const char *missing_function(const struct ldr_layer_ops *ops, unsigned traits)
{
	if (!ops->kind)
		return "a kind";
	if (!ops->stat || !ops->open || !ops->list)
		return "stat, open and list";
	if ((traits & LDR_LAYER_IMMUTABLE) && (!ops->walk || !ops->stat_node || !ops->open_node))
		return "walk, stat_node and open_node, which an immutable layer needs";
	if ((traits & LDR_LAYER_WRITABLE) &&
	    (!ops->mkdir || !ops->remove || !ops->rename || !ops->replace))
		return "mkdir, remove, rename and replace, which a writable layer needs";
	if (!ops->side_lock != !ops->side_unlock)
		return "both of side_lock and side_unlock";
	if (!ops->side_read != !ops->side_append || !ops->side_read != !ops->side_replace)
		return "all of side_read, side_append and side_replace";
	if (!ops->watch_names != !ops->unwatch_names || (ops->watch_names && !ops->name_count))
		return "name_count, watch_names and unwatch_names together";
	return NULL;
}

enum ldr_status ldr_layer_new(const struct ldr_layer_ops *ops, void *self, unsigned traits,
			      struct ldr_layer **out_layer, struct ldr_error *err)
{
	const unsigned known = LDR_LAYER_IMMUTABLE | LDR_LAYER_WRITABLE | LDR_LAYER_FOLDS;
	struct ldr_layer *layer;
	const char *missing;

	if (ops->size != sizeof(*ops))
		return ldr_fail(err, LDR_EINVAL, "layer: table of %zu bytes, known are %zu",
				ops->size, sizeof(*ops));
	if ((traits & ~known) || ((traits & LDR_LAYER_IMMUTABLE) && (traits & LDR_LAYER_WRITABLE)))
		return ldr_fail(err, LDR_EINVAL, "layer: traits 0x%x do not go together", traits);
	missing = missing_function(ops, traits);
	if (missing)
		return ldr_fail(err, LDR_EINVAL, "layer %s: its table lacks %s",
				ops->kind ? ops->kind : "without a kind", missing);
	layer = malloc(sizeof(*layer));
	if (!layer)
		return ldr_fail(err, LDR_ENOMEM, "layer %s: out of memory", ops->kind);
	*layer = (struct ldr_layer){.ops = ops, .self = self, .traits = traits, .references = 1};
	ldr_claim_init(&layer->claim);
	*out_layer = layer;
	return LDR_OK;
}

struct ldr_layer *ldr_layer_ref(struct ldr_layer *layer)
{
	atomic_fetch_add_explicit(&layer->references, 1, memory_order_relaxed);
	return layer;
}

void ldr_layer_unref(struct ldr_layer *layer)
{
	/* Pairs with the decrements of the others: the last one sees what they did. */
	if (!layer || atomic_fetch_sub_explicit(&layer->references, 1, memory_order_acq_rel) != 1)
		return;
	ldr_claim_dispose(&layer->claim);
	if (layer->ops->free)
		layer->ops->free(layer->self);
	free(layer);
}

void ldr_layer_cleanup(struct ldr_layer **layer)
{
	ldr_layer_unref(*layer);
}

const char *ldr_layer_kind(const struct ldr_layer *layer)
{
	return layer->ops->kind;
}

unsigned ldr_layer_traits(const struct ldr_layer *layer)
{
	return layer->traits;
}

void *ldr_layer_self(const struct ldr_layer *layer, const struct ldr_layer_ops *ops)
{
	return layer->ops == ops ? layer->self : NULL;
}
