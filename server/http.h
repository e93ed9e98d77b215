/*
 * The HTTP server: libmicrohttpd, epoll, a pool of threads. It turns requests into answers by way of
 * routes, objects and upload, and knows what the library leaves to its user.
 *
 * The life of a server: start (listen, threads), serve, drain (no new connection, requests under way are
 * finished, idle connections end), free.
 *
 * Invariants
 *  1. URLs reach us as they came: the library's unescaping is turned off.
 *  2. A request whose length can be understood in two ways is refused and its connection closed:
 *     Transfer-Encoding, more than one Content-Length, a body with GET or HEAD; and likewise an HTTP/1.1
 *     request without exactly one Host.
 *  3. Every answer that is an error is text/plain, one line that names the thing, and no-store.
 *  4. No handler waits: what takes long runs in the workers, with the connection suspended; all are
 *     resumed before the library is stopped.
 *  5. Signals are the main thread's: all must be blocked (but those of faults) when start is called.
 *
 * Threads: start, drain and free from one thread.
 */
#ifndef LDR_SERVER_HTTP_H
#define LDR_SERVER_HTTP_H

#include <stdint.h>

#include "server/access.h"
#include "server/limits.h"
#include "server/objects.h"
#include "server/status.h"
#include "server/upload.h"
#include "server/workers.h"

struct ldr_server;

/* All borrowed until free. Zero means the default in brackets. */
struct ldr_server_options {
	const char *host; /* a name or address; "" for all */
	const char *port; /* "0" for any free one */
	struct ldr_objects *objects;
	const struct ldr_log *log;
	const char *store_path;      /* left out of answers: a client learns no path of ours */
	struct ldr_access *access;   /* NULL: nobody may publish */
	struct ldr_desk *desk;       /* takes uploads; not used without access */
	struct ldr_workers *workers; /* run what takes long; ended by free */
	unsigned threads;            /* that serve connections (processors, at least 2) */
	unsigned max_connections;    /* (4,096, and less where descriptors are fewer) */
	struct ldr_limits_options limits;
};

/* LDR_ENET naming the address when it cannot be listened on; LDR_EUSAGE for one that is none. */
enum ldr_status ldr_server_start(const struct ldr_server_options *options,
				 struct ldr_server **out_http, struct ldr_error *err);
/* "http://127.0.0.1:8080", with the real port. Borrowed until free. */
const char *ldr_server_url(const struct ldr_server *http);
/* Stops accepting, lets requests under way end for at most deadline_ms; gives the number of connections
 * that were still there and have been cut. */
unsigned ldr_server_drain(struct ldr_server *http, uint64_t deadline_ms);
/* Cuts what is left. NULL is allowed. */
void ldr_server_free(struct ldr_server *http);

#endif
