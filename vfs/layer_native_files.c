/*
 * Open files of the native layer: descriptors.
 *
 * An open file's state: [0] the descriptor, [1] the hash of its path, for `seen`.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "vfs/layer_native_priv.h"

static const struct ldr_file_ops native_file_ops;

static struct ldr_native *native_of(const struct ldr_layer_file *file)
{
	return file->layer_self;
}

static int fd_of(struct ldr_layer_file *file)
{
	return (int)file->state[0];
}

enum ldr_status ldr_native_fail(struct ldr_error *err, int code, const char *path,
				const char *doing)
{
	char shown[LDR_QUOTE_BYTES];

	/* Not LDR_EIO: the program has too much open, nothing is broken. */
	if (code == EMFILE || code == ENFILE)
		return ldr_fail(err, LDR_ELIMIT, "%s: %s: no descriptor is left",
				ldr_path_quote(path, strlen(path), shown), doing);
	if (!err)
		return ldr_status_of_errno(code);
	return ldr_fail_errno(err, code, "%s: %s", ldr_path_quote(path, strlen(path), shown),
			      doing);
}

/* ---- what is regular ---- */

enum ldr_status ldr_native_check_kind(const struct stat *found, const char *path,
				      struct ldr_error *err)
{
	char shown[LDR_QUOTE_BYTES];

	if (S_ISREG(found->st_mode) || S_ISDIR(found->st_mode))
		return LDR_OK;
	if (!err)
		return LDR_ENOTREG;
	return ldr_fail(err, LDR_ENOTREG, "%s: is neither a file nor a folder",
			ldr_path_quote(path, strlen(path), shown));
}

void ldr_native_fill_stat(const struct stat *from, struct ldr_stat *out)
{
	bool is_folder = S_ISDIR(from->st_mode);

	out->kind = is_folder ? LDR_KIND_FOLDER : LDR_KIND_FILE;
	out->mode = from->st_mode & 0777;
	out->size_bytes = is_folder ? 0 : (uint64_t)from->st_size;
	out->modified_ns = (int64_t)from->st_mtim.tv_sec * 1000000000 + from->st_mtim.tv_nsec;
}

/* ---- paths that were regular files ---- */

uint64_t ldr_native_hash(const struct ldr_native *native, const char *path, size_t length)
{
	return ldr_checksum_seeded(path, length, native->seed) | 1;
}

static _Atomic uint64_t *seen_group(const struct ldr_native *native, uint64_t hash)
{
	return native->seen[(hash >> 1) % LDR_NATIVE_SEEN_GROUPS];
}

static _Atomic uint64_t *find_seen(const struct ldr_native *native, uint64_t hash)
{
	_Atomic uint64_t *group = seen_group(native, hash);

	for (unsigned i = 0; i < LDR_NATIVE_SEEN_WAYS; i++) {
		if (atomic_load_explicit(&group[i], memory_order_relaxed) == hash)
			return &group[i];
	}
	return NULL;
}

bool ldr_native_was_file(const struct ldr_native *native, uint64_t hash)
{
	return find_seen(native, hash) != NULL;
}

/* In a free place of its group, or in the place of one that the hash chooses. */
void ldr_native_set_file(struct ldr_native *native, uint64_t hash)
{
	_Atomic uint64_t *group = seen_group(native, hash);
	unsigned at = (unsigned)(hash >> 62);

	for (unsigned i = 0; i < LDR_NATIVE_SEEN_WAYS; i++) {
		if (atomic_load_explicit(&group[i], memory_order_relaxed) == 0)
			at = i;
	}
	atomic_store_explicit(&group[at], hash, memory_order_relaxed);
}

static void unset_seen(struct ldr_native *native, uint64_t hash)
{
	_Atomic uint64_t *place = find_seen(native, hash);

	if (place)
		atomic_store_explicit(place, 0, memory_order_relaxed);
}

void ldr_native_forget(struct ldr_native *native, const struct ldr_layer_path *path)
{
	unset_seen(native, ldr_native_hash(native, path->text, path->length));
}

/* ---- opening ---- */

static int open_flags(unsigned how)
{
	int flags = O_NONBLOCK | O_NOCTTY;

	if (!(how & LDR_LAYER_WRITE))
		flags |= O_RDONLY;
	else
		flags |= how & LDR_LAYER_READ ? O_RDWR : O_WRONLY;
	if (how & LDR_LAYER_CREATE)
		flags |= O_CREAT;
	if (how & LDR_LAYER_NEW)
		flags |= O_EXCL;
	if (how & LDR_LAYER_TRUNCATE)
		flags |= O_TRUNC;
	if (how & LDR_LAYER_APPEND)
		flags |= O_APPEND;
	return flags;
}

/* A file opened for writing is no folder, or the system had said so; a file that was regular the
 * last time is taken to be. */
static enum ldr_status check_regular(struct ldr_native *native, int fd,
				     const struct ldr_layer_path *path, unsigned how, uint64_t hash,
				     struct ldr_error *err)
{
	struct stat found;
	enum ldr_status status;
	int code;

	if ((how & LDR_LAYER_WRITE) || find_seen(native, hash))
		return LDR_OK;
	code = ldr_os_stat(fd, &found);
	if (code)
		return ldr_native_fail(err, code, path->text, "stat");
	status = ldr_native_check_kind(&found, path->text, err);
	if (status == LDR_OK && S_ISDIR(found.st_mode))
		return ldr_native_fail(err, EISDIR, path->text, "open");
	if (status == LDR_OK)
		ldr_native_set_file(native, hash);
	return status;
}

