/*
 * process.c   helper programs.
 */
#include "bench/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/support.h"

extern char **environ;

#define WAIT_STEP_MS 10
#define START_WAITS 1000
#define STOP_WAITS 500

static void nap(void)
{
	nanosleep(&(struct timespec){0, WAIT_STEP_MS * 1000000L}, NULL);
}

bool bench_process_start(const char *const *argv, const char *errors, struct bench_process *out)
{
	posix_spawn_file_actions_t actions;
	int ends[2], code;
	pid_t id = 0;

	*out = (struct bench_process){.output = -1};
	if (pipe2(ends, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	if (errors)
		posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_TRUNC,
						 0644);
	code = posix_spawnp(&id, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (code) {
		bench_say("%s: %s", argv[0], strerror(code));
		close(ends[0]);
		return false;
	}
	*out = (struct bench_process){id, ends[0]};
	return true;
}

static bool ended(const struct bench_process *process, int *out_status)
{
	pid_t id = waitpid(process->id, out_status, WNOHANG);

	return id == process->id || (id < 0 && errno == ECHILD);
}

void bench_process_stop(struct bench_process *process)
{
	int status;

	if (process->id <= 0)
		return;
	kill(process->id, SIGTERM);
	for (int i = 0; !ended(process, &status); i++) {
		if (i == STOP_WAITS)
			kill(process->id, SIGKILL);
		nap();
	}
	close(process->output);
	*process = (struct bench_process){.output = -1};
}

bool bench_process_run(const char *const *argv)
{
	struct bench_process process;
	char drained[512];
	int status = 0;

	if (!bench_process_start(argv, NULL, &process))
		return false;
	while (read(process.output, drained, sizeof(drained)) > 0)
		;
	close(process.output);
	if (waitpid(process.id, &status, 0) != process.id || !WIFEXITED(status) ||
	    WEXITSTATUS(status) != 0) {
		bench_say("%s: ended with status %d", argv[0], status);
		return false;
	}
	return true;
}

bool bench_process_line(struct bench_process *process, char *line, size_t capacity)
{
	struct pollfd waited = {.fd = process->output, .events = POLLIN};
	size_t length = 0;

	while (length + 1 < capacity && poll(&waited, 1, WAIT_STEP_MS * START_WAITS) > 0) {
		if (read(process->output, line + length, 1) != 1)
			return false;
		if (line[length] == '\n') {
			line[length] = '\0';
			return true;
		}
		length++;
	}
	return false;
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

int bench_free_port(void)
{
	struct sockaddr_in address = loopback(0);
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int port = -1;

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    !getsockname(fd, (struct sockaddr *)&address, &length))
		port = ntohs(address.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

bool bench_port_answers(int port, const struct bench_process *process)
{
	struct sockaddr_in address = loopback(port);
	int status;

	for (int i = 0; i < START_WAITS && !ended(process, &status); i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		bool good = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));

		if (fd >= 0)
			close(fd);
		if (good)
			return true;
		nap();
	}
	return false;
}
