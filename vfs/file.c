/*
 * Open files: the calls on a handle, mappings, cursors; see file.h.
 *
 * A handle's layer does the work; here are the checks that are the same for all layers, so that
 * they cannot differ.
 */
#include "vfs/file.h"

#include <stdlib.h>

#include "vfs/vfs_priv.h"

#define MAY_READ (LDR_OPEN_READ | LDR_OPEN_OVERLAPPED)
#define MAY_WRITE (LDR_OPEN_WRITE | LDR_OPEN_APPEND | LDR_OPEN_OVERLAPPED)
#define MAY_PLACE (LDR_OPEN_WRITE | LDR_OPEN_OVERLAPPED)

struct ldr_file *ldr_file_ref(struct ldr_file *file)
{
	atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
	return file;
}

static void close_handle(struct ldr_file *file)
{
	struct ldr_vfs *vfs = file->vfs;
	struct ldr_mounted *mounted = file->mounted;
	bool departed;

	if (file->layer.ops->close)
		file->layer.ops->close(&file->layer);
	departed = atomic_load_explicit(&mounted->departed, memory_order_relaxed);
	/* The last touch: from now on the keeper may free the mount. Release pairs with
	 * ldr_mounted_is_dead. A mount that departs between the two lines is found dead by the
	 * keeper's next round. */
	atomic_fetch_sub_explicit(&mounted->handles[file->stripe].count, 1, memory_order_release);
	if (departed)
		ldr_keeper_wake(vfs);
	ldr_handles_give(&vfs->handles, file);
}

void ldr_file_unref(struct ldr_file *file)
{
	if (!file)
		return;
	/* Alone, nobody else can take a reference: no need for the locked subtraction. Pairs with
	 * those of the others. */
	if (atomic_load_explicit(&file->references, memory_order_acquire) == 1 ||
	    atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) == 1)
		close_handle(file);
}

void ldr_file_close(struct ldr_file *file)
{
	ldr_file_unref(file);
}

void ldr_file_cleanup(struct ldr_file **file)
{
	ldr_file_unref(*file);
}

static enum ldr_status check_mode(const struct ldr_file *file, unsigned may, const char *what,
				  struct ldr_error *err)
{
	if (atomic_load_explicit(&file->mounted->stale, memory_order_acquire))
		return ldr_fail(err, LDR_ESTALE, "%s: mount %u was taken away by force", what,
				file->mounted->id);
	if (!(file->flags & may))
		return ldr_fail(err, LDR_EDENIED, "%s: the file was not opened for that", what);
	return LDR_OK;
}

static enum ldr_status check_range(const char *what, size_t length, uint64_t offset,
				   struct ldr_error *err)
{
	if (length <= UINT64_MAX - offset)
		return LDR_OK;
	return ldr_fail(err, LDR_EINVAL, "%s: offset %llu and length %zu pass 2^64", what,
			(unsigned long long)offset, length);
}

