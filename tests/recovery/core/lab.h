/*
 * The laboratory: namespaces, workers, and what a whole campaign comes to.
 *
 * Processes
 *   the caller        prints and judges; makes nothing that outlives it but OUT
 *   first             process 1 of a namespace of processes and of mounts; the work folder is a tmpfs
 *                     that only this namespace sees. When the caller dies it is killed, and with it
 *                     all others, whose mounts and loop devices end with them
 *   workers           take items until there are none
 *   trials            one process a recording, in a namespace of mounts of its own (trial.h)
 *   recorder          in the workers' namespace (record.h, invariant 1)
 *
 * Threads: none. The counts live in shared memory; a worker writes only the result of the item it took.
 */
#ifndef LDR_TESTS_RECOVERY_LAB_H
#define LDR_TESTS_RECOVERY_LAB_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/recovery/core/plan.h"
#include "tests/recovery/core/trial.h"

struct crash_lab {
	const struct crash_plan *plan;
	unsigned legs;          /* bits, by crash_legs */
	const char *out_folder; /* absolute */
	const char *programs;   /* the folder of this program's siblings, for "@NAME" */
	const char *recorder;
	const char *only; /* items whose name contains it; NULL: all */
	unsigned jobs;
	uint64_t seed;
	bool keep_all;
	unsigned
		minutes; /* no item is begun after so many; 0: no bound. Items are taken in a spread order then */
};

struct crash_result {
	bool run;
	size_t recordings;
	size_t failed; /* recordings that could not be judged */
	size_t states;
	size_t enumerated;
	size_t violations;
	size_t agreed;
	char text[512]; /* of the first that failed */
};

/* Results by item and leg: results[item * crash_leg_count + leg]. */
struct crash_results {
	size_t count;
	struct crash_result *results; /* owns */
};

/* What this machine lacks for any recording; false with the reason. recorder NULL: not needed. */
bool crash_lab_possible(const char *recorder, char *out_text, size_t room);
/* Is that item on that leg (a number in crash_legs) part of the campaign? */
bool crash_lab_wants(const struct crash_lab *lab, const struct crash_item *item, unsigned leg);
enum ldr_status crash_lab_run(const struct crash_lab *lab, struct crash_results *out_results,
			      struct ldr_error *err);
void crash_results_dispose(struct crash_results *results);

/* Runs a command (a NULL at its end) with a fresh file system of that leg as its working folder, and this
 * program's output; gives its exit status. */
int crash_lab_within(const char *out_folder, const struct crash_leg *leg, const char *const *argv);

/* Runs work in the first process; gives its exit status. */
int crash_lab_isolated(const char *out_folder, int (*work)(void *context, const char *folder),
		       void *context);

#endif
