/*
 * A small web server for tests that misbehaves by name. It serves bytes of memory with single ranges and
 * keep-alive, takes uploads, and tells each request a lie if a plan says so.
 *
 * It listens on 127.0.0.1, port chosen by the system; every connection has a thread. A lie that stalls
 * waits until the client goes or the server stops, so nothing here depends on time.
 *
 * Threads: all functions may be called from any thread; files are added before the first request. What is
 * served and the strings of a plan are borrowed until stop.
 */
#ifndef LDR_TESTS_LYING_SERVER_H
#define LDR_TESTS_LYING_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lie {
	LIE_NONE,
	LIE_STATUS, /* plan.status and plan.retry_after_s; an upload is refused before its body */
	LIE_WHOLE,  /* 200 and the whole file for a range */
	LIE_WHOLE_STATUS,   /* 200, but only the range's bytes */
	LIE_OTHER_RANGE,    /* 206 that says (and gives) one byte further on */
	LIE_NO_RANGE,       /* 206 without Content-Range */
	LIE_SHIFT,          /* the right header, the bytes from 4 further on */
	LIE_FLIP,           /* the right header, one bit of the body's last byte changed */
	LIE_SHORT,          /* half of the body, then the connection is closed */
	LIE_SHORT_CHUNKED,  /* half of the body, properly ended */
	LIE_RESET,          /* half of the body, then a reset */
	LIE_RESET_HEAD,     /* a reset instead of an answer */
	LIE_STALL_HEAD,     /* nothing */
	LIE_STALL_BODY,     /* half of the body, then nothing */
	LIE_LENGTH,         /* Content-Length is twice the body's */
	LIE_EMPTY,          /* 206 and Content-Length 0 */
	LIE_REDIRECT,       /* 302 to plan.location; NULL: to the same path again */
	LIE_GARBAGE,        /* not HTTP */
	LIE_ENDLESS_HEADER, /* header lines until the client goes */
};

struct lie_plan {
	enum lie lie;
	const char *path; /* only for this one; NULL: for all */
	unsigned after;   /* so many requests get the truth first */
	unsigned times;   /* then so many the lie; 0: all */
	int status;
	unsigned retry_after_s;
	const char *location;
};

struct seen_request {
	char method[8];
	char path[256];
	char range[64];
	char authorization[128];
	char accept_encoding[64];
	char if_match[64];
	char if_none_match[64];
	uint64_t body_bytes; /* of an upload, as far as it was read */
	uint64_t at_ms;      /* monotonic */
};

struct lying_server;

struct lying_server *lying_server_start(void); /* asserts on failure */
void lying_server_stop(struct lying_server *server);
void lying_server_add_file(struct lying_server *server, const char *path, const void *bytes,
			   size_t length);
/* Plans are looked at in the order of their coming; the first that applies is told. */
void lying_server_lie(struct lying_server *server, const struct lie_plan *plan);
/* "http://127.0.0.1:PORT"; borrowed until stop. */
const char *lying_server_url(const struct lying_server *server);
size_t lying_server_request_count(struct lying_server *server);
struct seen_request lying_server_request(struct lying_server *server, size_t i);
/* Connections that were open at once at most, and all that were ever opened. */
unsigned lying_server_connections_max(struct lying_server *server);
unsigned lying_server_connections(struct lying_server *server);
/* The requests of one path are not answered until so many are waiting at once (0: at once). */
void lying_server_gather(struct lying_server *server, unsigned count);
/* The last body uploaded to path; NULL if none. Borrowed until the next upload. */
const void *lying_server_upload(struct lying_server *server, const char *path, size_t *out_length);

#endif
