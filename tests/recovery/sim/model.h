/*
 * Every state of a folder that POSIX allows after a crash, from the calls that were made on it.
 *
 * At a crash point
 *   names     each creation, rename, link and removal since the last sync of the folder is there or is
 *             not, independently of the others; a rename is whole
 *   contents  each write since the last sync of its file is there, is not, has grown the file by zeros
 *             without its bytes, or is there in its first half; a cut is there or is not
 * A sync of a file settles its contents and no name. File systems promise more; a publisher that is
 * right here is right on all of them.
 *
 * Only the contents of the case's own files are varied, temporaries are left as they were written. All
 * choices are made, none is sampled: more than SIM_PENDING_MAX at one point is an error.
 *
 * Invariants
 *  1. Applying every event gives what the program left (sim_apply, which the tracer compares).
 *  2. A state is judged by core/oracle.h for all crash points that it belongs to.
 *
 * Threads: pure functions of their arguments, apart from memory.
 */
#ifndef LDR_TESTS_RECOVERY_MODEL_H
#define LDR_TESTS_RECOVERY_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "tests/recovery/core/oracle.h"
#include "tests/recovery/sim/trace.h"

#define SIM_PENDING_MAX 8

struct sim_result {
	size_t points;
	uint64_t states;
	uint64_t violating;
	char first[CRASH_VIOLATION_BYTES]; /* the first violation, with its crash point */
};

/* LDR_ELIMIT: too many choices at one point. */
enum ldr_status sim_check(const struct crash_case *subject, const struct sim_trace *trace,
			  struct sim_result *out, struct ldr_error *err);

/* ---- folders ---- */

/* The object of a name, or -1. */
int sim_find(const struct sim_folder *folder, const char *name);
/* Lets the event happen. Marks and syncs change nothing. */
enum ldr_status sim_apply(struct sim_folder *folder, const struct sim_event *event,
			  struct ldr_error *err);
enum ldr_status sim_folder_copy(const struct sim_folder *from, struct sim_folder *out,
				struct ldr_error *err);
void sim_folder_dispose(struct sim_folder *folder);

#endif
