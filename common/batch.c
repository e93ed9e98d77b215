/*
 * The life of a batch and its temporaries; see batch.h. The steps themselves are in batch_apply.c.
 */
#include "common/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/batch_priv.h"
#include "common/bytes.h"
#include "common/os.h"
#include "common/path.h"
#include "common/publisher_priv.h"
#include "common/publisher_seams.h"

#define LOCK_NAME "lock"
#define PLAN_NAME "plan"
#define RECORD_NAME "installed"
#define TEMPORARIES_NAME "tmp"
#define PROBE_NAME ".probe"
#define TEMPORARY_MODE 0644
/* Plan and record list every path of a release: larger than a buffer's usual limit. */
#define PLAN_MAX_BYTES (UINT64_C(1) << 32)

/* ---- begin and end ---- */

static enum ldr_status take_lock(struct ldr_batch *batch, struct ldr_error *err)
{
	const char *path = ldr_root_path(batch->private_root);
	struct stat found = {0};
	int code = ldr_os_open_at(ldr_root_fd(batch->private_root), LOCK_NAME, O_RDWR | O_CREAT,
				  0600, &batch->lock_fd);

	if (code)
		return ldr_fail_errno(err, code, "%s/%s: open", path, LOCK_NAME);
	code = ldr_os_lock(batch->lock_fd);
	if (!code)
		code = ldr_os_stat(batch->lock_fd, &found);
	/* A file without a name: its last owner has taken the whole folder away since it was opened. */
	if (code == EAGAIN || (!code && found.st_nlink == 0))
		return ldr_fail(err, LDR_ECONFLICT, "%s: another process works on this folder",
				ldr_root_path(batch->target));
	return code ? ldr_fail_errno(err, code, "%s/%s: lock", path, LOCK_NAME) : LDR_OK;
}

/* Renames must not leave the file system, and nobody else may look into unfinished files. */
static enum ldr_status check_temporaries(struct ldr_batch *batch, struct ldr_error *err)
{
	int fd = ldr_root_fd(batch->temporaries);
	struct stat target, own;
	int code = ldr_os_stat(ldr_root_fd(batch->target), &target);

	if (!code)
		code = ldr_os_stat(fd, &own);
	if (!code && own.st_dev != target.st_dev)
		return ldr_fail(err, LDR_EUNSUPPORTED, "%s: lies on another file system than %s",
				ldr_root_path(batch->temporaries), ldr_root_path(batch->target));
	if (!code && (own.st_mode & 07777) != 0700)
		code = ldr_os_chmod(fd, 0700);
	return code ? ldr_fail_errno(err, code, "%s: check", ldr_root_path(batch->temporaries))
		    : LDR_OK;
}

/* What the umask and the folder's default ACL take from a new file's mode. Asking the umask itself
 * would mean setting it, for all threads. */
static enum ldr_status probe_mask(struct ldr_batch *batch, struct ldr_error *err)
{
	int folder_fd = ldr_root_fd(batch->temporaries);
	LDR_AUTO_FD int fd = -1;
	struct stat made;
	int code = ldr_os_unlink_at(folder_fd, PROBE_NAME);

	if (!code || code == ENOENT)
		code = ldr_os_open_at(folder_fd, PROBE_NAME, O_WRONLY | O_CREAT | O_EXCL, 0777,
				      &fd);
	if (!code)
		code = ldr_os_stat(fd, &made);
	if (!code)
		code = ldr_os_unlink_at(folder_fd, PROBE_NAME);
	if (code)
		return ldr_fail_errno(err, code, "%s: make a file",
				      ldr_root_path(batch->temporaries));
	batch->mask = 0777 & ~made.st_mode;
	batch->made_mode = TEMPORARY_MODE & ~batch->mask;
	return LDR_OK;
}

static enum ldr_status begin(struct ldr_batch *batch, const char *target, struct ldr_error *err)
{
	/* The target's descriptor is also the one for syncfs: open before the first write. */
	enum ldr_status status = ldr_root_open(target, true, &batch->target, err);

	if (!status)
		status = ldr_root_open_inside(batch->target, LDR_RESERVED_NAME, 0755,
					      &batch->private_root, err);
	if (!status)
		status = take_lock(batch, err);
	if (!status)
		status = ldr_root_open_inside(batch->private_root, TEMPORARIES_NAME, 0700,
					      &batch->temporaries, err);
	if (!status)
		status = check_temporaries(batch, err);
	return status ? status : probe_mask(batch, err);
}

