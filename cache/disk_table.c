/*
 * Packs in the tables, the few descriptors they share, and buffers for stored bytes; see disk_priv.h.
 *
 * Invariants
 *  1. At most LDR_DISK_FILES_MAX descriptors of published packs stay open, however many packs there are;
 *     an open pack has its own.
 *  2. A descriptor is closed when the table and the last reader have let it go, so that no read meets a
 *     number that the system has given to another file.
 */
#include "cache/disk_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"

#define BUFFERS_KEPT 8u

uint64_t ldr_disk_pages(uint64_t bytes)
{
	return (bytes + 4095) & ~UINT64_C(4095);
}

void ldr_disk_pack_name(const struct ldr_id *id, char name[LDR_DISK_NAME_BYTES])
{
	ldr_id_to_hex(id, name);
	memcpy(name + LDR_ID_HEX_CHARS, ".pack", 6);
}

/* ---- the table of packs ---- */

struct ldr_disk_pack *ldr_disk_new_pack_locked(struct ldr_disk_cache *cache, uint32_t *out_number)
{
	uint32_t number = ldr_lookup_add_pack(&cache->lookup);

	if (number == LDR_LOOKUP_NONE)
		return NULL;
	if (number >= cache->table_count) {
		uint32_t count = cache->lookup.pack_capacity;
		struct ldr_disk_pack *table = realloc(cache->table, count * sizeof(*cache->table));

		if (!table) {
			ldr_lookup_drop_pack(&cache->lookup, number);
			return NULL;
		}
		memset(table + cache->table_count, 0,
		       (count - cache->table_count) * sizeof(*table));
		cache->table = table;
		cache->table_count = count;
	}
	cache->table[number] = (struct ldr_disk_pack){.serial = ++cache->next_serial};
	*out_number = number;
	return &cache->table[number];
}

struct ldr_disk_pack *ldr_disk_pack_locked(struct ldr_disk_cache *cache, uint32_t number,
					   uint64_t serial)
{
	struct ldr_disk_pack *pack = &cache->table[number];

	return pack->state != LDR_DISK_PACK_FREE && pack->serial == serial ? pack : NULL;
}

void ldr_disk_drop_pack_locked(struct ldr_disk_cache *cache, uint32_t number)
{
	struct ldr_disk_pack *pack = &cache->table[number];

	if (pack->file) {
		ldr_disk_file_unref_locked(pack->file);
		cache->files_open--;
	}
	if (pack->state == LDR_DISK_PACK_PUBLISHED) {
		cache->stat.packs--;
		cache->unlisted_packs++;
	}
	cache->stat.bytes -= pack->charge_bytes;
	*pack = (struct ldr_disk_pack){0};
	ldr_lookup_drop_pack(&cache->lookup, number);
}

void ldr_disk_drop_pack(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial)
{
	ldr_mutex_lock(&cache->lock);
	if (ldr_disk_pack_locked(cache, number, serial))
		ldr_disk_drop_pack_locked(cache, number);
	ldr_mutex_unlock(&cache->lock);
}

/* ---- descriptors ---- */

struct ldr_disk_file *ldr_disk_file_new(int fd)
{
	struct ldr_disk_file *file = malloc(sizeof(*file));

	if (!file) {
		ldr_os_close(fd);
		return NULL;
	}
	*file = (struct ldr_disk_file){.fd = fd, .references = 1};
	return file;
}

/* Closing a file that was only read does not wait for the disk; it may be done under the lock. */
void ldr_disk_file_unref_locked(struct ldr_disk_file *file)
{
	assert(file->references > 0);
	if (--file->references == 0) {
		ldr_os_close(file->fd);
		free(file);
	}
}

void ldr_disk_file_unref(struct ldr_disk_cache *cache, struct ldr_disk_file *file)
{
	if (!file)
		return;
	ldr_mutex_lock(&cache->lock);
	ldr_disk_file_unref_locked(file);
	ldr_mutex_unlock(&cache->lock);
}

