/*
 * What subjects of crashlab have in common: telling marks, keeping a note of what was acknowledged,
 * and serving recoveries.
 *
 * A subject whose files have names that nobody knows beforehand (a cache's packs) leaves them to
 * its own recovery, which must know what had been acknowledged. The harness tells it with each
 * folder to recover in. It must not be noted on the recorded disk: a note that is synced takes
 * earlier renames along, and hides that they were not.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_DRIVE_H
#define LDR_TESTS_RECOVERY_DRIVE_H

struct crash_steps {
	const char *name; /* for messages */
	int (*describe)(void *context);
	int (*seed)(void *context);
	int (*run)(void *context);
	/* in the folder as it is after the crash; leaves nothing open */
	/* in the folder as it is after the crash; leaves nothing open */
	int (*recover)(void *context, unsigned acked);
	void *context;
};

/* The step by its name, "--serve" too; 2 when there is none of that name. */
int crash_drive(const struct crash_steps *steps, const char *step);

/* One line to the recorder, where there is one; number 0: none is told. A mark that cannot be told
 * ends the program. */
void crash_drive_mark(const char *name, unsigned number);
#endif
