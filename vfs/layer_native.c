/*
 * The native layer's table of functions: names of a host folder; see layer_native.h. Open files are
 * layer_native_files.c's, the names in memory of the watched mode layer_native_watch.c's.
 */
#include "vfs/layer_native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/keys.h"
#include "vfs/layer_native_priv.h"
#include "vfs/memory_priv.h"

#define SIDE_LOG LDR_RESERVED_NAME "/overlay.log"
#define SIDE_OWNER LDR_RESERVED_NAME "/overlay.owner"
#define TEMPORARIES LDR_RESERVED_NAME "-tmp." /* common/publisher.h */
#define SIDE_LOG_MAX_BYTES ((size_t)1 << 30)

/* ---- any case, watched misses: before each call by path ---- */

/* The path to go on with; storage holds one that was found in another case. */
static struct ldr_layer_path unfolded(struct ldr_native *native, const struct ldr_layer_path *path,
				      char storage[LDR_PATH_MAX_BYTES + 1])
{
	struct ldr_layer_path plain = {.text = path->text, .length = path->length};
	struct stat found;

	if (!path->fold_case || path->length == 0 ||
	    ldr_native_stat(native, path->text, NULL, &found) != ENOENT)
		return plain;
	if (ldr_native_unfold(native, path->text, storage))
		plain = (struct ldr_layer_path){.text = storage, .length = strlen(storage)};
	return plain;
}

/* A watched folder knows what it does not have. */
static enum ldr_status ask_watch(struct ldr_native *native, const struct ldr_layer_path *path,
				 struct ldr_native_known *known)
{
	*known = (struct ldr_native_known){.held = 0};
	if (!native->watch || path->fold_case || path->length == 0)
		return LDR_OK;
	return ldr_native_watch_ask(native->watch, path->text, path->length, known);
}

static uint32_t version_of(struct ldr_native *native, const struct ldr_layer_path *path)
{
	return native->watch ? ldr_native_watch_version(native->watch, path->text, path->length)
			     : 0;
}

static void note_change(struct ldr_native *native, const struct ldr_layer_path *path,
			enum ldr_kind kind, uint32_t version)
{
	if (native->watch)
		ldr_native_watch_note(native->watch, path->text, path->length, kind, version);
}

static void note_moved(struct ldr_native *native, const struct ldr_layer_path *path)
{
	if (native->watch)
		ldr_native_watch_note_moved(native->watch, path->text, path->length);
}

/* ---- looking ---- */

/* Serves as exists too: what a pipe is must be asked in any case. */
static enum ldr_status layer_stat(void *self, const struct ldr_layer_path *path,
				  struct ldr_stat *out, struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = *path;
	struct ldr_native_known known;
	enum ldr_status status = ask_watch(native, path, &known);
	struct stat found;
	int code;

	if (status != LDR_OK)
		return status;
	if (path->fold_case)
		plain = unfolded(native, path, storage);
	code = ldr_native_stat(native, ldr_native_text(&plain), &known, &found);
	if (code == ENOENT)
		return LDR_ENOTFOUND;
	if (code)
		return ldr_native_fail(err, code, plain.text, "stat");
	status = ldr_native_check_kind(&found, plain.text, err);
	if (status == LDR_OK)
		ldr_native_fill_stat(&found, out);
	return status;
}

static enum ldr_status layer_open(void *self, const struct ldr_layer_path *path, unsigned how,
				  struct ldr_layer_file *file, struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = *path;
	struct ldr_native_known known = {.held = 0};
	enum ldr_status status = LDR_OK;
	uint32_t version;

	if (!(how & LDR_LAYER_CREATE))
		status = ask_watch(native, path, &known);
	if (status != LDR_OK)
		return status;
	if (path->fold_case)
		plain = unfolded(native, path, storage);
	version = version_of(native, &plain);
	status = ldr_native_file_open(native, &plain, &known, how, file, err);
	if (status == LDR_OK && (how & LDR_LAYER_CREATE))
		note_change(native, &plain, LDR_KIND_MADE, version);
	return status;
}

