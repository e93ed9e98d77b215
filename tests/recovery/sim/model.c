/* The enumeration and the judgement; see model.h. */
#include "tests/recovery/sim/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may become of a pending write: an answer per pending event, for a cut only the first two. */
enum fate { ABSENT, WHOLE, ZEROS, HALF, FATES };

/* A crash point: what is settled, what is pending, and the marks told. */
struct point {
	const struct crash_case *subject;
	struct sim_folder settled;
	const struct sim_event *names[SIM_PENDING_MAX];
	size_t name_count;
	const struct sim_event *writes[SIM_PENDING_MAX * 4];
	size_t write_count;
	struct crash_phases phases;
};

/* ---- settling ---- */

static bool is_name_event(const struct sim_event *event)
{
	return event->kind == SIM_CREATE || event->kind == SIM_RENAME ||
	       event->kind == SIM_UNLINK || event->kind == SIM_LINK;
}

static enum ldr_status settle_names(struct point *point, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; !status && i < point->name_count; i++)
		status = sim_apply(&point->settled, point->names[i], err);
	point->name_count = 0;
	return status;
}

static enum ldr_status settle_writes(struct point *point, bool all, unsigned object,
				     struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	size_t left = 0;

	for (size_t i = 0; !status && i < point->write_count; i++) {
		if (all || point->writes[i]->object == object)
			status = sim_apply(&point->settled, point->writes[i], err);
		else
			point->writes[left++] = point->writes[i];
	}
	point->write_count = left;
	return status;
}

static enum ldr_status step(struct point *point, const struct sim_event *event,
			    struct ldr_error *err)
{
	enum ldr_status status;

	if (is_name_event(event)) {
		if (point->name_count == SIM_PENDING_MAX)
			return ldr_fail(err, LDR_ELIMIT, "model: more than %d names pending",
					SIM_PENDING_MAX);
		point->names[point->name_count++] = event;
	} else if (event->kind == SIM_WRITE || event->kind == SIM_TRUNCATE) {
		if (point->write_count == sizeof(point->writes) / sizeof(point->writes[0]))
			return ldr_fail(err, LDR_ELIMIT, "model: %zu writes pending",
					point->write_count);
		point->writes[point->write_count++] = event;
	} else if (event->kind == SIM_SYNC) {
		return settle_writes(point, false, event->object, err);
	} else if (event->kind != SIM_MARK) {
		status = settle_names(point, err);
		return status || event->kind == SIM_SYNC_FOLDER
			       ? status
			       : settle_writes(point, true, 0, err);
	}
	return LDR_OK;
}

/* ---- one state ---- */

static void observe(const struct sim_folder *folder, struct crash_row rows[SIM_NAMES_MAX],
		    struct crash_observation *out)
{
	memset(out, 0, sizeof(*out));
	out->rows = rows;
	for (size_t i = 0; i < SIM_NAMES_MAX; i++) {
		const struct sim_name *name = &folder->names[i];
		const struct sim_object *object = &folder->objects[name->object];
		struct crash_row *row = &rows[out->row_count];

		if (!name->name[0])
			continue;
		*row = (struct crash_row){
			.name = name->name, .kind = CRASH_FILE, .size_bytes = object->length};
		if (ldr_digest_once(object->bytes, object->length, &row->sha256, NULL))
			abort();
		out->row_count++;
	}
}

static void judge(const struct point *point, const struct sim_folder *folder,
		  struct sim_result *out)
{
	struct crash_row rows[SIM_NAMES_MAX];
	struct crash_observation seen;
	struct crash_violations found;

	observe(folder, rows, &seen);
	out->states++;
	if (crash_oracle_check(point->subject, &point->phases, &seen, &found))
		return;
	if (!out->violating++)
		snprintf(out->first, sizeof(out->first), "after mark %zu (%s): %.180s",
			 point->phases.last,
			 point->phases.last ? point->phases.marks[point->phases.last - 1] : "none",
			 found.text[0]);
}

static enum ldr_status meet_fate(struct sim_folder *folder, const struct sim_event *event,
				 enum fate fate, struct ldr_error *err)
{
	struct sim_event changed = *event;

	if (fate == ABSENT)
		return LDR_OK;
	if (fate == ZEROS)
		changed.bytes = NULL;
	if (fate == HALF)
		changed.length /= 2;
	return sim_apply(folder, &changed, err);
}

/* ---- all states of a point ---- */

