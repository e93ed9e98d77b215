/*
 * Making mounts and snapshots; see mounts.h.
 */
#include "vfs/mounts.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "vfs/hidden.h"
#include "vfs/merged.h"

bool ldr_mounted_reserves(const char *rel, size_t length, bool fold_case)
{
	const size_t reserved = sizeof(LDR_RESERVED_NAME) - 1;

	if (length < reserved || rel[0] != '.' || (length > reserved && rel[reserved] != '/'))
		return false;
	return fold_case ? strncasecmp(rel, LDR_RESERVED_NAME, reserved) == 0
			 : memcmp(rel, LDR_RESERVED_NAME, reserved) == 0;
}

bool ldr_snapshot_is_point(const struct ldr_snapshot *snapshot, const char *path, size_t length)
{
	if (length == 0)
		return true;
	for (uint32_t i = 0; i < snapshot->count; i++) {
		const struct ldr_mounted *mounted = snapshot->mounts[i];

		if (mounted->at_bytes < length || memcmp(mounted->at, path, length) != 0)
			continue;
		if (mounted->at_bytes == length || mounted->at[length] == '/')
			return true;
	}
	return false;
}

bool ldr_mounted_folds_hidden(const struct ldr_snapshot *snapshot, uint32_t rank, const char *path,
			      size_t length, const struct ldr_layer_path *rel)
{
	if (rel->fold_case)
		return true;
	for (uint32_t i = rank + 1; snapshot->any_folds && i < snapshot->count; i++) {
		struct ldr_layer_path behind;

		if (ldr_mounted_covers(snapshot->mounts[i], path, length, &behind) &&
		    behind.fold_case)
			return true;
	}
	return false;
}

bool ldr_mounted_hides(const struct ldr_snapshot *snapshot, uint32_t rank, const char *path,
		       size_t length, const struct ldr_layer_path *rel)
{
	const struct ldr_hidden *hidden = snapshot->mounts[rank]->hidden;

	return hidden && ldr_hidden_count(hidden) > 0 &&
	       ldr_hidden_covers(hidden, rel->text, rel->length,
				 ldr_mounted_folds_hidden(snapshot, rank, path, length, rel));
}

static enum ldr_status check_mount(const struct ldr_mount *mount, size_t *out_at_bytes,
				   struct ldr_error *err)
{
	const unsigned known = LDR_MOUNT_WRITE | LDR_MOUNT_FOLD_CASE | LDR_MOUNT_OVERRIDE;
	unsigned traits = ldr_layer_traits(mount->layer);
	const char *kind = ldr_layer_kind(mount->layer);

	if (mount->id == 0)
		return ldr_fail(err, LDR_EINVAL, "mount of a %s layer: id 0 names no mount", kind);
	if (mount->flags & ~known)
		return ldr_fail(err, LDR_EINVAL, "mount %u: flags 0x%x, known are 0x%x", mount->id,
				mount->flags, known);
	if ((mount->flags & LDR_MOUNT_WRITE) && !(traits & LDR_LAYER_WRITABLE))
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"mount %u: a %s layer that cannot be written as write target",
				mount->id, kind);
	if ((mount->flags & LDR_MOUNT_FOLD_CASE) && !(traits & LDR_LAYER_FOLDS))
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"mount %u: a %s layer finds no name in another case", mount->id,
				kind);
	*out_at_bytes = 0;
	if (!mount->at)
		return LDR_OK;
	return ldr_error_prefix(err, ldr_path_measure(mount->at, out_at_bytes, err), "mount %u",
				mount->id);
}

enum ldr_status ldr_mounted_new(const struct ldr_mount *mount, uint64_t order,
				_Atomic uint64_t *wakes, struct ldr_mounted **out_mounted,
				struct ldr_error *err)
{
	struct ldr_mounted *mounted;
	enum ldr_status status;
	size_t at_bytes;

	status = check_mount(mount, &at_bytes, err);
	if (status != LDR_OK)
		return status;
	mounted = aligned_alloc(_Alignof(struct ldr_mounted), sizeof(*mounted));
	if (!mounted)
		return ldr_fail(err, LDR_ENOMEM, "mount %u: out of memory", mount->id);
	memset(mounted, 0, sizeof(*mounted));
	mounted->id = mount->id;
	mounted->precedence = mount->precedence;
	mounted->flags = mount->flags;
	mounted->order = mounted->serial = order;
	mounted->layer = ldr_layer_ref(mount->layer);
	mounted->ops = mount->layer->ops;
	mounted->self = mount->layer->self;
	if (mounted->ops->name_count)
		mounted->name_count = mounted->ops->name_count(mounted->self);
	if (mounted->ops->watch_names && mounted->ops->watch_names(mounted->self, wakes))
		mounted->wakes = wakes;
	mounted->at_bytes = at_bytes;
	mounted->by_path = !(mount->layer->traits & LDR_LAYER_IMMUTABLE) ||
			   (mount->flags & LDR_MOUNT_FOLD_CASE);
	mounted->at = strndup(mount->at ? mount->at : "", at_bytes);
	status = mounted->at ? LDR_OK
			     : ldr_fail(err, LDR_ENOMEM, "mount %u: out of memory", mount->id);
	if (status == LDR_OK && (mount->flags & LDR_MOUNT_WRITE))
		status = ldr_claim_take(mounted->layer, &mounted->hidden, err);
	if (status != LDR_OK) {
		ldr_mounted_free(mounted);
		return ldr_error_prefix(err, status, "mount %u", mount->id);
	}
	*out_mounted = mounted;
	return LDR_OK;
}