enum ldr_status ldr_batch_begin(const char *target, enum ldr_sync sync,
				struct ldr_batch **out_batch, struct ldr_error *err)
{
	struct ldr_batch *batch = LDR_SEAM_FAILS(ALLOC) ? NULL : calloc(1, sizeof(*batch));
	enum ldr_status status;

	if (!batch)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory for a batch", target);
	batch->lock_fd = -1;
	batch->sync = sync;
	status = begin(batch, target, err);
	if (status) {
		ldr_batch_end(batch);
		return status;
	}
	*out_batch = batch;
	LDR_STEP(BATCH_BEGUN);
	return LDR_OK;
}

void ldr_batch_end(struct ldr_batch *batch)
{
	if (!batch)
		return;
	ldr_root_close(batch->temporaries);
	ldr_cleanup_fd(&batch->lock_fd);
	ldr_root_close(batch->private_root);
	ldr_root_close(batch->target);
	free(batch);
}

const struct ldr_root *ldr_batch_target(const struct ldr_batch *batch)
{
	return batch->target;
}

const struct ldr_root *ldr_batch_private(const struct ldr_batch *batch)
{
	return batch->private_root;
}

/* ---- temporaries ---- */

bool ldr_batch_name_is(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length <= LDR_NAME_MAX_BYTES && name[0] != '.' &&
	       !memchr(name, '/', length);
}

/* One of an earlier run. Its mode goes back to what new ones have: that run may have changed it. */
static int open_found(struct ldr_batch *batch, const char *name, int *out_fd)
{
	int folder_fd = ldr_root_fd(batch->temporaries);
	LDR_AUTO_FD int fd = -1;
	struct stat found;
	int code = ldr_os_chmod_at(folder_fd, name, batch->made_mode);

	if (!code)
		code = ldr_os_open_at(folder_fd, name, O_RDWR | O_NONBLOCK, 0, &fd);
	if (!code)
		code = ldr_os_stat(fd, &found);
	if (!code && !S_ISREG(found.st_mode))
		code = EINVAL;
	if (!code)
		*out_fd = ldr_steal_fd(&fd);
	return code;
}

enum ldr_status ldr_batch_open(struct ldr_batch *batch, const char *name, int *out_fd,
			       struct ldr_error *err)
{
	const char *path = ldr_root_path(batch->temporaries);
	int code;

	if (!ldr_batch_name_is(name))
		return ldr_fail(err, LDR_EINVAL, "%s: name of a temporary: \"%s\"", path, name);
	code = ldr_os_open_at(ldr_root_fd(batch->temporaries), name, O_RDWR | O_CREAT | O_EXCL,
			      TEMPORARY_MODE, out_fd);
	if (code == EEXIST)
		code = open_found(batch, name, out_fd);
	if (code)
		return ldr_fail_errno(err, code, "%s/%s: open", path, name);
	LDR_STEP(BATCH_OPENED);
	return LDR_OK;
}

enum ldr_status ldr_batch_discard(struct ldr_batch *batch, const char *name, struct ldr_error *err)
{
	const char *path = ldr_root_path(batch->temporaries);
	int code;

	if (!ldr_batch_name_is(name))
		return ldr_fail(err, LDR_EINVAL, "%s: name of a temporary: \"%s\"", path, name);
	code = ldr_os_unlink_at(ldr_root_fd(batch->temporaries), name);
	return code && code != ENOENT ? ldr_fail_errno(err, code, "%s/%s: remove", path, name)
				      : LDR_OK;
}

static int sweep(struct ldr_batch *batch, struct ldr_os_listing *listing,
		 bool (*keep)(void *context, const char *name), void *context)
{
	for (;;) {
		const char *name;
		mode_t type;
		int code = ldr_os_listing_next(listing, &name, &type);

		if (code || !name)
			return code;
		if (keep && ldr_batch_name_is(name) && keep(context, name))
			continue;
		code = ldr_os_unlink_at(ldr_root_fd(batch->temporaries), name);
		if (code && code != ENOENT)
			return code;
	}
}

enum ldr_status ldr_batch_sweep(struct ldr_batch *batch,
				bool (*keep)(void *context, const char *name), void *context,
				struct ldr_error *err)
{
	struct ldr_os_listing *listing = NULL;
	int code = ldr_os_listing_open(ldr_root_fd(batch->temporaries), &listing);

