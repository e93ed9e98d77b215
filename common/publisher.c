/*
 * The publisher's buffer and stream forms; see publisher.h.
 *
 * Life of a publication (both forms)
 *
 *	begun      the destination's folder is open, the condition held (buffer form)
 *	created    the temporary exists and its owner's lock is on it
 *	wrote      ... bytes ...
 *	synced     mode set, fsync by policy
 *	renaming   the condition held again; the next call makes the new name visible
 *	renamed    published: from here on a failure is reported, nothing is taken back
 *	closed     the temporary's descriptor (and with it the owner's lock) is gone
 *	folder_synced  by policy
 *
 * The temporary is closed only after the rename, since its lock is what keeps sweepers away.
 */
#include "common/publisher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/os.h"
#include "common/path.h"
#include "common/publisher_priv.h"
#include "common/publisher_seams.h"

#define COLLISIONS_MAX 16
#define BUFFER_MAX_BYTES (UINT64_C(32) << 20)
#define MODE_DEFAULT 0644

/* A temporary and what is to become of it. The folder is where the temporary lies. */
struct publication {
	const struct ldr_root *root;
	struct ldr_publish_options options;
	int folder_fd;
	int fd;
	dev_t device;
	ino_t inode;
	char temp[LDR_TEMP_NAME_BYTES];
	uint64_t length;
};

struct destination {
	int folder_fd;
	const char *name;
	const char *path; /* for messages */
};

struct ldr_stream {
	struct publication publication;
	enum ldr_status broken; /* the first failed append; nothing may be published after it */
};

/* ---- options ---- */

static enum ldr_status take_options(struct publication *publication,
				    const struct ldr_publish_options *options,
				    uint64_t default_max_bytes, struct ldr_error *err)
{
	struct ldr_publish_options *own = &publication->options;

	*own = options ? *options : (struct ldr_publish_options){0};
	if ((unsigned)own->sync > LDR_SYNC_NONE)
		return ldr_fail(err, LDR_EINVAL, "publish: sync policy %d", (int)own->sync);
	if ((unsigned)own->condition > LDR_IF_MATCHING)
		return ldr_fail(err, LDR_EINVAL, "publish: condition %d", (int)own->condition);
	if (own->mode & ~(mode_t)0777)
		return ldr_fail(err, LDR_EINVAL, "publish: mode %o has more than nine bits",
				(unsigned)own->mode);
	if (!own->mode)
		own->mode = MODE_DEFAULT;
	if (!own->max_bytes)
		own->max_bytes = default_max_bytes;
	return LDR_OK;
}

/* ---- the destination ---- */

static enum ldr_status open_destination(const struct publication *publication, const char *path,
					struct destination *out, struct ldr_error *err)
{
	enum ldr_status status = ldr_root_open_parent(
		publication->root, path, &publication->options, &out->folder_fd, &out->name, err);
	int code;

	if (status)
		return status;
	out->path = path;
	if (ldr_temp_name_is(out->name))
		return ldr_fail(err, LDR_EINVAL, "%s: a name for temporaries only", path);
	if (publication->options.condition != LDR_IF_MATCHING)
		return LDR_OK;
	code = ldr_os_lock_folder(out->folder_fd);
	if (code == EWOULDBLOCK)
		return ldr_fail(err, LDR_ECONFLICT, "%s/%s: another holds the folder's lock",
				publication->root->path, path);
	return code ? ldr_fail_errno(err, code, "%s/%s: lock of its folder",
				     publication->root->path, path)
		    : LDR_OK;
}

static enum ldr_status compare_stamp(const struct publication *publication, const char *path,
				     const struct stat *found, struct ldr_error *err)
{
	const struct ldr_stamp *wanted = &publication->options.stamp;
	struct ldr_stamp now;

	ldr_stamp_of(found, &now);
	if (now.device == wanted->device && now.inode == wanted->inode &&
	    now.size_bytes == wanted->size_bytes && now.modified_ns == wanted->modified_ns &&
	    now.changed_ns == wanted->changed_ns)
		return LDR_OK;
	return ldr_fail(err, LDR_ECONFLICT,
			"%s/%s: changed since it was seen: inode %" PRIu64 ", was %" PRIu64
			"; length %" PRIu64 ", was %" PRIu64,
			publication->root->path, path, now.inode, wanted->inode, now.size_bytes,
			wanted->size_bytes);
}

