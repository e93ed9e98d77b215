/*
 * Deadlines of connections; see limits.h.
 */
#include "server/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/lock.h"

enum doing {
	DOING_WAITING,
	DOING_RECEIVING,
	DOING_SENDING,
	DOING_WORKING,
};

struct ldr_connection {
	LIST_ENTRY(ldr_connection) link;
	int fd;
	bool ended;     /* shut down already; under the lock, as the next */
	bool lost_peer; /* when it was looked at last */
	_Atomic uint64_t deadline_ms;
	atomic_int doing;
};

struct ldr_limits {
	const struct ldr_clock *clock;
	uint64_t waiting_ms;
	uint64_t grace_ms;
	uint64_t slowest_bytes;

	struct ldr_mutex lock;
	LIST_HEAD(, ldr_connection) connections;
	size_t count;
};

enum ldr_status ldr_limits_new(const struct ldr_limits_options *options,
			       struct ldr_limits **out_limits, struct ldr_error *err)
{
	struct ldr_limits *limits = calloc(1, sizeof(*limits));

	if (!limits)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	limits->clock = options->clock ? options->clock : ldr_clock_system();
	limits->waiting_ms = options->waiting_ms ? options->waiting_ms : 60000;
	limits->grace_ms = options->grace_ms ? options->grace_ms : 60000;
	limits->slowest_bytes = options->slowest_bytes ? options->slowest_bytes : 8192;
	ldr_mutex_init(&limits->lock, LDR_RANK_SERVER);
	LIST_INIT(&limits->connections);
	*out_limits = limits;
	return LDR_OK;
}

void ldr_limits_free(struct ldr_limits *limits)
{
	if (!limits)
		return;
	ldr_mutex_dispose(&limits->lock);
	free(limits);
}

struct ldr_connection *ldr_limits_enter(struct ldr_limits *limits, int fd)
{
	struct ldr_connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->fd = fd;
	ldr_connection_waiting(limits, connection);
	ldr_mutex_lock(&limits->lock);
	LIST_INSERT_HEAD(&limits->connections, connection, link);
	limits->count++;
	ldr_mutex_unlock(&limits->lock);
	return connection;
}

void ldr_limits_leave(struct ldr_limits *limits, struct ldr_connection *connection)
{
	ldr_mutex_lock(&limits->lock);
	LIST_REMOVE(connection, link);
	limits->count--;
	ldr_mutex_unlock(&limits->lock);
	free(connection);
}

/* The sweep reads single words and needs no order between them: at worst it acts one round late. */
static void expect(struct ldr_connection *connection, uint64_t deadline_ms, enum doing doing)
{
	atomic_store_explicit(&connection->doing, doing, memory_order_relaxed);
	atomic_store_explicit(&connection->deadline_ms, deadline_ms, memory_order_relaxed);
}

void ldr_connection_waiting(struct ldr_limits *limits, struct ldr_connection *connection)
{
	expect(connection, ldr_clock_now_ms(limits->clock) + limits->waiting_ms, DOING_WAITING);
}

static void expect_body(struct ldr_limits *limits, struct ldr_connection *connection,
			uint64_t bytes, enum doing doing)
{
	uint64_t seconds = bytes / limits->slowest_bytes;

	if (seconds > UINT32_MAX)
		seconds = UINT32_MAX;
	expect(connection, ldr_clock_now_ms(limits->clock) + limits->grace_ms + seconds * 1000,
	       doing);
}

void ldr_connection_receiving(struct ldr_limits *limits, struct ldr_connection *connection,
			      uint64_t bytes)
{
	expect_body(limits, connection, bytes, DOING_RECEIVING);
}

void ldr_connection_sending(struct ldr_limits *limits, struct ldr_connection *connection,
			    uint64_t bytes)
{
	expect_body(limits, connection, bytes, DOING_SENDING);
}

void ldr_connection_working(struct ldr_connection *connection)
{
	expect(connection, UINT64_MAX, DOING_WORKING);
}

static enum doing doing_of(struct ldr_connection *connection)
{
	return (enum doing)atomic_load_explicit(&connection->doing, memory_order_relaxed);
}

/* The peer will send no more, nothing of it is unread, and we wait for more. Twice in a row, since the last
 * bytes of a request may have been read a moment ago and not be understood yet. */
static bool peer_is_gone_locked(struct ldr_connection *connection)
{
	enum doing doing = doing_of(connection);
	bool was_lost = connection->lost_peer;
	char byte;

	connection->lost_peer = (doing == DOING_WAITING || doing == DOING_RECEIVING) &&
				recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
	return was_lost && connection->lost_peer;
}

static bool is_late(struct ldr_connection *connection, uint64_t now_ms)
{
	return atomic_load_explicit(&connection->deadline_ms, memory_order_relaxed) <= now_ms;
}

unsigned ldr_limits_sweep(struct ldr_limits *limits)
{
	uint64_t now_ms = ldr_clock_now_ms(limits->clock);
	struct ldr_connection *connection;
	unsigned ended = 0;

	ldr_mutex_lock(&limits->lock);
	LIST_FOREACH(connection, &limits->connections, link)
	{
		if (connection->ended)
			continue;
		if (!is_late(connection, now_ms) && !peer_is_gone_locked(connection))
			continue;
		connection->ended = true;
		shutdown(connection->fd, SHUT_RDWR);
		ended++;
	}
	ldr_mutex_unlock(&limits->lock);
	return ended;
}

void ldr_limits_end_waiting(struct ldr_limits *limits)
{
	struct ldr_connection *connection;

	ldr_mutex_lock(&limits->lock);
	LIST_FOREACH(connection, &limits->connections, link)
	if (doing_of(connection) == DOING_WAITING)
		shutdown(connection->fd, SHUT_RD);
	ldr_mutex_unlock(&limits->lock);
}

size_t ldr_limits_count(struct ldr_limits *limits)
{
	size_t count;

	ldr_mutex_lock(&limits->lock);
	count = limits->count;
	ldr_mutex_unlock(&limits->lock);
	return count;
}
