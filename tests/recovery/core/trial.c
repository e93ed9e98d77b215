/* A trial, from the recorder's start to its line in the record; see trial.h. */
#include "tests/recovery/core/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/facts.h"
#include "tests/recovery/core/reference.h"

#define FAILURES_LISTED 20

/* What a trial gathers while it replays. */
struct tally {
	size_t states[CRASH_MODEL_COUNT];
	size_t bad[CRASH_MODEL_COUNT];
	size_t mount_failures;
	size_t fsck_runs;
	size_t fsck_bad;
	uint32_t *state_us; /* owns: one for each replayed state */
	size_t replayed;
	struct ldr_id seed_sha256;
	json_t *failures; /* owns */
};

static unsigned model_index(enum crash_model model)
{
	return (unsigned)__builtin_ctz((unsigned)model);
}

void crash_trial_options(const struct crash_item *item, const struct crash_leg *leg, uint64_t seed,
			 struct crash_state_options *out_options)
{
	*out_options = (struct crash_state_options){.models = item->models,
						    .grain_bytes = item->grain,
						    .subset_max = item->exhaust,
						    .subset_samples = item->subsets,
						    .torn_samples = item->torn,
						    .lying_samples = item->lying,
						    .cuts_max = item->cuts,
						    .seed = seed,
						    .max_states = item->max,
						    .exempt_count = leg->exempt_count,
						    .exempt = leg->exempt};
}

static void LDR_PRINTF(2, 3) say(struct crash_outcome *outcome, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(outcome->text, sizeof(outcome->text), fmt, args);
	va_end(args);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- failures ---------------------------------------------------------------------------------------- */

static void case_name(const struct crash_trial *trial, char *out, size_t room)
{
	int used = snprintf(out, room, "%s.%s.%s", trial->item->name, trial->leg->name,
			    trial->inject);

	if (trial->fault.kind && used > 0 && (size_t)used < room)
		snprintf(out + used, room - (size_t)used, ".%c%u", trial->fault.kind,
			 trial->fault.number);
	for (char *c = out; *c; c++)
		*c = *c == ':' || *c == '/' ? '-' : *c;
}

static json_t *pieces_of(const struct crash_states *states, const struct crash_state *state)
{
	json_t *list = json_array();

	for (size_t i = 0; i < state->piece_count; i++) {
		const struct crash_piece *piece = &states->pieces[state->first_piece + i];

		json_array_append_new(list, json_pack("[iii]", (int)piece->record, (int)piece->from,
						      (int)piece->to));
	}
	return list;
}

static json_t *rows_of(const struct crash_observation *seen)
{
	json_t *object = json_object();
	char hex[LDR_ID_HEX_CHARS + 1], text[LDR_ID_HEX_CHARS + 32];

	for (size_t i = 0; i < seen->row_count && i < 64; i++) {
		ldr_id_to_hex(&seen->rows[i].sha256, hex);
		snprintf(text, sizeof(text), "%" PRIu64 " %s", seen->rows[i].size_bytes, hex);
		json_object_set_new(object, seen->rows[i].name,
				    seen->rows[i].kind == CRASH_FILE ? json_string(text)
								     : json_integer(-1));
	}
	return object;
}

static void list_failure(const struct crash_trial *trial, const struct crash_bench *bench,
			 const struct crash_state *state, const struct crash_violations *found,
			 json_t *failures)
{
	json_t *texts = json_array(), *failure;
	char name[160];

	for (size_t i = 0; i < found->count && i < CRASH_VIOLATIONS_MAX; i++)
		json_array_append_new(texts, json_string(found->text[i]));
	case_name(trial, name, sizeof(name));
	failure = json_pack(
		"{s:s, s:i, s:o, s:[ii], s:o, s:i, s:o, s:o}", "state", state->name, "base",
		(int)state->base, "pieces", pieces_of(bench->states, state), "points",
		(int)state->first_point, (int)state->last_point, "violations", texts, "mount_errno",
		bench->look.seen.mount_errno, "seen", rows_of(&bench->look.seen), "rebuild",
		json_sprintf("crashlab replay failures/%s --state %s", name, state->name));
	json_array_append_new(failures, failure);
}

static enum ldr_status write_file(const char *path, const void *bytes, size_t length, int flags,
				  struct ldr_error *err)
{
	LDR_AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
	ssize_t done = fd < 0 ? -1 : write(fd, bytes, length);

	if (done == (ssize_t)length)
		return LDR_OK;
	return ldr_fail_errno(err, done < 0 ? errno : ENOSPC, "writing %s", path);
}

/* Seed, log and record of a trial with a bad state. */
static enum ldr_status keep(const struct crash_trial *trial,
			    const struct crash_recording *recording, const char *record,
			    struct ldr_error *err)
{
	char name[160], folder[CRASH_PATH_BYTES], path[CRASH_PATH_BYTES + 16];
	enum ldr_status status;

	case_name(trial, name, sizeof(name));
	snprintf(folder, sizeof(folder), "%s/failures/%s", trial->out_folder, name);
	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		return ldr_fail_errno(err, errno, "folder %s", folder);
	snprintf(path, sizeof(path), "%s/seed.img", folder);
	status = crash_disk_copy(trial->place->seed, path, err);
	snprintf(path, sizeof(path), "%s/log", folder);
	if (!status)
		status = write_file(path, recording->bytes, recording->length, O_TRUNC, err);
	snprintf(path, sizeof(path), "%s/case.json", folder);
	return status ? status : write_file(path, record, strlen(record), O_TRUNC, err);
}

/* ---- the record -------------------------------------------------------------------------------------- */

static void put_id(json_t *object, const char *field, const struct ldr_id *id)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(id, hex);
	json_object_set_new(object, field, json_string(hex));
}

