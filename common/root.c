/*
 * Roots: a pinned folder and the files below it; see publisher.h.
 *
 * Every path is checked by the one path rule and then resolved by the kernel beneath the pinned
 * descriptor, so neither a symlink nor a moved root can lead a call elsewhere.
 */
#include "common/publisher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/os.h"
#include "common/path.h"
#include "common/publisher_priv.h"
#include "common/publisher_seams.h"

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY)

/* Takes the descriptor over. The path is "path" or "path/name". */
static enum ldr_status make_root(int *fd, const char *path, const char *name,
				 struct ldr_root **out_root, struct ldr_error *err)
{
	size_t bytes = strlen(path) + 1 + strlen(name) + 1;
	struct ldr_root *root = LDR_SEAM_FAILS(ALLOC) ? NULL : malloc(sizeof(*root) + bytes);

	if (!root)
		return ldr_fail(err, LDR_ENOMEM, "folder %s: out of memory", path);
	root->fd = ldr_steal_fd(fd);
	snprintf(root->path, bytes, "%s%s%s", path, *name ? "/" : "", name);
	*out_root = root;
	return LDR_OK;
}

enum ldr_status ldr_root_open(const char *path, bool make, struct ldr_root **out_root,
			      struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_open_folder(path, &fd);

	if (code == ENOENT && make) {
		code = ldr_os_make_folders(path);
		if (!code)
			code = ldr_os_open_folder(path, &fd);
	}
	if (code)
		return ldr_fail_errno(err, code, "folder %s: open", path);
	return make_root(&fd, path, "", out_root, err);
}

enum ldr_status ldr_root_open_inside(const struct ldr_root *root, const char *name, mode_t mode,
				     struct ldr_root **out_root, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_open_beneath(root->fd, name, FOLDER_FLAGS, 0, &fd);

	if (code == ENOENT) {
		code = ldr_os_mkdir_at(root->fd, name, mode);
		if (!code || code == EEXIST)
			code = ldr_os_open_beneath(root->fd, name, FOLDER_FLAGS, 0, &fd);
	}
	if (code)
		return ldr_fail_errno(err, code, "folder %s/%s: open", root->path, name);
	return make_root(&fd, root->path, name, out_root, err);
}

enum ldr_status ldr_root_open_above(const char *path, struct ldr_root **out_root,
				    const char **out_name, struct ldr_error *err)
{
	const char *slash = strrchr(path, '/');
	LDR_AUTO_FREE char *folder = NULL;

	if (slash == path)
		folder = strdup("/");
	else
		folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	if (!folder)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	*out_name = slash ? slash + 1 : path;
	if (**out_name == '\0')
		return ldr_fail(err, LDR_EINVAL, "%s: names a folder, wanted a file", path);
	return ldr_root_open(folder, false, out_root, err);
}

void ldr_root_close(struct ldr_root *root)
{
	if (!root)
		return;
	ldr_os_close(root->fd);
	free(root);
}

void ldr_root_cleanup(struct ldr_root **root)
{
	ldr_root_close(*root);
}

int ldr_root_fd(const struct ldr_root *root)
{
	return root->fd;
}

const char *ldr_root_path(const struct ldr_root *root)
{
	return root->path;
}

/* ---- folders below a root ---- */

/* Opens one folder in another, making it where it is missing. */
static int enter(int here, const char *name, bool make, bool durable, int *out_fd)
{
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_open_beneath(here, name, FOLDER_FLAGS, 0, &fd);

	if (code == ENOENT && make) {
		code = ldr_os_mkdir_at(here, name, 0755);
		/* Another may have made it meanwhile, perhaps without syncing yet: sync as well. */
		if (!code || code == EEXIST)
			code = ldr_os_open_beneath(here, name, FOLDER_FLAGS, 0, &fd);
		if (!code && durable)
			code = ldr_os_sync_folder(here);
	}
	if (!code)
		*out_fd = ldr_steal_fd(&fd);
	return code;
}

static int make_way(int root_fd, const char *path, size_t length, bool durable, int *out_fd)
{
	LDR_AUTO_FD int here = -1;
	char name[LDR_NAME_MAX_BYTES + 1];
	size_t start = 0;

	while (start < length) {
		size_t used = strcspn(path + start, "/");
		int next, code;

		memcpy(name, path + start, used);
		name[used] = '\0';
		code = enter(here < 0 ? root_fd : here, name, true, durable, &next);
		if (code)
			return code;
		if (here >= 0)
			ldr_os_close(here);
		here = next;
		start += used + 1;
	}
	*out_fd = ldr_steal_fd(&here);
	return 0;
}

