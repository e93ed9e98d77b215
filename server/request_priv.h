/*
 * One request, between the library's callbacks in http.c and the answers in request*.c.
 *
 *   begin   the header has come: framing, method. An answer here ends the connection, because the library
 *           then reads no further; so only what must end it is answered here
 *   body    some of a PUT's body
 *   ready   the whole request has come: the answer, or the work that leads to it and then ready again
 *   end     the answer is sent, or the connection is gone: the log line
 */
#ifndef LDR_SERVER_REQUEST_PRIV_H
#define LDR_SERVER_REQUEST_PRIV_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/lock.h"
#include "common/path.h"
#include "packs/layout.h"
#include "server/http.h"
#include "server/routes.h"

#define REQUEST_URL_BYTES 256
#define REQUEST_METHOD_BYTES 16

struct ldr_server {
	struct ldr_server_options options;
	struct ldr_limits *limits;
	struct MHD_Daemon *daemon;
	int listener; /* owns; -1 once it is closed */
	atomic_bool draining;
	char url[300];

	/* The sweeper's. */
	struct ldr_mutex lock;
	struct ldr_condition changed;
	bool ending;
	bool sweeping;
	pthread_t sweeper;
};

/* A PUT on its way. */
enum put_state {
	PUT_NONE,
	PUT_RECEIVING,  /* the body goes into the upload */
	PUT_SWALLOWING, /* the body is read and forgotten; the reply is ready */
	PUT_WORKING,    /* a worker has it, the connection is suspended */
	PUT_DONE,       /* the reply is ready, the connection resumed */
};

enum request_verb {
	VERB_GET,
	VERB_HEAD,
	VERB_PUT,
	VERB_OTHER,
};

struct request {
	struct ldr_server *http;
	struct MHD_Connection *mhd;
	struct ldr_connection *connection;
	enum request_verb verb;
	struct ldr_object_name name;
	uint64_t began_ns;
	unsigned status; /* of the answer, 0 before there is one */
	uint64_t answer_bytes;
	bool must_close;                   /* the rest of the connection cannot be understood */
	bool one_range;                    /* there is exactly one Range field */
	char method[REQUEST_METHOD_BYTES]; /* cut, for the log */
	char url[REQUEST_URL_BYTES];
	char reason[LDR_ERROR_TEXT_BYTES]; /* "" when all is well */

	enum put_state put; /* PUT_DONE is written by the worker before it resumes the connection */
	struct ldr_upload *upload;
	struct ldr_reply reply;
	struct ldr_job job;
};

/* NULL: out of memory. */
struct request *request_new(struct ldr_server *http, struct MHD_Connection *mhd, const char *method,
			    const char *url);
enum MHD_Result request_begin(struct request *request, const char *url, const char *version);
enum MHD_Result request_ready(struct request *request, const char *url);
/* Logs and frees; cut: the answer is not complete. */
void request_end(struct request *request, bool cut);

/* ---- answers; each queues exactly one ---- */

/* Takes the response (NULL: out of memory). */
enum MHD_Result request_answer(struct request *request, unsigned status,
			       struct MHD_Response *response);
/* One line of text/plain with no-store; the text becomes the log's reason too. */
enum MHD_Result request_refuse(struct request *request, unsigned status, const char *fmt, ...)
	LDR_PRINTF(3, 4);
/* The response of such a line; NULL: out of memory. */
struct MHD_Response *request_text(const char *text);
/* Adds a header; false: out of memory. */
bool request_header(struct MHD_Response *response, const char *name, const char *value);
/* A request header, NULL when there is none. */
const char *request_field(const struct request *request, const char *name);

/* A refusal for a URL that names nothing. */
void request_route_reply(const struct request *request, enum ldr_route route,
			 struct ldr_reply *reply);
enum MHD_Result request_reply(struct request *request, const struct ldr_reply *reply);

/* ---- PUT ---- */

enum MHD_Result request_put_begin(struct request *request, const char *url);
void request_put_body(struct request *request, const void *bytes, size_t length);
enum MHD_Result request_put_ready(struct request *request);

/* ---- GET and HEAD ---- */

enum MHD_Result request_read(struct request *request, bool head);

#endif
