/*
 * The publisher's batch form: many files become visible for the price of a few syncs.
 *
 * A batch owns TARGET/.larder/ for its life (lock file .larder/lock, OFD, not waiting). Its life:
 *
 *   begin    lock, open the descriptor for syncfs before the first write, so that no error is lost;
 *            check that .larder/tmp is on the target's file system
 *   create   temporaries in .larder/tmp under names that the caller derives from their content, so
 *            that a killed run finds them again (a found temporary is never trusted: the caller
 *            digests it); any number of threads at once
 *   apply    1 syncfs  2 the plan (.larder/plan) is published  3 folders, renames, symlinks, removals
 *            4 syncfs  5 the record (.larder/installed) is published  6 the plan and left temporaries go
 *
 * Invariants
 *  1. Before step 3 nothing outside .larder has changed.
 *  2. At every moment each path is wholly old or wholly new; a path that changes kind may be missing
 *     in between, and then the plan names the release that the next run must finish.
 *  3. Every path is resolved beneath the target by the kernel; a symlink on the way is LDR_ELINK.
 *  4. Steps after 3 can be repeated by the next run: the operations are idempotent.
 *  5. Untouched paths are not opened.
 *
 * Plan and record are the caller's bytes (client/install writes both in one format).
 */
#ifndef LDR_COMMON_BATCH_H
#define LDR_COMMON_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/error.h"
#include "common/publisher.h"

struct ldr_batch;

/* Makes TARGET and TARGET/.larder/tmp where missing. sync LDR_SYNC_NONE leaves both syncfs out.
 * LDR_ECONFLICT: another process works on this folder. */
LDR_API enum ldr_status ldr_batch_begin(const char *target, enum ldr_sync sync,
					struct ldr_batch **out_batch, struct ldr_error *err);
/* Gives up the lock and frees; keeps temporaries for the next run. NULL is allowed. */
LDR_API void ldr_batch_end(struct ldr_batch *batch);
/* The target and the .larder folder as roots, borrowed until end. */
const struct ldr_root *ldr_batch_target(const struct ldr_batch *batch);
const struct ldr_root *ldr_batch_private(const struct ldr_batch *batch);

/* Opens (read and write) the temporary `name` in .larder/tmp, creating it with mode 0600 where missing.
 * The caller closes the descriptor. Any thread. */
LDR_API enum ldr_status ldr_batch_open(struct ldr_batch *batch, const char *name, int *out_fd,
				       struct ldr_error *err);
/* Any thread. LDR_ENOTFOUND is success. */
LDR_API enum ldr_status ldr_batch_discard(struct ldr_batch *batch, const char *name,
					  struct ldr_error *err);
/* Removes every temporary for which keep(context, name) is false. */
LDR_API enum ldr_status ldr_batch_sweep(struct ldr_batch *batch,
					bool (*keep)(void *context, const char *name),
					void *context, struct ldr_error *err);

/* What apply does, in this order of kinds; inside a kind in the order of the array (give them sorted
 * by path: the batch keeps the last parent open). */
enum ldr_batch_kind {
	LDR_BATCH_REMOVE,  /* a file or symlink goes; LDR_ENOTFOUND is success */
	LDR_BATCH_UNMAKE,  /* an empty folder goes; a folder that is not empty stays, silently */
	LDR_BATCH_FOLDER,  /* a folder with this mode; a file or symlink in its place is replaced */
	LDR_BATCH_FILE,	   /* temporary `source` gets this path; replaces a file or symlink */
	LDR_BATCH_SYMLINK, /* symlink to `source`; replaces a file or symlink atomically */
	LDR_BATCH_MODE,	   /* only the mode of an existing file or folder */
};

struct ldr_batch_step {
	enum ldr_batch_kind kind;
	const char *path;   /* below the target; borrowed for the call */
	const char *source; /* temporary's name, or link target */
	mode_t mode;	    /* nine bits */
};

struct ldr_batch_plan {
	const struct ldr_batch_step *steps;
	size_t step_count;
	const void *plan; /* .larder/plan */
	size_t plan_bytes;
	const void *record; /* .larder/installed, made before apply; NULL: by the caller */
	size_t record_bytes;
};

/* Steps 1 to 4 and, with a record, 5 and 6. After an error the next run goes on: what was not renamed
 * is still in .larder/tmp. */
LDR_API enum ldr_status ldr_batch_apply(struct ldr_batch *batch, const struct ldr_batch_plan *plan,
					struct ldr_error *err);
/* Step 5 and 6 where the record needs what apply did (the files' stamps). */
LDR_API enum ldr_status ldr_batch_finish(struct ldr_batch *batch, const void *record,
					 size_t record_bytes, struct ldr_error *err);

#endif
