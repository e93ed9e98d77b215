/*
 * crashdisk MOUNTPOINT SEED   a disk image that remembers everything it was asked to do.
 *
 * A FUSE file system of four files, for one loop device on d0:
 *   d0    the image, beginning as SEED (which is never changed)
 *   mark  each write(2) becomes one mark in the log
 *   ctl   orders: "record on", "record off", "fail write N", "fail flush N" (the N-th from now, once)
 *   log   reads as the log so far (core/log.h)
 *
 * Invariants
 *  1. One thread serves all requests, so the log's order is the order of arrival, and a flush follows
 *     every write that completed before it was sent.
 *  2. The log stays in memory: serving a request never writes to a file, so it cannot wait for the file
 *     system under test.
 *  3. There is no flush operation (ENOSYS): a process that forks and executes while holding one of these
 *     files never waits for this one at close.
 *  4. A write or flush that is ordered to fail leaves neither image nor log changed.
 *  5. Past the log's limit everything fails with ENOSPC, which ends the recording visibly.
 */
#define FUSE_USE_VERSION 312

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/recovery/core/log.h"

enum node { NODE_ROOT = FUSE_ROOT_ID, NODE_DISK, NODE_MARK, NODE_CTL, NODE_LOG, NODE_END };

static const char *const node_names[NODE_END] = {
	[NODE_DISK] = "d0", [NODE_MARK] = "mark", [NODE_CTL] = "ctl", [NODE_LOG] = "log"};

struct disk {
	uint8_t *image;
	size_t image_bytes;
	uint8_t *log;
	size_t log_bytes;
	size_t log_room;
	bool recording;
	unsigned fail_write; /* 0: never; else how many until the one that fails */
	unsigned fail_flush;
};

static struct disk *disk_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static bool log_reserve(struct disk *disk, size_t more)
{
	size_t room = disk->log_room ? disk->log_room : 1 << 20;
	uint8_t *grown;

	if (more > CRASH_LOG_MAX_BYTES - disk->log_bytes)
		return false;
	while (room < disk->log_bytes + more)
		room *= 2;
	if (room == disk->log_room)
		return true;
	grown = realloc(disk->log, room);
	if (!grown)
		return false;
	disk->log = grown;
	disk->log_room = room;
	return true;
}

static bool log_append(struct disk *disk, const struct crash_record *record)
{
	size_t payload = record->data ? record->length : 0;

	if (!disk->recording)
		return true;
	if (!log_reserve(disk, CRASH_LOG_RECORD_BYTES + payload))
		return false;
	crash_log_put_record(disk->log + disk->log_bytes, record);
	disk->log_bytes += CRASH_LOG_RECORD_BYTES;
	if (payload)
		memcpy(disk->log + disk->log_bytes, record->data, payload);
	disk->log_bytes += payload;
	return true;
}

/* Counts down to the request that is ordered to fail. */
static bool fails_now(unsigned *countdown)
{
	return *countdown && --*countdown == 0;
}

static void attributes(const struct disk *disk, fuse_ino_t node, struct stat *out)
{
	memset(out, 0, sizeof(*out));
	out->st_ino = node;
	out->st_nlink = 1;
	out->st_mode = node == NODE_ROOT ? S_IFDIR | 0700 : S_IFREG | 0600;
	if (node == NODE_DISK)
		out->st_size = (off_t)disk->image_bytes;
	if (node == NODE_LOG)
		out->st_size = (off_t)disk->log_bytes;
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->max_write = 1 << 20;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {0};

	for (fuse_ino_t node = NODE_DISK; parent == NODE_ROOT && node < NODE_END; node++) {
		if (strcmp(name, node_names[node]) == 0) {
			entry.ino = node;
			attributes(disk_of(req), node, &entry.attr);
			fuse_reply_entry(req, &entry);
			return;
		}
	}
	fuse_reply_err(req, ENOENT);
}

static void on_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *file)
{
	struct stat found;

	(void)file;
	attributes(disk_of(req), node, &found);
	fuse_reply_attr(req, &found, 0);
}

/* Opening with O_TRUNC asks for length 0; nothing here changes its length. */
static void on_setattr(fuse_req_t req, fuse_ino_t node, struct stat *wanted, int which,
		       struct fuse_file_info *file)
{
	(void)wanted;
	(void)which;
	on_getattr(req, node, file);
}

static void on_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *file)
{
	(void)node;
	file->direct_io = 1;
	fuse_reply_open(req, file);
}

static void on_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	struct disk *disk = disk_of(req);
	const uint8_t *bytes = node == NODE_DISK ? disk->image : disk->log;
	size_t length = node == NODE_DISK ? disk->image_bytes : disk->log_bytes;
	size_t from = (size_t)offset;

	(void)file;
	if (node != NODE_DISK && node != NODE_LOG)
		length = 0;
	if (from >= length) {
		fuse_reply_buf(req, NULL, 0);
		return;
	}
	fuse_reply_buf(req, (const char *)bytes + from,
		       size < length - from ? size : length - from);
}