static void put_digest(json_t *object, const char *field, const void *bytes, size_t length)
{
	struct ldr_id id;

	if (ldr_digest_once(bytes, length, &id, NULL) == LDR_OK)
		put_id(object, field, &id);
}

static json_t *models_of(const struct tally *tally)
{
	json_t *object = json_object();

	for (unsigned i = 0; i < CRASH_MODEL_COUNT; i++) {
		if (tally->states[i])
			json_object_set_new(object, crash_model_name(1u << i),
					    json_pack("{s:i, s:i}", "states", (int)tally->states[i],
						      "bad", (int)tally->bad[i]));
	}
	return object;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void put_times(json_t *object, struct tally *tally)
{
	size_t count = tally->replayed;

	if (!count)
		return;
	qsort(tally->state_us, count, sizeof(*tally->state_us), by_value);
	json_object_set_new(object, "us_per_state",
			    json_pack("{s:i, s:i, s:i}", "p50", (int)tally->state_us[count / 2],
				      "p90", (int)tally->state_us[count * 9 / 10], "max",
				      (int)tally->state_us[count - 1]));
}

static json_t *marks_of(const struct crash_log *log)
{
	json_t *list = json_array();
	size_t next = 0;

	for (size_t i = 0; i < log->count; i++) {
		if (log->records[i].type == CRASH_MARK)
			json_array_append_new(list, json_pack("[is]", (int)i, log->marks[next++]));
	}
	return list;
}

static json_t *command_of(const struct crash_subject *subject)
{
	json_t *list = json_array();

	for (size_t i = 0; i < subject->words; i++)
		json_array_append_new(list, json_string(subject->argv[i]));
	return list;
}

static json_t *words_of(const char *const *words, size_t most)
{
	json_t *list = json_array();

	for (size_t i = 0; i < most && words[i]; i++)
		json_array_append_new(list, json_string(words[i]));
	return list;
}

static json_t *exempt_of(const struct crash_leg *leg, unsigned grain)
{
	json_t *list = json_array();

	for (size_t i = 0; grain < 4096 && i < leg->exempt_count; i++)
		json_array_append_new(list, json_pack("[II]", (json_int_t)leg->exempt[i].from,
						      (json_int_t)leg->exempt[i].to));
	return list;
}

static void put_system(const struct crash_trial *trial, const struct crash_recording *recording,
		       json_t *record)
{
	const struct crash_leg *leg = trial->leg;
	const char *revision = crash_facts_revision();
	char path[CRASH_PATH_BYTES + 64], text[4096];
	ssize_t got = 0;

	snprintf(path, sizeof(path), "%s/%s.mkfs", trial->place->folder, leg->name);
	{
		LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

		got = fd < 0 ? 0 : read(fd, text, sizeof(text));
	}
	crash_facts_put_host(record, trial->place->folder, trial->out_folder);
	if (revision)
		json_object_set_new(record, "revision", json_string(revision));
	json_object_set_new(record, "fs", json_string(leg->type));
	json_object_set_new(record, "mkfs", words_of(leg->mkfs, CRASH_MKFS_WORDS));
	crash_facts_put_text(record, "mkfs_output", text, got > 0 ? (size_t)got : 0);
	json_object_set_new(record, "fsck_command",
			    words_of(leg->fsck, sizeof(leg->fsck) / sizeof(leg->fsck[0])));
	json_object_set_new(record, "image_bytes", json_integer((json_int_t)leg->image_bytes));
	json_object_set_new(record, "mount_options_requested",
			    json_sprintf("noatime,%s", leg->options));
	json_object_set_new(record, "mount_options_observed", json_string(recording->options));
	if (recording->direct_io >= 0)
		json_object_set_new(record, "direct_io", json_boolean(recording->direct_io));
}

static json_t *record_of(const struct crash_trial *trial, const struct crash_recording *recording,
			 const struct crash_states *states, struct tally *tally)
{
	const struct crash_item *item = trial->item;
	const struct crash_log *log = &recording->log;
	json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I}", "schema", 1, "item",
				   item->name, "leg", trial->leg->name, "subject",
				   trial->subject->description.subject, "inject", trial->inject,
				   "seed", (json_int_t)trial->seed);

	json_object_set_new(record, "command", command_of(trial->subject));
	json_object_set_new(record, "description", json_incref(trial->subject->json));
	json_object_set_new(record, "tools", json_deep_copy(trial->tools));
	json_object_set_new(record, "fault",
			    trial->fault.kind
				    ? json_sprintf("%s %u fails",
						   trial->fault.kind == 'w' ? "write" : "flush",
						   trial->fault.number)
				    : json_null());
	json_object_set_new(record, "subject_status", json_integer(recording->subject_status));
	put_system(trial, recording, record);
	put_id(record, "seed_sha256", &tally->seed_sha256);
	put_digest(record, "log_sha256", recording->bytes, recording->length);
	json_object_set_new(record, "records",
			    json_pack("{s:i, s:i, s:i}", "W", (int)log->write_count, "F",
				      (int)log->flush_count, "D", (int)log->discard_count));
	json_object_set_new(record, "marks", marks_of(log));
	json_object_set_new(record, "enumerate",
			    json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "cuts",
				      (int)item->cuts, "models", (int)item->models, "grain",
				      (int)item->grain, "exhaust", (int)item->exhaust, "subsets",
				      (int)item->subsets, "torn", (int)item->torn, "lying",
				      (int)item->lying, "max", (int)item->max, "sample",
				      (int)item->sample, "exempt",
				      exempt_of(trial->leg, item->grain)));
	json_object_set_new(record, "states",
			    json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "writes_sampled",
				      (int)states->sampled_writes, "enumerated", (int)states->count,
				      "replayed", (int)tally->replayed, "epochs",
				      (int)states->epoch_count, "widest_epoch",
				      (int)states->widest_epoch, "epochs_sampled",
				      (int)states->sampled_epochs));
	json_object_set_new(record, "models", models_of(tally));
	json_object_set_new(record, "mount_failures",
			    json_integer((json_int_t)tally->mount_failures));
	json_object_set_new(record, "fsck",
			    json_pack("{s:i, s:i}", "runs", (int)tally->fsck_runs, "bad",
				      (int)tally->fsck_bad));
	json_object_set_new(record, "replayers_agreed",
			    json_integer((json_int_t)trial->outcome->agreed));
	put_times(record, tally);
	json_object_set(record, "failures", tally->failures);
	return record;
}

