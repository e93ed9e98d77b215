/*
 * What the files of the disk cache share; for cache/disk*.c and cache/evict.c only.
 *
 *   disk.c         open, close, has, read, the counters
 *   disk_table.c   packs in the tables, descriptors, buffers
 *   disk_scan.c    the folder and the tables: start, newcomers, packs that went
 *   disk_write.c   the open pack: put, seal
 *   disk_repack.c  packs written anew without their bad blocks, small ones together; verify
 *   evict.c        room: quota, floor, second chance
 *
 * States of a pack in the tables, and who moves it on:
 *
 *   open       in this process only: appended to by whoever has the turn (disk_write.c)
 *   sealing    detached from the cache by its last appender, who alone touches stream and writer
 *   published  has a name; dropped when evicted, found gone, or replaced by a repacked one
 *
 * Locks: cache->lock (LDR_RANK_DISK) over tables, counters and descriptors in the tables; never held
 * over I/O. The turn (a flag under the lock) makes appends take turns, since a stream belongs to one
 * thread at a time. Whoever leaves the lock remembers a pack by number and serial: a number may be given
 * to another pack meanwhile, a serial never is.
 */
#ifndef LDR_CACHE_DISK_PRIV_H
#define LDR_CACHE_DISK_PRIV_H

#include "cache/disk.h"
#include "cache/lookup.h"
#include "common/clock.h"
#include "common/lock.h"
#include "packs/pack_writer.h"

#define LDR_DISK_FILES_MAX 32u
#define LDR_DISK_READS_MAX 16u
#define LDR_DISK_NAME_BYTES (LDR_ID_HEX_CHARS + 6) /* "<id>.pack" and a NUL */
#define LDR_DISK_STAMP_BYTES 64u

/* A descriptor that several readers share. References are counted under the cache's lock. */
struct ldr_disk_file {
	int fd; /* owns */
	unsigned references;
};

enum ldr_disk_pack_state {
	LDR_DISK_PACK_FREE,
	LDR_DISK_PACK_OPEN, /* or sealing */
	LDR_DISK_PACK_PUBLISHED,
};

struct ldr_disk_pack {
	enum ldr_disk_pack_state state;
	uint64_t serial;
	struct ldr_id id; /* of a published one */
	uint64_t size_bytes;
	uint64_t charge_bytes;      /* what it counts for: whole pages */
	uint64_t listing;           /* the listing that was the latest when it was published */
	int64_t used_s;             /* when it was last used, as far as its file's time tells */
	bool used;                  /* since then, by this process */
	bool in_lookup;             /* the file `lookup` on disk knows it as it is */
	struct ldr_disk_file *file; /* shares; NULL when it is not open now */
	uint64_t file_tick;         /* when the descriptor was last used */
	uint64_t inode;             /* of an open one, to know its temporary in a listing */
};

/* This process's pack that is being filled. */
struct ldr_disk_open_pack {
	struct ldr_stream *stream;      /* owns */
	struct ldr_pack_writer *writer; /* owns */
	uint32_t number;
	uint64_t last_put_ns;
};

/* A block in its stored form; bytes are borrowed. */
struct ldr_disk_stored {
	struct ldr_block_ref block;
	enum ldr_codec codec;
	uint32_t length;
	const void *bytes;
};

struct ldr_disk_buffer {
	struct ldr_disk_buffer *next;
	uint8_t bytes[LDR_STORED_MAX_BYTES];
};

/* Folders that were removed under an open cache; after so many it goes on without keeping. */
#define LDR_DISK_RETIRED_MAX 32u

struct ldr_disk_cache {
	/* Own. packs is NULL while there is no such folder and none can be made. Both are replaced, by who
	 * has the turn, when somebody has removed them; what others may still use is retired. */
	struct ldr_root *_Atomic root;
	struct ldr_root *_Atomic packs;
	struct ldr_root *retired[LDR_DISK_RETIRED_MAX];
	unsigned retired_count;
	const struct ldr_clock *clock;
	uint64_t quota_bytes;
	uint64_t free_floor_bytes;
	uint64_t seal_bytes;
	bool read_only;

	struct ldr_mutex lock;
	struct ldr_condition turned; /* the turn is free, or a sealing has ended */
	struct ldr_lookup lookup;
	struct ldr_disk_pack *table; /* owns; as many as lookup.pack_capacity */
	uint32_t table_count;
	uint64_t next_serial;
	uint32_t files_open; /* descriptors in the table */
	uint64_t file_ticks;
	struct ldr_disk_buffer *buffers; /* owns; idle */
	unsigned buffer_count;

	uint64_t reading[LDR_DISK_READS_MAX]; /* when each read under way began; 0: none */

	bool turn_taken;
	struct ldr_disk_open_pack *open; /* owns */
	unsigned sealing;
	uint64_t unlisted_packs; /* published since `lookup` was last written */

	char stamp[LDR_DISK_STAMP_BYTES]; /* generation at the last listing */
	uint64_t next_look_ns;
	uint64_t listings;
	bool looking;
	/* Temporaries of others, packs that cannot be opened and derived files, at the last listing. */
	uint64_t foreign_bytes;
	uint64_t lookup_bytes; /* whole pages of `lookup`, which counts twice in foreign_bytes */
	uint64_t floor_checked_bytes; /* put since the free space was last asked for */

	uint64_t retry_ns; /* no put before */
	uint64_t back_off_ns;
	struct ldr_disk_stat stat;
};

/* ---- disk_table.c ---- */

