/*
 * The virtual file system: layers mounted over each other, read and written by virtual path.
 *
 * An instance holds mounts. A mount puts a layer (vfs/layer.h: native folder, memory, archive,
 * release, or a caller's own) at a virtual folder, its mount point. A path is answered by the
 * mounts whose point is the path or a folder above it, in this order: overrides first, then higher
 * precedence, then the later mounted one. The first that has the name answers; "not here"
 * (LDR_ENOTFOUND) alone lets the next one be asked, every other failure ends the lookup and is the
 * caller's answer. A folder shows the names of all mounts that have it as a folder, down to the
 * first that has that name as something else; mount points and the folders above them are there
 * always.
 *
 * Paths obey common/path.h strictly: "a//b", "./a", "/a", "a/" and "a/../b" are LDR_EINVAL
 * everywhere, never repaired. "" is the root folder.
 *
 * Writing goes to the *write target* of the path: of the mounts flagged LDR_MOUNT_WRITE the one
 * with the longest mount point that holds the path, then the first in the order above. Where a
 * lower mount has the file, it is copied up first; missing parents are made there; what is removed
 * but still in a lower mount is hidden by a whiteout, kept in the target's side log, never as a
 * file with a magic name. Whiteouts are the layer's, so all its mounts hide the same. Without a
 * target writing is LDR_EDENIED. Nothing but write targets is ever changed.
 *
 * The read contract, the same for every layer (tests/unit/vfs/contract.c runs it over all): an
 * offset at or past the end gives 0 bytes; a short count comes only at the end; offset + length
 * over 2^64 is LDR_EINVAL; a folder is LDR_EISDIR; after a failure nothing is promised about the
 * buffer.
 *
 * Invariants
 *  1. A lookup takes no lock and writes nothing that another thread reads in its own lookups: it
 *     works on one immutable snapshot of the mounts, which lives until the last reader has left it
 *     (vfs/epoch.h).
 *  2. Every open handle keeps its layer alive; unmounting takes names away, never a handle's
 *     bytes, unless forced.
 *  3. A warm open, read, stat, miss and close allocate nothing.
 *  4. Outputs are written on success only.
 *
 * Threads: any thread may call anything but ldr_vfs_free; mount changes are serialised among
 * themselves, and seen wholly or not at all by each lookup.
 */
#ifndef LDR_VFS_VFS_H
#define LDR_VFS_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/path.h"
#include "common/publisher.h"
#include "vfs/layer.h"

struct ldr_vfs;
struct ldr_file; /* vfs/file.h */

#define LDR_VFS_MOUNTS_MAX 1024u
#define LDR_VFS_HANDLES_DEFAULT 1048576u

/* Zero means the default in brackets. */
struct ldr_vfs_options {
	size_t size; /* sizeof(struct ldr_vfs_options) */
	uint32_t
		/* open at once, else LDR_ELIMIT (1 Mi); memory is taken as they are used */
		max_handles;
	size_t max_copy_bytes; /* the largest file that is copied up, else LDR_ELIMIT (no limit) */
};

LDR_API enum ldr_status ldr_vfs_new(const struct ldr_vfs_options *options, /* may be NULL */
				    struct ldr_vfs **out_vfs, struct ldr_error *err);
/* All handles must have been closed (asserted). NULL is allowed. */
LDR_API void ldr_vfs_free(struct ldr_vfs *vfs);
void ldr_vfs_cleanup(struct ldr_vfs **vfs);
#define LDR_AUTO_VFS __attribute__((cleanup(ldr_vfs_cleanup)))

/* ---- mounts ---- */

enum ldr_mount_flag {
	LDR_MOUNT_WRITE = 1u, /* may be a write target; the layer must be writable */
	LDR_MOUNT_FOLD_CASE =
		2u, /* names are found whatever their case; the layer must be able to */
	LDR_MOUNT_OVERRIDE =
		4u, /* asked before all mounts without this flag: loose files of a developer */
};

