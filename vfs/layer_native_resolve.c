/*
 * How a path becomes a descriptor or attributes in a native layer.
 *
 * Safe mode asks the kernel to resolve beneath the root (openat2), which for attributes takes three
 * calls: open, fstat, close. Two are enough for a name in a folder right below the root whose
 * descriptor is held: one sees that the root still has that folder under its name, and no symlink
 * (its device and inode; they cannot be another folder's while it is held), one looks the last name
 * up in it without following it. That is as safe as openat2: the kernel too goes from folder to
 * folder, and one that is moved away after it was entered is not noticed by RESOLVE_BENEATH, which
 * looks again only when it meets "..". A symlink at either name shows in one of the two answers,
 * and then openat2 decides. For folders further down each level would need its call, so they go
 * the long way, and so do names that were not found before: a miss is one call of openat2.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/bytes.h"
#include "vfs/layer_native_priv.h"

int ldr_native_open(const struct ldr_native *native, const char *path, int flags, int *out_fd)
{
	if (native->trusted)
		return ldr_os_open_followed(native->fd, path, flags, 0644, out_fd);
	if (native->symlinks == LDR_SYMLINKS_INSIDE)
		return ldr_os_open_inside(native->fd, path, flags, 0644, out_fd);
	return ldr_os_open_beneath(native->fd, path, flags, 0644, out_fd);
}

/* ---- attributes ---- */

