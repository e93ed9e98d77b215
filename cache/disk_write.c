/*
 * The open pack: put and seal; see disk_priv.h.
 *
 * A put appends while it has the turn. The one that fills the pack detaches it, gives the turn back and
 * seals, so that others go on into a new pack while this one is written out. The open pack's temporary is
 * read through a second descriptor, which stays with the pack when it is published: nobody who reads
 * waits for the sealing.
 *
 * Trouble: a failed write loses the open pack's blocks from the cache and nothing else, since the file
 * is not what its writer thinks; where quota or floor leave no room, the pack is sealed with what it has.
 * What is lost counts as dropped, and puts are tried again after a back-off that doubles from one second
 * to a minute. Nobody sleeps.
 *
 * Invariants
 *  1. Only the thread that has the turn touches cache->open's stream and writer; only the one that has
 *     detached a pack touches that one's.
 *  2. A row is in the tables only when its bytes are in the file.
 */
#include "cache/disk_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"

#define BACK_OFF_MIN_NS (UINT64_C(1) * 1000000000)
#define BACK_OFF_MAX_NS (UINT64_C(60) * 1000000000)
#define IDLE_NS (UINT64_C(60) * 1000000000)
/* A put that would wait longer than this for its turn is on a disk that hangs. */
#define TURN_WAIT_MS 2000u
/* Others that open the cache read the indexes of so many packs at most. */
#define UNLISTED_MAX 32u
#define FLOOR_CHECK_BYTES (UINT64_C(1) << 20)
/* What index and trailer add for one block (entry, checksum), and for all (table, trailer). */
#define INDEX_BYTES_PER_BLOCK 56u
#define INDEX_BYTES 1024u

void ldr_disk_trouble(struct ldr_disk_cache *cache, const struct ldr_error *why)
{
	ldr_mutex_lock(&cache->lock);
	cache->back_off_ns = cache->back_off_ns ? 2 * cache->back_off_ns : BACK_OFF_MIN_NS;
	if (cache->back_off_ns > BACK_OFF_MAX_NS)
		cache->back_off_ns = BACK_OFF_MAX_NS;
	cache->retry_ns = cache->clock->now_ns(cache->clock) + cache->back_off_ns;
	snprintf(cache->stat.trouble, sizeof(cache->stat.trouble), "%.255s",
		 why->text[0] ? why->text : ldr_status_text(why->status));
	ldr_mutex_unlock(&cache->lock);
}

static void no_trouble_locked(struct ldr_disk_cache *cache)
{
	cache->back_off_ns = 0;
	cache->retry_ns = 0;
	cache->stat.trouble[0] = '\0';
}

/* ---- the turn ---- */

static bool turn_take(struct ldr_disk_cache *cache)
{
	bool taken;

	ldr_mutex_lock(&cache->lock);
	while (cache->turn_taken &&
	       ldr_condition_wait_ms(&cache->turned, &cache->lock, TURN_WAIT_MS))
		;
	taken = !cache->turn_taken;
	if (taken)
		cache->turn_taken = true;
	ldr_mutex_unlock(&cache->lock);
	return taken;
}

static void turn_give(struct ldr_disk_cache *cache)
{
	ldr_mutex_lock(&cache->lock);
	cache->turn_taken = false;
	ldr_condition_broadcast(&cache->turned);
	ldr_mutex_unlock(&cache->lock);
}

/* With the turn: the open pack leaves the cache and is sealing. */
static struct ldr_disk_open_pack *detach(struct ldr_disk_cache *cache)
{
	struct ldr_disk_open_pack *open;

	ldr_mutex_lock(&cache->lock);
	open = LDR_STEAL(cache->open);
	if (open)
		cache->sealing++;
	ldr_mutex_unlock(&cache->lock);
	return open;
}

static void sealing_ended(struct ldr_disk_cache *cache)
{
	ldr_mutex_lock(&cache->lock);
	cache->sealing--;
	ldr_condition_broadcast(&cache->turned);
	ldr_mutex_unlock(&cache->lock);
}

