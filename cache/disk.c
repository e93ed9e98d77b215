/*
 * The disk cache: open, close, has, read; see disk.h and disk_priv.h.
 *
 * A read finds the row under the lock, opens the pack's file if none of the few descriptors is its own,
 * and reads, checks, decodes and digests without the lock. Files are read, not mapped: a cache file that
 * somebody cuts short must cost a block, not the process. When the bytes are wrong the row is dropped
 * and the next copy tried, so that a block which was fetched again wins over its bad copy.
 *
 * A disk that hangs must not hang everybody: while one read has been under way for longer than
 * READ_HANGS_NS, no other begins; blocks are then not found here and come from above.
 */
#include "cache/disk_priv.h"

#include <stdlib.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/os.h"
#include "common/path.h"

#define QUOTA_BYTES (UINT64_C(10) << 30)
#define FREE_FLOOR_BYTES (UINT64_C(256) << 20)
#define SEAL_BYTES (UINT64_C(8) << 20)
/* Copies of one block that a read tries before it says that there is none. */
#define COPIES_MAX 8u
#define READ_HANGS_NS (UINT64_C(2) * 1000000000)

/* ---- open and close ---- */

/* LDR_OK: FORMAT is ours, or there is none (*out_found). */
static enum ldr_status check_format(struct ldr_disk_cache *cache, bool *out_found,
				    struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	char quoted[LDR_QUOTE_BYTES];
	size_t length;
	enum ldr_status status = ldr_root_read_file(cache->root, "FORMAT", 256, &text, &length,
						    err);

	*out_found = false;
	if (status == LDR_ENOTFOUND || (status == LDR_OK && length == 0))
		return LDR_OK;
	if (status == LDR_ELIMIT)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"%s: FORMAT is longer than 256 bytes, known is \"larder-cache 1\"",
				ldr_root_path(cache->root));
	if (status)
		return status;
	*out_found = true;
	if (length == strlen(LDR_CACHE_FORMAT) && memcmp(text, LDR_CACHE_FORMAT, length) == 0)
		return LDR_OK;
	return ldr_fail(err, LDR_EUNSUPPORTED, "%s: FORMAT is \"%s\", known is \"larder-cache 1\"",
			ldr_root_path(cache->root),
			ldr_path_quote((const char *)text, length, quoted));
}

/* Writes FORMAT where there is none; a cache that cannot be written is open for reading. */
static enum ldr_status make_format(struct ldr_disk_cache *cache, struct ldr_error *err)
{
	struct ldr_publish_options options = {.sync = LDR_SYNC_FILE};
	struct ldr_error why = {0};
	enum ldr_status status;
	bool found;

	status = check_format(cache, &found, err);
	if (status || found || cache->read_only)
		return status;
	status = ldr_publish(cache->root, "FORMAT", LDR_CACHE_FORMAT, strlen(LDR_CACHE_FORMAT),
			     &options, NULL, &why);
	if (status)
		ldr_disk_trouble(cache, &why);
	return LDR_OK;
}

/* The folder `packs`, pinned like the root. Where there is none and none can be made, there are no packs
 * until a put has made it. */
static enum ldr_status open_packs(struct ldr_disk_cache *cache, const char *path,
				  struct ldr_error *err)
{
	size_t length = strlen(path);
	LDR_AUTO_FREE char *packs = malloc(length + sizeof("/packs"));
	struct ldr_root *opened = NULL;
	struct ldr_error why = {0};
	enum ldr_status status;

	if (!packs)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a path");
	memcpy(packs, path, length);
	memcpy(packs + length, "/packs", sizeof("/packs"));
	if (!cache->read_only) {
		if (ldr_root_open(packs, true, &opened, &why) == LDR_OK) {
			cache->packs = opened;
			return LDR_OK;
		}
		ldr_disk_trouble(cache, &why);
	}
	status = ldr_root_open(packs, false, &opened, &why);
	if (status == LDR_OK)
		cache->packs = opened;
	/* Something else of that name, too: it is there for nobody, and may go. */
	if (status == LDR_OK || status == LDR_ENOTFOUND || status == LDR_ENOTDIR)
		return LDR_OK;
	if (err)
		*err = why;
	return status;
}

static enum ldr_status open_folder(struct ldr_disk_cache *cache, const char *path,
				   struct ldr_error *err)
{
	struct ldr_root *root = NULL;
	enum ldr_status status = ldr_root_open(path, !cache->read_only, &root, err);
	unsigned swept;

