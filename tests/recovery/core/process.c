/*
 * Starting and waiting; see process.h.
 *
 * vfork lets a program start in a fraction of a millisecond whatever the size of this process; the
 * child makes nothing but system calls before it executes.
 */
#include "tests/recovery/core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENV_MAX 256

extern char **environ;

static void merge_environment(const char *const *more, const char *out[ENV_MAX + 1])
{
	size_t count = 0;

	for (size_t i = 0; more && more[i] && count < ENV_MAX; i++)
		out[count++] = more[i];
	for (size_t i = 0; environ[i] && count < ENV_MAX; i++) {
		bool ours = false;

		for (size_t k = 0; more && more[k]; k++)
			ours |= strncmp(more[k], environ[i], strcspn(more[k], "=") + 1) == 0;
		if (!ours)
			out[count++] = environ[i];
	}
	out[count] = NULL;
}

/* The kernel forgets a child's wish only if the parent was gone before it: then there is another
 * parent by now. */
void crash_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
}

/* In the child. dup2 clears close-on-exec. */
static void become(const struct crash_spawn *spawn, const char *const *env, int in, int out,
		   pid_t parent)
{
	crash_die_with(parent);
	if (in < 0 || out < 0 || dup2(spawn->in_fd > 0 ? spawn->in_fd : in, 0) < 0 ||
	    dup2(spawn->out_fd > 0 ? spawn->out_fd : out, 1) < 0 || dup2(out, 2) < 0)
		_exit(127);
	if (spawn->folder && chdir(spawn->folder) != 0)
		_exit(127);
	execve(spawn->argv[0], (char *const *)(uintptr_t)spawn->argv,
	       (char *const *)(uintptr_t)env);
	_exit(127);
}

pid_t crash_spawn_start(const struct crash_spawn *spawn)
{
	const char *env[ENV_MAX + 1];
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = spawn->output
			  ? open(spawn->output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
			  : open("/dev/null", O_WRONLY | O_CLOEXEC);
	pid_t parent = getpid(), child;

	merge_environment(spawn->env, env);
	child = vfork();
	if (child == 0)
		become(spawn, env, in, out, parent);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return child;
}

int crash_wait(pid_t child, unsigned limit_ms)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	int status = 0, ready;
	bool late;

	do {
		ready = poll(&wanted, 1, (int)limit_ms);
	} while (ready < 0 && errno == EINTR);
	late = ready == 0;
	if (late)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (fd >= 0)
		close(fd);
	if (late)
		return 124;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int crash_spawn_wait(const struct crash_spawn *spawn)
{
	pid_t child = crash_spawn_start(spawn);

	return child < 0 ? 127 : crash_wait(child, spawn->limit_ms);
}

/* ---- servers
 * ------------------------------------------------------------------------------------- */

bool crash_server_start(const struct crash_spawn *spawn, struct crash_server *out)
{
	struct crash_spawn piped = *spawn;
	int in[2], answers[2];

	*out = (struct crash_server){.child = -1};
	if (pipe2(in, O_CLOEXEC) != 0)
		return false;
	if (pipe2(answers, O_CLOEXEC) != 0) {
		close(in[0]);
		close(in[1]);
		return false;
	}
	piped.in_fd = in[0];
	piped.out_fd = answers[1];
	out->child = crash_spawn_start(&piped);
	close(in[0]);
	close(answers[1]);
	out->to = in[1];
	out->from = answers[0];
	if (out->child > 0)
		return true;
	close(out->to);
	close(out->from);
	out->child = 0;
	return false;
}

void crash_server_stop(struct crash_server *server)
{
	if (server->child <= 0)
		return;
	close(server->to);
	close(server->from);
	crash_wait(server->child, 1000);
	server->child = 0;
}

static int answer(int fd, unsigned limit_ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	char text[16], *end;
	size_t length = 0;
	long number;

	while (length == 0 || text[length - 1] != '\n') {
		int ready = poll(&wanted, 1, (int)limit_ms);
		ssize_t got;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready == 0)
			return 124;
		got = read(fd, text + length, sizeof(text) - 1 - length);
		if (got <= 0)
			return 125;
		length += (size_t)got;
	}
	text[length] = 0;
	number = strtol(text, &end, 10);
	return *end == '\n' && number >= 0 && number < 124 ? (int)number : 125;
}

int crash_server_ask(struct crash_server *server, const char *line, unsigned limit_ms)
{
	size_t length = strlen(line);
	int rc = 125;

	if (write(server->to, line, length) == (ssize_t)length)
		rc = answer(server->from, limit_ms);
	if (rc >= 124) {
		kill(server->child, SIGKILL);
		crash_server_stop(server);
	}
	return rc;
}