/* ---- an open pack ---- */

static void open_free(struct ldr_disk_open_pack *open)
{
	ldr_pack_writer_free(open->writer);
	ldr_stream_abort(open->stream);
	free(open);
}

/* The row in the tables, with a descriptor of its own. */
static enum ldr_status add_open_row(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
				    struct ldr_error *err)
{
	struct ldr_disk_file *file;
	struct ldr_disk_pack *pack;
	struct stat info;
	int fd, error;

	error = ldr_os_stat(ldr_stream_fd(open->stream), &info);
	if (!error)
		error = ldr_os_duplicate(ldr_stream_fd(open->stream), &fd);
	if (error)
		return ldr_fail_errno(err, error, "cache: open pack");
	file = ldr_disk_file_new(fd);
	if (!file)
		return ldr_fail(err, LDR_ENOMEM, "no memory for an open pack");
	ldr_mutex_lock(&cache->lock);
	pack = ldr_disk_new_pack_locked(cache, &open->number);
	if (pack) {
		pack->state = LDR_DISK_PACK_OPEN;
		pack->inode = (uint64_t)info.st_ino;
		ldr_disk_shed_file_locked(cache);
		pack->file = LDR_STEAL(file);
		cache->files_open++;
	}
	ldr_mutex_unlock(&cache->lock);
	if (pack)
		return LDR_OK;
	ldr_disk_file_unref(cache, file);
	return ldr_fail(err, LDR_ENOMEM, "no memory for an open pack");
}

enum ldr_status ldr_disk_begin_pack(struct ldr_disk_cache *cache,
				    struct ldr_disk_open_pack **out_open, struct ldr_error *err)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_FILE_AND_FOLDER,
						    .condition = LDR_IF_MISSING};
	struct ldr_disk_open_pack *open = calloc(1, sizeof(*open));
	enum ldr_status status;

	if (!open)
		return ldr_fail(err, LDR_ENOMEM, "no memory for an open pack");
	status = ldr_stream_begin(cache->packs, "", &options, &open->stream, err);
	if (status == LDR_OK)
		status = ldr_pack_writer_new(open->stream, NULL, &open->writer, err);
	if (status == LDR_OK)
		status = add_open_row(cache, open, err);
	if (status) {
		open_free(open);
		return status;
	}
	*out_open = open;
	return LDR_OK;
}

void ldr_disk_abandon(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open)
{
	ldr_mutex_lock(&cache->lock);
	ldr_disk_drop_pack_locked(cache, open->number);
	ldr_mutex_unlock(&cache->lock);
	open_free(open);
}

static void charge_locked(struct ldr_disk_cache *cache, struct ldr_disk_pack *pack, uint64_t bytes)
{
	uint64_t charge = ldr_disk_pages(bytes);

	cache->stat.bytes += charge - pack->charge_bytes;
	pack->charge_bytes = charge;
}

enum ldr_status ldr_disk_append(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
				const struct ldr_disk_stored *stored, struct ldr_error *err)
{
	struct ldr_pack_entry entry;
	uint64_t offset, bytes;
	bool fits;
	enum ldr_status status = ldr_pack_writer_append(open->writer, &stored->block, stored->codec,
							stored->bytes, stored->length, &offset,
							err);

	if (status)
		return status;
	if (!ldr_pack_writer_find(open->writer, &stored->block.id, &entry))
		return ldr_fail(err, LDR_ECORRUPT, "cache: appended block is not in the pack");
	bytes = ldr_pack_writer_bytes(open->writer) +
		(uint64_t)ldr_pack_writer_count(open->writer) * INDEX_BYTES_PER_BLOCK + INDEX_BYTES;
	ldr_mutex_lock(&cache->lock);
	fits = ldr_lookup_add(&cache->lookup, open->number, &entry);
	charge_locked(cache, &cache->table[open->number], bytes);
	ldr_mutex_unlock(&cache->lock);
	return fits ? LDR_OK : ldr_fail(err, LDR_ENOMEM, "no memory for a block's entry");
}

