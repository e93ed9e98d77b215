/*
 * Large anonymous memory on huge pages; see os_arena.h.
 */
#include "common/os_arena.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

/* Whole huge pages, so that the last one can be huge too. */
static size_t rounded(size_t length)
{
	return (length + LDR_OS_HUGE_BYTES - 1) & ~(LDR_OS_HUGE_BYTES - 1);
}

int ldr_os_arena_map(size_t length, void **out_bytes)
{
	uint8_t *whole, *aligned;
	size_t before, after;

	if (length == 0 || length > SIZE_MAX - 2 * LDR_OS_HUGE_BYTES)
		return ENOMEM;
	length = rounded(length);
	whole = mmap(NULL, length + LDR_OS_HUGE_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (whole == MAP_FAILED)
		return errno;
	before = (LDR_OS_HUGE_BYTES - (uintptr_t)whole % LDR_OS_HUGE_BYTES) % LDR_OS_HUGE_BYTES;
	after = LDR_OS_HUGE_BYTES - before;
	aligned = whole + before;
	if (before)
		munmap(whole, before);
	munmap(aligned + length, after);
	madvise(aligned, length, MADV_HUGEPAGE);
	*out_bytes = aligned;
	return 0;
}

void ldr_os_arena_unmap(void *bytes, size_t length)
{
	if (bytes)
		munmap(bytes, rounded(length));
}
