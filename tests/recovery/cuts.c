/*
 * cuts FOLDER RECORD   kills publishers, and fails their system calls, one at a time.
 *
 * Kills: the real publisher runs in a process that ends by SIGKILL right after its n-th step, for
 * every n, in every case of core/publication.h. Until the rename the destination is what it was;
 * from the rename on it is the new file, whole; a temporary is there exactly between its creation
 * and the rename. Each cut is followed by a publication. This says what a killed process leaves;
 * what a lost power leaves is crashlab's to say.
 *
 * Faults: the n-th call of each kind fails with EIO, ENOSPC or EINTR, for every n. EINTR goes
 * unnoticed (a close is never repeated); otherwise the answer and the disk agree: old where it says
 * "not published", new where it says "published", never in between, and success only for what was
 * done.
 *
 * Prints "ok NAME" or "not ok NAME: why" for each case, then one line of totals. RECORD gets a JSON
 * object per line for each cut and fault, with the digest of what was found. FOLDER is emptied.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/publisher_seams.h"
#include "tests/recovery/core/publication.h"

/* Of the buffer form alone, in a run over all cases. */
#define CUTS_LEAST 96

/* Shared with the child that is killed. */
struct progress {
	unsigned told;
	enum ldr_seam_step last;
	unsigned number;
	bool created, renamed;
};

struct run {
	const char *folder;
	FILE *record;
	struct progress *progress;
	unsigned cut; /* the step to die after */
	unsigned cuts[CRASH_FORM_COUNT], faults, bad;
	char name[CRASH_PUBLICATION_NAME_BYTES];
};

/* ---- the record ---- */

static void record(struct run *run, const char *what, const struct crash_remains *look,
		   const char *wrong)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(&look->sha256, hex);
	fprintf(run->record, "{\"case\":\"%s\",%s,\"dest\":", run->name, what);
	fprintf(run->record, look->version == -1 ? "null" : "\"%s\"", hex);
	fprintf(run->record, ",\"temporaries\":%zu,\"wrong\":", look->temporaries);
	fprintf(run->record, wrong ? "\"%s\"}\n" : "null}\n", wrong);
	if (wrong)
		printf("# %s, %s: %s\n", run->name, what, wrong);
}

static void conclude(struct run *run, const char *what, unsigned count, unsigned bad)
{
	if (bad)
		printf("not ok %s %s: %u of %u are wrong\n", what, run->name, bad, count);
	else
		printf("ok %s %s: %u\n", what, run->name, count);
	fflush(stdout);
	run->bad += bad;
}

/* ---- kills ---- */

static void die_at_cut(void *context, enum ldr_seam_step step, unsigned number)
{
	struct run *run = context;
	struct progress *progress = run->progress;

	progress->created |= step == LDR_STEP_CREATED;
	progress->renamed |= step == LDR_STEP_RENAMED;
	progress->last = step;
	progress->number = number;
	if (++progress->told == run->cut)
		raise(SIGKILL);
}

/* The signal that ended the child, 0 when it published to the end, -1 when it failed. */
static int publish_in_child(struct run *run, const struct crash_publication *kind)
{
	struct ldr_publish_result result;
	int state;
	pid_t child = fork();

	if (child == 0) {
		ldr_seam_reset();
		ldr_seam_cap_writes(CRASH_WRITE_CAP);
		ldr_seam_on_step(die_at_cut, run);
		_exit(crash_publication_run(kind, run->folder, &result, NULL) ? 1 : 0);
	}
	if (child < 0 || waitpid(child, &state, 0) != child)
		return -1;
	if (WIFSIGNALED(state))
		return WTERMSIG(state);
	return WEXITSTATUS(state) ? -1 : 0;
}

static const char *judge_cut(const struct run *run, const struct crash_publication *kind,
			     const struct crash_remains *look)
{
	const struct progress *progress = run->progress;
	size_t temporaries = progress->created && !progress->renamed;

	if (progress->renamed && look->version != 1)
		return "renamed, and not the new file";
	if (!progress->renamed && look->version != (kind->replace ? 0 : -1))
		return "not renamed, and not what was there before";
	if (look->temporaries != temporaries)
		return "a temporary too many or too few";
	return look->others_as_before ? NULL : "other files changed";
}

/* Without what is there before, nothing can be judged, and a loop over steps would never see its
 * end: that ends the program. */
static void must_seed(const struct run *run, const struct crash_publication *kind)
{
	if (crash_publication_seed(kind, run->folder))
		return;
	fprintf(stderr, "cuts: %s: cannot be emptied and filled: %s\n", run->folder,
		strerror(errno));
	exit(2);
}

/* False: the publication has fewer steps than that. */
static bool cut_once(struct run *run, const struct crash_publication *kind, unsigned *bad)
{
	struct crash_remains look = {0};
	const char *wrong = NULL;
	char what[64];
	int signal_number;

	memset(run->progress, 0, sizeof(*run->progress));
	must_seed(run, kind);
	signal_number = publish_in_child(run, kind);
	if (signal_number == 0)
		return false;
	if (signal_number != SIGKILL)
		wrong = "ended otherwise than by the kill";
	if (!wrong && !crash_publication_look(kind, run->folder, &look))
		wrong = "the folder cannot be read";
	if (!wrong)
		wrong = judge_cut(run, kind, &look);
	if (!wrong)
		wrong = crash_publication_again(kind, run->folder);
	snprintf(what, sizeof(what), "\"cut\":\"%s:%u\"", ldr_seam_step_name(run->progress->last),
		 run->progress->number);
	record(run, what, &look, wrong);
	*bad += wrong != NULL;
	/* One that ended by itself, however, tells no step that could be cut: the next would end
	 * the same way, for ever. */
	return signal_number == SIGKILL;
}

