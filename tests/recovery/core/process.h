/*
 * Programs that the crash tests start: with a folder, an environment and a time limit of their own.
 *
 * Invariants
 *  1. A program that outlives its limit is killed and counts as failed; nobody is left running.
 *  2. A started program dies with the process that started it, also when that one dies before it
 *     has asked to.
 *
 * Threads: none.
 */
#ifndef LDR_TESTS_RECOVERY_PROCESS_H
#define LDR_TESTS_RECOVERY_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct crash_spawn {
	const char *const *argv;
	const char *const *env; /* added to ours; NULL: nothing */
	const char *folder;     /* working folder; NULL: ours */
	const char *output;     /* stdout and stderr go to the end of this file; NULL: nowhere */
	int in_fd;              /* > 0: standard input */
	int out_fd;             /* > 0: standard output */
	unsigned limit_ms;
};

/* In a child right after fork: it dies when its parent dies, at once when that has happened
 * already. parent is what getpid gave before the fork; both in one namespace of processes. */
void crash_die_with(pid_t parent);

/* The exit status, 128 + signal, 124 when the limit passed, 127 when it could not be started. */
int crash_spawn_wait(const struct crash_spawn *spawn);
/* Only starts; -1 when that failed. limit_ms is not used. */
pid_t crash_spawn_start(const struct crash_spawn *spawn);
/* Waits for a child: as crash_spawn_wait. */
int crash_wait(pid_t child, unsigned limit_ms);

/* A program that answers each line on its standard input with one line, a number. */
struct crash_server {
	pid_t child; /* 0: none */
	int to;
	int from;
};

/* Uses argv, env, folder and output. */
bool crash_server_start(const struct crash_spawn *spawn, struct crash_server *out);
/* The number; 124 when the limit passed, 125 when it has ended or says no number. It is stopped
 * then. */
int crash_server_ask(struct crash_server *server, const char *line, unsigned limit_ms);
void crash_server_stop(struct crash_server *server);

#endif
