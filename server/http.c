/*
 * The daemon: listening, the library's callbacks, draining. See http.h.
 */
#include "server/http.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/request_priv.h"

/* A connection's memory in the library: the longest header that it accepts lives in it. */
#define CONNECTION_BYTES (16u * 1024)
/* Silence after which the library ends a connection; longer waits have deadlines of ours. */
#define SILENCE_SECONDS 45u
#define SWEEP_MS 500u
#define DRAIN_STEP_MS 10u
/* Descriptors for the store, the log and the like. */
#define OTHER_DESCRIPTORS 128u

/* ---- listening ---- */

static int listen_on(const struct addrinfo *address)
{
	int on = 1;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, address->ai_addr, address->ai_addrlen) || listen(fd, 1024)) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static enum ldr_status open_listener(struct ldr_server *http, struct ldr_error *err)
{
	const char *host = http->options.host;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *addresses = NULL;
	int error = getaddrinfo(*host ? host : NULL, http->options.port, &hints, &addresses);

	if (error)
		return ldr_fail(err, LDR_EUSAGE, "listen on %s:%s: %s", host, http->options.port,
				gai_strerror(error));
	errno = EADDRNOTAVAIL;
	for (struct addrinfo *a = addresses; a && http->listener < 0; a = a->ai_next)
		http->listener = listen_on(a);
	error = errno;
	freeaddrinfo(addresses);
	if (http->listener < 0)
		return ldr_fail(err, LDR_ENET, "listen on %s:%s: %s", host, http->options.port,
				strerror(error));
	return LDR_OK;
}

/* What was really bound, since the port may have been 0. */
static enum ldr_status set_url(struct ldr_server *http, struct ldr_error *err)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char host[128];
	char port[16];
	bool six;

	if (getsockname(http->listener, (struct sockaddr *)&address, &length))
		return ldr_fail_errno(err, errno, "own address");
	if (getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return ldr_fail(err, LDR_ENET, "own address has no text");
	six = address.ss_family == AF_INET6;
	snprintf(http->url, sizeof(http->url), "http://%s%s%s:%s", six ? "[" : "", host,
		 six ? "]" : "", port);
	return LDR_OK;
}

/* ---- the library's callbacks ---- */

/* The URL stays as it came (invariant 1). */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *text)
{
	(void)context;
	(void)connection;
	return strlen(text);
}

static void connection_event(void *context, struct MHD_Connection *connection,
			     void **socket_context, enum MHD_ConnectionNotificationCode code)
{
	struct ldr_server *http = context;
	const union MHD_ConnectionInfo *info;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (*socket_context)
			ldr_limits_leave(http->limits, *socket_context);
		*socket_context = NULL;
		return;
	}
	info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	*socket_context = info ? ldr_limits_enter(http->limits, info->connect_fd) : NULL;
}

/* NOLINTNEXTLINE(readability-function-size): the library says how many parameters there are */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *data_bytes, void **request_context)
{
	struct request *request = *request_context;

	if (!request) {
		request = request_new(context, connection, method, url);
		if (!request)
			return MHD_NO;
		*request_context = request;
		return request_begin(request, url, version);
	}
	if (*data_bytes) {
		request_put_body(request, data, *data_bytes);
		*data_bytes = 0;
		return MHD_YES;
	}
	return request_ready(request, url);
}

static void completed(void *context, struct MHD_Connection *connection, void **request_context,
		      enum MHD_RequestTerminationCode code)
{
	(void)context;
	(void)connection;
	if (*request_context)
		request_end(*request_context, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
	*request_context = NULL;
}

/* ---- start ---- */

static unsigned connection_limit(unsigned wanted)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return wanted;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur > wanted + OTHER_DESCRIPTORS)
		return wanted;
	return files.rlim_cur > 2 * OTHER_DESCRIPTORS ? (unsigned)files.rlim_cur - OTHER_DESCRIPTORS
						      : OTHER_DESCRIPTORS;
}

