/*
 * The guard of mapped files; see guard.h.
 */
#include "server/guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum slot_state {
	SLOT_FREE,
	SLOT_CLAIMED, /* its bounds are being written */
	SLOT_HELD,
	SLOT_BROKEN,
};

struct ldr_guard_slot {
	atomic_int state;
	uintptr_t start;
	uintptr_t end;
};

/* One table a process, because a signal handler has no other way to find anything. */
static struct ldr_guard_slot
	slots[LDR_GUARD_SLOTS]; /* style: a handler's table, changed atomically */

static bool holds(struct ldr_guard_slot *slot, uintptr_t address)
{
	int state = atomic_load_explicit(&slot->state, memory_order_acquire);

	return (state == SLOT_HELD || state == SLOT_BROKEN) && address >= slot->start &&
	       address < slot->end;
}

/* Zero pages from the fault's page to the mapping's end. */
static bool bridge(struct ldr_guard_slot *slot, uintptr_t address)
{
	uintptr_t page = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	void *at = (void *)page; /* NOLINT: an address that the system gave */
	void *got = mmap(at, slot->end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			 -1, 0);

	if (got == MAP_FAILED)
		return false;
	atomic_store_explicit(&slot->state, SLOT_BROKEN, memory_order_release);
	return true;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	struct sigaction plain;

	(void)context;
	for (unsigned i = 0; i < LDR_GUARD_SLOTS; i++)
		if (holds(&slots[i], address) && bridge(&slots[i], address))
			return;
	/* Nobody's: the access happens again and ends the process. */
	memset(&plain, 0, sizeof(plain));
	plain.sa_handler = SIG_DFL;
	sigaction(number, &plain, NULL);
}

void ldr_guard_install(void)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = on_bus_error;
	action.sa_flags = SA_SIGINFO;
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

struct ldr_guard_slot *ldr_guard_add(const void *bytes, size_t length)
{
	for (unsigned i = 0; i < LDR_GUARD_SLOTS; i++) {
		int expected = SLOT_FREE;

		if (!atomic_compare_exchange_strong(&slots[i].state, &expected, SLOT_CLAIMED))
			continue;
		slots[i].start = (uintptr_t)bytes;
		slots[i].end = (uintptr_t)bytes + length;
		atomic_store_explicit(&slots[i].state, SLOT_HELD, memory_order_release);
		return &slots[i];
	}
	return NULL;
}

bool ldr_guard_broken(const struct ldr_guard_slot *slot)
{
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SLOT_BROKEN;
}

void ldr_guard_remove(struct ldr_guard_slot *slot)
{
	if (slot)
		atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
}
