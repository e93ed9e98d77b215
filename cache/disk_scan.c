/*
 * The folder and the tables of the disk cache; see disk_priv.h.
 *
 * A listing compares the names in packs/ with the tables: names that are new are loaded, published packs
 * whose name is gone are dropped. The text of `generation` is read before the listing, so that whatever
 * is added during it is noticed at the next look.
 *
 * Loading a pack means its entries only: from `lookup` where that file knows a pack of this id and size,
 * else from the pack's index, whose digest must be the name. A pack whose index is damaged is removed: it
 * can never be read, and its blocks are fetched again.
 *
 * Invariant: a pack published by this process during a listing is not dropped for not being in it
 * (its `listing` is not lower than the listing's number).
 */
#include "cache/disk_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"
#include "packs/pack_reader.h"

#define LOOK_EVERY_NS (UINT64_C(50) * 1000000)
#define NAMES_MAX (UINT32_C(1) << 22)

/* One listing at work. */
struct listing {
	struct ldr_disk_cache *cache;
	struct ldr_lookup_file file; /* borrows from bytes */
	uint8_t *bytes;              /* owns */
	struct ldr_id *ids;          /* owns: names in the folder; sorted when complete */
	uint32_t count, capacity;
	struct ldr_id *known; /* owns: published packs in the tables, sorted */
	uint32_t known_count;
	uint64_t number;
	uint64_t foreign_bytes;
};

static int compare_ids(const void *a, const void *b)
{
	return ldr_id_compare(a, b);
}

static bool contains(const struct ldr_id *sorted, uint32_t count, const struct ldr_id *id)
{
	return count && bsearch(id, sorted, count, sizeof(*id), compare_ids);
}

static bool add_name(struct listing *listing, const struct ldr_id *id)
{
	if (listing->count == listing->capacity) {
		uint32_t capacity = listing->capacity ? 2 * listing->capacity : 64;
		struct ldr_id *ids = NULL;

		if (capacity <= NAMES_MAX)
			ids = realloc(listing->ids, capacity * sizeof(*ids));
		if (!ids)
			return false;
		listing->ids = ids;
		listing->capacity = capacity;
	}
	listing->ids[listing->count++] = *id;
	return true;
}

bool ldr_disk_knows_locked(const struct ldr_disk_cache *cache, const struct ldr_id *id)
{
	for (uint32_t i = 0; i < cache->table_count; i++) {
		if (cache->table[i].state == LDR_DISK_PACK_PUBLISHED &&
		    ldr_id_equal(&cache->table[i].id, id))
			return true;
	}
	return false;
}

/* The ids of the published packs in the tables, sorted, so that a listing passes over them quickly. */
static bool collect_known(struct listing *listing)
{
	struct ldr_disk_cache *cache = listing->cache;

	ldr_mutex_lock(&cache->lock);
	listing->known = calloc(cache->table_count + 1, sizeof(*listing->known));
	for (uint32_t i = 0; listing->known && i < cache->table_count; i++) {
		if (cache->table[i].state == LDR_DISK_PACK_PUBLISHED)
			listing->known[listing->known_count++] = cache->table[i].id;
	}
	ldr_mutex_unlock(&cache->lock);
	if (listing->known)
		qsort(listing->known, listing->known_count, sizeof(struct ldr_id), compare_ids);
	return listing->known != NULL;
}

/* ---- loading a pack ---- */

/* A published pack's row in the table, and its entries one by one. */
static enum ldr_status add_pack(struct listing *listing, const struct ldr_id *id,
				const struct stat *info, const struct ldr_lookup_listed *listed,
				struct ldr_pack *reader)
{
	struct ldr_disk_cache *cache = listing->cache;
	uint32_t rows = listed ? listed->count : ldr_pack_entry_count(reader), number;
	struct ldr_disk_pack *pack;
	struct ldr_pack_entry entry;
	bool fits = true;

