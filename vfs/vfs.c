/*
 * The instance: mounts and the calls that take a path; see vfs.h. Finding is lookup.c's, writing is
 * overlay.c's.
 */
#include "vfs/vfs.h"

#include <stdlib.h>

#include "common/keys.h"
#include "vfs/vfs_priv.h"

enum ldr_status ldr_vfs_new(const struct ldr_vfs_options *options, struct ldr_vfs **out_vfs,
			    struct ldr_error *err)
{
	struct ldr_vfs_options given = {.size = sizeof(given)};
	struct ldr_vfs *vfs;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "vfs options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	if (options)
		given = *options;
	vfs = aligned_alloc(_Alignof(struct ldr_vfs), sizeof(*vfs));
	if (!vfs)
		return ldr_fail(err, LDR_ENOMEM, "vfs: out of memory");
	memset(vfs, 0, sizeof(*vfs));
	vfs->max_copy_bytes = given.max_copy_bytes;
	vfs->next_order = 1;
	ldr_handles_init(&vfs->handles,
			 given.max_handles ? given.max_handles : LDR_VFS_HANDLES_DEFAULT);
	ldr_mutex_init(&vfs->lock, LDR_RANK_VFS);
	ldr_condition_init(&vfs->mount_turn.given);
	ldr_condition_init(&vfs->work);
	ldr_condition_init(&vfs->settled);
	status = ldr_random(&vfs->seed, sizeof(vfs->seed), err);
	if (status == LDR_OK) {
		vfs->shelf = ldr_shelf_new();
		status = vfs->shelf ? ldr_keeper_start(vfs, err)
				    : ldr_fail(err, LDR_ENOMEM, "vfs: out of memory");
	}
	if (status != LDR_OK) {
		ldr_shelf_unref(vfs->shelf);
		free(vfs);
		return status;
	}
	*out_vfs = vfs;
	return LDR_OK;
}

void ldr_vfs_free(struct ldr_vfs *vfs)
{
	if (!vfs)
		return;
	ldr_keeper_stop(vfs);
	ldr_handles_dispose(&vfs->handles);
	ldr_shelf_unref(vfs->shelf);
	ldr_condition_dispose(&vfs->mount_turn.given);
	ldr_condition_dispose(&vfs->work);
	ldr_condition_dispose(&vfs->settled);
	ldr_mutex_dispose(&vfs->lock);
	free(vfs);
}

void ldr_vfs_cleanup(struct ldr_vfs **vfs)
{
	ldr_vfs_free(*vfs);
}

/* ---- names ---- */

enum ldr_status ldr_vfs_stat(struct ldr_vfs *vfs, const char *path, struct ldr_stat *out,
			     struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct ldr_stat found;
	struct ldr_visit visit = {.lookup = &lookup, .stat = &found};
	enum ldr_status status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);

	if (status != LDR_OK)
		return status;
	status = ldr_lookup_ask(&ldr_verbs_stat, &visit, err);
	if (status == LDR_OK)
		*out = found;
	else
		status = ldr_lookup_say(&visit, status, err);
	ldr_epoch_leave(stay);
	return status;
}

enum ldr_status ldr_vfs_exists(struct ldr_vfs *vfs, const char *path, struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct ldr_visit visit = {.lookup = &lookup};
	enum ldr_status status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);
	char shown[LDR_QUOTE_BYTES];

	if (status != LDR_OK)
		return status;
	status = ldr_lookup_ask(&ldr_verbs_exists, &visit, err);
	ldr_epoch_leave(stay);
	if (status == LDR_ENOTFOUND && err)
		return ldr_fail(err, status, "%s: not found",
				ldr_path_quote(path, lookup.length, shown));
	return status;
}

static void note_attempt(struct ldr_attempt *attempts, size_t capacity, size_t *count,
			 const struct ldr_attempt *attempt)
{
	if (*count < capacity)
		attempts[*count] = *attempt;
	(*count)++;
}

/* Every mount by path, in order, with what each says. */
static enum ldr_status trace(struct ldr_visit *visit, struct ldr_attempt *attempts, size_t capacity,
			     size_t *count, struct ldr_error *err)
{
	const struct ldr_snapshot *snapshot = visit->lookup->snapshot;
	const struct ldr_lookup *lookup = visit->lookup;
	bool is_point = ldr_snapshot_is_point(snapshot, lookup->path, lookup->length);

	for (uint32_t rank = 0; rank < snapshot->count; rank++) {
		struct ldr_mounted *mounted = snapshot->mounts[rank];
		struct ldr_attempt attempt = {.mount_id = mounted->id};
		struct ldr_layer_path rel;
		bool end;

		if (!ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel))
			continue;
		visit->saw_whiteout = false;
		attempt.outcome = ldr_lookup_ask_one(&ldr_verbs_stat, visit, rank, &end, err);
		attempt.whiteout = visit->saw_whiteout;
		/* It has something else where a folder must be. */
		if (is_point && attempt.outcome == LDR_OK && visit->stat->kind != LDR_KIND_FOLDER) {
			attempt.outcome = LDR_ENOTDIR;
			end = false;
		}
		note_attempt(attempts, capacity, count, &attempt);
		if (end && is_point && attempt.outcome == LDR_ENOTFOUND)
			break;
		if (end)
			return attempt.outcome;
	}
	if (!is_point)
		return LDR_ENOTFOUND;
	visit->mounted = NULL;
	*visit->stat = (struct ldr_stat){.kind = LDR_KIND_FOLDER, .mode = 0755};
	return LDR_OK;
}

