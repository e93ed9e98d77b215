/*
 * One request: framing, route, method; refusals; the log line. See http.h and request_priv.h.
 */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/request_priv.h"

static enum request_verb verb_of(const char *method)
{
	if (strcmp(method, MHD_HTTP_METHOD_GET) == 0)
		return VERB_GET;
	if (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
		return VERB_HEAD;
	if (strcmp(method, MHD_HTTP_METHOD_PUT) == 0)
		return VERB_PUT;
	return VERB_OTHER;
}

struct request *request_new(struct ldr_server *http, struct MHD_Connection *mhd, const char *method,
			    const char *url)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *request = calloc(1, sizeof(*request));
	const struct ldr_clock *clock = http->options.log->clock;

	if (!request)
		return NULL;
	request->http = http;
	request->mhd = mhd;
	request->connection = info ? info->socket_context : NULL;
	request->began_ns = clock->now_ns(clock);
	request->verb = verb_of(method);
	snprintf(request->method, sizeof(request->method), "%s", method);
	snprintf(request->url, sizeof(request->url), "%s", url);
	return request;
}

/* ---- what the peer sent ---- */

const char *request_field(const struct request *request, const char *name)
{
	return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

struct framing {
	unsigned hosts;
	unsigned lengths;
	unsigned codings;
	unsigned ranges;
	bool has_body;
};

static enum MHD_Result count_field(void *context, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	struct framing *framing = context;

	(void)kind;
	if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
		framing->hosts++;
	if (strcasecmp(name, MHD_HTTP_HEADER_RANGE) == 0)
		framing->ranges++;
	if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
		framing->codings++;
	if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
		framing->lengths++;
		if (!value || strspn(value, "0") != strlen(value) || !*value)
			framing->has_body = true;
	}
	return MHD_YES;
}

/* Why the request cannot be understood in one way only; NULL when it can. */
static const char *framing_fault(const struct framing *framing, const char *version, bool reads)
{
	if (framing->codings && framing->lengths)
		return "Content-Length together with Transfer-Encoding";
	if (framing->codings)
		return "Transfer-Encoding is not accepted, send a Content-Length";
	if (framing->lengths > 1)
		return "more than one Content-Length";
	if (framing->hosts != 1 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
		return framing->hosts ? "more than one Host" : "no Host";
	if (reads && framing->has_body)
		return "a body with GET or HEAD";
	return NULL;
}

/* ---- answers ---- */

bool request_header(struct MHD_Response *response, const char *name, const char *value)
{
	return MHD_add_response_header(response, name, value) == MHD_YES;
}

enum MHD_Result request_answer(struct request *request, unsigned status,
			       struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	if (request->must_close || atomic_load(&request->http->draining))
		request_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	result = MHD_queue_response(request->mhd, status, response);
	if (result == MHD_YES) {
		request->status = status;
		ldr_connection_sending(request->http->limits, request->connection,
				       request->answer_bytes);
	}
	MHD_destroy_response(response);
	return result;
}

struct MHD_Response *request_text(const char *text)
{
	char line[LDR_ERROR_TEXT_BYTES + 1];
	int length = snprintf(line, sizeof(line), "%s\n", text);
	struct MHD_Response *response = MHD_create_response_from_buffer((size_t)length, line,
									MHD_RESPMEM_MUST_COPY);

	if (response) {
		request_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
		request_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	}
	return response;
}

/* What some statuses say besides their text. */
static void add_fields(struct MHD_Response *response, unsigned status)
{
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		request_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD, PUT");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
		request_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	if (status == MHD_HTTP_UNAUTHORIZED)
		request_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
			       "Bearer realm=\"larder\"");
}

/* Paths below the store are shown from the store on; the log keeps them whole. */
static void hide_store(const char *store, const char *text, char out[LDR_ERROR_TEXT_BYTES])
{
	size_t skipped = store ? strlen(store) : 0;
	size_t n = 0;

	while (*text && n + 1 < LDR_ERROR_TEXT_BYTES) {
		bool begins = n == 0 || out[n - 1] == ' ' || out[n - 1] == '"';

		if (skipped && begins && strncmp(text, store, skipped) == 0 &&
		    text[skipped] == '/') {
			text += skipped;
			text += strspn(text, "/");
			continue;
		}
		out[n++] = *text++;
	}
	out[n] = '\0';
}

