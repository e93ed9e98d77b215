/* Subjects and their descriptions; see subject.h. */
#include "tests/recovery/core/subject.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/json.h"
#include "tests/recovery/core/process.h"

#define STEP_LIMIT_MS 60000
#define DESCRIPTION_BYTES (4u << 20)
#define ITEMS_MAX 20000
#define NAME_BYTES 1024

int crash_subject_step(const struct crash_subject *subject, const char *step, const char *folder,
		       const char *const *env, const char *output)
{
	const char *argv[CRASH_WORDS_MAX + 2];
	struct crash_spawn spawn = {.argv = argv,
				    .env = env,
				    .folder = folder,
				    .output = output,
				    .limit_ms = STEP_LIMIT_MS};

	memcpy(argv, subject->argv, sizeof(argv));
	argv[subject->words] = step;
	argv[subject->words + 1] = NULL;
	return crash_spawn_wait(&spawn);
}

int crash_subject_recover(const struct crash_subject *subject, struct crash_server *server,
			  const char *folder, size_t acked, const char *output)
{
	const char *argv[CRASH_WORDS_MAX + 2];
	struct crash_spawn spawn = {.argv = argv, .folder = "/", .output = output};
	char line[NAME_BYTES], told[48];
	const char *const env[] = {told, NULL};

	snprintf(told, sizeof(told), "CRASHLAB_ACKED=%zu", acked);
	if (!subject->serves)
		return crash_subject_step(subject, "--recover", folder, env, output);
	memcpy(argv, subject->argv, sizeof(argv));
	argv[subject->words] = "--serve";
	argv[subject->words + 1] = NULL;
	if (server->child <= 0 && !crash_server_start(&spawn, server))
		return 127;
	snprintf(line, sizeof(line), "%s\t%zu\n", folder, acked);
	return crash_server_ask(server, line, STEP_LIMIT_MS);
}

static enum ldr_status take_version(const json_t *item, struct crash_version *out,
				    struct ldr_error *err)
{
	if (json_is_null(item)) {
		out->missing = true;
		return LDR_OK;
	}
	if (!json_is_string(item) ||
	    !ldr_id_from_hex(json_string_value(item), json_string_length(item), &out->sha256))
		return ldr_fail(err, LDR_ECORRUPT, "a version is neither null nor a digest");
	return LDR_OK;
}

static enum ldr_status take_file(const json_t *item, struct crash_file *out, struct ldr_error *err)
{
	struct crash_version *versions;
	enum ldr_status status;
	json_t *list;

	status = ldr_json_string(item, "name", NAME_BYTES, &out->name, err);
	if (!status)
		status = ldr_json_array(item, "versions", ITEMS_MAX, &list, err);
	if (status)
		return status;
	if (json_array_size(list) == 0)
		return ldr_fail(err, LDR_ECORRUPT, "file %s: no version", out->name);
	versions = calloc(json_array_size(list), sizeof(*versions));
	if (!versions)
		return ldr_fail(err, LDR_ENOMEM, "no memory for versions");
	out->versions = versions;
	out->version_count = json_array_size(list);
	for (size_t i = 0; !status && i < out->version_count; i++)
		status = take_version(json_array_get(list, i), &versions[i], err);
	return status;
}

static enum ldr_status take_files(struct crash_case *out, const json_t *object,
				  struct ldr_error *err)
{
	struct crash_file *files;
	enum ldr_status status;
	json_t *list;

	status = ldr_json_array(object, "files", ITEMS_MAX, &list, err);
	if (status)
		return status;
	files = calloc(json_array_size(list) + 1, sizeof(*files));
	if (!files)
		return ldr_fail(err, LDR_ENOMEM, "no memory for files");
	out->files = files;
	out->file_count = json_array_size(list);
	for (size_t i = 0; !status && i < out->file_count; i++)
		status = take_file(json_array_get(list, i), &files[i], err);
	return status;
}

static enum ldr_status take_fixed(struct crash_case *out, const json_t *object,
				  struct ldr_error *err)
{
	struct crash_fixed *fixed;
	enum ldr_status status;
	json_t *list;

