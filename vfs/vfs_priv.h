/*
 * What the files of the core share: the instance, lookups, handles. Inside vfs/ only.
 *
 * Locks: `lock` (LDR_RANK_VFS) for the lists of mounts, snapshots and departed mounts, never held
 * over a layer's function; `mount_turn` makes changes of mounts one at a time: it is a flag under
 * `lock` with a condition, so that no mutex is held while a layer works. Slow changes of names
 * (copies, whiteouts, folders) have a turn for each layer that is written: claim.h.
 */
#ifndef LDR_VFS_VFS_PRIV_H
#define LDR_VFS_VFS_PRIV_H

#include "vfs/epoch.h"
#include "vfs/file.h"
#include "vfs/handles.h"
#include "vfs/hidden.h"
#include "vfs/merged.h"
#include "vfs/mounts.h"

struct ldr_turn {
	bool taken;
	struct ldr_condition given;
};

struct ldr_vfs {
	struct ldr_epoch epoch;
	_Atomic(struct ldr_snapshot *) snapshot; /* never NULL; stored under lock */
	struct ldr_handles handles;
	struct ldr_shelf *shelf; /* shares */
	uint64_t seed;
	size_t max_copy_bytes; /* 0: no limit */

	struct ldr_mutex lock;
	struct ldr_turn mount_turn; /* changes of mounts */
	uint64_t next_order;
	_Atomic uint64_t wakes;       /* how often a layer that was empty told of a name */
	struct ldr_mounted *departed; /* list; freed when dead */
	struct ldr_snapshot *retired; /* list; freed by the keeper */
	struct ldr_condition work;    /* for the keeper */
	struct ldr_condition settled; /* for whoever waits for the keeper */
	uint64_t published;           /* snapshots */
	uint64_t released;            /* of these, those that nobody sees any more or is present */
	bool merge_failed;            /* for the present snapshot: lookups stay by path */
	bool ending;
	bool keeper_works;
	pthread_t keeper;

	_Atomic uint64_t copied_up;
	_Atomic uint64_t copy_ticket;
};

void ldr_turn_take(struct ldr_vfs *vfs, struct ldr_turn *turn);
void ldr_turn_give(struct ldr_vfs *vfs, struct ldr_turn *turn);

/* ---- keeper.c: merges tables and frees what nobody sees any more ---- */

/* With the first snapshot, which has no mounts. */
enum ldr_status ldr_keeper_start(struct ldr_vfs *vfs, struct ldr_error *err);
/* Everything is freed; no handle may be open. */
void ldr_keeper_stop(struct ldr_vfs *vfs);
/* Puts next in the place of the present snapshot; under lock. */
void ldr_keeper_publish(struct ldr_vfs *vfs, struct ldr_snapshot *next);
/* Waits until no lookup sees a snapshot that was replaced before the call. */
void ldr_keeper_wait(struct ldr_vfs *vfs);
/* A handle of a departed mount was closed: it may be dead now. */
void ldr_keeper_wake(struct ldr_vfs *vfs);

/* ---- texts of errors ---- */

/*
 * A layer's text is taken into an object of ours, whose status is LDR_OK before the call, and
 * handed on from there: so the caller's object stays untouched by mounts that have nothing, should
 * a later one answer, and a layer that fails without a text shows nobody what lay in memory.
 */
static inline void ldr_why_begin(struct ldr_error *why)
{
	why->status = LDR_OK;
}

/* For where the caller's object is handed to the layer itself (one layer is asked, and quickly): a
 * text is written where the layer has written none. Gives status. */
enum ldr_status ldr_why_check(enum ldr_status status, struct ldr_error *err);
/* Gives status. */
enum ldr_status ldr_why_tell(const struct ldr_error *why, enum ldr_status status,
			     struct ldr_error *err);

/* ---- lookup.c ---- */

/* A lookup in progress: one path in one snapshot. */
struct ldr_lookup {
	const struct ldr_snapshot *snapshot;
	const char *path;
	size_t length;
};

