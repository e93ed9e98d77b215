/* Images, loop devices, mounts; see disk.h. */
#include "tests/recovery/core/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/process.h"

#define LOOP_MAJOR 7
#define LOOP_TRIES 200
#define UNMOUNT_TRIES 200
#define PAUSE_NS 10000000

#define UUID_EXT4 "5d6a1c1e-4d1f-4b43-9d3f-0c5a6b1e7f01"
#define UUID_XFS "5d6a1c1e-4d1f-4b43-9d3f-0c5a6b1e7f02"

#define MKFS_EXT4                                               \
	"mkfs.ext4", "-F", "-b", "4096", "-U", UUID_EXT4, "-E", \
		"lazy_itable_init=0,lazy_journal_init=0,hash_seed=" UUID_EXT4
#define MiB (UINT64_C(1) << 20)

const struct crash_leg crash_legs[] = {
	{.name = "ext4",
	 .type = "ext4",
	 .image_bytes = 64 * MiB,
	 .mkfs = {MKFS_EXT4},
	 .fsck = {"e2fsck", "-fn"},
	 .options = "nodiscard",
	 .commit_kind = "c",
	 .exempt_count = 1,
	 .exempt = {{1024, 2048}}},
	{.name = "ext4-noauto",
	 .type = "ext4",
	 .image_bytes = 64 * MiB,
	 .mkfs = {MKFS_EXT4},
	 .fsck = {"e2fsck", "-fn"},
	 .options = "nodiscard,noauto_da_alloc",
	 .commit_kind = "c",
	 .exempt_count = 1,
	 .exempt = {{1024, 2048}}},
	/* Smaller ones are refused by mkfs.xfs. */
	{.name = "xfs",
	 .type = "xfs",
	 .image_bytes = 320 * MiB,
	 .mkfs = {"mkfs.xfs", "-f", "-m", "uuid=" UUID_XFS},
	 .fsck = {"xfs_repair", "-n", "-f"},
	 .options = "nodiscard,nouuid",
	 .commit_kind = "c"},
	{.name = "btrfs",
	 .type = "btrfs",
	 .image_bytes = 128 * MiB,
	 .mkfs = {"mkfs.btrfs", "-f"},
	 .fsck = {"btrfs", "check", "--readonly"},
	 .options = "nodiscard",
	 .commit_kind = "t",
	 .exempt_count = 2,
	 .exempt = {{65536, 69632}, {64 * MiB, 64 * MiB + 4096}}},
};
const size_t crash_leg_count = sizeof(crash_legs) / sizeof(crash_legs[0]);

static void pause_briefly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

const struct crash_leg *crash_leg_find(const char *name, size_t length)
{
	for (size_t i = 0; i < crash_leg_count; i++) {
		if (strlen(crash_legs[i].name) == length &&
		    memcmp(crash_legs[i].name, name, length) == 0)
			return &crash_legs[i];
	}
	return NULL;
}

bool crash_find_program(const char *name, char *out_path, size_t room)
{
	static const char *const folders[] = {"/usr/sbin", "/sbin",           "/usr/bin",
					      "/bin",      "/usr/local/sbin", "/usr/local/bin"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(out_path, room, "%s/%s", folders[i], name);
		if (access(out_path, X_OK) == 0)
			return true;
	}
	return false;
}

static bool kernel_knows(const char *type)
{
	FILE *file = fopen("/proc/filesystems", "re");
	char line[128];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *name = strrchr(line, '\t');

		line[strcspn(line, "\n")] = 0;
		found = name && strcmp(name + 1, type) == 0;
	}
	if (file)
		fclose(file);
	return found;
}

bool crash_leg_available(const struct crash_leg *leg, char *out_text, size_t room)
{
	char path[CRASH_PATH_BYTES];

	if (!crash_find_program(leg->mkfs[0], path, sizeof(path))) {
		snprintf(out_text, room, "%s is not installed", leg->mkfs[0]);
		return false;
	}
	if (!kernel_knows(leg->type)) {
		snprintf(out_text, room, "this kernel has no %s", leg->type);
		return false;
	}
	return true;
}

enum ldr_status crash_disk_format(const struct crash_leg *leg, const char *path,
				  const char *output_path, struct ldr_error *err)
{
	LDR_AUTO_FD int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	const char *argv[CRASH_MKFS_WORDS + 2] = {0};
	const char *const env[] = {"E2FSPROGS_FAKE_TIME=1700000000", NULL};
	struct crash_spawn spawn = {
		.argv = argv, .env = env, .output = output_path, .limit_ms = 60000};
	char program[CRASH_PATH_BYTES];
	size_t words = 0;
	int status;

	if (fd < 0 || ftruncate(fd, (off_t)leg->image_bytes) != 0)
		return ldr_fail_errno(err, errno, "image %s", path);
	if (!crash_find_program(leg->mkfs[0], program, sizeof(program)))
		return ldr_fail(err, LDR_EUNSUPPORTED, "%s is not installed", leg->mkfs[0]);
	for (; leg->mkfs[words]; words++)
		argv[words] = words ? leg->mkfs[words] : program;
	argv[words] = path;
	status = crash_spawn_wait(&spawn);
	if (status != 0)
		return ldr_fail(err, LDR_EIO, "%s: exit status %d", leg->mkfs[0], status);
	return LDR_OK;
}

