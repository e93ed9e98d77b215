/*
 * The oracle of the crash tests against hand-made observations: for every rule what it allows, and what
 * it must refuse. An oracle that accepts everything would make every campaign pass.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/recovery/core/oracle.h"

#define ROWS_MAX 8

/* Contents stand for themselves: their digest is their first letters. */
static struct ldr_id id_of(const char *text)
{
	struct ldr_id id = {{0}};

	memcpy(id.bytes, text, strnlen(text, sizeof(id.bytes)));
	return id;
}

/* "name=content", "name" for a folder, "name@content" for what is no file but has its digest. */
struct seen {
	struct crash_observation observation;
	struct crash_row rows[ROWS_MAX];
	char text[256];
};

static void take_rows(struct seen *out, const char *text)
{
	char *rest = NULL;

	memset(out, 0, sizeof(*out));
	snprintf(out->text, sizeof(out->text), "%s", text);
	for (char *word = strtok_r(out->text, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest)) {
		struct crash_row *row = &out->rows[out->observation.row_count++];
		char *sign = word + strcspn(word, "=@");

		cr_assert_leq(out->observation.row_count, ROWS_MAX);
		row->name = word;
		row->kind = *sign == '@' ? CRASH_SYMLINK : *sign ? CRASH_FILE : CRASH_FOLDER;
		if (*sign) {
			row->sha256 = id_of(sign + 1);
			row->size_bytes = strlen(sign + 1);
		}
		*sign = '\0';
	}
	out->observation.rows = out->rows;
}

static const char *const marks[] = {
	"begin",   "created", "wrote:1",      "fsynced", "rename_enter", /* 1 to 5 told */
	"renamed", "closed",  "dirsynced",    "ack:1",                   /* 6 to 9 */
	"begin",   "created", "rename_enter", "renamed", "ack:2",        /* 10 to 14 */
	"end",
};
#define BEFORE_RENAME 4
#define ENTERED 5
#define UNACKED 8
#define ACKED 9
#define SECOND_ENTERED 12
#define SECOND_ACKED 14

enum before { MISSING, OLD };

struct row {
	const char *rule;
	enum crash_policy policy;
	enum before before;
	size_t first, last;
	const char *seen;
	const char *violation; /* a part of it; NULL: allowed */
};

static bool judge(const struct row *row, struct crash_violations *out)
{
	struct crash_version versions[] = {
		{.missing = row->before == MISSING, .sha256 = id_of("old")},
		{.sha256 = id_of("one")},
		{.sha256 = id_of("two")}};
	struct crash_file file = {"dest", 3, versions};
	struct crash_fixed fixed[] = {{"sentinel", id_of("s")}, {"keep", id_of("old")}};
	static const char *const free_names[] = {"foreign"};
	struct crash_case subject = {.subject = "test",
				     .policy = row->policy,
				     .file_count = 1,
				     .files = &file,
				     .fixed_count = row->before == OLD ? 2 : 1,
				     .fixed = fixed,
				     .free_count = 1,
				     .free_prefixes = free_names};
	struct crash_phases phases = {marks, sizeof(marks) / sizeof(marks[0]), row->first,
				      row->last};
	struct seen seen;

	take_rows(&seen, row->seen);
	return crash_oracle_check(&subject, &phases, &seen.observation, out);
}

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct row *row = &rows[i];
		struct crash_violations found;
		bool good = judge(row, &found);

		cr_expect_eq(good, row->violation == NULL, "row %zu, %s: %s", i, row->rule,
			     found.text[0]);
		cr_expect_eq(found.count, row->violation != NULL, "row %zu, %s: %zu violations", i,
			     row->rule, found.count);
		if (row->violation)
			cr_expect(strstr(found.text[0], row->violation), "row %zu, %s: %s", i,
				  row->rule, found.text[0]);
	}
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

#define DIR_ CRASH_SYNC_FOLDER
#define FILE_ CRASH_SYNC_FILE
#define NONE CRASH_SYNC_NONE