uint64_t ldr_disk_pages(uint64_t bytes); /* rounded up to 4 KiB */
void ldr_disk_pack_name(const struct ldr_id *id, char name[LDR_DISK_NAME_BYTES]);
/* A table row for a new pack; NULL: out of memory. */
struct ldr_disk_pack *ldr_disk_new_pack_locked(struct ldr_disk_cache *cache, uint32_t *out_number);
/* The pack with this number if it still is the one with this serial, else NULL. */
struct ldr_disk_pack *ldr_disk_pack_locked(struct ldr_disk_cache *cache, uint32_t number,
					   uint64_t serial);
/* Takes the pack and its rows out of the tables. The descriptor is closed by the last reader. */
void ldr_disk_drop_pack_locked(struct ldr_disk_cache *cache, uint32_t number);
void ldr_disk_drop_pack(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial);
struct ldr_disk_file *ldr_disk_file_new(int fd); /* takes fd (also on failure); one reference */
void ldr_disk_file_unref(struct ldr_disk_cache *cache, struct ldr_disk_file *file);
void ldr_disk_file_unref_locked(struct ldr_disk_file *file);
/* Makes room for one more descriptor: the longest unused one of a published pack goes. */
void ldr_disk_shed_file_locked(struct ldr_disk_cache *cache);
/* A reference to the pack's descriptor, opened if need be. */
enum ldr_status ldr_disk_file_of(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial,
				 struct ldr_disk_file **out_file, struct ldr_error *err);
struct ldr_disk_buffer *ldr_disk_buffer_take(struct ldr_disk_cache *cache);
void ldr_disk_buffer_give(struct ldr_disk_cache *cache, struct ldr_disk_buffer *buffer);
/* ---- disk.c ---- */

/* Stored bytes of an entry, checksum tested. LDR_ECORRUPT: wrong or missing bytes. */
enum ldr_status ldr_disk_read_stored(const struct ldr_disk_file *file,
				     const struct ldr_pack_entry *entry, void *stored,
				     struct ldr_error *err);

/* ---- disk_scan.c ---- */

/* Fills the tables from the folder; at the start with the help of `lookup`. */
enum ldr_status ldr_disk_scan(struct ldr_disk_cache *cache, bool start, struct ldr_error *err);
/* A published pack of this id is in the tables. */
bool ldr_disk_knows_locked(const struct ldr_disk_cache *cache, const struct ldr_id *id);
/* Looks for newcomers if the generation has changed; at most every 50 ms unless forced. True when the
 * tables were brought up to date. */
bool ldr_disk_look(struct ldr_disk_cache *cache, bool force);
/* Tells other processes that a pack was added or removed. */
void ldr_disk_tell(struct ldr_disk_cache *cache);
/* Writes `lookup` if packs have been added or removed since. */
void ldr_disk_save_lookup(struct ldr_disk_cache *cache);

/* ---- disk_write.c ---- */

/* What is in the way of putting, for the counters; starts or prolongs the back-off. */
/* With the turn: somebody has removed the folders, or they could not be made; makes and opens them. */
enum ldr_status ldr_disk_renew(struct ldr_disk_cache *cache, struct ldr_error *err);
void ldr_disk_trouble(struct ldr_disk_cache *cache, const struct ldr_error *why);
/* Takes over the pack in open (freed with everything in it) and publishes it under the id that it gives;
 * on failure the pack is abandoned. */
enum ldr_status ldr_disk_seal(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
			      struct ldr_id *out_id, struct ldr_error *err);
/* A new open pack with a row in the tables, not the cache's own one. */
enum ldr_status ldr_disk_begin_pack(struct ldr_disk_cache *cache,
				    struct ldr_disk_open_pack **out_open, struct ldr_error *err);
/* Appends a stored block and makes it readable. */
enum ldr_status ldr_disk_append(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open,
				const struct ldr_disk_stored *stored, struct ldr_error *err);
/* Takes the pack out of the tables and away from the disk. */
void ldr_disk_abandon(struct ldr_disk_cache *cache, struct ldr_disk_open_pack *open);
/* Seals the open pack when nobody has put for a minute. */
void ldr_disk_seal_idle(struct ldr_disk_cache *cache);

/* ---- disk_repack.c ---- */

/* Writes one new pack with the good blocks of these packs and removes them. */
enum ldr_status ldr_disk_repack(struct ldr_disk_cache *cache, const uint64_t *serials, size_t count,
				struct ldr_error *err);
/* Before the cache is closed: packs with bad blocks lose them, many small packs become one. */
void ldr_disk_tidy(struct ldr_disk_cache *cache);

/* ---- evict.c ---- */

/* What packs, temporaries and everything that the cache keeps beside them take, with a `lookup` of all
 * blocks and one more. */
uint64_t ldr_disk_needed_locked(const struct ldr_disk_cache *cache);
/* Room for so many bytes more within quota and floor, by evicting at most a few packs. LDR_ENOSPACE. */
enum ldr_status ldr_disk_make_room(struct ldr_disk_cache *cache, uint64_t bytes,
				   struct ldr_error *err);
/* Removes a published pack's file and takes it out of the tables. */
enum ldr_status ldr_disk_remove_pack(struct ldr_disk_cache *cache, uint32_t number, uint64_t serial,
				     struct ldr_error *err);
/* At the end of a process: what it used becomes visible to others as the time of the files. */
void ldr_disk_mark_used(struct ldr_disk_cache *cache);

#endif
