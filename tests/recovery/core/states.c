/*
 * Enumeration of crash states; see states.h.
 *
 * A state is drafted as pieces after a base, brought to one form (whole records right after the base
 * move into it, neighbouring parts are joined) and looked up, so that equal states are found by
 * comparing base and pieces.
 */
#include "tests/recovery/core/states.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY UINT32_MAX
#define STATES_MAX (1u << 24)

struct epoch {
	size_t number;
	size_t begin; /* records [begin, end) lie between two flushes */
	size_t end;
	const uint32_t *writes;
	size_t count;
};

struct build {
	const struct crash_log *log;
	const struct crash_state_options *options;
	struct crash_states out;
	size_t state_room;
	size_t piece_room;
	uint32_t *table; /* indexes of states by hash */
	size_t table_room;
	uint32_t *writes;     /* records that change the disk, in order */
	size_t *marks_before; /* of each record, and of the end */
	struct crash_piece *draft;
	size_t draft_count;
	size_t draft_room;
	struct epoch epoch;
	enum crash_model model;
	uint64_t random;
	struct ldr_error *err;
};

const char *crash_model_name(enum crash_model model)
{
	switch (model) {
	case CRASH_PREFIX:
		return "prefix";
	case CRASH_SUBSET:
		return "subset";
	case CRASH_TORNLAST:
		return "tornlast";
	case CRASH_TORN:
		return "torn";
	case CRASH_LYING:
		return "lying";
	}
	return NULL;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(struct build *build)
{
	uint64_t z = build->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool changes_disk(const struct crash_record *record)
{
	return record->type == CRASH_WRITE || record->type == CRASH_DISCARD;
}

static bool is_whole(const struct build *build, const struct crash_piece *piece)
{
	return piece->from == 0 && piece->to == build->log->records[piece->record].length;
}

/* ---- the draft ---------------------------------------------------------------------------------- */

static enum ldr_status no_memory(struct build *build)
{
	return ldr_fail(build->err, LDR_ENOMEM, "states: no memory after %zu states",
			build->out.count);
}

static void *grown(void *old, size_t *room, size_t needed, size_t item_bytes)
{
	size_t wanted = *room ? *room : 256;
	void *new;

	while (wanted < needed)
		wanted *= 2;
	if (wanted == *room)
		return old;
	new = realloc(old, wanted * item_bytes);
	if (new)
		*room = wanted;
	return new;
}

static enum ldr_status draft_part(struct build *build, uint32_t record, uint32_t from, uint32_t to)
{
	struct crash_piece *last = build->draft_count ? &build->draft[build->draft_count - 1]
						      : NULL;
	struct crash_piece *room;

	if (from >= to)
		return LDR_OK;
	if (last && last->record == record && last->to == from) {
		last->to = to;
		return LDR_OK;
	}
	room = grown(build->draft, &build->draft_room, build->draft_count + 1, sizeof(*room));
	if (!room)
		return no_memory(build);
	build->draft = room;
	build->draft[build->draft_count++] = (struct crash_piece){record, from, to};
	return LDR_OK;
}

static enum ldr_status draft_whole(struct build *build, uint32_t record)
{
	return draft_part(build, record, 0, (uint32_t)build->log->records[record].length);
}

/* One past the last record before `at` that changes the disk. */
static size_t trimmed(const struct build *build, size_t at)
{
	while (at > 0 && !changes_disk(&build->log->records[at - 1]))
		at--;
	return at;
}

static size_t next_write(const struct build *build, size_t at)
{
	while (at < build->log->count && !changes_disk(&build->log->records[at]))
		at++;
	return at;
}

/* Gives the base after whole records have moved into it, and how many pieces did. */
static size_t settle(const struct build *build, size_t base, size_t *out_moved)
{
	size_t moved = 0;

	while (moved < build->draft_count && is_whole(build, &build->draft[moved]) &&
	       next_write(build, base) == build->draft[moved].record)
		base = (size_t)build->draft[moved++].record + 1;
	*out_moved = moved;
	return trimmed(build, base);
}

/* ---- known states --------------------------------------------------------------------------------- */

static uint64_t hash_of(size_t base, const struct crash_piece *pieces, size_t count)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ base;

	for (size_t i = 0; i < count; i++) {
		hash = (hash ^ pieces[i].record) * UINT64_C(0x100000001b3);
		hash = (hash ^ pieces[i].from) * UINT64_C(0x100000001b3);
		hash = (hash ^ pieces[i].to) * UINT64_C(0x100000001b3);
	}
	hash *= UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* The place in the table of the state with this base and these pieces, or of nothing. */
static size_t place_of(const struct build *build, size_t base, const struct crash_piece *pieces,
		       size_t count)
{
	size_t place = hash_of(base, pieces, count) & (build->table_room - 1);

	for (; build->table[place] != EMPTY; place = (place + 1) & (build->table_room - 1)) {
		const struct crash_state *known = &build->out.states[build->table[place]];

		if (known->base == base && known->piece_count == count &&
		    (count == 0 || memcmp(build->out.pieces + known->first_piece, pieces,
					  count * sizeof(*pieces)) == 0))
			break;
	}
	return place;
}

static enum ldr_status table_reserve(struct build *build)
{
	size_t room = build->table_room ? build->table_room * 2 : 1024;
	uint32_t *table;

	if (build->table && build->out.count * 2 < build->table_room)
		return LDR_OK;
	table = malloc(room * sizeof(*table));
	if (!table)
		return no_memory(build);
	memset(table, 0xff, room * sizeof(*table));
	free(build->table);
	build->table = table;
	build->table_room = room;
	for (size_t i = 0; i < build->out.count; i++) {
		const struct crash_state *state = &build->out.states[i];

		table[place_of(build, state->base, build->out.pieces + state->first_piece,
			       state->piece_count)] = (uint32_t)i;
	}
	return LDR_OK;
}

static enum ldr_status add_state(struct build *build, const struct crash_state *draft,
				 const struct crash_piece *pieces)
{
	struct crash_states *out = &build->out;
	struct crash_state *states;
	struct crash_piece *room;

	if (out->count >= build->options->max_states || out->count >= STATES_MAX)
		return ldr_fail(build->err, LDR_ELIMIT, "states: more than %zu, limit %zu",
				out->count, build->options->max_states);
	states = grown(out->states, &build->state_room, out->count + 1, sizeof(*states));
	if (!states)
		return no_memory(build);
	out->states = states;
	room = grown(out->pieces, &build->piece_room, out->piece_count + draft->piece_count + 1,
		     sizeof(*room));
	if (!room)
		return no_memory(build);
	out->pieces = room;
	if (draft->piece_count)
		memcpy(room + out->piece_count, pieces, draft->piece_count * sizeof(*pieces));
	states[out->count] = *draft;
	states[out->count++].first_piece = out->piece_count;
	out->piece_count += draft->piece_count;
	return LDR_OK;
}

/* Puts the draft among the states, or widens the crash points of its equal. */
static enum ldr_status settle_draft(struct build *build, size_t base, size_t first, size_t last,
				    const char *name)
{
	struct crash_state draft = {
		.model = build->model, .first_point = first, .last_point = last};
	enum ldr_status status = table_reserve(build);
	const struct crash_piece *pieces;
	size_t moved, place;

	if (status)
		return status;
	draft.base = settle(build, base, &moved);
	draft.piece_count = build->draft_count - moved;
	pieces = build->draft + moved;
	place = place_of(build, draft.base, pieces, draft.piece_count);
	if (build->table[place] != EMPTY) {
		struct crash_state *known = &build->out.states[build->table[place]];

		known->first_point = known->first_point < first ? known->first_point : first;
		known->last_point = known->last_point > last ? known->last_point : last;
		return LDR_OK;
	}
	snprintf(draft.name, sizeof(draft.name), "%s", name);
	build->table[place] = (uint32_t)build->out.count;
	return add_state(build, &draft, pieces);
}

/* How much of a write the draft holds. */
static bool holds_whole(const struct build *build, uint32_t record)
{
	for (size_t i = 0; i < build->draft_count; i++) {
		if (build->draft[i].record == record)
			return is_whole(build, &build->draft[i]);
	}
	return false;
}

/* Ends a draft of the current epoch: which crash points can it have? */
static enum ldr_status end_draft(struct build *build, const char *name)
{
	const struct epoch *epoch = &build->epoch;
	size_t first = build->marks_before[epoch->begin];
	size_t last = build->marks_before[epoch->end];

	if (build->draft_count)
		first = build->marks_before[build->draft[build->draft_count - 1].record + 1];
	for (size_t i = 0; i < epoch->count; i++) {
		uint32_t record = epoch->writes[i];
		size_t limit = build->marks_before[record + 1];

		if (!(build->log->records[record].flags & CRASH_LOG_FUA) ||
		    holds_whole(build, record))
			continue;
		if (build->draft_count && build->draft[build->draft_count - 1].record > record)
			return LDR_OK;
		last = limit < last ? limit : last;
	}
	return settle_draft(build, epoch->begin, first, last, name);
}

/* ---- models --------------------------------------------------------------------------------------- */

static enum ldr_status prefixes(struct build *build)
{
	char name[CRASH_STATE_NAME_BYTES];
	enum ldr_status status = LDR_OK;

	build->draft_count = 0;
	for (size_t k = 0; !status && k <= build->epoch.count; k++) {
		if (k > 0)
			status = draft_whole(build, build->epoch.writes[k - 1]);
		snprintf(name, sizeof(name), "e%zup%zu", build->epoch.number, k);
		if (!status)
			status = end_draft(build, name);
	}
	return status;
}

static enum ldr_status one_subset(struct build *build, const uint8_t *chosen, const char *kind,
				  uint64_t number)
{
	char name[CRASH_STATE_NAME_BYTES];
	enum ldr_status status = LDR_OK;

	build->draft_count = 0;
	for (size_t i = 0; !status && i < build->epoch.count; i++) {
		if (chosen[i])
			status = draft_whole(build, build->epoch.writes[i]);
	}
	snprintf(name, sizeof(name), "e%zu%s%" PRIu64, build->epoch.number, kind, number);
	return status ? status : end_draft(build, name);
}

static enum ldr_status all_subsets(struct build *build, uint8_t *chosen)
{
	enum ldr_status status = LDR_OK;

	for (uint64_t mask = 0; !status && mask < UINT64_C(1) << build->epoch.count; mask++) {
		for (size_t i = 0; i < build->epoch.count; i++)
			chosen[i] = mask >> i & 1;
		status = one_subset(build, chosen, "s", mask);
	}
	return status;
}

static enum ldr_status some_subsets(struct build *build, uint8_t *chosen)
{
	size_t count = build->epoch.count;
	enum ldr_status status = LDR_OK;

	build->out.sampled_epochs++;
	for (size_t i = 0; !status && i < count; i++) {
		memset(chosen, 0, count);
		chosen[i] = 1;
		status = one_subset(build, chosen, "only", i);
		memset(chosen, 1, count);
		chosen[i] = 0;
		if (!status)
			status = one_subset(build, chosen, "but", i);
	}
	memset(chosen, 0, count);
	if (!status)
		status = one_subset(build, chosen, "none", 0);
	for (unsigned k = 0; !status && k < build->options->subset_samples; k++) {
		for (size_t i = 0; i < count; i++)
			chosen[i] = draw(build) >> 40 & 1;
		status = one_subset(build, chosen, "r", k);
	}
	return status;
}

static enum ldr_status subsets(struct build *build)
{
	uint8_t *chosen = malloc(build->epoch.count + 1);
	enum ldr_status status;

	if (!chosen)
		return no_memory(build);
	if (build->epoch.count <= build->options->subset_max)
		status = all_subsets(build, chosen);
	else
		status = some_subsets(build, chosen);
	free(chosen);
	return status;
}

/* May a write be cut at this byte of it? */
static bool may_cut(const struct build *build, const struct crash_record *record, uint32_t at)
{
	uint64_t offset = record->offset + at;

	if (offset % build->options->grain_bytes)
		return false;
	for (size_t i = 0; i < build->options->exempt_count; i++) {
		const struct crash_region *region = &build->options->exempt[i];

		if (offset > region->from && offset < region->to && offset % 4096)
			return false;
	}
	return true;
}

/* The next place after `at` where the record may be cut; its end in the end. */
static uint32_t next_cut(const struct build *build, const struct crash_record *record, uint32_t at)
{
	uint32_t grain = build->options->grain_bytes;

	do {
		at += grain - (uint32_t)((record->offset + at) % grain);
	} while (at < record->length && !may_cut(build, record, at));
	return at < record->length ? at : (uint32_t)record->length;
}

/* Cuts one write after what is drafted. Of `places` to cut, every one or cuts_max of them. */
static enum ldr_status torn_last(struct build *build, size_t number, size_t places)
{
	uint32_t index = build->epoch.writes[number], at = 0;
	const struct crash_record *record = &build->log->records[index];
	size_t most = build->options->cuts_max, kept = build->draft_count, taken = 0;
	char name[CRASH_STATE_NAME_BYTES];
	enum ldr_status status = LDR_OK;

	if (!most || most > places)
		most = places;
	build->out.sampled_writes += most < places;
	for (size_t i = 0; !status && i < places; i++) {
		at = next_cut(build, record, at);
		/* The k-th of `most` falls on place k * (places - 1) / (most - 1). */
		if (most > 1 && i < taken * (places - 1) / (most - 1))
			continue;
		taken++;
		build->draft_count = kept;
		status = draft_part(build, index, 0, at);
		snprintf(name, sizeof(name), "e%zut%zu+%u", build->epoch.number, number, at);
		if (!status)
			status = end_draft(build, name);
		if (taken == most)
			break;
	}
	build->draft_count = kept;
	return status;
}

static enum ldr_status torn_lasts(struct build *build)
{
	enum ldr_status status = LDR_OK;

	build->draft_count = 0;
	for (size_t k = 0; !status && k < build->epoch.count; k++) {
		uint32_t index = build->epoch.writes[k];
		const struct crash_record *record = &build->log->records[index];
		size_t places = 0;

		for (uint32_t at = next_cut(build, record, 0); at < record->length;
		     at = next_cut(build, record, at))
			places++;
		status = torn_last(build, k, places);
		if (!status)
			status = draft_whole(build, index);
	}
	return status;
}

static uint32_t random_cut(struct build *build, const struct crash_record *record)
{
	uint32_t at = (uint32_t)(draw(build) % record->length);

	return at == 0 ? 0 : next_cut(build, record, at - 1);
}

/* Absent, whole, a head, a tail, or a choice of grains. */
static enum ldr_status tear(struct build *build, uint32_t number)
{
	const struct crash_record *record = &build->log->records[number];
	enum ldr_status status = LDR_OK;
	uint32_t at = 0, to;

	switch ((draw(build) >> 32) % 5) {
	default:
		return LDR_OK;
	case 1:
		return draft_whole(build, number);
	case 2:
		return draft_part(build, number, 0, random_cut(build, record));
	case 3:
		return draft_part(build, number, random_cut(build, record),
				  (uint32_t)record->length);
	case 4:
		for (; !status && at < record->length; at = to) {
			to = next_cut(build, record, at);
			if (draw(build) >> 40 & 1)
				status = draft_part(build, number, at, to);
		}
		return status;
	}
}

static enum ldr_status torn(struct build *build)
{
	char name[CRASH_STATE_NAME_BYTES];
	enum ldr_status status = LDR_OK;

	for (unsigned k = 0; !status && build->epoch.count && k < build->options->torn_samples;
	     k++) {
		build->draft_count = 0;
		for (size_t i = 0; !status && i < build->epoch.count; i++)
			status = tear(build, build->epoch.writes[i]);
		snprintf(name, sizeof(name), "e%zur%u", build->epoch.number, k);
		if (!status)
			status = end_draft(build, name);
	}
	return status;
}

static enum ldr_status lying(struct build *build, size_t write_count)
{
	size_t end = build->marks_before[build->log->count];
	char name[CRASH_STATE_NAME_BYTES];
	enum ldr_status status = LDR_OK;

	build->model = CRASH_LYING;
	for (unsigned k = 0; !status && k < build->options->lying_samples; k++) {
		build->draft_count = 0;
		for (size_t i = 0; !status && i < write_count; i++) {
			if (draw(build) >> 40 & 1)
				status = draft_whole(build, build->writes[i]);
		}
		snprintf(name, sizeof(name), "lie%u", k);
		if (!status)
			status = settle_draft(build, 0, end, end, name);
	}
	return status;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static enum ldr_status one_epoch(struct build *build)
{
	static const struct {
		enum crash_model model;
		enum ldr_status (*give)(struct build *build);
	} models[] = {{CRASH_PREFIX, prefixes},
		      {CRASH_SUBSET, subsets},
		      {CRASH_TORNLAST, torn_lasts},
		      {CRASH_TORN, torn}};
	enum ldr_status status = LDR_OK;

	build->out.epoch_count++;
	if (build->epoch.count > build->out.widest_epoch)
		build->out.widest_epoch = build->epoch.count;
	for (size_t i = 0; !status && i < sizeof(models) / sizeof(models[0]); i++) {
		build->model = models[i].model;
		if (build->options->models & models[i].model)
			status = models[i].give(build);
	}
	return status;
}

/* Fills writes and marks_before; gives the number of writes. */
static enum ldr_status survey(struct build *build, size_t *out_count)
{
	const struct crash_log *log = build->log;
	size_t writes = 0, marks = 0;

	build->writes = calloc(log->count + 1, sizeof(*build->writes));
	build->marks_before = calloc(log->count + 1, sizeof(*build->marks_before));
	if (!build->writes || !build->marks_before)
		return no_memory(build);
	for (size_t i = 0; i < log->count; i++) {
		build->marks_before[i] = marks;
		marks += log->records[i].type == CRASH_MARK;
		if (!changes_disk(&log->records[i]))
			continue;
		if (log->records[i].length == 0 || log->records[i].length > UINT32_MAX / 2)
			return ldr_fail(build->err, LDR_ELIMIT,
					"states: record %zu has %" PRIu64 " bytes", i,
					log->records[i].length);
		build->writes[writes++] = (uint32_t)i;
	}
	build->marks_before[log->count] = marks;
	*out_count = writes;
	return LDR_OK;
}

static enum ldr_status epochs(struct build *build, size_t write_count)
{
	const struct crash_log *log = build->log;
	enum ldr_status status = LDR_OK;
	size_t begin = 0, write = 0, number = 0;

	for (size_t i = 0; !status && i <= log->count; i++) {
		size_t first = write;

		if (i < log->count && log->records[i].type != CRASH_FLUSH)
			continue;
		while (write < write_count && build->writes[write] < i)
			write++;
		build->epoch = (struct epoch){number++, begin, i, build->writes + first,
					      write - first};
		status = one_epoch(build);
		begin = i + 1;
	}
	return status;
}

enum ldr_status crash_states_enumerate(const struct crash_log *log,
				       const struct crash_state_options *options,
				       struct crash_states *out_states, struct ldr_error *err)
{
	struct build build = {.log = log, .options = options, .random = options->seed, .err = err};
	enum ldr_status status = LDR_OK;
	size_t write_count = 0;

	if (options->grain_bytes < 512 || options->grain_bytes % 512 || options->subset_max > 20)
		return ldr_fail(err, LDR_EINVAL, "states: grain of %u bytes, subsets up to %u",
				options->grain_bytes, options->subset_max);
	status = survey(&build, &write_count);
	if (!status)
		status = epochs(&build, write_count);
	if (!status && options->models & CRASH_LYING)
		status = lying(&build, write_count);
	free(build.writes);
	free(build.marks_before);
	free(build.draft);
	free(build.table);
	if (status) {
		crash_states_dispose(&build.out);
		return status;
	}
	*out_states = build.out;
	return LDR_OK;
}

void crash_states_dispose(struct crash_states *states)
{
	free(states->states);
	free(states->pieces);
	memset(states, 0, sizeof(*states));
}