static void cut_case(void *context, const struct crash_publication *kind)
{
	struct run *run = context;
	unsigned bad = 0;

	crash_publication_name(kind, run->name);
	for (run->cut = 1; cut_once(run, kind, &bad); run->cut++)
		;
	run->cuts[kind->form] += run->cut - 1;
	conclude(run, "cuts", run->cut - 1, bad);
}

/* ---- faults ---- */

static const struct {
	int code;
	const char *name;
} faults[] = {{EIO, "EIO"}, {ENOSPC, "ENOSPC"}, {EINTR, "EINTR"}};

static const char *const call_names[LDR_SEAM_CALL_COUNT] = {
#define CALL_NAME(name, text) text,
	LDR_SEAM_CALLS(CALL_NAME)
#undef CALL_NAME
};

static size_t open_descriptors(void)
{
	DIR *listing = opendir("/proc/self/fd");
	size_t count = 0;

	while (listing && readdir(listing))
		count++;
	if (listing)
		closedir(listing);
	return count;
}

/* Success is told only for what was done. */
static const char *judge_success(const struct crash_publication *kind,
				 const struct ldr_publish_result *result)
{
	if (!result->published)
		return "success without a publication";
	if (kind->sync != LDR_SYNC_NONE && !result->file_synced)
		return "success without the file's sync";
	if (kind->sync == LDR_SYNC_FILE_AND_FOLDER && !result->folder_synced)
		return "success without the folder's sync";
	return NULL;
}

static const char *judge_fault(const struct crash_publication *kind, enum ldr_status status,
			       const struct ldr_publish_result *result,
			       const struct crash_remains *look)
{
	if (result->published && look->version != 1)
		return "told as published, and not the new file";
	if (!result->published && look->version != (kind->replace ? 0 : -1))
		return "told as not published, and not what was there before";
	if (look->temporaries != (result->cleanup ? 1u : 0u))
		return "the temporary and what was told about it differ";
	if (!look->others_as_before)
		return "other files changed";
	return status ? NULL : judge_success(kind, result);
}

/* False: the publication makes fewer calls of that kind. */
static bool fault_once(struct run *run, const struct crash_publication *kind,
		       enum ldr_seam_call call, unsigned number, size_t which, unsigned *bad)
{
	struct ldr_publish_result result = {0};
	struct crash_remains look = {0};
	size_t descriptors = open_descriptors();
	enum ldr_status status;
	const char *wrong = NULL;
	char what[96];
	bool happened;

	must_seed(run, kind);
	ldr_seam_reset();
	ldr_seam_cap_writes(CRASH_WRITE_CAP);
	ldr_seam_fail(call, number, 1, faults[which].code);
	status = crash_publication_run(kind, run->folder, &result, NULL);
	happened = ldr_seam_calls(call) >= number;
	ldr_seam_reset();
	if (!happened)
		return false;
	if (!wrong && !crash_publication_look(kind, run->folder, &look))
		wrong = "the folder cannot be read";
	if (!wrong && faults[which].code == EINTR && call != LDR_SEAM_CLOSE &&
	    call != LDR_SEAM_ALLOC && status)
		wrong = "an interrupted call was not repeated";
	if (!wrong && open_descriptors() != descriptors)
		wrong = "a descriptor was left open";
	if (!wrong)
		wrong = judge_fault(kind, status, &result, &look);
	if (!wrong)
		wrong = crash_publication_again(kind, run->folder);
	snprintf(what, sizeof(what), "\"fault\":\"%s:%u:%s\",\"status\":\"%s\"", call_names[call],
		 number, faults[which].name, ldr_status_name(status));
	record(run, what, &look, wrong);
	*bad += wrong != NULL;
	return true;
}

static void fault_case(void *context, const struct crash_publication *kind)
{
	struct run *run = context;
	unsigned bad = 0, count = 0, number;

	crash_publication_name(kind, run->name);
	for (int call = 0; call < LDR_SEAM_CALL_COUNT; call++) {
		for (size_t which = 0; which < sizeof(faults) / sizeof(faults[0]); which++) {
			for (number = 1;
			     fault_once(run, kind, (enum ldr_seam_call)call, number, which, &bad);
			     number++)
				;
			count += number - 1;
		}
	}
	run->faults += count;
	conclude(run, "faults", count, bad);
}

/* ---- all of it ---- */

int main(int argc, char **argv)
{
	struct run run = {0};
	unsigned all = 0;

	run.folder = argc == 3 ? argv[1] : NULL;
	run.record = argc == 3 ? fopen(argv[2], "we") : NULL;
	run.progress = mmap(NULL, sizeof(*run.progress), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!run.record || run.progress == MAP_FAILED) {
		fprintf(stderr, "use: cuts FOLDER RECORD\n");
		return 2;
	}
	crash_publication_each(cut_case, &run);
	crash_publication_each(fault_case, &run);
	for (int form = 0; form < CRASH_FORM_COUNT; form++)
		all += run.cuts[form];
	if (run.cuts[CRASH_FORM_BUFFER] < CUTS_LEAST)
		printf("not ok cuts: %u of the buffer form, at least %d\n",
		       run.cuts[CRASH_FORM_BUFFER], CUTS_LEAST);
	printf("cuts %u (%u of the buffer form), faults %u, violations %u\n", all,
	       run.cuts[CRASH_FORM_BUFFER], run.faults, run.bad);
	if (fclose(run.record) != 0)
		return 1;
	return run.bad == 0 && run.cuts[CRASH_FORM_BUFFER] >= CUTS_LEAST ? 0 : 1;
}