static enum ldr_status write_record(const struct crash_trial *trial,
				    const struct crash_recording *recording,
				    const struct crash_states *states, struct tally *tally,
				    struct ldr_error *err)
{
	json_t *record = record_of(trial, recording, states, tally);
	char *text = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER);
	char path[CRASH_PATH_BYTES], wrong[160], *line = NULL;
	int length = text ? asprintf(&line, "%s\n", text) : -1;
	enum ldr_status status = length > 0 ? LDR_OK
					    : ldr_fail(err, LDR_ENOMEM, "no memory for a record");

	snprintf(path, sizeof(path), "%s/cases.jsonl", trial->out_folder);
	if (!status && !crash_facts_check(record, wrong, sizeof(wrong)))
		status = ldr_fail(err, LDR_ECORRUPT, "record: %s", wrong);
	/* One write: other workers append to the same file. */
	if (!status)
		status = write_file(path, line, (size_t)length, O_APPEND, err);
	if (!status &&
	    (trial->keep_all || (trial->keep_failures && json_array_size(tally->failures))))
		status = keep(trial, recording, line, err);
	if (length > 0)
		free(line);
	free(text);
	json_decref(record);
	return status;
}

/* ---- replaying ---------------------------------------------------------------------------------------- */

/* Selection sampling (Knuth, The Art of Computer Programming, 3.4.2, algorithm S): exactly `wanted` of
 * the states, each equally likely. */
