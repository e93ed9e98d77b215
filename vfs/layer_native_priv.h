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

struct ldr_native_watch;

struct ldr_native {
	struct ldr_root *root;
	int fd; /* the root's, borrowed */
	enum ldr_symlinks symlinks;
	bool trusted;
	uint64_t seed;
	int claim_fd; /* holds the lock of whoever writes here; -1: not claimed */
	struct ldr_native_watch *watch; /* owns; NULL: not watched */
	/* Hashes of paths that were regular files; 512 KiB, of which the system gives what is
	 * used. */
	_Atomic uint64_t (*seen)[LDR_NATIVE_SEEN_WAYS];
};

/* By the policy of the layer; an errno value. */
int ldr_native_open(const struct ldr_native *native, const char *path, int flags, int *out_fd);
int ldr_native_stat(const struct ldr_native *native, const char *path, struct stat *out);
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
				     unsigned how, struct ldr_layer_file *file,
				     struct ldr_error *err);
void ldr_native_forget(struct ldr_native *native, const struct ldr_layer_path *path);
void ldr_native_fill_stat(const struct stat *from, struct ldr_stat *out);
/* LDR_OK for regular files and folders, else LDR_ENOTREG. */
enum ldr_status ldr_native_check_kind(const struct stat *found, const char *path,
				      struct ldr_error *err);
enum ldr_status ldr_native_fail(struct ldr_error *err, int code, const char *path,
				const char *doing);

/* ---- names in memory: layer_native_watch.c ---- */

enum ldr_status ldr_native_watch_new(struct ldr_native *native, uint32_t max_watches,
				     struct ldr_native_watch **out_watch, struct ldr_error *err);
void ldr_native_watch_free(struct ldr_native_watch *watch); /* NULL is allowed */
/* What is known without asking the system: LDR_ENOTFOUND or LDR_ENOTDIR; LDR_OK: it may be there,
 * look. */
enum ldr_status ldr_native_watch_ask(struct ldr_native_watch *watch, const char *path,
				     size_t length);
/* The caller has changed this name: looks at it at once. */
void ldr_native_watch_note(struct ldr_native_watch *watch, const char *path, size_t length);
/* Takes in what has happened up to now. */
enum ldr_status ldr_native_watch_settle(struct ldr_native_watch *watch, struct ldr_error *err);
void ldr_native_watch_counts(struct ldr_native_watch *watch, uint64_t *out_events,
			     uint64_t *out_fallbacks);

#endif
