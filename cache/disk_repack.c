/*
 * Packs written anew: without their bad blocks, or many small ones as one; see disk_priv.h.
 *
 * The new pack is published before the old ones are removed, so that every good block can be found all
 * the time; a crash in between leaves blocks twice, which costs room and nothing else. Another process
 * that still has an old pack in its tables meets a missing file and looks again.
 */
#include "cache/disk_priv.h"

#include <stdlib.h>

#include "common/bytes.h"
#include "packs/pack_reader.h"

#define MERGED_BYTES (UINT64_C(64) << 20)
/* Fewer small packs than this are left alone; more than MERGE_MAX are left for the next time. */
#define MERGE_MIN 16u
#define MERGE_MAX 256u

/* A published pack, and a copy of its good rows. */
struct copied {
	uint32_t number;
	uint64_t serial;
	struct ldr_id id;
	struct ldr_pack_entry *entries; /* owns */
	uint32_t count;
};

/* False: the pack is not there any more (or there is no memory for its rows). */
static bool copy_rows(struct ldr_disk_cache *cache, uint64_t serial, struct copied *out)
{
	struct copied copied = {.serial = serial};
	bool found = false;

	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count && !found; i++) {
		found = cache->table[i].state == LDR_DISK_PACK_PUBLISHED &&
			cache->table[i].serial == serial;
		copied.number = i;
	}
	if (found) {
		const struct ldr_lookup_pack *list = &cache->lookup.packs[copied.number];

		copied.id = cache->table[copied.number].id;
		copied.entries = calloc((size_t)list->count + 1, sizeof(*copied.entries));
		for (uint32_t i = 0; copied.entries && i < list->count; i++) {
			if (!list->rows[i].dropped)
				copied.entries[copied.count++] = list->rows[i].entry;
		}
	}
	ldr_mutex_unlock(&cache->lock);
	if (copied.entries)
		*out = copied;
	return copied.entries != NULL;
}

static int compare_offsets(const void *a, const void *b)
{
	uint64_t left = ((const struct ldr_pack_entry *)a)->offset;
	uint64_t right = ((const struct ldr_pack_entry *)b)->offset;

	return (left > right) - (left < right);
}

/* Appends the pack's good blocks; one that cannot be read is left out. */
static enum ldr_status append_pack(struct ldr_disk_cache *cache, struct copied *copied,
				   struct ldr_disk_open_pack *open, struct ldr_error *err)
{
	struct ldr_disk_buffer *buffer = ldr_disk_buffer_take(cache);
	struct ldr_disk_file *file = NULL;
	enum ldr_status status;

	if (!buffer)
		return ldr_fail(err, LDR_ENOMEM, "no memory to copy a block");
	status = ldr_disk_file_of(cache, copied->number, copied->serial, &file, err);
	if (status == LDR_OK && copied->count)
		qsort(copied->entries, copied->count, sizeof(*copied->entries), compare_offsets);
	for (uint32_t i = 0; status == LDR_OK && i < copied->count; i++) {
		const struct ldr_pack_entry *entry = &copied->entries[i];
		struct ldr_disk_stored stored = {.block = {entry->id, entry->plain_bytes},
						 .codec = entry->codec,
						 .length = entry->stored_bytes,
						 .bytes = buffer->bytes};

		if (ldr_pack_writer_has(open->writer, &entry->id) ||
		    ldr_disk_read_stored(file, entry, buffer->bytes, NULL))
			continue;
		status = ldr_disk_append(cache, open, &stored, err);
	}
	ldr_disk_file_unref(cache, file);
	ldr_disk_buffer_give(cache, buffer);
	return status;
}

/* Old and new lie side by side for a while; nothing is evicted for that. */
static bool room_for(struct ldr_disk_cache *cache, const struct copied *copied, size_t count)
{
	uint64_t bytes = 0;
	bool room;

	for (size_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < copied[i].count; k++)
			bytes += copied[i].entries[k].stored_bytes + LDR_PACK_ENTRY_BYTES +
				 LDR_PACK_CHECKSUM_BYTES;
	}
	ldr_mutex_lock(&cache->lock);
	room = cache->stat.bytes + cache->foreign_bytes + bytes + 65536 <= cache->quota_bytes;
	ldr_mutex_unlock(&cache->lock);
	return room;
}

/* The new pack's id; without a good block there is no new pack and *out_made is false. */
static enum ldr_status write_copy(struct ldr_disk_cache *cache, struct copied *copied, size_t count,
				  struct ldr_id *out_id, bool *out_made, struct ldr_error *err)
{
	struct ldr_disk_open_pack *open;
	enum ldr_status status;

	*out_made = false;
	if (!room_for(cache, copied, count))
		return ldr_fail(err, LDR_ENOSPACE, "%s: no room to copy %zu packs",
				ldr_root_path(cache->root), count);
	status = ldr_disk_begin_pack(cache, &open, err);
	if (status)
		return status;
	for (size_t i = 0; status == LDR_OK && i < count; i++)
		status = append_pack(cache, &copied[i], open, err);
	if (status || ldr_pack_writer_count(open->writer) == 0) {
		ldr_disk_abandon(cache, open);
		return status;
	}
	status = ldr_disk_seal(cache, open, out_id, err);
	*out_made = status == LDR_OK;
	return status;
}

enum ldr_status ldr_disk_repack(struct ldr_disk_cache *cache, const uint64_t *serials, size_t count,
				struct ldr_error *err)
{
	LDR_AUTO_FREE struct copied *copied = calloc(count ? count : 1, sizeof(*copied));
	enum ldr_status status;
	struct ldr_id id;
	size_t found = 0;
	bool made;

