/*
 * Change hints: a bounded list of paths that may have changed, for programs that reload what they
 * have loaded.
 *
 * A hint is a hint: it names a path of the instance whose file may be another one now, and says
 * nothing about how. Changes of one path within the debounce are one hint, given when the path has
 * been quiet that long. When more happens than the list can hold, a path cannot be looked at, or a
 * watched native layer has lost events, the sticky *rescan* flag is set: whatever one holds may be
 * stale; it stays until ldr_watch_rescanned is called. A consumer that on a rescan looks at
 * everything again, and else at what is hinted, ends up right whatever is lost.
 *
 * Hints come from looking: each step looks at one added path, in turn, as ldr_vfs_stat does, and
 * compares what it sees with the last time. So they come from every kind of layer, from changes of
 * mounts and from a live switch of releases (there a path whose bytes are the same in both gives
 * no hint), and nobody has to tell. In a watched native layer a path that is missing costs no
 * system call. A change that leaves size and time of a file as they were is not seen; one within
 * the same tick of the file system's clock is, by the debounce.
 *
 * Bounds: paths and hints at most as given at the beginning; a step is one look; no allocation
 * after ldr_watch_new. Never changes what readers see.
 *
 * Threads: any thread may call anything but ldr_watch_free; looks are made outside of the lock.
 * Time comes from the clock given, so that tests hold it.
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
	uint32_t debounce_ms;          /* (50); at least 20, a tick of a file system's clock */
	const struct ldr_clock *clock; /* borrowed; NULL: the system's */
};

/* Names one added path of one watch: tokens of removed paths and of other watches are told apart
 * (LDR_ESTALE). */
struct ldr_watch_token {
	uint32_t slot;
	uint32_t serial;
};

/* Borrows vfs. LDR_ELIMIT: more than the maxima above. LDR_EINVAL: a debounce below 20. */
LDR_API enum ldr_status ldr_watch_new(struct ldr_vfs *vfs, const struct ldr_watch_options *options,
				      struct ldr_watch **out_watch, struct ldr_error *err);
LDR_API void ldr_watch_free(struct ldr_watch *watch); /* NULL is allowed */

/* The path need not exist; what is seen now is what later looks are compared with, so add first and
 * load then. A file that was written just now may be hinted once for nothing. LDR_ELIMIT:
 * max_paths. LDR_EEXISTS: it is watched already. LDR_EINVAL: the path. */
LDR_API enum ldr_status ldr_watch_add(struct ldr_watch *watch, const char *path,
				      struct ldr_watch_token *out_token, struct ldr_error *err);
/* Its hints are forgotten. LDR_ESTALE: it is not one of the paths watched now. */
LDR_API enum ldr_status ldr_watch_remove(struct ldr_watch *watch, struct ldr_watch_token token,
					 struct ldr_error *err);

/* Looks at at most max_steps paths, then gives up to capacity hints whose debounce has passed; the
 * return value says how many. Call it once a frame. *out_rescan is the sticky flag. */
LDR_API size_t ldr_watch_poll(struct ldr_watch *watch, uint32_t max_steps,
			      struct ldr_watch_token *out_hints, size_t capacity, bool *out_rescan);
/* Clears the flag: call it before looking at everything again, so that what changes meanwhile sets
 * it anew. */
LDR_API void ldr_watch_rescanned(struct ldr_watch *watch);

#endif