	if (!code)
		code = sweep(batch, listing, keep, context);
	ldr_os_listing_close(listing);
	return code ? ldr_fail_errno(err, code, "%s: sweep", ldr_root_path(batch->temporaries))
		    : LDR_OK;
}

/* ---- apply and finish ---- */

static enum ldr_status sync_target(struct ldr_batch *batch, const char *when, struct ldr_error *err)
{
	int code = 0;

	if (batch->sync != LDR_SYNC_NONE)
		code = ldr_os_sync_system(ldr_root_fd(batch->target));
	return code ? ldr_fail_errno(err, code, "%s: sync %s the changes",
				     ldr_root_path(batch->target), when)
		    : LDR_OK;
}

static enum ldr_status publish_private(struct ldr_batch *batch, const char *name, const void *bytes,
				       size_t length, struct ldr_error *err)
{
	struct ldr_publish_options options = {.sync = batch->sync, .max_bytes = PLAN_MAX_BYTES};

	return ldr_publish(batch->private_root, name, bytes, length, &options, NULL, err);
}

/* Steps 1 and 2: from here on a killed run can be finished. The record is written before the plan, so that a
 * disk without room is found full while nothing has changed. Its stream is the caller's to commit or abort. */
static enum ldr_status prepare(struct ldr_batch *batch, const struct ldr_batch_plan *plan,
			       struct ldr_stream **out_record, struct ldr_error *err)
{
	struct ldr_publish_options options = {.sync = batch->sync, .max_bytes = PLAN_MAX_BYTES};
	enum ldr_status status = ldr_batch_prepare_modes(batch, plan->steps, plan->step_count, err);

	if (status)
		return status;
	LDR_STEP(BATCH_MODES);
	status = sync_target(batch, "before", err);
	if (status)
		return status;
	LDR_STEP(BATCH_SYNCED);
	if (plan->record)
		status = ldr_stream_begin(batch->private_root, "", &options, out_record, err);
	if (!status && plan->record)
		status = ldr_stream_append(*out_record, plan->record, plan->record_bytes, err);
	if (!status)
		status = publish_private(batch, PLAN_NAME, plan->plan, plan->plan_bytes, err);
	if (!status)
		LDR_STEP(BATCH_PLANNED);
	return status;
}

/* Steps 3 and 4. */
static enum ldr_status change_target(struct ldr_batch *batch, const struct ldr_batch_plan *plan,
				     struct ldr_error *err)
{
	enum ldr_status status = ldr_batch_run_steps(batch, plan->steps, plan->step_count, err);

	if (status)
		return status;
	LDR_STEP(BATCH_APPLIED);
	status = sync_target(batch, "after", err);
	if (!status)
		LDR_STEP(BATCH_RESYNCED);
	return status;
}

/* Step 6. A plan that comes back after a crash only makes the next run look twice: no sync. */
static enum ldr_status clean_up(struct ldr_batch *batch, struct ldr_error *err)
{
	enum ldr_status status;

	LDR_STEP(BATCH_RECORDED);
	status = ldr_root_remove(batch->private_root, PLAN_NAME, LDR_SYNC_NONE, err);
	if (status && status != LDR_ENOTFOUND)
		return status;
	status = ldr_batch_sweep(batch, NULL, NULL, err);
	if (!status)
		status = ldr_root_sweep(batch->private_root, "", NULL, err);
	if (!status)
		LDR_STEP(BATCH_CLEANED);
	return status;
}

enum ldr_status ldr_batch_apply(struct ldr_batch *batch, const struct ldr_batch_plan *plan,
				struct ldr_error *err)
{
	struct ldr_stream *record = NULL;
	enum ldr_status status = ldr_batch_check_steps(plan->steps, plan->step_count, err);

	if (!status)
		status = prepare(batch, plan, &record, err);
	if (!status)
		status = change_target(batch, plan, err);
	if (status || !record) {
		ldr_stream_abort(record);
		return status;
	}
	status = ldr_stream_commit(record, RECORD_NAME, NULL, err);
	return status ? status : clean_up(batch, err);
}

enum ldr_status ldr_batch_finish(struct ldr_batch *batch, const void *record, size_t record_bytes,
				 struct ldr_error *err)
{
	enum ldr_status status = publish_private(batch, RECORD_NAME, record, record_bytes, err);

	return status ? status : clean_up(batch, err);
}
