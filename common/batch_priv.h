/*
 * What batch.c (life, temporaries) and batch_apply.c (steps) share; for common's own files only.
 */
#ifndef LDR_COMMON_BATCH_PRIV_H
#define LDR_COMMON_BATCH_PRIV_H

#include "common/batch.h"

/* Immutable after begin. */
struct ldr_batch {
	struct ldr_root *target;
	struct ldr_root *private_root; /* TARGET/.larder */
	struct ldr_root *temporaries;  /* TARGET/.larder/tmp */
	int lock_fd;
	enum ldr_sync sync;
	mode_t mask;      /* permission bits that new files and folders lose (umask, default ACL) */
	mode_t made_mode; /* what temporaries are made with */
};

/* The batch's own name in .larder/tmp for a symlink that is to be renamed. */
#define LDR_BATCH_LINK_NAME ".link"

/* Whether a caller may give a temporary this name. */
bool ldr_batch_name_is(const char *name);

/* Checks every step; touches nothing. */
enum ldr_status ldr_batch_check_steps(const struct ldr_batch_step *steps, size_t count,
				      struct ldr_error *err);
/* The modes of the temporaries that are to become files. */
enum ldr_status ldr_batch_prepare_modes(struct ldr_batch *batch, const struct ldr_batch_step *steps,
					size_t count, struct ldr_error *err);
/* Step 3 of the batch's life. */
enum ldr_status ldr_batch_run_steps(struct ldr_batch *batch, const struct ldr_batch_step *steps,
				    size_t count, struct ldr_error *err);

#endif
