/*
 * Calls to the operating system (Linux); see os.h. With os_arena.c, the only file of common that
 * makes any.
 *
 * Each function is one system call, wrapped three times: the seam of test builds, the retry after
 * EINTR, and errno as the return value. UNINTERRUPTED is that wrapping.
 */
#include "common/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/publisher_seams.h"

/* The kernel takes at most this much in one call; a larger request would be cut anyway. */
#define IO_MAX_BYTES ((size_t)1 << 30)

/* A seam's errno value of 0 makes the call give 0 instead of failing. */
#define UNINTERRUPTED(seam, call)                                                \
	({                                                                       \
		__typeof__(call) got_;                                           \
		do                                                               \
			got_ = LDR_SEAM_FAILS(seam) ? (errno ? -1 : 0) : (call); \
		while (got_ < 0 && errno == EINTR);                              \
		got_;                                                            \
	})

#define OUTCOME(seam, call) (UNINTERRUPTED(seam, call) < 0 ? errno : 0)

/* ---- opening ---- */

static int give_fd(int fd, int *out_fd)
{
	if (fd < 0)
		return errno;
	*out_fd = fd;
	return 0;
}

int ldr_os_open_folder(const char *path, int *out_fd)
{
	return give_fd(UNINTERRUPTED(OPEN, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), out_fd);
}

int ldr_os_open_file(const char *path, int *out_fd)
{
	return give_fd(
		UNINTERRUPTED(OPEN, open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)),
		out_fd);
}

int ldr_os_open_at(int folder_fd, const char *name, int flags, mode_t mode, int *out_fd)
{
	return give_fd(
		UNINTERRUPTED(OPEN, openat(folder_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, mode)),
		out_fd);
}

/* One component as openat2 with RESOLVE_NO_SYMLINKS would treat it: O_DIRECTORY together with
 * O_NOFOLLOW reports a symlink as ENOTDIR, and O_PATH would open the link itself. */
static int open_component(int folder_fd, const char *name, int flags, mode_t mode, int *out_fd)
{
	int code = ldr_os_open_at(folder_fd, name, flags, mode, out_fd);
	struct stat found;

	if (code && code != ENOTDIR)
		return code;
	if (code)
		return ldr_os_stat_at(folder_fd, name, &found) == 0 && S_ISLNK(found.st_mode)
			       ? ELOOP
			       : code;
	if (!(flags & O_PATH))
		return 0;
	code = ldr_os_stat(*out_fd, &found);
	if (!code && S_ISLNK(found.st_mode))
		code = ELOOP;
	if (code)
		ldr_os_close(*out_fd);
	return code;
}

/* Kernels before 5.6 (and filters that hide openat2) have no RESOLVE_BENEATH. Walking down by single
 * components, none of them "..", none followed, comes to the same. */
static int open_by_walking(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd)
{
	LDR_AUTO_FD int here = -1;
	char name[NAME_MAX + 1];

	for (;;) {
		size_t length = strcspn(path, "/");
		bool last = path[length] == '\0';
		int next = -1, code;

		if (length == 0 || length > NAME_MAX)
			return length ? ENAMETOOLONG : ENOENT;
		memcpy(name, path, length);
		name[length] = '\0';
		if (strcmp(name, "..") == 0)
			return EXDEV;
		code = open_component(here < 0 ? folder_fd : here, name,
				      last ? flags : O_PATH | O_DIRECTORY, mode, &next);
		if (code)
			return code;
		if (last)
			return give_fd(next, out_fd);
		if (here >= 0)
			ldr_os_close(here);
		here = next;
		path += length + 1;
	}
}

/* A rename somewhere above may make the kernel unsure of its own answer. */
#define RESOLVE_TRIES 16

static int open_resolved(int folder_fd, const char *path, int flags, mode_t mode, uint64_t resolve,
			 int *out_fd)
{
	struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	int code = EAGAIN;

	for (int i = 0; code == EAGAIN && i < RESOLVE_TRIES; i++)
		code = give_fd(UNINTERRUPTED(OPEN, (int)syscall(SYS_openat2, folder_fd, path, &how,
								sizeof(how))),
			       out_fd);
	return code == ENOSYS ? open_by_walking(folder_fd, path, flags, mode, out_fd) : code;
}

