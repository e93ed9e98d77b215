/*
 * A subject: a command line that publishes, and the case it describes (oracle.h says what it must
 * do).
 *
 * --describe prints one JSON object:
 *   {"subject": "publish",             what it is, for the record
 *    "policy": "folder"|"file"|"none",
 *    "files": [{"name": "dest", "versions": ["<sha256>" or null, ...]}],   null: no such file
 *    "fixed": [{"name": "sentinel", "sha256": "<sha256>"}],
 *    "free":  ["prefix", ...],
 *    "serves": true}                    it has --serve; may be left out
 *
 * Threads: immutable after it was described.
 */
#ifndef LDR_TESTS_RECOVERY_SUBJECT_H
#define LDR_TESTS_RECOVERY_SUBJECT_H

#include <jansson.h>

#include "common/error.h"
#include "tests/recovery/core/oracle.h"
#include "tests/recovery/core/process.h"

/* The exit status of programs that lack what they need: nothing is said about what they were to test. */
#define CRASH_EXIT_UNAVAILABLE 77
#define CRASH_WORDS_MAX 24

struct crash_subject {
	const char *
		argv[CRASH_WORDS_MAX + 2]; /* borrows; argv[0] is a path. One place is the step's */
	size_t words;
	json_t *json; /* owns: the names of the case live in it */
	struct crash_case description;
	bool serves;
};

/* Runs it with --describe; scratch is a file that is overwritten. argv must be set. */
enum ldr_status crash_subject_describe(struct crash_subject *subject, const char *scratch,
				       struct ldr_error *err);
/* The same from text at hand. */
enum ldr_status crash_subject_parse(struct crash_subject *subject, const char *text, size_t length,
				    struct ldr_error *err);
void crash_subject_dispose(struct crash_subject *subject);

/* Runs one step ("--seed", ...) in folder; env may be NULL; output as in process.h. */
int crash_subject_step(const struct crash_subject *subject, const char *step, const char *folder,
		       const char *const *env, const char *output);
/* The recovery of one folder: by the server where there can be one, which is started on the first
 * call, else by a step. */
int crash_subject_recover(const struct crash_subject *subject, struct crash_server *server,
			  const char *folder, size_t acked, const char *output);

#endif
