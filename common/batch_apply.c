/*
 * The steps of a batch: removals, folders, renames, symlinks, modes; see batch.h.
 *
 * Kinds are done one after the other; in each the folder of the last path stays open, so that a run of
 * paths of one folder costs one system call each. The open folder is forgotten between kinds, since a
 * folder may have been removed and made again.
 *
 * Every step can be repeated, but for a rename whose temporary is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>

#include "common/batch_priv.h"
#include "common/bytes.h"
#include "common/os.h"
#include "common/path.h"
#include "common/publisher_seams.h"

/* The folder of the paths at hand. */
struct parent {
	int fd; /* -1: none */
	size_t length;
	char path[LDR_PATH_MAX_BYTES + 1];
	bool opened_up; /* made writable; gets `mode` back when it is left */
	mode_t mode;
};

struct applier {
	struct ldr_batch *batch;
	struct parent parent;
};

/* ---- checking ---- */

static unsigned depth_of(const char *path)
{
	unsigned depth = 0;

	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

/* On a file system that folds case, ".Larder" would be the private folder too. */
static bool is_private(const char *path)
{
	size_t length = strcspn(path, "/");

	return length == sizeof(LDR_RESERVED_NAME) - 1 &&
	       strncasecmp(path, LDR_RESERVED_NAME, length) == 0;
}

static enum ldr_status check_source(const struct ldr_batch_step *step, struct ldr_error *err)
{
	enum ldr_status status;

	if (step->kind != LDR_BATCH_FILE && step->kind != LDR_BATCH_SYMLINK)
		return LDR_OK;
	if (!step->source)
		return ldr_fail(err, LDR_EINVAL, "%s: no source", step->path);
	if (step->kind == LDR_BATCH_FILE)
		return ldr_batch_name_is(step->source)
			       ? LDR_OK
			       : ldr_fail(err, LDR_EINVAL, "%s: name of a temporary: \"%s\"",
					  step->path, step->source);
	status = ldr_path_check_target(step->source, strlen(step->source), depth_of(step->path),
				       err);
	return ldr_error_prefix(err, status, "%s", step->path);
}

static enum ldr_status check_step(const struct ldr_batch_step *step, struct ldr_error *err)
{
	enum ldr_status status = ldr_path_check(step->path, strlen(step->path), err);

	if (status)
		return status;
	if ((unsigned)step->kind > LDR_BATCH_MODE)
		return ldr_fail(err, LDR_EINVAL, "%s: kind of step %d", step->path,
				(int)step->kind);
	if (is_private(step->path))
		return ldr_fail(err, LDR_EINVAL, "%s: \"%s\" is reserved", step->path,
				LDR_RESERVED_NAME);
	if (step->mode & ~(mode_t)0777)
		return ldr_fail(err, LDR_EINVAL, "%s: mode %o has more than nine bits", step->path,
				(unsigned)step->mode);
	return check_source(step, err);
}

enum ldr_status ldr_batch_check_steps(const struct ldr_batch_step *steps, size_t count,
				      struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; i < count && !status; i++)
		status = check_step(&steps[i], err);
	return status;
}

enum ldr_status ldr_batch_prepare_modes(struct ldr_batch *batch, const struct ldr_batch_step *steps,
					size_t count, struct ldr_error *err)
{
	for (size_t i = 0; i < count; i++) {
		int code;

		if (steps[i].kind != LDR_BATCH_FILE || steps[i].mode == batch->made_mode)
			continue;
		code = ldr_os_chmod_at(ldr_root_fd(batch->temporaries), steps[i].source,
				       steps[i].mode);
		if (code)
			return ldr_fail_errno(err, code, "%s: mode %o of temporary %s",
					      steps[i].path, (unsigned)steps[i].mode,
					      steps[i].source);
	}
	return LDR_OK;
}

/* ---- the folder of a path ---- */

static int leave_parent(struct parent *parent)
{
	int code = parent->opened_up ? ldr_os_chmod(parent->fd, parent->mode) : 0;

	ldr_cleanup_fd(&parent->fd);
	parent->fd = -1;
	parent->opened_up = false;
	return code;
}

