/*
 * What an installation or update has to do: the target folder as it is, what was installed there, and
 * the tree that is wanted, compared path by path.
 *
 * A file is kept when it has the stamp of the installation and the wanted tree has the same content for
 * it; or when its bytes, digested, are the wanted ones. All others are written, whole, as temporaries
 * whose names come from path and content, so that a killed run finds them again.
 *
 * Threads: made by one; while the temporaries are filled, the fields that say so are atomic.
 */
#ifndef LDR_CLIENT_PLAN_H
#define LDR_CLIENT_PLAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/installation.h"
#include "common/batch.h"
#include "packs/tree_reader.h"

#define LDR_TEMPORARY_CHARS 32
#define LDR_PLAN_NONE UINT32_MAX

struct ldr_planned_file {
	uint32_t node; /* of the wanted tree */
	char temporary[LDR_TEMPORARY_CHARS + 1];
	uint32_t first_destination; /* of block_count that follow each other */
	atomic_uint_least32_t blocks_left;
};

/* A place in a temporary where a wanted block goes. */
struct ldr_destination {
	uint32_t file;   /* index into files */
	uint32_t next;   /* another destination of the same block, or LDR_PLAN_NONE */
	uint32_t wanted; /* index of the block */
	bool filled;     /* touched by the thread that has the block */
	uint64_t offset;
};

/* A block that the temporaries need, once however often it is needed. */
struct ldr_wanted_block {
	uint64_t ordinal;      /* of its first appearance in the wanted tree */
	uint32_t destinations; /* first of the chain; LDR_PLAN_NONE: all are filled */
	uint32_t local_node;   /* file of the old tree that has it, or LDR_PLAN_NONE */
	uint64_t local_offset;
};

struct ldr_plan {
	const struct ldr_tree *tree; /* wanted; borrowed */
	struct ldr_file_stamp
		*stamps; /* one for each node: kept files now, written ones when they are */
	struct ldr_planned_file *files;
	uint32_t file_count;
	struct ldr_destination *destinations;
	uint64_t destination_count;
	struct ldr_wanted_block *wanted; /* by rising ordinal */
	uint64_t wanted_count;
	struct ldr_batch_step *steps; /* borrow their strings from `strings` */
	char **strings;               /* two for each step; owns */
	size_t step_count;
	size_t step_room;
	size_t removal_steps; /* the first so many of them: what goes */
	size_t removals;      /* of these, files and links */
	uint64_t bytes_to_write;
};

/* Compares. old and interrupted may be NULL: nothing installed; no update was cut off. The wanted tree
 * must outlive the plan. Files without a matching stamp but of the right size are digested here. */
enum ldr_status ldr_plan_make(const struct ldr_root *target, const struct ldr_tree *tree,
			      const struct ldr_installation *old,
			      const struct ldr_installation *interrupted,
			      struct ldr_plan **out_plan, struct ldr_error *err);
void ldr_plan_free(struct ldr_plan *plan); /* NULL is allowed */

#endif
