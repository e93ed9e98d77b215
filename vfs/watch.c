/*
 * Change hints; see watch.h.
 *
 * A slot holds one path, what was seen there last (its sight), and whether a change waits to be
 * told. A look is made without the lock and counts only when the slot is still the same path.
 *
 * States of a slot: free -> quiet -> changed (until the debounce has passed without another change
 * and the hint is given) -> quiet; free again when removed. At most max_hints are changed.
 *
 * Locks: LDR_RANK_LEAF for all of it.
 */
#include "vfs/watch.h"

#include <stdlib.h>

#include "common/keys.h"
#include "vfs/vfs_priv.h"

#define DEFAULT_COUNT 128u
#define DEFAULT_DEBOUNCE_MS 50u
#define LEAST_DEBOUNCE_MS 20u

/* What was seen at a path. */
struct sight {
	enum ldr_status status;
	enum ldr_kind kind;
	uint64_t mount;    /* files: the serial number of who answered */
	uint64_t identity; /* files: of the bytes, where the layer can tell; else 0 */
	uint64_t size_bytes;
	int64_t modified_ns;
};

struct slot {
	bool used;
	bool changed;
	uint32_t serial;
	size_t length;
	uint64_t changed_ns; /* when it was seen last to change */
	struct sight sight;
	char path[LDR_PATH_MAX_BYTES + 1];
};

struct ldr_watch {
	struct ldr_vfs *vfs;
	const struct ldr_clock *clock;
	uint64_t debounce_ns;
	struct ldr_mutex lock;
	uint32_t max_paths;
	uint32_t max_hints;
	uint32_t changed_count;
	uint32_t next;        /* slot to look at */
	uint32_t next_told;   /* slot to begin telling with, so that none is starved */
	uint32_t next_serial; /* begins anywhere, so that tokens of other watches are strange */
	bool rescan;
	uint64_t fallbacks; /* of watched layers, as known */
	struct slot slots[];
};

/* ---- looking ---- */

/* The same bytes in another release are no change; of the same mount it need not be asked again. */
static uint64_t identity_of(const struct ldr_lookup *lookup, const struct ldr_mounted *mounted,
			    const struct sight *last)
{
	struct ldr_layer_path rel;
	uint64_t identity;

	if (last->mount == mounted->serial)
		return last->identity;
	if (!mounted->ops->identity ||
	    !ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel) ||
	    mounted->ops->identity(mounted->self, &rel, &identity) != LDR_OK)
		return 0;
	return identity;
}

static bool is_same(const struct sight *a, const struct sight *b)
{
	return a->status == b->status && a->kind == b->kind && a->size_bytes == b->size_bytes &&
	       a->modified_ns == b->modified_ns && a->identity == b->identity &&
	       (a->mount == b->mount || a->identity != 0);
}

static void look(struct ldr_vfs *vfs, const char *path, const struct sight *last, struct sight *out)
{
	struct ldr_lookup lookup;
	struct ldr_epoch_stay stay;
	struct ldr_stat found = {.size_bytes = 0};
	struct ldr_visit visit = {.lookup = &lookup, .stat = &found};
	enum ldr_status status = ldr_lookup_begin(vfs, path, &lookup, &stay, NULL);

	*out = (struct sight){.status = status};
	if (status != LDR_OK)
		return;
	status = ldr_lookup_ask(&ldr_verbs_stat, &visit, NULL);
	out->status = status;
	if (status == LDR_OK)
		out->kind = found.kind;
	if (status == LDR_OK && found.kind == LDR_KIND_FILE && visit.mounted) {
		out->mount = visit.mounted->serial;
		out->size_bytes = found.size_bytes;
		out->modified_ns = found.modified_ns;
		out->identity = identity_of(&lookup, visit.mounted, last);
	}
	ldr_epoch_leave(stay);
}

static bool is_failure(const struct sight *sight)
{
	return sight->status != LDR_OK && sight->status != LDR_ENOTFOUND &&
	       sight->status != LDR_ENOTDIR;
}

/* ---- slots; under the lock ---- */

static void mark_changed(struct ldr_watch *watch, struct slot *slot)
{
	if (!slot->changed && watch->changed_count == watch->max_hints) {
		watch->rescan = true;
		return;
	}
	watch->changed_count += !slot->changed;
	slot->changed = true;
	slot->changed_ns = watch->clock->now_ns(watch->clock);
}

static void mark_told(struct ldr_watch *watch, struct slot *slot)
{
	watch->changed_count -= slot->changed;
	slot->changed = false;
}