	cache->root = root;
	if (status == LDR_OK)
		status = make_format(cache, err);
	if (status == LDR_OK)
		status = open_packs(cache, path, err);
	if (status || !cache->packs)
		return status;
	if (!cache->read_only) {
		if (ldr_root_sweep(cache->packs, "", &swept, NULL) == LDR_OK)
			cache->stat.swept += swept;
		if (ldr_root_sweep(cache->root, "", &swept, NULL) == LDR_OK)
			cache->stat.swept += swept;
	}
	return ldr_disk_scan(cache, true, err);
}

/* The old ones stay open until the cache is closed: others may be reading by them. */
enum ldr_status ldr_disk_renew(struct ldr_disk_cache *cache, struct ldr_error *err)
{
	struct ldr_root *root = NULL;
	const char *path = ldr_root_path(cache->root);
	enum ldr_status status;

	if (cache->retired_count + 2 > LDR_DISK_RETIRED_MAX)
		return ldr_fail(err, LDR_ELIMIT, "%s: removed %u times while it was open", path,
				cache->retired_count / 2);
	status = ldr_root_open(path, true, &root, err);
	if (status != LDR_OK)
		return status;
	cache->retired[cache->retired_count++] = cache->root;
	cache->root = root;
	if (cache->packs)
		cache->retired[cache->retired_count++] = cache->packs;
	cache->packs = NULL;
	status = make_format(cache, err);
	if (status == LDR_OK)
		status = open_packs(cache, path, err);
	if (status == LDR_OK && !cache->packs)
		status = ldr_fail(err, LDR_ENOTFOUND, "%s/packs: cannot be made", path);
	if (status == LDR_OK)
		(void)ldr_disk_scan(cache, false, NULL);
	return status;
}

static void set_options(struct ldr_disk_cache *cache, const struct ldr_disk_options *options)
{
	static const struct ldr_disk_options none = {0};

	if (!options)
		options = &none;
	cache->quota_bytes = options->quota_bytes ? options->quota_bytes : QUOTA_BYTES;
	cache->free_floor_bytes = options->free_floor_bytes ? options->free_floor_bytes
							    : FREE_FLOOR_BYTES;
	cache->seal_bytes = options->seal_bytes ? options->seal_bytes : SEAL_BYTES;
	/* An open pack cannot be evicted; several must fit. */
	if (cache->seal_bytes > cache->quota_bytes / 8)
		cache->seal_bytes = cache->quota_bytes / 8;
	cache->read_only = options->read_only;
	cache->clock = options->clock ? options->clock : ldr_clock_system();
}

static void cache_free(struct ldr_disk_cache *cache)
{
	for (uint32_t i = 0; i < cache->table_count; i++) {
		if (cache->table[i].file)
			ldr_disk_file_unref_locked(cache->table[i].file);
	}
	while (cache->buffers) {
		struct ldr_disk_buffer *buffer = cache->buffers;

		cache->buffers = buffer->next;
		free(buffer);
	}
	free(cache->table);
	ldr_lookup_dispose(&cache->lookup);
	ldr_root_close(cache->packs);
	ldr_root_close(cache->root);
	while (cache->retired_count)
		ldr_root_close(cache->retired[--cache->retired_count]);
	ldr_condition_dispose(&cache->turned);
	ldr_mutex_dispose(&cache->lock);
	free(cache);
}

enum ldr_status ldr_disk_open(const char *path, const struct ldr_disk_options *options,
			      struct ldr_disk_cache **out_cache, struct ldr_error *err)
{
	struct ldr_disk_cache *cache = calloc(1, sizeof(*cache));
	enum ldr_status status;

	if (!cache)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a disk cache");
	ldr_mutex_init(&cache->lock, LDR_RANK_DISK);
	ldr_condition_init(&cache->turned);
	set_options(cache, options);
	status = open_folder(cache, path, err);
	if (status) {
		cache_free(cache);
		return ldr_error_prefix(err, status, "cache");
	}
	*out_cache = cache;
	return LDR_OK;
}

void ldr_disk_close(struct ldr_disk_cache *cache)
{
	if (!cache)
		return;
	ldr_disk_flush(cache, NULL);
	if (!cache->read_only && cache->packs) {
		ldr_disk_tidy(cache);
		ldr_disk_mark_used(cache);
		ldr_disk_save_lookup(cache);
	}
	cache_free(cache);
}

const struct ldr_root *ldr_disk_root(const struct ldr_disk_cache *cache)
{
	return cache->root;
}

/* ---- has and read ---- */