/* What a listed name is; false: nothing that this layer shows. */
static bool kind_of(struct ldr_native *native, int folder, const char *path, const char *name,
		    mode_t type, enum ldr_kind *out_kind)
{
	char whole[2 * LDR_PATH_MAX_BYTES + 2];
	size_t used = strlen(path);
	struct stat found;

	if (type == 0 && ldr_os_stat_at(folder, name, &found) == 0)
		type = found.st_mode & S_IFMT;
	if (S_ISLNK(type)) {
		if (native->symlinks == LDR_SYMLINKS_REFUSE && !native->trusted)
			return false;
		memcpy(whole, path, used);
		if (used > 0)
			whole[used++] = '/';
		memcpy(whole + used, name, strlen(name) + 1);
		if (ldr_native_stat(native, whole, NULL, &found) != 0)
			return false;
		type = found.st_mode & S_IFMT;
	}
	*out_kind = S_ISDIR(type) ? LDR_KIND_FOLDER : LDR_KIND_FILE;
	return S_ISDIR(type) || S_ISREG(type);
}

static enum ldr_status list_folder(struct ldr_native *native, int folder,
				   const struct ldr_layer_path *path, ldr_emit_name emit,
				   void *context, struct ldr_error *err)
{
	struct ldr_os_listing *listing;
	enum ldr_status status = LDR_OK;
	const char *name;
	mode_t type;
	int code = ldr_os_listing_open(folder, &listing);

	if (code)
		return ldr_native_fail(err, code, path->text, "list");
	while (status == LDR_OK) {
		enum ldr_kind kind;

		code = ldr_os_listing_next(listing, &name, &type);
		if (code)
			status = ldr_native_fail(err, code, path->text, "list");
		if (code || !name)
			break;
		/* A name that breaks the path rule cannot be asked for, so it is not shown. */
		if (ldr_path_check(name, strlen(name), NULL) == LDR_OK &&
		    kind_of(native, folder, path->text, name, type, &kind))
			status = emit(context, name, strlen(name), kind, err);
	}
	ldr_os_listing_close(listing);
	return status;
}

static enum ldr_status list_live(struct ldr_native *native, const struct ldr_layer_path *path,
				 ldr_emit_name emit, void *context, struct ldr_error *err)
{
	LDR_AUTO_FD int folder = -1;
	int code = ldr_native_open(native, ldr_native_text(path), O_RDONLY | O_DIRECTORY, &folder);

	if (code == ENOENT)
		return LDR_ENOTFOUND;
	if (code)
		return ldr_native_fail(err, code, path->text, "list");
	return list_folder(native, folder, path, emit, context, err);
}

static enum ldr_status layer_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				  void *context, struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(native, path, storage);
	struct ldr_native_known known;
	enum ldr_status status = ask_watch(native, path, &known);

	/* Not from the table: a name may stay there that others removed while we made it. */
	return status == LDR_OK ? list_live(native, &plain, emit, context, err) : status;
}

/* ---- changes ---- */

static enum ldr_status layer_mkdir(void *self, const struct ldr_layer_path *path,
				   struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(native, path, storage);
	const char *name;
	int folder, code;

	if (plain.length == 0)
		return ldr_native_fail(err, EEXIST, ".", "make folder");
	code = ldr_native_open_parent(native, plain.text, &folder, &name);
	if (code)
		return ldr_native_fail(err, code, plain.text, "make folder");
	code = ldr_os_mkdir_at(folder, name, 0755);
	ldr_native_close_parent(native, folder);
	if (code)
		return ldr_native_fail(err, code, plain.text, "make folder");
	note_moved(native, &plain);
	return LDR_OK;
}

