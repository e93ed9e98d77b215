/*
 * Writing: the write target, parents, whiteouts.
 *
 * The quick way: when no other mount can have anything to say about the path (the merged table has
 * nothing there, and the target is the only mount asked by path), the target's layer is called
 * straight away, as if it were the file system. Whatever that cannot settle (a missing parent, a
 * file that lies below) goes the slow way: one change at a time, with all mounts asked.
 *
 * Order of steps, so that a crash between any two leaves a state that was legal before: whiteouts
 * are logged before anything is taken away, copies appear whole by a rename.
 */
#include <stdlib.h>

#include "vfs/vfs_priv.h"

struct place {
	struct ldr_mounted *target;
	uint32_t rank;
	struct ldr_layer_path rel;
};

static enum ldr_status fail_path(const struct ldr_lookup *lookup, enum ldr_status status,
				 const char *why, struct ldr_error *err)
{
	char shown[LDR_QUOTE_BYTES];

	if (!err)
		return status;
	return ldr_fail(err, status, "%s: %s", ldr_path_quote(lookup->path, lookup->length, shown),
			why);
}

/* The write target with the longest mount point, then the one asked first. */
static enum ldr_status find_target(const struct ldr_lookup *lookup, struct place *out,
				   struct ldr_error *err)
{
	const struct ldr_snapshot *snapshot = lookup->snapshot;
	struct ldr_layer_path rel;

	out->target = NULL;
	for (uint32_t rank = 0; rank < snapshot->count; rank++) {
		struct ldr_mounted *mounted = snapshot->mounts[rank];

		if (!mounted->hidden ||
		    !ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel))
			continue;
		if (out->target && out->target->at_bytes >= mounted->at_bytes)
			continue;
		*out = (struct place){.target = mounted, .rank = rank, .rel = rel};
	}
	if (!out->target)
		return fail_path(lookup, LDR_EDENIED, "no mount there can be written", err);
	if (ldr_mounted_reserves(out->rel.text, out->rel.length, out->rel.fold_case))
		return fail_path(lookup, LDR_EDENIED, "the name is reserved", err);
	return LDR_OK;
}

/* True when nobody but the target can have anything at the path. */
static bool is_alone(const struct ldr_lookup *lookup, const struct place *place)
{
	const struct ldr_snapshot *snapshot = lookup->snapshot;
	struct ldr_layer_path rel;

	if (place->rel.length == 0 || (snapshot->any_immutable && !snapshot->merged))
		return false;
	if (snapshot->merged
		    ? ldr_merged_find(snapshot->merged, lookup->path, lookup->length) != NULL
		    : ldr_snapshot_is_point(snapshot, lookup->path, lookup->length))
		return false;
	/* A file of an archive above would hide what is made below it. */
	if (snapshot->live_below && snapshot->merged &&
	    ldr_merged_cuts(snapshot->merged, lookup->path, lookup->length, place->rank))
		return false;
	for (uint32_t i = 0; i < snapshot->by_path_count; i++) {
		struct ldr_mounted *mounted = snapshot->mounts[snapshot->by_path[i]];

		if (mounted != place->target &&
		    ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel))
			return false;
	}
	return true;
}

/* What is seen at the path now, and at which rank; LDR_ENOTFOUND and LDR_ENOTDIR as a caller would
 * hear them. */
static enum ldr_status see(const struct ldr_lookup *lookup, struct ldr_stat *out,
			   uint32_t *out_rank, struct ldr_error *err)
{
	struct ldr_visit visit = {.lookup = lookup, .stat = out};
	enum ldr_status status = ldr_lookup_ask(&ldr_verbs_stat, &visit, err);

	if (status != LDR_OK)
		return ldr_lookup_say(&visit, status, err);
	*out_rank = visit.mounted ? visit.rank : UINT32_MAX;
	return LDR_OK;
}

/* ---- parents ---- */

