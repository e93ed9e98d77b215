/* The first process and its namespaces; see lab.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
	if (access(recorder, X_OK) != 0) {
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
	return mount("crashlab", folder, "tmpfs", MS_NOSUID, TMPFS_OPTIONS);
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

static int first(const char *folder, int (*work)(void *context, const char *folder), void *context)
{
	pid_t child;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prepare(folder) != 0) {
		fprintf(stderr, "crashlab: namespaces below %s: %s\n", folder, strerror(errno));
		return CRASH_EXIT_UNAVAILABLE;
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(work(context, folder));
	}
	return child < 0 ? 1 : reap(child);
}

int crash_lab_isolated(const char *out_folder, int (*work)(void *context, const char *folder),
		       void *context)
{
	char folder[CRASH_PATH_BYTES];
	int status = 0;
	pid_t child;

	snprintf(folder, sizeof(folder), "%s/work", out_folder);
	if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
		fprintf(stderr, "crashlab: folder %s: %s\n", folder, strerror(errno));
		return 1;
	}
	fflush(NULL);
	child = (pid_t)syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL,
			       NULL);
	if (child == 0)
		_exit(first(folder, work, context));
	if (child < 0) {
		fprintf(stderr, "crashlab: namespaces: %s\n", strerror(errno));
		return CRASH_EXIT_UNAVAILABLE;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	rmdir(folder);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