/* path[0 .. length) is a checked path, or empty for the root itself. */
static int open_way(const struct ldr_root *root, const char *path, size_t length,
		    const struct ldr_publish_options *options, int *out_fd)
{
	char way[LDR_PATH_MAX_BYTES + 1] = ".";
	int code;

	if (length > 0) {
		memcpy(way, path, length);
		way[length] = '\0';
	}
	code = ldr_os_open_beneath(root->fd, way, FOLDER_FLAGS, 0, out_fd);
	if (code == ENOENT && options && options->make_parents && length > 0)
		code = make_way(root->fd, way, length, options->sync == LDR_SYNC_FILE_AND_FOLDER,
				out_fd);
	return code;
}

enum ldr_status ldr_root_open_parent(const struct ldr_root *root, const char *path,
				     const struct ldr_publish_options *options, int *out_fd,
				     const char **out_name, struct ldr_error *err)
{
	enum ldr_status status = ldr_path_check(path, strlen(path), err);
	const char *slash = strrchr(path, '/');
	int code;

	if (status)
		return status;
	code = open_way(root, path, slash ? (size_t)(slash - path) : 0, options, out_fd);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: folder above it", root->path, path);
	*out_name = slash ? slash + 1 : path;
	return LDR_OK;
}

enum ldr_status ldr_root_open_folder(const struct ldr_root *root, const char *folder,
				     const struct ldr_publish_options *options, int *out_fd,
				     struct ldr_error *err)
{
	size_t length = strlen(folder);
	enum ldr_status status = length ? ldr_path_check(folder, length, err) : LDR_OK;
	int code;

	if (status)
		return status;
	code = open_way(root, folder, length, options, out_fd);
	return code ? ldr_fail_errno(err, code, "folder %s/%s: open", root->path, folder) : LDR_OK;
}

enum ldr_status ldr_root_make_folder(const struct ldr_root *root, const char *path,
				     struct ldr_error *err)
{
	static const struct ldr_publish_options options = {.sync = LDR_SYNC_NONE,
							   .make_parents = true};
	LDR_AUTO_FD int fd = -1;

	return ldr_root_open_folder(root, path, &options, &fd, err);
}

/* ---- files below a root ---- */

static enum ldr_status refuse_kind(const struct ldr_root *root, const char *path, mode_t mode,
				   struct ldr_error *err)
{
	if (S_ISREG(mode))
		return LDR_OK;
	if (S_ISDIR(mode))
		return ldr_fail(err, LDR_EISDIR, "%s/%s: is a folder", root->path, path);
	return ldr_fail(err, LDR_ENOTREG, "%s/%s: is not a regular file", root->path, path);
}

/* flags must not let a FIFO or device block the open. */
static enum ldr_status open_regular(const struct ldr_root *root, const char *path, int flags,
				    int *out_fd, struct stat *out_found, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	enum ldr_status status = ldr_path_check(path, strlen(path), err);
	int code;

	if (status)
		return status;
	code = ldr_os_open_beneath(root->fd, path, flags, 0, &fd);
	if (code == ENXIO) /* a socket */
		return refuse_kind(root, path, S_IFSOCK, err);
	if (!code)
		code = ldr_os_stat(fd, out_found);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: open", root->path, path);
	status = refuse_kind(root, path, out_found->st_mode, err);
	if (!status)
		*out_fd = ldr_steal_fd(&fd);
	return status;
}

enum ldr_status ldr_root_open_file(const struct ldr_root *root, const char *path, int *out_fd,
				   struct ldr_error *err)
{
	struct stat found;

	return open_regular(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, out_fd, &found, err);
}

static enum ldr_status read_all(int fd, const char *path, uint64_t size, uint8_t **out_data,
				size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *data = LDR_SEAM_FAILS(ALLOC) ? NULL : malloc((size_t)size + 1);
	size_t length;
	int code;

	if (!data)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory for %llu bytes", path,
				(unsigned long long)size);
	code = ldr_os_pread(fd, data, (size_t)size + 1, 0, &length);
	if (code)
		return ldr_fail_errno(err, code, "%s: read", path);
	if (length != size)
		return ldr_fail(err, LDR_ECHANGED, "%s: length %zu while it was read, was %llu",
				path, length, (unsigned long long)size);
	data[length] = '\0';
	*out_data = LDR_STEAL(data);
	*out_length = length;
	return LDR_OK;
}

enum ldr_status ldr_root_read_file(const struct ldr_root *root, const char *path, size_t max_bytes,
				   uint8_t **out_data, size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	struct stat found;
	enum ldr_status status = open_regular(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, &fd,
					      &found, err);

	if (status)
		return status;
	if ((uint64_t)found.st_size > max_bytes)
		return ldr_fail(err, LDR_ELIMIT, "%s/%s: length %llu, limit %zu", root->path, path,
				(unsigned long long)found.st_size, max_bytes);
	return read_all(fd, path, (uint64_t)found.st_size, out_data, out_length, err);
}

