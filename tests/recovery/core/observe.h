/*
 * Looking at a recovered folder: every name below it, with the digests of the files.
 *
 * A folder is walked without following links; what cannot be read is part of the observation, not an
 * error of ours. Rows are sorted by name.
 *
 * Threads: one at a time per object.
 */
#ifndef LDR_TESTS_RECOVERY_OBSERVE_H
#define LDR_TESTS_RECOVERY_OBSERVE_H

#include "common/error.h"
#include "tests/recovery/core/oracle.h"

#define CRASH_ROWS_MAX 65536

struct crash_look {
	struct crash_observation seen; /* borrows from the rest */
	struct crash_row *rows;
	size_t row_room;
	char *failed_name;
	struct ldr_hasher *hasher;
};

enum ldr_status crash_look_init(struct crash_look *look, struct ldr_error *err);
void crash_look_dispose(struct crash_look *look);

/* The observation of a mount that failed. */
void crash_look_unmounted(struct crash_look *look, int mount_errno);
/* Fills look->seen, forgetting what was there. LDR_ENOMEM, LDR_ELIMIT (too many names). */
enum ldr_status crash_look_at(struct crash_look *look, const char *folder, struct ldr_error *err);

#endif
