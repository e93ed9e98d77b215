/*
 * What the two halves of the lying server share: connections (lying_server.c) and answers (lying_answer.c).
 */
#ifndef LDR_TESTS_LYING_SERVER_PRIV_H
#define LDR_TESTS_LYING_SERVER_PRIV_H

#include <pthread.h>

#include "tests/faults/lying_server.h"

#define FILES_MAX 64
#define PLANS_MAX 32
#define SEEN_MAX 65536
#define CONNECTIONS_MAX 256
#define REQUEST_MAX_BYTES 16384

struct served_file {
	char path[256];
	const uint8_t *bytes;
	size_t length;
	uint8_t *owned; /* an upload */
};

struct live_plan {
	struct lie_plan plan;
	unsigned met;
};

struct lying_server {
	int listener;
	int stop_event;
	char url[64];
	pthread_t acceptor;
	pthread_mutex_t lock;
	pthread_cond_t gathered;
	struct served_file files[FILES_MAX];
	size_t file_count;
	struct live_plan plans[PLANS_MAX];
	size_t plan_count;
	struct seen_request *seen;
	size_t seen_count;
	pthread_t threads[CONNECTIONS_MAX];
	unsigned thread_count;
	unsigned open;
	unsigned open_max;
	unsigned gather;
	unsigned gathering;
	bool stopping;
};

struct connection {
	struct lying_server *server;
	int fd;
	char request[REQUEST_MAX_BYTES + 1]; /* header, NUL behind it */
	size_t used;                         /* bytes in request, some perhaps behind the header */
	size_t header_bytes;
	struct seen_request seen;
	uint64_t upload_bytes; /* Content-Length */
	bool expects;
};

/* Answers the request that was read; false: the connection is over. */
bool lying_answer(struct connection *connection, const struct lie_plan *plan);
bool lying_send(struct connection *connection, const void *bytes, size_t length);
/* Reads the upload's body and keeps it. */
bool lying_receive(struct connection *connection);
/* Waits until the client goes or the server stops. */
void lying_stall(struct connection *connection);
bool lying_find(struct lying_server *server, const char *path, struct served_file *out);

#endif
