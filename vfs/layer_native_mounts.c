/*
 * Mounts of the system below a watched folder.
 *
 * A mount hides the folder that it is put on, and inotify says nothing of it. The kernel's list of
 * mounts (/proc/self/mountinfo, proc(5)) can be polled for changes; what counts are the lines whose
 * mount point lies below the root. Without /proc nothing is noticed.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "vfs/layer_native_watch_priv.h"

#define LIST_MAX_BYTES ((size_t)16 << 20)
#define POINT_FIELD 4u /* counted from 0 */

int ldr_native_mounts_open(void)
{
	int fd = -1;

	return ldr_os_open_file("/proc/self/mountinfo", &fd) ? -1 : fd;
}

bool ldr_native_mounts_changed(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLPRI};

	return fd >= 0 && poll(&wait, 1, 0) > 0;
}

/* Whether the line's mount point lies below the root; blanks in it are written as \040. */
static bool is_below(const char *line, const char *root, size_t root_bytes)
{
	for (unsigned field = 0; field < POINT_FIELD; field++) {
		line = strchr(line, ' ');
		if (!line)
			return false;
		line++;
	}
	return strncmp(line, root, root_bytes) == 0 && line[root_bytes] == '/';
}

/* As mountinfo writes a path. */
static size_t escape(const char *path, char *out)
{
	size_t used = 0;

	for (; *path; path++) {
		if (strchr(" \t\n\\", *path))
			used += (size_t)snprintf(out + used, 5, "\\%03o", (unsigned char)*path);
		else
			out[used++] = *path;
	}
	out[used] = '\0';
	return used;
}

static uint64_t hash_lines(char *text, const char *root, size_t root_bytes)
{
	uint64_t hash = 0;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (is_below(line, root, root_bytes))
			hash = ldr_checksum_seeded(line, strlen(line), hash + 1);
	}
	return hash;
}

uint64_t ldr_native_mounts_below(int root_fd)
{
	LDR_AUTO_BUFFER struct ldr_buffer list = {.max_bytes = LIST_MAX_BYTES};
	char link[32], root[4096], escaped[4 * sizeof(root)], part[4096];
	LDR_AUTO_FD int fd = ldr_native_mounts_open();
	ssize_t length;
	size_t got;

	escaped[0] = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", root_fd);
	length = readlink(link, root, sizeof(root) - 1);
	if (fd < 0 || length < 0)
		return 0;
	root[length] = '\0';
	do {
		if (ldr_os_read(fd, part, sizeof(part), &got))
			return 0;
		ldr_buffer_put(&list, part, got);
	} while (got > 0);
	ldr_buffer_put(&list, "", 1);
	if (list.failed)
		return 0;
	/* The root of the system ends with its slash already. */
	return hash_lines((char *)list.data, escaped, length > 1 ? escape(root, escaped) : 0);
}
