/*
 * The lying server's connections; see lying_server.h.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/lying_server_priv.h"

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- bytes in and out ---- */

/* False: the server stops. */
static bool wait_for(struct connection *connection, short events)
{
	struct pollfd fds[2] = {{.fd = connection->fd, .events = events},
				{.fd = connection->server->stop_event, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0)
		if (errno != EINTR)
			return false;
	return !(fds[1].revents & POLLIN);
}

bool lying_send(struct connection *connection, const void *bytes, size_t length)
{
	const uint8_t *next = bytes;

	while (length) {
		ssize_t sent = send(connection->fd, next, length, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
			if (!wait_for(connection, POLLOUT))
				return false;
			continue;
		}
		if (sent < 0)
			return false;
		next += sent;
		length -= (size_t)sent;
	}
	return true;
}

static ssize_t receive(struct connection *connection, void *to, size_t length)
{
	if (!wait_for(connection, POLLIN))
		return 0;
	return recv(connection->fd, to, length, 0);
}

void lying_stall(struct connection *connection)
{
	char ignored[256];

	while (receive(connection, ignored, sizeof(ignored)) > 0)
		;
}

/* ---- requests ---- */

static void copy_header(const char *request, const char *name, char *out, size_t out_bytes)
{
	const char *line = strcasestr(request, name);
	size_t length;

	out[0] = '\0';
	if (!line)
		return;
	line += strlen(name);
	length = strcspn(line, "\r\n");
	if (length >= out_bytes)
		length = out_bytes - 1;
	memcpy(out, line, length);
	out[length] = '\0';
}

static bool read_request(struct connection *connection)
{
	char *end;

	connection->request[connection->used] = '\0';
	while (!(end = strstr(connection->request, "\r\n\r\n"))) {
		ssize_t got;

		if (connection->used == REQUEST_MAX_BYTES)
			return false;
		got = receive(connection, connection->request + connection->used,
			      REQUEST_MAX_BYTES - connection->used);
		if (got <= 0)
			return false;
		connection->used += (size_t)got;
		connection->request[connection->used] = '\0';
	}
	connection->header_bytes = (size_t)(end - connection->request) + 4;
	return true;
}

static void parse_request(struct connection *connection)
{
	struct seen_request *seen = &connection->seen;
	char *header = connection->request;
	char kept = header[connection->header_bytes];
	char value[64];

	header[connection->header_bytes] = '\0';
	*seen = (struct seen_request){.at_ms = now_ms()};
	sscanf(header, "%7s %255s", seen->method, seen->path);
	copy_header(header, "\r\nRange: ", seen->range, sizeof(seen->range));
	copy_header(header, "\r\nAuthorization: ", seen->authorization,
		    sizeof(seen->authorization));
	copy_header(header, "\r\nAccept-Encoding: ", seen->accept_encoding,
		    sizeof(seen->accept_encoding));
	copy_header(header, "\r\nIf-Match: ", seen->if_match, sizeof(seen->if_match));
	copy_header(header, "\r\nIf-None-Match: ", seen->if_none_match,
		    sizeof(seen->if_none_match));
	copy_header(header, "\r\nContent-Length: ", value, sizeof(value));
	connection->upload_bytes = strtoull(value, NULL, 10);
	copy_header(header, "\r\nExpect: ", value, sizeof(value));
	connection->expects = value[0] != '\0';
	header[connection->header_bytes] = kept;
}

bool lying_receive(struct connection *connection)
{
	struct lying_server *server = connection->server;
	size_t length = (size_t)connection->upload_bytes;
	uint8_t *body = malloc(length + 1);
	size_t held = connection->used - connection->header_bytes;

	assert(body);
	if (held > length)
		held = length;
	memcpy(body, connection->request + connection->header_bytes, held);
	connection->header_bytes += held;
	while (held < length) {
		ssize_t got = receive(connection, body + held, length - held);

		if (got <= 0) {
			free(body);
			return false;
		}
		held += (size_t)got;
	}
	lying_server_add_file(server, connection->seen.path, body, length);
	pthread_mutex_lock(&server->lock);
	server->files[server->file_count - 1].owned = body;
	pthread_mutex_unlock(&server->lock);
	return true;
}

/* Notes the request and gives the lie to tell. */
static struct lie_plan consider(struct connection *connection)
{
	struct lying_server *server = connection->server;
	struct lie_plan chosen = {.lie = LIE_NONE};

	pthread_mutex_lock(&server->lock);
	assert(server->seen_count < SEEN_MAX);
	server->seen[server->seen_count++] = connection->seen;
	for (size_t i = 0; i < server->plan_count; i++) {
		struct live_plan *live = &server->plans[i];

		if (live->plan.path && strcmp(live->plan.path, connection->seen.path) != 0)
			continue;
		live->met++;
		if (live->met <= live->plan.after ||
		    (live->plan.times && live->met > live->plan.after + live->plan.times))
			continue;
		chosen = live->plan;
		break;
	}
	server->gathering++;
	pthread_cond_broadcast(&server->gathered);
	while (server->gathering < server->gather && !server->stopping)
		pthread_cond_wait(&server->gathered, &server->lock);
	pthread_mutex_unlock(&server->lock);
	return chosen;
}

static void drop_request(struct connection *connection)
{
	connection->used -= connection->header_bytes;
	memmove(connection->request, connection->request + connection->header_bytes,
		connection->used);
}

static void *serve(void *argument)
{
	struct connection *connection = argument;
	struct lying_server *server = connection->server;

	while (read_request(connection)) {
		struct lie_plan plan;

		parse_request(connection);
		plan = consider(connection);
		if (!lying_answer(connection, &plan))
			break;
		drop_request(connection);
	}
	close(connection->fd);
	pthread_mutex_lock(&server->lock);
	server->open--;
	pthread_mutex_unlock(&server->lock);
	free(connection);
	return NULL;
}

static void *accept_all(void *argument)
{
	struct lying_server *server = argument;

	for (;;) {
		struct connection *connection;
		int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
		int on = 1;

		if (fd < 0)
			return NULL;
		/* Head and body are sent apart: without this the second waits for the client's delayed ack. */
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		connection = calloc(1, sizeof(*connection));
		assert(connection);
		connection->server = server;
		connection->fd = fd;
		pthread_mutex_lock(&server->lock);
		assert(server->thread_count < CONNECTIONS_MAX);
		if (++server->open > server->open_max)
			server->open_max = server->open;
		assert(pthread_create(&server->threads[server->thread_count++], NULL, serve,
				      connection) == 0);
		pthread_mutex_unlock(&server->lock);
	}
}

/* ---- for the test ---- */

struct lying_server *lying_server_start(void)
{
	struct lying_server *server = calloc(1, sizeof(*server));
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);

	assert(server);
	server->seen = calloc(SEEN_MAX, sizeof(*server->seen));
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	server->stop_event = eventfd(0, EFD_CLOEXEC);
	assert(server->seen && server->listener >= 0 && server->stop_event >= 0);
	assert(bind(server->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(server->listener, 128) == 0);
	assert(getsockname(server->listener, (struct sockaddr *)&address, &length) == 0);
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->gathered, NULL);
	assert(pthread_create(&server->acceptor, NULL, accept_all, server) == 0);
	return server;
}

