/* Kept cases; see kept.h. */
#include "tests/recovery/core/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/json.h"
#include "tests/recovery/core/lab.h"

#define RECORD_BYTES (64u << 20)

/* All that is read back from a folder. */
struct kept {
	const char *folder;
	const char *state;
	const char *image;
	uint8_t *log_bytes; /* owns, as all below */
	struct crash_log log;
	json_t *record;
	struct crash_subject subject;
	const struct crash_leg *leg;
	struct crash_item item;
	uint64_t seed;
	struct crash_states states;
};

static enum ldr_status read_all(const char *path, uint8_t **out_bytes, size_t *out_length,
				struct ldr_error *err)
{
	LDR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	size_t length = 0;
	ssize_t got = 1;

	if (end < 0)
		return ldr_fail_errno(err, errno, "%s", path);
	bytes = malloc((size_t)end + 1);
	while (bytes && length < (size_t)end && got > 0) {
		got = pread(fd, bytes + length, (size_t)end - length, (off_t)length);
		length += got > 0 ? (size_t)got : 0;
	}
	if (!bytes || got < 0)
		return ldr_fail_errno(err, bytes ? errno : ENOMEM, "%s", path);
	*out_bytes = bytes;
	*out_length = length;
	bytes = NULL;
	return LDR_OK;
}

static enum ldr_status read_log(const char *path, struct kept *kept, struct ldr_error *err)
{
	size_t length;
	enum ldr_status status = read_all(path, &kept->log_bytes, &length, err);

	return status ? status : crash_log_read(kept->log_bytes, length, &kept->log, err);
}

static enum ldr_status take_enumeration(struct kept *kept, struct ldr_error *err)
{
	const struct {
		const char *name;
		unsigned *place;
	} fields[] = {{"models", &kept->item.models},   {"grain", &kept->item.grain},
		      {"exhaust", &kept->item.exhaust}, {"subsets", &kept->item.subsets},
		      {"torn", &kept->item.torn},       {"lying", &kept->item.lying},
		      {"max", &kept->item.max},         {"cuts", &kept->item.cuts}};
	json_t *object;
	enum ldr_status status = ldr_json_object(kept->record, "enumerate", &object, err);

	for (size_t i = 0; !status && i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t value;

		status = ldr_json_u64(object, fields[i].name, UINT32_MAX, &value, err);
		if (!status)
			*fields[i].place = (unsigned)value;
	}
	return status;
}

static enum ldr_status take_subject(struct kept *kept, struct ldr_error *err)
{
	json_t *words, *description;
	char *text;
	enum ldr_status status = ldr_json_array(kept->record, "command", CRASH_WORDS_MAX, &words,
						err);

	if (!status)
		status = ldr_json_object(kept->record, "description", &description, err);
	if (status)
		return status;
	kept->subject.words = json_array_size(words);
	for (size_t i = 0; i < kept->subject.words; i++)
		kept->subject.argv[i] = json_string_value(json_array_get(words, i));
	text = json_dumps(description, JSON_COMPACT);
	if (!text)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a description");
	status = crash_subject_parse(&kept->subject, text, strlen(text), err);
	free(text);
	return status;
}

static enum ldr_status read_record(struct kept *kept, struct ldr_error *err)
{
	char path[PATH_MAX];
	uint8_t *bytes;
	size_t length;
	const char *leg;
	enum ldr_status status;

	snprintf(path, sizeof(path), "%s/case.json", kept->folder);
	status = read_all(path, &bytes, &length, err);
	if (status)
		return status;
	status = ldr_json_parse((const char *)bytes, length, RECORD_BYTES, path, &kept->record,
				err);
	free(bytes);
	if (!status)
		status = ldr_json_string(kept->record, "leg", 64, &leg, err);
	if (!status)
		status = ldr_json_u64(kept->record, "seed", LDR_JSON_INTEGER_MAX, &kept->seed, err);
	if (status)
		return status;
	kept->leg = crash_leg_find(leg, strlen(leg));
	if (!kept->leg)
		return ldr_fail(err, LDR_ECORRUPT, "%s: leg %s is not known", path, leg);
	return take_enumeration(kept, err);
}