/* ---- sealing ---- */

/* The pack has a name now. Where a listing has met it under that name already, one row is enough. */
static void now_published(struct ldr_disk_cache *cache, uint32_t number, const struct ldr_id *id,
			  uint64_t size_bytes)
{
	struct ldr_disk_pack *pack;

	ldr_mutex_lock(&cache->lock);
	pack = &cache->table[number];
	if (ldr_disk_knows_locked(cache, id)) {
		ldr_disk_drop_pack_locked(cache, number);
	} else {
		pack->state = LDR_DISK_PACK_PUBLISHED;
		pack->id = *id;
		pack->size_bytes = size_bytes;
		pack->listing = cache->listings;
		pack->used_s = cache->clock->wall_s(cache->clock);
		pack->file_tick = ++cache->file_ticks;
		charge_locked(cache, pack, size_bytes);
		cache->stat.packs++;
		cache->unlisted_packs++;
	}
	no_trouble_locked(cache);
	ldr_mutex_unlock(&cache->lock);
}

/* Something has the pack's name already: the same bytes, which is as good; or what nobody can open, which is
 * taken away, so that the next one gets the name. */
static enum ldr_status accept_published(struct ldr_disk_cache *cache, const char *name,
					struct ldr_error *err)
{
	int fd;
	enum ldr_status status = ldr_root_open_file(cache->packs, name, &fd, err);

	if (status == LDR_OK)
		ldr_os_close(fd);
	else
		ldr_root_remove(cache->packs, name, LDR_SYNC_NONE, NULL);
	return status;
}

static enum ldr_status commit(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
			      const struct ldr_id *id, struct ldr_error *err)
{
	char name[LDR_DISK_NAME_BYTES];
	enum ldr_status status;
	struct ldr_error why = {0};

	ldr_disk_pack_name(id, name);
	status = ldr_stream_commit(LDR_STEAL(open->stream), name, NULL, &why);
	if (status == LDR_ECONFLICT)
		status = accept_published(cache, name, &why);
	if (status == LDR_OK)
		return LDR_OK;
	if (err)
		*err = why;
	return status;
}

/* The published pack of this id that has lost blocks: what it was is about to be written whole. */
static bool find_damaged(struct ldr_disk_cache *cache, const struct ldr_id *id,
			 uint32_t *out_number, uint64_t *out_serial)
{
	bool found = false;

	ldr_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < cache->table_count && !found; i++) {
		found = cache->table[i].state == LDR_DISK_PACK_PUBLISHED &&
			cache->lookup.packs[i].dropped && ldr_id_equal(&cache->table[i].id, id);
		*out_number = i;
		*out_serial = cache->table[i].serial;
	}
	ldr_mutex_unlock(&cache->lock);
	return found;
}

/* A pack with bad blocks would keep the good one of the same name out. */
static void clear_way(struct ldr_disk_cache *cache, const struct ldr_id *id)
{
	uint32_t number;
	uint64_t serial;

	if (find_damaged(cache, id, &number, &serial))
		ldr_disk_remove_pack(cache, number, serial, NULL);
}

enum ldr_status ldr_disk_seal(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
			      struct ldr_id *out_id, struct ldr_error *err)
{
	struct ldr_error why = {0};
	uint64_t size_bytes;
	enum ldr_status status = ldr_pack_writer_seal(open->writer, out_id, &size_bytes, &why);

	if (status == LDR_OK) {
		clear_way(cache, out_id);
		status = commit(cache, open, out_id, &why);
	}
	if (status) {
		ldr_disk_trouble(cache, &why);
		ldr_disk_abandon(cache, open);
		if (err)
			*err = why;
		return status;
	}
	now_published(cache, open->number, out_id, size_bytes);
	open_free(open);
	ldr_disk_tell(cache);
	return LDR_OK;
}

