/*
 * Changes of mounts: each makes a new list out of the present one and publishes it as a whole.
 */
#include <stdlib.h>

#include "vfs/vfs_priv.h"

/* A list in the making. Mounts that a change took away wait in `gone` for nothing: the snapshot
 * that lists them keeps them. */
struct draft {
	struct ldr_mounted **mounts; /* owns the array, borrows what it had, owns what is new */
	size_t count;
	size_t capacity;
	bool frees_a_target; /* a mount that is written through goes */
};

static struct ldr_mounted **find_id(struct draft *draft, uint32_t id)
{
	for (size_t i = 0; i < draft->count; i++) {
		if (draft->mounts[i]->id == id)
			return &draft->mounts[i];
	}
	return NULL;
}

static enum ldr_status draft_of(struct ldr_vfs *vfs, size_t more, struct draft *out,
				struct ldr_error *err)
{
	const struct ldr_snapshot *present;

	/* The keeper frees what is not present any more; under the lock the present one stays so.
	 * */
	ldr_mutex_lock(&vfs->lock);
	present = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);
	out->capacity = present->count + more;
	out->count = present->count;
	out->frees_a_target = false;
	out->mounts = malloc((out->capacity + 1) * sizeof(out->mounts[0]));
	if (out->mounts && present->count > 0)
		memcpy(out->mounts, present->mounts, present->count * sizeof(out->mounts[0]));
	ldr_mutex_unlock(&vfs->lock);
	return out->mounts ? LDR_OK : ldr_fail(err, LDR_ENOMEM, "mounts: out of memory");
}

/* One nobody has seen: listed by no snapshot. */
static void drop_if_new(struct ldr_mounted *mounted)
{
	if (mounted->listed == 0)
		ldr_mounted_free(mounted);
}

static void draft_drop(struct draft *draft)
{
	for (size_t i = 0; i < draft->count; i++)
		drop_if_new(draft->mounts[i]);
	free(draft->mounts);
}

/* Its place in the draft is the caller's to fill. */
static void let_go(struct draft *draft, struct ldr_mounted *mounted)
{
	draft->frees_a_target |= mounted->hidden != NULL;
	drop_if_new(mounted);
}

static enum ldr_status apply_one(struct ldr_vfs *vfs, struct draft *draft,
				 const struct ldr_mount *change, struct ldr_error *err)
{
	struct ldr_mounted **place = find_id(draft, change->id);
	struct ldr_mounted *mounted;
	enum ldr_status status;

	if (!change->layer) {
		if (!place)
			return ldr_fail(err, LDR_ENOTFOUND, "mount %u: there is none", change->id);
		mounted = *place;
		*place = draft->mounts[--draft->count];
		let_go(draft, mounted);
		return LDR_OK;
	}
	if (!place && draft->count >= LDR_VFS_MOUNTS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "mount %u: %zu mounts, limit %u", change->id,
				draft->count, LDR_VFS_MOUNTS_MAX);
	status = ldr_mounted_new(change, vfs->next_order, &vfs->wakes, &mounted, err);
	if (status != LDR_OK)
		return status;
	vfs->next_order++;
	if (place) {
		/* A switch keeps its place among its equals. */
		mounted->order = (*place)->order;
		let_go(draft, *place);
		*place = mounted;
	} else {
		draft->mounts[draft->count++] = mounted;
	}
	return LDR_OK;
}

static enum ldr_status publish(struct ldr_vfs *vfs, struct draft *draft, struct ldr_error *err)
{
	struct ldr_snapshot *present, *next;
	enum ldr_status status;

	ldr_mutex_lock(&vfs->lock);
	present = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);
	status = ldr_snapshot_new(draft->mounts, draft->count, present->generation + 1, &next, err);
	if (status == LDR_OK)
		ldr_keeper_publish(vfs, next);
	ldr_mutex_unlock(&vfs->lock);
	return status;
}

/* Under the turn of mounts. */
static enum ldr_status apply(struct ldr_vfs *vfs, const struct ldr_mount *changes, size_t count,
			     struct ldr_error *err)
{
	struct draft draft;
	enum ldr_status status = draft_of(vfs, count, &draft, err);

