/*
 * A campaign: which subjects are recorded how, as text.
 *
 * One line an item; '#' begins a comment line:
 *   NAME [key=value ...] -- WORD...       a subject's command line; a first word "@probe" is the program
 *                                         of that name beside this one's build
 *   pending NAME: reason                  a subject that is not there yet; it is listed in the report
 *
 * Keys, with what holds where they are not given:
 *   legs=ext4,xfs,...       the file systems (all)
 *   inject=none,all,each    foreign commits after no, every, each single mark (none); random:N adds N seeds
 *   kinds=commit,w          what is injected: the leg's commit, and/or started writeback (commit)
 *   models=prefix,subset,tornlast,torn,lying   (prefix,subset)
 *   grain=4096              bytes that a disk writes whole; 512 keeps declared superblocks whole
 *   torn=N lying=N          drawn states per epoch, per recording (8, 60)
 *   cuts=N                  tornlast cuts a write at no more than N places, evenly (0: at all)
 *   exhaust=N subsets=N     subsets are exhaustive up to N writes, beyond that N are drawn (8, 64)
 *   faults=N                after the recording without: one more for each of the first N writes and N
 *                           flushes of the device, which fails (0)
 *   sample=N                N of the states, drawn by the seed, and said so in the record (0: all)
 *   max=N                   more states than this in one recording is a failure (20000)
 *   fsck=N                  the file system's checker on N states of each recording (0)
 *   agree=N                 the images of N states of each recording are built a second way (core/reference.h)
 *                           and must be the same (0)
 *   expect=violations       a broken subject: the item passes when at least one state breaks a rule
 *
 * Threads: immutable after reading.
 */
#ifndef LDR_TESTS_RECOVERY_PLAN_H
#define LDR_TESTS_RECOVERY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "tests/recovery/core/subject.h"

#define CRASH_NAME_BYTES 64
#define CRASH_ITEMS_MAX 1024

enum crash_inject { CRASH_INJECT_NONE = 1, CRASH_INJECT_ALL = 2, CRASH_INJECT_EACH = 4 };
enum crash_inject_kind { CRASH_KIND_COMMIT = 1, CRASH_KIND_WRITEBACK = 2 };

struct crash_item {
	char name[CRASH_NAME_BYTES];
	bool pending;
	char *reason;  /* of a pending one; borrows from the text */
	unsigned legs; /* bits, by crash_legs */
	unsigned inject;
	unsigned random; /* how many random injections */
	unsigned kinds;
	unsigned models;
	unsigned grain;
	unsigned torn;
	unsigned lying;
	unsigned cuts;
	unsigned exhaust;
	unsigned subsets;
	unsigned faults;
	unsigned sample;
	unsigned max;
	unsigned fsck;
	unsigned agree;
	bool expect_violations;
	size_t word_count;
	const char *words[CRASH_WORDS_MAX]; /* borrows from the text */
};

struct crash_plan {
	char *text; /* owns */
	size_t count;
	struct crash_item *items; /* owns */
};

/* Takes the text, which it changes, whatever the outcome. LDR_EINVAL names line and word. */
enum ldr_status crash_plan_parse(char *text, struct crash_plan *out_plan, struct ldr_error *err);
void crash_plan_dispose(struct crash_plan *plan);

/* "ext4,xfs" as bits; false at an unknown name. */
bool crash_plan_legs(const char *text, unsigned *out_legs);
bool crash_plan_models(const char *text, unsigned *out_models);

#endif
