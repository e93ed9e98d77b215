/*
 * What the files of the memory layer share: files and folders (memory_data.c), extents
 * (memory_extents.c), names (memory_names.c). Inside vfs/ only.
 *
 * An *inode* is a file's or folder's content; a *name* ties one path to one inode. Inodes and table
 * slots live in memory that is not given back before the layer ends (they are reused), so that a
 * look-up without a lock can look at one that is just being removed and notice afterwards.
 *
 * Invariants
 *  1. An inode lives while its name, a handle or a mapping counts itself in `references`; 0 is
 *     free for ever to a look-up: it takes a reference only from a count that is not 0, and then
 *     looks again whether the name still leads there.
 *  2. Extents never move and go back only with the inode: a reader needs no lock. Bytes behind
 *     `size_bytes` are garbage; whoever makes a file longer writes zeros first.
 *  3. A mapped file is never written: who opens it for writing gets a copy under the name.
 *
 * Locks: `changes` (LDR_RANK_LAYER) for names and folders; an inode's own flag for its extents,
 * length and who has it open for writing. Look-ups and reads take neither.
 */
#ifndef LDR_VFS_MEMORY_PRIV_H
#define LDR_VFS_MEMORY_PRIV_H

#include <stdatomic.h>
#include <string.h>

#include "common/checksum.h"
#include "common/lock.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"

/* ---- extents ---- */

#define LDR_EXTENT_CLASSES 5u /* 4 KiB, 16, 64, 256, 1 MiB */
#define LDR_EXTENT_MIN_BYTES ((size_t)4096)
#define LDR_EXTENT_MAX_BYTES ((size_t)1 << 20)

struct ldr_extent {
	uint64_t start; /* in the file */
	uint8_t *bytes;
	size_t length;
};

struct ldr_arena_chunk;

/* Free extents by class, one set of lists per stripe of threads; cut from chunks on huge pages,
 * which stay. */
struct ldr_extent_pool {
	uint64_t max_bytes;
	_Atomic uint64_t used_bytes; /* everything that counts, names too */
	atomic_flag chunks_busy;
	struct ldr_arena_chunk *chunks;
	struct {
		_Alignas(64) atomic_flag busy;
		void *free[LDR_EXTENT_CLASSES];
	} stripes[LDR_STRIPES];
};

void ldr_extent_pool_init(struct ldr_extent_pool *pool, uint64_t max_bytes);
void ldr_extent_pool_dispose(struct ldr_extent_pool *pool);
/* Bytes that something else needs. False: there is no room. */
bool ldr_extent_pool_charge(struct ldr_extent_pool *pool, uint64_t bytes);
void ldr_extent_pool_refund(struct ldr_extent_pool *pool, uint64_t bytes);
/* An extent of at least wanted bytes where that is at most LDR_EXTENT_MAX_BYTES, else of that; or,
 * when exact, of wanted bytes whatever they are, in one piece. NULL bytes: LDR_ENOSPACE or
 * LDR_ENOMEM. */
enum ldr_status ldr_extent_take(struct ldr_extent_pool *pool, uint64_t wanted, bool exact,
				struct ldr_extent *out, struct ldr_error *err);
void ldr_extent_give(struct ldr_extent_pool *pool, const struct ldr_extent *extent);

/* ---- inodes ---- */

struct ldr_extent_table {
	struct ldr_extent_table *older;
	uint32_t capacity;
	struct ldr_extent items[];
};

struct ldr_memory_name;
struct ldr_name_list;

struct ldr_inode {
	_Atomic uint32_t references;
	_Atomic uint32_t extent_count;
	_Atomic uint64_t size_bytes;
	_Atomic int64_t modified_ns;
	_Atomic(struct ldr_extent *) extents; /* first, or a table's items */
	struct ldr_extent first[2];
	struct ldr_extent_table *table; /* owns; older ones behind it */
	atomic_flag busy;
	_Atomic uint8_t kind;
	uint32_t writers; /* handles open for writing; under busy */
	uint32_t maps;    /* mappings; under busy */
	uint64_t capacity_bytes;

	/* folders; under changes */
	struct ldr_memory_name *children; /* list, by next_child */
	uint32_t child_count;
	struct ldr_name_list *listing; /* of the children, sorted; NULL after a change */

	struct ldr_inode *next_free;
};

struct ldr_inode_slab;

struct ldr_inode_pool {
	atomic_flag busy;
	struct ldr_inode *free;
	struct ldr_inode_slab *slabs;
};

struct ldr_memory_layer;

enum ldr_status ldr_inode_new(struct ldr_memory_layer *layer, enum ldr_kind kind,
			      struct ldr_inode **out_inode, struct ldr_error *err);
/* From a count that is not 0 only; false otherwise. */
bool ldr_inode_try_ref(struct ldr_inode *inode);
void ldr_inode_unref(struct ldr_memory_layer *layer, struct ldr_inode *inode);
void ldr_inode_pool_dispose(struct ldr_memory_layer *layer);

size_t ldr_inode_read(const struct ldr_inode *inode, uint8_t *bytes, size_t length,
		      uint64_t offset);
