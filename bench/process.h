/*
 * Helper programs: run to their end, or in the background until stopped.
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_PROCESS_H
#define LDR_BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bench_process {
	pid_t id;   /* 0: none */
	int output; /* its standard output */
};

/* argv ends with NULL; the program is searched in the path. Its standard error goes to the file `errors` (NULL: to ours). */
bool bench_process_start(const char *const *argv, const char *errors, struct bench_process *out);
/* Ends it by SIGTERM, then SIGKILL after five seconds. Nothing to do when there is none. */
void bench_process_stop(struct bench_process *process);
/* Whether it ended with status 0. */
bool bench_process_run(const char *const *argv);
/* A line of its output without the newline, within ten seconds. */
bool bench_process_line(struct bench_process *process, char *line, size_t capacity);
/* A TCP port of the loopback that was free a moment ago. */
int bench_free_port(void);
/* Whether something accepts connections there, within ten seconds. */
bool bench_port_answers(int port, const struct bench_process *process);

#endif
