/*
 * A release as a layer; see release_layer.h.
 *
 * Invariant: when the layer is made, everything of the view that its reads ask for has been fetched, so
 * that any thread may ask (view.h).
 */
#include "client/release_layer.h"

#include <stdlib.h>

#include "common/bytes.h"
#include "vfs/layer_tree.h"

#define DEFAULT_MEMORY_BYTES ((size_t)64 * 1024 * 1024)
#define PLACES_AT_ONCE 4096u

static enum ldr_status places(void *context, uint64_t first, uint64_t count,
			      struct ldr_placed_block *out, struct ldr_error *err)
{
	return ldr_view_places(context, first, count, out, err);
}

static enum ldr_status fetch_map(struct ldr_view *view, uint64_t blocks, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_placed_block *some = calloc(PLACES_AT_ONCE, sizeof(*some));
	enum ldr_status status = LDR_OK;

	if (!some)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", ldr_view_name(view));
	for (uint64_t first = 0; status == LDR_OK && first < blocks; first += PLACES_AT_ONCE)
		status = ldr_view_places(view, first,
					 blocks - first < PLACES_AT_ONCE ? blocks - first
									 : PLACES_AT_ONCE,
					 some, err);
	return status;
}

static void close_view(void *view)
{
	ldr_view_close(view);
}

enum ldr_status ldr_release_layer_new(struct ldr_view *view, struct ldr_layer **out_layer,
				      struct ldr_error *err)
{
	const struct ldr_placement placement = {.context = view, .places = places};
	struct ldr_tree_layer_parts parts = {
		.size = sizeof(parts),
		.is_release = !ldr_view_is_pack(view),
		.locked = ldr_view_is_locked(view),
		.source = ldr_view_source(view),
		.memory = ldr_view_memory(view),
		.owner = view,
		.owner_free = close_view,
	};
	enum ldr_status status = ldr_view_tree(view, &parts.tree, err);

	/* Who has nobody above needs no places: what is not held cannot be had. */
	if (status == LDR_OK && ldr_view_upstream(view)) {
		parts.placement = &placement;
		status = fetch_map(view, ldr_tree_totals(parts.tree)->blocks, err);
	}
	return status == LDR_OK ? ldr_layer_tree_new(&parts, out_layer, err) : status;
}

enum ldr_status ldr_release_layer_open(const struct ldr_location *location,
				       const struct ldr_view_options *options,
				       struct ldr_layer **out_layer, struct ldr_error *err)
{
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_view_options given = *options;
	enum ldr_status status;

	if (given.memory_bytes == 0)
		given.memory_bytes = DEFAULT_MEMORY_BYTES;
	status = ldr_view_open(location, &given, &view, err);
	if (status == LDR_OK)
		status = ldr_release_layer_new(view, out_layer, err);
	if (status == LDR_OK)
		(void)LDR_STEAL(view);
	return status;
}
