/*
 * Readers without locks: how one knows that nobody looks at an old snapshot any more.
 *
 * A reader enters, loads the pointer, uses what it leads to, and leaves. Whoever replaces the
 * pointer then calls synchronise, which returns when every reader that could have seen the old one
 * has left. Entering and leaving cost an atomic addition each, on a cache line that few other
 * threads use (one of LDR_STRIPES, by thread).
 *
 * There are two phases. A reader counts itself in the present one; synchronise turns the phase and
 * waits for the other to be empty, twice: a reader that read the phase just before a turn may count
 * itself in the old one afterwards. If it did so before synchronise looked, it is waited for; if
 * after, its load of the pointer comes later still and gives the new one, and the second turn's
 * successor waits for it. This is the counting scheme of sleepable RCU (McKenney, "Sleepable
 * Read-Copy Update", 2006).
 *
 * Threads: any thread may enter and leave; synchronise is for one thread at a time, outside every
 * reader.
 */
#ifndef LDR_VFS_EPOCH_H
#define LDR_VFS_EPOCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/lock.h"

struct ldr_epoch {
	_Alignas(64) _Atomic uint32_t phase;
	struct {
		_Alignas(64) _Atomic uint32_t readers[2];
	} stripes[LDR_STRIPES];
};

/* Kept by the reader between enter and leave. */
struct ldr_epoch_stay {
	_Atomic uint32_t *readers;
};

/* All zero is the beginning. */

static inline struct ldr_epoch_stay ldr_epoch_enter(struct ldr_epoch *epoch)
{
	uint32_t phase = atomic_load_explicit(&epoch->phase, memory_order_relaxed) & 1;
	_Atomic uint32_t *readers = &epoch->stripes[ldr_thread_stripe()].readers[phase];

	/* Sequentially consistent, as are the load of the pointer behind it and the two sides of
	 * synchronise: the argument above is about one order of all four. */
	atomic_fetch_add(readers, 1);
	return (struct ldr_epoch_stay){.readers = readers};
}

static inline void ldr_epoch_leave(struct ldr_epoch_stay stay)
{
	/* Pairs with the load in synchronise: what the reader did comes before what is freed. */
	atomic_fetch_sub_explicit(stay.readers, 1, memory_order_release);
}

void ldr_epoch_synchronise(struct ldr_epoch *epoch);

#endif