static enum ldr_status make_parent(const struct ldr_lookup *lookup, const struct place *place,
				   const struct ldr_layer_path *rel, struct ldr_error *err)
{
	struct ldr_stat found;
	uint32_t rank;
	enum ldr_status status = see(lookup, &found, &rank, err);

	if (status == LDR_OK && found.kind != LDR_KIND_FOLDER)
		return fail_path(lookup, LDR_ENOTDIR, "is a file, wanted as a folder", err);
	if (status != LDR_OK && status != LDR_ENOTFOUND)
		return status;
	status = place->target->ops->mkdir(place->target->self, rel, err);
	return status == LDR_EEXISTS ? LDR_OK : status;
}

/* The folders above the path, in the target. */
static enum ldr_status make_parents(const struct ldr_lookup *lookup, const struct place *place,
				    struct ldr_error *err)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t at = lookup->length - place->rel.length;

	memcpy(path, lookup->path, lookup->length + 1);
	for (size_t end = at + 1; end < lookup->length; end++) {
		struct ldr_lookup parent = {lookup->snapshot, path, end};
		struct ldr_layer_path rel = {path + at, end - at, place->rel.fold_case};
		enum ldr_status status;

		if (path[end] != '/')
			continue;
		path[end] = '\0';
		status = make_parent(&parent, place, &rel, err);
		if (status != LDR_OK)
			return status;
		path[end] = '/';
	}
	return LDR_OK;
}

/* ---- opening ---- */

static unsigned layer_flags(unsigned flags)
{
	if (flags & LDR_OPEN_WRITE)
		return LDR_LAYER_WRITE | LDR_LAYER_TRUNCATE;
	if (flags & LDR_OPEN_APPEND)
		return LDR_LAYER_WRITE | LDR_LAYER_APPEND;
	return LDR_LAYER_READ | LDR_LAYER_WRITE;
}

static enum ldr_status open_in_target(const struct place *place, unsigned how,
				      struct ldr_layer_file *file, struct ldr_error *err)
{
	file->layer_self = place->target->self;
	return place->target->ops->open(place->target->self, &place->rel, how, file, err);
}

/* Makes the path openable in the target, by what is seen there now. */
static enum ldr_status prepare_open(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				    const struct place *place, unsigned flags,
				    struct ldr_error *err)
{
	struct ldr_stat found;
	uint32_t rank;
	enum ldr_status status = see(lookup, &found, &rank, err);

	if (status == LDR_ENOTFOUND)
		return make_parents(lookup, place, err);
	if (status != LDR_OK)
		return status;
	if (found.kind == LDR_KIND_FOLDER)
		return fail_path(lookup, LDR_EISDIR, "is a folder", err);
	if (flags & LDR_OPEN_NEW)
		return fail_path(lookup, LDR_EEXISTS, "already exists", err);
	if (rank < place->rank)
		return fail_path(lookup, LDR_EDENIED, "a mount above the write target has it", err);
	if (rank == place->rank)
		return LDR_OK;
	status = make_parents(lookup, place, err);
	if (status != LDR_OK || (flags & LDR_OPEN_WRITE))
		return status;
	return ldr_copy_up(vfs, lookup, place->target, &place->rel, err);
}

enum ldr_status ldr_overlay_open(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				 unsigned flags, struct ldr_layer_file *file,
				 struct ldr_mounted **out_mounted, struct ldr_error *err)
{
	unsigned how = layer_flags(flags) | LDR_LAYER_CREATE;
	struct place place;
	struct ldr_error why;
	enum ldr_status status = find_target(lookup, &place, err);

	if (status != LDR_OK)
		return status;
	if (place.rel.length == 0)
		return fail_path(lookup, LDR_EISDIR, "is a folder", err);
	*out_mounted = place.target;
	if (flags & LDR_OPEN_NEW)
		how |= LDR_LAYER_NEW;
	if (is_alone(lookup, &place)) {
		ldr_why_begin(&why);
		status = open_in_target(&place, how, file, &why);
		if (status != LDR_ENOTFOUND && status != LDR_ENOTDIR)
			return status == LDR_OK ? status : ldr_why_tell(&why, status, err);
	}
	ldr_why_begin(&why);
	ldr_claim_turn_take(&place.target->layer->claim);
	status = prepare_open(vfs, lookup, &place, flags, &why);
	if (status == LDR_OK)
		status = open_in_target(&place, how, file, &why);
	ldr_claim_turn_give(&place.target->layer->claim);
	return status == LDR_OK ? status : ldr_why_tell(&why, status, err);
}