/* ---- loop devices and mounts ----------------------------------------------------------------------- */

static enum ldr_status node_of(const char *beside, int number, char *out_path, size_t room,
			       struct ldr_error *err)
{
	const char *slash = strrchr(beside, '/');

	snprintf(out_path, room, "%.*s/loop%d", slash ? (int)(slash - beside) : 1,
		 slash ? beside : ".", number);
	if (mknod(out_path, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)number)) != 0 &&
	    errno != EEXIST)
		return ldr_fail_errno(err, errno, "node %s", out_path);
	return LDR_OK;
}

/* Others take from the same pool: a device that was free may be busy by the time it is configured. */
static enum ldr_status attach(const char *image, bool direct_io, const char *mountpoint,
			      char *out_node, size_t room, int *out_fd, struct ldr_error *err)
{
	LDR_AUTO_FD int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	LDR_AUTO_FD int file = open(image, O_RDWR | O_CLOEXEC);
	struct loop_config config = {.info.lo_flags = LO_FLAGS_AUTOCLEAR};

	if (control < 0 || file < 0)
		return ldr_fail_errno(err, errno, "%s", control < 0 ? "/dev/loop-control" : image);
	config.fd = (unsigned)file;
	config.block_size = 512;
	if (direct_io)
		config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
	for (int i = 0; i < LOOP_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE), fd;
		enum ldr_status status;

		if (number < 0)
			return ldr_fail_errno(err, errno, "no free loop device");
		status = node_of(mountpoint, number, out_node, room, err);
		if (status)
			return status;
		fd = open(out_node, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
			*out_fd = fd;
			return LDR_OK;
		}
		if (fd >= 0)
			close(fd);
		if (errno != EBUSY && errno != ENXIO)
			return ldr_fail_errno(err, errno, "%s over %s", out_node, image);
		pause_briefly();
	}
	return ldr_fail(err, LDR_EAGAIN, "no free loop device after %d tries", LOOP_TRIES);
}

enum ldr_status crash_disk_mount(const struct crash_leg *leg, const char *image, bool direct_io,
				 const char *mountpoint, int *out_errno, struct ldr_error *err)
{
	char node[CRASH_PATH_BYTES];
	LDR_AUTO_FD int fd = -1;
	enum ldr_status status = attach(image, direct_io, mountpoint, node, sizeof(node), &fd, err);

	if (status)
		return status;
	*out_errno = 0;
	if (mount(node, mountpoint, leg->type, MS_NOATIME, leg->options) != 0)
		*out_errno = errno;
	return LDR_OK;
}

enum ldr_status crash_disk_unmount(const char *mountpoint, crash_unmount_call *call,
				   struct ldr_error *err)
{
	for (int i = 0; i < UNMOUNT_TRIES; i++) {
		if (call(mountpoint, 0) == 0)
			return LDR_OK;
		if (errno != EBUSY)
			return ldr_fail_errno(err, errno, "unmounting %s", mountpoint);
		pause_briefly();
	}
	return ldr_fail(err, LDR_EAGAIN, "unmounting %s: busy after %d tries", mountpoint,
			UNMOUNT_TRIES);
}

/* 1 or 0 as the loop device says; -1: it says nothing. */
static int direct_io_of(const char *node)
{
	const char *slash = strrchr(node, '/');
	char path[CRASH_PATH_BYTES], digit = 0;
	LDR_AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "/sys/block/%s/loop/dio", slash ? slash + 1 : node);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &digit, 1) != 1 || digit < '0' || digit > '1')
		return -1;
	return digit - '0';
}

void crash_disk_observe(const char *mountpoint, char *out_options, size_t room, int *out_direct_io)
{
	FILE *file = fopen("/proc/self/mounts", "re");
	char line[2048], *word[4];

	out_options[0] = 0;
	*out_direct_io = -1;
	while (file && fgets(line, sizeof(line), file)) {
		char *rest = line;

		for (size_t i = 0; i < 4; i++)
			word[i] = rest ? strsep(&rest, " ") : NULL;
		if (!word[3] || strcmp(word[1], mountpoint) != 0)
			continue;
		snprintf(out_options, room, "%s", word[3]);
		*out_direct_io = direct_io_of(word[0]);
	}
	if (file)
		fclose(file);
}
