/* Common parts of subjects; see drive.h. */
#include "tests/recovery/core/drive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/digest.h"
#include "common/publisher.h"

#define NOTE "acked"
#define NOTE_BYTES 32

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

bool crash_drive_ack(unsigned round)
{
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	const struct ldr_publish_options options = {.sync = LDR_SYNC_FILE_AND_FOLDER};
	struct ldr_error err = {.status = LDR_OK};
	char text[NOTE_BYTES];
	int length = snprintf(text, sizeof(text), "%u\n", round);

	crash_drive_mark("rename_enter", 0);
	if (ldr_root_open(".", false, &root, &err) != LDR_OK ||
	    ldr_publish(root, NOTE, text, (size_t)length, &options, NULL, &err) != LDR_OK) {
		fprintf(stderr, "note of round %u: %s\n", round, err.text);
		return false;
	}
	crash_drive_mark("ack", round);
	return true;
}

unsigned crash_drive_acked(void)
{
	LDR_AUTO_FD int fd = open(NOTE, O_RDONLY | O_CLOEXEC);
	char text[NOTE_BYTES + 1] = "";

	if (fd < 0 || read(fd, text, NOTE_BYTES) <= 0)
		return 0;
	return (unsigned)strtoul(text, NULL, 10);
}

void crash_drive_describe_acked(unsigned rounds)
{
	printf("{\"name\": \"" NOTE "\", \"versions\": [null");
	for (unsigned round = 1; round <= rounds; round++) {
		char text[NOTE_BYTES], hex[LDR_ID_HEX_CHARS + 1];
		int length = snprintf(text, sizeof(text), "%u\n", round);
		struct ldr_id id;

		if (ldr_digest_once(text, (size_t)length, &id, NULL) != LDR_OK)
			abort();
		ldr_id_to_hex(&id, hex);
		printf(", \"%s\"", hex);
	}
	printf("]}");
}

static int serve(const struct crash_steps *steps)
{
	char folder[1024];

	while (fgets(folder, sizeof(folder), stdin)) {
		int rc = 1;

		folder[strcspn(folder, "\n")] = 0;
		if (chdir(folder) == 0)
			rc = steps->recover(steps->context);
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
	if (strcmp(step, "--recover") == 0)
		return steps->recover(steps->context);
	if (strcmp(step, "--serve") == 0)
		return serve(steps);
	fprintf(stderr, "%s: no step %s\n", steps->name, step);
	return 2;
}