/* What each policy allows at each point, and only that. */
Test(oracle, versions_by_policy)
{
	static const struct row rows[] = {
		/* B1, P1: before a rename could have happened, what was there before */
		{"B1", DIR_, OLD, 0, 0, "sentinel=s keep=old dest=old", NULL},
		{"B1", DIR_, MISSING, 0, BEFORE_RENAME, "sentinel=s", NULL},
		{"B1", DIR_, OLD, 0, BEFORE_RENAME, "sentinel=s keep=old dest=one", "version 1"},
		{"B1", FILE_, OLD, 4, 4, "sentinel=s keep=old dest=one", "version 1, allowed 0"},
		{"B1", NONE, OLD, 4, 4, "sentinel=s keep=old dest=one", "version 1, allowed 0"},
		{"B1", NONE, MISSING, 4, 4, "sentinel=s dest=one", "version 1, allowed 0"},
		{"B1", NONE, OLD, 4, 4, "sentinel=s keep=old dest=torn", "no version at all"},
		{"B1", DIR_, OLD, 4, 4, "sentinel=s keep=old", "no version at all (missing)"},
		/* the state can be from before the rename as well, so it must suit both */
		{"range", DIR_, OLD, 4, 7, "sentinel=s keep=old dest=one", "version 1, allowed 0"},
		{"range", DIR_, OLD, ENTERED, 7, "sentinel=s keep=old dest=one", NULL},
		/* B2: renamed, not acknowledged: old, missing or new */
		{"B2", DIR_, OLD, ENTERED, UNACKED, "sentinel=s keep=old dest=old", NULL},
		{"B2", DIR_, MISSING, ENTERED, UNACKED, "sentinel=s", NULL},
		{"B2", DIR_, MISSING, ENTERED, UNACKED, "sentinel=s dest=one", NULL},
		{"B2", DIR_, OLD, 5, 8, "sentinel=s keep=old", "no version at all (missing)"},
		{"B2", FILE_, OLD, 5, 8, "sentinel=s keep=old", "no version at all (missing)"},
		/* B3: where the new name appears, its bytes are exact */
		{"B3", DIR_, OLD, 5, 8, "sentinel=s keep=old dest=torn", "no version at all"},
		{"B3", FILE_, OLD, 5, 15, "sentinel=s keep=old dest=torn", "no version at all"},
		{"B3", FILE_, MISSING, 5, 15, "sentinel=s dest=", "no version at all"},
		/* the file policy's acknowledgement says nothing about the name */
		{"B3", FILE_, OLD, ACKED, ACKED, "sentinel=s keep=old dest=old", NULL},
		{"B3", FILE_, OLD, SECOND_ACKED, 15, "sentinel=s keep=old dest=one", NULL},
		/* B4: nothing is said about new bytes without a sync, nor about the name */
		{"B4", NONE, OLD, ENTERED, 15, "sentinel=s keep=old dest=torn", NULL},
		{"B4", NONE, OLD, ENTERED, 15, "sentinel=s keep=old", NULL},
		{"B4", NONE, OLD, 4, 7, "sentinel=s keep=old dest=torn", "no version at all"},
		/* B5: acknowledged, so nothing but the whole new file */
		{"B5", DIR_, OLD, ACKED, ACKED, "sentinel=s keep=old dest=one", NULL},
		{"B5", DIR_, OLD, 9, 9, "sentinel=s keep=old dest=old", "version 0, allowed 1"},
		{"B5", DIR_, MISSING, 9, 9, "sentinel=s", "version 0, allowed 1"},
		{"B5", DIR_, MISSING, 9, 9, "sentinel=s dest=torn", "no version at all"},
		{"B5", DIR_, OLD, 8, 9, "sentinel=s keep=old dest=old", "version 0, allowed 1"},
		/* histories: no acknowledged version is lost, none comes before its rename */
		{"history", DIR_, OLD, 10, 11, "sentinel=s keep=old dest=one", NULL},
		{"history", DIR_, OLD, 10, 11, "sentinel=s keep=old dest=two", "version 2, allow"},
		{"history", DIR_, OLD, SECOND_ENTERED, 13, "sentinel=s keep=old dest=two", NULL},
		{"history", DIR_, OLD, SECOND_ENTERED, 13, "sentinel=s keep=old dest=one", NULL},
		{"history", DIR_, OLD, 12, 13, "sentinel=s keep=old dest=old", "version 0, allow"},
		{"history", DIR_, OLD, 14, 15, "sentinel=s keep=old dest=one", "version 1, allow"},
		{"history", FILE_, OLD, 10, 11, "sentinel=s keep=old dest=two", "version 2, allow"},
	};

	CHECK_ROWS(rows);
}