static enum ldr_status kept_open(struct kept *kept, struct ldr_error *err)
{
	struct crash_state_options options;
	char path[PATH_MAX];
	enum ldr_status status = read_record(kept, err);

	snprintf(path, sizeof(path), "%s/log", kept->folder);
	if (!status)
		status = take_subject(kept, err);
	if (!status)
		status = read_log(path, kept, err);
	if (status)
		return status;
	crash_trial_options(&kept->item, kept->leg, kept->seed, &options);
	return crash_states_enumerate(&kept->log, &options, &kept->states, err);
}

static void kept_close(struct kept *kept)
{
	crash_states_dispose(&kept->states);
	crash_subject_dispose(&kept->subject);
	crash_log_dispose(&kept->log);
	json_decref(kept->record);
	free(kept->log_bytes);
}

static const struct crash_state *state_named(const struct kept *kept, const char *name)
{
	for (size_t i = 0; i < kept->states.count; i++) {
		if (strcmp(kept->states.states[i].name, name) == 0)
			return &kept->states.states[i];
	}
	printf("no state %s among %zu\n", name, kept->states.count);
	return NULL;
}

static int failed(const struct ldr_error *err)
{
	if (err->status == LDR_EUNSUPPORTED) {
		printf("skip crashlab: unavailable: %s\n", err->text);
		return CRASH_EXIT_UNAVAILABLE;
	}
	fprintf(stderr, "crashlab: %s\n", err->text);
	return 1;
}

/* ---- replay ------------------------------------------------------------------------------------------ */

static void print_look(const struct crash_observation *seen, const struct crash_violations *found)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	if (seen->mount_errno)
		printf("  not mounted: %s\n", strerror(seen->mount_errno));
	for (size_t i = 0; i < seen->row_count; i++) {
		ldr_id_to_hex(&seen->rows[i].sha256, hex);
		printf("  %-32s %10" PRIu64 " %s\n", seen->rows[i].name, seen->rows[i].size_bytes,
		       seen->rows[i].kind == CRASH_FILE ? hex : "(no file)");
	}
	for (size_t i = 0; i < found->count && i < CRASH_VIOLATIONS_MAX; i++)
		printf("  violation: %s\n", found->text[i]);
}

/* 0 good, 1 bad, CRASH_EXIT_UNAVAILABLE. */
static int judge_one(struct crash_bench *bench, const struct kept *kept, const char *name)
{
	const struct crash_state *state = state_named(kept, name);
	struct crash_violations found;
	struct ldr_error err = {0};

	if (!state)
		return 1;
	if (kept->image && kept->state) {
		LDR_AUTO_FD int fd = open(kept->image, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
					  0600);

		if (fd < 0 || crash_disk_build(fd, bench->seed, bench->log, bench->states, state,
					       &err) != LDR_OK)
			return failed(&err);
	}
	if (crash_bench_judge(bench, state, &found, &err) != LDR_OK)
		return failed(&err);
	printf("%s %s: %zu violations\n", found.count ? "not ok" : "ok", name, found.count);
	print_look(&bench->look.seen, &found);
	return found.count ? 1 : 0;
}

static int judge_listed(struct crash_bench *bench, const struct kept *kept)
{
	json_t *list = json_object_get(kept->record, "failures"), *item;
	size_t index;
	int rc = 0, one;

	if (kept->state)
		return judge_one(bench, kept, kept->state);
	json_array_foreach (list, index, item) {
		const char *name = json_string_value(json_object_get(item, "state"));

		if (!name)
			continue;
		one = judge_one(bench, kept, name);
		rc = rc == 1 || one == 0 ? rc : one;
	}
	return rc;
}

