/*
 * Archives inside mounts; see layer_inner.h.
 */
#include "vfs/layer_inner.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os.h"
#include "vfs/layer_tree_priv.h"
#include "vfs/vfs_priv.h"

#define DEFAULT_DEPTH 8u
#define DEFAULT_COPY_BYTES (UINT64_C(256) * 1024 * 1024)
#define COPY_BUFFER_BYTES ((size_t)256 * 1024)

static enum ldr_status copy_bytes(struct ldr_file *file, const char *path, uint64_t length, int fd,
				  struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *buffer = malloc(COPY_BUFFER_BYTES);
	uint64_t offset = 0;

	if (!buffer)
		return ldr_fail(err, LDR_ENOMEM, "archive %s: out of memory", path);
	while (offset < length) {
		size_t got;
		enum ldr_status status = ldr_file_pread(file, buffer, COPY_BUFFER_BYTES, offset,
							&got, err);
		int code;

		if (status != LDR_OK)
			return status;
		if (got == 0)
			return ldr_fail(err, LDR_ECHANGED,
					"archive %s: ends at %" PRIu64 ", was to hold %" PRIu64,
					path, offset, length);
		code = ldr_os_write(fd, buffer, got);
		if (code)
			return ldr_fail_errno(err, code, "archive %s: copy to memory", path);
		offset += got;
	}
	return LDR_OK;
}

static enum ldr_status copy_to_memory(struct ldr_file *file, const char *path,
				      const struct ldr_inner_options *options, int *out_fd,
				      struct ldr_error *err)
{
	LDR_AUTO_FD int fd = -1;
	struct ldr_stat now;
	enum ldr_status status = ldr_file_stat(file, &now, err);
	int code;

	if (status != LDR_OK)
		return status;
	if (now.size_bytes > options->max_copy_bytes)
		return ldr_fail(err, LDR_ELIMIT,
				"archive %s: %" PRIu64 " bytes to be copied, limit %" PRIu64, path,
				now.size_bytes, options->max_copy_bytes);
	code = ldr_os_memory_file("larder-archive", &fd);
	if (code)
		return ldr_fail_errno(err, code, "archive %s: copy to memory", path);
	status = copy_bytes(file, path, now.size_bytes, fd, err);
	if (status == LDR_OK)
		*out_fd = ldr_steal_fd(&fd);
	return status;
}

/* A descriptor of its own with exactly the file's bytes. */
static enum ldr_status descriptor_of(struct ldr_file *file, const char *path,
				     const struct ldr_inner_options *options, int *out_fd,
				     struct ldr_error *err)
{
	const struct ldr_file_ops *ops = file->layer.ops;
	int code;

	if (!ops->descriptor)
		return copy_to_memory(file, path, options, out_fd, err);
	code = ldr_os_duplicate(ops->descriptor(&file->layer), out_fd);
	return code ? ldr_fail_errno(err, code, "archive %s: open", path) : LDR_OK;
}

static enum ldr_status open_inside(struct ldr_file *file, const char *path,
				   const struct ldr_inner_options *options,
				   struct ldr_layer **out_layer, struct ldr_error *err)
{
	uint32_t depth = file->mounted->layer->depth + 1;
	enum ldr_status status;
	int fd;

	if (depth > options->max_depth)
		return ldr_fail(err, LDR_ELIMIT, "archive %s: %u archives one in another, limit %u",
				path, depth, options->max_depth);
	status = descriptor_of(file, path, options, &fd, err);
	if (status == LDR_OK)
		status = ldr_layer_archive_open_fd(fd, path, options->archive, out_layer, err);
	if (status == LDR_OK)
		(*out_layer)->depth = depth;
	return status;
}

enum ldr_status ldr_layer_archive_open_inside(struct ldr_vfs *vfs, const char *path,
					      const struct ldr_inner_options *options,
					      struct ldr_layer **out_layer, struct ldr_error *err)
{
	struct ldr_inner_options given = {.size = sizeof(given)};
	LDR_AUTO_FILE struct ldr_file *file = NULL;
	enum ldr_status status;

	if (options && options->size != sizeof(*options))
		return ldr_fail(err, LDR_EINVAL, "inner archive options: %zu bytes, known are %zu",
				options->size, sizeof(*options));
	if (options)
		given = *options;
	given.max_depth = given.max_depth ? given.max_depth : DEFAULT_DEPTH;
	given.max_copy_bytes = given.max_copy_bytes ? given.max_copy_bytes : DEFAULT_COPY_BYTES;
	status = ldr_vfs_open(vfs, path, LDR_OPEN_READ, &file, err);
	return status == LDR_OK ? open_inside(file, path, &given, out_layer, err) : status;
}