	ldr_mutex_lock(&cache->lock);
	if (listing->known_count && ldr_disk_knows_locked(cache, id)) {
		ldr_mutex_unlock(&cache->lock);
		return LDR_OK;
	}
	pack = ldr_disk_new_pack_locked(cache, &number);
	for (uint32_t i = 0; pack && fits && i < rows; i++) {
		if (listed)
			ldr_lookup_file_row(&listing->file, listed->first + i, &entry);
		else
			ldr_pack_entry_at(reader, i, &entry);
		fits = ldr_lookup_add(&cache->lookup, number, &entry);
	}
	if (pack) {
		pack->state = LDR_DISK_PACK_PUBLISHED;
		pack->id = *id;
		pack->size_bytes = (uint64_t)info->st_size;
		pack->charge_bytes = ldr_disk_pages(pack->size_bytes);
		pack->used_s = info->st_mtim.tv_sec;
		pack->listing = listing->number;
		pack->in_lookup = listed != NULL;
		cache->stat.packs++;
		cache->stat.bytes += pack->charge_bytes;
		if (!listed)
			cache->unlisted_packs++;
	}
	if (pack && !fits)
		ldr_disk_drop_pack_locked(cache, number);
	ldr_mutex_unlock(&cache->lock);
	return pack && fits ? LDR_OK : LDR_ENOMEM;
}

static void remove_damaged(struct ldr_disk_cache *cache, const char *name)
{
	if (cache->read_only)
		return;
	ldr_root_remove(cache->packs, name, LDR_SYNC_NONE, NULL);
	ldr_mutex_lock(&cache->lock);
	cache->stat.damaged_packs++;
	ldr_mutex_unlock(&cache->lock);
}

static enum ldr_status load_index(struct listing *listing, const char *name,
				  const struct ldr_id *id, const struct stat *info)
{
	struct ldr_pack_options options = {.expected_id = id};
	LDR_AUTO_PACK struct ldr_pack *reader = NULL;
	enum ldr_status status;
	int fd;

	status = ldr_root_open_file(listing->cache->packs, name, &fd, NULL);
	if (status == LDR_OK)
		status = ldr_pack_open_fd(fd, name, &options, &reader, NULL);
	if (status == LDR_ECORRUPT)
		remove_damaged(listing->cache, name);
	else if (status && status != LDR_ENOTFOUND)
		listing->foreign_bytes += ldr_disk_pages((uint64_t)info->st_size);
	if (status)
		return status == LDR_ENOMEM ? status : LDR_OK;
	return add_pack(listing, id, info, NULL, reader);
}

/* A pack that cannot be loaded is passed over: a cache may lack blocks. Only no memory is an error. */
static enum ldr_status load(struct listing *listing, const char *name, const struct ldr_id *id)
{
	struct ldr_disk_cache *cache = listing->cache;
	struct ldr_lookup_listed listed;
	struct stat info;

	if (contains(listing->known, listing->known_count, id) ||
	    ldr_os_stat_at(ldr_root_fd(cache->packs), name, &info) || !S_ISREG(info.st_mode))
		return LDR_OK;
	if (ldr_lookup_file_find(&listing->file, id, &listed) &&
	    listed.size_bytes == (uint64_t)info.st_size)
		return add_pack(listing, id, &info, &listed, NULL);
	return load_index(listing, name, id, &info);
}

/* ---- listing ---- */

/* Temporaries of others count for what they may grow to, so that together all stay within the quota. */
static void charge_temporary(struct listing *listing, const char *name)
{
	struct ldr_disk_cache *cache = listing->cache;
	struct stat info;
	uint64_t charge;
	bool own = false;

	if (ldr_os_stat_at(ldr_root_fd(cache->packs), name, &info))
		return;
	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count; i++)
		own |= cache->table[i].state == LDR_DISK_PACK_OPEN &&
		       cache->table[i].inode == (uint64_t)info.st_ino;
	ldr_mutex_unlock(&cache->lock);
	charge = ldr_disk_pages((uint64_t)info.st_size);
	if (!own)
		listing->foreign_bytes += charge > cache->seal_bytes ? charge : cache->seal_bytes;
}

static bool pack_of_name(const char *name, struct ldr_id *out_id)
{
	size_t length = strlen(name);

	return length == LDR_DISK_NAME_BYTES - 1 &&
	       memcmp(name + LDR_ID_HEX_CHARS, ".pack", 5) == 0 &&
	       ldr_id_from_hex(name, LDR_ID_HEX_CHARS, out_id);
}

static enum ldr_status list_names(struct listing *listing, struct ldr_error *err)
{
	struct ldr_disk_cache *cache = listing->cache;
	struct ldr_os_listing *names;
	enum ldr_status status = LDR_OK;
	const char *name;
	struct ldr_id id;
	mode_t type;
	int error = ldr_os_listing_open(ldr_root_fd(cache->packs), &names);

