/*
 * What subjects of crashlab have in common: telling marks, keeping a note of what was acknowledged,
 * and serving recoveries.
 *
 * A subject whose files have names that nobody knows beforehand (a cache's packs) leaves them to
 * its own recovery, which must know what had been acknowledged. The harness tells it with each
 * folder to recover in (a single step: in CRASHLAB_ACKED). It must not be noted on the recorded disk: a note that is synced takes
 * earlier renames along, and hides that they were not.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_DRIVE_H
#define LDR_TESTS_RECOVERY_DRIVE_H

#include <stdint.h>

struct crash_steps {
	const char *name; /* for messages */
	int (*describe)(void *context);
	int (*seed)(void *context);
	int (*run)(void *context);
	/* in the folder as it is after the crash; leaves nothing open */
	int (*recover)(void *context, unsigned acked);
	void *context;
};

/* The step by its name, "--serve" too; 2 when there is none of that name. */
int crash_drive(const struct crash_steps *steps, const char *step);

/* One line to the recorder, where there is one; number 0: none is told. A mark that cannot be told
 * ends the program. */
void crash_drive_mark(const char *name, unsigned number);

/* Marks with the injections of CRASHLAB_INJECT (core/oracle.h) after them. Commits write to the
 * file "foreign" in the working folder, which the subject's --seed makes. Started writeback is of
 * the files in `folder` whose names begin with `temporaries`. An injection that fails ends the
 * program: the recording would not be what it says. */
struct crash_teller {
	const char *folder;
	const char *temporaries;
	const char *inject;
	unsigned marks;
	uint64_t random;
};
/* Takes the order from the environment. */
void crash_teller_begin(struct crash_teller *teller);
void crash_teller_mark(struct crash_teller *teller, const char *name, unsigned number);

#endif