	status = ldr_json_array(object, "fixed", ITEMS_MAX, &list, err);
	if (status)
		return status;
	fixed = calloc(json_array_size(list) + 1, sizeof(*fixed));
	if (!fixed)
		return ldr_fail(err, LDR_ENOMEM, "no memory for fixed files");
	out->fixed = fixed;
	out->fixed_count = json_array_size(list);
	for (size_t i = 0; !status && i < out->fixed_count; i++) {
		const json_t *item = json_array_get(list, i);

		status = ldr_json_string(item, "name", NAME_BYTES, &fixed[i].name, err);
		if (!status)
			status = ldr_json_id(item, "sha256", &fixed[i].sha256, err);
	}
	return status;
}

static enum ldr_status take_free(struct crash_case *out, const json_t *object,
				 struct ldr_error *err)
{
	const char **prefixes;
	enum ldr_status status;
	json_t *list;

	status = ldr_json_array(object, "free", ITEMS_MAX, &list, err);
	if (status)
		return status;
	prefixes = calloc(json_array_size(list) + 1, sizeof(*prefixes));
	if (!prefixes)
		return ldr_fail(err, LDR_ENOMEM, "no memory for prefixes");
	out->free_prefixes = prefixes;
	out->free_count = json_array_size(list);
	for (size_t i = 0; i < out->free_count; i++) {
		prefixes[i] = json_string_value(json_array_get(list, i));
		if (!prefixes[i] || !*prefixes[i])
			return ldr_fail(err, LDR_ECORRUPT, "free: entry %zu is no prefix", i);
	}
	return LDR_OK;
}

static enum ldr_status take_policy(struct crash_case *out, const json_t *object,
				   struct ldr_error *err)
{
	static const char *const names[] = {[CRASH_SYNC_FOLDER] = "folder",
					    [CRASH_SYNC_FILE] = "file",
					    [CRASH_SYNC_NONE] = "none"};
	const char *text;
	enum ldr_status status = ldr_json_string(object, "policy", 16, &text, err);

	if (status)
		return status;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			out->policy = (enum crash_policy)i;
			return LDR_OK;
		}
	}
	return ldr_fail(err, LDR_ECORRUPT, "policy \"%s\" is not known", text);
}

enum ldr_status crash_subject_parse(struct crash_subject *subject, const char *text, size_t length,
				    struct ldr_error *err)
{
	struct crash_case *out = &subject->description;
	enum ldr_status status = ldr_json_parse(text, length, DESCRIPTION_BYTES, "description",
						&subject->json, err);

	if (!status)
		status = ldr_json_string(subject->json, "subject", NAME_BYTES, &out->subject, err);
	if (!status)
		status = take_policy(out, subject->json, err);
	if (!status)
		status = take_files(out, subject->json, err);
	if (!status)
		status = take_fixed(out, subject->json, err);
	if (!status)
		status = take_free(out, subject->json, err);
	if (status)
		return ldr_error_prefix(err, status, "%s",
					subject->argv[0] ? subject->argv[0] : "a subject");
	subject->serves = json_is_true(json_object_get(subject->json, "serves"));
	return LDR_OK;
}

enum ldr_status crash_subject_describe(struct crash_subject *subject, const char *scratch,
				       struct ldr_error *err)
{
	LDR_AUTO_FREE char *text = malloc(DESCRIPTION_BYTES);
	LDR_AUTO_FD int fd = -1;
	ssize_t got;
	int rc;

	unlink(scratch);
	rc = crash_subject_step(subject, "--describe", NULL, NULL, scratch);
	fd = open(scratch, O_RDONLY | O_CLOEXEC);
	got = fd >= 0 && text ? read(fd, text, DESCRIPTION_BYTES - 1) : 0;
	if (rc != 0 || got <= 0)
		return ldr_fail(err, LDR_EIO, "%s --describe: exit status %d: %.*s",
				subject->argv[0], rc, got > 0 ? (int)got : 0, text ? text : "");
	return crash_subject_parse(subject, text, (size_t)got, err);
}

void crash_subject_dispose(struct crash_subject *subject)
{
	struct crash_case *description = &subject->description;

	for (size_t i = 0; description->files && i < description->file_count; i++)
		free((void *)(uintptr_t)description->files[i].versions);
	free((void *)(uintptr_t)description->files);
	free((void *)(uintptr_t)description->fixed);
	free((void *)(uintptr_t)description->free_prefixes);
	json_decref(subject->json);
	memset(subject, 0, sizeof(*subject));
}
