/*
 * batch [--mutant NAME] STEP
 *
 * The publisher's batch form (common/batch.h) as a subject for crashlab (core/oracle.h, core/drive.h): two batches, one
 * after the other, over a small tree in which files are replaced, made and removed, a folder comes, one goes, a symlink
 * turns and a mode changes. Each is acknowledged after apply has returned.
 *
 * After any crash each file is wholly of one version (the oracle). Besides, the recovery judges:
 *   1. the record is whole, and at least the acknowledged version's
 *   2. every path is of the recorded version or of the next one, and of the next one only where the plan names it
 *   3. the next run, which trusts no temporary that it finds, completes: exactly the last version, its record, no
 *      plan and no temporary
 *
 * The mutants must be caught:
 *   no-file-sync     renames before the files' bytes are on the disk (the first syncfs is left out)
 *   no-change-sync   records before the changes are on the disk (the second syncfs)
 *   no-folder-sync   plan and record are renamed into a folder that is not synced
 *   no-plan-sync     changes before the plan is on the disk
 *   no-record-sync   acknowledges before the record is on the disk
 *   rename-first     changes before there is a plan
 *   early-ack        acknowledges when the plan is there
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/batch.h"
#include "common/bytes.h"
#include "common/digest.h"
#include "common/publisher_seams.h"
#include "tests/recovery/core/drive.h"

#define TARGET "tree"
#define LAST 2u /* version 0 is what was there before */
#define BYTES_MAX 16384u
#define STEPS_MAX 32
#define TEXT_BYTES 32

/* Bit v of `versions`: version v has this file. */
static const struct {
	const char *path;
	unsigned versions;
} files[] = {{"a/0", 7}, {"a/1", 7}, {"a/2", 7},    {"a/3", 3},    {"b/0", 7},    {"b/1", 7},
	     {"b/2", 7}, {"b/3", 5}, {"late/0", 6}, {"late/1", 6}, {"late/2", 4}, {"gone/0", 1}};
#define FILES (sizeof(files) / sizeof(files[0]))

static const struct {
	const char *path;
	unsigned versions;
} folders[] = {{"a", 7}, {"b", 7}, {"late", 6}, {"gone", 1}};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

enum mutant {
	RIGHT,
	NO_FILE_SYNC,
	NO_CHANGE_SYNC,
	NO_FOLDER_SYNC,
	NO_PLAN_SYNC,
	NO_RECORD_SYNC,
	RENAME_FIRST,
	EARLY_ACK
};

static const char *const mutant_names[] = {
	[RIGHT] = "correct",
	[NO_FILE_SYNC] = "no-file-sync",
	[NO_CHANGE_SYNC] = "no-change-sync",
	[NO_FOLDER_SYNC] = "no-folder-sync",
	[NO_PLAN_SYNC] = "no-plan-sync",
	[NO_RECORD_SYNC] = "no-record-sync",
	[RENAME_FIRST] = "rename-first",
	[EARLY_ACK] = "early-ack",
};

struct probe {
	enum mutant mutant;
	struct crash_teller teller;
	unsigned version; /* of the batch at hand */
	unsigned changes;
};

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "batch: %s: %s\n", what, why);
	return 1;
}

/* ---- what a version holds ---------------------------------------------------------------------------- */

static bool has(unsigned versions, unsigned version)
{
	return versions >> version & 1;
}

static size_t bytes_of(size_t file, unsigned version, uint8_t bytes[BYTES_MAX])
{
	uint64_t random = 1 + file * 100 + version;
	size_t length = 1000 + (file * 2711 + version * 577) % (BYTES_MAX - 1000);

	for (size_t i = 0; i < length; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		bytes[i] = (uint8_t)(random >> 56);
	}
	return length;
}

static mode_t mode_of(unsigned version)
{
	return version % 2 ? 0600 : 0644;
}

static void target_of(unsigned version, char out[TEXT_BYTES])
{
	snprintf(out, TEXT_BYTES, "a/%u", version);
}

static void temporary_of(size_t file, unsigned version, char out[TEXT_BYTES])
{
	snprintf(out, TEXT_BYTES, "v%u-%zu", version, file);
}

