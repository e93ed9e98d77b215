/*
 * larderd: puts the server together, waits for a signal, takes it apart.
 *
 * All signals but those of faults are blocked before the first thread starts; this thread takes them.
 * A second SIGTERM or SIGINT while draining ends the drain at once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/lock.h"
#include "server/config.h"
#include "server/http.h"
#include "server/store.h"

struct server {
	struct ldr_log log;
	struct ldr_store store;
	struct ldr_objects *objects;
	struct ldr_http *http;
};

static void block_signals(sigset_t *out_ends)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	sigemptyset(out_ends);
	sigaddset(out_ends, SIGTERM);
	sigaddset(out_ends, SIGINT);
}

static enum ldr_status start(struct server *server, const struct ldr_config *config,
			     struct ldr_error *err)
{
	struct ldr_objects_options objects = {0};
	struct ldr_http_options http = {
		.host = config->host,
		.port = config->port,
		.log = &server->log,
	};
	enum ldr_status status = ldr_store_open(config->store, &server->store, err);

	if (status)
		return status;
	if (server->store.swept)
		ldr_log_note(&server->log,
			     "store %s: %u unfinished files of a dead process removed",
			     config->store, server->store.swept);
	objects.root = server->store.root;
	status = ldr_objects_new(&objects, &server->objects, err);
	http.objects = server->objects;
	if (!status)
		status = ldr_http_start(&http, &server->http, err);
	return status;
}

static void stop(struct server *server)
{
	ldr_http_free(server->http);
	ldr_objects_free(server->objects);
	ldr_store_close(&server->store);
}

/* A thread that waits for the second signal would outlive its use; so the drain goes in steps. */
static void drain(struct server *server, uint64_t deadline_ms, const sigset_t *ends)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t end_ms = ldr_clock_now_ms(clock) + deadline_ms;
	const struct timespec at_once = {0, 0};
	unsigned left = ldr_http_drain(server->http, 0);

	while (left && ldr_clock_now_ms(clock) < end_ms && sigtimedwait(ends, NULL, &at_once) < 0)
		left = ldr_http_drain(server->http, 100);
	ldr_log_note(&server->log, "ended, %u connections cut", left);
}

static int run(const struct ldr_config *config)
{
	struct server server = {
		.log = {.clock = ldr_clock_system(), .fd = STDERR_FILENO},
	};
	struct ldr_error error = {0};
	sigset_t ends;
	int number;

	server.log.json = config->log_json;
	server.log.quiet = config->log_quiet;
	block_signals(&ends);
	if (start(&server, config, &error)) {
		fprintf(stderr, "larderd: %s\n", error.text);
		stop(&server);
		return ldr_status_exit(error.status);
	}
	printf("listening on %s\n", ldr_http_url(server.http));
	fflush(stdout);
	while (sigwait(&ends, &number))
		continue;
	ldr_log_note(&server.log, "signal %d: draining", number);
	drain(&server, config->drain_ms, &ends);
	stop(&server);
	return 0;
}

int main(int argc, char **argv)
{
	struct ldr_config config;
	enum ldr_config_action action;
	struct ldr_error error = {0};

	if (ldr_config_parse(argc, argv, &config, &action, &error)) {
		fprintf(stderr, "larderd: %s\n", error.text);
		return ldr_status_exit(error.status);
	}
	if (action == LDR_CONFIG_HELP) {
		fputs(ldr_config_help(), stdout);
		return 0;
	}
	if (action == LDR_CONFIG_VERSION) {
		printf("larderd %s\n", LDR_VERSION);
		return 0;
	}
	return run(&config);
}