static int enter_parent(struct applier *applier, const char *path, size_t length)
{
	struct parent *parent = &applier->parent;
	int code;

	if (parent->fd >= 0 && parent->length == length && memcmp(parent->path, path, length) == 0)
		return 0;
	code = leave_parent(parent);
	if (code)
		return code;
	memcpy(parent->path, path, length);
	parent->path[length] = '\0';
	parent->length = length;
	return ldr_os_open_beneath(ldr_root_fd(applier->batch->target), length ? parent->path : ".",
				   O_RDONLY | O_DIRECTORY, 0, &parent->fd);
}

/* Read-only folders are legal in a release. True when the parent was such a one and is writable now. */
static bool open_up(struct parent *parent)
{
	struct stat found;

	if (parent->opened_up || ldr_os_stat(parent->fd, &found) != 0 ||
	    (found.st_mode & 0300) == 0300)
		return false;
	parent->mode = found.st_mode & 07777;
	parent->opened_up = ldr_os_chmod(parent->fd, parent->mode | 0300) == 0;
	return parent->opened_up;
}

/* ---- the kinds; each gives an errno value ---- */

/* A folder in the place of a removed file is what an earlier, killed run has made there. */
static int remove_path(int parent_fd, const char *name)
{
	int code = ldr_os_unlink_at(parent_fd, name);

	return code == ENOENT || code == EISDIR ? 0 : code;
}

static int unmake_folder(int parent_fd, const char *name)
{
	int code = ldr_os_rmdir_at(parent_fd, name);

	switch (code) {
	case ENOENT:
	case ENOTDIR:
	case ENOTEMPTY:
	case EEXIST: /* the other name of ENOTEMPTY */
	case EBUSY:  /* a mount point */
		return 0;
	default:
		return code;
	}
}

static int make_folder(const struct ldr_batch *batch, int parent_fd, const char *name, mode_t mode)
{
	struct stat found = {.st_mode = mode & ~batch->mask};
	int code = ldr_os_mkdir_at(parent_fd, name, mode);

	if (code == EEXIST) {
		code = ldr_os_stat_at(parent_fd, name, &found);
		if (!code && !S_ISDIR(found.st_mode)) {
			code = ldr_os_unlink_at(parent_fd, name);
			if (!code)
				code = ldr_os_mkdir_at(parent_fd, name, mode);
			found.st_mode = mode & ~batch->mask;
		}
	}
	if (!code && (found.st_mode & 0777) != mode)
		code = ldr_os_chmod_at(parent_fd, name, mode);
	return code;
}

/* A folder that the old release has left empty may be replaced; one with files in it may not. */
static int rename_over(const struct ldr_batch *batch, const char *source, int parent_fd,
		       const char *name)
{
	int temporaries_fd = ldr_root_fd(batch->temporaries);
	int code = ldr_os_rename(temporaries_fd, source, parent_fd, name);

	if (code != EISDIR)
		return code;
	code = ldr_os_rmdir_at(parent_fd, name);
	return code ? code : ldr_os_rename(temporaries_fd, source, parent_fd, name);
}

static int make_symlink(const struct ldr_batch *batch, int parent_fd, const char *name,
			const char *target)
{
	int temporaries_fd = ldr_root_fd(batch->temporaries);
	char present[LDR_PATH_MAX_BYTES + 1];
	int code = ldr_os_symlink_at(target, parent_fd, name);

	if (code != EEXIST)
		return code;
	if (ldr_os_readlink_at(parent_fd, name, present, sizeof(present)) == 0 &&
	    strcmp(present, target) == 0)
		return 0;
	code = ldr_os_unlink_at(temporaries_fd, LDR_BATCH_LINK_NAME);
	if (!code || code == ENOENT)
		code = ldr_os_symlink_at(target, temporaries_fd, LDR_BATCH_LINK_NAME);
	return code ? code : rename_over(batch, LDR_BATCH_LINK_NAME, parent_fd, name);
}

