/*
 * The transport: HTTP by libcurl's multi interface on one I/O thread. It knows URLs, headers and
 * bytes; what they mean is the business of fetch (ranges of packs) and store (publishing).
 *
 * A folder store is read through the same door: its base URL is file://. A missing file is reported as
 * status 404 and a range behind the file's end as 416, as a web server would; a folder, a failing disk and
 * a missing permission have their own status and name the path. (libcurl's own file:// reports a folder
 * and a failed read as an empty success, so the bytes are read by pread, on the same thread.)
 *
 * Every wait has a deadline: connecting, the header, a stalled or dripping body. Requests carry
 * "Accept-Encoding: identity". Redirects of GET and HEAD are followed at most 5 times, only to http and
 * https, never from https to http; the token goes to the host that the request names and no other. A
 * redirected PUT is answered with its 3xx.
 *
 * Threads: any thread may submit, wait and cancel. The callbacks of a request run on the I/O thread,
 * one at a time, and must not block; `done` is the last of them and comes exactly once. No lock is held
 * while a callback runs. A callback may submit, cancel and resume; it must not perform or free.
 */
#ifndef LDR_CLIENT_TRANSPORT_H
#define LDR_CLIENT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct ldr_transport;

/* Zero means the default in brackets; strings are copied. */
struct ldr_transport_options {
	const char *ca_file;   /* PEM bundle (the system's) */
	const char *token;     /* sent as "Authorization: Bearer" (none) */
	const char *token_url; /* the token goes to this URL\'s host only (each request\'s own) */
	unsigned connections_per_host; /* (8) */
	uint64_t connect_timeout_ms;   /* (10,000) */
	/* A header not complete, or under 1 KiB of body moved, in such a time ends a request (20,000). */
	uint64_t stall_timeout_ms;
	uint64_t limit_rate_bytes; /* body bytes a second over all HTTP requests (no limit) */
};

enum ldr_method {
	LDR_GET,
	LDR_HEAD,
	LDR_PUT,
};

/* What a body_part answers. */
enum ldr_flow {
	LDR_FLOW_STOP, /* end the request with LDR_ECANCELLED */
	LDR_FLOW_GO,   /* the bytes are taken */
	LDR_FLOW_HOLD, /* none is taken: they come again (perhaps with more behind them) after a resume */
};

/* What is known when the header has come. */
struct ldr_response {
	int status;     /* HTTP status; 200, 206, 404 or 416 for file:// */
	bool has_range; /* a valid Content-Range: bytes first-last/total */
	uint64_t range_first;
	uint64_t range_last;
	uint64_t range_total;    /* UINT64_MAX when "*" */
	uint64_t content_length; /* UINT64_MAX when not said */
	uint64_t retry_after_ms; /* 0 when not said */
	char etag[128];          /* with its quotes, "" when none */
	char url[512];           /* the effective URL, cut, for messages */
};

/* How a request goes. Borrows the strings and the body until done. */
struct ldr_request {
	enum ldr_method method;
	const char *url;
	bool has_range;
	uint64_t range_first;
	uint64_t range_last;       /* inclusive, as in HTTP */
	const char *if_match;      /* an ETag with its quotes, or "*", or NULL */
	const char *if_none_match; /* the same */
	/* PUT: from memory, or body_length bytes of a descriptor from body_offset on. */
	const void *body;
	int body_fd; /* used when body is NULL */
	uint64_t body_offset;
	uint64_t body_length;

	void *context;
	/* All may be NULL but done. head: the header has come; false ends the request with LDR_ECANCELLED.
	 * body_part: more bytes. Neither is called for answers of redirects that are followed. */
	bool (*head)(void *context, const struct ldr_response *response);
	enum ldr_flow (*body_part)(void *context, const void *bytes, size_t length);
	/* status: LDR_OK when a whole HTTP answer came, whatever its status; else LDR_ENET,
	 * LDR_ETIMEDOUT, LDR_ECANCELLED, LDR_EDENIED (a certificate refused, a file not readable),
	 * LDR_ENOTREG, LDR_EIO (file://), LDR_ECHANGED (a PUT's descriptor ended early), LDR_ENOMEM, with a
	 * text that names URL and host. The response has status 0 if no header came. */
	void (*done)(void *context, enum ldr_status status, const struct ldr_response *response,
		     const struct ldr_error *error);
};

LDR_API enum ldr_status ldr_transport_new(const struct ldr_transport_options *options,
					  struct ldr_transport **out_transport,
					  struct ldr_error *err);
/* Cancels what runs, waits for the callbacks, ends the thread. NULL is allowed. */
LDR_API void ldr_transport_free(struct ldr_transport *transport);

/* Starts the request; the struct is copied. LDR_EINVAL (not an http, https or file URL, or one with a
 * user's name in it; PUT to a file), LDR_ENOMEM: then done does not come. out_id may be NULL; it is
 * set before any callback can come. */
LDR_API enum ldr_status ldr_transport_submit(struct ldr_transport *transport,
					     const struct ldr_request *request, uint64_t *out_id,
					     struct ldr_error *err);
/* Asks the request to end soon with LDR_ECANCELLED; unknown and ended ids are ignored. */
LDR_API void ldr_transport_cancel(struct ldr_transport *transport, uint64_t id);
/* Lets a request go on whose body_part answered LDR_FLOW_HOLD; it may come before that answer. */
LDR_API void ldr_transport_resume(struct ldr_transport *transport, uint64_t id);

/* A whole small answer, waited for. Body at most max_bytes (LDR_ELIMIT). Owns: free() out_body. A
 * status of 400 or more is returned as LDR_OK with its body: the caller knows what it means, or asks
 * ldr_response_status. */
struct ldr_exchange {
	struct ldr_response response;
	uint8_t *body; /* owns; a NUL is put behind it */
	size_t body_length;
};
LDR_API enum ldr_status ldr_transport_perform(struct ldr_transport *transport,
					      const struct ldr_request *request, size_t max_bytes,
					      struct ldr_exchange *out, struct ldr_error *err);
LDR_API void ldr_exchange_dispose(struct ldr_exchange *exchange);

/* LDR_OK for 2xx and 304; else raises the status that the answer means, with URL, status and (at most
 * 200 printable characters of) the body's text: 401 and 403 LDR_EDENIED, 404 and 410 LDR_ENOTFOUND, 409
 * and 412 LDR_ECONFLICT, 422 LDR_ECORRUPT, 507 and 413 LDR_ENOSPACE, all others LDR_ENET. */
LDR_API enum ldr_status ldr_response_status(const struct ldr_response *response, const void *body,
					    size_t body_length, struct ldr_error *err);

struct ldr_transport_stat {
	uint64_t requests;
	uint64_t received_bytes; /* bodies */
	uint64_t sent_bytes;     /* bodies */
	uint64_t connections;    /* opened */
};
LDR_API void ldr_transport_stat(struct ldr_transport *transport, struct ldr_transport_stat *out);

/* "http://host:port/prefix" and "packs/..." joined by one slash; and a folder's absolute path as a file://
 * URL with its special characters escaped. Owns: free(). NULL: out of memory. */
LDR_API char *ldr_url_join(const char *base, const char *path);
LDR_API char *ldr_url_of_folder(const char *absolute_path);

#endif