/* Whether the destination may be published now: its kind, and the condition. */
static enum ldr_status check_destination(const struct publication *publication,
					 const struct destination *to, struct ldr_error *err)
{
	const char *root = publication->root->path;
	enum ldr_condition_kind condition = publication->options.condition;
	struct stat found;
	int code = ldr_os_stat_at(to->folder_fd, to->name, &found);

	if (code == ENOENT && condition == LDR_IF_MATCHING)
		return ldr_fail(err, LDR_ECONFLICT, "%s/%s: removed since it was seen", root,
				to->path);
	if (code)
		return code == ENOENT ? LDR_OK
				      : ldr_fail_errno(err, code, "%s/%s: look", root, to->path);
	if (condition == LDR_IF_MISSING)
		return ldr_fail(err, LDR_ECONFLICT, "%s/%s: exists already", root, to->path);
	if (S_ISLNK(found.st_mode))
		return ldr_fail(err, LDR_ELINK, "%s/%s: is a symbolic link", root, to->path);
	if (!S_ISREG(found.st_mode))
		return ldr_fail(err, LDR_ENOTREG, "%s/%s: is not a regular file", root, to->path);
	return condition == LDR_IF_MATCHING ? compare_stamp(publication, to->path, &found, err)
					    : LDR_OK;
}

/* ---- the temporary ---- */

/* Takes the owner's lock. EEXIST: a sweeper was faster between creation and lock, try another name. A
 * file system without locks needs none, since a sweeper removes only what it can lock. */
static int own_temporary(struct publication *publication)
{
	struct stat found;
	int code = ldr_os_lock(publication->fd);

	if (code == EAGAIN)
		return EEXIST;
	if (code && code != ENOLCK && code != EOPNOTSUPP && code != ENOSYS)
		return code;
	code = ldr_os_stat(publication->fd, &found);
	if (code)
		return code;
	if (found.st_nlink == 0)
		return EEXIST;
	publication->device = found.st_dev;
	publication->inode = found.st_ino;
	return 0;
}

static int try_temporary(struct publication *publication, unsigned attempt)
{
	int code;

	snprintf(publication->temp, sizeof(publication->temp), LDR_TEMP_PREFIX "%ld.%" PRIu64,
		 ldr_os_pid(), ldr_os_ticket() + attempt);
	code = ldr_os_open_at(publication->folder_fd, publication->temp, O_RDWR | O_CREAT | O_EXCL,
			      0600, &publication->fd);
	if (code)
		return code;
	publication->inode = 0;
	code = own_temporary(publication);
	if (code == EEXIST)
		ldr_os_close(ldr_steal_fd(&publication->fd));
	return code;
}

static enum ldr_status create_temporary(struct publication *publication, struct ldr_error *err)
{
	const char *root = publication->root->path;
	int code = EEXIST;

	for (unsigned attempt = 0; code == EEXIST && attempt < COLLISIONS_MAX; attempt++)
		code = try_temporary(publication, attempt);
	if (code == EEXIST)
		return ldr_fail(err, LDR_ELIMIT, "%s: %d names for a temporary are taken, limit %d",
				root, COLLISIONS_MAX, COLLISIONS_MAX);
	if (code)
		return ldr_fail_errno(err, code, "%s: create temporary %s", root,
				      publication->temp);
	LDR_STEP(CREATED);
	return LDR_OK;
}

/* Takes the temporary away, unless its name leads to somebody else's file by now (inode 0: not known
 * yet, the name was ours a moment ago). */
static enum ldr_status remove_temporary(struct publication *publication)
{
	struct stat found;
	int code;

	if (publication->fd < 0)
		return LDR_OK;
	code = ldr_os_stat_at(publication->folder_fd, publication->temp, &found);
	if (!code && publication->inode &&
	    (found.st_ino != publication->inode || found.st_dev != publication->device))
		code = ESTALE;
	if (!code)
		code = ldr_os_unlink_at(publication->folder_fd, publication->temp);
	ldr_os_close(ldr_steal_fd(&publication->fd));
	if (code == ESTALE)
		return LDR_ECHANGED;
	return code ? ldr_status_of_errno(code) : LDR_OK;
}