static enum ldr_status start_daemon(struct ldr_server *http, struct ldr_error *err)
{
	unsigned threads = http->options.threads ? http->options.threads : ldr_thread_processors();
	unsigned connections = http->options.max_connections ? http->options.max_connections : 4096;

	if (threads < 2)
		threads = 2;
	http->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
		NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, http->listener,
		MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_CONNECTION_LIMIT,
		connection_limit(connections), MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_SECONDS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_CONNECTION,
		connection_event, http, MHD_OPTION_NOTIFY_COMPLETED, completed, http,
		MHD_OPTION_END);
	if (!http->daemon)
		return ldr_fail(err, LDR_ENET, "%s: libmicrohttpd did not start", http->url);
	return LDR_OK;
}

/* Deadlines are looked at twice a second. */
static void *sweep(void *argument)
{
	struct ldr_server *http = argument;
	bool ending = false;

	while (!ending) {
		ldr_mutex_lock(&http->lock);
		if (!http->ending)
			ldr_condition_wait_ms(&http->changed, &http->lock, SWEEP_MS);
		ending = http->ending;
		ldr_mutex_unlock(&http->lock);
		ldr_limits_sweep(http->limits);
	}
	return NULL;
}

enum ldr_status ldr_server_start(const struct ldr_server_options *options,
				 struct ldr_server **out_http, struct ldr_error *err)
{
	struct ldr_server *http = calloc(1, sizeof(*http));
	enum ldr_status status;

	if (!http)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	http->options = *options;
	http->listener = -1;
	ldr_mutex_init(&http->lock, LDR_RANK_SERVER);
	ldr_condition_init(&http->changed);
	status = ldr_limits_new(&options->limits, &http->limits, err);
	if (!status)
		status = open_listener(http, err);
	if (!status)
		status = set_url(http, err);
	if (!status)
		status = ldr_thread_start(&http->sweeper, sweep, http, err);
	if (!status) {
		http->sweeping = true;
		status = start_daemon(http, err);
	}
	if (status) {
		ldr_server_free(http);
		return status;
	}
	*out_http = http;
	return LDR_OK;
}

const char *ldr_server_url(const struct ldr_server *http)
{
	return http->url;
}

/* ---- end ---- */

static void stop_listening(struct ldr_server *http)
{
	if (http->listener < 0)
		return;
	if (http->daemon)
		MHD_quiesce_daemon(http->daemon);
	close(http->listener);
	http->listener = -1;
}

unsigned ldr_server_drain(struct ldr_server *http, uint64_t deadline_ms)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t end_ms = ldr_clock_now_ms(clock) + deadline_ms;
	const struct timespec step = {0, DRAIN_STEP_MS * 1000000L};

	atomic_store(&http->draining, true);
	stop_listening(http);
	do {
		/* A connection that has just had its answer waits again, until it is told here. */
		ldr_limits_end_waiting(http->limits);
		if (ldr_limits_count(http->limits) == 0)
			return 0;
		nanosleep(&step, NULL);
	} while (ldr_clock_now_ms(clock) < end_ms);
	return (unsigned)ldr_limits_count(http->limits);
}

static void end_sweeper(struct ldr_server *http)
{
	if (!http->sweeping)
		return;
	ldr_mutex_lock(&http->lock);
	http->ending = true;
	ldr_condition_broadcast(&http->changed);
	ldr_mutex_unlock(&http->lock);
	pthread_join(http->sweeper, NULL);
}

void ldr_server_free(struct ldr_server *http)
{
	if (!http)
		return;
	stop_listening(http);
	/* Every suspended connection waits for a worker: after this none is left. */
	if (http->options.workers)
		ldr_workers_end(http->options.workers);
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	end_sweeper(http);
	ldr_limits_free(http->limits);
	ldr_condition_dispose(&http->changed);
	ldr_mutex_dispose(&http->lock);
	free(http);
}