void ldr_disk_shed_file_locked(struct ldr_disk_cache *cache)
{
	struct ldr_disk_pack *oldest = NULL;

	if (cache->files_open < LDR_DISK_FILES_MAX)
		return;
	for (uint32_t i = 0; i < cache->table_count; i++) {
		struct ldr_disk_pack *pack = &cache->table[i];

		if (pack->state == LDR_DISK_PACK_PUBLISHED && pack->file &&
		    (!oldest || pack->file_tick < oldest->file_tick))
			oldest = pack;
	}
	if (oldest) {
		ldr_disk_file_unref_locked(LDR_STEAL(oldest->file));
		cache->files_open--;
	}
}

static struct ldr_disk_file *file_ref_locked(struct ldr_disk_cache *cache,
					     struct ldr_disk_pack *pack)
{
	if (!pack->file)
		return NULL;
	pack->file_tick = ++cache->file_ticks;
	pack->file->references++;
	return pack->file;
}

/* Keeps the descriptor with its pack, unless another thread has been faster or the pack is gone. */
static struct ldr_disk_file *file_keep(struct ldr_disk_cache *cache, uint32_t number,
				       uint64_t serial, struct ldr_disk_file *file)
{
	struct ldr_disk_pack *pack;

	ldr_mutex_lock(&cache->lock);
	pack = ldr_disk_pack_locked(cache, number, serial);
	if (pack && pack->file) {
		ldr_disk_file_unref_locked(file);
		file = file_ref_locked(cache, pack);
	} else if (pack) {
		ldr_disk_shed_file_locked(cache);
		pack->file = file;
		cache->files_open++;
		file_ref_locked(cache, pack);
	}
	ldr_mutex_unlock(&cache->lock);
	return file;
}

enum ldr_status ldr_disk_file_of(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial,
				 struct ldr_disk_file **out_file, struct ldr_error *err)
{
	char name[LDR_DISK_NAME_BYTES];
	struct ldr_disk_file *file = NULL;
	struct ldr_disk_pack *pack;
	enum ldr_status status;
	int fd;

	ldr_mutex_lock(&cache->lock);
	pack = ldr_disk_pack_locked(cache, number, serial);
	if (pack) {
		file = file_ref_locked(cache, pack);
		ldr_disk_pack_name(&pack->id, name);
	}
	ldr_mutex_unlock(&cache->lock);
	if (!pack)
		return ldr_fail(err, LDR_ENOTFOUND, "pack was removed from the cache");
	if (!file) {
		status = ldr_root_open_file(cache->packs, name, &fd, err);
		if (status)
			return status;
		file = ldr_disk_file_new(fd);
		if (!file)
			return ldr_fail(err, LDR_ENOMEM, "no memory for an open file");
		file = file_keep(cache, number, serial, file);
	}
	*out_file = file;
	return LDR_OK;
}

/* ---- buffers for stored bytes ---- */

struct ldr_disk_buffer *ldr_disk_buffer_take(struct ldr_disk_cache *cache)
{
	struct ldr_disk_buffer *buffer;

	ldr_mutex_lock(&cache->lock);
	buffer = cache->buffers;
	if (buffer) {
		cache->buffers = buffer->next;
		cache->buffer_count--;
	}
	ldr_mutex_unlock(&cache->lock);
	return buffer ? buffer : malloc(sizeof(*buffer));
}

void ldr_disk_buffer_give(struct ldr_disk_cache *cache, struct ldr_disk_buffer *buffer)
{
	if (!buffer)
		return;
	ldr_mutex_lock(&cache->lock);
	if (cache->buffer_count < BUFFERS_KEPT) {
		buffer->next = cache->buffers;
		cache->buffers = buffer;
		cache->buffer_count++;
		buffer = NULL;
	}
	ldr_mutex_unlock(&cache->lock);
	free(buffer);
}