static bool chosen(uint64_t *random, size_t left, size_t wanted)
{
	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*random >> 33) % left < wanted;
}

static size_t wanted_of(const struct crash_trial *trial, const struct crash_bench *bench)
{
	size_t sample = trial->item->sample, count = bench->states->count;

	return sample && sample < count ? sample : count;
}

static void fsck(struct crash_bench *bench, struct tally *tally, struct crash_violations *found)
{
	int rc = crash_bench_fsck(bench);

	tally->fsck_runs++;
	if (rc == 0)
		return;
	tally->fsck_bad++;
	if (found->count < CRASH_VIOLATIONS_MAX)
		snprintf(found->text[found->count], CRASH_VIOLATION_BYTES,
			 "the file system's checker: exit status %d", rc);
	found->count++;
}

/* The image was changed by its mount: it is built again. */
static enum ldr_status agree(const struct crash_trial *trial, struct crash_bench *bench,
			     const struct crash_state *state, struct ldr_error *err)
{
	LDR_AUTO_FD int seed_fd = open(trial->place->seed, O_RDONLY | O_CLOEXEC);
	char wanted[LDR_ID_HEX_CHARS + 1], found[LDR_ID_HEX_CHARS + 1];
	struct crash_image_ids ids;
	enum ldr_status status = crash_disk_build(bench->image_fd, bench->seed, bench->log,
						  bench->states, state, err);

	if (!status)
		status = crash_reference_compare(seed_fd, bench->image_fd, bench->log,
						 bench->states, state, &ids, err);
	if (status)
		return status;
	if (!ldr_id_equal(&ids.wanted, &ids.found)) {
		ldr_id_to_hex(&ids.wanted, wanted);
		ldr_id_to_hex(&ids.found, found);
		return ldr_fail(err, LDR_ECORRUPT, "two replayers disagree: %.16s, %.16s", wanted,
				found);
	}
	trial->outcome->agreed++;
	return LDR_OK;
}

/* Is the state that was replayed last one of N, each in the middle of its part? (The very first is the disk as
 * it was before.) */
static bool is_one_of(const struct tally *tally, size_t n, size_t total)
{
	size_t every = n ? total / n + 1 : 0;

	return every && (tally->replayed - 1) % every == every / 2;
}

static enum ldr_status judge(const struct crash_trial *trial, struct crash_bench *bench,
			     size_t number, struct tally *tally, struct ldr_error *err)
{
	const struct crash_state *state = &bench->states->states[number];
	unsigned model = model_index(state->model);
	struct crash_violations found;
	uint64_t began = now_us();
	enum ldr_status status = crash_bench_judge(bench, state, &found, err);
	size_t total = wanted_of(trial, bench);

	if (status)
		return ldr_error_prefix(err, status, "state %s", state->name);
	tally->state_us[tally->replayed++] = (uint32_t)(now_us() - began);
	if (is_one_of(tally, trial->item->fsck, total) && bench->look.seen.mount_errno == 0)
		fsck(bench, tally, &found);
	if (is_one_of(tally, trial->item->agree, total)) {
		status = agree(trial, bench, state, err);
		if (status)
			return ldr_error_prefix(err, status, "state %s", state->name);
	}
	tally->states[model]++;
	tally->mount_failures += bench->look.seen.mount_errno != 0;
	trial->outcome->states++;
	if (!found.count)
		return LDR_OK;
	tally->bad[model]++;
	trial->outcome->violations++;
	if (json_array_size(tally->failures) < FAILURES_LISTED)
		list_failure(trial, bench, state, &found, tally->failures);
	return LDR_OK;
}

