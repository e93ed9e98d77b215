/*
 * Which states of a disk a crash can leave behind, from the log of a recording.
 *
 * An epoch is what lies between two flushes. A crash in epoch e leaves every write of the epochs before,
 * and of those in e that had been sent any choice:
 *   prefix    the first k of them, whole, in order
 *   subset    any of them, whole: all subsets up to subset_max writes, beyond that single ones, their
 *             complements and subset_samples drawn by the seed
 *   tornlast  a prefix whose last write is cut at each multiple of grain_bytes; with cuts_max, a write that
 *             has more places than that is cut at the first and last of them and evenly between
 *   torn      torn_samples per epoch drawn by the seed: each write absent, whole, its head, its tail or a
 *             random choice of its grains
 *   lying     a disk that ignores flushes: lying_samples choices over the whole log, at its end. No file
 *             system survives this; a test that passes it cannot see.
 * Orders other than the log's give nothing new: with any choice of grains, each grain ends as one of what
 * was written to it, and some choice in log order gives the same.
 *
 * Invariants
 *  1. States are distinct by what they apply; one that arises twice keeps the union of its crash points.
 *  2. A state's pieces are in the log's order; those before `base` are all of the log up to there.
 *  3. The same log, options and seed give the same states under the same names.
 *  4. More than max_states is an error, never a selection.
 *  5. A write that was durable by itself (FUA) is whole in every state of a later crash point.
 *  6. Regions that are declared exempt are never cut at a grain finer than 4 KiB.
 *
 * Threads: no state of its own.
 */
#ifndef LDR_TESTS_RECOVERY_STATES_H
#define LDR_TESTS_RECOVERY_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "tests/recovery/core/log.h"

enum crash_model {
	CRASH_PREFIX = 1,
	CRASH_SUBSET = 2,
	CRASH_TORNLAST = 4,
	CRASH_TORN = 8,
	CRASH_LYING = 16,
};
#define CRASH_MODEL_COUNT 5

struct crash_region {
	uint64_t from;
	uint64_t to;
};

struct crash_state_options {
	unsigned models; /* of enum crash_model */
	unsigned grain_bytes;
	unsigned subset_max;
	unsigned subset_samples;
	unsigned torn_samples;
	unsigned lying_samples;
	unsigned cuts_max; /* 0: no bound */
	uint64_t seed;
	size_t max_states;
	size_t exempt_count;
	const struct crash_region *exempt; /* borrows */
};

/* A part of a record: bytes [from, to) of its range. */
struct crash_piece {
	uint32_t record;
	uint32_t from;
	uint32_t to;
};

#define CRASH_STATE_NAME_BYTES 32

struct crash_state {
	char name[CRASH_STATE_NAME_BYTES]; /* "e5p2", "e5s13", "e5t3+4096", "e5r7", "lie4" */
	enum crash_model model;            /* the first that gave it */
	size_t base;                       /* records before this are applied whole */
	size_t first_piece;
	size_t piece_count;
	size_t first_point; /* crash points, as counts of marks */
	size_t last_point;
};

struct crash_states {
	size_t count;
	struct crash_state *states; /* owns */
	size_t piece_count;
	struct crash_piece *pieces; /* owns */
	size_t epoch_count;
	size_t widest_epoch;   /* writes */
	size_t sampled_epochs; /* wider than subset_max */
	size_t sampled_writes; /* with more places to cut than cuts_max */
};

/* LDR_ELIMIT past max_states; LDR_EINVAL: a grain that is no multiple of 512. */
enum ldr_status crash_states_enumerate(const struct crash_log *log,
				       const struct crash_state_options *options,
				       struct crash_states *out_states, struct ldr_error *err);
void crash_states_dispose(struct crash_states *states);

/* "prefix", ...; NULL for no model. */
const char *crash_model_name(enum crash_model model);

#endif