/* B6 and the names: under every policy, at every point. */
Test(oracle, other_files)
{
	static const struct row rows[] = {
		{"fixed", CRASH_SYNC_NONE, OLD, 9, 9, "keep=old dest=one", "sentinel: fixed and m"},
		{"fixed", CRASH_SYNC_NONE, OLD, 9, 9, "sentinel=s dest=one",
		 "keep: fixed and miss"},
		{"fixed", CRASH_SYNC_NONE, OLD, 9, 9, "sentinel=x keep=old dest=one", "sentinel: "},
		{"B6", CRASH_SYNC_NONE, OLD, 9, 9, "sentinel=s keep=one dest=one",
		 "keep: fixed and"},
		{"B6", CRASH_SYNC_NONE, OLD, 9, 9, "sentinel=s keep= dest=one",
		 "keep: fixed and ch"},
		{"B6", CRASH_SYNC_FILE, OLD, 5, 5, "sentinel=s keep@old dest=one",
		 "keep: fixed and ch"},
		{"B6", CRASH_SYNC_FOLDER, OLD, 0, 0, "sentinel=s keep=torn dest=old",
		 "keep: fixed"},
		{"names", CRASH_SYNC_FOLDER, OLD, 4, 4,
		 "sentinel=s keep=old dest=old .larder-tmp.1.2=on", NULL},
		{"names", CRASH_SYNC_NONE, OLD, 5, 5,
		 "sentinel=s keep=old dest=old .larder-tmp.1.2=one", NULL},
		{"names", CRASH_SYNC_FOLDER, OLD, 4, 4, "sentinel=s keep=old dest=old foreign=9",
		 NULL},
		{"names", CRASH_SYNC_FOLDER, OLD, 4, 4, "sentinel=s keep=old dest=old stray=1",
		 "stray: a name"},
		{"names", CRASH_SYNC_NONE, OLD, 5, 5, "sentinel=s keep=old dest=one dest2=one",
		 "dest2: a name"},
		{"names", CRASH_SYNC_NONE, OLD, 5, 5, "sentinel=s keep=old dest=one #12=x",
		 "#12: a name"},
		{"names", CRASH_SYNC_NONE, OLD, 5, 5, "sentinel=s keep=old dest=one sent",
		 "sent: a name"},
		{"names", CRASH_SYNC_NONE, OLD, 5, 5,
		 "sentinel=s keep=old dest=one .larder-tmp.1.2@", ".larder-tmp.1.2: a name"},
		{"kind", CRASH_SYNC_FILE, OLD, 5, 5, "sentinel=s keep=old dest@one", "no version"},
		{"kind", CRASH_SYNC_FILE, MISSING, 0, 0, "sentinel=s dest", "no version at all"},
		{"double", CRASH_SYNC_FOLDER, OLD, 4, 4,
		 "sentinel=s keep=old dest=old .larder-tmp.1.2=old", NULL},
		{"double", CRASH_SYNC_FOLDER, OLD, 9, 9,
		 "sentinel=s keep=old dest=one .larder-tmp.1.2=one", "under its old name too"},
		{"double", CRASH_SYNC_NONE, OLD, 6, 6,
		 "sentinel=s keep=old dest=torn .larder-tmp.1.2=torn", "under its old name too"},
	};

	CHECK_ROWS(rows);
}

/* What cannot be mounted or read is a violation, never "nothing found". */
Test(oracle, unreadable)
{
	struct crash_case subject = {.subject = "test", .policy = CRASH_SYNC_NONE};
	struct crash_phases phases = {marks, 15, 0, 15};
	struct crash_observation seen = {.mount_errno = EUCLEAN};
	struct crash_violations found;

	cr_expect_not(crash_oracle_check(&subject, &phases, &seen, &found));
	cr_expect(strstr(found.text[0], "mount: "), "%s", found.text[0]);
	seen = (struct crash_observation){.read_errno = EIO, .failed_name = "dest"};
	cr_expect_not(crash_oracle_check(&subject, &phases, &seen, &found));
	cr_expect(strstr(found.text[0], "dest: "), "%s", found.text[0]);
	seen = (struct crash_observation){0};
	cr_expect(crash_oracle_check(&subject, &phases, &seen, &found));
}

/* More violations than fit are counted. Each file of a batch is judged, and folders above one belong. */
Test(oracle, batches)
{
	struct crash_version versions[] = {{.sha256 = id_of("old")}, {.sha256 = id_of("one")}};
	struct crash_file files[] = {
		{"a/b/1", 2, versions}, {"a/2", 2, versions}, {"3", 2, versions}};
	struct crash_case subject = {
		.subject = "test", .policy = CRASH_SYNC_FOLDER, .file_count = 3, .files = files};
	struct crash_phases phases = {marks, 15, ENTERED, UNACKED};
	struct crash_violations found;
	struct seen seen;

	take_rows(&seen, "a a/b a/b/1=old a/2=one 3=one");
	cr_expect(crash_oracle_check(&subject, &phases, &seen.observation, &found), "%s",
		  found.text[0]);
	take_rows(&seen, "a a/b a/b/1=old a/2=torn 3=one a/bb");
	cr_expect_not(crash_oracle_check(&subject, &phases, &seen.observation, &found));
	cr_expect_eq(found.count, 2, "%zu", found.count);
	take_rows(&seen, "a=x a/b a/b/1=old a/2=one 3=one");
	cr_expect_not(crash_oracle_check(&subject, &phases, &seen.observation, &found));
	cr_expect(strstr(found.text[0], "a: a name"), "%s", found.text[0]);
	take_rows(&seen, "p q r t u v a/2=old");
	cr_expect_not(crash_oracle_check(&subject, &phases, &seen.observation, &found));
	cr_expect_eq(found.count, 8, "%zu", found.count);
	take_rows(&seen, "p q r t u v w x");
	cr_expect_not(crash_oracle_check(&subject, &phases, &seen.observation, &found));
	cr_expect_eq(found.count, 11, "%zu", found.count);
}
