/*
 * The memory layer's table of functions; see layer_memory.h, and memory_priv.h for what stands
 * behind it.
 *
 * An open file's state: [0] its inode (one reference), [1] whether it is open for writing.
 */
#include "vfs/layer_memory.h"

#include <stdlib.h>

#include "vfs/memory_priv.h"

#define DEFAULT_MAX_BYTES (UINT64_C(1) << 30)

static const struct ldr_layer_ops memory_ops;
static const struct ldr_file_ops memory_file_ops;

static struct ldr_inode *inode_of(const struct ldr_layer_file *file)
{
	return (struct ldr_inode *)(uintptr_t)file->state[0];
}

static enum ldr_status fail_path(struct ldr_error *err, enum ldr_status status,
				 const struct ldr_layer_path *path, const char *why)
{
	if (!err)
		return status;
	return ldr_fail(err, status, "%.*s: %s", 80, path->text, why);
}

/* ---- open files ---- */

static void file_close(struct ldr_layer_file *file)
{
	if (file->state[1])
		ldr_inode_end_writing(inode_of(file));
	ldr_inode_unref(file->layer_self, inode_of(file));
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	(void)err;
	*out_length = ldr_inode_read(inode_of(file), bytes, length, offset);
	return LDR_OK;
}

static enum ldr_status file_pwrite(struct ldr_layer_file *file, const void *bytes, size_t length,
				   uint64_t offset, struct ldr_error *err)
{
	return ldr_inode_write(file->layer_self, inode_of(file), bytes, length, offset, false, NULL,
			       err);
}

static enum ldr_status file_append(struct ldr_layer_file *file, const void *bytes, size_t length,
				   uint64_t *out_end, struct ldr_error *err)
{
	return ldr_inode_write(file->layer_self, inode_of(file), bytes, length, 0, true, out_end,
			       err);
}

static enum ldr_status file_truncate(struct ldr_layer_file *file, uint64_t length,
				     struct ldr_error *err)
{
	return ldr_inode_truncate(file->layer_self, inode_of(file), length, err);
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	struct ldr_inode *inode = inode_of(file);

	(void)err;
	*out = (struct ldr_stat){
		.kind = LDR_KIND_FILE,
		.mode = 0644,
		.size_bytes = atomic_load_explicit(&inode->size_bytes, memory_order_acquire),
		.modified_ns = atomic_load_explicit(&inode->modified_ns, memory_order_relaxed)};
	return LDR_OK;
}

static enum ldr_status file_map(struct ldr_layer_file *file, uint64_t offset, size_t length,
				struct ldr_mapping *out, struct ldr_error *err)
{
	(void)err;
	out->bytes = ldr_inode_map(inode_of(file), offset, length);
	return out->bytes ? LDR_OK : LDR_EUNSUPPORTED;
}

static void file_unmap(struct ldr_layer_file *file, struct ldr_mapping *mapping)
{
	(void)mapping;
	ldr_inode_unmap(inode_of(file));
}

static const struct ldr_file_ops memory_file_ops = {
	.size = sizeof(memory_file_ops),
	.close = file_close,
	.pread = file_pread,
	.pwrite = file_pwrite,
	.append = file_append,
	.truncate = file_truncate,
	.stat = file_stat,
	.map = file_map,
	.unmap = file_unmap,
};

/* ---- paths in any case ---- */

/* The path to go on with: the stored one where the mount folds case and has it. */
static struct ldr_layer_path unfolded(struct ldr_memory_layer *layer,
				      const struct ldr_layer_path *path,
				      char storage[LDR_PATH_MAX_BYTES + 1])
{
	struct ldr_layer_path plain = {.text = path->text, .length = path->length};
	size_t length;

	if (!path->fold_case || path->length == 0)
		return plain;
	ldr_mutex_lock(&layer->changes);
	if (ldr_names_unfold(layer, path->text, path->length, storage, &length))
		plain = (struct ldr_layer_path){.text = storage, .length = length};
	ldr_mutex_unlock(&layer->changes);
	return plain;
}

/* ---- looking ---- */

static enum ldr_status layer_stat(void *self, const struct ldr_layer_path *path,
				  struct ldr_stat *out, struct ldr_error *err)
{
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = *path;
	struct ldr_stat found;

