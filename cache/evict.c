/*
 * Room in the disk cache; see disk_priv.h.
 *
 * Whole packs go, the longest unused first, by the time of their files: a process that has used a pack
 * sets that time when the pack's turn to go comes, or at its own end, so that the order holds for all
 * processes. A pack used since its time was set gets a second chance, once per round.
 *
 * A file that somebody else maps or reads stays readable to him; its space comes back when he lets go.
 *
 * Invariants
 *  1. Open packs are never evicted.
 *  2. One call for room removes at most EVICT_AT_ONCE packs, so that a cache found far over its quota
 *     shrinks beside its users' work and not before it.
 */
#include "cache/disk_priv.h"

#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"

#define EVICT_AT_ONCE 16u
/* FORMAT, and `generation` twice, since a new one is written beside the old. */
#define SMALL_FILES_BYTES (3 * UINT64_C(4096))

/* ---- removing one ---- */

enum ldr_status ldr_disk_remove_pack(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial,
				     struct ldr_error *err)
{
	char name[LDR_DISK_NAME_BYTES];
	struct ldr_disk_pack *pack;
	enum ldr_status status;

	ldr_mutex_lock(&cache->lock);
	pack = ldr_disk_pack_locked(cache, number, serial);
	if (pack)
		ldr_disk_pack_name(&pack->id, name);
	ldr_mutex_unlock(&cache->lock);
	if (!pack)
		return LDR_OK;
	status = ldr_root_remove(cache->packs, name, LDR_SYNC_NONE, err);
	if (status && status != LDR_ENOTFOUND)
		return status;
	ldr_disk_drop_pack(cache, number, serial);
	return LDR_OK;
}

/* ---- choosing ---- */

struct victim {
	uint32_t number;
	uint64_t serial;
	struct ldr_id id;
	int64_t used_s;
	bool used;
};

/* The longest unused published pack; among equals the one that came first. */
static bool oldest(struct ldr_disk_cache *cache, struct victim *out_victim)
{
	const struct ldr_disk_pack *found = NULL;
	uint32_t number = 0;

	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count; i++) {
		const struct ldr_disk_pack *pack = &cache->table[i];

		if (pack->state != LDR_DISK_PACK_PUBLISHED)
			continue;
		if (!found || pack->used_s < found->used_s ||
		    (pack->used_s == found->used_s && pack->serial < found->serial)) {
			found = pack;
			number = i;
		}
	}
	if (found)
		*out_victim = (struct victim){.number = number,
					      .serial = found->serial,
					      .id = found->id,
					      .used_s = found->used_s,
					      .used = found->used};
	ldr_mutex_unlock(&cache->lock);
	return found != NULL;
}

static void set_used_s(struct ldr_disk_cache *cache, const struct victim *victim, int64_t used_s)
{
	struct ldr_disk_pack *pack;

	ldr_mutex_lock(&cache->lock);
	pack = ldr_disk_pack_locked(cache, victim->number, victim->serial);
	if (pack) {
		pack->used_s = used_s;
		pack->used = false;
	}
	ldr_mutex_unlock(&cache->lock);
}

/* True: the pack was used, by this process or another, and its time is now that of its use. */
static bool spare(struct ldr_disk_cache *cache, const struct victim *victim)
{
	char name[LDR_DISK_NAME_BYTES];
	struct stat info;

	ldr_disk_pack_name(&victim->id, name);
	if (victim->used) {
		ldr_os_touch_at(ldr_root_fd(cache->packs), name);
		set_used_s(cache, victim, cache->clock->wall_s(cache->clock));
		return true;
	}
	if (ldr_os_stat_at(ldr_root_fd(cache->packs), name, &info) ||
	    info.st_mtim.tv_sec <= victim->used_s)
		return false;
	set_used_s(cache, victim, info.st_mtim.tv_sec);
	return true;
}

/* Evicts the next pack. LDR_ENOSPACE: there is none. chances bounds how many are spared. */
static enum ldr_status evict_one(struct ldr_disk_cache *cache, uint32_t *chances,
				 struct ldr_error *err)
{
	struct victim victim;
	enum ldr_status status;

	do {
		if (!oldest(cache, &victim))
			return ldr_fail(err, LDR_ENOSPACE, "%s: nothing left to evict",
					ldr_root_path(cache->root));
		if (*chances == 0)
			break;
		--*chances;
	} while (spare(cache, &victim));
	status = ldr_disk_remove_pack(cache, victim.number, victim.serial, err);
	if (status)
		return status;
	ldr_mutex_lock(&cache->lock);
	cache->stat.evicted_packs++;
	ldr_mutex_unlock(&cache->lock);
	return LDR_OK;
}

