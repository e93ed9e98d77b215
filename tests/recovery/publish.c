/*
 * publish [--create|--replace] [--size N] [--policy folder|file|none] [--versions N] [--mutant NAME] STEP
 *
 * The subject of single publications and histories for crashlab (core/oracle.h says what the steps and marks are). It
 * drives the real publisher, through the steps that builds with seams tell; writes are cut to 4 KiB. With
 * --mutant it drives a broken publisher instead, which the harness must catch:
 *   correct (the control)   no-fsync   no-dirsync   rename-first   unlink-first   early-ack   in-place
 *   short-write   ignore-fsync
 *
 * The folder holds dest (with --replace), keep (a hard link to the old dest), sentinel, and foreign, which
 * is what injected commits write to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/publisher.h"
#include "common/publisher_seams.h"
#include "tests/recovery/core/drive.h"

#define WRITE_CAP 4096
#define SIZE_MAX_BYTES (1u << 20)
#define TEMPORARY ".larder-tmp."
#define MUTANT_TEMPORARY ".larder-tmp.1.1"

struct probe {
	bool replace;
	size_t size;
	unsigned versions;
	const char *policy_name;
	enum ldr_sync policy;
	const char *mutant;
	struct crash_teller teller;
};

static uint64_t draw(uint64_t *random)
{
	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *random >> 33;
}

/* Version 0 is what was there before; the last but one past the end is the recovery's. */
static size_t version_bytes(const struct probe *probe, unsigned version, uint8_t **out)
{
	uint64_t random = 77 + version;
	size_t length = version == 0 ? 9001 : probe->size;

	if (probe->versions > 1 && version > 0)
		length = draw(&random) % (2 * probe->size + 1);
	*out = malloc(length + 1);
	if (!*out)
		abort();
	for (size_t i = 0; i < length; i++)
		(*out)[i] = (uint8_t)draw(&random);
	return length;
}

static int complain(const char *what)
{
	fprintf(stderr, "publish: %s: %s\n", what, strerror(errno));
	return 1;
}

/* ---- marks and injections ----------------------------------------------------------------------------- */

static void mark(struct probe *probe, const char *name, unsigned number)
{
	crash_teller_mark(&probe->teller, name, number);
}

static void on_step(void *context, enum ldr_seam_step step, unsigned number)
{
	static const char *const names[LDR_SEAM_STEP_COUNT] = {
		[LDR_STEP_BEGUN] = "begin",           [LDR_STEP_CREATED] = "created",
		[LDR_STEP_WROTE] = "wrote",           [LDR_STEP_SYNCED] = "fsynced",
		[LDR_STEP_RENAMING] = "rename_enter", [LDR_STEP_RENAMED] = "renamed",
		[LDR_STEP_CLOSED] = "closed",         [LDR_STEP_FOLDER_SYNCED] = "dirsynced"};

	if (names[step])
		mark(context, names[step], step == LDR_STEP_WROTE ? number : 0);
}

/* ---- the real publisher ------------------------------------------------------------------------------- */

static int publish_real(struct probe *probe, unsigned version, enum ldr_sync policy)
{
	struct ldr_publish_options options = {.sync = policy};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	size_t length = version_bytes(probe, version, &bytes);
	struct ldr_error err = {0};

	if (ldr_root_open(".", false, &root, &err) != LDR_OK ||
	    ldr_publish(root, "dest", bytes, length, &options, NULL, &err) != LDR_OK) {
		fprintf(stderr, "publish: version %u: %s\n", version, err.text);
		return 1;
	}
	return 0;
}

/* ---- broken publishers ---------------------------------------------------------------------------------- */

struct plan {
	const char *name;
	bool no_fsync, no_dirsync, rename_first, unlink_first, early_ack, in_place, short_write;
	bool ignore_fsync;
};

static const struct plan plans[] = {
	{.name = "correct"},
	{.name = "no-fsync", .no_fsync = true},
	{.name = "no-dirsync", .no_dirsync = true},
	{.name = "rename-first", .rename_first = true},
	{.name = "unlink-first", .unlink_first = true},
	{.name = "early-ack", .early_ack = true},
	{.name = "in-place", .in_place = true},
	{.name = "short-write", .short_write = true},
	{.name = "ignore-fsync", .ignore_fsync = true},
};

