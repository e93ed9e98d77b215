/*
 * Asking the mounts of a snapshot, in order, about one path.
 *
 * With a merged table: one probe says which immutable mount would answer; only mounts that are
 * asked by path and rank above it come before it. Without one (just after a change) all mounts are
 * asked by path.
 *
 * A mount that says LDR_ENOTDIR has a file where the path has a folder. That ends the lookup, for
 * what lies below that file's place is hidden by it, unless the file itself is hidden by a mount
 * point. Whether the caller hears LDR_ENOTDIR or LDR_ENOTFOUND depends on what is seen at the
 * parents, and is found out only then (say).
 */
#include <stdlib.h>

#include "vfs/vfs_priv.h"

/* Out of the way of lookups: only failures come here. */
__attribute__((cold)) enum ldr_status ldr_why_check(enum ldr_status status, struct ldr_error *err)
{
	if (!err || err->status == status)
		return status;
	return ldr_fail(err, status, "%s (the layer says no more)", ldr_status_text(status));
}

__attribute__((cold)) enum ldr_status ldr_why_tell(const struct ldr_error *why,
						   enum ldr_status status, struct ldr_error *err)
{
	if (!err)
		return status;
	if (why->status == status)
		*err = *why;
	else
		err->status = LDR_OK;
	return ldr_why_check(status, err);
}

/* ---- what is asked ---- */

static enum ldr_status stat_by_path(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				    const struct ldr_layer_path *rel, struct ldr_error *err)
{
	return mounted->ops->stat(mounted->self, rel, visit->stat, err);
}

static enum ldr_status stat_by_node(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				    const struct ldr_slot *slot, struct ldr_error *err)
{
	return mounted->ops->stat_node(mounted->self, slot->node, visit->stat, err);
}

/* Attributes of the first mount that has a folder there, else of none. */
static enum ldr_status stat_point(struct ldr_visit *visit, struct ldr_error *err)
{
	const struct ldr_lookup *lookup = visit->lookup;

	for (uint32_t rank = 0; rank < lookup->snapshot->count; rank++) {
		struct ldr_mounted *mounted = lookup->snapshot->mounts[rank];
		struct ldr_layer_path rel;
		struct ldr_stat found;
		struct ldr_error why;
		enum ldr_status status;

		if (!ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel))
			continue;
		ldr_why_begin(&why);
		status = mounted->ops->stat(mounted->self, &rel, &found, err ? &why : NULL);
		if (status == LDR_OK && found.kind == LDR_KIND_FOLDER) {
			*visit->stat = found;
			visit->mounted = mounted;
			visit->rank = rank;
			return LDR_OK;
		}
		if (status != LDR_OK && status != LDR_ENOTFOUND && status != LDR_ENOTDIR &&
		    status != LDR_EGONE)
			return ldr_why_tell(&why, status, err);
		if (status == LDR_EGONE ||
		    ldr_mounted_hides(lookup->snapshot, rank, lookup->path, lookup->length, &rel))
			break;
	}
	visit->mounted = NULL;
	*visit->stat = (struct ldr_stat){.kind = LDR_KIND_FOLDER, .mode = 0755};
	return LDR_OK;
}

const struct ldr_verbs ldr_verbs_stat = {stat_by_path, stat_by_node, stat_point};

static enum ldr_status exists_by_path(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				      const struct ldr_layer_path *rel, struct ldr_error *err)
{
	struct ldr_stat ignored;

	(void)visit;
	if (mounted->ops->exists)
		return mounted->ops->exists(mounted->self, rel, err);
	return mounted->ops->stat(mounted->self, rel, &ignored, err);
}

static enum ldr_status exists_by_node(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				      const struct ldr_slot *slot, struct ldr_error *err)
{
	(void)visit;
	(void)mounted;
	(void)slot;
	(void)err;
	return LDR_OK;
}

static enum ldr_status exists_point(struct ldr_visit *visit, struct ldr_error *err)
{
	(void)visit;
	(void)err;
	return LDR_OK;
}

const struct ldr_verbs ldr_verbs_exists = {exists_by_path, exists_by_node, exists_point};

static enum ldr_status is_folder(const struct ldr_visit *visit, struct ldr_error *err)
{
	char shown[LDR_QUOTE_BYTES];

	if (!err)
		return LDR_EISDIR;
	return ldr_fail(err, LDR_EISDIR, "%s: is a folder",
			ldr_path_quote(visit->lookup->path, visit->lookup->length, shown));
}

static enum ldr_status open_by_path(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				    const struct ldr_layer_path *rel, struct ldr_error *err)
{
	visit->file->layer_self = mounted->self;
	return mounted->ops->open(mounted->self, rel, LDR_LAYER_READ, visit->file, err);
}