int ldr_os_open_beneath(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd)
{
	return open_resolved(folder_fd, path, flags, mode, RESOLVE_NO_SYMLINKS, out_fd);
}

int ldr_os_open_inside(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd)
{
	return open_resolved(folder_fd, path, flags, mode, 0, out_fd);
}

int ldr_os_open_folder_beneath(int folder_fd, const char *path, int *out_fd)
{
	return ldr_os_open_beneath(folder_fd, path, O_RDONLY | O_DIRECTORY, 0, out_fd);
}

int ldr_os_open_read_at(int folder_fd, const char *name, int *out_fd)
{
	return ldr_os_open_at(folder_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, out_fd);
}

int ldr_os_open_followed(int folder_fd, const char *path, int flags, mode_t mode, int *out_fd)
{
	return give_fd(UNINTERRUPTED(OPEN, openat(folder_fd, path, flags | O_CLOEXEC, mode)),
		       out_fd);
}

int ldr_os_open_read_followed(int folder_fd, const char *path, int *out_fd)
{
	return ldr_os_open_followed(folder_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, out_fd);
}

int ldr_os_open_folder_followed(int folder_fd, const char *path, int *out_fd)
{
	return ldr_os_open_followed(folder_fd, path, O_RDONLY | O_DIRECTORY, 0, out_fd);
}

int ldr_os_duplicate(int fd, int *out_fd)
{
	int got = UNINTERRUPTED(OPEN, fcntl(fd, F_DUPFD_CLOEXEC, 0));

	if (got < 0)
		return errno;
	*out_fd = got;
	return 0;
}

int ldr_os_close(int fd)
{
	int code = close(fd) < 0 ? errno : 0;

	return LDR_SEAM_FAILS(CLOSE) ? errno : code;
}

/* The clean-up attribute of bytes.h, here because it is a call to the system. */
void ldr_cleanup_fd(int *fd)
{
	if (*fd >= 0)
		ldr_os_close(*fd);
}

/* ---- bytes ---- */

static size_t ask_for(size_t length)
{
	return LDR_SEAM_CAP(length < IO_MAX_BYTES ? length : IO_MAX_BYTES);
}

int ldr_os_write(int fd, const void *bytes, size_t length)
{
	const uint8_t *next = bytes;

	while (length > 0) {
		ssize_t count = UNINTERRUPTED(WRITE, write(fd, next, ask_for(length)));

		if (count <= 0)
			return count ? errno : EIO;
		next += count;
		length -= (size_t)count;
		LDR_STEP(WROTE);
	}
	return 0;
}

int ldr_os_pwrite(int fd, const void *bytes, size_t length, uint64_t offset)
{
	const uint8_t *next = bytes;

	if (offset > INT64_MAX || length > INT64_MAX - offset)
		return EFBIG;
	while (length > 0) {
		ssize_t count = UNINTERRUPTED(WRITE,
					      pwrite(fd, next, ask_for(length), (off_t)offset));

		if (count <= 0)
			return count ? errno : EIO;
		next += count;
		length -= (size_t)count;
		offset += (uint64_t)count;
		LDR_STEP(WROTE);
	}
	return 0;
}

int ldr_os_read(int fd, void *bytes, size_t length, size_t *out_length)
{
	size_t done = 0;

	while (done < length) {
		ssize_t count = UNINTERRUPTED(
			READ, read(fd, (uint8_t *)bytes + done, ask_for(length - done)));

		if (count < 0)
			return errno;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	*out_length = done;
	return 0;
}

int ldr_os_pread(int fd, void *bytes, size_t length, uint64_t offset, size_t *out_length)
{
	size_t done = 0;

	if (offset > INT64_MAX || length > INT64_MAX - offset)
		return EOVERFLOW;
	while (done < length) {
		ssize_t count = UNINTERRUPTED(READ, pread(fd, (uint8_t *)bytes + done,
							  ask_for(length - done),
							  (off_t)(offset + done)));

		if (count < 0)
			return errno;
		if (count == 0)
			break;
		done += (size_t)count;
	}
	*out_length = done;
	return 0;
}

int ldr_os_truncate(int fd, uint64_t length)
{
	if (length > INT64_MAX)
		return EFBIG;
	return OUTCOME(WRITE, ftruncate(fd, (off_t)length));
}

int ldr_os_reserve(int fd, uint64_t length)
{
	if (length > INT64_MAX)
		return EFBIG;
	return OUTCOME(WRITE, fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)length));
}

