/*
 * The objects of a store as bytes in memory, ready to be sent: packs as mappings, the small ones (channel,
 * record, key, FORMAT) as copies.
 *
 * The life of an object: opened when it is first asked for, checked (a pack's length against its trailer,
 * a regular file, no symlink), kept in a table for the next who asks, and let go when the table is full
 * and it was used least lately, when its file has changed, or when its mapping broke (guard.h). Responses
 * hold references, so that bytes under way outlive the table's interest.
 *
 * Invariants
 *  1. The table holds at most max_objects objects and max_copied_bytes of copies; what is referenced by
 *     responses alone counts no longer.
 *  2. A channel is compared with its file at every request. Immutable objects are compared at most once in
 *     recheck_ms, so that a removed file is missing soon without a system call a request.
 *  3. No I/O happens under the lock: two threads may open the same object, and the later one stays.
 *
 * Locks: one mutex (LDR_RANK_SERVER) over table and use list. Threads: any.
 */
#ifndef LDR_SERVER_OBJECTS_H
#define LDR_SERVER_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/publisher.h"
#include "packs/layout.h"

struct ldr_objects;
struct ldr_object;

/* Zero means the default in brackets. */
struct ldr_objects_options {
	const struct ldr_root *root;   /* the store; borrowed until free */
	const struct ldr_clock *clock; /* (the system's) */
	size_t max_objects;            /* (512) */
	size_t max_copied_bytes;       /* (64 MiB) */
	uint64_t recheck_ms;           /* (1,000) */
};

enum ldr_status ldr_objects_new(const struct ldr_objects_options *options,
				struct ldr_objects **out_objects, struct ldr_error *err);
/* All references that responses hold must be gone. NULL is allowed. */
void ldr_objects_free(struct ldr_objects *objects);

/* A reference to the object. LDR_ENOTFOUND; LDR_ECORRUPT: a pack whose length is not the one that its
 * trailer tells; LDR_EAGAIN: no mapping is free; and others from the system. */
enum ldr_status ldr_objects_get(struct ldr_objects *objects, const struct ldr_object_name *name,
				struct ldr_object **out_object, struct ldr_error *err);
/* Drops what the table knows of this name, for whoever has just changed it. */
void ldr_objects_forget(struct ldr_objects *objects, const struct ldr_object_name *name);

/* Constant while a reference is held. The ETag has its quotes: a pack's is its id, any other's the
 * SHA-256 of its bytes. */
const void *ldr_object_bytes(const struct ldr_object *object);
uint64_t ldr_object_length(const struct ldr_object *object);
const char *ldr_object_etag(const struct ldr_object *object);
/* The file got shorter underneath the mapping: what was sent of it cannot be trusted. */
bool ldr_object_broken(const struct ldr_object *object);
struct ldr_object *ldr_object_ref(struct ldr_object *object);
void ldr_object_unref(struct ldr_object *object); /* NULL is allowed; any thread */

struct ldr_objects_stat {
	size_t objects;
	size_t copied_bytes;
	uint64_t opened;
	uint64_t dropped;
};
void ldr_objects_stat(struct ldr_objects *objects, struct ldr_objects_stat *out);

#endif
