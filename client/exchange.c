/*
 * Whole small exchanges over the transport, and what an answer's status means; see transport.h.
 *
 * Locks: a leaf lock in each waiting call's own state, so that any number of threads may wait.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/transport_priv.h"
#include "common/bytes.h"

#define EXCERPT_CHARS 200

struct waiting {
	struct ldr_mutex lock;
	struct ldr_condition ended;
	struct ldr_buffer body; /* the I/O thread's until is_done */
	struct ldr_exchange *out;
	struct ldr_error *err;
	enum ldr_status status;
	bool too_long;
	bool is_done;
};

static bool waiting_head(void *context, const struct ldr_response *response)
{
	struct waiting *waiting = context;

	/* A length that is said to be too long is refused before it is sent; one that lies is bounded by
	 * the buffer. HEAD has a length and no body, and so has no body_part. */
	waiting->too_long = response->content_length != UINT64_MAX &&
			    response->content_length > waiting->body.max_bytes;
	return !waiting->too_long;
}

static enum ldr_flow waiting_body(void *context, const void *bytes, size_t length)
{
	struct waiting *waiting = context;

	if (length > waiting->body.max_bytes - waiting->body.length) {
		waiting->too_long = true;
		return LDR_FLOW_STOP;
	}
	ldr_buffer_put(&waiting->body, bytes, length);
	return waiting->body.failed ? LDR_FLOW_STOP : LDR_FLOW_GO;
}

static void waiting_done(void *context, enum ldr_status status, const struct ldr_response *response,
			 const struct ldr_error *error)
{
	struct waiting *waiting = context;

	waiting->out->response = *response;
	if (status && waiting->err)
		*waiting->err = *error;
	ldr_mutex_lock(&waiting->lock);
	waiting->status = status;
	waiting->is_done = true;
	ldr_condition_signal(&waiting->ended);
	ldr_mutex_unlock(&waiting->lock);
}

static enum ldr_status wait_for(struct ldr_transport *transport, const struct ldr_request *request,
				struct waiting *waiting, struct ldr_error *err)
{
	struct ldr_request asked = *request;
	enum ldr_status status;

	asked.context = waiting;
	asked.head = request->method == LDR_HEAD ? NULL : waiting_head;
	asked.body_part = waiting_body;
	asked.done = waiting_done;
	status = ldr_transport_submit(transport, &asked, NULL, err);
	if (status)
		return status;
	ldr_mutex_lock(&waiting->lock);
	while (!waiting->is_done)
		ldr_condition_wait(&waiting->ended, &waiting->lock);
	ldr_mutex_unlock(&waiting->lock);
	return waiting->status;
}

static enum ldr_status judge(struct waiting *waiting, enum ldr_status status, const char *url,
			     size_t max_bytes, struct ldr_error *err)
{
	if (waiting->too_long)
		return ldr_fail(err, LDR_ELIMIT,
				"%s: answer of status %d is over the limit of %zu bytes", url,
				waiting->out->response.status, max_bytes);
	if (status == LDR_OK)
		ldr_buffer_u8(&waiting->body, 0);
	if (waiting->body.failed)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", url);
	return status;
}

enum ldr_status ldr_transport_perform(struct ldr_transport *transport,
				      const struct ldr_request *request, size_t max_bytes,
				      struct ldr_exchange *out, struct ldr_error *err)
{
	struct ldr_exchange exchange = {0};
	struct waiting waiting = {.out = &exchange, .err = err};
	enum ldr_status status;

	assert(!pthread_equal(pthread_self(), transport->thread));
	ldr_mutex_init(&waiting.lock, LDR_RANK_LEAF);
	ldr_condition_init(&waiting.ended);
	ldr_buffer_init(&waiting.body, max_bytes);
	status = wait_for(transport, request, &waiting, err);
	waiting.body.max_bytes = max_bytes < SIZE_MAX ? max_bytes + 1 : max_bytes;
	status = judge(&waiting, status, request->url, max_bytes, err);
	if (!status) {
		*out = exchange;
		out->body_length = waiting.body.length - 1;
		out->body = ldr_buffer_take(&waiting.body);
	}
	ldr_buffer_dispose(&waiting.body);
	ldr_condition_dispose(&waiting.ended);
	ldr_mutex_dispose(&waiting.lock);
	return status;
}

void ldr_exchange_dispose(struct ldr_exchange *exchange)
{
	free(exchange->body);
	*exchange = (struct ldr_exchange){0};
}

static enum ldr_status meaning(int status)
{
	switch (status) {
	case 401:
	case 403:
		return LDR_EDENIED;
	case 404:
	case 410:
		return LDR_ENOTFOUND;
	case 409:
	case 412:
		return LDR_ECONFLICT;
	case 413:
	case 507:
		return LDR_ENOSPACE;
	case 422:
		return LDR_ECORRUPT;
	case 405: /* a static web server takes no publications */
	case 501:
		return LDR_EUNSUPPORTED;
	default:
		return LDR_ENET;
	}
}

/* The body's beginning on one line, without what a terminal could take amiss; nothing of a page for
 * browsers. */
static void excerpt(const void *body, size_t length, char out[EXCERPT_CHARS + 1])
{
	const char *bytes = body;
	bool is_page = length && bytes[0] == '<';
	size_t to = 0;

	for (size_t i = 0; i < length && !is_page && to < EXCERPT_CHARS; i++)
		if (bytes[i] >= ' ' && bytes[i] < 0x7f)
			out[to++] = bytes[i];
		else if (to && out[to - 1] != ' ')
			out[to++] = ' ';
	while (to && out[to - 1] == ' ')
		to--;
	out[to] = '\0';
}

enum ldr_status ldr_response_status(const struct ldr_response *response, const void *body,
				    size_t body_length, struct ldr_error *err)
{
	char text[EXCERPT_CHARS + 1];

	if ((response->status >= 200 && response->status < 300) || response->status == 304)
		return LDR_OK;
	excerpt(body, body ? body_length : 0, text);
	return ldr_fail(err, meaning(response->status), "%s: status %d%s%s", response->url,
			response->status, text[0] ? ": " : "", text);
}
