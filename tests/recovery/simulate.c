/*
 * simulate [--must-fail] FOLDER SUBJECT [OPTION]...
 *
 * Tier 0 of the crash tests: runs a subject once (core/oracle.h says what that is), takes its system
 * calls, and judges every state of FOLDER that POSIX allows after a crash (sim/model.h). No root, no file
 * system of its own. FOLDER is made; with the mark file FOLDER.marks it is the caller's to remove.
 *
 * Prints "ok simulate CASE: N states at M points" or "not ok simulate CASE: why". With --must-fail the
 * subject is a broken publisher, and passing is what is not ok. Exit status 0: as wanted; 1: not; 3: this
 * machine does not allow it ("skip simulate CASE: why").
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/recovery/sim/model.h"

#define PATH_BYTES 4096
#define UNAVAILABLE 3

static int conclude(const struct crash_case *subject, bool must_fail,
		    const struct sim_result *result)
{
	static const char *const policies[] = {"folder", "file", "none"};
	bool caught = result->violating > 0;

	if (caught == must_fail)
		printf("ok simulate %s %s: %" PRIu64 " states at %zu points, %" PRIu64 " wrong\n",
		       subject->subject, policies[subject->policy], result->states, result->points,
		       result->violating);
	else if (caught)
		printf("not ok simulate %s %s: %" PRIu64 " of %" PRIu64 " states: %s\n",
		       subject->subject, policies[subject->policy], result->violating,
		       result->states, result->first);
	else
		printf("not ok simulate %s %s: broken, and not caught in %" PRIu64 " states\n",
		       subject->subject, policies[subject->policy], result->states);
	return caught == must_fail ? 0 : 1;
}

static enum ldr_status simulate(struct crash_subject *subject, const char *folder,
				struct sim_result *out, struct ldr_error *err)
{
	char scratch[PATH_BYTES];
	struct sim_trace trace = {0};
	enum ldr_status status;
	int rc;

	snprintf(scratch, sizeof(scratch), "%s.marks", folder);
	status = crash_subject_describe(subject, scratch, err);
	if (status)
		return status;
	rc = crash_subject_step(subject, "--seed", folder, NULL, NULL);
	if (rc != 0)
		return ldr_fail(err, LDR_EIO, "--seed: exit status %d", rc);
	status = sim_trace_run(subject, folder, scratch, &trace, err);
	if (!status)
		status = sim_check(&subject->description, &trace, out, err);
	sim_trace_dispose(&trace);
	return status;
}

int main(int argc, char **argv)
{
	bool must_fail = argc > 1 && strcmp(argv[1], "--must-fail") == 0;
	int first = must_fail ? 2 : 1;
	struct crash_subject subject = {0};
	struct sim_result result = {0};
	struct ldr_error err = {0};
	enum ldr_status status;
	int rc = 1;

	if (argc - first < 2 || argc - first > CRASH_WORDS_MAX) {
		fprintf(stderr, "use: simulate [--must-fail] FOLDER SUBJECT [OPTION]...\n");
		return 2;
	}
	for (int i = first + 1; i < argc; i++)
		subject.argv[subject.words++] = argv[i];
	if (mkdir(argv[first], 0700) != 0) {
		fprintf(stderr, "simulate: %s: %s\n", argv[first], strerror(errno));
		return 2;
	}
	status = simulate(&subject, argv[first], &result, &err);
	if (!status)
		rc = conclude(&subject.description, must_fail, &result);
	else if (status == LDR_EUNSUPPORTED)
		rc = UNAVAILABLE;
	if (status)
		printf("%s simulate %s: %s\n", rc == UNAVAILABLE ? "skip" : "not ok",
		       subject.description.subject ? subject.description.subject : argv[first + 1],
		       err.text);
	crash_subject_dispose(&subject);
	return rc;
}