/* ---- changes by path ---- */

/* One change of a name: the quick way, which may say LDR_ENOTFOUND to be sent the slow way. */
typedef enum ldr_status (*change)(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				  const struct place *place, void *context, struct ldr_error *err);

static enum ldr_status change_name(struct ldr_vfs *vfs, const char *path, change quick, change slow,
				   void *context, struct ldr_error *err)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct place place;
	struct ldr_error why;
	enum ldr_status status = ldr_lookup_begin(vfs, path, &lookup, &stay, err);

	if (status != LDR_OK)
		return status;
	ldr_why_begin(&why);
	status = find_target(&lookup, &place, &why);
	if (status != LDR_OK)
		goto out;
	if (quick && is_alone(&lookup, &place)) {
		status = quick(vfs, &lookup, &place, context, &why);
		if (status != LDR_ENOTFOUND && status != LDR_ENOTDIR)
			goto out;
	}
	ldr_why_begin(&why);
	ldr_claim_turn_take(&place.target->layer->claim);
	status = slow(vfs, &lookup, &place, context, &why);
	ldr_claim_turn_give(&place.target->layer->claim);
out:
	ldr_epoch_leave(stay);
	return status == LDR_OK ? status : ldr_why_tell(&why, status, err);
}

static enum ldr_status mkdir_slow(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				  const struct place *place, void *context, struct ldr_error *err)
{
	struct ldr_stat found;
	uint32_t rank;
	enum ldr_status status = see(lookup, &found, &rank, err);

	(void)vfs;
	(void)context;
	if (status == LDR_OK)
		return fail_path(lookup, LDR_EEXISTS, "already exists", err);
	if (status != LDR_ENOTFOUND)
		return status;
	status = make_parents(lookup, place, err);
	if (status != LDR_OK)
		return status;
	return place->target->ops->mkdir(place->target->self, &place->rel, err);
}

enum ldr_status ldr_vfs_mkdir(struct ldr_vfs *vfs, const char *path, struct ldr_error *err)
{
	return change_name(vfs, path, NULL, mkdir_slow, NULL, err);
}

static enum ldr_status remove_quick(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				    const struct place *place, void *context, struct ldr_error *err)
{
	(void)vfs;
	(void)lookup;
	(void)context;
	return place->target->ops->remove(place->target->self, &place->rel, err);
}

static enum ldr_status check_empty(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				   struct ldr_error *err)
{
	struct ldr_list *list;
	enum ldr_status status = ldr_listing_make(vfs->shelf, lookup, &list, err);
	size_t count;

	if (status != LDR_OK)
		return status;
	count = ldr_list_count(list);
	ldr_list_free(list);
	return count == 0 ? LDR_OK : fail_path(lookup, LDR_ENOTEMPTY, "folder is not empty", err);
}

/* Logged before anything is taken away. *out_below: something lies below the target. */
static enum ldr_status hide_below(const struct ldr_lookup *lookup, const struct place *place,
				  bool *out_below, struct ldr_error *err)
{
	struct ldr_stat ignored;
	enum ldr_status status = ldr_lookup_below(lookup, place->rank, &ignored, err);

	*out_below = status == LDR_OK;
	if (status == LDR_ENOTFOUND)
		return LDR_OK;
	if (status != LDR_OK)
		return status;
	return ldr_hidden_add(place->target->hidden, place->rel.text, place->rel.length,
			      ldr_mounted_folds_hidden(lookup->snapshot, place->rank, lookup->path,
						       lookup->length, &place->rel),
			      err);
}

static enum ldr_status remove_slow(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				   const struct place *place, void *context, struct ldr_error *err)
{
	struct ldr_stat found;
	uint32_t rank;
	bool below;
	enum ldr_status status = see(lookup, &found, &rank, err);