void ldr_mounted_disclaim(struct ldr_mounted *mounted)
{
	if (!mounted->hidden)
		return;
	mounted->hidden = NULL;
	ldr_claim_give(mounted->layer);
}

void ldr_mounted_free(struct ldr_mounted *mounted)
{
	ldr_mounted_disclaim(mounted);
	if (mounted->wakes)
		mounted->ops->unwatch_names(mounted->self);
	ldr_layer_unref(mounted->layer);
	free(mounted->at);
	free(mounted);
}

bool ldr_mounted_is_dead(struct ldr_mounted *mounted)
{
	if (!atomic_load(&mounted->departed))
		return false;
	for (unsigned i = 0; i < LDR_STRIPES; i++) {
		if (atomic_load(&mounted->handles[i].count) != 0)
			return false;
	}
	return true;
}

/* Who is asked first: overrides, then precedence, then the later one. */
static int asked_before(const void *left, const void *right)
{
	const struct ldr_mounted *a = *(struct ldr_mounted *const *)left;
	const struct ldr_mounted *b = *(struct ldr_mounted *const *)right;
	unsigned a_over = a->flags & LDR_MOUNT_OVERRIDE, b_over = b->flags & LDR_MOUNT_OVERRIDE;

	if (a_over != b_over)
		return a_over ? -1 : 1;
	if (a->precedence != b->precedence)
		return a->precedence > b->precedence ? -1 : 1;
	return a->order > b->order ? -1 : 1;
}

/* The count of wakes is read first: whoever becomes other than empty after his own count was read is
 * seen by it. */
static bool is_asleep(struct ldr_snapshot *snapshot, const struct ldr_mounted *mounted)
{
	if (!mounted->wakes || mounted->hidden)
		return false;
	if (!snapshot->wakes) {
		snapshot->wakes = mounted->wakes;
		snapshot->wakes_seen = atomic_load_explicit(mounted->wakes, memory_order_acquire);
	}
	return atomic_load_explicit(mounted->name_count, memory_order_acquire) == 0;
}

static void summarise(struct ldr_snapshot *snapshot)
{
	snapshot->first_by_path = snapshot->count;
	for (uint32_t rank = 0; rank < snapshot->count; rank++) {
		struct ldr_mounted *mounted = snapshot->mounts[rank];

		mounted->listed++;
		snapshot->any_hidden |= mounted->hidden != NULL;
		snapshot->any_folds |= (mounted->flags & LDR_MOUNT_FOLD_CASE) != 0;
		if (!mounted->by_path) {
			snapshot->any_immutable = true;
			continue;
		}
		snapshot->live_below |= snapshot->any_immutable;
		if (snapshot->by_path_count == 0)
			snapshot->first_by_path = rank;
		snapshot->by_path[snapshot->by_path_count++] = rank;
		if (!is_asleep(snapshot, mounted))
			snapshot->awake[snapshot->awake_count++] = rank;
	}
}

enum ldr_status ldr_snapshot_new(struct ldr_mounted *const *mounts, size_t count,
				 uint64_t generation, struct ldr_snapshot **out_snapshot,
				 struct ldr_error *err)
{
	struct ldr_snapshot *snapshot;

	assert(count <= LDR_VFS_MOUNTS_MAX);
	snapshot = calloc(1,
			  sizeof(*snapshot) + count * (sizeof(mounts[0]) + 2 * sizeof(uint32_t)));
	if (!snapshot)
		return ldr_fail(err, LDR_ENOMEM, "table of %zu mounts: out of memory", count);
	snapshot->generation = generation;
	snapshot->count = (uint32_t)count;
	snapshot->by_path = (uint32_t *)(snapshot->mounts + count);
	snapshot->awake = snapshot->by_path + count;
	if (count > 0) {
		memcpy(snapshot->mounts, mounts, count * sizeof(mounts[0]));
		qsort(snapshot->mounts, count, sizeof(mounts[0]), asked_before);
	}
	summarise(snapshot);
	*out_snapshot = snapshot;
	return LDR_OK;
}

void ldr_snapshot_free(struct ldr_snapshot *snapshot)
{
	if (!snapshot)
		return;
	ldr_merged_free(snapshot->merged);
	free(snapshot);
}