/* At offset, or at the end (append), which *out_end is afterwards. LDR_ENOSPACE, LDR_ENOMEM. */
enum ldr_status ldr_inode_write(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				const void *bytes, size_t length, uint64_t offset, bool append,
				uint64_t *out_end, struct ldr_error *err);
enum ldr_status ldr_inode_truncate(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				   uint64_t length, struct ldr_error *err);
/* Room for length bytes in one piece, of a new file. */
enum ldr_status ldr_inode_reserve(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				  uint64_t length, struct ldr_error *err);
/* False: somebody has it mapped. */
bool ldr_inode_begin_writing(struct ldr_inode *inode);
void ldr_inode_end_writing(struct ldr_inode *inode);
/* The bytes in one piece; NULL: they are not, or somebody may write. */
const uint8_t *ldr_inode_map(struct ldr_inode *inode, uint64_t offset, size_t length);
void ldr_inode_unmap(struct ldr_inode *inode);
void ldr_inode_touch(struct ldr_inode *inode);

/* ---- names ---- */

#define LDR_MEMORY_SHARDS 64u

/* All fields are written under `changes`, between two odd and even versions of the shard. */
struct ldr_memory_slot {
	_Atomic uint64_t low;
	_Atomic uint64_t high;
	_Atomic(struct ldr_inode *) inode; /* NULL: empty */
	struct ldr_memory_name *name;      /* under changes */
};

struct ldr_memory_table {
	struct ldr_memory_table *older; /* kept: a look-up may still be in it */
	size_t mask;
	struct ldr_memory_slot slots[];
};

struct ldr_memory_shard {
	_Alignas(64) _Atomic uint32_t version; /* odd while it is being changed */
	uint32_t count;
	_Atomic(struct ldr_memory_table *) table;
};

struct ldr_memory_name {
	struct ldr_memory_name *next_child;
	struct ldr_memory_name *prev_child;
	struct ldr_inode *inode;  /* one reference */
	struct ldr_inode *parent; /* borrowed */
	uint16_t path_bytes;
	uint16_t name_at; /* in path */
	char path[];
};

struct ldr_name_list {
	_Atomic uint32_t references;
	uint32_t count;
	size_t text_bytes;
	/* count of {uint8_t kind, uint8_t length, name}, one behind the other */
	uint8_t text[];
};

struct ldr_memory_layer {
	struct ldr_extent_pool extents;
	struct ldr_inode_pool inodes;
	struct ldr_mutex changes;
	_Atomic uint64_t name_count;
	_Atomic uint64_t *wakes; /* borrows until unwatched; NULL; under changes */
	uint64_t seed;
	struct ldr_inode *root;
	struct ldr_memory_shard shards[LDR_MEMORY_SHARDS];
};

/* An empty root. After a failure too it is to be disposed. */
enum ldr_status ldr_memory_init(struct ldr_memory_layer *layer, uint64_t max_bytes,
				struct ldr_error *err);
void ldr_memory_dispose(struct ldr_memory_layer *layer);

/* With a reference; NULL: not there. The root for "". No lock. */
struct ldr_inode *ldr_names_find(struct ldr_memory_layer *layer, const char *path, size_t length);
/* Kind, length and time without a reference; false: not there. No lock. */
bool ldr_names_stat(struct ldr_memory_layer *layer, const char *path, size_t length,
		    struct ldr_stat *out);
/* LDR_ENOTDIR when a parent is a file, else LDR_ENOTFOUND. */
enum ldr_status ldr_names_why_not(struct ldr_memory_layer *layer, const char *path, size_t length);

/* All below: under changes. */
struct ldr_memory_name *ldr_names_get(struct ldr_memory_layer *layer, const char *path,
				      size_t length);
/* Takes the caller's reference to inode on success. The parent folder must be there: LDR_ENOTFOUND,
 * LDR_ENOTDIR. */
enum ldr_status ldr_names_add(struct ldr_memory_layer *layer, const char *path, size_t length,
			      struct ldr_inode *inode, struct ldr_error *err);
void ldr_names_remove(struct ldr_memory_layer *layer, struct ldr_memory_name *name);
/* With everything below it. */
void ldr_names_remove_tree(struct ldr_memory_layer *layer, struct ldr_memory_name *name);
/* Another content under the name; takes the caller's reference. */
void ldr_names_swap(struct ldr_memory_layer *layer, struct ldr_memory_name *name,
		    struct ldr_inode *inode);
/* `from` and everything below it under `to`, where there is nothing. */
enum ldr_status ldr_names_move(struct ldr_memory_layer *layer, struct ldr_memory_name *from,
			       const char *to, size_t length, struct ldr_error *err);
/* With a reference. */
enum ldr_status ldr_names_list(struct ldr_inode *folder, struct ldr_name_list **out_list,
			       struct ldr_error *err);
void ldr_name_list_unref(struct ldr_name_list *list);
/* The path as it is stored, found whatever the case of its names; false: none. */
bool ldr_names_unfold(struct ldr_memory_layer *layer, const char *path, size_t length,
		      char out_path[LDR_PATH_MAX_BYTES + 1], size_t *out_length);

#endif