void ldr_stamp_of(const struct stat *found, struct ldr_stamp *out_stamp)
{
	*out_stamp = (struct ldr_stamp){
		.device = found->st_dev,
		.inode = found->st_ino,
		.size_bytes = (uint64_t)found->st_size,
		.modified_ns = found->st_mtim.tv_sec * INT64_C(1000000000) + found->st_mtim.tv_nsec,
		.changed_ns = found->st_ctim.tv_sec * INT64_C(1000000000) + found->st_ctim.tv_nsec,
	};
}

enum ldr_status ldr_root_observe(const struct ldr_root *root, const char *path,
				 struct ldr_stamp *out_stamp, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	struct stat found;
	enum ldr_status status = open_regular(root, path, O_PATH, &fd, &found, err);

	if (!status)
		ldr_stamp_of(&found, out_stamp);
	return status;
}

enum ldr_status ldr_root_remove(const struct ldr_root *root, const char *path, enum ldr_sync sync,
				struct ldr_error *err)
{
	LDR_AUTO_FD int folder_fd = -1;
	const char *name;
	enum ldr_status status = ldr_root_open_parent(root, path, NULL, &folder_fd, &name, err);
	int code;

	if (status)
		return status;
	code = ldr_os_unlink_at(folder_fd, name);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: remove", root->path, path);
	code = sync == LDR_SYNC_NONE ? 0 : ldr_os_sync_folder(folder_fd);
	return code ? ldr_fail_errno(err, code, "%s/%s: removed; sync of its folder", root->path,
				     path)
		    : LDR_OK;
}

/* ---- sweeping ---- */

static const char *skip_digits(const char *text)
{
	while (*text >= '0' && *text <= '9')
		text++;
	return text;
}

bool ldr_temp_name_is(const char *name)
{
	const char *pid = name + sizeof(LDR_TEMP_PREFIX) - 1;
	const char *dot;

	if (strncmp(name, LDR_TEMP_PREFIX, sizeof(LDR_TEMP_PREFIX) - 1) != 0)
		return false;
	dot = skip_digits(pid);
	return dot > pid && *dot == '.' && dot[1] && *skip_digits(dot + 1) == '\0';
}

/* Removes a temporary whose owner holds no lock any more; *out_gone says whether it did. That the
 * name still leads to the locked file is checked, since another sweeper may have been faster and a
 * new owner may have taken the name. */
static int sweep_one(int folder_fd, const char *name, bool *out_gone)
{
	LDR_AUTO_FD int fd = -1;
	struct stat held, named;
	int code = ldr_os_open_at(folder_fd, name, O_RDONLY | O_NONBLOCK, 0, &fd);

	*out_gone = false;
	if (!code)
		code = ldr_os_lock_shared(fd);
	/* Held by its owner, taken away meanwhile, or not ours to open: none is a failure. */
	if (code)
		return code == EAGAIN || code == ENOENT || code == EACCES || code == ELOOP ? 0
											   : code;
	LDR_STEP(SWEEPING);
	code = ldr_os_stat(fd, &held);
	if (!code)
		code = ldr_os_stat_at(folder_fd, name, &named);
	if (code || !S_ISREG(held.st_mode) || held.st_ino != named.st_ino ||
	    held.st_dev != named.st_dev)
		return code == ENOENT ? 0 : code;
	code = ldr_os_unlink_at(folder_fd, name);
	*out_gone = code == 0;
	return code == ENOENT ? 0 : code;
}

static int sweep_listing(int folder_fd, struct ldr_os_listing *listing, unsigned *count)
{
	for (;;) {
		const char *name;
		mode_t type;
		bool gone;
		int code = ldr_os_listing_next(listing, &name, &type);

		if (code || !name)
			return code;
		if (!ldr_temp_name_is(name))
			continue;
		code = sweep_one(folder_fd, name, &gone);
		if (code)
			return code;
		*count += gone;
	}
}

enum ldr_status ldr_root_sweep(const struct ldr_root *root, const char *folder, unsigned *out_count,
			       struct ldr_error *err)
{
	LDR_AUTO_FD int folder_fd = -1;
	struct ldr_os_listing *listing = NULL;
	unsigned count = 0;
	enum ldr_status status = ldr_root_open_folder(root, folder, NULL, &folder_fd, err);
	int code;

	if (status)
		return status;
	code = ldr_os_listing_open(folder_fd, &listing);
	if (!code)
		code = sweep_listing(folder_fd, listing, &count);
	ldr_os_listing_close(listing);
	if (code)
		return ldr_fail_errno(err, code, "folder %s/%s: sweep", root->path, folder);
	if (out_count)
		*out_count = count;
	return LDR_OK;
}
