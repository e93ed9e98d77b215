/*
 * A layer's object, as the core sees it. Inside vfs/ only.
 */
#ifndef LDR_VFS_LAYER_PRIV_H
#define LDR_VFS_LAYER_PRIV_H

#include <stdatomic.h>

#include "vfs/claim.h"
#include "vfs/layer.h"

struct ldr_layer {
	const struct ldr_layer_ops *ops;
	void *self;
	unsigned traits;
	_Atomic uint32_t references;
	uint32_t depth; /* how many archives it lies in, its own counted; set before it is shared */
	struct ldr_claim claim;
};

#endif