static int sync_file(struct probe *probe, const struct plan *plan, int fd)
{
	if (plan->no_fsync)
		return 0;
	if (fsync(fd) != 0 && !plan->ignore_fsync)
		return complain("fsync");
	mark(probe, "fsynced", 0);
	return 0;
}

static int sync_folder(struct probe *probe, const struct plan *plan)
{
	LDR_AUTO_FD int fd = open(".", O_RDONLY | O_CLOEXEC);

	if (plan->no_dirsync)
		return 0;
	if (fsync(fd) != 0 && !plan->ignore_fsync)
		return complain("fsync of the folder");
	mark(probe, "dirsynced", 0);
	return 0;
}

static int write_all(struct probe *probe, const struct plan *plan, int fd, const uint8_t *bytes,
		     size_t length)
{
	size_t wanted = plan->short_write ? length / 2 : length;

	for (size_t at = 0, number = 1; at < wanted; at += WRITE_CAP, number++) {
		size_t part = wanted - at < WRITE_CAP ? wanted - at : WRITE_CAP;

		if (write(fd, bytes + at, part) != (ssize_t)part)
			return complain("write");
		mark(probe, "wrote", (unsigned)number);
	}
	return 0;
}

static int rename_over(struct probe *probe, const struct plan *plan)
{
	if (plan->unlink_first) {
		unlink("dest");
		mark(probe, "unlinked", 0);
	}
	mark(probe, "rename_enter", 0);
	if (!plan->in_place && rename(MUTANT_TEMPORARY, "dest") != 0)
		return complain("rename");
	mark(probe, "renamed", 0);
	return 0;
}

static int publish_mutant(struct probe *probe, const struct plan *plan, unsigned version)
{
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	size_t length = version_bytes(probe, version, &bytes);
	LDR_AUTO_FD int fd = -1;

	mark(probe, "begin", 0);
	fd = open(plan->in_place ? "dest" : MUTANT_TEMPORARY,
		  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return complain("temporary");
	mark(probe, "created", 0);
	if (write_all(probe, plan, fd, bytes, length) != 0)
		return 1;
	if (plan->rename_first && rename_over(probe, plan) != 0)
		return 1;
	if (sync_file(probe, plan, fd) != 0)
		return 1;
	if (!plan->rename_first && rename_over(probe, plan) != 0)
		return 1;
	if (plan->early_ack)
		mark(probe, "ack", version);
	return sync_folder(probe, plan);
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

static const struct plan *plan_of(const struct probe *probe)
{
	for (size_t i = 0; probe->mutant && i < sizeof(plans) / sizeof(plans[0]); i++) {
		if (strcmp(plans[i].name, probe->mutant) == 0)
			return &plans[i];
	}
	return NULL;
}

static int step_run(void *context)
{
	struct probe *probe = context;
	const struct plan *plan = plan_of(probe);

	crash_teller_begin(&probe->teller);
	if (!plan) {
		ldr_seam_cap_writes(WRITE_CAP);
		ldr_seam_on_step(on_step, probe);
	}
	for (unsigned version = 1; version <= probe->versions; version++) {
		int rc = plan ? publish_mutant(probe, plan, version)
			      : publish_real(probe, version, probe->policy);

		if (rc != 0)
			return rc;
		mark(probe, "ack", version);
	}
	mark(probe, "end", 0);
	return 0;
}

static int put(const char *name, const void *bytes, size_t length)
{
	LDR_AUTO_FD int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, bytes, length) != (ssize_t)length || fsync(fd) != 0)
		return complain(name);
	return 0;
}

static int step_seed(void *context)
{
	struct probe *probe = context;
	LDR_AUTO_FREE uint8_t *old = NULL;
	size_t length = version_bytes(probe, 0, &old);
	int rc = put("sentinel", "sentinel", 8) | put("foreign", "", 0);

	if (!rc && probe->replace)
		rc = put("dest", old, length);
	if (!rc && probe->replace && link("dest", "keep") != 0)
		rc = complain("keep");
	return rc;
}