	if (error)
		return ldr_fail_errno(err, error, "%s: packs not listed",
				      ldr_root_path(cache->packs));
	while (!(error = ldr_os_listing_next(names, &name, &type)) && name) {
		if (strncmp(name, ".larder-tmp.", 12) == 0)
			charge_temporary(listing, name);
		else if (pack_of_name(name, &id) && !add_name(listing, &id))
			status = ldr_fail(err, LDR_ENOMEM, "%s: no memory for %u names",
					  ldr_root_path(cache->packs), listing->count);
		if (status)
			break;
	}
	ldr_os_listing_close(names);
	if (error)
		return ldr_fail_errno(err, error, "%s: packs not listed",
				      ldr_root_path(cache->packs));
	return status;
}

/* Published packs that are not in the folder any more: somebody else has evicted them. */
static void drop_missing(struct listing *listing)
{
	struct ldr_disk_cache *cache = listing->cache;

	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count; i++) {
		struct ldr_disk_pack *pack = &cache->table[i];

		if (pack->state == LDR_DISK_PACK_PUBLISHED && pack->listing < listing->number &&
		    !contains(listing->ids, listing->count, &pack->id))
			ldr_disk_drop_pack_locked(cache, i);
	}
	ldr_mutex_unlock(&cache->lock);
}

/* Whole pages of `lookup`. */
static uint64_t lookup_bytes(struct ldr_disk_cache *cache)
{
	struct stat info;

	if (ldr_os_stat_at(ldr_root_fd(cache->root), "lookup", &info))
		return 0;
	return ldr_disk_pages((uint64_t)info.st_size);
}

static void read_stamp(struct ldr_disk_cache *cache, char stamp[LDR_DISK_STAMP_BYTES])
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	size_t length;

	memset(stamp, 0, LDR_DISK_STAMP_BYTES);
	if (ldr_root_read_file(cache->root, "generation", LDR_DISK_STAMP_BYTES - 1, &text, &length,
			       NULL) == LDR_OK)
		memcpy(stamp, text, length);
}

/* A damaged `lookup` is as good as none. */
static void read_lookup(struct listing *listing)
{
	size_t length;

	if (ldr_root_read_file(listing->cache->root, "lookup", LDR_LOOKUP_MAX_BYTES,
			       &listing->bytes, &length, NULL))
		return;
	if (ldr_lookup_file_parse(listing->bytes, length, &listing->file, NULL))
		listing->file = (struct ldr_lookup_file){0};
}

enum ldr_status ldr_disk_scan(struct ldr_disk_cache *cache, bool start, struct ldr_error *err)
{
	struct listing listing = {.cache = cache};
	char stamp[LDR_DISK_STAMP_BYTES], name[LDR_DISK_NAME_BYTES];
	enum ldr_status status;

	read_stamp(cache, stamp);
	ldr_mutex_lock(&cache->lock);
	listing.number = ++cache->listings;
	ldr_mutex_unlock(&cache->lock);
	if (start)
		read_lookup(&listing);
	status = list_names(&listing, err);
	if (status == LDR_OK && listing.count)
		qsort(listing.ids, listing.count, sizeof(*listing.ids), compare_ids);
	if (status == LDR_OK)
		drop_missing(&listing);
	if (status == LDR_OK && !collect_known(&listing))
		status = ldr_fail(err, LDR_ENOMEM, "no memory for the names of packs");
	for (uint32_t i = 0; status == LDR_OK && i < listing.count; i++) {
		ldr_disk_pack_name(&listing.ids[i], name);
		status = load(&listing, name, &listing.ids[i]);
		if (status)
			ldr_fail(err, status, "no memory for the entries of pack %s", name);
	}
	if (status == LDR_OK) {
		uint64_t derived = lookup_bytes(cache);

		/* Twice, since a new one is written beside the old. */
		listing.foreign_bytes += 2 * derived;
		ldr_mutex_lock(&cache->lock);
		memcpy(cache->stamp, stamp, sizeof(stamp));
		cache->lookup_bytes = derived;
		cache->foreign_bytes = listing.foreign_bytes;
		if (start && listing.file.pack_count > listing.count)
			cache->unlisted_packs++;
		ldr_mutex_unlock(&cache->lock);
	}
	free(listing.ids);
	free(listing.known);
	free(listing.bytes);
	return status;
}

