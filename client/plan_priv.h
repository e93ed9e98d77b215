/*
 * Between the two files that make a plan.
 */
#ifndef LDR_CLIENT_PLAN_PRIV_H
#define LDR_CLIENT_PLAN_PRIV_H

#include "client/plan.h"
#include "common/digest.h"

/* Appends a step; copies path and source (which may be NULL). */
enum ldr_status ldr_plan_step(struct ldr_plan *plan, enum ldr_batch_kind kind, const char *path,
			      const char *source, size_t source_length, uint32_t mode,
			      struct ldr_error *err);
/* Appends a file that is to be written, with its step. */
enum ldr_status ldr_plan_file(struct ldr_plan *plan, uint32_t index,
			      const struct ldr_tree_node *node, const char *path,
			      struct ldr_hasher *hasher, struct ldr_error *err);
/* When all files are known: the blocks that they need, and where the old installation has them. */
enum ldr_status ldr_plan_blocks(struct ldr_plan *plan, const struct ldr_installation *old,
				struct ldr_error *err);

#endif
