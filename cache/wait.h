/*
 * A wait: somebody who wants blocks that are not on this machine and is told when they are, instead
 * of sleeping for them.
 *
 * The waiter owns the storage. A function that takes a wait answers LDR_OK (nothing is missing, the
 * wait is unused), LDR_EAGAIN (what is missing has been asked for; the wait is *held* and wake will
 * be called exactly once, from any thread, with no lock held, perhaps before the function returns),
 * or a failure (the wait is unused). Before wake is called, status says how it ended, with the text
 * in error when it failed. A wait that was withdrawn in time is never woken.
 *
 * Invariants
 *  1. A held wait is not moved, changed or freed until it was woken or withdrawn.
 *  2. What was asked for keeps its class as high as the highest of those that wait for it.
 */
#ifndef LDR_CACHE_WAIT_H
#define LDR_CACHE_WAIT_H

#include <stdbool.h>

#include "common/error.h"

/* How urgent a read is; smaller is more urgent. Zero stands for normal in requests. */
enum ldr_io_class {
	LDR_IO_DEFAULT,
	LDR_IO_CRITICAL,
	LDR_IO_HIGH,
	LDR_IO_NORMAL,
	LDR_IO_BACKGROUND,
};

#define LDR_IO_CLASSES 5u

struct ldr_wait {
	void (*wake)(struct ldr_wait *wait); /* set by the waiter */
	enum ldr_io_class io_class;          /* set by the waiter, then changed by reclass only */
	enum ldr_status status;              /* of the end */
	bool again; /* it failed together with others: asking once more for oneself may succeed */
	struct ldr_error error; /* when status is not LDR_OK */
	void *held;             /* of whoever holds it */
};

#endif
