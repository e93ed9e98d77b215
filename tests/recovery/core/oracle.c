/* The rules of oracle.h. */
#include "tests/recovery/core/oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEMPORARY ".larder-tmp."

static void LDR_PRINTF(2, 3) violated(struct crash_violations *out, const char *fmt, ...)
{
	va_list args;

	if (out->count < CRASH_VIOLATIONS_MAX) {
		va_start(args, fmt);
		vsnprintf(out->text[out->count], CRASH_VIOLATION_BYTES, fmt, args);
		va_end(args);
	}
	out->count++;
}

/* The versions that are possible at a crash point. */
struct range {
	size_t acked;
	size_t started;
};

static struct range range_at(const struct crash_phases *phases, size_t point)
{
	struct range range = {0, 0};
	size_t begun = 0;

	for (size_t i = 0; i < point && i < phases->mark_count; i++) {
		const char *mark = phases->marks[i];

		if (strcmp(mark, "begin") == 0)
			begun++;
		else if (strcmp(mark, "rename_enter") == 0)
			range.started = begun;
		else if (strncmp(mark, "ack:", 4) == 0)
			range.acked = strtoul(mark + 4, NULL, 10);
	}
	return range;
}

size_t crash_oracle_acked(const struct crash_phases *phases)
{
	return range_at(phases, phases->last).acked;
}

static const struct crash_row *row_named(const struct crash_observation *seen, const char *name)
{
	for (size_t i = 0; i < seen->row_count; i++) {
		if (strcmp(seen->rows[i].name, name) == 0)
			return &seen->rows[i];
	}
	return NULL;
}

static bool is_version(const struct crash_row *row, const struct crash_version *version)
{
	if (!row || version->missing)
		return !row && version->missing;
	return row->kind == CRASH_FILE && ldr_id_equal(&row->sha256, &version->sha256);
}

static const struct crash_version *version_of(const struct crash_file *file, size_t number)
{
	return &file->versions[number < file->version_count ? number : file->version_count - 1];
}

static void check_file(const struct crash_file *file, const struct crash_row *row, size_t lowest,
		       size_t highest, struct crash_violations *out)
{
	char hex[LDR_ID_HEX_CHARS + 1] = "missing";

	for (size_t v = lowest; v <= highest; v++) {
		if (is_version(row, version_of(file, v)))
			return;
	}
	if (row)
		ldr_id_to_hex(&row->sha256, hex);
	hex[16] = 0;
	for (size_t v = 0; v < file->version_count; v++) {
		if (!is_version(row, &file->versions[v]))
			continue;
		violated(out, "%s: version %zu, allowed %zu to %zu", file->name, v, lowest,
			 highest);
		return;
	}
	violated(out, "%s: no version at all (%s), allowed %zu to %zu", file->name, hex, lowest,
		 highest);
}

static void check_files(const struct crash_case *subject, const struct crash_phases *phases,
			const struct crash_observation *seen, struct crash_violations *out)
{
	struct range earliest = range_at(phases, phases->first);
	struct range latest = range_at(phases, phases->last);
	size_t lowest = subject->policy == CRASH_SYNC_FOLDER ? latest.acked : 0;

	if (subject->policy == CRASH_SYNC_NONE && earliest.started > 0)
		return;
	for (size_t i = 0; i < subject->file_count; i++)
		check_file(&subject->files[i], row_named(seen, subject->files[i].name), lowest,
			   earliest.started, out);
}

static void check_fixed(const struct crash_case *subject, const struct crash_observation *seen,
			struct crash_violations *out)
{
	for (size_t i = 0; i < subject->fixed_count; i++) {
		const struct crash_fixed *fixed = &subject->fixed[i];
		const struct crash_row *row = row_named(seen, fixed->name);

		if (!row)
			violated(out, "%s: fixed and missing", fixed->name);
		else if (row->kind != CRASH_FILE || !ldr_id_equal(&row->sha256, &fixed->sha256))
			violated(out, "%s: fixed and changed", fixed->name);
	}
}

static bool is_temporary(const char *name)
{
	const char *slash = strrchr(name, '/');

	return strncmp(slash ? slash + 1 : name, TEMPORARY, strlen(TEMPORARY)) == 0;
}

/* Is it the name, or (a folder) an ancestor of it? */
static bool leads_to(const struct crash_row *row, const char *name)
{
	size_t length = strlen(row->name);

	if (strncmp(row->name, name, length) != 0)
		return false;
	return name[length] == 0 || (row->kind == CRASH_FOLDER && name[length] == '/');
}

static bool is_expected(const struct crash_case *subject, const struct crash_row *row)
{
	for (size_t i = 0; i < subject->file_count; i++) {
		if (leads_to(row, subject->files[i].name))
			return true;
	}
	for (size_t i = 0; i < subject->fixed_count; i++) {
		if (leads_to(row, subject->fixed[i].name))
			return true;
	}
	for (size_t i = 0; i < subject->free_count; i++) {
		const char *prefix = subject->free_prefixes[i];

		if (strncmp(row->name, prefix, strlen(prefix)) == 0)
			return true;
	}
	return row->kind == CRASH_FILE && is_temporary(row->name);
}

/* A temporary with the very bytes of a published version that is there too: a rename seen twice. */
static bool is_double(const struct crash_case *subject, const struct crash_observation *seen,
		      const struct crash_row *temporary)
{
	for (size_t i = 0; temporary->size_bytes && i < subject->file_count; i++) {
		const struct crash_file *file = &subject->files[i];
		const struct crash_row *row = row_named(seen, file->name);

		if (row && !is_version(row, &file->versions[0]) && row->kind == CRASH_FILE &&
		    ldr_id_equal(&row->sha256, &temporary->sha256))
			return true;
	}
	return false;
}

static void check_names(const struct crash_case *subject, const struct crash_observation *seen,
			struct crash_violations *out)
{
	for (size_t i = 0; i < seen->row_count; i++) {
		const struct crash_row *row = &seen->rows[i];

		if (!is_expected(subject, row))
			violated(out, "%s: a name that nobody made", row->name);
		else if (row->kind == CRASH_FILE && is_temporary(row->name) &&
			 is_double(subject, seen, row))
			violated(out, "%s: the published file is there under its old name too",
				 row->name);
	}
}

bool crash_oracle_check(const struct crash_case *subject, const struct crash_phases *phases,
			const struct crash_observation *seen, struct crash_violations *out)
{
	memset(out, 0, sizeof(*out));
	if (seen->mount_errno) {
		violated(out, "mount: %s", strerror(seen->mount_errno));
		return false;
	}
	if (seen->read_errno)
		violated(out, "%s: %s", seen->failed_name, strerror(seen->read_errno));
	check_files(subject, phases, seen, out);
	check_fixed(subject, seen, out);
	check_names(subject, seen, out);
	return out->count == 0;
}