struct ldr_mount {
	uint32_t id;             /* the caller's, not 0, unique among the mounts of the instance */
	struct ldr_layer *layer; /* shared: the mount takes a reference */
	const char *at;          /* mount point; NULL or "": the root. Borrowed for the call */
	int32_t precedence;
	unsigned flags;
};

/* LDR_EEXISTS: the id is taken. LDR_EINVAL: the path, an unknown flag, id 0. LDR_EUNSUPPORTED: a
 * flag that the layer cannot (WRITE, FOLD_CASE). LDR_ELIMIT: too many mounts. LDR_ECONFLICT:
 * another process, or another layer over the same place, writes there; LDR_ECORRUPT: its log of
 * whiteouts. A layer may be mounted several times, for writing too, also in several instances of a
 * process. */
LDR_API enum ldr_status ldr_vfs_mount(struct ldr_vfs *vfs, const struct ldr_mount *mount,
				      struct ldr_error *err);
/* LDR_ENOTFOUND: no such id. Waits until nothing is changed through a write target any more, so
 * that another may have it. Handles opened through the mount keep working; with force each of their
 * calls but close gives LDR_ESTALE from now on. */
LDR_API enum ldr_status ldr_vfs_unmount(struct ldr_vfs *vfs, uint32_t id, bool force,
					struct ldr_error *err);

/* Several changes as one: every lookup sees all of them or none. Either all are made or none. A
 * change replaces the mount of its id when there is one (a live switch of release), which keeps its
 * place among its equals; adds it when there is none, and with layer NULL takes it away. */
LDR_API enum ldr_status ldr_vfs_apply(struct ldr_vfs *vfs, const struct ldr_mount *changes,
				      size_t count, struct ldr_error *err);
/* The mounts in the order in which they are asked; at most capacity are written, the return value
 * says how many there are. layer and at are borrowed until the next change of mounts. */
LDR_API size_t ldr_vfs_mounts(struct ldr_vfs *vfs, struct ldr_mount *out, size_t capacity);
/* Grows with every change of the mounts; never 0. */
LDR_API uint64_t ldr_vfs_generation(struct ldr_vfs *vfs);
/* Waits until the table that merges all immutable layers is built for the present mounts (it is
 * built in the background after a change; lookups are right, only slower, until then). */
LDR_API void ldr_vfs_settle(struct ldr_vfs *vfs);
/* Waits until what others did to watched native folders before the call is seen by lookups. */
LDR_API enum ldr_status ldr_vfs_sync(struct ldr_vfs *vfs, struct ldr_error *err);

/* ---- names ---- */

/* LDR_ENOTFOUND; LDR_ENOTDIR where a parent is a file; whatever a layer failed with. */
LDR_API enum ldr_status ldr_vfs_stat(struct ldr_vfs *vfs, const char *path, struct ldr_stat *out,
				     struct ldr_error *err);
/* LDR_OK or LDR_ENOTFOUND, or a failure, which is not an answer. Asks for less than stat where that
 * is cheaper. */
LDR_API enum ldr_status ldr_vfs_exists(struct ldr_vfs *vfs, const char *path,
				       struct ldr_error *err);

/* One mount that was asked, and what it said. */
struct ldr_attempt {
	uint32_t mount_id;
	enum ldr_status outcome;
	bool whiteout; /* it hid the name: outcome is LDR_ENOTFOUND and the lookup ended there */
};

struct ldr_which {
	uint32_t mount_id;      /* which mount answers; 0: only a folder above a mount point */
	const char *layer_kind; /* static text of the layer: "native", "memory", "archive" ... */
	struct ldr_stat stat;
};

/* Which layer answers. attempts (may be NULL) gets the first capacity of the mounts asked, in
 * order, and *out_attempts (may be NULL) how many there were in all; both are written after
 * LDR_ENOTFOUND and failures too. */
LDR_API enum ldr_status ldr_vfs_which(struct ldr_vfs *vfs, const char *path, struct ldr_which *out,
				      struct ldr_attempt *attempts, size_t capacity,
				      size_t *out_attempts, struct ldr_error *err);