/* Where a copy of the block lies; a row with another length than wanted is none. */
struct found {
	struct ldr_pack_entry entry;
	uint32_t pack, row;
	uint64_t serial;
};

static bool find_locked(struct ldr_disk_cache *cache, const struct ldr_id *id,
			struct found *out_found)
{
	struct ldr_disk_pack *pack;

	if (!ldr_lookup_find(&cache->lookup, id, &out_found->pack, &out_found->row))
		return false;
	pack = &cache->table[out_found->pack];
	pack->used = true;
	out_found->serial = pack->serial;
	out_found->entry = cache->lookup.packs[out_found->pack].rows[out_found->row].entry;
	return true;
}

/* Finds it here or, after a look for newcomers, there. */
static bool find(struct ldr_disk_cache *cache, const struct ldr_id *id, struct found *out_found)
{
	bool found;

	ldr_mutex_lock(&cache->lock);
	found = find_locked(cache, id, out_found);
	ldr_mutex_unlock(&cache->lock);
	if (found || !ldr_disk_look(cache, false))
		return found;
	ldr_mutex_lock(&cache->lock);
	found = find_locked(cache, id, out_found);
	ldr_mutex_unlock(&cache->lock);
	return found;
}

bool ldr_disk_has(struct ldr_disk_cache *cache, const struct ldr_id *id)
{
	struct found found;

	return find(cache, id, &found);
}

enum ldr_status ldr_disk_read_stored(const struct ldr_disk_file *file,
				     const struct ldr_pack_entry *entry, void *stored,
				     struct ldr_error *err)
{
	size_t got;
	int error = ldr_os_pread(file->fd, stored, entry->stored_bytes, entry->offset, &got);

	if (error)
		return ldr_fail_errno(err, error, "cache: stored block at %llu",
				      (unsigned long long)entry->offset);
	if (got < entry->stored_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"cache: stored block at %llu of length %zu, expected %u",
				(unsigned long long)entry->offset, got, entry->stored_bytes);
	if (ldr_checksum(stored, got) != entry->checksum)
		return ldr_fail(err, LDR_ECORRUPT, "cache: checksum of stored block at %llu",
				(unsigned long long)entry->offset);
	return LDR_OK;
}

static enum ldr_status read_decode(struct ldr_disk_cache *cache, const struct ldr_disk_file *file,
				   const struct ldr_pack_entry *entry, struct ldr_coder *coder,
				   void *plain, struct ldr_error *err)
{
	struct ldr_disk_buffer *buffer;
	enum ldr_status status;

	if (entry->codec == LDR_CODEC_NONE && entry->stored_bytes == entry->plain_bytes)
		return ldr_disk_read_stored(file, entry, plain, err);
	buffer = ldr_disk_buffer_take(cache);
	if (!buffer)
		return ldr_fail(err, LDR_ENOMEM, "no memory to read a block");
	status = ldr_disk_read_stored(file, entry, buffer->bytes, err);
	if (status == LDR_OK)
		status = ldr_decode(coder, entry->codec, buffer->bytes, entry->stored_bytes, plain,
				    entry->plain_bytes, err);
	ldr_disk_buffer_give(cache, buffer);
	return status;
}

/* Reads one copy. LDR_ECORRUPT or LDR_EIO: this copy is no good. */
static enum ldr_status read_copy(struct ldr_disk_cache *cache, const struct found *found,
				 struct ldr_coder *coder, struct ldr_hasher *hasher, void *plain,
				 struct ldr_error *err)
{
	struct ldr_disk_file *file = NULL;
	struct ldr_id id;
	enum ldr_status status = ldr_disk_file_of(cache, found->pack, found->serial, &file, err);

	if (status)
		return status;
	status = read_decode(cache, file, &found->entry, coder, plain, err);
	ldr_disk_file_unref(cache, file);
	if (status)
		return status;
	ldr_digest(hasher, plain, found->entry.plain_bytes, &id);
	if (!ldr_id_equal(&id, &found->entry.id))
		return ldr_fail(err, LDR_ECORRUPT, "cache: digest of the block at %llu",
				(unsigned long long)found->entry.offset);
	return LDR_OK;
}

/* Takes a bad copy out of the tables, or its whole pack when the file is gone. True: look again. */
static bool drop_copy(struct ldr_disk_cache *cache, const struct found *found,
		      enum ldr_status status)
{
	bool bad = status == LDR_ECORRUPT || status == LDR_EUNSUPPORTED || status == LDR_EIO;
	/* Not to be opened, now and later. */
	bool gone = status == LDR_ENOTFOUND || status == LDR_EDENIED || status == LDR_ENOTREG ||
		    status == LDR_EISDIR || status == LDR_ENOTDIR;

