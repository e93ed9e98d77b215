/*
 * Deadlines of connections. The HTTP library's own timeout is for silence only: a peer that drips a byte
 * a second survives it. Here every connection has one deadline for what it is doing:
 *
 *   waiting    from the accept, or the end of the last answer, to the end of the next request's header
 *   receiving  a body of so many bytes is on its way here: grace, and bytes at the slowest rate
 *   sending    the same for an answer
 *   working    the server itself is busy with the request: none
 *
 * Past it, the socket is shut down, which the library notices as an end of the connection. Likewise a
 * connection whose peer has gone while we wait for its bytes: the library misses an end that comes together
 * with data (edge-triggered epoll), and would hold the connection until its silence is over.
 *
 * Invariants
 *  1. A socket is shut down only between enter and leave, both under the lock, so never when its number
 *     may already belong to another connection.
 *  2. enter and leave come from the library's callbacks; the others from the thread that
 *     serves the connection.
 *
 * Locks: one mutex (LDR_RANK_SERVER) over the list; deadlines are atomic words, read by the sweep.
 */
#ifndef LDR_SERVER_LIMITS_H
#define LDR_SERVER_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"

struct ldr_limits;
struct ldr_connection;

/* Zero means the default in brackets. */
struct ldr_limits_options {
	const struct ldr_clock *clock; /* (the system's) */
	uint64_t waiting_ms;           /* (60,000) */
	uint64_t grace_ms;             /* (60,000) */
	uint64_t slowest_bytes;        /* a second, on average over a body (8 KiB) */
};

enum ldr_status ldr_limits_new(const struct ldr_limits_options *options,
			       struct ldr_limits **out_limits, struct ldr_error *err);
/* All connections must have left. NULL is allowed. */
void ldr_limits_free(struct ldr_limits *limits);

/* NULL: out of memory. */
struct ldr_connection *ldr_limits_enter(struct ldr_limits *limits, int fd);
void ldr_limits_leave(struct ldr_limits *limits, struct ldr_connection *connection);

void ldr_connection_waiting(struct ldr_limits *limits, struct ldr_connection *connection);
void ldr_connection_receiving(struct ldr_limits *limits, struct ldr_connection *connection,
			      uint64_t bytes);
void ldr_connection_sending(struct ldr_limits *limits, struct ldr_connection *connection,
			    uint64_t bytes);
void ldr_connection_working(struct ldr_connection *connection);

/* Shuts down what is past its deadline, and what was found without its peer twice in a row; gives how
 * many. */
unsigned ldr_limits_sweep(struct ldr_limits *limits);
/* For a server that ends: the connections that only wait for a request get the end of their input. What
 * has already arrived is still read and answered. */
void ldr_limits_end_waiting(struct ldr_limits *limits);
/* Connections between enter and leave. */
size_t ldr_limits_count(struct ldr_limits *limits);

#endif
