/*
 * Change hints: a bounded list of paths that may have changed, for programs that reload what they
 * have loaded.
 *
 * A hint is a hint: it names a path of the instance whose file may be another one now, and says
 * nothing about how. Hints for one path within the debounce are one. When more happens than the
 * list can hold, or the system lost events, the sticky *rescan* flag is set: whatever one holds may
 * be stale; it stays until ldr_watch_rescanned is called. A consumer that on a rescan looks at
 * everything again, and else at what is hinted, ends up right whatever is lost.
 *
 * Sources: native layers (the paths that were asked for with ldr_watch_add), and changes of mounts,
 * such as a live switch of releases (each added path that now answers from another node).
 *
 * Bounds: paths and hints at most as given at the beginning; no allocation after ldr_watch_new.
 * Never changes what readers see.
 *
 * Threads: any thread may call anything but ldr_watch_free; time comes from the clock given, so
 * that tests hold it.
 */
#ifndef LDR_VFS_WATCH_H
#define LDR_VFS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "vfs/vfs.h"

struct ldr_watch;

#define LDR_WATCH_PATHS_MAX 4096u
#define LDR_WATCH_HINTS_MAX 4096u

/* Zero means the default in brackets. */
struct ldr_watch_options {
	size_t size;                   /* sizeof(struct ldr_watch_options) */
	uint32_t max_paths;            /* (128) */
	uint32_t max_hints;            /* (128) */
	uint32_t debounce_ms;          /* (50) */
	const struct ldr_clock *clock; /* borrowed; NULL: the system's */
};

/* Names one added path; stale and foreign ones are told apart by serial (LDR_ESTALE). */
struct ldr_watch_token {
	uint32_t slot;
	uint32_t serial;
};

/* Borrows vfs. LDR_ELIMIT: more than the maxima above. */
LDR_API enum ldr_status ldr_watch_new(struct ldr_vfs *vfs, const struct ldr_watch_options *options,
				      struct ldr_watch **out_watch, struct ldr_error *err);
LDR_API void ldr_watch_free(struct ldr_watch *watch); /* NULL is allowed */

/* The path need not exist. LDR_ELIMIT: max_paths. LDR_EEXISTS: it is watched already. */
LDR_API enum ldr_status ldr_watch_add(struct ldr_watch *watch, const char *path,
				      struct ldr_watch_token *out_token, struct ldr_error *err);
LDR_API enum ldr_status ldr_watch_remove(struct ldr_watch *watch, struct ldr_watch_token token,
					 struct ldr_error *err);

/* Looks at at most max_steps events or paths without waiting, then gives up to capacity hints whose
 * debounce has passed. Call it once a frame. *out_rescan is the sticky flag. */
LDR_API enum ldr_status ldr_watch_poll(struct ldr_watch *watch, uint32_t max_steps,
				       struct ldr_watch_token *out_hints, size_t capacity,
				       size_t *out_count, bool *out_rescan, struct ldr_error *err);
/* Clears the flag: call it before looking at everything again, so that what changes meanwhile sets
 * it anew. */
LDR_API void ldr_watch_rescanned(struct ldr_watch *watch);

#endif