static uint32_t packs_now(struct ldr_disk_cache *cache)
{
	uint32_t packs;

	ldr_mutex_lock(&cache->lock);
	packs = (uint32_t)cache->stat.packs;
	ldr_mutex_unlock(&cache->lock);
	return packs;
}

/* ---- room ---- */

uint64_t ldr_disk_needed_locked(const struct ldr_disk_cache *cache)
{
	uint64_t lookup = ldr_disk_pages(LDR_LOOKUP_HEAD_BYTES +
					 (cache->stat.packs + 2) * LDR_LOOKUP_PACK_BYTES +
					 (cache->lookup.blocks + 1) * LDR_LOOKUP_ROW_BYTES + 8);

	return cache->stat.bytes + cache->foreign_bytes + SMALL_FILES_BYTES +
	       (lookup > cache->lookup_bytes ? lookup - cache->lookup_bytes : 0);
}

/* LDR_OK: so many bytes more fit. */
static enum ldr_status fits(struct ldr_disk_cache *cache, uint64_t bytes, struct ldr_error *err)
{
	uint64_t held, free_bytes;
	int error = ldr_os_free_bytes(ldr_root_fd(cache->packs), &free_bytes);

	if (error)
		return ldr_fail_errno(err, error, "%s: free space", ldr_root_path(cache->root));
	if (free_bytes < cache->free_floor_bytes + bytes)
		return ldr_fail(
			err, LDR_ENOSPACE, "%s: free space %llu, floor %llu, wanted %llu more",
			ldr_root_path(cache->root), (unsigned long long)free_bytes,
			(unsigned long long)cache->free_floor_bytes, (unsigned long long)bytes);
	ldr_mutex_lock(&cache->lock);
	held = ldr_disk_needed_locked(cache);
	ldr_mutex_unlock(&cache->lock);
	if (held + ldr_disk_pages(bytes) > cache->quota_bytes)
		return ldr_fail(err, LDR_ENOSPACE,
				"%s: %llu bytes held, quota %llu, wanted %llu more",
				ldr_root_path(cache->root), (unsigned long long)held,
				(unsigned long long)cache->quota_bytes, (unsigned long long)bytes);
	return LDR_OK;
}

enum ldr_status ldr_disk_make_room(struct ldr_disk_cache *cache, uint64_t bytes,
				   struct ldr_error *err)
{
	uint32_t chances = packs_now(cache);
	unsigned evicted = 0;
	struct ldr_error why = {0};
	enum ldr_status status;

	while ((status = fits(cache, bytes, &why)) == LDR_ENOSPACE && evicted < EVICT_AT_ONCE &&
	       evict_one(cache, &chances, NULL) == LDR_OK)
		evicted++;
	if (evicted)
		ldr_disk_tell(cache);
	if (status && err)
		*err = why;
	return status;
}

enum ldr_status ldr_disk_trim(struct ldr_disk_cache *cache, uint64_t target_bytes,
			      struct ldr_error *err)
{
	uint32_t chances;
	enum ldr_status status;
	uint64_t held;

	if (cache->read_only || !cache->packs)
		return ldr_fail(err, LDR_EDENIED, "%s: cache is open for reading only",
				ldr_root_path(cache->root));
	status = ldr_disk_flush(cache, err);
	ldr_disk_look(cache, true);
	/* Down to nothing, being used is no reason to stay. */
	chances = target_bytes ? packs_now(cache) : 0;
	while (status == LDR_OK) {
		ldr_mutex_lock(&cache->lock);
		held = cache->stat.bytes + cache->foreign_bytes;
		ldr_mutex_unlock(&cache->lock);
		if (held <= target_bytes || packs_now(cache) == 0)
			break;
		status = evict_one(cache, &chances, err);
	}
	ldr_disk_tell(cache);
	ldr_disk_save_lookup(cache);
	return status;
}

void ldr_disk_mark_used(struct ldr_disk_cache *cache)
{
	char name[LDR_DISK_NAME_BYTES];

	for (uint32_t i = 0;; i++) {
		bool used;

		ldr_mutex_lock(&cache->lock);
		if (i >= cache->table_count) {
			ldr_mutex_unlock(&cache->lock);
			return;
		}
		used = cache->table[i].state == LDR_DISK_PACK_PUBLISHED && cache->table[i].used;
		if (used)
			ldr_disk_pack_name(&cache->table[i].id, name);
		cache->table[i].used = false;
		ldr_mutex_unlock(&cache->lock);
		if (used)
			ldr_os_touch_at(ldr_root_fd(cache->packs), name);
	}
}