/* What a visit brings back; the verbs fill what they know. */
struct ldr_visit {
	const struct ldr_lookup *lookup;
	struct ldr_layer_file *file; /* open: into it */
	struct ldr_stat *stat;       /* stat: into it */
	struct ldr_mounted *mounted; /* who answered; NULL: only a folder above a mount point */
	uint32_t rank;               /* of mounted */
	bool saw_notdir;             /* somebody said that a parent is a file */
	bool saw_whiteout;           /* the lookup ended at a whiteout */
};

/* What is asked of a mount. A miss is LDR_ENOTFOUND. */
struct ldr_verbs {
	enum ldr_status (*by_path)(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				   const struct ldr_layer_path *rel, struct ldr_error *err);
	enum ldr_status (*by_node)(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				   const struct ldr_slot *slot, struct ldr_error *err);
	/* The path is a mount point or above one. */
	enum ldr_status (*point)(struct ldr_visit *visit, struct ldr_error *err);
};

extern const struct ldr_verbs ldr_verbs_stat;
extern const struct ldr_verbs ldr_verbs_exists;
extern const struct ldr_verbs ldr_verbs_open;

/* Asks the mounts in order. LDR_ENOTFOUND carries no text: ldr_lookup_say writes it. Within the
 * epoch. */
enum ldr_status ldr_lookup_ask(const struct ldr_verbs *verbs, struct ldr_visit *visit,
			       struct ldr_error *err);
/* One mount, by path, as ask does. *out_end: nobody below is to be asked. */
enum ldr_status ldr_lookup_ask_one(const struct ldr_verbs *verbs, struct ldr_visit *visit,
				   uint32_t rank, bool *out_end, struct ldr_error *err);
/* The status of a failed ask for the caller: a miss becomes LDR_ENOTDIR where a parent is a file;
 * writes the text. */
enum ldr_status ldr_lookup_say(const struct ldr_visit *visit, enum ldr_status status,
			       struct ldr_error *err);
/* What the mounts behind rank have at the path, whiteouts of those before not considered;
 * LDR_ENOTFOUND: nothing. */
enum ldr_status ldr_lookup_below(const struct ldr_lookup *lookup, uint32_t rank,
				 struct ldr_stat *out, struct ldr_error *err);
/* A mount has a file at one of the path's parents, but one that lies where a mount point, or a
 * folder above one, must be: it hides nothing. */
bool ldr_lookup_file_is_covered(const struct ldr_lookup *lookup, const struct ldr_mounted *mounted,
				const struct ldr_layer_path *rel);

/* ---- listing.c ---- */

/* The memory of lists that were freed, for the next ones. NULL: out of memory. */
struct ldr_shelf *ldr_shelf_new(void);
void ldr_shelf_unref(struct ldr_shelf *shelf); /* NULL is allowed; lists may live on */
/* Within the epoch; as ldr_vfs_list. */
enum ldr_status ldr_listing_make(struct ldr_shelf *shelf, const struct ldr_lookup *lookup,
				 struct ldr_list **out_list, struct ldr_error *err);

/* Path check, epoch and snapshot in one; leave with ldr_lookup_end. */
static inline enum ldr_status ldr_lookup_begin(struct ldr_vfs *vfs, const char *path,
					       struct ldr_lookup *lookup,
					       struct ldr_epoch_stay *stay, struct ldr_error *err)
{
	enum ldr_status status = ldr_path_measure(path, &lookup->length, err);

	if (status != LDR_OK)
		return status;
	lookup->path = path;
	*stay = ldr_epoch_enter(&vfs->epoch);
	lookup->snapshot = atomic_load(&vfs->snapshot);
	return LDR_OK;
}

/* ---- overlay.c, copy_up.c ---- */

/* Opens for writing in the path's write target, into file; counts nothing. */
enum ldr_status ldr_overlay_open(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				 unsigned flags, struct ldr_layer_file *file,
				 struct ldr_mounted **out_mounted, struct ldr_error *err);
/* The file that the lookup finds now, copied to `to` inside the target's layer, whose parents are
 * there: it appears whole. Under the turn of the target's claim. */
enum ldr_status ldr_copy_up(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
			    const struct ldr_mounted *target, const struct ldr_layer_path *to,
			    struct ldr_error *err);
/* Removes copies that a dead owner left; for whoever has the claim, while nobody else uses it. */
void ldr_copy_sweep(const struct ldr_layer_ops *ops, void *layer_self);

#endif
