/* Which states a log gives, under which crash points, and that none is dropped or doubled. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/recovery/core/states.h"

#define MODELS (CRASH_PREFIX | CRASH_SUBSET)

/* A log from letters: W a write of 4 KiB, w one of 8, U a durable one (FUA), F a flush, M a mark. Writes lie
 * side by side. */
static void log_of(const char *letters, struct crash_log *out)
{
	static struct crash_record records[64];
	static uint8_t data[8192];
	uint64_t at = 0;

	memset(out, 0, sizeof(*out));
	memset(records, 0, sizeof(records));
	out->records = records;
	for (; *letters; letters++) {
		struct crash_record *record = &records[out->count++];

		record->type = strchr("WwU", *letters) ? CRASH_WRITE
						       : (enum crash_record_type) * letters;
		out->mark_count += *letters == 'M';
		if (record->type != CRASH_WRITE)
			continue;
		record->offset = at;
		record->length = *letters == 'w' ? 8192 : 4096;
		record->flags = *letters == 'U' ? CRASH_LOG_FUA : 0;
		record->data = data;
		at += record->length;
	}
}

static struct crash_state_options options_of(unsigned models)
{
	return (struct crash_state_options){.models = models,
					    .grain_bytes = 4096,
					    .subset_max = 8,
					    .subset_samples = 16,
					    .torn_samples = 16,
					    .lying_samples = 16,
					    .seed = 1,
					    .max_states = 100000};
}

static struct crash_states states_of(const char *letters, const struct crash_state_options *options)
{
	struct crash_states states;
	struct ldr_error err = {0};
	struct crash_log log;

	log_of(letters, &log);
	cr_assert_eq(crash_states_enumerate(&log, options, &states, &err), LDR_OK, "%s: %s",
		     letters, err.text);
	return states;
}

Test(states, counts)
{
	static const struct {
		const char *letters;
		unsigned models;
		size_t states;
	} rows[] = {
		{"", MODELS, 1},
		{"FFF", MODELS, 1},
		{"W", MODELS, 2},
		{"WWW", CRASH_PREFIX, 4},
		{"WWW", MODELS, 8},
		/* the whole first epoch is the empty second one */
		{"WWFWW", MODELS, 4 + 3},
		{"WWFFFWW", MODELS, 4 + 3},
		{"WWFWWF", CRASH_PREFIX, 5},
		{"wF", CRASH_TORNLAST, 1},
		{"WF", CRASH_TORNLAST, 0},
		{"wwF", CRASH_TORNLAST, 2},
		{"WWWWWWWW", CRASH_SUBSET, 256},
		/* what is durable by itself is there as soon as something later is */
		{"UWF", MODELS, 3},
		{"UUF", MODELS, 3},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct crash_state_options options = options_of(rows[i].models);
		struct crash_states states = states_of(rows[i].letters, &options);

		cr_expect_eq(states.count, rows[i].states, "%s: %zu states, wanted %zu",
			     rows[i].letters, states.count, rows[i].states);
		crash_states_dispose(&states);
	}
}

/* One state under all crash points at which it can occur. */
Test(states, crash_points)
{
	static const struct {
		const char *letters;
		size_t base; /* of a state without pieces */
		size_t first;
		size_t last;
	} rows[] = {
		{"MWMWMFMWM", 0, 0, 3}, /* nothing: until the flush has ended */
		{"MWMWMFMWM", 2, 1, 3}, /* the first write */
		{"MWMWMFMWM", 4, 2, 5}, /* both: on into the next epoch, whose write may be lost */
		{"MWMWMFMWM", 8, 4, 5},
		{"MUMWM", 0, 0, 1}, /* without the durable write only until it is done */
		{"MUMWM", 2, 1, 3},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct crash_state_options options = options_of(MODELS);
		struct crash_states states = states_of(rows[i].letters, &options);
		bool found = false;

		for (size_t k = 0; k < states.count; k++) {
			const struct crash_state *state = &states.states[k];

			if (state->base != rows[i].base || state->piece_count)
				continue;
			found = true;
			cr_expect_eq(state->first_point, rows[i].first, "row %zu: from %zu", i,
				     state->first_point);
			cr_expect_eq(state->last_point, rows[i].last, "row %zu: to %zu", i,
				     state->last_point);
		}
		cr_expect(found, "row %zu: no such state", i);
		crash_states_dispose(&states);
	}
}