/* ---- newcomers ---- */

/* Only one thread looks at a time, and none waits for it. */
static bool begin_look(struct ldr_disk_cache *cache, bool force)
{
	uint64_t now = cache->clock->now_ns(cache->clock);
	bool look;

	ldr_mutex_lock(&cache->lock);
	look = cache->packs && !cache->looking && (force || now >= cache->next_look_ns);
	if (look) {
		cache->looking = true;
		cache->next_look_ns = now + LOOK_EVERY_NS;
	}
	ldr_mutex_unlock(&cache->lock);
	return look;
}

bool ldr_disk_look(struct ldr_disk_cache *cache, bool force)
{
	char stamp[LDR_DISK_STAMP_BYTES];
	bool changed;

	if (!begin_look(cache, force))
		return false;
	read_stamp(cache, stamp);
	ldr_mutex_lock(&cache->lock);
	changed = memcmp(stamp, cache->stamp, sizeof(stamp)) != 0;
	ldr_mutex_unlock(&cache->lock);
	if (changed || force)
		changed = ldr_disk_scan(cache, false, NULL) == LDR_OK;
	ldr_mutex_lock(&cache->lock);
	cache->looking = false;
	ldr_mutex_unlock(&cache->lock);
	return changed;
}

void ldr_disk_tell(struct ldr_disk_cache *cache)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_NONE};
	char text[LDR_DISK_STAMP_BYTES];
	int length = snprintf(text, sizeof(text), "%ld %llu\n", ldr_os_pid(),
			      (unsigned long long)ldr_os_ticket());

	ldr_publish(cache->root, "generation", text, (size_t)length, &options, NULL, NULL);
}

/* ---- writing `lookup` ---- */

struct numbered {
	struct ldr_id id;
	uint32_t number;
};

static void write_lookup_locked(struct ldr_disk_cache *cache, struct numbered *packs,
				uint32_t count, struct ldr_buffer *out)
{
	qsort(packs, count, sizeof(*packs), compare_ids);
	ldr_lookup_file_begin(out, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct ldr_lookup_pack *list = &cache->lookup.packs[packs[i].number];

		ldr_lookup_file_pack(out, &packs[i].id, cache->table[packs[i].number].size_bytes,
				     list->count - list->dropped);
	}
	for (uint32_t i = 0; i < count; i++) {
		ldr_lookup_file_rows(out, &cache->lookup.packs[packs[i].number]);
		cache->table[packs[i].number].in_lookup = true;
	}
	ldr_lookup_file_end(out);
	cache->unlisted_packs = 0;
}

/* Whether a `lookup` of this length may lie beside the old one. Others do without: they read indexes. */
static bool lookup_fits(struct ldr_disk_cache *cache, size_t length)
{
	uint64_t others;
	bool fits;

	ldr_mutex_lock(&cache->lock);
	others = cache->stat.bytes + cache->foreign_bytes - cache->lookup_bytes;
	fits = others + ldr_disk_pages(length) <= cache->quota_bytes;
	ldr_mutex_unlock(&cache->lock);
	return fits;
}

void ldr_disk_save_lookup(struct ldr_disk_cache *cache)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_NONE,
						    .max_bytes = LDR_LOOKUP_MAX_BYTES};
	LDR_AUTO_FREE struct numbered *packs = NULL;
	LDR_AUTO_BUFFER struct ldr_buffer out;
	uint32_t count = 0;

	ldr_buffer_init(&out, LDR_LOOKUP_MAX_BYTES);
	ldr_mutex_lock(&cache->lock);
	if (cache->unlisted_packs)
		packs = calloc(cache->table_count + 1, sizeof(*packs));
	for (uint32_t i = 0; packs && i < cache->table_count; i++) {
		if (cache->table[i].state == LDR_DISK_PACK_PUBLISHED)
			packs[count++] = (struct numbered){cache->table[i].id, i};
	}
	if (packs)
		write_lookup_locked(cache, packs, count, &out);
	ldr_mutex_unlock(&cache->lock);
	if (packs && !out.failed && lookup_fits(cache, out.length))
		ldr_publish(cache->root, "lookup", out.data, out.length, &options, NULL, NULL);
}
