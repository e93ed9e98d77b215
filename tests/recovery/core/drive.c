/* Common parts of subjects; see drive.h. */
#include "tests/recovery/core/drive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/bytes.h"

void crash_drive_mark(const char *name, unsigned number)
{
	const char *path = getenv("CRASHLAB_MARK");
	LDR_AUTO_FD int fd = -1;
	char text[64];
	int length = snprintf(text, sizeof(text), number ? "%s:%u\n" : "%s\n", name, number);

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)length) != length) {
		fprintf(stderr, "mark %s: %s\n", name, strerror(errno));
		exit(1);
	}
}

/* ---- injections ---------------------------------------------------------------------------------- */

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void commit_foreign(void)
{
	LDR_AUTO_FD int fd = open("foreign", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0)
		give_up("foreign commit");
}

static void commit_transaction(void)
{
	LDR_AUTO_FD int fd = open(".", O_RDONLY | O_CLOEXEC);
	uint64_t transaction = 0;

	if (fd < 0 || ioctl(fd, BTRFS_IOC_START_SYNC, &transaction) != 0 ||
	    ioctl(fd, BTRFS_IOC_WAIT_SYNC, &transaction) != 0)
		give_up("transaction commit");
}

/* Before there is a folder, there is nothing to write back. */
static void start_writeback(const struct crash_teller *teller)
{
	DIR *folder = opendir(teller->folder);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		LDR_AUTO_FD int fd = -1;

		if (strncmp(entry->d_name, teller->temporaries, strlen(teller->temporaries)) != 0)
			continue;
		fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC);
		if (fd < 0 || sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) != 0)
			give_up("started writeback");
	}
	if (folder)
		closedir(folder);
}

static void inject(const struct crash_teller *teller, char kind)
{
	if (kind == 'c')
		commit_foreign();
	else if (kind == 't')
		commit_transaction();
	else if (kind == 'w')
		start_writeback(teller);
}

static unsigned draw(struct crash_teller *teller)
{
	teller->random = teller->random * UINT64_C(6364136223846793005) +
			 UINT64_C(1442695040888963407);
	return (unsigned)(teller->random >> 33);
}

/* none | all:KIND | N:KIND | random:SEED:KIND */
static void maybe_inject(struct crash_teller *teller)
{
	const char *colon = teller->inject ? strrchr(teller->inject, ':') : NULL;

	if (!colon)
		return;
	if (strncmp(teller->inject, "all:", 4) == 0)
		inject(teller, colon[1]);
	else if (strncmp(teller->inject, "random:", 7) == 0 && draw(teller) % 4 == 0)
		inject(teller, colon[1]);
	else if (strtoul(teller->inject, NULL, 10) == teller->marks)
		inject(teller, colon[1]);
}

void crash_teller_begin(struct crash_teller *teller)
{
	teller->inject = getenv("CRASHLAB_INJECT");
	teller->marks = 0;
	if (teller->inject && strncmp(teller->inject, "random:", 7) == 0)
		teller->random = strtoull(teller->inject + 7, NULL, 10) * 2654435761u;
}

void crash_teller_mark(struct crash_teller *teller, const char *name, unsigned number)
{
	crash_drive_mark(name, number);
	teller->marks++;
	maybe_inject(teller);
}

/* ---- steps --------------------------------------------------------------------------------------- */

static int serve(const struct crash_steps *steps)
{
	char folder[1024];

	while (fgets(folder, sizeof(folder), stdin)) {
		int rc = 1;

		const char *tab = strchr(folder, '\t');
		unsigned acked = tab ? (unsigned)strtoul(tab, NULL, 10) : 0;

		folder[strcspn(folder, "\t\n")] = 0;
		if (chdir(folder) == 0)
			rc = steps->recover(steps->context, acked);
		if (chdir("/") != 0)
			return 1;
		printf("%d\n", rc);
		fflush(stdout);
	}
	return 0;
}

int crash_drive(const struct crash_steps *steps, const char *step)
{
	const char *acked = getenv("CRASHLAB_ACKED"); /* not there by hand */

	if (strcmp(step, "--describe") == 0)
		return steps->describe(steps->context);
	if (strcmp(step, "--seed") == 0)
		return steps->seed(steps->context);
	if (strcmp(step, "--run") == 0)
		return steps->run(steps->context);
	if (strcmp(step, "--recover") == 0)
		return steps->recover(steps->context,
				      acked ? (unsigned)strtoul(acked, NULL, 10) : 0);
	if (strcmp(step, "--serve") == 0)
		return serve(steps);
	fprintf(stderr, "%s: no step %s\n", steps->name, step);
	return 2;
}