int ldr_os_memory_file(const char *name, int *out_fd)
{
	int fd = LDR_SEAM_FAILS(OPEN) ? -1 : memfd_create(name, MFD_CLOEXEC);

	if (fd < 0)
		return errno;
	*out_fd = fd;
	return 0;
}

int ldr_os_map(int fd, size_t length, const void **out_bytes)
{
	void *bytes = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);

	if (bytes == MAP_FAILED)
		return errno;
	*out_bytes = bytes;
	return 0;
}

void ldr_os_unmap(const void *bytes, size_t length)
{
	if (bytes)
		munmap((void *)(uintptr_t)bytes, length);
}

/* ---- durability ---- */

int ldr_os_sync(int fd)
{
	return OUTCOME(SYNC, fsync(fd));
}

int ldr_os_sync_folder(int fd)
{
	return OUTCOME(SYNC, LDR_SEAM_FAILS(SYNC_FOLDER) ? (errno ? -1 : 0) : fsync(fd));
}

int ldr_os_sync_system(int fd)
{
	return OUTCOME(SYNCFS, syncfs(fd));
}

/* ---- attributes ---- */

int ldr_os_stat(int fd, struct stat *out_stat)
{
	return OUTCOME(STAT, fstat(fd, out_stat));
}

int ldr_os_stat_at(int folder_fd, const char *name, struct stat *out_stat)
{
	return OUTCOME(STAT, fstatat(folder_fd, name, out_stat, AT_SYMLINK_NOFOLLOW));
}

int ldr_os_stat_followed(int folder_fd, const char *path, struct stat *out_stat)
{
	return OUTCOME(STAT, fstatat(folder_fd, path, out_stat, 0));
}

int ldr_os_chmod(int fd, mode_t mode)
{
	return OUTCOME(CHMOD, fchmod(fd, mode));
}

/* fchmodat2 (Linux 6.6, the same number on all machines but alpha) is one call; the C library's way
 * through /proc is five. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

int ldr_os_chmod_at(int folder_fd, const char *name, mode_t mode)
{
	int code = OUTCOME(CHMOD,
			   (int)syscall(SYS_fchmodat2, folder_fd, name, mode, AT_SYMLINK_NOFOLLOW));

	if (code != ENOSYS)
		return code;
	return OUTCOME(CHMOD, fchmodat(folder_fd, name, mode, AT_SYMLINK_NOFOLLOW));
}

int ldr_os_touch_at(int folder_fd, const char *name)
{
	return OUTCOME(CHMOD, utimensat(folder_fd, name, NULL, AT_SYMLINK_NOFOLLOW));
}

int ldr_os_free_bytes(int fd, uint64_t *out_bytes)
{
	struct statvfs system;
	int code = OUTCOME(STAT, fstatvfs(fd, &system));

	if (!code)
		*out_bytes = (uint64_t)system.f_bavail * system.f_frsize;
	return code;
}

/* ---- names ---- */

int ldr_os_mkdir_at(int folder_fd, const char *name, mode_t mode)
{
	return OUTCOME(MKDIR, mkdirat(folder_fd, name, mode));
}

int ldr_os_rmdir_at(int folder_fd, const char *name)
{
	return OUTCOME(UNLINK, unlinkat(folder_fd, name, AT_REMOVEDIR));
}

int ldr_os_unlink_at(int folder_fd, const char *name)
{
	return OUTCOME(UNLINK, unlinkat(folder_fd, name, 0));
}