struct ldr_list; /* a folder's names, sorted by bytes, none twice; immutable */

struct ldr_list_entry {
	const char *name; /* NUL-terminated; borrowed until the list is freed */
	size_t name_bytes;
	enum ldr_kind kind;
};

/* LDR_ENOTDIR, LDR_ENOTFOUND. On success the caller owns the list. */
LDR_API enum ldr_status ldr_vfs_list(struct ldr_vfs *vfs, const char *path,
				     struct ldr_list **out_list, struct ldr_error *err);
LDR_API size_t ldr_list_count(const struct ldr_list *list);
/* i < count is the caller's duty (asserted). */
LDR_API void ldr_list_at(const struct ldr_list *list, size_t i, struct ldr_list_entry *out);
LDR_API void ldr_list_free(struct ldr_list *list); /* NULL is allowed */

/* ---- changes ---- */

/* Parents are made in the write target where they exist below it or are missing altogether.
 * LDR_EEXISTS: there is something of that name. LDR_EDENIED: no write target. */
LDR_API enum ldr_status ldr_vfs_mkdir(struct ldr_vfs *vfs, const char *path, struct ldr_error *err);
/* A file, or a folder that shows no names (LDR_ENOTEMPTY). A mount point is LDR_EDENIED. */
LDR_API enum ldr_status ldr_vfs_remove(struct ldr_vfs *vfs, const char *path,
				       struct ldr_error *err);
/* A file, or a folder that shows names of the write target alone (else LDR_EUNSUPPORTED). Both
 * paths must have the same write target (else LDR_EUNSUPPORTED); a file that is at `to` is
 * replaced, a folder must be empty. Atomic where `from` lies in the target; one from below is
 * copied up to `to` and then hidden. */
LDR_API enum ldr_status ldr_vfs_rename(struct ldr_vfs *vfs, const char *from, const char *to,
				       struct ldr_error *err);
/* The whole file becomes these bytes or stays as it was, also across a crash as the policy says
 * (common/publisher.h). Handles on the old file keep it. */
LDR_API enum ldr_status ldr_vfs_replace(struct ldr_vfs *vfs, const char *path, const void *bytes,
					size_t length, enum ldr_sync sync, struct ldr_error *err);

/* ---- files ---- */

enum ldr_open_flag {
	LDR_OPEN_READ = 1u,
	LDR_OPEN_WRITE = 2u,      /* made when missing, emptied when there */
	LDR_OPEN_APPEND = 4u,     /* made when missing; every write goes to the end as it is then */
	LDR_OPEN_OVERLAPPED = 8u, /* read and write; made when missing, kept as it is when there */
	LDR_OPEN_NEW = 16u,       /* with one of the last three: LDR_EEXISTS when it is there */
};

/* Exactly one of READ, WRITE, APPEND, OVERLAPPED (else LDR_EINVAL). LDR_ENOTFOUND, LDR_EISDIR,
 * LDR_ENOTDIR, LDR_ENOKEY (an encrypted archive without its key), LDR_EDENIED (no write target),
 * LDR_ELIMIT (handles). On success the caller closes the file (vfs/file.h). */
LDR_API enum ldr_status ldr_vfs_open(struct ldr_vfs *vfs, const char *path, unsigned flags,
				     struct ldr_file **out_file, struct ldr_error *err);

/* ---- seeing ---- */

struct ldr_vfs_metrics {
	uint64_t handles_open;
	uint64_t mounts;
	uint64_t merged_names; /* in the merged table */
	uint64_t copied_up;    /* files */
	uint64_t whiteouts;
	uint64_t watch_events;    /* of watched native layers */
	uint64_t watch_fallbacks; /* folders looked up live because of a limit or an overflow */
};

LDR_API void ldr_vfs_metrics(struct ldr_vfs *vfs, struct ldr_vfs_metrics *out);

#endif
