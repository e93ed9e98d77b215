/*
 * One object: opening it and letting it go. The table over them is objects.c.
 */
#ifndef LDR_SERVER_OBJECT_PRIV_H
#define LDR_SERVER_OBJECT_PRIV_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "server/guard.h"
#include "server/objects.h"

/* Quotes, 64 digits, NUL. */
#define ETAG_BYTES (LDR_ID_HEX_CHARS + 3)

struct ldr_object {
	atomic_uint refs;
	const void *bytes; /* owns: a mapping with guard, else heap */
	uint64_t length;
	struct ldr_guard_slot *guard; /* NULL: heap */
	struct ldr_stamp stamp;
	enum ldr_object_kind kind;
	char path[LDR_STORE_PATH_BYTES];
	char etag[ETAG_BYTES];

	/* The table's, under its lock. */
	uint64_t checked_ms;
	bool listed;
	TAILQ_ENTRY(ldr_object) use; /* the least lately used first */
	LIST_ENTRY(ldr_object) bucket;
};

/* Opens what the name says; one reference is the caller's. */
enum ldr_status object_open(const struct ldr_root *root, const struct ldr_object_name *name,
			    struct ldr_object **out_object, struct ldr_error *err);

#endif
