/*
 * target_host.c   base:stdio and base:posix.
 */
#include "bench/vfs_bench/target_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/vfs_bench/env.h"

bool bench_host_up(const struct bench_target *target, struct bench_env *env,
		   struct bench_instance *out)
{
	(void)target;
	out->self = NULL;
	out->data_prefix = bench_copy(env->tree);
	out->write_prefix = bench_join(env->tree, "write");
	return true;
}

void bench_host_down(void *self)
{
	(void)self;
}

bool bench_host_stat(void *self, const char *path, uint64_t *out_size)
{
	struct stat held;

	(void)self;
	if (stat(path, &held))
		return false;
	*out_size = (uint64_t)held.st_size;
	return true;
}

bool bench_host_absent(void *self, const char *path)
{
	struct stat held;

	(void)self;
	return stat(path, &held) && (errno == ENOENT || errno == ENOTDIR);
}

bool bench_host_list(void *self, const char *folder, uint64_t *out_count)
{
	DIR *stream = opendir(folder);
	uint64_t count = 0;

	(void)self;
	if (!stream)
		return false;
	while (readdir(stream))
		count++;
	closedir(stream);
	*out_count = count - 2; /* . and .. */
	return true;
}

bool bench_host_make_folder(void *self, const char *path)
{
	(void)self;
	return !mkdir(path, 0755) || errno == EEXIST;
}

bool bench_host_remove(void *self, const char *path)
{
	(void)self;
	return !remove(path);
}

/* ---- stdio ---- */

static bool stdio_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	static const char *const modes[] = {"rbe", "wbe", "r+be", "abe"};

	(void)self;
	file->object = fopen(path, modes[mode]);
	return file->object != NULL;
}

static void stdio_close(struct bench_file *file)
{
	fclose(file->object);
}

static bool stdio_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	*out_length = fread(bytes, 1, length, file->object);
	return *out_length == length || !ferror(file->object);
}

static bool stdio_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			  size_t *out_length)
{
	return !fseeko(file->object, (off_t)offset, SEEK_SET) &&
	       stdio_read(file, bytes, length, out_length);
}

static bool stdio_write(struct bench_file *file, const void *bytes, size_t length)
{
	return fwrite(bytes, 1, length, file->object) == length;
}

static bool stdio_write_at(struct bench_file *file, const void *bytes, size_t length,
			   uint64_t offset)
{
	return !fseeko(file->object, (off_t)offset, SEEK_SET) && stdio_write(file, bytes, length);
}

static const struct bench_ops stdio_ops = {
	.open = stdio_open,
	.close = stdio_close,
	.read = stdio_read,
	.read_at = stdio_read_at,
	.write = stdio_write,
	.write_at = stdio_write_at,
	.stat = bench_host_stat,
	.absent = bench_host_absent,
	.list = bench_host_list,
	.make_folder = bench_host_make_folder,
	.remove = bench_host_remove,
};

const struct bench_target bench_target_stdio = {
	.name = "base:stdio",
	.traits = BENCH_WRITES | BENCH_HANDLE_WRITES | BENCH_OPENS,
	.ops = &stdio_ops,
	.up = bench_host_up,
	.down = bench_host_down,
};

/* ---- posix ---- */

static bool posix_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_CREAT,
				    O_WRONLY | O_CREAT | O_APPEND};
	int fd = open(path, flags[mode] | O_CLOEXEC, 0644);

	(void)self;
	file->word[0] = (uint64_t)fd;
	return fd >= 0;
}

static void posix_close(struct bench_file *file)
{
	close((int)file->word[0]);
}

static bool posix_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	ssize_t got = read((int)file->word[0], bytes, length);

	*out_length = got < 0 ? 0 : (size_t)got;
	return got >= 0;
}

static bool posix_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			  size_t *out_length)
{
	ssize_t got = pread((int)file->word[0], bytes, length, (off_t)offset);

	*out_length = got < 0 ? 0 : (size_t)got;
	return got >= 0;
}

static bool posix_write(struct bench_file *file, const void *bytes, size_t length)
{
	return write((int)file->word[0], bytes, length) == (ssize_t)length;
}

static bool posix_write_at(struct bench_file *file, const void *bytes, size_t length,
			   uint64_t offset)
{
	return pwrite((int)file->word[0], bytes, length, (off_t)offset) == (ssize_t)length;
}

static const struct bench_ops posix_ops = {
	.open = posix_open,
	.close = posix_close,
	.read = posix_read,
	.read_at = posix_read_at,
	.write = posix_write,
	.write_at = posix_write_at,
	.stat = bench_host_stat,
	.absent = bench_host_absent,
	.list = bench_host_list,
	.make_folder = bench_host_make_folder,
	.remove = bench_host_remove,
};

const struct bench_target bench_target_posix = {
	.name = "base:posix",
	.traits = BENCH_WRITES | BENCH_HANDLE_WRITES | BENCH_OPENS,
	.ops = &posix_ops,
	.up = bench_host_up,
	.down = bench_host_down,
};