static int order(struct disk *disk, const char *text)
{
	unsigned number;

	if (strcmp(text, "record on") == 0)
		disk->recording = true;
	else if (strcmp(text, "record off") == 0)
		disk->recording = false;
	else if (sscanf(text, "fail write %u", &number) == 1)
		disk->fail_write = number;
	else if (sscanf(text, "fail flush %u", &number) == 1)
		disk->fail_flush = number;
	else
		return EINVAL;
	return 0;
}

static int write_disk(struct disk *disk, const char *bytes, size_t size, uint64_t offset)
{
	struct crash_record record = {.type = CRASH_WRITE, .offset = offset, .length = size};

	if (offset > disk->image_bytes || size > disk->image_bytes - offset)
		return ENOSPC;
	if (fails_now(&disk->fail_write))
		return EIO;
	record.data = (const uint8_t *)bytes;
	if (!log_append(disk, &record))
		return ENOSPC;
	memcpy(disk->image + offset, bytes, size);
	return 0;
}

static int write_mark(struct disk *disk, const char *bytes, size_t size)
{
	struct crash_record record = {.type = CRASH_MARK, .length = size};

	if (size && bytes[size - 1] == '\n')
		record.length--;
	record.data = (const uint8_t *)bytes;
	return log_append(disk, &record) ? 0 : ENOSPC;
}

static int write_order(struct disk *disk, const char *bytes, size_t size)
{
	char text[64];

	if (size && bytes[size - 1] == '\n')
		size--;
	if (size >= sizeof(text))
		return EINVAL;
	memcpy(text, bytes, size);
	text[size] = 0;
	return order(disk, text);
}

static void on_write(fuse_req_t req, fuse_ino_t node, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *file)
{
	struct disk *disk = disk_of(req);
	int error = EACCES;

	(void)file;
	if (node == NODE_DISK)
		error = write_disk(disk, bytes, size, (uint64_t)offset);
	else if (node == NODE_MARK)
		error = write_mark(disk, bytes, size);
	else if (node == NODE_CTL)
		error = write_order(disk, bytes, size);
	if (error)
		fuse_reply_err(req, error);
	else
		fuse_reply_write(req, size);
}

static void on_fsync(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *file)
{
	struct crash_record record = {.type = CRASH_FLUSH};
	struct disk *disk = disk_of(req);
	int error = 0;

	(void)datasync;
	(void)file;
	if (node == NODE_DISK && fails_now(&disk->fail_flush))
		error = EIO;
	else if (node == NODE_DISK && !log_append(disk, &record))
		error = ENOSPC;
	fuse_reply_err(req, error);
}

/* Discards and zeroing writes of the loop device. */
static void on_fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length,
			 struct fuse_file_info *file)
{
	struct disk *disk = disk_of(req);
	struct crash_record record = {.type = CRASH_DISCARD};
	int error = 0;

	(void)file;
	record.offset = (uint64_t)offset;
	record.length = (uint64_t)length;
	if (node != NODE_DISK || !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		error = EOPNOTSUPP;
	else if (record.offset > disk->image_bytes ||
		 record.length > disk->image_bytes - record.offset)
		error = ENOSPC;
	else if (!log_append(disk, &record))
		error = ENOSPC;
	else
		memset(disk->image + record.offset, 0, record.length);
	fuse_reply_err(req, error);
}

static const struct fuse_lowlevel_ops operations = {
	.init = on_init,
	.lookup = on_lookup,
	.getattr = on_getattr,
	.setattr = on_setattr,
	.open = on_open,
	.read = on_read,
	.write = on_write,
	.fsync = on_fsync,
	.fallocate = on_fallocate,
};

/* A private mapping: pages of the seed that nobody writes stay shared with its file. */
static int disk_open(struct disk *disk, const char *seed)
{
	struct stat found;
	int fd = open(seed, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &found) != 0) {
		fprintf(stderr, "crashdisk: %s: %s\n", seed, strerror(errno));
		return -1;
	}
	disk->image_bytes = (size_t)found.st_size;
	disk->image = mmap(NULL, disk->image_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	close(fd);
	if (disk->image == MAP_FAILED || !log_reserve(disk, CRASH_LOG_HEAD_BYTES)) {
		fprintf(stderr, "crashdisk: %s: %s\n", seed, strerror(errno));
		return -1;
	}
	crash_log_put_head(disk->log);
	disk->log_bytes = CRASH_LOG_HEAD_BYTES;
	return 0;
}

static int serve(struct disk *disk, const char *program, const char *mountpoint)
{
	char *argv[] = {(char *)(uintptr_t)program, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session = fuse_session_new(&args, &operations, sizeof(operations),
							disk);
	int rc = 1;

	if (!session)
		return 1;
	if (fuse_set_signal_handlers(session) == 0) {
		if (fuse_session_mount(session, mountpoint) == 0) {
			rc = fuse_session_loop(session);
			fuse_session_unmount(session);
		}
		fuse_remove_signal_handlers(session);
	}
	fuse_session_destroy(session);
	return rc == 0 || rc == SIGTERM ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct disk disk = {0};
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: crashdisk MOUNTPOINT SEED\n");
		return 2;
	}
	if (disk_open(&disk, argv[2]) != 0)
		return 1;
	rc = serve(&disk, argv[0], argv[1]);
	free(disk.log);
	munmap(disk.image, disk.image_bytes);
	return rc;
}