static void count_dropped(struct ldr_disk_cache *cache, uint64_t more)
{
	ldr_mutex_lock(&cache->lock);
	cache->stat.puts_dropped += more;
	ldr_mutex_unlock(&cache->lock);
}

/* Seals what detach gave; NULL is allowed. Blocks that are lost count as dropped. */
static enum ldr_status seal_detached(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
				     struct ldr_error *err)
{
	enum ldr_status status;
	struct ldr_id id;
	uint32_t count;

	if (!open)
		return LDR_OK;
	count = ldr_pack_writer_count(open->writer);
	status = ldr_disk_seal(cache, open, &id, err);
	if (status)
		count_dropped(cache, count);
	sealing_ended(cache);
	return status;
}

enum ldr_status ldr_disk_flush(struct ldr_disk_cache *cache, struct ldr_error *err)
{
	struct ldr_disk_open_pack *open;
	enum ldr_status status;

	if (!turn_take(cache))
		return ldr_fail(err, LDR_ETIMEDOUT, "cache: the disk has not answered for %u ms",
				TURN_WAIT_MS);
	open = detach(cache);
	turn_give(cache);
	status = seal_detached(cache, open, err);
	ldr_mutex_lock(&cache->lock);
	while (cache->sealing)
		ldr_condition_wait(&cache->turned, &cache->lock);
	ldr_mutex_unlock(&cache->lock);
	return status;
}

void ldr_disk_seal_idle(struct ldr_disk_cache *cache)
{
	uint64_t now = cache->clock->now_ns(cache->clock);
	struct ldr_disk_open_pack *open = NULL;

	ldr_mutex_lock(&cache->lock);
	if (cache->open && !cache->turn_taken && now - cache->open->last_put_ns >= IDLE_NS) {
		open = LDR_STEAL(cache->open);
		cache->sealing++;
	}
	ldr_mutex_unlock(&cache->lock);
	seal_detached(cache, open, NULL);
}

/* ---- put ---- */

/* Room in quota and above the floor for this block. The free space is asked for once a megabyte, and
 * when a pack has been begun. */
static enum ldr_status make_room(struct ldr_disk_cache *cache, uint32_t stored_bytes,
				 struct ldr_error *err)
{
	uint64_t bytes = (uint64_t)stored_bytes + INDEX_BYTES_PER_BLOCK;
	bool over, ask;

	ldr_mutex_lock(&cache->lock);
	cache->floor_checked_bytes += bytes;
	ask = cache->floor_checked_bytes >= FLOOR_CHECK_BYTES;
	if (ask)
		cache->floor_checked_bytes = 0;
	over = ldr_disk_needed_locked(cache) + ldr_disk_pages(bytes) > cache->quota_bytes;
	ldr_mutex_unlock(&cache->lock);
	if (!over && !ask)
		return LDR_OK;
	return ldr_disk_make_room(cache, bytes, err);
}

/* With the turn. A new pack's temporary is there before the folder is listed, so that of two processes
 * which begin at the same time at least one sees the other's. */
static enum ldr_status ensure_open(struct ldr_disk_cache *cache, struct ldr_error *err)
{
	struct ldr_disk_open_pack *open;
	enum ldr_status status;

	if (cache->open)
		return LDR_OK;
	status = cache->packs ? ldr_disk_begin_pack(cache, &open, err) : LDR_ENOTFOUND;
	if (status == LDR_ENOTFOUND) {
		status = ldr_disk_renew(cache, err);
		if (status == LDR_OK)
			status = ldr_disk_begin_pack(cache, &open, err);
	}
	if (status)
		return status;
	ldr_disk_look(cache, true);
	ldr_mutex_lock(&cache->lock);
	cache->open = open;
	cache->floor_checked_bytes = FLOOR_CHECK_BYTES;
	ldr_mutex_unlock(&cache->lock);
	return LDR_OK;
}

