/*
 * A release as a layer: what a view shows (client/view.h), mounted.
 *
 * The tree and, over the network, the whole map (14 bytes a block) are fetched when the layer is made;
 * after that a read asks for nothing but blocks: memory, packs at hand, disk cache, hosts. Offline, what
 * is held is read and the rest is LDR_EOFFLINE. A local pack goes the same way; for one that is only
 * mounted, vfs/layer_tree.h is enough.
 *
 * Threads: as all layers; immutable.
 */
#ifndef LDR_CLIENT_RELEASE_LAYER_H
#define LDR_CLIENT_RELEASE_LAYER_H

#include "client/view.h"
#include "vfs/layer.h"

/* Takes the view on success: it is closed with the layer's end, and the caller may only ask it for
 * counts (ldr_view_traffic) until then. On failure it stays the caller's. Owns: ldr_layer_unref. */
LDR_API enum ldr_status ldr_release_layer_new(struct ldr_view *view, struct ldr_layer **out_layer,
					      struct ldr_error *err);
/* The same with a view of its own; memory_bytes of 0 is 64 MiB here. */
LDR_API enum ldr_status ldr_release_layer_open(const struct ldr_location *location,
					       const struct ldr_view_options *options,
					       struct ldr_layer **out_layer, struct ldr_error *err);

#endif
