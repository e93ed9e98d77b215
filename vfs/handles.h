/*
 * The pool of handles. Inside vfs/ only.
 *
 * Handles come in slabs that are never given back before the instance ends, cut into one free list
 * per stripe of threads. Taking and giving back one is a few instructions under the stripe's own
 * flag, which other threads seldom want; a handle returns to the stripe it came from, so lists do
 * not drift. Memory is allocated only when a stripe has more handles open than ever before.
 */
#ifndef LDR_VFS_HANDLES_H
#define LDR_VFS_HANDLES_H

#include <stdatomic.h>

#include "common/lock.h"
#include "vfs/file.h"
#include "vfs/mounts.h"

struct ldr_vfs;

struct ldr_file {
	struct ldr_layer_file layer;
	struct ldr_mounted *mounted; /* counts itself there */
	struct ldr_vfs *vfs;
	unsigned flags; /* enum ldr_open_flag */
	_Atomic uint32_t references;
	uint32_t stripe;
	struct ldr_file *next; /* free */
};

struct ldr_handle_slab;

struct ldr_handles {
	uint32_t max;
	_Atomic uint32_t made;
	struct {
		_Alignas(64) atomic_flag busy;
		_Atomic uint32_t open;
		struct ldr_file *free;
		struct ldr_handle_slab *slabs;
	} stripes[LDR_STRIPES];
};

void ldr_handles_init(struct ldr_handles *handles, uint32_t max);
/* None may be open (asserted). */
void ldr_handles_dispose(struct ldr_handles *handles);
/* One reference, everything else zero. LDR_ELIMIT, LDR_ENOMEM. */
enum ldr_status ldr_handles_take(struct ldr_handles *handles, struct ldr_file **out_file,
				 struct ldr_error *err);
void ldr_handles_give(struct ldr_handles *handles, struct ldr_file *file);
uint64_t ldr_handles_open(struct ldr_handles *handles);

#endif