	if (!copied)
		return ldr_fail(err, LDR_ENOMEM, "no memory to copy %zu packs", count);
	for (size_t i = 0; i < count; i++)
		found += copy_rows(cache, serials[i], &copied[found]);
	status = write_copy(cache, copied, found, &id, &made, err);
	/* A pack that holds all blocks of the others comes out as it was. */
	for (size_t i = 0; status == LDR_OK && i < found; i++) {
		if (!made || !ldr_id_equal(&copied[i].id, &id))
			status = ldr_disk_remove_pack(cache, copied[i].number, copied[i].serial,
						      err);
	}
	for (size_t i = 0; i < found; i++)
		free(copied[i].entries);
	if (found)
		ldr_disk_tell(cache);
	return status;
}

/* ---- choosing ---- */

/* The serials of packs with bad blocks, or of small ones; at most MERGE_MAX. */
static size_t choose(struct ldr_disk_cache *cache, bool small, uint64_t serials[MERGE_MAX])
{
	uint64_t bytes = 0;
	size_t count = 0;

	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count && count < MERGE_MAX; i++) {
		const struct ldr_disk_pack *pack = &cache->table[i];

		if (pack->state != LDR_DISK_PACK_PUBLISHED)
			continue;
		if (small ? pack->size_bytes >= cache->seal_bytes / 2 ||
				    bytes + pack->size_bytes > MERGED_BYTES
			  : cache->lookup.packs[i].dropped == 0)
			continue;
		bytes += pack->size_bytes;
		serials[count++] = pack->serial;
	}
	ldr_mutex_unlock(&cache->lock);
	return count;
}

static void repack_bad(struct ldr_disk_cache *cache)
{
	uint64_t serials[MERGE_MAX];
	size_t count = choose(cache, false, serials);

	for (size_t i = 0; i < count; i++)
		ldr_disk_repack(cache, &serials[i], 1, NULL);
}

void ldr_disk_tidy(struct ldr_disk_cache *cache)
{
	uint64_t serials[MERGE_MAX];
	size_t count;

	repack_bad(cache);
	count = choose(cache, true, serials);
	if (count >= MERGE_MIN)
		ldr_disk_repack(cache, serials, count, NULL);
}

/* ---- verify ---- */

struct verifying {
	struct ldr_disk_cache *cache;
	uint32_t number;
	uint64_t serial;
};

/* A block that is bad now, or was found bad before. */
static void drop_entry(void *context, const struct ldr_pack_entry *entry,
		       const struct ldr_error *fault)
{
	struct verifying *verifying = context;
	struct ldr_disk_cache *cache = verifying->cache;
	struct ldr_lookup_pack *list;

	(void)fault;
	if (!entry)
		return;
	ldr_mutex_lock(&cache->lock);
	if (ldr_disk_pack_locked(cache, verifying->number, verifying->serial)) {
		list = &cache->lookup.packs[verifying->number];
		for (uint32_t i = 0; i < list->count; i++) {
			if (list->rows[i].dropped ||
			    !ldr_id_equal(&list->rows[i].entry.id, &entry->id))
				continue;
			ldr_lookup_drop_row(&cache->lookup, verifying->number, i);
			cache->stat.bad_blocks++;
			cache->unlisted_packs++;
		}
	}
	ldr_mutex_unlock(&cache->lock);
}

static enum ldr_status verify_one(struct ldr_disk_cache *cache, const struct copied *copied,
				  uint64_t *blocks, uint64_t *bad, struct ldr_error *err)
{
	struct verifying verifying = {cache, copied->number, copied->serial};
	struct ldr_pack_options options = {.expected_id = &copied->id};
	struct ldr_pack_verify_report report = {0};
	LDR_AUTO_PACK struct ldr_pack *reader = NULL;
	char name[LDR_DISK_NAME_BYTES];
	enum ldr_status status;
	int fd;

	ldr_disk_pack_name(&copied->id, name);
	status = ldr_root_open_file(cache->packs, name, &fd, err);
	if (status == LDR_OK)
		status = ldr_pack_open_fd(fd, name, &options, &reader, err);
	if (status == LDR_ECORRUPT || status == LDR_ENOTFOUND) {
		/* Without its index no block of it can be proved; evicted by others: not bad. */
		if (status == LDR_ECORRUPT)
			*bad += copied->count;
		*blocks += status == LDR_ECORRUPT ? copied->count : 0;
		return ldr_disk_remove_pack(cache, copied->number, copied->serial, err);
	}
	if (status)
		return status;
	status = ldr_pack_verify(reader, drop_entry, &verifying, &report, err);
	*blocks += report.blocks;
	*bad += report.bad_blocks;
	return status == LDR_ECORRUPT || status == LDR_EUNSUPPORTED ? LDR_OK : status;
}

enum ldr_status ldr_disk_verify(struct ldr_disk_cache *cache, uint64_t *out_blocks,
				uint64_t *out_bad, struct ldr_error *err)
{
	uint64_t blocks = 0, bad = 0, last = 0;
	enum ldr_status status = LDR_OK;
	struct copied copied;

	ldr_disk_look(cache, true);
	ldr_mutex_lock(&cache->lock);
	last = cache->next_serial;
	ldr_mutex_unlock(&cache->lock);
	for (uint64_t serial = 1; status == LDR_OK && serial <= last; serial++) {
		if (!copy_rows(cache, serial, &copied))
			continue;
		status = verify_one(cache, &copied, &blocks, &bad, err);
		free(copied.entries);
	}
	if (!cache->read_only && cache->packs)
		repack_bad(cache);
	if (status)
		return status;
	*out_blocks = blocks;
	*out_bad = bad;
	return LDR_OK;
}
