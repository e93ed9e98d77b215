/*
 * A trial: one recording of one subject on one leg, and every state of it mounted and judged.
 *
 * It runs in a process of its own, which goes through: recorder started - own namespace of mounts -
 * recorded - enumerated - replayed - one JSON line written. What the next trials need to know comes back in
 * struct crash_outcome, in memory shared with the process that started it.
 *
 * Invariants
 *  1. Every enumerated state is replayed, or the record says how many of how many.
 *  2. A state that breaks a rule keeps seed, log and record in the failures folder (the first
 *     CRASH_KEEP_MAX of an item), with the command that rebuilds it.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_TRIAL_H
#define LDR_TESTS_RECOVERY_TRIAL_H

#include <jansson.h>

#include "tests/recovery/core/disk.h"
#include "tests/recovery/core/observe.h"
#include "tests/recovery/core/plan.h"
#include "tests/recovery/core/record.h"

#define CRASH_KEEP_MAX 3

struct crash_outcome {
	bool finished; /* false: text says why, or the process died */
	pid_t daemon;  /* the recorder while it runs: who must end it if the trial hangs */
	size_t states;
	size_t enumerated;
	size_t violations; /* states that break a rule */
	size_t agreed;     /* states whose images were built two ways, and are the same */
	size_t marks;
	size_t writes;
	size_t flushes;
	char text[512]; /* of a trial that failed before or beside its states */
};

struct crash_trial {
	const struct crash_place *place;
	const struct crash_leg *leg;
	const struct crash_item *item;
	const struct crash_subject *subject;
	const json_t *tools; /* digests and versions, for the record */
	const char *inject;
	struct crash_fault fault;
	uint64_t seed;
	const char *out_folder;        /* cases.jsonl, failures/ */
	bool keep_failures;            /* of a trial with bad states: seed, log, record */
	bool keep_all;                 /* of every trial */
	struct crash_outcome *outcome; /* shared */
};

/* In the process of the trial; it never mounts in the caller's namespace. */
void crash_trial_run(const struct crash_trial *trial);

/* The options of the enumeration of an item on a leg. */
void crash_trial_options(const struct crash_item *item, const struct crash_leg *leg, uint64_t seed,
			 struct crash_state_options *out_options);

/* What replaying a state needs. */
struct crash_bench {
	const struct crash_place *place;
	const struct crash_leg *leg;
	const struct crash_subject *subject;
	const struct crash_log *log;
	const struct crash_seed *seed;
	const struct crash_states *states;
	struct crash_look look;
	struct crash_server server;
	int image_fd;
};
/* Ends the server and frees what was seen. */
void crash_bench_end(struct crash_bench *bench);
/* Builds, mounts, looks, judges, recovers, unmounts. LDR_OK whatever the verdict; a status says that the
 * state could not be judged. */
enum ldr_status crash_bench_judge(struct crash_bench *bench, const struct crash_state *state,
				  struct crash_violations *out, struct ldr_error *err);
/* The file system's checker on the image as it is now; its exit status. */
int crash_bench_fsck(const struct crash_bench *bench);

#endif
