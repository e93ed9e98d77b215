/*
 * Disk images, loop devices and mounts of the crash tests.
 *
 * Invariants
 *  1. A loop device is configured with autoclear and its descriptor is closed once the mount holds it: it
 *     goes away with the mount, even when this process is killed. Nothing persists between states, since
 *     a descriptor that is kept open keeps stale pages.
 *  2. Nodes of loop devices are made in the work folder; nothing is added to /dev.
 *  3. Unmounting retries a busy mount for a bounded time and never by force or lazily.
 *  4. An image is rebuilt for every state: mounting recovers the journal, which changes it.
 *
 * Threads: none; one process at a time per work folder.
 */
#ifndef LDR_TESTS_RECOVERY_DISK_H
#define LDR_TESTS_RECOVERY_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"
#include "tests/recovery/core/states.h"

#define CRASH_PATH_BYTES 512
#define CRASH_MKFS_WORDS 16

/* A leg: one file system with one set of mount options. */
struct crash_leg {
	const char *name;
	const char *type;
	uint64_t image_bytes;
	const char *mkfs[CRASH_MKFS_WORDS]; /* the image's path is added */
	const char *fsck[4];     /* its checker, changing nothing; the image's path is added */
	const char *options;     /* the data of mount(2); noatime is always asked for */
	const char *commit_kind; /* the injection that makes metadata durable here */
	size_t exempt_count;
	struct crash_region
		exempt[4]; /* superblocks, atomic on any disk these file systems support */
};

extern const struct crash_leg crash_legs[];
extern const size_t crash_leg_count;
const struct crash_leg *crash_leg_find(const char *name, size_t length);

/* Can this machine do it? Else the reason, static or in out_text. */
bool crash_leg_available(const struct crash_leg *leg, char *out_text, size_t room);

/* The path of a program of the system: PATH and the folders of administration. False: there is none. */
bool crash_find_program(const char *name, char *out_path, size_t room);

/* Makes an image of the leg's file system at path; what mkfs printed goes to output_path. */
enum ldr_status crash_disk_format(const struct crash_leg *leg, const char *path,
				  const char *output_path, struct ldr_error *err);
/* Copies a sparse file. */
enum ldr_status crash_disk_copy(const char *from, const char *to, struct ldr_error *err);

/* Mounts image at mountpoint through a loop device. Gives 0 or an errno value of mount(2) in out_errno;
 * a status says that there was no device to mount. */
enum ldr_status crash_disk_mount(const struct crash_leg *leg, const char *image, bool direct_io,
				 const char *mountpoint, int *out_errno, struct ldr_error *err);

typedef int crash_unmount_call(const char *path, int flags);
/* With call = umount2. LDR_EAGAIN: still busy after the bounded time. */
enum ldr_status crash_disk_unmount(const char *mountpoint, crash_unmount_call *call,
				   struct ldr_error *err);
/* The options that the kernel reports for a mount, and whether its loop device has direct I/O (1, 0; -1: not known). */
void crash_disk_observe(const char *mountpoint, char *out_options, size_t room, int *out_direct_io);

/* The bytes of an image that are not zero, in memory. */
struct crash_extent {
	uint64_t offset;
	size_t length;
	size_t at; /* in data */
};
struct crash_seed {
	uint64_t image_bytes;
	size_t extent_count;
	struct crash_extent *extents; /* owns */
	uint8_t *data;                /* owns */
	size_t data_bytes;
};
enum ldr_status crash_seed_load(const char *path, struct crash_seed *out_seed,
				struct ldr_error *err);
void crash_seed_dispose(struct crash_seed *seed);
/* The digest of an image: of offset (8 bytes, little-endian) and bytes of each 4 KiB that are not all zero, in order. */
enum ldr_status crash_seed_digest(const struct crash_seed *seed, struct ldr_id *out_id,
				  struct ldr_error *err);

/* Makes the image (an open file) what a crash in that state leaves: the seed, all records before the base,
 * the pieces. */
enum ldr_status crash_disk_build(int image_fd, const struct crash_seed *seed,
				 const struct crash_log *log, const struct crash_states *states,
				 const struct crash_state *state, struct ldr_error *err);

#endif
