/* Programs that the crash tests start: how they end, and that nobody outlives whoever started them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/process.h"

/* The grandchild asks to die with its parent after that has died; it tells the pipe if it lives on. */
static void grandchild(int go, int told, pid_t parent)
{
	char byte;

	if (read(go, &byte, 1) != 0) /* ends when the parent has */
		_exit(2);
	while (getppid() == parent)
		usleep(1000);
	crash_die_with(parent);
	if (write(told, "x", 1) != 1)
		_exit(3);
	_exit(0);
}

Test(process, a_child_that_asks_too_late_dies_all_the_same)
{
	int go[2], told[2];
	pid_t parent;
	char byte;

	cr_assert_eq(pipe2(go, O_CLOEXEC) | pipe2(told, O_CLOEXEC), 0);
	parent = fork();
	if (parent == 0) {
		pid_t own = getpid();

		if (fork() == 0) {
			close(go[1]);
			grandchild(go[0], told[1], own);
		}
		_exit(0);
	}
	close(go[1]);
	close(told[1]);
	cr_assert_eq(waitpid(parent, NULL, 0), parent);
	cr_expect_eq(read(told[0], &byte, 1), 0, "it lived on");
	close(go[0]);
	close(told[0]);
}

Test(process, a_child_that_asks_in_time_dies_with_its_parent)
{
	int told[2];
	pid_t parent;
	char bytes[2];

	cr_assert_eq(pipe2(told, O_CLOEXEC), 0);
	parent = fork();
	if (parent == 0) {
		pid_t own = getpid();

		if (fork() == 0) {
			crash_die_with(own);
			if (write(told[1], "x", 1) == 1)
				pause();
			_exit(0);
		}
		pause();
	}
	close(told[1]);
	cr_assert_eq(read(told[0], bytes, 1), 1);
	cr_assert_eq(kill(parent, SIGKILL), 0);
	cr_assert_eq(waitpid(parent, NULL, 0), parent);
	cr_expect_eq(read(told[0], bytes, 1), 0, "the pipe ends with its last holder");
	close(told[0]);
}

Test(process, statuses)
{
	static const struct {
		const char *words[4];
		unsigned limit_ms;
		int status;
	} rows[] = {{{"/bin/sh", "-c", "exit 7", NULL}, 60000, 7},
		    {{"/bin/sh", "-c", "kill -KILL $$", NULL}, 60000, 128 + SIGKILL},
		    {{"/bin/sh", "-c", "exec sleep 60", NULL}, 100, 124},
		    {{"/nowhere/at/all", NULL}, 60000, 127}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct crash_spawn spawn = {.argv = rows[i].words, .limit_ms = rows[i].limit_ms};

		cr_expect_eq(crash_spawn_wait(&spawn), rows[i].status, "row %zu", i);
	}
}

Test(process, a_server_answers_lines_with_numbers)
{
	static const char *const words[] = {
		"/bin/sh", "-c",
		"while read -r line; do case $line in end) exit;; *) echo \"$line\";; esac; done",
		NULL};
	struct crash_spawn spawn = {.argv = words, .folder = "/"};
	struct crash_server server;

	cr_assert(crash_server_start(&spawn, &server));
	cr_expect_eq(crash_server_ask(&server, "0\n", 60000), 0);
	cr_expect_eq(crash_server_ask(&server, "77\n", 60000), 77);
	cr_expect_eq(crash_server_ask(&server, "end\n", 60000), 125);
	cr_expect_eq(server.child, 0, "it is stopped then");
	cr_assert(crash_server_start(&spawn, &server));
	cr_expect_eq(crash_server_ask(&server, "words\n", 60000), 125);
	crash_server_stop(&server);
}
