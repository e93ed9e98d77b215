/*
 * Kept cases: a folder with seed.img, log and case.json, from which any state is built again.
 *
 * Recording again does not give the same log (writeback has its own time), so a failure is looked into from
 * what was kept. Each function prints to standard output and gives an exit status: 0, 1 (a state breaks a
 * rule, or the case cannot be read), CRASH_EXIT_UNAVAILABLE.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_KEPT_H
#define LDR_TESTS_RECOVERY_KEPT_H

#include "tests/recovery/core/states.h"

/* Judges one state, or (NULL) all that the record lists as bad. image: where that one's image, as the crash
 * left it, is put; NULL: nowhere. */
int crash_kept_replay(const char *folder, const char *state, const char *image);
int crash_kept_explain(const char *folder, const char *state);
int crash_kept_enumerate(const char *log, const struct crash_state_options *options);

#endif
