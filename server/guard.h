/*
 * The guard of mapped files: a file that gets shorter underneath its mapping must not end the server.
 *
 * Touching a mapped page that the file no longer has raises SIGBUS. When the page belongs to a guarded
 * mapping, the handler puts zero pages in the place of the rest of the mapping, marks it broken and lets
 * the access go on; whoever serves from it sees the mark, drops the mapping and closes that connection.
 * Any other SIGBUS ends the process as it always did. A system call that reads from such a page does not
 * raise the signal but fails with EFAULT, and then nothing more is sent at all.
 *
 * Invariants
 *  1. A slot is taken and given back by one atomic word, its state; the handler reads a slot's bounds
 *     only in state "held", which is stored last (release) and loaded first (acquire).
 *  2. The handler calls mmap and sigaction only and takes no lock.
 *
 * Threads: any thread may add and remove. SIGBUS must not be blocked in threads that read mappings.
 */
#ifndef LDR_SERVER_GUARD_H
#define LDR_SERVER_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Mappings that can be guarded at once. */
#define LDR_GUARD_SLOTS 1024

struct ldr_guard_slot;

/* Installs the handler for the process; again is harmless. */
void ldr_guard_install(void);
/* NULL when all slots are taken: the caller must not serve from the mapping. */
struct ldr_guard_slot *ldr_guard_add(const void *bytes, size_t length);
bool ldr_guard_broken(const struct ldr_guard_slot *slot);
/* Before the mapping is undone; NULL is allowed. */
void ldr_guard_remove(struct ldr_guard_slot *slot);

#endif