	if (!bad && !gone)
		return false;
	ldr_mutex_lock(&cache->lock);
	if (!ldr_disk_pack_locked(cache, found->pack, found->serial))
		bad = false;
	else if (!bad)
		ldr_disk_drop_pack_locked(cache, found->pack);
	else if (cache->lookup.packs[found->pack].rows[found->row].dropped)
		bad = false;
	if (bad) {
		ldr_lookup_drop_row(&cache->lookup, found->pack, found->row);
		cache->table[found->pack].in_lookup = false;
		cache->unlisted_packs++;
		cache->stat.bad_blocks++;
	}
	ldr_mutex_unlock(&cache->lock);
	return true;
}

static void count_read(struct ldr_disk_cache *cache, bool hit)
{
	ldr_mutex_lock(&cache->lock);
	if (hit)
		cache->stat.hits++;
	else
		cache->stat.misses++;
	ldr_mutex_unlock(&cache->lock);
}

/* Takes a note of a read that begins, in *out_slot (LDR_DISK_READS_MAX: there are many, this one goes
 * unwatched). False: the disk hangs. */
static bool begin_read(struct ldr_disk_cache *cache, unsigned *out_slot)
{
	uint64_t now = cache->clock->now_ns(cache->clock);
	unsigned slot = LDR_DISK_READS_MAX;
	bool hangs = false;

	ldr_mutex_lock(&cache->lock);
	for (unsigned i = 0; i < LDR_DISK_READS_MAX; i++) {
		if (cache->reading[i] == 0)
			slot = i;
		else if (now > cache->reading[i] + READ_HANGS_NS)
			hangs = true;
	}
	if (!hangs && slot < LDR_DISK_READS_MAX)
		cache->reading[slot] = now ? now : 1;
	ldr_mutex_unlock(&cache->lock);
	*out_slot = slot;
	return !hangs;
}

static void end_read(struct ldr_disk_cache *cache, unsigned slot)
{
	if (slot == LDR_DISK_READS_MAX)
		return;
	ldr_mutex_lock(&cache->lock);
	cache->reading[slot] = 0;
	ldr_mutex_unlock(&cache->lock);
}

/* The first good copy. LDR_ENOTFOUND: there is none, or the disk hangs. */
static enum ldr_status read_copies(struct ldr_disk_cache *cache, const struct ldr_block_ref *block,
				   struct ldr_coder *coder, struct ldr_hasher *hasher, void *plain,
				   struct ldr_error *err)
{
	enum ldr_status status;
	struct found found;
	unsigned slot;

	for (unsigned i = 0; i < COPIES_MAX && find(cache, &block->id, &found); i++) {
		if (found.entry.plain_bytes != block->plain_bytes || !begin_read(cache, &slot))
			break;
		status = read_copy(cache, &found, coder, hasher, plain, err);
		end_read(cache, slot);
		if (status == LDR_OK || !drop_copy(cache, &found, status))
			return status;
	}
	return LDR_ENOTFOUND;
}

enum ldr_status ldr_disk_read(struct ldr_disk_cache *cache, const struct ldr_block_ref *block,
			      struct ldr_coder *coder, struct ldr_hasher *hasher, void *plain,
			      struct ldr_error *err)
{
	struct ldr_error why = {0};
	enum ldr_status status = read_copies(cache, block, coder, hasher, plain, &why);

	if (status == LDR_OK) {
		count_read(cache, true);
		return LDR_OK;
	}
	count_read(cache, false);
	if (status == LDR_ENOTFOUND) {
		char hex[LDR_ID_HEX_CHARS + 1];

		ldr_id_to_hex(&block->id, hex);
		return ldr_fail(err, LDR_ENOTFOUND, "block %s is not in the cache", hex);
	}
	if (err)
		*err = why;
	return status;
}

void ldr_disk_stat(struct ldr_disk_cache *cache, struct ldr_disk_stat *out)
{
	ldr_disk_seal_idle(cache);
	ldr_disk_look(cache, true);
	ldr_mutex_lock(&cache->lock);
	*out = cache->stat;
	out->blocks = cache->lookup.blocks;
	out->bytes += cache->foreign_bytes;
	out->writable = !cache->read_only && out->trouble[0] == '\0';
	if (cache->read_only)
		memcpy(out->trouble, "opened for reading only", sizeof("opened for reading only"));
	ldr_mutex_unlock(&cache->lock);
}
