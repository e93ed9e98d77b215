/*
 * The publisher: the one way a lasting file reaches a disk.
 *
 * A publication is: private temporary in the same folder, write, sync, rename, sync the folder. At
 * every moment the destination is wholly old or wholly new. Nothing in the project writes a lasting
 * file any other way. Three forms: buffer (bytes at hand), stream (packs), batch (installations).
 *
 * Invariants
 *  1. The root is pinned by a descriptor when it is opened; its own path may lead through symlinks,
 *     names below it are resolved beneath it by the kernel (openat2) and never through a symlink.
 *     Moving the root's path afterwards redirects nothing.
 *  2. Before the rename a failure leaves the destination as it was and takes the temporary away; after
 *     it, an error is reported with published = true.
 *  3. A temporary is created exclusively, mode 0600, named ".larder-tmp.<pid>.<ticket>" (a
 *     reading of the monotonic clock), at most 16 names are tried; its owner holds an OFD lock on it
 *     while it lives, and the sweeper removes only what it can lock.
 *  4. Content-addressed names are published by RENAME_NOREPLACE without a lock; the folder lock
 *     (advisory, not waiting) is taken only where a condition must hold, and a condition is checked
 *     before the work and again just before the rename.
 *  5. Short writes go on, EINTR is retried, a write of zero bytes is an I/O error, close is never
 *     retried.
 *
 * Threads: a root is immutable after open, any thread may publish below it; a stream or batch belongs
 * to one thread at a time unless a function says otherwise.
 *
 * Fault seams (fail the n-th system call, cut writes short, stop after a step) exist only in builds
 * with LDR_TEST_SEAMS; see publisher_seams.h.
 */
#ifndef LDR_COMMON_PUBLISHER_H
#define LDR_COMMON_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

struct ldr_root;

/* The zero value, which zeroed or missing options give, is the safe one. */
enum ldr_sync {
	LDR_SYNC_FILE_AND_FOLDER, /* as below, and the new name before success is reported */
	LDR_SYNC_FILE,            /* the file's bytes are on the disk before the rename */
	LDR_SYNC_NONE,            /* atomic to other processes, nothing promised across a crash */
};

enum ldr_condition_kind {
	LDR_IF_ANY,      /* replace whatever regular file is there */
	LDR_IF_MISSING,  /* only if there is nothing: RENAME_NOREPLACE, no lock */
	LDR_IF_MATCHING, /* only if the stamp still matches; takes the folder lock */
};

/* Tells one revision of a file from another. Made by ldr_root_observe without allocating. */
struct ldr_stamp {
	uint64_t device;
	uint64_t inode;
	uint64_t size_bytes;
	int64_t modified_ns;
	int64_t changed_ns;
};

struct stat;
void ldr_stamp_of(const struct stat *found, struct ldr_stamp *out_stamp);

struct ldr_publish_options {
	enum ldr_sync sync;
	enum ldr_condition_kind condition;
	struct ldr_stamp stamp; /* for LDR_IF_MATCHING */
	uint64_t max_bytes;     /* 0 means 32 MiB for buffers, no limit for streams */
	mode_t mode;            /* of the published file; 0 means 0644 */
	bool make_parents;      /* create missing folders (0755), synced by policy */
};

/* Five separate results, valid after success and after failure. */
struct ldr_publish_result {
	enum ldr_status outcome;
	bool published; /* the new name is visible */
	bool file_synced;
	bool folder_synced;
	enum ldr_status cleanup; /* what taking the temporary away gave */
};

/* Opens (and pins) a folder. With make, missing folders on the path are created.
 * LDR_ENOTFOUND, LDR_ENOTDIR, LDR_EDENIED ... */
LDR_API enum ldr_status ldr_root_open(const char *path, bool make, struct ldr_root **out_root,
				      struct ldr_error *err);
/* Opens the folder that a file named by the user lies in, and gives the name in it (a part of path).
 * LDR_EINVAL: path ends in a slash. */
LDR_API enum ldr_status ldr_root_open_above(const char *path, struct ldr_root **out_root,
					    const char **out_name, struct ldr_error *err);