/* Only reading goes through a held folder: what is written must not land in one that was moved.
 * *out_regular: that it is a regular file is known. */
static int open_file(struct ldr_native *native, const struct ldr_layer_path *path,
		     const struct ldr_native_known *known, unsigned how, bool *out_regular,
		     int *out_fd)
{
	*out_regular = known->is_file && !(how & (LDR_LAYER_WRITE | LDR_LAYER_CREATE));
	if (*out_regular && !native->trusted) {
		if (ldr_native_open_known(native, path->text, known, open_flags(how), out_fd) == 0)
			return 0;
		*out_regular = false;
	}
	return ldr_native_open(native, ldr_native_text(path), open_flags(how), out_fd);
}

enum ldr_status ldr_native_file_open(struct ldr_native *native, const struct ldr_layer_path *path,
				     const struct ldr_native_known *known, unsigned how,
				     struct ldr_layer_file *file, struct ldr_error *err)
{
	uint64_t hash = ldr_native_hash(native, path->text, path->length);
	enum ldr_status status = LDR_OK;
	LDR_AUTO_FD int fd = -1;
	bool regular;
	int code = open_file(native, path, known, how, &regular, &fd);

	if (code == ENOENT && !err)
		return LDR_ENOTFOUND;
	if (code)
		return ldr_native_fail(err, code == ENXIO ? ENODEV : code, path->text, "open");
	if (!regular)
		status = check_regular(native, fd, path, how, hash, err);
	if (status != LDR_OK)
		return status;
	file->ops = &native_file_ops;
	file->state[0] = (uint64_t)ldr_steal_fd(&fd);
	file->state[1] = hash;
	return LDR_OK;
}

/* ---- open files ---- */

static void file_close(struct ldr_layer_file *file)
{
	ldr_os_close(fd_of(file));
}

/* Something else has taken the file's place since it was last looked at. */
static enum ldr_status fail_io(struct ldr_layer_file *file, int code, const char *doing,
			       struct ldr_error *err)
{
	struct ldr_native *native = native_of(file);

	unset_seen(native, file->state[1]);
	if (code == ESPIPE)
		return ldr_fail(err, LDR_ENOTREG, "%s: is no regular file any more", doing);
	return ldr_fail_errno(err, code, "%s", doing);
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	size_t done = 0;

	if (offset > INT64_MAX || length == 0) {
		*out_length = 0;
		return LDR_OK;
	}
	/* The system counts in signed numbers: what would pass them lies past every file's end. */
	if (length > INT64_MAX - offset)
		length = (size_t)(INT64_MAX - offset);
	for (;;) {
		ssize_t got = pread(fd_of(file), (char *)bytes + done, length - done,
				    (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail_io(file, errno, "read", err);
		done += (size_t)got;
		if (got == 0 || done == length)
			break;
	}
	*out_length = done;
	return LDR_OK;
}

static enum ldr_status file_pwrite(struct ldr_layer_file *file, const void *bytes, size_t length,
				   uint64_t offset, struct ldr_error *err)
{
	int code;

	if (length == 0)
		return LDR_OK;
	if (offset > INT64_MAX || length > INT64_MAX - offset)
		return ldr_fail(err, LDR_ENOSPACE, "write: file past 2^63 bytes");
	code = ldr_os_pwrite(fd_of(file), bytes, length, offset);
	return code ? fail_io(file, code, "write", err) : LDR_OK;
}

static enum ldr_status file_append(struct ldr_layer_file *file, const void *bytes, size_t length,
				   uint64_t *out_end, struct ldr_error *err)
{
	int code = length ? ldr_os_write(fd_of(file), bytes, length) : 0;
	off_t end;

	if (code)
		return fail_io(file, code, "append", err);
	if (!out_end)
		return LDR_OK;
	end = lseek(fd_of(file), 0, length ? SEEK_CUR : SEEK_END);
	if (end < 0)
		return fail_io(file, errno, "append", err);
	*out_end = (uint64_t)end;
	return LDR_OK;
}

static enum ldr_status file_truncate(struct ldr_layer_file *file, uint64_t length,
				     struct ldr_error *err)
{
	int code = length > INT64_MAX ? EFBIG : ldr_os_truncate(fd_of(file), length);

	if (code == EFBIG)
		return ldr_fail(err, LDR_ENOSPACE, "truncate: to %llu bytes",
				(unsigned long long)length);
	return code ? fail_io(file, code, "truncate", err) : LDR_OK;
}

static enum ldr_status file_sync(struct ldr_layer_file *file, struct ldr_error *err)
{
	int code = ldr_os_sync(fd_of(file));

	return code ? fail_io(file, code, "sync", err) : LDR_OK;
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	struct stat found;
	int code = ldr_os_stat(fd_of(file), &found);

	if (code)
		return fail_io(file, code, "stat", err);
	ldr_native_fill_stat(&found, out);
	return LDR_OK;
}

static const struct ldr_file_ops native_file_ops = {
	.size = sizeof(native_file_ops),
	.close = file_close,
	.pread = file_pread,
	.pwrite = file_pwrite,
	.append = file_append,
	.truncate = file_truncate,
	.sync = file_sync,
	.stat = file_stat,
	.descriptor = fd_of,
};
