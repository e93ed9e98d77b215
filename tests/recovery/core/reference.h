/*
 * A second way from a log to the image of a state, to check the first (crash_disk_build).
 *
 * The first writes the seed and then record after record into a file. This one writes nothing: it asks for each
 * sector which write of the state came last, from the end backwards, and takes the sector from there or from the
 * seed. They share the log and the list of pieces, no code.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_REFERENCE_H
#define LDR_TESTS_RECOVERY_REFERENCE_H

#include "common/digest.h"
#include "common/error.h"
#include "tests/recovery/core/states.h"

struct crash_image_ids {
	struct ldr_id wanted; /* of the image as this file has it */
	struct ldr_id found;  /* of the image at hand */
};

/* Digests as crash_seed_digest gives them. seed and image are open files of one length, a multiple of 4 KiB. */
enum ldr_status crash_reference_compare(int seed_fd, int image_fd, const struct crash_log *log,
					const struct crash_states *states,
					const struct crash_state *state,
					struct crash_image_ids *out, struct ldr_error *err);

#endif
