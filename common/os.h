/*
 * Calls to the operating system, each in one place and with one meaning.
 *
 * Every function returns 0 or an errno value; a caller that knows the file's name turns it into a
 * status (ldr_fail_errno). Outputs are written on success only. All descriptors are O_CLOEXEC.
 *
 * Invariants
 *  1. EINTR is retried everywhere but in close, which is never retried.
 *  2. A short read or write goes on; a write of zero bytes is EIO.
 *  3. "Beneath" means resolved by the kernel below the folder, through no symlink at all: a symlink
 *     anywhere on the way is ELOOP, a way out of the folder EXDEV.
 *  4. A name given with a folder's descriptor (..._at) is a single component and is never followed
 *     when it is a symlink.
 *
 * Builds with LDR_TEST_SEAMS let tests fail each of these calls; see publisher_seams.h.
 *
 * Threads: no state; any thread may call them.
 */
#ifndef LDR_COMMON_OS_H
#define LDR_COMMON_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* ---- opening ---- */

/* A folder by its path, through symlinks where there are any. */
int ldr_os_open_folder(const char *path, int *out_fd);
/* A file by its path for reading, through symlinks where there are any: for files that the user names.
 * A pipe or device makes nobody wait; the caller looks at what it got. */
int ldr_os_open_file(const char *path, int *out_fd);
/* path beneath folder_fd (openat2; where the kernel has none, component by component). flags and mode
 * are those of open. */
int ldr_os_open_beneath(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd);
/* The same, but symlinks are followed as long as they stay beneath the folder (EXDEV when one leads out; on a kernel
 * without openat2 they are refused as above). */
int ldr_os_open_inside(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd);
/* A folder beneath folder_fd; "." is the folder itself. */
int ldr_os_open_folder_beneath(int folder_fd, const char *path, int *out_fd);
/* A single name in a folder. */
int ldr_os_open_at(int folder_fd, const char *name, int flags, mode_t mode, int *out_fd);
/* The same for reading, without waiting: a pipe put in a file's place opens at once. */
int ldr_os_open_read_at(int folder_fd, const char *name, int *out_fd);
/* Through links, wherever they lead: only where a user asked for what lies behind his links. */
int ldr_os_open_read_followed(int folder_fd, const char *path, int *out_fd);
int ldr_os_open_folder_followed(int folder_fd, const char *path, int *out_fd);
int ldr_os_open_followed(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd);
/* A second descriptor of the same open file, with a life of its own; both share one OFD lock. */
int ldr_os_duplicate(int fd, int *out_fd);
/* The descriptor is gone whatever comes back. */
int ldr_os_close(int fd);
/* An empty file in memory without a name in any folder, gone with its last descriptor. */
int ldr_os_memory_file(const char *name, int *out_fd);

/* ---- bytes ---- */

/* Everything, or an error; how much was written before the error is not told. */
int ldr_os_write(int fd, const void *bytes, size_t length);
int ldr_os_pwrite(int fd, const void *bytes, size_t length, uint64_t offset);
/* Up to length bytes; fewer only at the file's end. */
int ldr_os_read(int fd, void *bytes, size_t length, size_t *out_length);
int ldr_os_pread(int fd, void *bytes, size_t length, uint64_t offset, size_t *out_length);
int ldr_os_truncate(int fd, uint64_t length);
/* Reserves space without changing the length, so that a full disk is noticed early. EOPNOTSUPP where
 * the file system cannot. */
int ldr_os_reserve(int fd, uint64_t length);
/* A private read-only mapping of a file's first length bytes (not 0). */
int ldr_os_map(int fd, size_t length, const void **out_bytes);
void ldr_os_unmap(const void *bytes, size_t length);

/* ---- durability ---- */

int ldr_os_sync(int fd);        /* fsync of a file */
int ldr_os_sync_folder(int fd); /* of a folder: the names in it */
int ldr_os_sync_system(int fd); /* syncfs: also gives write-back errors since fd was opened */

/* ---- attributes ---- */

int ldr_os_stat(int fd, struct stat *out_stat);
int ldr_os_stat_at(int folder_fd, const char *name, struct stat *out_stat);
int ldr_os_stat_followed(int folder_fd, const char *path, struct stat *out_stat);
int ldr_os_chmod(int fd, mode_t mode);
/* A symlink is EOPNOTSUPP. */
int ldr_os_chmod_at(int folder_fd, const char *name, mode_t mode);
/* Sets the times of last use and change to now. A symlink is not followed. */
int ldr_os_touch_at(int folder_fd, const char *name);
/* Free bytes for this user on the file system of fd. */
int ldr_os_free_bytes(int fd, uint64_t *out_bytes);

/* ---- names ---- */

int ldr_os_mkdir_at(int folder_fd, const char *name, mode_t mode);
int ldr_os_rmdir_at(int folder_fd, const char *name);
int ldr_os_unlink_at(int folder_fd, const char *name);
int ldr_os_symlink_at(const char *target, int folder_fd, const char *name);
/* The target with a NUL behind it; ENAMETOOLONG when it does not fit into capacity. */
int ldr_os_readlink_at(int folder_fd, const char *name, char *target, size_t capacity);
int ldr_os_rename(int from_fd, const char *from, int to_fd, const char *to);
/* Gives EEXIST when `to` is there, atomically: RENAME_NOREPLACE, or link and unlink on file systems
 * without it. */
int ldr_os_rename_new(int from_fd, const char *from, int to_fd, const char *to);
/* mkdir -p of a path that may lead through symlinks (0755, the rest by umask). */
int ldr_os_make_folders(const char *path);

/* ---- locks (advisory, belong to the open file description, never waiting: EAGAIN) ---- */

int ldr_os_lock(int fd);        /* exclusive, of a file open for writing */
int ldr_os_lock_shared(int fd); /* of a file open for reading */
int ldr_os_lock_folder(int fd); /* exclusive, of a folder */

/* ---- listing a folder ---- */

struct ldr_os_listing;

/* Reads the folder from its beginning through a descriptor of its own; folder_fd stays the caller's. */
int ldr_os_listing_open(int folder_fd, struct ldr_os_listing **out_listing);
/* The next name, without "." and "..", in no order; NULL at the end. Borrowed until the next call.
 * *out_type is the S_IFMT part of a mode, or 0 where the file system does not say. */
int ldr_os_listing_next(struct ldr_os_listing *listing, const char **out_name, mode_t *out_type);
void ldr_os_listing_close(struct ldr_os_listing *listing); /* NULL is allowed */

/* ---- processes ---- */

long ldr_os_pid(void);
/* A number that grows with every call that can be told apart by the clock; for names of temporaries,
 * where a collision is noticed and tried again. */
uint64_t ldr_os_ticket(void);

#endif