static struct slot *find_path(struct ldr_watch *watch, const char *path, size_t length)
{
	for (uint32_t i = 0; i < watch->max_paths; i++) {
		struct slot *slot = &watch->slots[i];

		if (slot->used && slot->length == length && memcmp(slot->path, path, length) == 0)
			return slot;
	}
	return NULL;
}

static struct slot *find_free(struct ldr_watch *watch)
{
	for (uint32_t i = 0; i < watch->max_paths; i++) {
		if (!watch->slots[i].used)
			return &watch->slots[i];
	}
	return NULL;
}

/* ---- the calls ---- */

enum ldr_status ldr_watch_new(struct ldr_vfs *vfs, const struct ldr_watch_options *options,
			      struct ldr_watch **out_watch, struct ldr_error *err)
{
	struct ldr_watch_options given = {.size = sizeof(given)};
	struct ldr_vfs_metrics metrics;
	struct ldr_watch *watch;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "watch options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	if (options)
		given = *options;
	given.max_paths = given.max_paths ? given.max_paths : DEFAULT_COUNT;
	given.max_hints = given.max_hints ? given.max_hints : DEFAULT_COUNT;
	given.debounce_ms = given.debounce_ms ? given.debounce_ms : DEFAULT_DEBOUNCE_MS;
	if (given.max_paths > LDR_WATCH_PATHS_MAX || given.max_hints > LDR_WATCH_HINTS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "watch: %u paths and %u hints, limits %u and %u",
				given.max_paths, given.max_hints, LDR_WATCH_PATHS_MAX,
				LDR_WATCH_HINTS_MAX);
	if (given.debounce_ms < LEAST_DEBOUNCE_MS)
		return ldr_fail(err, LDR_EINVAL, "watch: debounce of %u ms, at least %u",
				given.debounce_ms, LEAST_DEBOUNCE_MS);
	watch = calloc(1, sizeof(*watch) + given.max_paths * sizeof(watch->slots[0]));
	if (!watch)
		return ldr_fail(err, LDR_ENOMEM, "watch of %u paths: out of memory",
				given.max_paths);
	watch->vfs = vfs;
	watch->clock = given.clock ? given.clock : ldr_clock_system();
	watch->debounce_ns = given.debounce_ms * UINT64_C(1000000);
	watch->max_paths = given.max_paths;
	watch->max_hints = given.max_hints;
	status = ldr_random(&watch->next_serial, sizeof(watch->next_serial), err);
	if (status != LDR_OK) {
		free(watch);
		return status;
	}
	ldr_mutex_init(&watch->lock, LDR_RANK_LEAF);
	ldr_vfs_metrics(vfs, &metrics);
	watch->fallbacks = metrics.watch_fallbacks;
	*out_watch = watch;
	return LDR_OK;
}

void ldr_watch_free(struct ldr_watch *watch)
{
	if (!watch)
		return;
	ldr_mutex_dispose(&watch->lock);
	free(watch);
}

static enum ldr_status put_path(struct ldr_watch *watch, const char *path, size_t length,
				const struct sight *sight, struct ldr_watch_token *out_token,
				struct ldr_error *err)
{
	char shown[LDR_QUOTE_BYTES];
	struct slot *slot = find_free(watch);
	int64_t debounce_ns = (int64_t)watch->debounce_ns;

	if (find_path(watch, path, length))
		return ldr_fail(err, LDR_EEXISTS, "%s: is watched already",
				ldr_path_quote(path, length, shown));
	if (!slot)
		return ldr_fail(err, LDR_ELIMIT, "watch: %u paths, limit %u", watch->max_paths,
				watch->max_paths);
	*slot = (struct slot){
		.used = true, .serial = watch->next_serial++, .length = length, .sight = *sight};
	memcpy(slot->path, path, length + 1);
	/* It may be written once more within the same tick, which no later look would see. */
	if (sight->status == LDR_OK &&
	    sight->modified_ns > ldr_clock_coarse_wall_ns() - debounce_ns)
		mark_changed(watch, slot);
	out_token->slot = (uint32_t)(slot - watch->slots);
	out_token->serial = slot->serial;
	return LDR_OK;
}

enum ldr_status ldr_watch_add(struct ldr_watch *watch, const char *path,
			      struct ldr_watch_token *out_token, struct ldr_error *err)
{
	const struct sight nothing = {.mount = 0};
	struct sight sight;
	size_t length;
	enum ldr_status status = ldr_path_measure(path, &length, err);

