/*
 * Building the merged table; see merged.h.
 */
#include "vfs/merged.h"

#include <stdlib.h>

#include "common/os_arena.h"

#define SLOTS_FIRST 1024u

/* What one mount's walk goes on with. */
struct walk {
	struct ldr_merged *merged;
	uint16_t rank;
	bool parent_cut; /* of the parent below */
	size_t parent_bytes;
	size_t at_bytes; /* the mount point and its slash, in path already */
	char parent[2 * LDR_PATH_MAX_BYTES + 2];
	char path[2 * LDR_PATH_MAX_BYTES + 2];
};

static enum ldr_status slots_take(struct ldr_merged *merged, size_t count, struct ldr_error *err)
{
	void *slots;
	size_t bytes = count * sizeof(struct ldr_slot);

	if (ldr_os_arena_map(bytes, &slots) != 0)
		return ldr_fail(err, LDR_ENOMEM, "merged table of %zu names: out of memory", count);
	merged->slots = slots;
	merged->mask = count - 1;
	merged->memory_bytes = bytes;
	return LDR_OK;
}

static struct ldr_slot *free_slot(struct ldr_merged *merged, uint64_t low)
{
	size_t i = low & merged->mask;

	while (merged->slots[i].kind)
		i = (i + 1) & merged->mask;
	return &merged->slots[i];
}

static enum ldr_status make_room(struct ldr_merged *merged, struct ldr_error *err)
{
	struct ldr_slot *old = merged->slots;
	size_t old_count = merged->mask + 1, old_bytes = merged->memory_bytes;
	enum ldr_status status;

	if ((merged->count + 1) * 3 <= old_count * 2)
		return LDR_OK;
	status = slots_take(merged, old_count * 2, err);
	if (status != LDR_OK)
		return status;
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].kind)
			*free_slot(merged, old[i].low) = old[i];
	}
	ldr_os_arena_unmap(old, old_bytes);
	return LDR_OK;
}

/* The slot of this path; made as one that is answered by nobody when there is none (*out_is_new).
 * */
static enum ldr_status slot_of(struct ldr_merged *merged, const char *path, size_t length,
			       struct ldr_slot **out_slot, bool *out_is_new, struct ldr_error *err)
{
	const struct ldr_slot *found = ldr_merged_find(merged, path, length);
	struct ldr_wide_hash hash;
	enum ldr_status status;

	*out_is_new = !found;
	if (found) {
		*out_slot = &merged->slots[found - merged->slots];
		return LDR_OK;
	}
	status = make_room(merged, err);
	if (status != LDR_OK)
		return status;
	hash = ldr_checksum_wide(path, length, merged->seed);
	*out_slot = free_slot(merged, hash.low);
	**out_slot = (struct ldr_slot){.low = hash.low,
				       .high = hash.high,
				       .rank = LDR_RANK_NOBODY,
				       .cut = LDR_RANK_NOBODY,
				       .kind = LDR_KIND_FOLDER};
	merged->count++;
	return LDR_OK;
}

bool ldr_merged_cuts(const struct ldr_merged *merged, const char *path, size_t length,
		     uint32_t rank)
{
	for (size_t i = length; i-- > 0;) {
		const struct ldr_slot *slot;

		if (path[i] != '/')
			continue;
		slot = ldr_merged_find(merged, path, i);
		if (!slot || (slot->flags & LDR_SLOT_POINT))
			continue;
		if (slot->cut < rank || (slot->kind == LDR_KIND_FILE && slot->rank < rank))
			return true;
	}
	return false;
}

/* Names of one folder mostly come one after the other, so the parent's answer is kept. */
static bool is_cut(struct walk *walk, const char *path, size_t length)
{
	size_t parent_bytes = length;

	while (parent_bytes > 0 && path[parent_bytes - 1] != '/')
		parent_bytes--;
	if (parent_bytes == walk->parent_bytes && memcmp(path, walk->parent, parent_bytes) == 0)
		return walk->parent_cut;
	walk->parent_cut = ldr_merged_cuts(walk->merged, path, length, walk->rank);
	walk->parent_bytes = parent_bytes;
	memcpy(walk->parent, path, parent_bytes);
	return walk->parent_cut;
}