static enum ldr_status layer_remove(void *self, const struct ldr_layer_path *path,
				    struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(native, path, storage);
	uint32_t version = version_of(native, &plain);
	const char *name;
	int folder, code = ldr_native_open_parent(native, plain.text, &folder, &name);

	if (code)
		return ldr_native_fail(err, code, plain.text, "remove");
	code = ldr_os_unlink_at(folder, name);
	if (code == EISDIR)
		code = ldr_os_rmdir_at(folder, name);
	ldr_native_close_parent(native, folder);
	if (code)
		return ldr_native_fail(err, code == EEXIST ? ENOTEMPTY : code, plain.text,
				       "remove");
	ldr_native_forget(native, &plain);
	note_change(native, &plain, 0, version);
	return LDR_OK;
}

static int rename_between(const struct ldr_native *native, const char *from, const char *to)
{
	const char *from_name, *to_name;
	int from_fd, to_fd, code = ldr_native_open_parent(native, from, &from_fd, &from_name);

	if (code)
		return code;
	code = ldr_native_open_parent(native, to, &to_fd, &to_name);
	if (!code) {
		code = ldr_os_rename(from_fd, from_name, to_fd, to_name);
		ldr_native_close_parent(native, to_fd);
	}
	ldr_native_close_parent(native, from_fd);
	return code;
}

static enum ldr_status layer_rename(void *self, const struct ldr_layer_path *from,
				    const struct ldr_layer_path *to, struct ldr_error *err)
{
	struct ldr_native *native = self;
	char from_storage[LDR_PATH_MAX_BYTES + 1], to_storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain_from = unfolded(native, from, from_storage);
	struct ldr_layer_path plain_to = unfolded(native, to, to_storage);
	int code = rename_between(native, plain_from.text, plain_to.text);

	if (code)
		return ldr_native_fail(err, code == EEXIST ? ENOTEMPTY : code, plain_to.text,
				       "rename");
	ldr_native_forget(native, &plain_from);
	ldr_native_forget(native, &plain_to);
	note_moved(native, &plain_from);
	note_moved(native, &plain_to);
	return LDR_OK;
}

static enum ldr_status layer_replace(void *self, const struct ldr_layer_path *path,
				     const void *bytes, size_t length, enum ldr_sync sync,
				     struct ldr_error *err)
{
	struct ldr_native *native = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(native, path, storage);
	const struct ldr_publish_options options = {.sync = sync, .max_bytes = SIZE_MAX};
	uint32_t version = version_of(native, &plain);
	struct stat found;
	enum ldr_status status = ldr_publish(native->root, plain.text, bytes, length, &options,
					     NULL, err);

	if (status == LDR_OK)
		note_change(native, &plain, LDR_KIND_FILE, version);
	if (status == LDR_ENOTREG && ldr_native_stat(native, plain.text, NULL, &found) == 0 &&
	    S_ISDIR(found.st_mode))
		return ldr_native_fail(err, EISDIR, plain.text, "replace");
	return status;
}

/* ---- the side log ---- */

static enum ldr_status side_read(void *self, uint8_t **out_log, size_t *out_length,
				 struct ldr_error *err)
{
	const struct ldr_native *native = self;

	return ldr_root_read_file(native->root, SIDE_LOG, SIDE_LOG_MAX_BYTES, out_log, out_length,
				  err);
}

static enum ldr_status side_append(void *self, const void *records, size_t length,
				   struct ldr_error *err)
{
	const struct ldr_native *native = self;
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_open_beneath(native->fd, SIDE_LOG, O_WRONLY | O_APPEND, 0, &fd);

	if (!code)
		code = ldr_os_write(fd, records, length);
	if (!code)
		code = ldr_os_sync(fd);
	return code ? ldr_native_fail(err, code, SIDE_LOG, "append") : LDR_OK;
}

static enum ldr_status side_replace(void *self, const void *log, size_t length,
				    struct ldr_error *err)
{
	const struct ldr_native *native = self;
	const struct ldr_publish_options options = {.max_bytes = SIZE_MAX, .make_parents = true};

	return ldr_publish(native->root, SIDE_LOG, log, length, &options, NULL, err);
}

/* The lock belongs to the open file, so it keeps other layers away as it does other processes, and
 * goes with the process. A file system without locks has none to give. */
