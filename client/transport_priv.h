/*
 * What the rooms of the transport share: the life of one request ("transfer").
 *
 *   incoming --(I/O thread)--> waiting in its lane --> active --> finished: done called, freed
 *
 * Invariants
 *  1. A transfer is on the transport's live list from submit until just before `done`; so cancel and
 *     resume, which look ids up there, never see one that is gone.
 *  2. All else of a transfer belongs to the I/O thread once it is submitted, but for the two atomics.
 *  3. A lane (one scheme, host and port) has at most connections_per_host active transfers; the others
 *     wait here and not inside libcurl, so that waiting costs no deadline.
 *
 * Locks: LDR_RANK_TRANSPORT for live, incoming, next_id and stopping.
 */
#ifndef LDR_CLIENT_TRANSPORT_PRIV_H
#define LDR_CLIENT_TRANSPORT_PRIV_H

#include <curl/curl.h>
#include <stdatomic.h>

#include "client/transport.h"
#include "common/lock.h"

#define LDR_ORIGIN_BYTES 320
#define LDR_SCRATCH_BYTES (64u * 1024)

struct transfer;

/* The state of one origin; later issues put priorities and adaptive parallelism here. */
struct lane {
	struct lane *next;
	unsigned active;
	struct transfer *waiting_first;
	struct transfer *waiting_last;
	char origin[LDR_ORIGIN_BYTES]; /* "http://host:port" */
};

/* Received bytes that may be handed on now; may go below zero by one piece. */
struct bucket {
	uint64_t rate; /* bytes a second, 0: no limit */
	int64_t tokens;
	uint64_t filled_ns;
};

struct ldr_transport {
	CURLM *multi;
	struct ldr_transport_options options; /* with the defaults put in */
	char *ca_file;                        /* owns */
	char *authorization;                  /* owns the header line, or NULL */
	char token_origin[LDR_ORIGIN_BYTES];  /* the only one that gets it, or "": the named one */
	pthread_t thread;

	struct ldr_mutex lock;
	struct transfer *live;
	struct transfer *incoming_first;
	struct transfer *incoming_last;
	uint64_t next_id;
	bool stopping;

	/* The I/O thread's own. */
	struct transfer *active;
	struct lane *lanes;
	CURL **idle; /* easy handles to use again; owns; room for idle_capacity */
	size_t idle_count;
	size_t idle_capacity;
	struct bucket bucket;
	uint8_t *scratch; /* LDR_SCRATCH_BYTES for files */

	_Atomic uint64_t requests;
	_Atomic uint64_t received_bytes;
	_Atomic uint64_t sent_bytes;
	_Atomic uint64_t connections;
};

struct transfer {
	struct ldr_transport *transport;
	struct transfer *live_next;
	struct transfer *live_previous;
	struct transfer *next; /* incoming, a lane's waiting, or active */
	struct ldr_request request;
	uint64_t id;
	atomic_bool cancelled;
	atomic_bool resumed;

	struct lane *lane;
	char origin[LDR_ORIGIN_BYTES]; /* of the URL that the caller named */
	bool is_file;
	bool held;     /* body_part answered HOLD */
	bool finished; /* with this status; to be taken off the active list */
	enum ldr_status end_status;
	bool head_given; /* the head callback has been called */
	struct ldr_response response;
	struct ldr_error error; /* goes with end_status */

	/* HTTP */
	CURL *easy; /* from the pool while active */
	struct curl_slist *headers;
	char *redirect; /* owns the URL that is asked after a redirect */
	unsigned redirects;
	bool following; /* this answer is a redirect that will be followed */
	bool throttled; /* waits for the bucket */
	bool connected; /* the request has been sent, deadlines run */
	uint64_t progress_ns;
	size_t progress_bytes; /* since progress_ns */
	size_t header_bytes;
	uint64_t body_sent;
	char curl_text[CURL_ERROR_SIZE];

	/* file:// */
	int fd;
	uint64_t offset;
	uint64_t end;
	char *file_path; /* owns */
};

/* transport.c: for the parts below. Ends the transfer at the end of this turn; only the first end of a
 * transfer counts. A status other than LDR_OK has its text in transfer->error. */
void ldr_transfer_end(struct transfer *transfer, enum ldr_status status);
uint64_t ldr_transport_now_ns(void);

/* transport_http.c */
enum ldr_status ldr_http_start(struct transfer *transfer);
void ldr_http_collect(struct ldr_transport *transport);
/* The time until which nothing needs to be done if no byte comes. Ends those that stall. */
uint64_t ldr_http_deadlines(struct ldr_transport *transport, uint64_t now_ns);
/* Takes the easy handle back. */
void ldr_http_release(struct transfer *transfer);
void ldr_http_continue(struct transfer *transfer);

/* transport_rate.c */
void ldr_bucket_fill(struct bucket *bucket, uint64_t now_ns);
bool ldr_bucket_take(struct bucket *bucket, size_t length);
/* Nanoseconds until something may be taken; 0: now. */
uint64_t ldr_bucket_wait_ns(const struct bucket *bucket);

/* transport_file.c */
enum ldr_status ldr_file_start(struct transfer *transfer);
/* One step of at most a few pieces; ends the transfer when all is read. */
void ldr_file_step(struct transfer *transfer);
void ldr_file_release(struct transfer *transfer);

/* transport_url.c: scheme, host and port, or LDR_EINVAL saying why the URL is not one of ours. */
enum ldr_status ldr_url_origin(const char *url, char origin[LDR_ORIGIN_BYTES],
			       struct ldr_error *err);

#endif