static bool same(const struct crash_states *states, const struct crash_state *a,
		 const struct crash_state *b)
{
	return a->base == b->base && a->piece_count == b->piece_count &&
	       (a->piece_count == 0 ||
		memcmp(states->pieces + a->first_piece, states->pieces + b->first_piece,
		       a->piece_count * sizeof(struct crash_piece)) == 0);
}

Test(states, distinct_ordered_and_repeatable)
{
	const char *letters = "MwwWMFwwwwwwwwwwMFMwF";
	struct crash_state_options options = options_of(MODELS | CRASH_TORNLAST | CRASH_TORN |
							CRASH_LYING);
	struct crash_states one, two;

	options.grain_bytes = 512;
	one = states_of(letters, &options);
	two = states_of(letters, &options);
	cr_assert_eq(one.count, two.count);
	cr_assert_gt(one.count, 100);
	cr_assert_eq(one.sampled_epochs, 1);
	for (size_t i = 0; i < one.count; i++) {
		const struct crash_piece *pieces = one.pieces + one.states[i].first_piece;

		cr_assert_str_eq(one.states[i].name, two.states[i].name);
		for (size_t k = i + 1; k < one.count; k++)
			cr_assert_not(same(&one, &one.states[i], &one.states[k]), "%s and %s",
				      one.states[i].name, one.states[k].name);
		for (size_t k = 0; k < one.states[i].piece_count; k++) {
			cr_assert_lt(pieces[k].from, pieces[k].to);
			cr_assert_eq(pieces[k].from % 512, 0);
			cr_assert_geq(pieces[k].record, one.states[i].base);
			cr_assert(k == 0 || pieces[k - 1].record < pieces[k].record ||
				  pieces[k - 1].to < pieces[k].from);
		}
	}
	crash_states_dispose(&one);
	crash_states_dispose(&two);
}

Test(states, exempt_regions_are_cut_at_4096_only)
{
	static const struct crash_region region = {0, 8192};
	struct crash_state_options options = options_of(CRASH_TORNLAST);
	struct crash_states states;

	options.grain_bytes = 512;
	options.exempt_count = 1;
	options.exempt = &region;
	states = states_of("wwF", &options);
	/* the first write at 4096, the second, which is not exempt, at 15 places */
	cr_expect_eq(states.count, 16, "%zu states", states.count);
	crash_states_dispose(&states);
}

Test(states, bounds)
{
	struct crash_state_options options = options_of(CRASH_SUBSET);
	struct crash_states states;
	struct ldr_error err = {0};
	struct crash_log log;

	log_of("WWWW", &log);
	options.max_states = 15;
	cr_expect_eq(crash_states_enumerate(&log, &options, &states, &err), LDR_ELIMIT);
	options.max_states = 16;
	cr_assert_eq(crash_states_enumerate(&log, &options, &states, &err), LDR_OK);
	crash_states_dispose(&states);
	options.grain_bytes = 100;
	cr_expect_eq(crash_states_enumerate(&log, &options, &states, &err), LDR_EINVAL);
}

Test(states, cuts_are_spread_and_declared)
{
	struct crash_state_options options = options_of(CRASH_TORNLAST);
	struct crash_states states;

	options.grain_bytes = 512;
	options.cuts_max = 4;
	states = states_of("wF", &options);
	cr_assert_eq(states.count, 4);
	cr_expect_eq(states.sampled_writes, 1);
	cr_expect_eq(states.pieces[states.states[0].first_piece].to, 512);
	cr_expect_eq(states.pieces[states.states[3].first_piece].to, 8192 - 512);
	crash_states_dispose(&states);
}