/* 0: exactly these bytes; 1: others; 2: no such file. */
static int compare(int folder_fd, const char *path, const uint8_t *bytes, size_t length)
{
	LDR_AUTO_FD int fd = openat(folder_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint8_t found[BYTES_MAX + 1];

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 2 : 1;
	return read(fd, found, sizeof(found)) != (ssize_t)length ||
	       memcmp(found, bytes, length) != 0;
}

/* Is the file as that version has it? */
static bool file_is(int folder_fd, size_t file, unsigned version)
{
	uint8_t bytes[BYTES_MAX];
	size_t length = bytes_of(file, version, bytes);

	return compare(folder_fd, files[file].path, bytes, length) ==
	       (has(files[file].versions, version) ? 0 : 2);
}

static bool link_is(int folder_fd, unsigned version)
{
	char found[TEXT_BYTES] = "", wanted[TEXT_BYTES];

	target_of(version, wanted);
	return readlinkat(folder_fd, "link", found, sizeof(found) - 1) > 0 &&
	       strcmp(found, wanted) == 0;
}

/* ---- a batch ------------------------------------------------------------------------------------------- */

struct work {
	struct ldr_batch *batch;
	int folder_fd;
	unsigned version;
	bool resumes; /* paths that are right already are left out, temporaries may be there */
	struct ldr_batch_step steps[STEPS_MAX];
	size_t count;
	char names[FILES][TEXT_BYTES];
};

static void add(struct work *work, enum ldr_batch_kind kind, const char *path, const char *source,
		mode_t mode)
{
	if (work->count == STEPS_MAX)
		abort();
	work->steps[work->count++] = (struct ldr_batch_step){kind, path, source, mode};
}

/* A temporary that is found is written anew, unless it is right. A new one is not cut: file systems take cutting to
 * nothing as a sign to write it out when it is closed, which would hide a missing sync. */
static int write_temporary(struct work *work, size_t file)
{
	LDR_AUTO_FD int fd = -1;
	struct ldr_error err = {.status = LDR_OK};
	uint8_t bytes[BYTES_MAX], found[BYTES_MAX + 1];
	size_t length = bytes_of(file, work->version, bytes);
	ssize_t got;

	temporary_of(file, work->version, work->names[file]);
	if (ldr_batch_open(work->batch, work->names[file], &fd, &err))
		return complain(work->names[file], err.text);
	got = read(fd, found, sizeof(found));
	if (got == (ssize_t)length && memcmp(found, bytes, length) == 0)
		return 0;
	if ((got > (ssize_t)length && ftruncate(fd, (off_t)length) != 0) ||
	    pwrite(fd, bytes, length, 0) != (ssize_t)length)
		return complain(work->names[file], strerror(errno));
	return 0;
}

static int add_files(struct work *work)
{
	for (size_t i = 0; i < FILES; i++) {
		if (!has(files[i].versions, work->version)) {
			add(work, LDR_BATCH_REMOVE, files[i].path, NULL, 0);
			continue;
		}
		if (work->resumes && file_is(work->folder_fd, i, work->version))
			continue;
		if (write_temporary(work, i) != 0)
			return 1;
		add(work, LDR_BATCH_FILE, files[i].path, work->names[i], 0644);
	}
	return 0;
}

static int apply(struct work *work)
{
	char plan[TEXT_BYTES], record[TEXT_BYTES], target[TEXT_BYTES];
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_batch_plan all = {.steps = work->steps, .plan = plan, .record = record};

	for (size_t i = 0; i < FOLDERS; i++)
		add(work,
		    has(folders[i].versions, work->version) ? LDR_BATCH_FOLDER : LDR_BATCH_UNMAKE,
		    folders[i].path, NULL, 0755);
	target_of(work->version, target);
	add(work, LDR_BATCH_SYMLINK, "link", target, 0);
	add(work, LDR_BATCH_MODE, "a/0", NULL, mode_of(work->version));
	all.step_count = work->count;
	all.plan_bytes = (size_t)snprintf(plan, sizeof(plan), "plan %u\n", work->version);
	all.record_bytes = (size_t)snprintf(record, sizeof(record), "record %u\n", work->version);
	return ldr_batch_apply(work->batch, &all, &err) ? complain("apply", err.text) : 0;
}

static int install(unsigned version, bool resumes)
{
	struct work work = {.version = version, .resumes = resumes};
	struct ldr_error err = {.status = LDR_OK};
	int rc;

	if (ldr_batch_begin(TARGET, LDR_SYNC_FILE_AND_FOLDER, &work.batch, &err))
		return complain("begin", err.text);
	work.folder_fd = open(TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = work.folder_fd < 0 ? complain(TARGET, strerror(errno)) : add_files(&work);
	if (rc == 0)
		rc = apply(&work);
	if (work.folder_fd >= 0)
		close(work.folder_fd);
	ldr_batch_end(work.batch);
	return rc;
}

/* ---- broken batches -------------------------------------------------------------------------------------- */

/* Half of the changed files get their new bytes before the plan; the temporaries stay for apply. */
static void rename_early(struct probe *probe)
{
	LDR_AUTO_FD int folder_fd = open(TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char from[TEXT_BYTES * 2], name[TEXT_BYTES];

	crash_teller_mark(&probe->teller, "rename_enter", 0);
	for (size_t i = 0; i < FILES / 2; i++) {
		if (!has(files[i].versions, probe->version) ||
		    !has(files[i].versions, probe->version - 1))
			continue;
		temporary_of(i, probe->version, name);
		snprintf(from, sizeof(from), ".larder/tmp/%s", name);
		if (linkat(folder_fd, from, folder_fd, ".larder/early", 0) != 0 ||
		    renameat(folder_fd, ".larder/early", folder_fd, files[i].path) != 0)
			exit(complain("renaming early", strerror(errno)));
		crash_teller_mark(&probe->teller, "early", (unsigned)i + 1);
	}
}

static void break_at_begin(const struct probe *probe)
{
	ldr_seam_reset();
	if (probe->mutant == NO_FILE_SYNC)
		ldr_seam_fail(LDR_SEAM_SYNCFS, 1, 1, 0);
	else if (probe->mutant == NO_CHANGE_SYNC)
		ldr_seam_fail(LDR_SEAM_SYNCFS, 2, 1, 0);
	else if (probe->mutant == NO_FOLDER_SYNC)
		ldr_seam_fail(LDR_SEAM_SYNC_FOLDER, 1, UINT32_MAX, 0);
}

/* After the first syncfs: of the syncs that follow, two are the plan's, two the record's. */
static void break_at_synced(struct probe *probe)
{
	if (probe->mutant == NO_PLAN_SYNC)
		ldr_seam_fail(LDR_SEAM_SYNC, 1, 2, 0);
	else if (probe->mutant == NO_RECORD_SYNC)
		ldr_seam_fail(LDR_SEAM_SYNC, 3, 2, 0);
	else if (probe->mutant == RENAME_FIRST)
		rename_early(probe);
}

static void on_step(void *context, enum ldr_seam_step step, unsigned number)
{
	struct probe *probe = context;
	struct crash_teller *teller = &probe->teller;

	(void)number;
	if (step == LDR_STEP_BATCH_SYNCED) {
		crash_teller_mark(teller, "synced", 0);
		break_at_synced(probe);
	} else if (step == LDR_STEP_BATCH_PLANNED) {
		crash_teller_mark(teller, "planned", 0);
		if (probe->mutant == EARLY_ACK)
			crash_teller_mark(teller, "ack", probe->version);
		crash_teller_mark(teller, "rename_enter", 0);
	} else if (step >= LDR_STEP_BATCH_REMOVED && step <= LDR_STEP_BATCH_MODE) {
		crash_teller_mark(teller, "changed", ++probe->changes);
	} else if (step >= LDR_STEP_BATCH_APPLIED && step <= LDR_STEP_BATCH_CLEANED) {
		crash_teller_mark(teller, ldr_seam_step_name(step), 0);
	}
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

static int step_run(void *context)
{
	struct probe *probe = context;
	int rc = 0;

	crash_teller_begin(&probe->teller);
	for (probe->version = 1; rc == 0 && probe->version <= LAST; probe->version++) {
		break_at_begin(probe);
		ldr_seam_on_step(on_step, probe);
		crash_teller_mark(&probe->teller, "begin", 0);
		rc = install(probe->version, false);
		if (rc == 0)
			crash_teller_mark(&probe->teller, "ack", probe->version);
	}
	crash_teller_mark(&probe->teller, "end", 0);
	return rc;
}

static int step_seed(void *context)
{
	LDR_AUTO_FD int fd = open("foreign", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	(void)context;
	return fd < 0 ? complain("foreign", strerror(errno)) : install(0, false);
}

/* "plan 2\n" gives 2; -1: no such file; -2: anything else. */
static int number_in(int folder_fd, const char *path, const char *word)
{
	char text[TEXT_BYTES];

	for (unsigned version = 0; version <= LAST; version++) {
		int length = snprintf(text, sizeof(text), "%s %u\n", word, version);
		int found = compare(folder_fd, path, (const uint8_t *)text, (size_t)length);

		if (found != 1)
			return found == 0 ? (int)version : -1;
	}
	return -2;
}

/* Rules 1 and 2. */
static int check_journal(int folder_fd, unsigned acked)
{
	int record = number_in(folder_fd, ".larder/installed", "record");
	int plan = number_in(folder_fd, ".larder/plan", "plan");
	unsigned next = (unsigned)(record < 0 ? 0 : record) + 1;
	int rc = 0;

	if (record < 0 || (unsigned)record < acked) {
		fprintf(stderr, "batch: record %d, acknowledged %u\n", record, acked);
		return 1;
	}
	for (size_t i = 0; i <= FILES; i++) {
		bool old = i < FILES ? file_is(folder_fd, i, (unsigned)record)
				     : link_is(folder_fd, (unsigned)record);
		bool new = next <= LAST &&
			   (i < FILES ? file_is(folder_fd, i, next) : link_is(folder_fd, next));

		if (old || (new &&plan == (int)next))
			continue;
		fprintf(stderr, "batch: record %d, plan %d: %s is %s\n", record, plan,
			i < FILES ? files[i].path : "link",
			new ? "new without a plan" : "of neither version");
		rc = 1;
	}
	return rc;
}

static int check_complete(int folder_fd)
{
	struct stat found;
	int rc = 0;

	for (size_t i = 0; i < FILES; i++) {
		if (!file_is(folder_fd, i, LAST))
			rc = complain(files[i].path, "not of the last version");
	}
	for (size_t i = 0; i < FOLDERS; i++) {
		if ((fstatat(folder_fd, folders[i].path, &found, AT_SYMLINK_NOFOLLOW) == 0) !=
		    has(folders[i].versions, LAST))
			rc = complain(folders[i].path, "there, or not there");
	}
	if (!link_is(folder_fd, LAST))
		rc = complain("link", "leads elsewhere");
	if (fstatat(folder_fd, "a/0", &found, 0) != 0 || (found.st_mode & 0777) != mode_of(LAST))
		rc = complain("a/0", "has another mode");
	if (number_in(folder_fd, ".larder/installed", "record") != (int)LAST)
		rc = complain("record", "not of the last version");
	if (faccessat(folder_fd, ".larder/plan", F_OK, 0) == 0)
		rc = complain("plan", "still there");
	/* An empty folder can be removed, and is needed no more. */
	if (unlinkat(folder_fd, ".larder/tmp", AT_REMOVEDIR) != 0)
		rc = complain("temporaries", strerror(errno));
	return rc;
}

static int step_recover(void *context, unsigned acked)
{
	LDR_AUTO_FD int folder_fd = open(TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	(void)context;
	if (folder_fd < 0)
		return complain(TARGET, strerror(errno));
	rc = check_journal(folder_fd, acked);
	rc |= install(LAST, true);
	return rc | check_complete(folder_fd);
}

static void print_file(size_t file)
{
	uint8_t bytes[BYTES_MAX];
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;

	printf("{\"name\": \"" TARGET "/%s\", \"versions\": [", files[file].path);
	for (unsigned version = 0; version <= LAST; version++) {
		size_t length = bytes_of(file, version, bytes);

		if (ldr_digest_once(bytes, length, &id, NULL) != LDR_OK)
			abort();
		ldr_id_to_hex(&id, hex);
		if (has(files[file].versions, version))
			printf("%s\"%s\"", version ? ", " : "", hex);
		else
			printf("%snull", version ? ", " : "");
	}
	printf("]}");
}

static int step_describe(void *context)
{
	const struct probe *probe = context;

	printf("{\"subject\": \"batch/%s\", \"policy\": \"folder\", \"files\": [",
	       mutant_names[probe->mutant]);
	for (size_t i = 0; i < FILES; i++) {
		printf("%s", i ? ", " : "");
		print_file(i);
	}
	printf("], \"fixed\": [], \"free\": [\"" TARGET "/.larder\", \"" TARGET "/link\", ");
	printf("\"" TARGET "/late\", \"" TARGET "/gone\", \"foreign\"], \"serves\": true}\n");
	return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct probe probe = {.teller = {.folder = TARGET "/.larder/tmp", .temporaries = "v"}};
	const struct crash_steps steps = {"batch",  step_describe, step_seed,
					  step_run, step_recover,  &probe};
	bool good = argc == 2;

	for (size_t i = 0; argc == 4 && i < sizeof(mutant_names) / sizeof(mutant_names[0]); i++) {
		if (strcmp(argv[1], "--mutant") == 0 && strcmp(argv[2], mutant_names[i]) == 0) {
			probe.mutant = (enum mutant)i;
			good = true;
		}
	}
	if (!good) {
		fprintf(stderr, "batch: see the head of its source for what it takes\n");
		return 2;
	}
	return crash_drive(&steps, argv[argc - 1]);
}