static enum ldr_status write_bytes(struct publication *publication, const void *bytes,
				   size_t length, struct ldr_error *err)
{
	uint64_t max_bytes = publication->options.max_bytes;
	int code;

	if (length > max_bytes || publication->length > max_bytes - length)
		return ldr_fail(err, LDR_ELIMIT, "%s: length %" PRIu64 ", limit %" PRIu64,
				publication->root->path, publication->length + length, max_bytes);
	code = ldr_os_write(publication->fd, bytes, length);
	if (code)
		return ldr_fail_errno(err, code, "%s: write %zu bytes at %" PRIu64 " of %s",
				      publication->root->path, length, publication->length,
				      publication->temp);
	publication->length += length;
	return LDR_OK;
}

/* ---- from a written temporary to the new name ---- */

static enum ldr_status sync_temporary(const struct publication *publication,
				      const struct destination *to,
				      struct ldr_publish_result *result, struct ldr_error *err)
{
	const char *root = publication->root->path;
	int code = ldr_os_chmod(publication->fd, publication->options.mode);

	if (code)
		return ldr_fail_errno(err, code, "%s/%s: mode %o", root, to->path,
				      (unsigned)publication->options.mode);
	if (publication->options.sync == LDR_SYNC_NONE)
		return LDR_OK;
	code = ldr_os_sync(publication->fd);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: sync", root, to->path);
	result->file_synced = true;
	LDR_STEP(SYNCED);
	return LDR_OK;
}

static enum ldr_status rename_temporary(const struct publication *publication,
					const struct destination *to,
					struct ldr_publish_result *result, struct ldr_error *err)
{
	const char *root = publication->root->path;
	bool missing = publication->options.condition == LDR_IF_MISSING;
	int code;

	LDR_STEP(RENAMING);
	code = (missing ? ldr_os_rename_new : ldr_os_rename)(
		publication->folder_fd, publication->temp, to->folder_fd, to->name);
	if (code == EEXIST && missing)
		return ldr_fail(err, LDR_ECONFLICT, "%s/%s: exists already", root, to->path);
	if (code == EISDIR)
		return ldr_fail(err, LDR_ENOTREG, "%s/%s: is not a regular file", root, to->path);
	if (code == EXDEV)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"%s/%s: lies on another file system than its temporary", root,
				to->path);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: rename from %s", root, to->path,
				      publication->temp);
	result->published = true;
	LDR_STEP(RENAMED);
	return LDR_OK;
}

/* After the rename: everything is tried, the first failure is told. */
static enum ldr_status settle(struct publication *publication, const struct destination *to,
			      struct ldr_publish_result *result, struct ldr_error *err)
{
	const char *root = publication->root->path;
	int closing = ldr_os_close(ldr_steal_fd(&publication->fd));
	int syncing = 0;

	LDR_STEP(CLOSED);
	if (publication->options.sync == LDR_SYNC_FILE_AND_FOLDER) {
		syncing = ldr_os_sync_folder(to->folder_fd);
		result->folder_synced = syncing == 0;
		if (!syncing)
			LDR_STEP(FOLDER_SYNCED);
	}
	if (closing)
		return ldr_fail_errno(err, closing, "%s/%s: published; close", root, to->path);
	if (syncing)
		return ldr_fail_errno(err, syncing, "%s/%s: published; sync of its folder", root,
				      to->path);
	return LDR_OK;
}

static enum ldr_status finish(struct publication *publication, const struct destination *to,
			      struct ldr_publish_result *result, struct ldr_error *err)
{
	enum ldr_status status = sync_temporary(publication, to, result, err);

	if (!status)
		status = check_destination(publication, to, err);
	if (!status)
		status = rename_temporary(publication, to, result, err);
	return status ? status : settle(publication, to, result, err);
}

/* ---- the buffer form ---- */

static enum ldr_status publish_buffer(struct publication *publication, const char *path,
				      const void *bytes, size_t length,
				      struct ldr_publish_result *result, struct ldr_error *err)
{
	struct destination to = {.folder_fd = -1};
	enum ldr_status status = open_destination(publication, path, &to, err);
	LDR_AUTO_FD int folder_fd = to.folder_fd;

