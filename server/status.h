/*
 * What the server says about itself: one line a request, and notes, on standard error.
 *
 *   text   2026-01-31T12:00:00Z 127.0.0.1 GET /channels/live 200 1234 0.2ms
 *          ... 412 57 1.0ms "channel live: ..."
 *   json   {"time":"...","address":"...","method":"GET","url":"/channels/live","status":200,"bytes":1234,
 *          "ms":0.2}
 *
 * A line is one write, so that lines of several threads do not mix. What came from outside is escaped.
 *
 * Threads: immutable after it is set up; any thread may log.
 */
#ifndef LDR_SERVER_STATUS_H
#define LDR_SERVER_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"

struct ldr_log {
	const struct ldr_clock *clock;
	int fd;
	bool json;
	bool quiet; /* no line for requests; notes are written always */
};

/* One request that has ended. Strings are borrowed; url is as it came. */
struct ldr_log_request {
	const char *address;
	const char *method;
	const char *url;
	const char *reason; /* NULL: none */
	unsigned status;    /* 0: the connection ended before an answer */
	uint64_t bytes;     /* of the answer's body, as it was promised */
	uint64_t took_us;
	bool cut; /* the connection ended before the answer was complete */
};

void ldr_log_request(const struct ldr_log *log, const struct ldr_log_request *request);
void ldr_log_note(const struct ldr_log *log, const char *fmt, ...) LDR_PRINTF(2, 3);

#endif