void lying_server_stop(struct lying_server *server)
{
	uint64_t one = 1;

	assert(write(server->stop_event, &one, sizeof(one)) == sizeof(one));
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->acceptor, NULL);
	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	pthread_cond_broadcast(&server->gathered);
	pthread_mutex_unlock(&server->lock);
	for (unsigned i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i], NULL);
	for (size_t i = 0; i < server->file_count; i++)
		free(server->files[i].owned);
	close(server->listener);
	close(server->stop_event);
	pthread_cond_destroy(&server->gathered);
	pthread_mutex_destroy(&server->lock);
	free(server->seen);
	free(server);
}

void lying_server_add_file(struct lying_server *server, const char *path, const void *bytes,
			   size_t length)
{
	struct served_file *file;

	pthread_mutex_lock(&server->lock);
	assert(server->file_count < FILES_MAX);
	file = &server->files[server->file_count++];
	*file = (struct served_file){.bytes = bytes, .length = length};
	snprintf(file->path, sizeof(file->path), "%s", path);
	pthread_mutex_unlock(&server->lock);
}

/* The newest of a name counts. */
bool lying_find(struct lying_server *server, const char *path, struct served_file *out)
{
	bool found = false;

	pthread_mutex_lock(&server->lock);
	for (size_t i = server->file_count; i-- > 0 && !found;) {
		found = strcmp(server->files[i].path, path) == 0;
		if (found)
			*out = server->files[i];
	}
	pthread_mutex_unlock(&server->lock);
	return found;
}

const void *lying_server_upload(struct lying_server *server, const char *path, size_t *out_length)
{
	struct served_file file;

	if (!lying_find(server, path, &file) || !file.owned)
		return NULL;
	*out_length = file.length;
	return file.owned;
}

void lying_server_lie(struct lying_server *server, const struct lie_plan *plan)
{
	pthread_mutex_lock(&server->lock);
	assert(server->plan_count < PLANS_MAX);
	server->plans[server->plan_count++] = (struct live_plan){.plan = *plan};
	pthread_mutex_unlock(&server->lock);
}

void lying_server_gather(struct lying_server *server, unsigned count)
{
	pthread_mutex_lock(&server->lock);
	server->gather = count;
	server->gathering = 0;
	pthread_cond_broadcast(&server->gathered);
	pthread_mutex_unlock(&server->lock);
}

const char *lying_server_url(const struct lying_server *server)
{
	return server->url;
}

size_t lying_server_request_count(struct lying_server *server)
{
	size_t count;

	pthread_mutex_lock(&server->lock);
	count = server->seen_count;
	pthread_mutex_unlock(&server->lock);
	return count;
}

struct seen_request lying_server_request(struct lying_server *server, size_t i)
{
	struct seen_request seen;

	pthread_mutex_lock(&server->lock);
	assert(i < server->seen_count);
	seen = server->seen[i];
	pthread_mutex_unlock(&server->lock);
	return seen;
}

unsigned lying_server_connections_max(struct lying_server *server)
{
	unsigned count;

	pthread_mutex_lock(&server->lock);
	count = server->open_max;
	pthread_mutex_unlock(&server->lock);
	return count;
}

unsigned lying_server_connections(struct lying_server *server)
{
	unsigned count;

	pthread_mutex_lock(&server->lock);
	count = server->thread_count;
	pthread_mutex_unlock(&server->lock);
	return count;
}