LDR_API void ldr_root_close(struct ldr_root *root);
void ldr_root_cleanup(struct ldr_root **root);
#define LDR_AUTO_ROOT __attribute__((cleanup(ldr_root_cleanup)))
/* Borrowed until close. The path is as it was given, for messages only. */
int ldr_root_fd(const struct ldr_root *root);
const char *ldr_root_path(const struct ldr_root *root);

/* Opens an existing file below the root for reading; refuses symlinks (LDR_ELINK), folders
 * (LDR_EISDIR) and other non-regular files (LDR_ENOTREG). */
LDR_API enum ldr_status ldr_root_open_file(const struct ldr_root *root, const char *path,
					   int *out_fd, struct ldr_error *err);
/* The whole of a small file, at most max_bytes (else LDR_ELIMIT); owns: free() *out_data. A NUL is
 * put behind the bytes. */
LDR_API enum ldr_status ldr_root_read_file(const struct ldr_root *root, const char *path,
					   size_t max_bytes, uint8_t **out_data, size_t *out_length,
					   struct ldr_error *err);
LDR_API enum ldr_status ldr_root_observe(const struct ldr_root *root, const char *path,
					 struct ldr_stamp *out_stamp, struct ldr_error *err);
/* mkdir -p below the root (0755). Not synced; make_parents of a publication is. */
LDR_API enum ldr_status ldr_root_make_folder(const struct ldr_root *root, const char *path,
					     struct ldr_error *err);
/* Removes a file; LDR_ENOTFOUND when there is none. Syncs the folder unless LDR_SYNC_NONE. */
LDR_API enum ldr_status ldr_root_remove(const struct ldr_root *root, const char *path,
					enum ldr_sync sync, struct ldr_error *err);
/* Removes the temporaries of dead owners directly in folder ("" is the root itself); gives how many. */
LDR_API enum ldr_status ldr_root_sweep(const struct ldr_root *root, const char *folder,
				       unsigned *out_count, struct ldr_error *err);

/* Buffer form. Allocates nothing. result may be NULL.
 * LDR_ECONFLICT: condition not met, or the folder lock is held by another. LDR_EEXISTS is never given:
 * with LDR_IF_MISSING an existing name is LDR_ECONFLICT. LDR_ENOTREG, LDR_ELINK, LDR_ENOTFOUND (missing
 * parent), LDR_EINVAL (path), LDR_ELIMIT (too big, too many collisions). */
LDR_API enum ldr_status ldr_publish(const struct ldr_root *root, const char *path,
				    const void *bytes, size_t length,
				    const struct ldr_publish_options *options,
				    struct ldr_publish_result *result, struct ldr_error *err);

/* ---- Stream form: begin, append, commit or abort. The name is given at the commit, because packs
 * are named by their content. ---- */

struct ldr_stream;

/* The temporary is made in `folder` below the root ("" is the root), which must be the folder of the
 * final name's file system. */
LDR_API enum ldr_status ldr_stream_begin(const struct ldr_root *root, const char *folder,
					 const struct ldr_publish_options *options,
					 struct ldr_stream **out_stream, struct ldr_error *err);
LDR_API enum ldr_status ldr_stream_append(struct ldr_stream *stream, const void *bytes,
					  size_t length, struct ldr_error *err);
/* Bytes appended so far. */
LDR_API uint64_t ldr_stream_length(const struct ldr_stream *stream);
/* The temporary's descriptor, read and write, borrowed until commit or abort: the owner already reads
 * what it has appended (pread). */
LDR_API int ldr_stream_fd(const struct ldr_stream *stream);
/* Publishes as path below the root and frees the stream, whatever the outcome. With LDR_IF_MISSING an
 * existing destination gives LDR_ECONFLICT and removes the temporary: for a content-addressed name
 * that means somebody else has already published the same bytes. */
LDR_API enum ldr_status ldr_stream_commit(struct ldr_stream *stream, const char *path,
					  struct ldr_publish_result *result, struct ldr_error *err);
/* Removes the temporary and frees the stream; NULL is allowed. */
LDR_API void ldr_stream_abort(struct ldr_stream *stream);

#endif