static int replay_in(void *context, const char *folder)
{
	struct kept *kept = context;
	char path[PATH_MAX], inner[CRASH_PATH_BYTES / 2];
	struct crash_place place;
	struct crash_seed seed = {0};
	struct ldr_error err = {0};
	struct crash_bench bench = {.place = &place,
				    .leg = kept->leg,
				    .subject = &kept->subject,
				    .log = &kept->log,
				    .seed = &seed,
				    .states = &kept->states};
	int rc = 1;

	snprintf(path, sizeof(path), "%s/seed.img", kept->folder);
	snprintf(inner, sizeof(inner), "%s/0", folder);
	if (crash_place_make(&place, inner, NULL, &err) != LDR_OK ||
	    crash_seed_load(path, &seed, &err) != LDR_OK ||
	    crash_look_init(&bench.look, &err) != LDR_OK)
		return failed(&err);
	bench.image_fd = open(place.image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (bench.image_fd >= 0) {
		rc = judge_listed(&bench, kept);
		close(bench.image_fd);
	}
	crash_bench_end(&bench);
	crash_seed_dispose(&seed);
	return rc;
}

int crash_kept_replay(const char *folder, const char *state, const char *image)
{
	char absolute[PATH_MAX];
	struct kept kept = {.folder = absolute, .state = state, .image = image};
	struct ldr_error err = {0};
	int rc;

	if (!realpath(folder, absolute)) {
		ldr_fail_errno(&err, errno, "%s", folder);
		return failed(&err);
	}
	if (kept_open(&kept, &err) != LDR_OK)
		rc = failed(&err);
	else
		rc = crash_lab_isolated(absolute, replay_in, &kept);
	kept_close(&kept);
	return rc;
}

/* ---- explain, enumerate -------------------------------------------------------------------------------- */

static void print_record(const struct kept *kept, const struct crash_state *state, size_t number)
{
	const struct crash_record *record = &kept->log.records[number];
	bool changes = record->type == CRASH_WRITE || record->type == CRASH_DISCARD;

	printf("%5zu %c", number, record->type);
	if (record->type == CRASH_MARK)
		printf(" %.*s", (int)record->length, (const char *)record->data);
	else if (changes)
		printf(" %10" PRIu64 " +%-8" PRIu64, record->offset, record->length);
	if (changes && number < state->base)
		printf(" whole");
	for (size_t i = 0; i < state->piece_count; i++) {
		const struct crash_piece *piece = &kept->states.pieces[state->first_piece + i];

		if (piece->record == number)
			printf(" [%u, %u)", piece->from, piece->to);
	}
	printf("\n");
}

int crash_kept_explain(const char *folder, const char *name)
{
	struct kept kept = {.folder = folder};
	const struct crash_state *state = NULL;
	struct ldr_error err = {0};

	if (kept_open(&kept, &err) != LDR_OK)
		failed(&err);
	else
		state = state_named(&kept, name);
	if (state) {
		printf("%s: %s; crash after mark %zu to %zu of %zu\n", name,
		       crash_model_name(state->model), state->first_point, state->last_point,
		       kept.log.mark_count);
		for (size_t i = 0; i < kept.log.count; i++)
			print_record(&kept, state, i);
	}
	kept_close(&kept);
	return state ? 0 : 1;
}

int crash_kept_enumerate(const char *log, const struct crash_state_options *options)
{
	struct kept kept = {.folder = NULL};
	struct ldr_error err = {0};
	int rc = 0;

	if (read_log(log, &kept, &err) != LDR_OK ||
	    crash_states_enumerate(&kept.log, options, &kept.states, &err) != LDR_OK)
		rc = failed(&err);
	for (size_t i = 0; i < kept.states.count; i++) {
		const struct crash_state *state = &kept.states.states[i];

		printf("%s %s base %zu, %zu pieces, marks %zu to %zu\n", state->name,
		       crash_model_name(state->model), state->base, state->piece_count,
		       state->first_point, state->last_point);
	}
	printf("%zu states, %zu epochs, widest %zu\n", kept.states.count, kept.states.epoch_count,
	       kept.states.widest_epoch);
	kept_close(&kept);
	return rc;
}
