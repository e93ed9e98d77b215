/* One state: built, mounted, looked at, judged, recovered; see trial.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/process.h"
#include "tests/recovery/core/trial.h"

#define FSCK_LIMIT_MS 60000

static void add_violation(struct crash_violations *out, const char *text, int number)
{
	if (out->count < CRASH_VIOLATIONS_MAX)
		snprintf(out->text[out->count], CRASH_VIOLATION_BYTES, "%s %d", text, number);
	out->count++;
}

/* The end of a state's life in the mount: what the subject makes of it, and its unmounting. */
static enum ldr_status recover(struct crash_bench *bench, size_t acked,
			       struct crash_violations *out, struct ldr_error *err)
{
	const struct crash_place *place = bench->place;
	int rc;

	if (access(place->work, F_OK) == 0) {
		rc = crash_subject_recover(bench->subject, &bench->server, place->work, acked,
					   place->output);
		if (rc == CRASH_EXIT_UNAVAILABLE) {
			crash_disk_unmount(place->mount, umount2, NULL);
			return ldr_fail(err, LDR_EUNSUPPORTED,
					"%s has not what it needs to recover",
					bench->subject->argv[0]);
		}
		if (rc != 0)
			add_violation(out, "recover: exit status", rc);
	}
	return crash_disk_unmount(place->mount, umount2, err);
}

enum ldr_status crash_bench_judge(struct crash_bench *bench, const struct crash_state *state,
				  struct crash_violations *out, struct ldr_error *err)
{
	const struct crash_phases phases = {.marks = (const char *const *)bench->log->marks,
					    .mark_count = bench->log->mark_count,
					    .first = state->first_point,
					    .last = state->last_point};
	const struct crash_place *place = bench->place;
	enum ldr_status status = crash_disk_build(bench->image_fd, bench->seed, bench->log,
						  bench->states, state, err);
	int error = 0;

	memset(out, 0, sizeof(*out));
	if (!status)
		status = crash_disk_mount(bench->leg, place->image, false, place->mount, &error,
					  err);
	if (status)
		return status;
	if (error)
		crash_look_unmounted(&bench->look, error);
	else
		status = crash_look_at(&bench->look, place->work, err);
	if (!status)
		crash_oracle_check(&bench->subject->description, &phases, &bench->look.seen, out);
	if (!error && !status)
		return recover(bench, crash_oracle_acked(&phases), out, err);
	if (!error)
		crash_disk_unmount(place->mount, umount2, NULL);
	return status;
}

int crash_bench_fsck(const struct crash_bench *bench)
{
	const char *argv[6] = {0};
	char program[CRASH_PATH_BYTES];
	struct crash_spawn spawn = {
		.argv = argv, .output = bench->place->output, .limit_ms = FSCK_LIMIT_MS};
	size_t words = 0;

	if (!crash_find_program(bench->leg->fsck[0], program, sizeof(program)))
		return 127;
	for (; words < 4 && bench->leg->fsck[words]; words++)
		argv[words] = words ? bench->leg->fsck[words] : program;
	argv[words] = bench->place->image;
	return crash_spawn_wait(&spawn);
}

void crash_bench_end(struct crash_bench *bench)
{
	crash_server_stop(&bench->server);
	crash_look_dispose(&bench->look);
}