enum MHD_Result request_reply(struct request *request, const struct ldr_reply *reply)
{
	char text[LDR_ERROR_TEXT_BYTES];
	struct MHD_Response *response;

	hide_store(request->http->options.store_path, reply->text, text);
	response = request_text(text);
	snprintf(request->reason, sizeof(request->reason), "%s", reply->text);
	if (response)
		add_fields(response, reply->status);
	if (response && reply->etag[0])
		request_header(response, MHD_HTTP_HEADER_ETAG, reply->etag);
	request->answer_bytes = strlen(text) + 1;
	return request_answer(request, reply->status, response);
}

enum MHD_Result request_refuse(struct request *request, unsigned status, const char *fmt, ...)
{
	struct ldr_reply reply = {.status = status};
	va_list arguments;

	va_start(arguments, fmt);
	vsnprintf(reply.text, sizeof(reply.text), fmt, arguments);
	va_end(arguments);
	return request_reply(request, &reply);
}

/* ---- its life ---- */

void request_route_reply(const struct request *request, enum ldr_route route,
			 struct ldr_reply *reply)
{
	char quoted[LDR_QUOTE_BYTES];
	const char *why = "not the name of anything";

	reply->status = MHD_HTTP_NOT_FOUND;
	if (route == LDR_ROUTE_TOO_LONG) {
		reply->status = MHD_HTTP_URI_TOO_LONG;
		why = "too long for a name";
	} else if (route == LDR_ROUTE_MALFORMED) {
		reply->status = MHD_HTTP_BAD_REQUEST;
		why = "not a path";
	}
	ldr_path_quote(request->url, strlen(request->url), quoted);
	snprintf(reply->text, sizeof(reply->text), "%s: %s", quoted, why);
}

enum MHD_Result request_begin(struct request *request, const char *url, const char *version)
{
	bool reads = request->verb == VERB_GET || request->verb == VERB_HEAD;
	struct framing framing = {0};
	const char *fault;

	ldr_connection_working(request->connection);
	MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, count_field, &framing);
	request->one_range = framing.ranges == 1;
	fault = framing_fault(&framing, version, reads);
	if (!fault)
		return request->verb == VERB_PUT ? request_put_begin(request, url) : MHD_YES;
	request->must_close = true;
	return request_refuse(request, MHD_HTTP_BAD_REQUEST, "%s", fault);
}

static enum MHD_Result read_or_refuse(struct request *request, const char *url)
{
	enum ldr_route route = ldr_route_parse(url, strlen(url), &request->name);
	struct ldr_reply reply = {0};

	if (route == LDR_ROUTE_OBJECT)
		return request_read(request, request->verb == VERB_HEAD);
	request_route_reply(request, route, &reply);
	return request_reply(request, &reply);
}

enum MHD_Result request_ready(struct request *request, const char *url)
{
	switch (request->verb) {
	case VERB_GET:
	case VERB_HEAD:
		return read_or_refuse(request, url);
	case VERB_PUT:
		return request_put_ready(request);
	default:
		return request_refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED,
				      "%s: not a method that is served", request->method);
	}
}

static void address_text(const struct request *request, char text[INET6_ADDRSTRLEN])
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;

	snprintf(text, INET6_ADDRSTRLEN, "-");
	if (address && address->sa_family == AF_INET) {
		struct sockaddr_in four;

		memcpy(&four, address, sizeof(four));
		inet_ntop(AF_INET, &four.sin_addr, text, INET6_ADDRSTRLEN);
	} else if (address && address->sa_family == AF_INET6) {
		struct sockaddr_in6 six;

		memcpy(&six, address, sizeof(six));
		inet_ntop(AF_INET6, &six.sin6_addr, text, INET6_ADDRSTRLEN);
	}
}

void request_end(struct request *request, bool cut)
{
	const struct ldr_log *log = request->http->options.log;
	char address[INET6_ADDRSTRLEN];
	struct ldr_log_request entry = {
		.address = address,
		.method = request->method,
		.url = request->url,
		.reason = request->reason[0] ? request->reason : NULL,
		.status = request->status,
		.bytes = request->answer_bytes,
		.took_us = (log->clock->now_ns(log->clock) - request->began_ns) / 1000,
		.cut = cut,
	};

	address_text(request, address);
	ldr_log_request(log, &entry);
	ldr_connection_waiting(request->http->limits, request->connection);
	ldr_upload_free(request->upload);
	free(request);
}
