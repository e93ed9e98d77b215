/*
 * One publication in a folder of its own, for the tests that kill processes and fail system calls.
 *
 * The folder holds
 *   dest       what is published; before, in a case that replaces, the old bytes
 *   keep       a hard link to the old dest, in a case that replaces
 *   sentinel   a file that nobody touches
 * and at most one temporary of the publisher. Bytes are a function of the version: 0 is what was there
 * before, 1 what the case publishes, 2 what is published after the cut or the fault.
 *
 * Invariants
 *  1. What is seen is read by plain system calls, past the code under test.
 *  2. The publisher's writes are cut to 4 KiB by its seam, so that 12,305 bytes are four writes.
 *
 * Threads: one at a time.
 */
#ifndef LDR_TESTS_RECOVERY_PUBLICATION_H
#define LDR_TESTS_RECOVERY_PUBLICATION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/publisher.h"

#define CRASH_WRITE_CAP 4096

enum crash_form {
	CRASH_FORM_BUFFER,
	CRASH_FORM_STREAM,
	CRASH_FORM_CONDITION, /* buffer; only if missing, or only if the stamp matches */
	CRASH_FORM_COUNT
};

struct crash_publication {
	enum crash_form form;
	bool replace;
	size_t length;
	enum ldr_sync sync;
};

/* Calls each for every case: forms, create and replace, empty and 12,305 bytes, three policies. */
void crash_publication_each(void (*each)(void *context, const struct crash_publication *kind),
			    void *context);
#define CRASH_PUBLICATION_NAME_BYTES 64
/* "buffer replace 12305 folder" */
void crash_publication_name(const struct crash_publication *kind,
			    char out[CRASH_PUBLICATION_NAME_BYTES]);

/* Empties the folder and makes what is there before. False: errno says why. */
bool crash_publication_seed(const struct crash_publication *kind, const char *folder);
/* Publishes version 1; for a child, or under a failing call. */
enum ldr_status crash_publication_run(const struct crash_publication *kind, const char *folder,
				      struct ldr_publish_result *result, struct ldr_error *err);

struct crash_remains {
	int version; /* of dest: 0 to 2; -1: no such file; -2: other bytes */
	struct ldr_id sha256;
	size_t temporaries;
	bool others_as_before; /* keep and sentinel are, and there is no other name */
};

bool crash_publication_look(const struct crash_publication *kind, const char *folder,
			    struct crash_remains *out);

/* Publishes version 2 under the folder's lock (a dead owner's lock would refuse it), reads it back, and
 * sweeps: exactly the temporaries that were there go. NULL, or what was wrong. */
const char *crash_publication_again(const struct crash_publication *kind, const char *folder);

#endif