	if (status != LDR_OK)
		return status;
	look(watch->vfs, path, &nothing, &sight);
	ldr_mutex_lock(&watch->lock);
	status = put_path(watch, path, length, &sight, out_token, err);
	ldr_mutex_unlock(&watch->lock);
	return status;
}

enum ldr_status ldr_watch_remove(struct ldr_watch *watch, struct ldr_watch_token token,
				 struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	ldr_mutex_lock(&watch->lock);
	if (token.slot >= watch->max_paths || !watch->slots[token.slot].used ||
	    watch->slots[token.slot].serial != token.serial) {
		status = ldr_fail(err, LDR_ESTALE, "watch: token %u of slot %u names no path",
				  token.serial, token.slot);
	} else {
		mark_told(watch, &watch->slots[token.slot]);
		watch->slots[token.slot].used = false;
	}
	ldr_mutex_unlock(&watch->lock);
	return status;
}

/* The next used slot, whose path and sight it copies; false: there is none. */
static bool take_next(struct ldr_watch *watch, struct ldr_watch_token *out_token,
		      char path[LDR_PATH_MAX_BYTES + 1], struct sight *out_last)
{
	for (uint32_t i = 0; i < watch->max_paths; i++) {
		uint32_t at = (watch->next + i) % watch->max_paths;
		const struct slot *slot = &watch->slots[at];

		if (!slot->used)
			continue;
		*out_token = (struct ldr_watch_token){at, slot->serial};
		memcpy(path, slot->path, slot->length + 1);
		*out_last = slot->sight;
		watch->next = (at + 1) % watch->max_paths;
		return true;
	}
	return false;
}

/* Two threads may have looked in one order and come back in the other: then one change is told
 * twice, never none. */
static void take_in(struct ldr_watch *watch, struct ldr_watch_token token,
		    const struct sight *sight)
{
	struct slot *slot = &watch->slots[token.slot];

	bool same;

	if (!slot->used || slot->serial != token.serial)
		return;
	same = is_same(&slot->sight, sight);
	slot->sight = *sight;
	if (same)
		return;
	watch->rescan |= is_failure(sight);
	mark_changed(watch, slot);
}

static bool step(struct ldr_watch *watch, struct ldr_watch_token *first, bool is_first)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_watch_token token;
	struct sight last, sight;
	bool found;

	ldr_mutex_lock(&watch->lock);
	found = take_next(watch, &token, path, &last);
	ldr_mutex_unlock(&watch->lock);
	/* Once round is enough. */
	if (!found || (!is_first && token.slot == first->slot))
		return false;
	if (is_first)
		*first = token;
	look(watch->vfs, path, &last, &sight);
	ldr_mutex_lock(&watch->lock);
	take_in(watch, token, &sight);
	ldr_mutex_unlock(&watch->lock);
	return true;
}

static size_t tell(struct ldr_watch *watch, struct ldr_watch_token *out_hints, size_t capacity)
{
	uint64_t now_ns = watch->clock->now_ns(watch->clock);
	uint32_t begin = watch->next_told;
	size_t count = 0;

	for (uint32_t i = 0; i < watch->max_paths && count < capacity; i++) {
		uint32_t at = (begin + i) % watch->max_paths;
		struct slot *slot = &watch->slots[at];

		if (!slot->changed || now_ns - slot->changed_ns < watch->debounce_ns)
			continue;
		mark_told(watch, slot);
		out_hints[count++] = (struct ldr_watch_token){at, slot->serial};
		watch->next_told = (at + 1) % watch->max_paths;
	}
	return count;
}

size_t ldr_watch_poll(struct ldr_watch *watch, uint32_t max_steps,
		      struct ldr_watch_token *out_hints, size_t capacity, bool *out_rescan)
{
	struct ldr_watch_token first = {.slot = 0};
	struct ldr_vfs_metrics metrics;
	size_t count;

	for (uint32_t i = 0; i < max_steps; i++) {
		if (!step(watch, &first, i == 0))
			break;
	}
	ldr_vfs_metrics(watch->vfs, &metrics);
	ldr_mutex_lock(&watch->lock);
	watch->rescan |= metrics.watch_fallbacks > watch->fallbacks;
	watch->fallbacks = metrics.watch_fallbacks;
	count = tell(watch, out_hints, capacity);
	*out_rescan = watch->rescan;
	ldr_mutex_unlock(&watch->lock);
	return count;
}

void ldr_watch_rescanned(struct ldr_watch *watch)
{
	ldr_mutex_lock(&watch->lock);
	watch->rescan = false;
	ldr_mutex_unlock(&watch->lock);
}