/* The next publication finds nothing in its way, takes strays away, and is there afterwards. */
static int step_recover(void *context, unsigned acked)
{
	struct probe *probe = context;
	unsigned version = probe->versions + 1, swept;
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	LDR_AUTO_FREE uint8_t *wanted = NULL, *found = NULL;
	size_t length = version_bytes(probe, version, &wanted), got;
	struct ldr_error err = {0};

	(void)acked; /* the oracle knows it */
	if (publish_real(probe, version, LDR_SYNC_FILE_AND_FOLDER) != 0)
		return 1;
	if (ldr_root_open(".", false, &root, &err) != LDR_OK ||
	    ldr_root_sweep(root, "", &swept, &err) != LDR_OK ||
	    ldr_root_read_file(root, "dest", SIZE_MAX_BYTES * 2, &found, &got, &err) != LDR_OK) {
		fprintf(stderr, "publish: %s\n", err.text);
		return 1;
	}
	return got == length && memcmp(wanted, found, length) == 0 ? 0 : 1;
}

static void print_version(const struct probe *probe, unsigned version)
{
	LDR_AUTO_FREE uint8_t *bytes = NULL;
	size_t length = version_bytes(probe, version, &bytes);
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;

	if (version == 0 && !probe->replace) {
		printf("null");
		return;
	}
	if (ldr_digest_once(bytes, length, &id, NULL) != LDR_OK)
		abort();
	ldr_id_to_hex(&id, hex);
	printf("\"%s\"", hex);
}

static void print_fixed(const char *name, const void *bytes, size_t length)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id id;

	if (ldr_digest_once(bytes, length, &id, NULL) != LDR_OK)
		abort();
	ldr_id_to_hex(&id, hex);
	printf("{\"name\": \"%s\", \"sha256\": \"%s\"}", name, hex);
}

static int step_describe(void *context)
{
	const struct probe *probe = context;
	LDR_AUTO_FREE uint8_t *old = NULL;
	size_t length = version_bytes(probe, 0, &old);

	printf("{\"subject\": \"publish%s%s %s %zu x%u\", \"policy\": \"%s\", ",
	       probe->mutant ? "/" : "", probe->mutant ? probe->mutant : "",
	       probe->replace ? "replace" : "create", probe->size, probe->versions,
	       probe->policy_name);
	printf("\"files\": [{\"name\": \"dest\", \"versions\": [");
	for (unsigned version = 0; version <= probe->versions; version++) {
		printf("%s", version ? ", " : "");
		print_version(probe, version);
	}
	printf("]}], \"fixed\": [");
	print_fixed("sentinel", "sentinel", 8);
	if (probe->replace) {
		printf(", ");
		print_fixed("keep", old, length);
	}
	printf("], \"free\": [\"foreign\"], \"serves\": true}\n");
	return fflush(stdout) == 0 ? 0 : 1;
}

static bool take_policy(struct probe *probe, const char *name)
{
	probe->policy_name = name;
	if (strcmp(name, "folder") == 0)
		probe->policy = LDR_SYNC_FILE_AND_FOLDER;
	else if (strcmp(name, "file") == 0)
		probe->policy = LDR_SYNC_FILE;
	else if (strcmp(name, "none") == 0)
		probe->policy = LDR_SYNC_NONE;
	else
		return false;
	return true;
}

static bool take(struct probe *probe, const char *option, const char *value, bool *out_both)
{
	*out_both = true;
	if (strcmp(option, "--size") == 0)
		probe->size = strtoul(value, NULL, 10);
	else if (strcmp(option, "--versions") == 0)
		probe->versions = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(option, "--mutant") == 0)
		probe->mutant = value;
	else if (strcmp(option, "--policy") == 0)
		return take_policy(probe, value);
	else
		*out_both = false;
	if (!*out_both && strcmp(option, "--replace") == 0)
		probe->replace = true;
	else if (!*out_both && strcmp(option, "--create") != 0)
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct probe probe = {.size = 12305,
			      .versions = 1,
			      .policy_name = "folder",
			      .teller = {.folder = ".", .temporaries = TEMPORARY}};
	const struct crash_steps steps = {"publish", step_describe, step_seed,
					  step_run,  step_recover,  &probe};
	bool good = argc > 1, both;

	for (int i = 1; good && i < argc - 1; i += both ? 2 : 1)
		good = take(&probe, argv[i], argv[i + 1], &both);
	if (!good || probe.size > SIZE_MAX_BYTES || probe.versions == 0 ||
	    (probe.mutant && !plan_of(&probe))) {
		fprintf(stderr, "publish: see the head of its source for what it takes\n");
		return 2;
	}
	return crash_drive(&steps, argv[argc - 1]);
}