	(void)vfs;
	(void)context;
	if (status != LDR_OK)
		return status;
	if (ldr_snapshot_is_point(lookup->snapshot, lookup->path, lookup->length))
		return fail_path(lookup, LDR_EDENIED, "is a mount point, or leads to one", err);
	if (rank < place->rank)
		return fail_path(lookup, LDR_EDENIED, "a mount above the write target has it", err);
	if (found.kind == LDR_KIND_FOLDER)
		status = check_empty(vfs, lookup, err);
	if (status == LDR_OK)
		status = hide_below(lookup, place, &below, err);
	if (status != LDR_OK)
		return status;
	status = place->target->ops->remove(place->target->self, &place->rel, err);
	return below && status == LDR_ENOTFOUND ? LDR_OK : status;
}

enum ldr_status ldr_vfs_remove(struct ldr_vfs *vfs, const char *path, struct ldr_error *err)
{
	return change_name(vfs, path, remove_quick, remove_slow, NULL, err);
}

struct replacement {
	const void *bytes;
	size_t length;
	enum ldr_sync sync;
};

static enum ldr_status replace_quick(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				     const struct place *place, void *context,
				     struct ldr_error *err)
{
	const struct replacement *with = context;

	(void)vfs;
	(void)lookup;
	return place->target->ops->replace(place->target->self, &place->rel, with->bytes,
					   with->length, with->sync, err);
}

static enum ldr_status replace_slow(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				    const struct place *place, void *context, struct ldr_error *err)
{
	struct ldr_stat found;
	uint32_t rank;
	enum ldr_status status = see(lookup, &found, &rank, err);

	if (status != LDR_OK && status != LDR_ENOTFOUND)
		return status;
	if (status == LDR_OK && found.kind == LDR_KIND_FOLDER)
		return fail_path(lookup, LDR_EISDIR, "is a folder", err);
	if (status == LDR_OK && rank < place->rank)
		return fail_path(lookup, LDR_EDENIED, "a mount above the write target has it", err);
	status = make_parents(lookup, place, err);
	return status == LDR_OK ? replace_quick(vfs, lookup, place, context, err) : status;
}

enum ldr_status ldr_vfs_replace(struct ldr_vfs *vfs, const char *path, const void *bytes,
				size_t length, enum ldr_sync sync, struct ldr_error *err)
{
	struct replacement with = {bytes, length, sync};

	return change_name(vfs, path, replace_quick, replace_slow, &with, err);
}

/* ---- renaming ---- */

struct renaming {
	struct ldr_lookup to;
	struct place to_place;
};

static enum ldr_status rename_quick(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				    const struct place *place, void *context, struct ldr_error *err)
{
	const struct renaming *renaming = context;

	(void)vfs;
	(void)lookup;
	if (!is_alone(&renaming->to, &renaming->to_place))
		return LDR_ENOTFOUND;
	return place->target->ops->rename(place->target->self, &place->rel, &renaming->to_place.rel,
					  err);
}

/* What may be replaced: nothing, a file by a file, an empty folder by a folder. */
static enum ldr_status check_destination(struct ldr_vfs *vfs, const struct renaming *renaming,
					 enum ldr_kind kind, struct ldr_error *err)
{
	const struct ldr_lookup *to = &renaming->to;
	struct ldr_stat found;
	uint32_t rank;
	enum ldr_status status = see(to, &found, &rank, err);

	if (status == LDR_ENOTFOUND)
		return LDR_OK;
	if (status != LDR_OK)
		return status;
	if (rank < renaming->to_place.rank)
		return fail_path(to, LDR_EDENIED, "a mount above the write target has it", err);
	if (found.kind == LDR_KIND_FOLDER && kind != LDR_KIND_FOLDER)
		return fail_path(to, LDR_EISDIR, "is a folder", err);
	if (found.kind != LDR_KIND_FOLDER && kind == LDR_KIND_FOLDER)
		return fail_path(to, LDR_ENOTDIR, "is a file", err);
	return kind == LDR_KIND_FOLDER ? check_empty(vfs, to, err) : LDR_OK;
}

/* What is seen at `from` lies in the target. */
static enum ldr_status rename_own(const struct ldr_lookup *from, const struct place *place,
				  const struct renaming *renaming, enum ldr_kind kind,
				  struct ldr_error *err)
{
	bool below;
	enum ldr_status status = hide_below(from, place, &below, err);