static enum ldr_status open_by_node(struct ldr_visit *visit, const struct ldr_mounted *mounted,
				    const struct ldr_slot *slot, struct ldr_error *err)
{
	if (slot->kind != LDR_KIND_FILE)
		return is_folder(visit, err);
	visit->file->layer_self = mounted->self;
	return mounted->ops->open_node(mounted->self, slot->node, visit->file, err);
}

static enum ldr_status open_point(struct ldr_visit *visit, struct ldr_error *err)
{
	return is_folder(visit, err);
}

const struct ldr_verbs ldr_verbs_open = {open_by_path, open_by_node, open_point};

/* ---- asking ---- */

bool ldr_lookup_file_is_covered(const struct ldr_lookup *lookup, const struct ldr_mounted *mounted,
				const struct ldr_layer_path *rel)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t at = lookup->length - rel->length;

	memcpy(path, lookup->path, lookup->length + 1);
	for (size_t end = at + 1; end < lookup->length; end++) {
		struct ldr_layer_path parent = {path + at, end - at, rel->fold_case};
		struct ldr_stat found;
		enum ldr_status status;

		if (path[end] != '/')
			continue;
		path[end] = '\0';
		status = mounted->ops->stat(mounted->self, &parent, &found, NULL);
		if (status == LDR_OK && found.kind != LDR_KIND_FOLDER)
			return ldr_snapshot_is_point(lookup->snapshot, path, end);
		path[end] = '/';
	}
	return false;
}

enum ldr_status ldr_lookup_ask_one(const struct ldr_verbs *verbs, struct ldr_visit *visit,
				   uint32_t rank, bool *out_end, struct ldr_error *err)
{
	const struct ldr_lookup *lookup = visit->lookup;
	const struct ldr_snapshot *snapshot = lookup->snapshot;
	struct ldr_mounted *mounted = snapshot->mounts[rank];
	struct ldr_layer_path rel;
	enum ldr_status status;

	*out_end = false;
	/* An empty layer says nothing, unless it hides something. Relaxed: who made a name before
	 * this lookup began has also told this thread of it in a way that orders the count too. */
	if (mounted->name_count && !mounted->hidden &&
	    atomic_load_explicit(mounted->name_count, memory_order_relaxed) == 0)
		return LDR_ENOTFOUND;
	if (!ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel) ||
	    ldr_mounted_reserves(rel.text, rel.length, rel.fold_case))
		return LDR_ENOTFOUND;
	if (snapshot->live_below && snapshot->merged &&
	    ldr_merged_cuts(snapshot->merged, lookup->path, lookup->length, rank)) {
		*out_end = true;
		visit->saw_notdir = true;
		return LDR_ENOTFOUND;
	}
	status = verbs->by_path(visit, mounted, &rel, err);
	switch (status) {
	case LDR_ENOTDIR:
		*out_end = !ldr_lookup_file_is_covered(lookup, mounted, &rel);
		visit->saw_notdir |= *out_end;
		if (*out_end)
			return LDR_ENOTFOUND;
		__attribute__((fallthrough));
	case LDR_ENOTFOUND:
		*out_end = ldr_mounted_hides(snapshot, rank, lookup->path, lookup->length, &rel);
		visit->saw_whiteout |= *out_end;
		return LDR_ENOTFOUND;
	case LDR_EGONE:
		*out_end = true;
		visit->saw_whiteout = true;
		return LDR_ENOTFOUND;
	default:
		*out_end = true;
		visit->mounted = mounted;
		visit->rank = rank;
		return status;
	}
}

/* All mounts by path, or those that are asked by path and rank below limit. */
static enum ldr_status ask_by_path(const struct ldr_verbs *verbs, struct ldr_visit *visit,
				   uint32_t limit, bool *out_end, struct ldr_error *err)
{
	const struct ldr_snapshot *snapshot = visit->lookup->snapshot;
	bool all = !snapshot->merged, sleeps = ldr_snapshot_sleeps(snapshot);
	uint32_t count = all      ? snapshot->count
			 : sleeps ? snapshot->awake_count
				  : snapshot->by_path_count;
	const uint32_t *ranks = sleeps ? snapshot->awake : snapshot->by_path;

	*out_end = false;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = all ? i : ranks[i];
		enum ldr_status status;

		if (rank >= limit)
			break;
		status = ldr_lookup_ask_one(verbs, visit, rank, out_end, err);
		if (*out_end)
			return status;
	}
	return LDR_ENOTFOUND;
}