static enum ldr_status add_node(void *context, const char *path, size_t path_bytes,
				enum ldr_kind kind, uint64_t node, struct ldr_error *err)
{
	struct walk *walk = context;
	size_t length = walk->at_bytes + path_bytes;
	struct ldr_slot *slot;
	enum ldr_status status;
	bool is_new;

	if (length > LDR_PATH_MAX_BYTES || ldr_mounted_reserves(path, path_bytes, false))
		return LDR_OK; /* nobody can ask for it */
	memcpy(walk->path + walk->at_bytes, path, path_bytes);
	if (is_cut(walk, walk->path, length))
		return LDR_OK;
	status = slot_of(walk->merged, walk->path, length, &slot, &is_new, err);
	if (status != LDR_OK)
		return status;
	if (!is_new && kind == LDR_KIND_FILE) {
		if (slot->kind == LDR_KIND_FOLDER && !(slot->flags & LDR_SLOT_POINT) &&
		    walk->rank < slot->cut)
			slot->cut = walk->rank;
		return LDR_OK;
	}
	if (slot->rank != LDR_RANK_NOBODY)
		return LDR_OK;
	slot->kind = (uint8_t)kind;
	slot->rank = walk->rank;
	slot->node = node;
	return LDR_OK;
}

/* The mount's point and the folders above it. */
static enum ldr_status add_points(struct ldr_merged *merged, const struct ldr_mounted *mounted,
				  struct ldr_error *err)
{
	for (size_t end = 0; end <= mounted->at_bytes; end++) {
		struct ldr_slot *slot;
		enum ldr_status status;
		bool is_new;

		if (end != 0 && end != mounted->at_bytes && mounted->at[end] != '/')
			continue;
		status = slot_of(merged, mounted->at, end, &slot, &is_new, err);
		if (status != LDR_OK)
			return status;
		slot->flags |= LDR_SLOT_POINT;
	}
	return LDR_OK;
}

static enum ldr_status add_mount(struct ldr_merged *merged, const struct ldr_mounted *mounted,
				 uint32_t rank, struct walk *walk, struct ldr_error *err)
{
	walk->merged = merged;
	walk->rank = (uint16_t)rank;
	walk->parent_bytes = SIZE_MAX;
	memcpy(walk->path, mounted->at, mounted->at_bytes);
	walk->at_bytes = mounted->at_bytes;
	if (walk->at_bytes > 0)
		walk->path[walk->at_bytes++] = '/';
	return mounted->ops->walk(mounted->self, add_node, walk, err);
}

static enum ldr_status fill(struct ldr_merged *merged, const struct ldr_snapshot *snapshot,
			    struct ldr_error *err)
{
	struct walk *walk = malloc(sizeof(*walk));
	enum ldr_status status = LDR_OK;

	if (!walk)
		return ldr_fail(err, LDR_ENOMEM, "merged table: out of memory");
	for (uint32_t i = 0; i < snapshot->count && status == LDR_OK; i++)
		status = add_points(merged, snapshot->mounts[i], err);
	for (uint32_t i = 0; i < snapshot->count && status == LDR_OK; i++) {
		if (!snapshot->mounts[i]->by_path)
			status = add_mount(merged, snapshot->mounts[i], i, walk, err);
	}
	free(walk);
	return status;
}

enum ldr_status ldr_merged_build(const struct ldr_snapshot *snapshot, uint64_t seed,
				 struct ldr_merged **out_merged, struct ldr_error *err)
{
	struct ldr_merged *merged = calloc(1, sizeof(*merged));
	enum ldr_status status;

	if (!merged)
		return ldr_fail(err, LDR_ENOMEM, "merged table: out of memory");
	merged->seed = seed;
	status = slots_take(merged, SLOTS_FIRST, err);
	if (status == LDR_OK)
		status = fill(merged, snapshot, err);
	if (status != LDR_OK) {
		ldr_merged_free(merged);
		return status;
	}
	*out_merged = merged;
	return LDR_OK;
}

void ldr_merged_free(struct ldr_merged *merged)
{
	if (!merged)
		return;
	ldr_os_arena_unmap(merged->slots, merged->memory_bytes);
	free(merged);
}
