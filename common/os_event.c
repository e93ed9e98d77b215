/*
 * Events as descriptors; see os_event.h. By eventfd: a counter whose value nobody looks at.
 */
#include "common/os_event.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int ldr_os_event_open(int *out_fd)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return errno;
	*out_fd = fd;
	return 0;
}

/* A full counter (EAGAIN) is as readable as it can be. */
void ldr_os_event_raise(int fd)
{
	const uint64_t one = 1;
	ssize_t written;

	do
		written = write(fd, &one, sizeof(one));
	while (written < 0 && errno == EINTR);
}

void ldr_os_event_clear(int fd)
{
	uint64_t count;
	ssize_t got;

	do
		got = read(fd, &count, sizeof(count));
	while (got < 0 && errno == EINTR);
}