	if (path->fold_case)
		plain = unfolded(self, path, storage);
	if (!ldr_names_stat(self, plain.text, plain.length, &found))
		return ldr_names_why_not(self, plain.text, plain.length);
	(void)err;
	*out = found;
	return LDR_OK;
}

static enum ldr_status layer_list(void *self, const struct ldr_layer_path *path, ldr_emit_name emit,
				  void *context, struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(layer, path, storage);
	struct ldr_inode *folder = ldr_names_find(layer, plain.text, plain.length);
	struct ldr_name_list *list = NULL;
	enum ldr_status status;
	size_t at = 0;

	if (!folder)
		return ldr_names_why_not(layer, plain.text, plain.length);
	ldr_mutex_lock(&layer->changes);
	status = folder->kind == LDR_KIND_FOLDER ? ldr_names_list(folder, &list, err)
						 : fail_path(err, LDR_ENOTDIR, path, "is a file");
	ldr_mutex_unlock(&layer->changes);
	while (status == LDR_OK && at < list->text_bytes) {
		size_t length = list->text[at + 1];

		status = emit(context, (const char *)list->text + at + 2, length,
			      (enum ldr_kind)list->text[at], err);
		at += 2 + length;
	}
	ldr_name_list_unref(list);
	ldr_inode_unref(layer, folder);
	return status;
}

/* ---- opening ---- */

/* A file of this content under a name that is there or not; under changes. Takes the caller's
 * reference. */
static enum ldr_status put_inode(struct ldr_memory_layer *layer, const struct ldr_layer_path *path,
				 struct ldr_inode *inode, struct ldr_error *err)
{
	struct ldr_memory_name *name = ldr_names_get(layer, path->text, path->length);

	if (!name)
		return ldr_names_add(layer, path->text, path->length, inode, err);
	if (name->inode->kind == LDR_KIND_FOLDER)
		return fail_path(err, LDR_EISDIR, path, "is a folder");
	ldr_names_swap(layer, name, inode);
	return LDR_OK;
}

/* Copies what a mapping holds on to, so that the name can be written. */
static enum ldr_status copy_inode(struct ldr_memory_layer *layer, const struct ldr_inode *from,
				  struct ldr_inode *to, struct ldr_error *err)
{
	uint64_t size = atomic_load_explicit(&from->size_bytes, memory_order_acquire);
	uint8_t buffer[4096];
	uint64_t offset = 0;

	while (offset < size) {
		size_t got = ldr_inode_read(from, buffer, sizeof(buffer), offset);
		enum ldr_status status = ldr_inode_write(layer, to, buffer, got, offset, false,
							 NULL, err);

		if (status != LDR_OK)
			return status;
		offset += got;
	}
	return LDR_OK;
}

/* Another inode in the place of one that is mapped: empty when it is to be truncated, else a copy.
 * Under changes. */
static enum ldr_status part_from_mapping(struct ldr_memory_layer *layer,
					 struct ldr_memory_name *name, unsigned how,
					 struct ldr_inode **out_inode, struct ldr_error *err)
{
	struct ldr_inode *fresh;
	enum ldr_status status = ldr_inode_new(layer, LDR_KIND_FILE, &fresh, err);

	if (status != LDR_OK)
		return status;
	if (!(how & LDR_LAYER_TRUNCATE))
		status = copy_inode(layer, name->inode, fresh, err);
	if (status != LDR_OK) {
		ldr_inode_unref(layer, fresh);
		return status;
	}
	ldr_inode_try_ref(fresh);
	ldr_names_swap(layer, name, fresh);
	ldr_inode_begin_writing(fresh);
	*out_inode = fresh;
	return LDR_OK;
}

/* Under changes. *out_inode has a reference and is open for writing. */
static enum ldr_status open_for_writing(struct ldr_memory_layer *layer,
					const struct ldr_layer_path *path, unsigned how,
					struct ldr_inode **out_inode, struct ldr_error *err)
{
	struct ldr_memory_name *name = ldr_names_get(layer, path->text, path->length);
	struct ldr_inode *inode;
	enum ldr_status status;