	/* A folder that moves must not show what lies below its new place. */
	if (status == LDR_OK && kind == LDR_KIND_FOLDER)
		status = hide_below(&renaming->to, &renaming->to_place, &below, err);
	if (status != LDR_OK)
		return status;
	return place->target->ops->rename(place->target->self, &place->rel, &renaming->to_place.rel,
					  err);
}

static enum ldr_status rename_slow(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				   const struct place *place, void *context, struct ldr_error *err)
{
	const struct renaming *renaming = context;
	struct ldr_stat found, ignored;
	uint32_t rank;
	bool below;
	enum ldr_status status = see(lookup, &found, &rank, err);

	if (status == LDR_OK)
		status = check_destination(vfs, renaming, found.kind, err);
	if (status != LDR_OK)
		return status;
	if (ldr_snapshot_is_point(lookup->snapshot, lookup->path, lookup->length))
		return fail_path(lookup, LDR_EDENIED, "is a mount point, or leads to one", err);
	if (rank < place->rank)
		return fail_path(lookup, LDR_EDENIED, "a mount above the write target has it", err);
	if (found.kind == LDR_KIND_FOLDER &&
	    !ldr_mounted_hides(lookup->snapshot, place->rank, lookup->path, lookup->length,
			       &place->rel) &&
	    ldr_lookup_below(lookup, place->rank, &ignored, NULL) != LDR_ENOTFOUND)
		return fail_path(lookup, LDR_EUNSUPPORTED,
				 "the folder does not lie in the write target alone", err);
	status = make_parents(&renaming->to, &renaming->to_place, err);
	if (status != LDR_OK)
		return status;
	if (rank == place->rank)
		return rename_own(lookup, place, renaming, found.kind, err);
	status = ldr_copy_up(vfs, lookup, place->target, &renaming->to_place.rel, err);
	return status == LDR_OK ? hide_below(lookup, place, &below, err) : status;
}

/* Both paths, in one snapshot: `to` is looked at by the change of `from`. */
static enum ldr_status rename_in(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				 const struct place *place, void *context, bool quick,
				 struct ldr_error *err)
{
	const char *to = context;
	struct renaming renaming = {.to = {.snapshot = lookup->snapshot, .path = to}};
	enum ldr_status status = ldr_path_measure(to, &renaming.to.length, err);

	if (status == LDR_OK)
		status = find_target(&renaming.to, &renaming.to_place, err);
	if (status != LDR_OK)
		return status;
	if (renaming.to_place.target != place->target)
		return fail_path(&renaming.to, LDR_EUNSUPPORTED, "lies in another write target",
				 err);
	if (strncmp(to, lookup->path, lookup->length) == 0 && to[lookup->length] == '/')
		return fail_path(&renaming.to, LDR_EINVAL, "lies below what is to be renamed", err);
	/* Systems differ in what they say of a destination above the source. */
	if (quick && strncmp(to, lookup->path, renaming.to.length) == 0 &&
	    lookup->path[renaming.to.length] == '/')
		return LDR_ENOTFOUND;
	if (strcmp(to, lookup->path) == 0) {
		struct ldr_stat ignored;
		uint32_t rank;

		return see(lookup, &ignored, &rank, err);
	}
	return quick ? rename_quick(vfs, lookup, place, &renaming, err)
		     : rename_slow(vfs, lookup, place, &renaming, err);
}

static enum ldr_status rename_in_quick(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				       const struct place *place, void *context,
				       struct ldr_error *err)
{
	return rename_in(vfs, lookup, place, context, true, err);
}

static enum ldr_status rename_in_slow(struct ldr_vfs *vfs, const struct ldr_lookup *lookup,
				      const struct place *place, void *context,
				      struct ldr_error *err)
{
	return rename_in(vfs, lookup, place, context, false, err);
}

enum ldr_status ldr_vfs_rename(struct ldr_vfs *vfs, const char *from, const char *to,
			       struct ldr_error *err)
{
	/* The context of a change may be written, this one is not. */
	return change_name(vfs, from, rename_in_quick, rename_in_slow, (void *)(uintptr_t)to, err);
}
