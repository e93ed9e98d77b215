/* Common parts of subjects; see drive.h. */
#include "tests/recovery/core/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	if (strcmp(step, "--describe") == 0)
		return steps->describe(steps->context);
	if (strcmp(step, "--seed") == 0)
		return steps->seed(steps->context);
	if (strcmp(step, "--run") == 0)
		return steps->run(steps->context);
	/* By hand; nothing is known of what was acknowledged. */
	if (strcmp(step, "--recover") == 0)
		return steps->recover(steps->context, 0);
	if (strcmp(step, "--serve") == 0)
		return serve(steps);
	fprintf(stderr, "%s: no step %s\n", steps->name, step);
	return 2;
}