static enum ldr_status replay(const struct crash_trial *trial, struct crash_bench *bench,
			      struct tally *tally, struct ldr_error *err)
{
	size_t count = bench->states->count, wanted = wanted_of(trial, bench);
	uint64_t random = trial->seed;
	enum ldr_status status = LDR_OK;

	tally->state_us = calloc(count + 1, sizeof(*tally->state_us));
	if (!tally->state_us)
		return ldr_fail(err, LDR_ENOMEM, "no memory for %zu states", count);
	for (size_t i = 0; !status && i < count; i++) {
		if (!chosen(&random, count - i, wanted - tally->replayed))
			continue;
		status = judge(trial, bench, i, tally, err);
	}
	return status;
}

static enum ldr_status replay_all(const struct crash_trial *trial,
				  const struct crash_recording *recording,
				  const struct crash_states *states, struct tally *tally,
				  struct ldr_error *err)
{
	struct crash_bench bench = {.place = trial->place,
				    .leg = trial->leg,
				    .subject = trial->subject,
				    .log = &recording->log,
				    .states = states};
	LDR_AUTO_FD int fd = open(trial->place->image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
				  0600);
	struct crash_seed seed = {0};
	enum ldr_status status;

	if (fd < 0)
		return ldr_fail_errno(err, errno, "image %s", trial->place->image);
	bench.image_fd = fd;
	bench.seed = &seed;
	status = crash_seed_load(trial->place->seed, &seed, err);
	if (!status)
		status = crash_seed_digest(&seed, &tally->seed_sha256, err);
	if (!status)
		status = crash_look_init(&bench.look, err);
	if (!status)
		status = replay(trial, &bench, tally, err);
	crash_bench_end(&bench);
	crash_seed_dispose(&seed);
	return status;
}

static enum ldr_status recorded(const struct crash_trial *trial,
				const struct crash_recording *recording, struct ldr_error *err)
{
	struct crash_state_options options;
	struct crash_states states = {0};
	struct tally tally = {.failures = json_array()};
	enum ldr_status status;

	trial->outcome->marks = recording->log.mark_count;
	trial->outcome->writes = recording->log.write_count;
	trial->outcome->flushes = recording->log.flush_count;
	crash_trial_options(trial->item, trial->leg, trial->seed, &options);
	status = crash_states_enumerate(&recording->log, &options, &states, err);
	trial->outcome->enumerated = states.count;
	if (!status)
		status = replay_all(trial, recording, &states, &tally, err);
	if (!status)
		status = write_record(trial, recording, &states, &tally, err);
	crash_states_dispose(&states);
	json_decref(tally.failures);
	free(tally.state_us);
	return status;
}

void crash_trial_run(const struct crash_trial *trial)
{
	struct crash_recording recording;
	struct ldr_error err = {0};
	enum ldr_status status = crash_record_open(trial->place, &recording, &err);

	trial->outcome->daemon = recording.daemon;
	if (!status && unshare(CLONE_NEWNS) != 0)
		status = ldr_fail_errno(&err, errno, "a namespace of mounts");
	if (!status && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		status = ldr_fail_errno(&err, errno, "private mounts");
	if (!status)
		status = crash_record_run(trial->place, trial->leg, trial->subject, trial->inject,
					  &trial->fault, &recording, &err);
	if (!status)
		status = recorded(trial, &recording, &err);
	crash_record_close(trial->place, &recording);
	if (status)
		say(trial->outcome, "%s", err.text);
	trial->outcome->finished = status == LDR_OK;
}