enum ldr_status ldr_vfs_which(struct ldr_vfs *vfs, const char *path, struct ldr_which *out,
			      struct ldr_attempt *attempts, size_t capacity, size_t *out_attempts,
			      struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct ldr_stat found;
	struct ldr_error why;
	struct ldr_visit visit = {.lookup = &lookup, .stat = &found};
	enum ldr_status status;
	size_t count = 0;

	if (out_attempts)
		*out_attempts = 0;
	status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);
	if (status != LDR_OK)
		return status;
	ldr_why_begin(&why);
	status = trace(&visit, attempts, attempts ? capacity : 0, &count, &why);
	if (status == LDR_OK) {
		out->mount_id = visit.mounted ? visit.mounted->id : 0;
		out->layer_kind = visit.mounted ? visit.mounted->ops->kind : "";
		out->stat = found;
	} else if (status == LDR_ENOTFOUND) {
		status = ldr_lookup_say(&visit, status, err);
	} else {
		ldr_why_tell(&why, status, err);
	}
	ldr_epoch_leave(stay);
	if (out_attempts)
		*out_attempts = count;
	return status;
}

enum ldr_status ldr_vfs_list(struct ldr_vfs *vfs, const char *path, struct ldr_list **out_list,
			     struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	enum ldr_status status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);

	if (status != LDR_OK)
		return status;
	status = ldr_listing_make(vfs->shelf, &lookup, out_list, err);
	ldr_epoch_leave(stay);
	return status;
}

/* ---- opening ---- */

static bool flags_are_legal(unsigned flags)
{
	unsigned how = flags & ~(unsigned)LDR_OPEN_NEW;

	return how == LDR_OPEN_READ ? flags == LDR_OPEN_READ
				    : how == LDR_OPEN_WRITE || how == LDR_OPEN_APPEND ||
					      how == LDR_OPEN_OVERLAPPED;
}

/* Within the epoch; on success the handle counts itself in its mount. */
static enum ldr_status find_and_open(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				     unsigned flags, struct ldr_file *file, struct ldr_error *err)
{
	struct ldr_visit visit = {.lookup = lookup, .file = &file->layer};
	struct ldr_mounted *mounted;
	enum ldr_status status;

	if (flags == LDR_OPEN_READ) {
		status = ldr_lookup_ask(&ldr_verbs_open, &visit, err);
		mounted = visit.mounted;
		if (status != LDR_OK)
			status = ldr_lookup_say(&visit, status, err);
	} else {
		status = ldr_overlay_open(vfs, lookup, flags, &file->layer, &mounted, err);
	}
	if (status != LDR_OK)
		return status;
	/* Within the epoch, so before the mount can be departed. */
	atomic_fetch_add_explicit(&mounted->handles[file->stripe].count, 1, memory_order_relaxed);
	file->mounted = mounted;
	file->vfs = vfs;
	file->flags = flags;
	return LDR_OK;
}

enum ldr_status ldr_vfs_open(struct ldr_vfs *vfs, const char *path, unsigned flags,
			     struct ldr_file **out_file, struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct ldr_file *file;
	enum ldr_status status;

	if (!flags_are_legal(flags))
		return ldr_fail(err, LDR_EINVAL, "open: flags 0x%x do not say one way to open",
				flags);
	status = ldr_handles_take(&vfs->handles, &file, err);
	if (status != LDR_OK)
		return status;
	status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);
	if (status == LDR_OK) {
		status = find_and_open(vfs, &lookup, flags, file, err);
		ldr_epoch_leave(stay);
	}
	if (status != LDR_OK) {
		ldr_handles_give(&vfs->handles, file);
		return status;
	}
	*out_file = file;
	return LDR_OK;
}

/* ---- seeing ---- */

/* Whether an earlier mount has the same whiteouts. */
static bool is_counted(const struct ldr_snapshot *snapshot, uint32_t rank)
{
	for (uint32_t i = 0; i < rank; i++) {
		if (snapshot->mounts[i]->hidden == snapshot->mounts[rank]->hidden)
			return true;
	}
	return false;
}

void ldr_vfs_metrics(struct ldr_vfs *vfs, struct ldr_vfs_metrics *out)
{
	struct ldr_epoch_stay stay = ldr_epoch_enter(&vfs->epoch);
	const struct ldr_snapshot *snapshot = atomic_load(&vfs->snapshot);
	struct ldr_vfs_metrics sum = {.mounts = snapshot->count};

	sum.handles_open = ldr_handles_open(&vfs->handles);
	sum.merged_names = snapshot->merged ? snapshot->merged->count : 0;
	sum.copied_up = atomic_load_explicit(&vfs->copied_up, memory_order_relaxed);
	for (uint32_t i = 0; i < snapshot->count; i++) {
		const struct ldr_mounted *mounted = snapshot->mounts[i];
		uint64_t events = 0, fallbacks = 0;

		if (mounted->hidden && !is_counted(snapshot, i))
			sum.whiteouts += ldr_hidden_count(mounted->hidden);
		if (mounted->ops->watch_counts)
			mounted->ops->watch_counts(mounted->self, &events, &fallbacks);
		sum.watch_events += events;
		sum.watch_fallbacks += fallbacks;
	}
	ldr_epoch_leave(stay);
	*out = sum;
}

enum ldr_status ldr_vfs_sync(struct ldr_vfs *vfs, struct ldr_error *err)
{
	struct ldr_epoch_stay stay = ldr_epoch_enter(&vfs->epoch);
	const struct ldr_snapshot *snapshot = atomic_load(&vfs->snapshot);
	enum ldr_status status = LDR_OK;

	for (uint32_t i = 0; i < snapshot->count && status == LDR_OK; i++) {
		const struct ldr_mounted *mounted = snapshot->mounts[i];

		if (mounted->ops->settle)
			status = mounted->ops->settle(mounted->self, err);
	}
	ldr_epoch_leave(stay);
	return status;
}