enum ldr_status ldr_file_pread(struct ldr_file *file, void *bytes, size_t length, uint64_t offset,
			       size_t *out_length, struct ldr_error *err)
{
	enum ldr_status status = check_mode(file, MAY_READ, "read", err);

	if (status == LDR_OK)
		status = check_range("read", length, offset, err);
	if (status != LDR_OK)
		return status;
	status = file->layer.ops->pread(&file->layer, bytes, length, offset, out_length, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

enum ldr_status ldr_file_pread_or_wait(struct ldr_file *file, const struct ldr_read_range *range,
				       struct ldr_wait *wait, size_t *out_length,
				       struct ldr_error *err)
{
	const struct ldr_file_ops *ops = file->layer.ops;
	enum ldr_status status = check_mode(file, MAY_READ, "read", err);

	if (status == LDR_OK)
		status = check_range("read", range->length, range->offset, err);
	if (status != LDR_OK)
		return status;
	if (ops->pread_or_wait)
		return ops->pread_or_wait(&file->layer, range, wait, out_length, err);
	return ops->pread(&file->layer, range->bytes, range->length, range->offset, out_length,
			  err);
}

enum ldr_status ldr_file_pwrite(struct ldr_file *file, const void *bytes, size_t length,
				uint64_t offset, struct ldr_error *err)
{
	const struct ldr_file_ops *ops = file->layer.ops;
	enum ldr_status status = check_mode(file, MAY_WRITE, "write", err);

	if (status == LDR_OK && !(file->flags & LDR_OPEN_APPEND))
		status = check_range("write", length, offset, err);
	if (status != LDR_OK)
		return status;
	if (file->flags & LDR_OPEN_APPEND)
		status = ops->append(&file->layer, bytes, length, NULL, err);
	else
		status = ops->pwrite(&file->layer, bytes, length, offset, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

enum ldr_status ldr_file_truncate(struct ldr_file *file, uint64_t length, struct ldr_error *err)
{
	enum ldr_status status = check_mode(file, MAY_PLACE, "truncate", err);

	if (status != LDR_OK)
		return status;
	status = file->layer.ops->truncate(&file->layer, length, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

enum ldr_status ldr_file_sync(struct ldr_file *file, struct ldr_error *err)
{
	enum ldr_status status = check_mode(file, MAY_READ | MAY_WRITE, "sync", err);

	if (status != LDR_OK || !file->layer.ops->sync)
		return status;
	status = file->layer.ops->sync(&file->layer, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

static enum ldr_status stat_now(struct ldr_file *file, struct ldr_stat *out, struct ldr_error *err)
{
	enum ldr_status status;

	status = file->layer.ops->stat(&file->layer, out, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

enum ldr_status ldr_file_stat(struct ldr_file *file, struct ldr_stat *out, struct ldr_error *err)
{
	enum ldr_status status = check_mode(file, MAY_READ | MAY_WRITE, "stat", err);

	return status == LDR_OK ? stat_now(file, out, err) : status;
}

void ldr_file_mount(const struct ldr_file *file, uint32_t *out_id, uint64_t *out_generation)
{
	*out_id = file->mounted->id;
	*out_generation = file->mounted->serial;
}

/* ---- mappings ---- */

static enum ldr_status read_all(struct ldr_file *file, uint8_t *bytes, size_t length,
				uint64_t offset, struct ldr_error *err)
{
	size_t done = 0;

	while (done < length) {
		size_t got;
		enum ldr_status status = ldr_file_pread(file, bytes + done, length - done,
							offset + done, &got, err);

		if (status != LDR_OK)
			return status;
		if (got == 0)
			return ldr_fail(err, LDR_ECHANGED,
					"map: the file ends at %llu, was to hold %llu",
					(unsigned long long)(offset + done),
					(unsigned long long)(offset + length));
		done += got;
	}
	return LDR_OK;
}

static enum ldr_status map_copy(struct ldr_file *file, uint64_t offset, size_t length,
				struct ldr_mapping *out, struct ldr_error *err)
{
	uint8_t *bytes = malloc(length ? length : 1);
	enum ldr_status status;

	if (!bytes)
		return ldr_fail(err, LDR_ENOMEM, "map: copy of %zu bytes: out of memory", length);
	status = read_all(file, bytes, length, offset, err);
	if (status != LDR_OK) {
		free(bytes);
		return status;
	}
	out->bytes = bytes;
	out->copied = true;
	return LDR_OK;
}

static enum ldr_status map_some_way(struct ldr_file *file, uint64_t offset, size_t length,
				    unsigned flags, struct ldr_mapping *out, struct ldr_error *err)
{
	struct ldr_error why;
	enum ldr_status status = LDR_EUNSUPPORTED;

	ldr_why_begin(&why);
	if (length > 0 && file->layer.ops->map)
		status = file->layer.ops->map(&file->layer, offset, length, out, &why);
	if (status == LDR_EUNSUPPORTED && (flags & LDR_MAP_COPY))
		return map_copy(file, offset, length, out, err);
	if (status == LDR_EUNSUPPORTED)
		return ldr_fail(err, status,
				"map: %zu bytes at %llu do not lie in memory in one piece", length,
				(unsigned long long)offset);
	return status == LDR_OK ? status : ldr_why_tell(&why, status, err);
}

enum ldr_status ldr_file_map(struct ldr_file *file, uint64_t offset, size_t length, unsigned flags,
			     struct ldr_mapping *out, struct ldr_error *err)
{
	struct ldr_mapping mapping = {.length = length};
	struct ldr_stat now;
	enum ldr_status status = check_mode(file, MAY_READ, "map", err);

	if (status == LDR_OK)
		status = check_range("map", length, offset, err);
	if (status == LDR_OK)
		status = stat_now(file, &now, err);
	if (status != LDR_OK)
		return status;
	if (flags & ~(unsigned)LDR_MAP_COPY)
		return ldr_fail(err, LDR_EINVAL, "map: flags 0x%x, known are 0x%x", flags,
				LDR_MAP_COPY);
	if (offset + length > now.size_bytes)
		return ldr_fail(err, LDR_EINVAL, "map: %zu bytes at %llu, the file has %llu",
				length, (unsigned long long)offset,
				(unsigned long long)now.size_bytes);
	status = map_some_way(file, offset, length, flags, &mapping, err);
	if (status != LDR_OK)
		return status;
	mapping.file = ldr_file_ref(file);
	*out = mapping;
	return LDR_OK;
}

void ldr_file_unmap(struct ldr_mapping *mapping)
{
	struct ldr_file *file = mapping->file;

	if (mapping->copied)
		free((void *)(uintptr_t)mapping->bytes);
	else if (file->layer.ops->unmap)
		file->layer.ops->unmap(&file->layer, mapping);
	*mapping = (struct ldr_mapping){.length = 0};
	ldr_file_unref(file);
}

/* ---- cursors ---- */

enum ldr_status ldr_file_cursor_read(struct ldr_file_cursor *cursor, void *bytes, size_t length,
				     size_t *out_length, struct ldr_error *err)
{
	size_t got;
	enum ldr_status status = ldr_file_pread(cursor->file, bytes, length, cursor->offset, &got,
						err);

	if (status != LDR_OK)
		return status;
	cursor->offset += got;
	*out_length = got;
	return LDR_OK;
}

enum ldr_status ldr_file_cursor_write(struct ldr_file_cursor *cursor, const void *bytes,
				      size_t length, struct ldr_error *err)
{
	struct ldr_file *file = cursor->file;
	enum ldr_status status;

	if (!(file->flags & LDR_OPEN_APPEND)) {
		status = ldr_file_pwrite(file, bytes, length, cursor->offset, err);
		cursor->offset += status == LDR_OK ? length : 0;
		return status;
	}
	status = check_mode(file, MAY_WRITE, "write", err);
	if (status != LDR_OK)
		return status;
	status = file->layer.ops->append(&file->layer, bytes, length, &cursor->offset, err);
	return status == LDR_OK ? status : ldr_why_check(status, err);
}

static enum ldr_status seek_base(const struct ldr_file_cursor *cursor, enum ldr_whence whence,
				 uint64_t *out_base, struct ldr_error *err)
{
	struct ldr_stat now;
	enum ldr_status status;

	switch (whence) {
	case LDR_FROM_START:
		*out_base = 0;
		return LDR_OK;
	case LDR_FROM_CURRENT:
		*out_base = cursor->offset;
		return LDR_OK;
	case LDR_FROM_END:
		status = ldr_file_stat(cursor->file, &now, err);
		if (status == LDR_OK)
			*out_base = now.size_bytes;
		return status;
	}
	return ldr_fail(err, LDR_EINVAL, "seek: from where: %d", (int)whence);
}

enum ldr_status ldr_file_cursor_seek(struct ldr_file_cursor *cursor, int64_t distance,
				     enum ldr_whence whence, uint64_t *out_offset,
				     struct ldr_error *err)
{
	uint64_t base = 0, reach;
	enum ldr_status status = seek_base(cursor, whence, &base, err);

	if (status != LDR_OK)
		return status;
	reach = distance < 0 ? -(uint64_t)distance : (uint64_t)distance;
	if (distance < 0 ? reach > base : reach > UINT64_MAX - base)
		return ldr_fail(err, LDR_EINVAL, "seek: %lld from %llu leaves the range of offsets",
				(long long)distance, (unsigned long long)base);
	cursor->offset = distance < 0 ? base - reach : base + reach;
	if (out_offset)
		*out_offset = cursor->offset;
	return LDR_OK;
}