static bool is_own_file(const struct crash_case *subject, const char *name)
{
	for (size_t i = 0; i < subject->file_count; i++) {
		if (strcmp(subject->files[i].name, name) == 0)
			return true;
	}
	for (size_t i = 0; i < subject->fixed_count; i++) {
		if (strcmp(subject->fixed[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool is_varied(const struct point *point, const struct sim_folder *folder, unsigned object)
{
	for (size_t i = 0; i < SIM_NAMES_MAX; i++) {
		if (folder->names[i].name[0] && folder->names[i].object == object &&
		    is_own_file(point->subject, folder->names[i].name))
			return true;
	}
	return false;
}

/* The number-th combination of fates; false past the last. */
static bool fates_of(uint64_t number, const struct sim_event *const *varied, size_t count,
		     enum fate fates[SIM_PENDING_MAX])
{
	for (size_t i = 0; i < count; i++) {
		unsigned choices = varied[i]->kind == SIM_TRUNCATE ? 2 : FATES;

		fates[i] = (enum fate)(number % choices);
		number /= choices;
	}
	return number == 0;
}

static enum ldr_status vary_contents(const struct point *point, const struct sim_folder *named,
				     struct sim_result *out, struct ldr_error *err)
{
	const struct sim_event *varied[SIM_PENDING_MAX];
	enum fate fates[SIM_PENDING_MAX];
	enum ldr_status status = LDR_OK;
	size_t count = 0;

	for (size_t i = 0; i < point->write_count; i++) {
		if (!is_varied(point, named, point->writes[i]->object))
			continue;
		if (count == SIM_PENDING_MAX)
			return ldr_fail(err, LDR_ELIMIT, "model: more than %d writes to vary",
					SIM_PENDING_MAX);
		varied[count++] = point->writes[i];
	}
	for (uint64_t number = 0; !status && fates_of(number, varied, count, fates); number++) {
		struct sim_folder state;

		status = sim_folder_copy(named, &state, err);
		for (size_t i = 0; !status && i < count; i++)
			status = meet_fate(&state, varied[i], fates[i], err);
		if (!status)
			judge(point, &state, out);
		sim_folder_dispose(&state);
	}
	return status;
}

/* Temporaries hold what was written to them; their contents are nobody's claim. */
static enum ldr_status fill_temporaries(const struct point *point, struct sim_folder *named,
					struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; !status && i < point->write_count; i++) {
		if (!is_varied(point, named, point->writes[i]->object))
			status = sim_apply(named, point->writes[i], err);
	}
	return status;
}

static enum ldr_status check_point(const struct point *point, struct sim_result *out,
				   struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	out->points++;
	for (unsigned chosen = 0; !status && chosen < 1u << point->name_count; chosen++) {
		struct sim_folder named;

		status = sim_folder_copy(&point->settled, &named, err);
		for (size_t i = 0; !status && i < point->name_count; i++) {
			if (chosen & 1u << i)
				status = sim_apply(&named, point->names[i], err);
		}
		if (!status)
			status = fill_temporaries(point, &named, err);
		if (!status)
			status = vary_contents(point, &named, out, err);
		sim_folder_dispose(&named);
	}
	return status;
}

/* Between two calls lie any number of marks; a state there belongs to all of them. */
static enum ldr_status check_all(struct point *point, const struct sim_trace *trace,
				 struct sim_result *out, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	size_t at = 0;

	while (!status) {
		point->phases.first = point->phases.last;
		for (; at < trace->event_count && trace->events[at].kind == SIM_MARK; at++)
			point->phases.last++;
		status = check_point(point, out, err);
		if (at == trace->event_count)
			break;
		if (!status)
			status = step(point, &trace->events[at++], err);
	}
	return status;
}

enum ldr_status sim_check(const struct crash_case *subject, const struct sim_trace *trace,
			  struct sim_result *out, struct ldr_error *err)
{
	struct point point = {.subject = subject};
	const char **marks = calloc(trace->event_count + 1, sizeof(*marks));
	enum ldr_status status;

	memset(out, 0, sizeof(*out));
	if (!marks)
		return ldr_fail(err, LDR_ENOMEM, "model: no memory for marks");
	for (size_t i = 0; i < trace->event_count; i++) {
		if (trace->events[i].kind == SIM_MARK)
			marks[point.phases.mark_count++] = trace->events[i].name;
	}
	point.phases.marks = marks;
	status = sim_folder_copy(&trace->before, &point.settled, err);
	if (!status)
		status = check_all(&point, trace, out, err);
	sim_folder_dispose(&point.settled);
	free(marks);
	return status;
}
