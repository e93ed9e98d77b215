/*
 * A pack's bytes, by pread or by a mapping; see pack_priv.h.
 */
#include <inttypes.h>

#include "common/os.h"
#include "packs/pack_priv.h"

#define PACK_BYTES_DEFAULT (UINT64_C(1) << 40)

static enum ldr_status check_size(struct pack_file *file, const char *name,
				  const struct ldr_pack_options *options, uint64_t file_bytes,
				  struct ldr_error *err)
{
	uint64_t limit = options->max_pack_bytes ? options->max_pack_bytes : PACK_BYTES_DEFAULT;
	uint64_t room = options->base < file_bytes ? file_bytes - options->base : 0;
	uint64_t size = options->length ? options->length : room;

	if (limit > PACK_BYTES_MAX)
		limit = PACK_BYTES_MAX;
	if (size > room)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: length %" PRIu64 " at %" PRIu64 ", the file has %" PRIu64
				" bytes",
				name, size, options->base, file_bytes);
	if (size < PACK_BYTES_MIN)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: %" PRIu64 " bytes, an empty pack has %u", name, size,
				PACK_BYTES_MIN);
	if (size > limit)
		return ldr_fail(err, LDR_ELIMIT, "pack %s: %" PRIu64 " bytes, limit %" PRIu64, name,
				size, limit);
	file->base = options->base;
	file->size_bytes = size;
	return LDR_OK;
}

/* Maps the file up to the pack's end (what lies before the pack costs address space only), and closes
 * the descriptor. */
static enum ldr_status map_file(struct pack_file *file, const char *name, struct ldr_error *err)
{
	uint64_t end = file->base + file->size_bytes;
	const void *start;
	int code;

	if (end > SIZE_MAX)
		return ldr_fail(err, LDR_ELIMIT,
				"pack %s: ends at %" PRIu64 ", a mapping has at most %zu bytes",
				name, end, SIZE_MAX);
	code = ldr_os_map(file->fd, (size_t)end, &start);
	if (code)
		return ldr_fail_errno(err, code, "pack %s: mapping %" PRIu64 " bytes", name, end);
	file->map_start = start;
	file->map_length = (size_t)end;
	file->map = (const uint8_t *)start + file->base;
	ldr_os_close(ldr_steal_fd(&file->fd));
	return LDR_OK;
}

enum ldr_status ldr_pack_file_init(struct pack_file *file, const char *name,
				   const struct ldr_pack_options *options, struct ldr_error *err)
{
	enum ldr_status status;
	struct stat info;
	int code;

	code = ldr_os_stat(file->fd, &info);
	if (code)
		return ldr_fail_errno(err, code, "pack %s: looking at it", name);
	if (S_ISDIR(info.st_mode))
		return ldr_fail(err, LDR_EISDIR, "pack %s: is a folder", name);
	if (!S_ISREG(info.st_mode))
		return ldr_fail(err, LDR_ENOTREG, "pack %s: not a regular file", name);
	status = check_size(file, name, options, (uint64_t)info.st_size, err);
	if (status == LDR_OK && (options->mode & LDR_PACK_MAP))
		status = map_file(file, name, err);
	return status;
}

void ldr_pack_file_dispose(struct pack_file *file)
{
	if (file->map_start)
		ldr_os_unmap(file->map_start, file->map_length);
	ldr_cleanup_fd(&file->fd);
	*file = (struct pack_file){.fd = -1};
}

enum ldr_status ldr_pack_file_read(const struct pack_file *file, const char *name, uint64_t offset,
				   void *bytes, size_t length, struct ldr_error *err)
{
	size_t got = 0;
	int code;

	if (offset > file->size_bytes || length > file->size_bytes - offset)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: %zu bytes at %" PRIu64 ", size %" PRIu64, name, length,
				offset, file->size_bytes);
	if (file->map) {
		ldr_copy(bytes, file->map + offset, length);
		return LDR_OK;
	}
	code = ldr_os_pread(file->fd, bytes, length, file->base + offset, &got);
	if (code)
		return ldr_fail_errno(err, code, "pack %s: reading %zu bytes at %" PRIu64, name,
				      length, offset);
	if (got != length)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: ends at %" PRIu64 ", its size was %" PRIu64, name,
				offset + got, file->size_bytes);
	return LDR_OK;
}