int ldr_os_symlink_at(const char *target, int folder_fd, const char *name)
{
	return OUTCOME(SYMLINK, symlinkat(target, folder_fd, name));
}

int ldr_os_readlink_at(int folder_fd, const char *name, char *target, size_t capacity)
{
	ssize_t length = UNINTERRUPTED(STAT, readlinkat(folder_fd, name, target, capacity));

	if (length < 0)
		return errno;
	if ((size_t)length >= capacity)
		return ENAMETOOLONG;
	target[length] = '\0';
	return 0;
}

int ldr_os_rename(int from_fd, const char *from, int to_fd, const char *to)
{
	return OUTCOME(RENAME, renameat(from_fd, from, to_fd, to));
}

int ldr_os_rename_new(int from_fd, const char *from, int to_fd, const char *to)
{
	int code = OUTCOME(RENAME, renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE));

	if (code != EINVAL && code != ENOSYS)
		return code;
	code = OUTCOME(RENAME, linkat(from_fd, from, to_fd, to, 0));
	/* The new name is there; what the old one's removal gives is the sweeper's business. */
	if (!code)
		ldr_os_unlink_at(from_fd, from);
	return code;
}

int ldr_os_make_folders(const char *path)
{
	char so_far[PATH_MAX];
	size_t length = strlen(path);

	if (length == 0 || length >= sizeof(so_far))
		return length ? ENAMETOOLONG : ENOENT;
	memcpy(so_far, path, length + 1);
	for (size_t i = 1; i <= length; i++) {
		int code;

		if (so_far[i] != '/' && so_far[i] != '\0')
			continue;
		so_far[i] = '\0';
		code = OUTCOME(MKDIR, mkdir(so_far, 0755));
		/* A read-only or closed ancestor that exists is no obstacle; a missing one shows
		 * itself at the next component. */
		if (code && code != EEXIST && access(so_far, F_OK) != 0)
			return code;
		so_far[i] = path[i];
	}
	return 0;
}

/* ---- locks ---- */

static int set_lock(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
	int code = OUTCOME(LOCK, fcntl(fd, F_OFD_SETLK, &lock));

	return code == EACCES ? EAGAIN : code;
}

int ldr_os_lock(int fd)
{
	return set_lock(fd, F_WRLCK);
}

int ldr_os_lock_shared(int fd)
{
	return set_lock(fd, F_RDLCK);
}

/* OFD locks need a descriptor open for writing, which a folder never has. */
int ldr_os_lock_folder(int fd)
{
	return OUTCOME(LOCK, flock(fd, LOCK_EX | LOCK_NB));
}

/* ---- listing a folder ---- */

struct ldr_os_listing {
	DIR *stream;
};

int ldr_os_listing_open(int folder_fd, struct ldr_os_listing **out_listing)
{
	LDR_AUTO_FREE struct ldr_os_listing *listing = NULL;
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_open_at(folder_fd, ".", O_RDONLY | O_DIRECTORY, 0, &fd);

	if (code)
		return code;
	listing = malloc(sizeof(*listing));
	if (!listing)
		return ENOMEM;
	listing->stream = fdopendir(fd);
	if (!listing->stream)
		return errno;
	ldr_steal_fd(&fd);
	*out_listing = LDR_STEAL(listing);
	return 0;
}

int ldr_os_listing_next(struct ldr_os_listing *listing, const char **out_name, mode_t *out_type)
{
	const struct dirent *entry;

	do {
		if (LDR_SEAM_FAILS(LIST))
			return errno;
		errno = 0;
		entry = readdir(listing->stream);
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	if (!entry && errno)
		return errno;
	*out_name = entry ? entry->d_name : NULL;
	*out_type = entry ? DTTOIF(entry->d_type) : 0;
	return 0;
}

void ldr_os_listing_close(struct ldr_os_listing *listing)
{
	if (!listing)
		return;
	closedir(listing->stream);
	free(listing);
}

/* ---- processes ---- */

long ldr_os_pid(void)
{
	return (long)getpid();
}

uint64_t ldr_os_ticket(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