static int try_step(struct applier *applier, const struct ldr_batch_step *step, const char *name)
{
	const struct ldr_batch *batch = applier->batch;
	int parent_fd = applier->parent.fd;

	switch (step->kind) {
	case LDR_BATCH_REMOVE:
		return remove_path(parent_fd, name);
	case LDR_BATCH_UNMAKE:
		return unmake_folder(parent_fd, name);
	case LDR_BATCH_FOLDER:
		return make_folder(batch, parent_fd, name, step->mode);
	case LDR_BATCH_FILE:
		return rename_over(batch, step->source, parent_fd, name);
	case LDR_BATCH_SYMLINK:
		return make_symlink(batch, parent_fd, name, step->source);
	case LDR_BATCH_MODE:
		return ldr_os_chmod_at(parent_fd, name, step->mode);
	}
	return EINVAL;
}

/* ---- running ---- */

static int run_step(struct applier *applier, const struct ldr_batch_step *step)
{
	const char *slash = strrchr(step->path, '/');
	const char *name = slash ? slash + 1 : step->path;
	int code = enter_parent(applier, step->path, slash ? (size_t)(slash - step->path) : 0);

	/* Where the folder above is gone, or has become a file or symlink, so is what was to be removed. */
	if ((code == ENOENT || code == ENOTDIR || code == ELOOP) &&
	    (step->kind == LDR_BATCH_REMOVE || step->kind == LDR_BATCH_UNMAKE))
		return 0;
	if (code)
		return code;
	code = try_step(applier, step, name);
	if (code == EACCES && open_up(&applier->parent))
		code = try_step(applier, step, name);
	return code;
}

static enum ldr_status fail_step(const struct applier *applier, const struct ldr_batch_step *step,
				 int code, struct ldr_error *err)
{
	static const char *const verbs[] = {
		"remove", "remove the folder", "make the folder", "put in place",
		"link",   "set the mode",
	};
	const char *target = ldr_root_path(applier->batch->target);

	if (applier->parent.fd < 0)
		return ldr_fail_errno(err, code, "%s/%s: folder above it", target, step->path);
	if (code == EXDEV && step->kind >= LDR_BATCH_FILE)
		return ldr_fail(err, LDR_EUNSUPPORTED, "%s/%s: lies on another file system than %s",
				target, step->path, ldr_root_path(applier->batch->temporaries));
	if (code == ENOENT && step->kind == LDR_BATCH_FILE)
		return ldr_fail_errno(err, code, "%s/%s: put in place temporary %s", target,
				      step->path, step->source);
	return ldr_fail_errno(err, code, "%s/%s: %s", target, step->path, verbs[step->kind]);
}

static enum ldr_status run_kind(struct applier *applier, enum ldr_batch_kind kind,
				const struct ldr_batch_step *steps, size_t count,
				struct ldr_error *err)
{
	int code;

	for (size_t i = 0; i < count; i++) {
		/* Sorted folders are removed from below. */
		const struct ldr_batch_step *step =
			&steps[kind == LDR_BATCH_UNMAKE ? count - 1 - i : i];

		if (step->kind != kind)
			continue;
		code = run_step(applier, step);
		if (code)
			return fail_step(applier, step, code, err);
		LDR_STEP_PLUS(BATCH_REMOVED, kind);
	}
	code = leave_parent(&applier->parent);
	return code ? ldr_fail_errno(err, code, "%s/%s: set the mode back",
				     ldr_root_path(applier->batch->target), applier->parent.path)
		    : LDR_OK;
}

enum ldr_status ldr_batch_run_steps(struct ldr_batch *batch, const struct ldr_batch_step *steps,
				    size_t count, struct ldr_error *err)
{
	struct applier applier = {.batch = batch, .parent = {.fd = -1}};
	enum ldr_status status = LDR_OK;

	for (int kind = LDR_BATCH_REMOVE; kind <= LDR_BATCH_MODE && !status; kind++)
		status = run_kind(&applier, kind, steps, count, err);
	leave_parent(&applier.parent);
	return status;
}