	if (name && name->inode->kind == LDR_KIND_FOLDER)
		return fail_path(err, LDR_EISDIR, path, "is a folder");
	if (name && (how & LDR_LAYER_NEW))
		return fail_path(err, LDR_EEXISTS, path, "already exists");
	if (name && !ldr_inode_begin_writing(name->inode))
		return part_from_mapping(layer, name, how, out_inode, err);
	if (name) {
		ldr_inode_try_ref(name->inode);
		*out_inode = name->inode;
		return (how & LDR_LAYER_TRUNCATE) ? ldr_inode_truncate(layer, name->inode, 0, err)
						  : LDR_OK;
	}
	if (!(how & LDR_LAYER_CREATE))
		return ldr_names_why_not(layer, path->text, path->length);
	status = ldr_inode_new(layer, LDR_KIND_FILE, &inode, err);
	if (status != LDR_OK)
		return status;
	status = ldr_names_add(layer, path->text, path->length, inode, err);
	if (status != LDR_OK) {
		ldr_inode_unref(layer, inode);
		return status;
	}
	ldr_inode_try_ref(inode);
	ldr_inode_begin_writing(inode);
	*out_inode = inode;
	return LDR_OK;
}

static void hand_over(struct ldr_layer_file *file, struct ldr_inode *inode, bool writes)
{
	file->ops = &memory_file_ops;
	file->state[0] = (uint64_t)(uintptr_t)inode;
	file->state[1] = writes;
}

static enum ldr_status open_for_reading(struct ldr_memory_layer *layer,
					const struct ldr_layer_path *path,
					struct ldr_layer_file *file, struct ldr_error *err)
{
	struct ldr_inode *inode = ldr_names_find(layer, path->text, path->length);

	if (!inode)
		return ldr_names_why_not(layer, path->text, path->length);
	if (inode->kind == LDR_KIND_FOLDER) {
		ldr_inode_unref(layer, inode);
		return fail_path(err, LDR_EISDIR, path, "is a folder");
	}
	hand_over(file, inode, false);
	return LDR_OK;
}

static enum ldr_status layer_open(void *self, const struct ldr_layer_path *path, unsigned how,
				  struct ldr_layer_file *file, struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = *path;
	struct ldr_inode *inode = NULL;
	enum ldr_status status;

	if (path->fold_case)
		plain = unfolded(layer, path, storage);
	if (!(how & LDR_LAYER_WRITE))
		return open_for_reading(layer, &plain, file, err);
	ldr_mutex_lock(&layer->changes);
	status = open_for_writing(layer, &plain, how, &inode, err);
	ldr_mutex_unlock(&layer->changes);
	if (status == LDR_OK)
		hand_over(file, inode, true);
	return status;
}

/* ---- changes ---- */

static enum ldr_status layer_mkdir(void *self, const struct ldr_layer_path *path,
				   struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(layer, path, storage);
	struct ldr_inode *inode;
	enum ldr_status status = ldr_inode_new(layer, LDR_KIND_FOLDER, &inode, err);

	if (status != LDR_OK)
		return status;
	ldr_mutex_lock(&layer->changes);
	if (plain.length == 0 || ldr_names_get(layer, plain.text, plain.length))
		status = fail_path(err, LDR_EEXISTS, path, "already exists");
	else
		status = ldr_names_add(layer, plain.text, plain.length, inode, err);
	ldr_mutex_unlock(&layer->changes);
	if (status != LDR_OK)
		ldr_inode_unref(layer, inode);
	return status;
}

static enum ldr_status layer_remove(void *self, const struct ldr_layer_path *path,
				    struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(layer, path, storage);
	struct ldr_memory_name *name;
	enum ldr_status status = LDR_OK;

	ldr_mutex_lock(&layer->changes);
	name = ldr_names_get(layer, plain.text, plain.length);
	if (!name)
		status = ldr_names_why_not(layer, plain.text, plain.length);
	else if (name->inode->kind == LDR_KIND_FOLDER && name->inode->child_count > 0)
		status = fail_path(err, LDR_ENOTEMPTY, path, "folder is not empty");
	else
		ldr_names_remove(layer, name);
	ldr_mutex_unlock(&layer->changes);
	return status;
}

