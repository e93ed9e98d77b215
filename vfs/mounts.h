/*
 * Mounts and their snapshots. Inside vfs/ only.
 *
 * A *mounted* is one mount, from mounting to the last handle opened through it; a *snapshot* is the
 * list of all mounts in the order in which they are asked, immutable, replaced as a whole by every
 * change.
 *
 * Life of a mounted: made by a change; listed by snapshots; departed when a change took it away and
 * every lookup that could have seen it has left (the keeper says so); freed when departed and no
 * handle counts itself in it, by the keeper.
 *
 * Invariants
 *  1. A handle is counted only inside a lookup (within the epoch), so a departed mounted's
 *     counts can only fall.
 *  2. Ranks are places in a snapshot's list: a lower rank is asked first.
 *
 * Locks: lists of mounteds and snapshots belong to the instance's lock (LDR_RANK_VFS); the counts
 * and flags are atomic.
 */
#ifndef LDR_VFS_MOUNTS_H
#define LDR_VFS_MOUNTS_H

#include <stdatomic.h>
#include <string.h>

#include "common/lock.h"
#include "vfs/layer_priv.h"
#include "vfs/vfs.h"

struct ldr_hidden;
struct ldr_merged;

struct ldr_mounted {
	uint32_t id;
	int32_t precedence;
	unsigned flags;
	uint64_t order;          /* among equals the higher one is asked first */
	uint64_t serial;         /* grows with every mount made; never 0 */
	struct ldr_layer *layer; /* shares */
	const struct ldr_layer_ops *ops;
	void *self;
	const _Atomic uint64_t *name_count; /* of the layer; NULL: not told */
	_Atomic uint64_t *wakes;            /* the instance's, told by the layer; NULL: not told */
	char *at;                           /* owns */
	size_t at_bytes;
	bool by_path; /* live, or immutable but folding: never in the merged table */
	/* The layer's, shared by all its mounts; write targets only, else NULL. From mounting until
	 * no lookup sees the mount any more the claim on the layer is held (claim.h). */
	struct ldr_hidden *hidden;
	_Atomic uint32_t listed; /* in how many snapshots; changed under the instance's lock */
	_Atomic bool stale;
	_Atomic bool departed;
	struct ldr_mounted *next; /* in a list of departed ones */
	struct {
		_Alignas(64) _Atomic uint32_t count;
	} handles[LDR_STRIPES];
};

struct ldr_snapshot {
	uint64_t generation;
	struct ldr_merged *merged; /* owns; NULL until it is built */
	bool any_immutable;        /* there is something to merge */
	bool any_hidden;           /* a write target is mounted, so that whiteouts can be */
	bool any_folds;            /* a mount folds case */
	bool live_below;           /* a mount asked by path ranks below one in the merged table */
	/* the lowest rank that is asked by path; count when there is none */
	uint32_t first_by_path;
	struct ldr_snapshot *next; /* in the list of retired ones */
	uint32_t count;
	uint32_t by_path_count;
	uint32_t *by_path; /* ranks of the mounts asked by path, rising; behind the mounts */
	/* Those of them that were not empty, or would not say when they are not any more. Only they
	 * need be asked as long as *wakes is what it was; behind by_path. */
	uint32_t *awake;
	uint32_t awake_count;
	uint64_t wakes_seen;
	const _Atomic uint64_t *wakes; /* NULL: awake is the same as by_path */
	struct ldr_mounted *mounts[];
};

/* True when path lies at or under the mount's point; *out_rel is then its place inside the layer.
 * */
static inline bool ldr_mounted_covers(const struct ldr_mounted *mounted, const char *path,
				      size_t length, struct ldr_layer_path *out_rel)
{
	size_t at = mounted->at_bytes;

	if (at > 0) {
		if (length < at || memcmp(path, mounted->at, at) != 0)
			return false;
		if (length > at) {
			if (path[at] != '/')
				return false;
			at++;
		}
	}
	out_rel->text = path + at;
	out_rel->length = length - at;
	out_rel->fold_case = (mounted->flags & LDR_MOUNT_FOLD_CASE) != 0;
	return true;
}

/* A reserved name at a layer's root, or below it. */
bool ldr_mounted_reserves(const char *rel, size_t length, bool fold_case);

/* Whether all mounts that were empty when the snapshot was made are so still. Relaxed: who made a
 * name before this lookup began has also told this thread of it in a way that orders the count. */
static inline bool ldr_snapshot_sleeps(const struct ldr_snapshot *snapshot)
{
	return snapshot->wakes &&
	       atomic_load_explicit(snapshot->wakes, memory_order_relaxed) == snapshot->wakes_seen;
}

/* Whether path is a mount point or a folder above one ("" always is). */
bool ldr_snapshot_is_point(const struct ldr_snapshot *snapshot, const char *path, size_t length);

/* Whether the mount of this rank hides what those behind it have at the path, whose place in it is
 * rel. In whatever case where it folds, or one that would be asked behind it. */
bool ldr_mounted_hides(const struct ldr_snapshot *snapshot, uint32_t rank, const char *path,
		       size_t length, const struct ldr_layer_path *rel);
/* The same question of names to be hidden: whether they are compared in any case. */
bool ldr_mounted_folds_hidden(const struct ldr_snapshot *snapshot, uint32_t rank, const char *path,
			      size_t length, const struct ldr_layer_path *rel);

/* Checks and makes one; takes the claim on the layer of a write target. Owns: ldr_mounted_free,
 * which gives the layer back. */
enum ldr_status ldr_mounted_new(const struct ldr_mount *mount, uint64_t order,
				_Atomic uint64_t *wakes, struct ldr_mounted **out_mounted,
				struct ldr_error *err);
void ldr_mounted_free(struct ldr_mounted *mounted);
/* Nothing is written through it any more: gives back the claim, if it has one. */
void ldr_mounted_disclaim(struct ldr_mounted *mounted);
/* True when nobody can reach it any more: departed and without handles. */
bool ldr_mounted_is_dead(struct ldr_mounted *mounted);

/* A snapshot of these mounts, which it puts in order; counts itself in each (listed). */
enum ldr_status ldr_snapshot_new(struct ldr_mounted *const *mounts, size_t count,
				 uint64_t generation, struct ldr_snapshot **out_snapshot,
				 struct ldr_error *err);
/* Frees the list and the table; the caller has looked after listed. */
void ldr_snapshot_free(struct ldr_snapshot *snapshot);

#endif
