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

/* Threads that check and publish uploads. */
#define WORKERS 2u

struct server {
	struct ldr_log log;
	struct ldr_store_folder store;
	struct ldr_public_key *keys[LDR_PUBLISH_KEYS_MAX];
	size_t key_count;
	struct ldr_objects *objects;
	struct ldr_access *access;
	struct ldr_desk *desk;
	struct ldr_workers *workers;
	struct ldr_server *http;
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

static enum ldr_status read_key(const char *path, struct ldr_public_key **out_key,
				struct ldr_error *err)
{
	char pem[LDR_KEY_PEM_MAX_BYTES + 1];
	FILE *file = fopen(path, "re");
	size_t length;

	if (!file)
		return ldr_fail_errno(err, errno, "--publish-key %s", path);
	length = fread(pem, 1, sizeof(pem), file);
	fclose(file);
	if (length == sizeof(pem))
		return ldr_fail(err, LDR_ECORRUPT, "--publish-key %s: over %d bytes are no key",
				path, LDR_KEY_PEM_MAX_BYTES);
	return ldr_public_key_parse(pem, length, path, out_key, err);
}

static enum ldr_status read_keys(struct server *server, const struct ldr_config *config,
				 struct ldr_error *err)
{
	for (size_t i = 0; i < config->publish_key_count; i++) {
		enum ldr_status status = read_key(config->publish_keys[i], &server->keys[i], err);

		if (status)
			return status;
		server->key_count++;
	}
	return LDR_OK;
}

static enum ldr_status open_store(struct server *server, const struct ldr_config *config,
				  struct ldr_error *err)
{
	struct ldr_objects_options objects = {0};
	enum ldr_status status = ldr_store_folder_open(config->store, &server->store, err);

	if (status)
		return status;
	if (server->store.swept)
		ldr_log_note(&server->log,
			     "store %s: %u unfinished files of a dead process removed",
			     config->store, server->store.swept);
	objects.root = server->store.root;
	return ldr_objects_new(&objects, &server->objects, err);
}

/* Nothing of it is there without a token file: then nobody may publish. */
static enum ldr_status open_desk(struct server *server, const struct ldr_config *config,
				 struct ldr_error *err)
{
	struct ldr_desk_options desk = {
		.admission = {server->store.root, server->store.id, server->keys,
			      server->key_count},
		.objects = server->objects,
	};
	enum ldr_status status;

	if (!config->tokens)
		return LDR_OK;
	status = ldr_access_new(config->tokens, &server->access, err);
	if (!status)
		status = ldr_desk_new(&desk, &server->desk, err);
	if (!status)
		status = ldr_workers_new(WORKERS, &server->workers, err);
	return status;
}

static enum ldr_status start(struct server *server, const struct ldr_config *config,
			     struct ldr_error *err)
{
	struct ldr_server_options http = {
		.host = config->host,
		.port = config->port,
		.log = &server->log,
	};
	enum ldr_status status = read_keys(server, config, err);

	if (!status)
		status = open_store(server, config, err);
	if (!status)
		status = open_desk(server, config, err);
	if (status)
		return status;
	http.objects = server->objects;
	http.store_path = config->store;
	http.access = server->access;
	http.desk = server->desk;
	http.workers = server->workers;
	return ldr_server_start(&http, &server->http, err);
}

static void stop(struct server *server)
{
	ldr_server_free(server->http);
	ldr_workers_free(server->workers);
	ldr_desk_free(server->desk);
	ldr_access_free(server->access);
	ldr_objects_free(server->objects);
	ldr_store_folder_close(&server->store);
	for (size_t i = 0; i < server->key_count; i++)
		ldr_public_key_free(server->keys[i]);
}

/* A thread that waits for the second signal would outlive its use; so the drain goes in steps. */
static void drain(struct server *server, uint64_t deadline_ms, const sigset_t *ends)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t end_ms = ldr_clock_now_ms(clock) + deadline_ms;
	const struct timespec at_once = {0, 0};
	unsigned left = ldr_server_drain(server->http, 0);

	while (left && ldr_clock_now_ms(clock) < end_ms && sigtimedwait(ends, NULL, &at_once) < 0)
		left = ldr_server_drain(server->http, 100);
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
	printf("listening on %s\n", ldr_server_url(server.http));
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
