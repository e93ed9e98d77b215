/*
 * A folder of the host as a layer.
 *
 * The root is opened once and pinned; its own path may lead through symlinks. Names below it are
 * resolved by the kernel beneath it (openat2), by the symlink policy, never by comparing strings.
 * Only regular files and folders exist: pipes, devices and sockets are LDR_ENOTREG. The reserved
 * name ".larder" at the root is not shown.
 *
 * Three ways to look names up:
 *   safe     (default) each open and stat is resolved beneath the root by the kernel
 *   trusted  one plain call from the root's descriptor: for folders in which nobody plants
 *            symlinks; ".." cannot come (the path rule), but a symlink in the folder is followed
 *            wherever it leads
 *   watched  the names are kept in memory by inotify: a miss costs no system call, and what is there
 *            is opened and asked from its folder's held descriptor; lists are read. Own changes are
 *            seen at once, others' within 50 ms, or after ldr_vfs_sync: until then a folder that
 *            others moved may be read under its old name, but never written, and a symlink in its
 *            place is not followed out. Where a watch cannot be had or events were lost, the
 *            folder is looked up live, and counted. Mounts of the system are noticed where /proc
 *            is there
 *
 * A layer holds up to 256 folders open (an eighth of RLIMIT_NOFILE at most). No descriptor left is
 * LDR_ELIMIT.
 *
 * Threads: as all layers.
 */
#ifndef LDR_VFS_LAYER_NATIVE_H
#define LDR_VFS_LAYER_NATIVE_H

#include "vfs/layer.h"

enum ldr_symlinks {
	LDR_SYMLINKS_INSIDE, /* followed while they stay beneath the root, else LDR_ELINK */
	LDR_SYMLINKS_REFUSE, /* LDR_ELINK for all of them, on the way and at the end; not listed */
};

/* Zero means the safe default. */
struct ldr_native_options {
	size_t size; /* sizeof(struct ldr_native_options) */
	enum ldr_symlinks symlinks;
	bool read_only;
	bool trusted;
	bool watched;
	bool make;            /* make the folder when it is missing */
	uint32_t max_watches; /* folders watched at most (65,536) */
};

/* LDR_ENOTFOUND, LDR_ENOTDIR, LDR_EDENIED. Owns: ldr_layer_unref. */
LDR_API enum ldr_status ldr_layer_native_new(
	const char *root, const struct ldr_native_options *options, /* may be NULL */
	struct ldr_layer **out_layer, struct ldr_error *err);

#endif
