/* The first process and its namespaces; see lab.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/recovery/core/disk.h"
#include "tests/recovery/core/lab.h"
#include "tests/recovery/core/process.h"

#define WITHIN_LIMIT_MS 600000
#define TMPFS_OPTIONS "mode=0700,size=75%"

bool crash_lab_possible(const char *recorder, char *out_text, size_t room)
{
	static const char *const devices[] = {"/dev/fuse", "/dev/loop-control"};

	if (geteuid() != 0) {
		snprintf(out_text, room, "not root");
		return false;
	}
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		int fd = open(devices[i], O_RDWR | O_CLOEXEC);

		if (fd < 0) {
			snprintf(out_text, room, "%s: %s", devices[i], strerror(errno));
			return false;
		}
		close(fd);
	}
	if (recorder && access(recorder, X_OK) != 0) {
		snprintf(out_text, room, "the recorder was not built (libfuse3)");
		return false;
	}
	return true;
}

static int prepare(const char *folder)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -1;
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		return -1;
	if (mount("crashlab", folder, "tmpfs", MS_NOSUID, TMPFS_OPTIONS) != 0)
		return -1;
	/* What subjects make for themselves goes with the namespace, too. */
	return setenv("TMPDIR", folder, 1);
}

/* Nobody waits for the orphans of a namespace but its first process. */
static int reap(pid_t wanted)
{
	int status = 0, result = 1;
	pid_t child;

	while ((child = wait(&status)) > 0 || errno == EINTR) {
		if (child == wanted)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (child == wanted)
			break;
	}
	return result;
}

/* As crash_die_with, across the border of a namespace, where a parent has no number: the caller
 * alone holds the other end of the pipe, and a dying process closes its files before its children
 * are told. */
static void die_with_holder_of(int pipe_fd)
{
	struct pollfd end = {.fd = pipe_fd, .events = POLLIN};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&end, 1, 0) != 0)
		_exit(1);
}

static int first(const char *folder, int (*work)(void *context, const char *folder), void *context)
{
	pid_t own = getpid(), child;

	if (prepare(folder) != 0) {
		fprintf(stderr, "crashlab: namespaces below %s: %s\n", folder, strerror(errno));
		return CRASH_EXIT_UNAVAILABLE;
	}
	child = fork();
	if (child == 0) {
		crash_die_with(own);
		_exit(work(context, folder));
	}
	return child < 0 ? 1 : reap(child);
}

int crash_lab_isolated(const char *out_folder, int (*work)(void *context, const char *folder),
		       void *context)
{
	char folder[CRASH_PATH_BYTES];
	int status = 0, alive[2];
	pid_t child;

	snprintf(folder, sizeof(folder), "%s/work", out_folder);
	if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
		fprintf(stderr, "crashlab: folder %s: %s\n", folder, strerror(errno));
		return 1;
	}
	if (pipe2(alive, O_CLOEXEC) != 0) {
		fprintf(stderr, "crashlab: a pipe: %s\n", strerror(errno));
		return 1;
	}
	fflush(NULL);
	child = (pid_t)syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL,
			       NULL);
	if (child == 0) {
		close(alive[1]);
		die_with_holder_of(alive[0]);
		close(alive[0]);
		_exit(first(folder, work, context));
	}
	close(alive[0]);
	if (child < 0) {
		close(alive[1]);
		fprintf(stderr, "crashlab: namespaces: %s\n", strerror(errno));
		return CRASH_EXIT_UNAVAILABLE;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	close(alive[1]);
	rmdir(folder);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct within {
	const struct crash_leg *leg;
	const char *const *argv;
};

static int run_within(void *context, const char *folder)
{
	const struct within *within = context;
	char image[CRASH_PATH_BYTES + 16], point[CRASH_PATH_BYTES + 16];
	struct ldr_error err = {0};
	enum ldr_status status;
	int error = 0, rc = 1;
	pid_t own = getpid(), child;

	snprintf(image, sizeof(image), "%s/image", folder);
	snprintf(point, sizeof(point), "%s/mnt", folder);
	status = mkdir(point, 0700) == 0 ? crash_disk_format(within->leg, image, NULL, &err)
					 : ldr_fail_errno(&err, errno, "%s", point);
	if (!status)
		status = crash_disk_mount(within->leg, image, false, point, &error, &err);
	if (status || error) {
		fprintf(stderr, "crashlab: %s: %s\n", within->leg->name,
			status ? err.text : strerror(error));
		return 1;
	}
	child = fork();
	if (child == 0) {
		crash_die_with(own);
		if (chdir(point) == 0)
			execv(within->argv[0], (char *const *)(uintptr_t)within->argv);
		_exit(127);
	}
	if (child > 0)
		rc = crash_wait(child, WITHIN_LIMIT_MS);
	status = crash_disk_unmount(point, umount2, &err);
	if (status)
		fprintf(stderr, "crashlab: %s\n", err.text);
	return status ? 1 : rc;
}

int crash_lab_within(const char *out_folder, const struct crash_leg *leg, const char *const *argv)
{
	struct within within = {.leg = leg, .argv = argv};

	return crash_lab_isolated(out_folder, run_within, &within);
}