/* A symlink is for the kernel to resolve: EAGAIN. */
static int stat_last(int folder, const char *name, struct stat *out)
{
	int code = ldr_os_stat_at(folder, name, out);

	return !code && S_ISLNK(out->st_mode) ? EAGAIN : code;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Holds the folder that was at the place's name; one that stays in the way of others goes now and
 * then. */
static void hold_parent(struct ldr_native *native, _Atomic uint64_t *place, const char *parent,
			uint64_t tag)
{
	uint64_t old = atomic_load_explicit(place, memory_order_relaxed), id;
	LDR_AUTO_FD int fd = -1;
	struct stat found;

	if (old != 0 &&
	    atomic_fetch_add_explicit(&native->parents_missed, 1, memory_order_relaxed) % 64 != 0)
		return;
	if (ldr_os_open_beneath(native->fd, parent, O_PATH | O_DIRECTORY, 0, &fd) ||
	    ldr_os_stat(fd, &found))
		return;
	id = ldr_held_put(&native->held, &fd, &found, tag);
	if (id == 0)
		return;
	if (atomic_compare_exchange_strong_explicit(place, &old, id, memory_order_acq_rel,
						    memory_order_relaxed))
		ldr_held_drop(&native->held, old);
	else
		ldr_held_drop(&native->held, id);
}

/* EAGAIN: it must be resolved. */
static int stat_held(struct ldr_native *native, uint64_t id, uint64_t tag, const char *path,
		     struct stat *out)
{
	const struct ldr_held_folder *folder = ldr_held_get(&native->held, id);
	const char *name = last_name(path);
	char parent[LDR_NAME_MAX_BYTES + 1];
	struct stat there;
	int code = EAGAIN;

	if (!folder)
		return EAGAIN;
	memcpy(parent, path, (size_t)(name - 1 - path));
	parent[name - 1 - path] = '\0';
	if (folder->tag == tag && ldr_os_stat_at(native->fd, parent, &there) == 0 &&
	    there.st_dev == folder->device && there.st_ino == folder->inode)
		code = stat_last(folder->fd, name, out);
	ldr_held_leave(&native->held, folder);
	return code;
}

/* A path of two names, which was found before. */
static int stat_below_parent(struct ldr_native *native, const char *path, struct stat *out)
{
	const char *slash = strchr(path, '/');
	char parent[LDR_NAME_MAX_BYTES + 1];
	size_t length = (size_t)(slash - path);
	_Atomic uint64_t *place;
	uint64_t tag;
	int code;

	if (strchr(slash + 1, '/') || length > LDR_NAME_MAX_BYTES ||
	    !ldr_native_was_file(native, ldr_native_hash(native, path, strlen(path))))
		return EAGAIN;
	tag = ldr_native_hash(native, path, length);
	place = &native->parents[(tag >> 1) % LDR_NATIVE_PARENTS];
	code = stat_held(native, atomic_load_explicit(place, memory_order_acquire), tag, path, out);
	if (code != EAGAIN)
		return code;
	memcpy(parent, path, length);
	parent[length] = '\0';
	hold_parent(native, place, parent, tag);
	return EAGAIN;
}

/* By what the watch knows. What is not there may be somewhere else by now: EAGAIN. */
static int stat_known(struct ldr_native *native, const char *path,
		      const struct ldr_native_known *known, struct stat *out)
{
	const struct ldr_held_folder *folder = ldr_held_get(&native->held, known->held);
	int code;

	if (!folder)
		return EAGAIN;
	code = stat_last(folder->fd, last_name(path), out);
	ldr_held_leave(&native->held, folder);
	return code ? EAGAIN : 0;
}

static int stat_resolved(struct ldr_native *native, const char *path, struct stat *out)
{
	LDR_AUTO_FD int fd = -1;
	int code = ldr_native_open(native, path, O_PATH, &fd);

	if (!code)
		code = ldr_os_stat(fd, out);
	if (!code && S_ISREG(out->st_mode))
		ldr_native_set_file(native, ldr_native_hash(native, path, strlen(path)));
	return code;
}

int ldr_native_stat(struct ldr_native *native, const char *path,
		    const struct ldr_native_known *known, struct stat *out)
{
	int code = EAGAIN;

	if (native->trusted)
		return ldr_os_stat_followed(native->fd, path, out);
	/* A single name needs no resolving by the kernel when it is no symlink. */
	if (!strchr(path, '/'))
		code = stat_last(native->fd, path, out);
	else if (known && known->held)
		code = stat_known(native, path, known, out);
	else if (!native->watch)
		code = stat_below_parent(native, path, out);
	return code == EAGAIN ? stat_resolved(native, path, out) : code;
}

/* ---- opening ---- */

int ldr_native_open_known(struct ldr_native *native, const char *path,
			  const struct ldr_native_known *known, int flags, int *out_fd)
{
	const struct ldr_held_folder *folder;
	int code;

	if (native->trusted || known->held == 0)
		return EAGAIN;
	if (known->held == LDR_HELD_ROOT)
		return ldr_os_open_at(native->fd, path, flags, 0, out_fd);
	folder = ldr_held_get(&native->held, known->held);
	if (!folder)
		return EAGAIN;
	code = ldr_os_open_at(folder->fd, last_name(path), flags, 0, out_fd);
	ldr_held_leave(&native->held, folder);
	return code;
}

int ldr_native_open_parent(const struct ldr_native *native, const char *path, int *out_fd,
			   const char **out_name)
{
	const char *slash = strrchr(path, '/');
	char parent[LDR_PATH_MAX_BYTES + 1];

	if (!slash || native->trusted) {
		*out_fd = native->fd;
		*out_name = path;
		return 0;
	}
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	*out_name = slash + 1;
	return ldr_native_open(native, parent, O_PATH | O_DIRECTORY, out_fd);
}

void ldr_native_close_parent(const struct ldr_native *native, int fd)
{
	if (fd != native->fd)
		ldr_os_close(fd);
}

/* The name of folder_fd that equals name when both are folded; false: none. */
static bool unfold_name(int folder_fd, const char *name, size_t length,
			char out[LDR_NAME_MAX_BYTES + 1], size_t *out_length)
{
	char wanted[4 * LDR_NAME_MAX_BYTES], folded[4 * LDR_NAME_MAX_BYTES];
	size_t wanted_bytes, folded_bytes;
	struct ldr_os_listing *listing;
	const char *found;
	mode_t type;
	bool is_there = false;

	if (!ldr_name_fold(name, length, wanted, sizeof(wanted), &wanted_bytes) ||
	    ldr_os_listing_open(folder_fd, &listing) != 0)
		return false;
	while (!is_there && ldr_os_listing_next(listing, &found, &type) == 0 && found) {
		size_t bytes = strlen(found);

		is_there = bytes <= LDR_NAME_MAX_BYTES &&
			   ldr_name_fold(found, bytes, folded, sizeof(folded), &folded_bytes) &&
			   folded_bytes == wanted_bytes &&
			   memcmp(folded, wanted, wanted_bytes) == 0;
		if (is_there) {
			memcpy(out, found, bytes + 1);
			*out_length = bytes;
		}
	}
	ldr_os_listing_close(listing);
	return is_there;
}

bool ldr_native_unfold(const struct ldr_native *native, const char *path,
		       char out_path[LDR_PATH_MAX_BYTES + 1])
{
	size_t used = 0;

	while (*path) {
		size_t length = strcspn(path, "/"), bytes = 0;
		char name[LDR_NAME_MAX_BYTES + 1];
		LDR_AUTO_FD int folder = -1;

		out_path[used] = '\0';
		if (ldr_native_open(native, used ? out_path : ".", O_RDONLY | O_DIRECTORY, &folder))
			return false;
		if (!unfold_name(folder, path, length, name, &bytes) ||
		    used + bytes + 1 > LDR_PATH_MAX_BYTES)
			return false;
		if (used > 0)
			out_path[used++] = '/';
		memcpy(out_path + used, name, bytes);
		used += bytes;
		path += length + (path[length] == '/');
	}
	out_path[used] = '\0';
	return used > 0;
}