/* Under changes: makes room at the destination. */
static enum ldr_status clear_destination(struct ldr_memory_layer *layer,
					 const struct ldr_memory_name *from,
					 const struct ldr_layer_path *to, struct ldr_error *err)
{
	struct ldr_memory_name *there = ldr_names_get(layer, to->text, to->length);
	bool from_folder = from->inode->kind == LDR_KIND_FOLDER;

	if (!there)
		return LDR_OK;
	if (there->inode->kind == LDR_KIND_FOLDER && !from_folder)
		return fail_path(err, LDR_EISDIR, to, "is a folder");
	if (there->inode->kind != LDR_KIND_FOLDER && from_folder)
		return fail_path(err, LDR_ENOTDIR, to, "is a file");
	if (there->inode->child_count > 0)
		return fail_path(err, LDR_ENOTEMPTY, to, "folder is not empty");
	ldr_names_remove(layer, there);
	return LDR_OK;
}

/* A file over a file is one change of the content; anything else moves names. */
static enum ldr_status rename_locked(struct ldr_memory_layer *layer,
				     const struct ldr_layer_path *from,
				     const struct ldr_layer_path *to, struct ldr_error *err)
{
	struct ldr_memory_name *name = ldr_names_get(layer, from->text, from->length);
	struct ldr_memory_name *there = ldr_names_get(layer, to->text, to->length);
	enum ldr_status status;

	if (!name)
		return ldr_names_why_not(layer, from->text, from->length);
	if (name == there)
		return LDR_OK;
	if (there && there->inode->kind == LDR_KIND_FILE && name->inode->kind == LDR_KIND_FILE) {
		ldr_inode_try_ref(name->inode);
		ldr_names_swap(layer, there, name->inode);
		ldr_names_remove(layer, name);
		return LDR_OK;
	}
	if (to->length > from->length && to->text[from->length] == '/' &&
	    memcmp(to->text, from->text, from->length) == 0)
		return fail_path(err, LDR_EINVAL, to, "lies below what is to be renamed");
	status = clear_destination(layer, name, to, err);
	if (status != LDR_OK)
		return status;
	return ldr_names_move(layer, name, to->text, to->length, err);
}

static enum ldr_status layer_rename(void *self, const struct ldr_layer_path *from,
				    const struct ldr_layer_path *to, struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char from_storage[LDR_PATH_MAX_BYTES + 1], to_storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain_from = unfolded(layer, from, from_storage);
	struct ldr_layer_path plain_to = unfolded(layer, to, to_storage);
	enum ldr_status status;

	ldr_mutex_lock(&layer->changes);
	status = rename_locked(layer, &plain_from, &plain_to, err);
	ldr_mutex_unlock(&layer->changes);
	return status;
}

/* A file of these bytes, in one piece, that has no name yet. */
static enum ldr_status inode_of_bytes(struct ldr_memory_layer *layer, const void *bytes,
				      size_t length, struct ldr_inode **out_inode,
				      struct ldr_error *err)
{
	struct ldr_inode *inode;
	enum ldr_status status = ldr_inode_new(layer, LDR_KIND_FILE, &inode, err);

	if (status != LDR_OK)
		return status;
	status = ldr_inode_reserve(layer, inode, length, err);
	if (status == LDR_OK)
		status = ldr_inode_write(layer, inode, bytes, length, 0, false, NULL, err);
	if (status != LDR_OK) {
		ldr_inode_unref(layer, inode);
		return status;
	}
	*out_inode = inode;
	return LDR_OK;
}

static enum ldr_status layer_replace(void *self, const struct ldr_layer_path *path,
				     const void *bytes, size_t length, enum ldr_sync sync,
				     struct ldr_error *err)
{
	struct ldr_memory_layer *layer = self;
	char storage[LDR_PATH_MAX_BYTES + 1];
	struct ldr_layer_path plain = unfolded(layer, path, storage);
	struct ldr_inode *inode;
	enum ldr_status status = inode_of_bytes(layer, bytes, length, &inode, err);

	(void)sync;
	if (status != LDR_OK)
		return status;
	ldr_mutex_lock(&layer->changes);
	status = put_inode(layer, &plain, inode, err);
	ldr_mutex_unlock(&layer->changes);
	if (status != LDR_OK)
		ldr_inode_unref(layer, inode);
	return status;
}

