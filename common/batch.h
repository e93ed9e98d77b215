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
 *   apply    1 syncfs  2 the record's temporary is written, the plan (.larder/plan) is published
 *            3 folders, renames, symlinks, removals  4 syncfs  5 the record (.larder/installed) is
 *            published  6 the plan and left temporaries go
 *
 * Invariants
 *  1. Before step 3 nothing outside .larder has changed, and all that is written has found its room.
 *  2. At every moment each path is wholly old or wholly new; a path that changes kind may be missing
 *     in between, and then the plan names the release that the next run must finish.
 *  3. Every path is resolved beneath the target by the kernel; a symlink on the way is LDR_ELINK,
 *     and for a removal means that there is nothing to remove.
 *  4. Steps after 3 can be repeated by the next run: the operations are idempotent.
 *  5. Untouched paths are not opened.
 *  6. Nothing below .larder is a path of the batch, and no symlink that leads out of the target is made.
 *
 * .larder/tmp has mode 0700; temporaries are made 0644 there (less the umask), which most files keep,
 * so that installing a small file costs one open and one rename. A folder that its owner may not write
 * to is opened up for the time of the changes below it.
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

/* Opens (read and write) the temporary `name` in .larder/tmp, creating it where it is missing; a found one
 * is opened as it is. A name is 1 to 255 bytes, without '/', its first not '.'; else LDR_EINVAL. The
 * caller closes the descriptor. Any thread, each with names of its own. */
LDR_API enum ldr_status ldr_batch_open(struct ldr_batch *batch, const char *name, int *out_fd,
				       struct ldr_error *err);
/* Any thread. LDR_ENOTFOUND is success. */
LDR_API enum ldr_status ldr_batch_discard(struct ldr_batch *batch, const char *name,
					  struct ldr_error *err);
/* Removes every temporary for which keep(context, name) is false; all of them with a NULL keep. While no
 * other thread opens any. */
LDR_API enum ldr_status ldr_batch_sweep(struct ldr_batch *batch,
					bool (*keep)(void *context, const char *name),
					void *context, struct ldr_error *err);

/* What apply does, in this order of kinds; inside a kind in the order of the array (give them sorted
 * by path: the batch keeps the last parent open). */
enum ldr_batch_kind {
	LDR_BATCH_REMOVE, /* a file or symlink goes; LDR_ENOTFOUND is success */
	LDR_BATCH_UNMAKE, /* an empty folder goes; a folder that is not empty stays, silently. These in
			      the reverse of the array's order, so that sorted ones go from below */
	LDR_BATCH_FOLDER, /* a folder with this mode; what is there and no folder is replaced */
	LDR_BATCH_FILE, /* temporary `source` gets this path; replaces what is there, but of folders
			      only an empty one (else LDR_ENOTEMPTY) */
	LDR_BATCH_SYMLINK, /* symlink to `source`; replaces in the same way, atomically */
	LDR_BATCH_MODE,    /* only the mode of an existing file or folder */
};

struct ldr_batch_step {
	enum ldr_batch_kind kind;
	const char *path;   /* below the target; borrowed for the call */
	const char *source; /* temporary's name, or link target */
	mode_t mode;        /* nine bits */
};

struct ldr_batch_plan {
	const struct ldr_batch_step *steps;
	size_t step_count;
	const void *plan; /* .larder/plan */
	size_t plan_bytes;
	const void *record; /* .larder/installed, made before apply; NULL: by the caller */
	size_t record_bytes;
};

/* Steps 1 to 4 and, with a record, 5 and 6. All steps are checked before anything happens. After an error
 * the next run goes on: what was not renamed is still in .larder/tmp. The next run gives only those FILE
 * steps whose path has not got its content yet: a missing temporary is LDR_ENOTFOUND, all other steps may
 * be given again.
 * LDR_EINVAL, LDR_ELINK (a symlink on the way, or a target that leads outside), LDR_ENOTFOUND (a folder
 * above a path, or a temporary), LDR_ENOTEMPTY, LDR_EUNSUPPORTED (a path on another file system),
 * LDR_ENOSPACE, LDR_EDENIED ... */
LDR_API enum ldr_status ldr_batch_apply(struct ldr_batch *batch, const struct ldr_batch_plan *plan,
					struct ldr_error *err);
/* Step 5 and 6 where the record needs what apply did (the files' stamps). */
LDR_API enum ldr_status ldr_batch_finish(struct ldr_batch *batch, const void *record,
					 size_t record_bytes, struct ldr_error *err);

#endif
