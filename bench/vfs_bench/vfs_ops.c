/*
 * vfs_ops.c   the operations of all targets of Larder.
 */
#include "bench/vfs_bench/vfs_mounts.h"
#include "bench/vfs_bench/vfs_targets.h"
#include "vfs/file.h"
#include "vfs/vfs.h"

static struct ldr_vfs *vfs_of(void *self)
{
	return ((struct bench_mounts *)self)->vfs;
}

static bool good(enum ldr_status status, const char *what)
{
	if (status == LDR_OK)
		return true;
	bench_say("%s: %s", what, ldr_status_name(status));
	return false;
}

static bool vfs_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	static const unsigned flags[] = {LDR_OPEN_READ, LDR_OPEN_WRITE, LDR_OPEN_OVERLAPPED,
					 LDR_OPEN_APPEND};
	struct ldr_file *opened = NULL;

	if (!good(ldr_vfs_open(vfs_of(self), path, flags[mode], &opened, NULL), "ldr_vfs_open"))
		return false;
	file->object = opened;
	file->offset = 0;
	return true;
}

static void vfs_close(struct bench_file *file)
{
	ldr_file_close(file->object);
}

static bool vfs_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			size_t *out_length)
{
	return good(ldr_file_pread(file->object, bytes, length, offset, out_length, NULL),
		    "ldr_file_pread");
}

static bool vfs_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	if (!vfs_read_at(file, bytes, length, file->offset, out_length))
		return false;
	file->offset += *out_length;
	return true;
}

static bool vfs_write_at(struct bench_file *file, const void *bytes, size_t length, uint64_t offset)
{
	return good(ldr_file_pwrite(file->object, bytes, length, offset, NULL), "ldr_file_pwrite");
}

static bool vfs_write(struct bench_file *file, const void *bytes, size_t length)
{
	if (!vfs_write_at(file, bytes, length, file->offset))
		return false;
	file->offset += length;
	return true;
}

static bool vfs_stat(void *self, const char *path, uint64_t *out_size)
{
	struct ldr_stat stat;

	if (!good(ldr_vfs_stat(vfs_of(self), path, &stat, NULL), "ldr_vfs_stat"))
		return false;
	*out_size = stat.size_bytes;
	return true;
}

static bool vfs_absent(void *self, const char *path)
{
	enum ldr_status status = ldr_vfs_exists(vfs_of(self), path, NULL);

	return status == LDR_ENOTFOUND || status == LDR_ENOTDIR;
}

static bool vfs_list(void *self, const char *folder, uint64_t *out_count)
{
	struct ldr_list *list = NULL;
	uint64_t count = 0;

	if (!good(ldr_vfs_list(vfs_of(self), folder, &list, NULL), "ldr_vfs_list"))
		return false;
	for (size_t i = 0; i < ldr_list_count(list); i++) {
		struct ldr_list_entry entry;

		ldr_list_at(list, i, &entry);
		count += entry.name_bytes > 0;
	}
	ldr_list_free(list);
	*out_count = count;
	return true;
}

static bool vfs_make_folder(void *self, const char *path)
{
	enum ldr_status status = ldr_vfs_mkdir(vfs_of(self), path, NULL);

	return status == LDR_EEXISTS || good(status, "ldr_vfs_mkdir");
}

static bool vfs_remove(void *self, const char *path)
{
	return good(ldr_vfs_remove(vfs_of(self), path, NULL), "ldr_vfs_remove");
}

const struct bench_ops bench_vfs_ops = {
	.open = vfs_open,
	.close = vfs_close,
	.read = vfs_read,
	.read_at = vfs_read_at,
	.write = vfs_write,
	.write_at = vfs_write_at,
	.stat = vfs_stat,
	.absent = vfs_absent,
	.list = vfs_list,
	.make_folder = vfs_make_folder,
	.remove = vfs_remove,
};