	if (status != LDR_OK)
		return status;
	for (size_t i = 0; i < count && status == LDR_OK; i++)
		status = apply_one(vfs, &draft, &changes[i], err);
	if (status == LDR_OK)
		status = publish(vfs, &draft, err);
	if (status != LDR_OK) {
		draft_drop(&draft);
		return status;
	}
	free(draft.mounts);
	/* The caller may let another have it at once. */
	if (draft.frees_a_target)
		ldr_keeper_wait(vfs);
	return status;
}

enum ldr_status ldr_vfs_apply(struct ldr_vfs *vfs, const struct ldr_mount *changes, size_t count,
			      struct ldr_error *err)
{
	enum ldr_status status;

	ldr_turn_take(vfs, &vfs->mount_turn);
	status = apply(vfs, changes, count, err);
	ldr_turn_give(vfs, &vfs->mount_turn);
	return status;
}

/* Under the turn of mounts, so that it stays mounted. */
static struct ldr_mounted *mounted_of(struct ldr_vfs *vfs, uint32_t id)
{
	const struct ldr_snapshot *present;
	struct ldr_mounted *found = NULL;

	ldr_mutex_lock(&vfs->lock);
	present = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);
	for (uint32_t i = 0; i < present->count && !found; i++) {
		if (present->mounts[i]->id == id)
			found = present->mounts[i];
	}
	ldr_mutex_unlock(&vfs->lock);
	return found;
}

enum ldr_status ldr_vfs_mount(struct ldr_vfs *vfs, const struct ldr_mount *mount,
			      struct ldr_error *err)
{
	enum ldr_status status;

	if (!mount->layer)
		return ldr_fail(err, LDR_EINVAL, "mount %u: no layer", mount->id);
	ldr_turn_take(vfs, &vfs->mount_turn);
	if (mounted_of(vfs, mount->id))
		status = ldr_fail(err, LDR_EEXISTS, "mount %u: the id is taken", mount->id);
	else
		status = apply(vfs, mount, 1, err);
	ldr_turn_give(vfs, &vfs->mount_turn);
	return status;
}

enum ldr_status ldr_vfs_unmount(struct ldr_vfs *vfs, uint32_t id, bool force, struct ldr_error *err)
{
	const struct ldr_mount change = {.id = id};
	struct ldr_mounted *mounted;
	enum ldr_status status;

	ldr_turn_take(vfs, &vfs->mount_turn);
	mounted = mounted_of(vfs, id);
	/* Set before the change is published: from then on the mount may be freed at any time.
	 * Should the change fail for want of memory, it is taken back. */
	if (mounted && force)
		atomic_store(&mounted->stale, true);
	status = apply(vfs, &change, 1, err);
	if (status != LDR_OK && mounted && force)
		atomic_store(&mounted->stale, false);
	ldr_turn_give(vfs, &vfs->mount_turn);
	return status;
}

size_t ldr_vfs_mounts(struct ldr_vfs *vfs, struct ldr_mount *out, size_t capacity)
{
	struct ldr_epoch_stay stay = ldr_epoch_enter(&vfs->epoch);
	const struct ldr_snapshot *snapshot = atomic_load(&vfs->snapshot);
	size_t count = snapshot->count;

	for (size_t i = 0; i < count && i < capacity; i++) {
		const struct ldr_mounted *mounted = snapshot->mounts[i];

		out[i] = (struct ldr_mount){.id = mounted->id,
					    .layer = mounted->layer,
					    .at = mounted->at,
					    .precedence = mounted->precedence,
					    .flags = mounted->flags};
	}
	ldr_epoch_leave(stay);
	return count;
}

uint64_t ldr_vfs_generation(struct ldr_vfs *vfs)
{
	struct ldr_epoch_stay stay = ldr_epoch_enter(&vfs->epoch);
	uint64_t generation = atomic_load(&vfs->snapshot)->generation;

	ldr_epoch_leave(stay);
	return generation;
}