/* With the turn: no room for more. What the pack has is whole, and once it is published it can be
 * evicted; an empty one only takes room. */
static void close_short(struct ldr_disk_cache *cache)
{
	struct ldr_disk_open_pack *open = detach(cache);

	if (open && ldr_pack_writer_count(open->writer) == 0) {
		ldr_disk_abandon(cache, open);
		sealing_ended(cache);
	} else {
		seal_detached(cache, open, NULL);
	}
}

/* With the turn: a write failed, so that the pack's bytes are not what its writer thinks. */
static void abandon_open(struct ldr_disk_cache *cache)
{
	struct ldr_disk_open_pack *open = detach(cache);

	if (open) {
		count_dropped(cache, ldr_pack_writer_count(open->writer));
		ldr_disk_abandon(cache, open);
		sealing_ended(cache);
	}
}

/* With the turn. */
static enum ldr_status put_in_turn(struct ldr_disk_cache *cache,
				   const struct ldr_disk_stored *stored)
{
	struct ldr_error why = {0};
	enum ldr_status status = ensure_open(cache, &why);

	if (status == LDR_OK) {
		status = make_room(cache, stored->length, &why);
		if (status)
			close_short(cache);
	}
	if (status == LDR_OK) {
		status = ldr_disk_append(cache, cache->open, stored, &why);
		if (status)
			abandon_open(cache);
	}
	if (status)
		ldr_disk_trouble(cache, &why);
	return status;
}

/* Whether this put is wanted: not held yet, and nothing known to be in the way. */
static bool wanted(struct ldr_disk_cache *cache, const struct ldr_id *id)
{
	uint64_t now = cache->clock->now_ns(cache->clock);
	uint32_t pack, row;
	bool want;

	ldr_mutex_lock(&cache->lock);
	want = !ldr_lookup_find(&cache->lookup, id, &pack, &row);
	if (want && (cache->read_only || now < cache->retry_ns)) {
		cache->stat.puts_dropped++;
		want = false;
	}
	ldr_mutex_unlock(&cache->lock);
	return want;
}

static void count_put(struct ldr_disk_cache *cache, enum ldr_status status)
{
	uint64_t now = cache->clock->now_ns(cache->clock);

	ldr_mutex_lock(&cache->lock);
	if (status)
		cache->stat.puts_dropped++;
	else
		cache->stat.puts++;
	if (cache->open)
		cache->open->last_put_ns = now;
	ldr_mutex_unlock(&cache->lock);
}

void ldr_disk_put(struct ldr_disk_cache *cache, const struct ldr_block_ref *block,
		  enum ldr_codec codec, const void *stored, uint32_t stored_bytes)
{
	const struct ldr_disk_stored form = {
		.block = *block, .codec = codec, .length = stored_bytes, .bytes = stored};
	struct ldr_disk_open_pack *full = NULL;
	bool save;

	ldr_disk_seal_idle(cache);
	if (!wanted(cache, &block->id))
		return;
	if (!turn_take(cache)) {
		struct ldr_error why = {0};

		ldr_fail(&why, LDR_ETIMEDOUT, "the disk has not answered for %u ms", TURN_WAIT_MS);
		ldr_disk_trouble(cache, &why);
		count_put(cache, LDR_ETIMEDOUT);
		return;
	}
	if (wanted(cache, &block->id))
		count_put(cache, put_in_turn(cache, &form));
	if (cache->open && ldr_pack_writer_bytes(cache->open->writer) >= cache->seal_bytes)
		full = detach(cache);
	turn_give(cache);
	if (!full)
		return;
	seal_detached(cache, full, NULL);
	ldr_mutex_lock(&cache->lock);
	save = cache->unlisted_packs >= UNLISTED_MAX;
	ldr_mutex_unlock(&cache->lock);
	if (save)
		ldr_disk_save_lookup(cache);
}
