/*
 * What the files of the native layer share. Inside vfs/ only.
 *
 * Invariants
 *  1. Every name is resolved by the kernel from the root's descriptor, by the policy: never by
 *     looking at strings.
 *  2. A handle is a descriptor of a regular file. That it is regular is asked once; a path that
 *     was one the last time is believed to be one still (`seen`), which saves a system call a look,
 *     and a folder or pipe put in its place is noticed by the first read, which then says
 *     LDR_EISDIR or LDR_ENOTREG.
 *  3. A held folder is used under its path only after it was seen to be there: in safe mode by the
 *     same call (layer_native_resolve.c), in watched mode by the watch, whose news may be 50 ms old.
 *     It was reached without a symlink and only single names are looked up in it, without following
 *     them. So what is reached through it lies in a folder that was beneath the root, and never
 *     behind a symlink that somebody has put there.
 */
#ifndef LDR_VFS_LAYER_NATIVE_PRIV_H
#define LDR_VFS_LAYER_NATIVE_PRIV_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "common/os.h"
#include "common/publisher.h"
#include "vfs/layer_native.h"

/* Paths whose kind is remembered: groups of one cache line's half. */
#define LDR_NATIVE_SEEN_GROUPS 16384u
#define LDR_NATIVE_SEEN_WAYS 4u
/* Folders right below the root that are held for stat. */
#define LDR_NATIVE_PARENTS 64u
#define LDR_HELD_MAX 256u
#define LDR_HELD_ROOT UINT64_MAX /* the id of the root's own descriptor */

struct ldr_native_watch;

/* ---- folders held open: layer_native_held.c ---- */

struct ldr_held_folder {
	_Atomic uint64_t state; /* generation << 32 | users */
	int fd;
	dev_t device;
	ino_t inode;
	uint64_t tag; /* the owner's */
};

/* At most LDR_HELD_MAX, and an eighth of the descriptors that the process may have. */
struct ldr_held {
	struct ldr_held_folder folders[LDR_HELD_MAX];
	uint16_t free[LDR_HELD_MAX];
	uint32_t free_count;
	atomic_flag busy;
};

void ldr_held_init(struct ldr_held *held); /* of zeros */
void ldr_held_dispose(struct ldr_held *held);
/* An id, and *fd is taken; 0: there is no room. */
uint64_t ldr_held_put(struct ldr_held *held, int *fd, const struct stat *found, uint64_t tag);
/* NULL: it is not held any more. Else it stays open until leave. */
const struct ldr_held_folder *ldr_held_get(struct ldr_held *held, uint64_t id);
void ldr_held_leave(struct ldr_held *held, const struct ldr_held_folder *folder);
/* Once for each put; ids that are held no more are allowed. */
void ldr_held_drop(struct ldr_held *held, uint64_t id);

/* ---- the layer ---- */

struct ldr_native {
	struct ldr_root *root;
	int fd; /* the root's, borrowed */
	enum ldr_symlinks symlinks;
	bool trusted;
	uint64_t seed;
	int claim_fd;                   /* holds the lock of whoever writes here; -1: not claimed */
	struct ldr_native_watch *watch; /* owns; NULL: not watched */
	/* Hashes of paths that were regular files; 512 KiB, of which the system gives what is
	 * used. */
	_Atomic uint64_t (*seen)[LDR_NATIVE_SEEN_WAYS];
	struct ldr_held held;
	_Atomic uint64_t parents[LDR_NATIVE_PARENTS]; /* ids of held folders, by their name */
	_Atomic uint32_t parents_missed;
};

/* What the watch knows of a path without asking the system. */
struct ldr_native_known {
	uint64_t held; /* of the folder that it lies in; 0: none */
	bool is_file;  /* regular, when last looked at */
};

/* ---- resolving: layer_native_resolve.c ---- */

/* By the policy of the layer; an errno value. */
int ldr_native_open(const struct ldr_native *native, const char *path, int flags, int *out_fd);
/* known may be NULL. */
int ldr_native_stat(struct ldr_native *native, const char *path,
		    const struct ldr_native_known *known, struct stat *out);
/* A file that the watch knows, for reading, by its folder's descriptor; EAGAIN: it must be resolved. */
int ldr_native_open_known(struct ldr_native *native, const char *path,
			  const struct ldr_native_known *known, int flags, int *out_fd);
/* The folder that path lies in, and its last name; *out_fd is the root's own, not to be closed,
 * when the path has but one. */
int ldr_native_open_parent(const struct ldr_native *native, const char *path, int *out_fd,
			   const char **out_name);
void ldr_native_close_parent(const struct ldr_native *native, int fd);
/* A path of another case that is there; false: none. */
bool ldr_native_unfold(const struct ldr_native *native, const char *path,
		       char out_path[LDR_PATH_MAX_BYTES + 1]);

static inline const char *ldr_native_text(const struct ldr_layer_path *path)
{
	return path->length ? path->text : ".";
}

/* ---- open files: layer_native_files.c ---- */

enum ldr_status ldr_native_file_open(struct ldr_native *native, const struct ldr_layer_path *path,
				     const struct ldr_native_known *known, unsigned how,
				     struct ldr_layer_file *file, struct ldr_error *err);
uint64_t ldr_native_hash(const struct ldr_native *native, const char *path, size_t length);
/* Whether the path was a regular file when it was last looked at. */
bool ldr_native_was_file(const struct ldr_native *native, uint64_t hash);
void ldr_native_set_file(struct ldr_native *native, uint64_t hash);
void ldr_native_forget(struct ldr_native *native, const struct ldr_layer_path *path);
void ldr_native_fill_stat(const struct stat *from, struct ldr_stat *out);
/* LDR_OK for regular files and folders, else LDR_ENOTREG. */
enum ldr_status ldr_native_check_kind(const struct stat *found, const char *path,
				      struct ldr_error *err);
enum ldr_status ldr_native_fail(struct ldr_error *err, int code, const char *path,
				const char *doing);

/* ---- names in memory: layer_native_watch.c, layer_native_events.c ---- */

/* For a note of an open that makes the file when it is missing: regular, unless it was there. */
#define LDR_KIND_MADE ((enum ldr_kind)5)

enum ldr_status ldr_native_watch_new(struct ldr_native *native, uint32_t max_watches,
				     struct ldr_native_watch **out_watch, struct ldr_error *err);
void ldr_native_watch_free(struct ldr_native_watch *watch); /* NULL is allowed */
/* What is known without asking the system: LDR_ENOTFOUND or LDR_ENOTDIR; LDR_OK: it may be there,
 * look. */
enum ldr_status ldr_native_watch_ask(struct ldr_native_watch *watch, const char *path,
				     size_t length, struct ldr_native_known *out);
/* To be read before the caller changes a name, and given to note afterwards. */
uint32_t ldr_native_watch_version(struct ldr_native_watch *watch, const char *path, size_t length);
/* The caller has made a file of this name, or (kind 0) taken it away: known at once. */
void ldr_native_watch_note(struct ldr_native_watch *watch, const char *path, size_t length,
			   enum ldr_kind kind, uint32_t version);
/* The caller has moved something to or from this name, or made a folder. */
void ldr_native_watch_note_moved(struct ldr_native_watch *watch, const char *path, size_t length);
/* Takes in what has happened up to now. */
enum ldr_status ldr_native_watch_settle(struct ldr_native_watch *watch, struct ldr_error *err);
void ldr_native_watch_counts(struct ldr_native_watch *watch, uint64_t *out_events,
			     uint64_t *out_fallbacks);

#endif
