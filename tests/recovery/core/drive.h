/*
 * What subjects of crashlab have in common: telling marks, keeping a note of what was acknowledged,
 * and serving recoveries.
 *
 * A subject whose files have names that nobody knows beforehand (a cache's packs) leaves them to
 * its own recovery, which must know what had been acknowledged. For that it notes it on the same
 * disk: "acked" holds the number of the last round, published and synced after the round's own
 * acknowledgement. The oracle judges "acked" like any published file; so a recovery that finds
 * number K knows that K rounds were acknowledged before the crash.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_DRIVE_H
#define LDR_TESTS_RECOVERY_DRIVE_H

#include <stdbool.h>
#include <stddef.h>

struct crash_steps {
	const char *name; /* for messages */
	int (*describe)(void *context);
	int (*seed)(void *context);
	int (*run)(void *context);
	/* in the folder as it is after the crash; leaves nothing open */
	int (*recover)(void *context);
	void *context;
};

/* The step by its name, "--serve" too; 2 when there is none of that name. */
int crash_drive(const struct crash_steps *steps, const char *step);

/* One line to the recorder, where there is one; number 0: none is told. A mark that cannot be told
 * ends the program. */
void crash_drive_mark(const char *name, unsigned number);
/* The marks of a round that is acknowledged: from begin to ack:round, with the note between. False:
 * it could not be written. */
bool crash_drive_ack(unsigned round);
/* What the note in this folder says; 0: there is none. */
unsigned crash_drive_acked(void);
/* The versions of "acked" for a description: null, then one for each round. */
void crash_drive_describe_acked(unsigned rounds);

#endif