/* ---- the layer ---- */

static void layer_free(void *self)
{
	struct ldr_memory_layer *layer = self;

	ldr_memory_dispose(layer);
	free(layer);
}

static const _Atomic uint64_t *layer_name_count(void *self)
{
	struct ldr_memory_layer *layer = self;

	return &layer->name_count;
}

static bool layer_watch_names(void *self, _Atomic uint64_t *wakes)
{
	struct ldr_memory_layer *layer = self;
	bool is_first;

	ldr_mutex_lock(&layer->changes);
	is_first = !layer->wakes;
	if (is_first)
		layer->wakes = wakes;
	ldr_mutex_unlock(&layer->changes);
	return is_first;
}

static void layer_unwatch_names(void *self)
{
	struct ldr_memory_layer *layer = self;

	ldr_mutex_lock(&layer->changes);
	layer->wakes = NULL;
	ldr_mutex_unlock(&layer->changes);
}

static const struct ldr_layer_ops memory_ops = {
	.name_count = layer_name_count,
	.watch_names = layer_watch_names,
	.unwatch_names = layer_unwatch_names,
	.size = sizeof(memory_ops),
	.kind = "memory",
	.free = layer_free,
	.stat = layer_stat,
	.open = layer_open,
	.list = layer_list,
	.mkdir = layer_mkdir,
	.remove = layer_remove,
	.rename = layer_rename,
	.replace = layer_replace,
};

enum ldr_status ldr_layer_memory_new(const struct ldr_memory_layer_options *options,
				     struct ldr_layer **out_layer, struct ldr_error *err)
{
	struct ldr_memory_layer *layer;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "memory layer options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	layer = aligned_alloc(_Alignof(struct ldr_memory_layer), sizeof(*layer));
	if (!layer)
		return ldr_fail(err, LDR_ENOMEM, "memory layer: out of memory");
	status = ldr_memory_init(
		layer, options && options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES, err);
	if (status == LDR_OK)
		status = ldr_layer_new(&memory_ops, layer, LDR_LAYER_WRITABLE | LDR_LAYER_FOLDS,
				       out_layer, err);
	if (status != LDR_OK)
		layer_free(layer);
	return status;
}

/* The folders above the path; under changes. */
static enum ldr_status put_parents(struct ldr_memory_layer *layer, const char *path, size_t length,
				   struct ldr_error *err)
{
	for (size_t end = 1; end < length; end++) {
		struct ldr_inode *inode;
		enum ldr_status status;

		if (path[end] != '/' || ldr_names_get(layer, path, end))
			continue;
		status = ldr_inode_new(layer, LDR_KIND_FOLDER, &inode, err);
		if (status != LDR_OK)
			return status;
		status = ldr_names_add(layer, path, end, inode, err);
		if (status != LDR_OK) {
			ldr_inode_unref(layer, inode);
			return status;
		}
	}
	return LDR_OK;
}

enum ldr_status ldr_layer_memory_put(struct ldr_layer *of, const char *path, const void *bytes,
				     size_t length, struct ldr_error *err)
{
	struct ldr_memory_layer *layer = ldr_layer_self(of, &memory_ops);
	struct ldr_inode *inode;
	enum ldr_status status;
	size_t path_bytes;

	if (!layer)
		return ldr_fail(err, LDR_EINVAL, "%s layer: is not a memory layer",
				ldr_layer_kind(of));
	status = ldr_path_measure(path, &path_bytes, err);
	if (status == LDR_OK && path_bytes == 0)
		status = ldr_fail(err, LDR_EISDIR, "the root is a folder");
	if (status == LDR_OK)
		status = inode_of_bytes(layer, bytes, length, &inode, err);
	if (status != LDR_OK)
		return status;
	ldr_mutex_lock(&layer->changes);
	if (ldr_names_get(layer, path, path_bytes))
		status = ldr_fail(err, LDR_EEXISTS, "%.*s: already exists", 80, path);
	else
		status = put_parents(layer, path, path_bytes, err);
	if (status == LDR_OK)
		status = ldr_names_add(layer, path, path_bytes, inode, err);
	ldr_mutex_unlock(&layer->changes);
	if (status != LDR_OK)
		ldr_inode_unref(layer, inode);
	return status;
}
