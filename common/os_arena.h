/*
 * Large anonymous memory on huge pages, for arenas that live long and are touched all over.
 *
 * The first touch of a 4 KiB page costs more than copying it; a 2 MiB page pays that once. Where the
 * system gives no huge pages the memory is the same, only slower at first.
 *
 * Threads: no state; any thread may call these.
 */
#ifndef LDR_COMMON_OS_ARENA_H
#define LDR_COMMON_OS_ARENA_H

#include <stddef.h>

#define LDR_OS_HUGE_BYTES ((size_t)2 * 1024 * 1024)

/* Zeroed memory of length bytes (not 0), aligned to a huge page; takes real memory only as it is
 * touched. 0 or an errno value. */
int ldr_os_arena_map(size_t length, void **out_bytes);
/* The length given to map; NULL is allowed. */
void ldr_os_arena_unmap(void *bytes, size_t length);

#endif
