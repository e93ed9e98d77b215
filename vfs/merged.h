/*
 * The merged table: every path of all immutable mounts of a snapshot, with who answers it. Inside
 * vfs/ only.
 *
 * A look-up is one hash over the path and mostly one cache line, however many packs are mounted.
 * The table holds no text: a path stands for itself by its XXH3-128 under a seed that is drawn at
 * random for each instance and never leaves it. With a million paths the chance that one look-up is
 * answered by another path is 2^-108; paths cannot be prepared to collide without the seed.
 *
 * A slot says which mount answers (the first in rank that has the path and is not cut off), by
 * which node, and of which kind. A mount is *cut* at a path when another one, asked before it, has
 * a file there: nothing of it is seen below. Mount points and the folders above them are in the
 * table always, as folders (LDR_SLOT_POINT), answered by nobody when no immutable mount has them.
 *
 * Threads: immutable after building.
 */
#ifndef LDR_VFS_MERGED_H
#define LDR_VFS_MERGED_H

#include "common/checksum.h"
#include "vfs/mounts.h"

#define LDR_RANK_NOBODY UINT16_MAX
#define LDR_SLOT_POINT 1u

struct ldr_slot {
	uint64_t low; /* the path's hash */
	uint64_t high;
	uint64_t node;
	uint16_t rank; /* of the mount that answers, or LDR_RANK_NOBODY */
	/* folders: mounts of a higher rank than this one have nothing below; NOBODY: all have */
	uint16_t cut;
	uint8_t kind; /* enum ldr_kind; 0: the slot is empty */
	uint8_t flags;
	uint16_t reserved;
};

_Static_assert(sizeof(struct ldr_slot) == 32, "two slots share a cache line");

struct ldr_merged {
	struct ldr_slot *slots;
	size_t mask;
	uint64_t seed;
	size_t count;
	size_t memory_bytes; /* of the slots */
};

/* Walks all immutable mounts of the snapshot. What a layer's walk fails with comes back. */
enum ldr_status ldr_merged_build(const struct ldr_snapshot *snapshot, uint64_t seed,
				 struct ldr_merged **out_merged, struct ldr_error *err);
void ldr_merged_free(struct ldr_merged *merged); /* NULL is allowed */

static inline const struct ldr_slot *ldr_merged_find(const struct ldr_merged *merged,
						     const char *path, size_t length)
{
	struct ldr_wide_hash hash = ldr_checksum_wide(path, length, merged->seed);
	size_t i = hash.low & merged->mask;

	for (;; i = (i + 1) & merged->mask) {
		const struct ldr_slot *slot = &merged->slots[i];

		if (slot->low == hash.low && slot->high == hash.high && slot->kind)
			return slot;
		if (!slot->kind)
			return NULL;
	}
}

/* True when a mount of this rank, which has something at path, is hidden by a file of an immutable
 * mount above it. */
bool ldr_merged_cuts(const struct ldr_merged *merged, const char *path, size_t length,
		     uint32_t rank);

#endif