static enum ldr_status side_lock(void *self, struct ldr_error *err)
{
	struct ldr_native *native = self;
	LDR_AUTO_FD int fd = -1;
	int code = ldr_os_mkdir_at(native->fd, LDR_RESERVED_NAME, 0755);

	if (!code || code == EEXIST)
		code = ldr_os_open_beneath(native->fd, SIDE_OWNER, O_RDWR | O_CREAT, 0644, &fd);
	if (!code)
		code = ldr_os_lock(fd);
	if (code == EAGAIN)
		return ldr_fail(err, LDR_ECONFLICT,
				"folder %s: another layer or process writes to it",
				ldr_root_path(native->root));
	if (code && code != ENOLCK && code != EOPNOTSUPP && code != ENOSYS)
		return ldr_fail_errno(err, code, "folder %s: lock for writing",
				      ldr_root_path(native->root));
	native->claim_fd = ldr_steal_fd(&fd);
	return LDR_OK;
}

static void side_unlock(void *self)
{
	struct ldr_native *native = self;

	ldr_cleanup_fd(&native->claim_fd);
	native->claim_fd = -1;
}

/* ---- watching ---- */

static enum ldr_status layer_settle(void *self, struct ldr_error *err)
{
	struct ldr_native *native = self;

	return native->watch ? ldr_native_watch_settle(native->watch, err) : LDR_OK;
}

static void layer_watch_counts(void *self, uint64_t *out_events, uint64_t *out_fallbacks)
{
	struct ldr_native *native = self;

	if (native->watch)
		ldr_native_watch_counts(native->watch, out_events, out_fallbacks);
}

/* ---- the layer ---- */

static void layer_free(void *self)
{
	struct ldr_native *native = self;

	ldr_native_watch_free(native->watch);
	ldr_held_dispose(&native->held);
	ldr_root_close(native->root);
	free(native->seen);
	free(native);
}

static const struct ldr_layer_ops native_ops = {
	.size = sizeof(native_ops),
	.kind = "native",
	.free = layer_free,
	.stat = layer_stat,
	.open = layer_open,
	.list = layer_list,
	.mkdir = layer_mkdir,
	.remove = layer_remove,
	.rename = layer_rename,
	.replace = layer_replace,
	.side_read = side_read,
	.side_append = side_append,
	.side_replace = side_replace,
	.side_lock = side_lock,
	.side_unlock = side_unlock,
	.settle = layer_settle,
	.watch_counts = layer_watch_counts,
};

static struct ldr_native *native_new(const struct ldr_native_options *given)
{
	struct ldr_native *native = calloc(1, sizeof(*native));

	if (!native)
		return NULL;
	native->claim_fd = -1;
	native->symlinks = given->symlinks;
	native->trusted = given->trusted;
	ldr_held_init(&native->held);
	native->seen = calloc(LDR_NATIVE_SEEN_GROUPS, sizeof(native->seen[0]));
	if (native->seen)
		return native;
	free(native);
	return NULL;
}

enum ldr_status ldr_layer_native_new(const char *root, const struct ldr_native_options *options,
				     struct ldr_layer **out_layer, struct ldr_error *err)
{
	struct ldr_native_options given = {.size = sizeof(given)};
	struct ldr_native *native;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "native layer options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	if (options)
		given = *options;
	native = native_new(&given);
	if (!native)
		return ldr_fail(err, LDR_ENOMEM, "folder %s: out of memory", root);
	status = ldr_root_open(root, given.make, &native->root, err);
	if (status != LDR_OK) {
		layer_free(native);
		return status;
	}
	native->fd = ldr_root_fd(native->root);
	status = ldr_random(&native->seed, sizeof(native->seed), err);
	if (status == LDR_OK && given.watched)
		status = ldr_native_watch_new(native, given.max_watches, &native->watch, err);
	if (status == LDR_OK)
		status = ldr_layer_new(&native_ops, native,
				       LDR_LAYER_FOLDS |
					       (given.read_only ? 0u : LDR_LAYER_WRITABLE),
				       out_layer, err);
	if (status != LDR_OK)
		layer_free(native);
	return status;
}