static bool anybody_is_awake(const struct ldr_snapshot *snapshot)
{
	return snapshot->awake_count > 0 || !ldr_snapshot_sleeps(snapshot);
}

static enum ldr_status ask_quietly(const struct ldr_verbs *verbs, struct ldr_visit *visit,
				   uint32_t limit, bool *out_end, struct ldr_error *err)
{
	struct ldr_error why;
	enum ldr_status status;

	if (!err)
		return ask_by_path(verbs, visit, limit, out_end, NULL);
	ldr_why_begin(&why);
	status = ask_by_path(verbs, visit, limit, out_end, &why);
	return status == LDR_OK || status == LDR_ENOTFOUND ? status
							   : ldr_why_tell(&why, status, err);
}

enum ldr_status ldr_lookup_ask(const struct ldr_verbs *verbs, struct ldr_visit *visit,
			       struct ldr_error *err)
{
	const struct ldr_lookup *lookup = visit->lookup;
	const struct ldr_snapshot *snapshot = lookup->snapshot;
	const struct ldr_slot *slot = NULL;
	uint32_t limit = snapshot->count;
	enum ldr_status status;
	bool end;

	if (snapshot->merged) {
		slot = ldr_merged_find(snapshot->merged, lookup->path, lookup->length);
		if (slot && (slot->flags & LDR_SLOT_POINT))
			return verbs->point(visit, err);
		if (slot)
			limit = slot->rank;
	} else if (ldr_snapshot_is_point(snapshot, lookup->path, lookup->length)) {
		return verbs->point(visit, err);
	}
	if (!snapshot->merged || (snapshot->first_by_path < limit && anybody_is_awake(snapshot))) {
		status = ask_quietly(verbs, visit, limit, &end, err);
		if (end || !slot)
			return status;
	}
	if (!slot)
		return LDR_ENOTFOUND;
	visit->mounted = snapshot->mounts[slot->rank];
	visit->rank = slot->rank;
	status = verbs->by_node(visit, visit->mounted, slot, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

/* ---- saying why not ---- */

/* True when the merged table has a file as the nearest parent that it knows. */
static bool merged_parent_is_file(const struct ldr_lookup *lookup)
{
	const struct ldr_merged *merged = lookup->snapshot->merged;

	for (size_t i = lookup->length; merged && i-- > 0;) {
		const struct ldr_slot *slot;

		if (lookup->path[i] != '/')
			continue;
		slot = ldr_merged_find(merged, lookup->path, i);
		if (slot)
			return slot->kind == LDR_KIND_FILE;
	}
	return false;
}

/* What is seen at the parents, from the root down: true at the first that is seen as a file. */
static bool a_parent_is_file(const struct ldr_lookup *lookup)
{
	char path[LDR_PATH_MAX_BYTES + 1];

	memcpy(path, lookup->path, lookup->length + 1);
	for (size_t end = 1; end < lookup->length; end++) {
		struct ldr_lookup parent = {lookup->snapshot, path, end};
		struct ldr_stat found;
		struct ldr_visit visit = {.lookup = &parent, .stat = &found};

		if (path[end] != '/')
			continue;
		path[end] = '\0';
		if (ldr_lookup_ask(&ldr_verbs_stat, &visit, NULL) != LDR_OK)
			return false;
		if (found.kind != LDR_KIND_FOLDER)
			return true;
		path[end] = '/';
	}
	return false;
}

enum ldr_status ldr_lookup_say(const struct ldr_visit *visit, enum ldr_status status,
			       struct ldr_error *err)
{
	const struct ldr_lookup *lookup = visit->lookup;
	char shown[LDR_QUOTE_BYTES];
	bool notdir;

	if (status != LDR_ENOTFOUND)
		return status;
	notdir = (visit->saw_notdir || merged_parent_is_file(lookup)) && a_parent_is_file(lookup);
	if (!err)
		return notdir ? LDR_ENOTDIR : LDR_ENOTFOUND;
	ldr_path_quote(lookup->path, lookup->length, shown);
	if (notdir)
		return ldr_fail(err, LDR_ENOTDIR, "%s: a file is in the way", shown);
	return ldr_fail(err, LDR_ENOTFOUND, "%s: not found", shown);
}

enum ldr_status ldr_lookup_below(const struct ldr_lookup *lookup, uint32_t rank,
				 struct ldr_stat *out, struct ldr_error *err)
{
	struct ldr_visit visit = {.lookup = lookup, .stat = out};

	while (++rank < lookup->snapshot->count) {
		bool end;
		enum ldr_status status = ldr_lookup_ask_one(&ldr_verbs_stat, &visit, rank, &end,
							    err);

		if (end)
			return status;
	}
	return LDR_ENOTFOUND;
}