	if (!status)
		status = check_destination(publication, &to, err);
	if (status)
		return status;
	LDR_STEP(BEGUN);
	publication->folder_fd = folder_fd;
	status = create_temporary(publication, err);
	if (!status)
		status = write_bytes(publication, bytes, length, err);
	if (!status)
		status = finish(publication, &to, result, err);
	result->cleanup = remove_temporary(publication);
	return status;
}

/* Seven parameters: subject, what, by which rules, and both answers. A struct would only be unpacked here.
 * NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_publish(const struct ldr_root *root, const char *path, const void *bytes,
			    size_t length, const struct ldr_publish_options *options,
			    struct ldr_publish_result *result, struct ldr_error *err)
{
	struct publication publication = {.root = root, .folder_fd = -1, .fd = -1};
	struct ldr_publish_result own = {.outcome = LDR_OK};

	own.outcome = take_options(&publication, options, BUFFER_MAX_BYTES, err);
	if (!own.outcome && length > publication.options.max_bytes)
		own.outcome = ldr_fail(err, LDR_ELIMIT, "%s/%s: length %zu, limit %" PRIu64,
				       root->path, path, length, publication.options.max_bytes);
	if (!own.outcome)
		own.outcome = publish_buffer(&publication, path, bytes, length, &own, err);
	if (result)
		*result = own;
	LDR_STEP(RETURNED);
	return own.outcome;
}

/* ---- the stream form ---- */

static void free_stream(struct ldr_stream *stream)
{
	if (stream->publication.folder_fd >= 0)
		ldr_os_close(stream->publication.folder_fd);
	free(stream);
}

enum ldr_status ldr_stream_begin(const struct ldr_root *root, const char *folder,
				 const struct ldr_publish_options *options,
				 struct ldr_stream **out_stream, struct ldr_error *err)
{
	struct ldr_stream *stream = LDR_SEAM_FAILS(ALLOC) ? NULL : calloc(1, sizeof(*stream));
	struct publication *publication;
	enum ldr_status status;

	if (!stream)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory for a stream", root->path);
	publication = &stream->publication;
	*publication = (struct publication){.root = root, .folder_fd = -1, .fd = -1};
	status = take_options(publication, options, UINT64_MAX, err);
	if (!status)
		status = ldr_root_open_folder(root, folder, &publication->options,
					      &publication->folder_fd, err);
	if (!status)
		status = create_temporary(publication, err);
	if (status)
		ldr_stream_abort(stream);
	else
		*out_stream = stream;
	return status;
}

enum ldr_status ldr_stream_append(struct ldr_stream *stream, const void *bytes, size_t length,
				  struct ldr_error *err)
{
	if (stream->broken)
		return ldr_fail(err, stream->broken, "%s: an earlier append has failed",
				stream->publication.root->path);
	stream->broken = write_bytes(&stream->publication, bytes, length, err);
	return stream->broken;
}

uint64_t ldr_stream_length(const struct ldr_stream *stream)
{
	return stream->publication.length;
}

int ldr_stream_fd(const struct ldr_stream *stream)
{
	return stream->publication.fd;
}

static enum ldr_status commit(struct publication *publication, const char *path,
			      struct ldr_publish_result *result, struct ldr_error *err)
{
	struct destination to = {.folder_fd = -1};
	enum ldr_status status = open_destination(publication, path, &to, err);
	LDR_AUTO_FD int folder_fd = to.folder_fd;

	(void)folder_fd; /* closing is its whole use */
	if (!status)
		status = check_destination(publication, &to, err);
	if (status)
		return status;
	LDR_STEP(BEGUN);
	return finish(publication, &to, result, err);
}

enum ldr_status ldr_stream_commit(struct ldr_stream *stream, const char *path,
				  struct ldr_publish_result *result, struct ldr_error *err)
{
	struct ldr_publish_result own = {.outcome = LDR_OK};

	own.outcome = stream->broken ? ldr_fail(err, stream->broken, "%s/%s: an append has failed",
						stream->publication.root->path, path)
				     : commit(&stream->publication, path, &own, err);
	own.cleanup = remove_temporary(&stream->publication);
	if (result)
		*result = own;
	free_stream(stream);
	LDR_STEP(RETURNED);
	return own.outcome;
}

void ldr_stream_abort(struct ldr_stream *stream)
{
	if (!stream)
		return;
	remove_temporary(&stream->publication);
	free_stream(stream);
}
