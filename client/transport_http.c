/*
 * One HTTP request by libcurl; see transport_priv.h.
 *
 * Invariants
 *  1. Only http and https are ever spoken; redirects are followed here and not by libcurl, so that each
 *     hop is judged: at most REDIRECTS_MAX, never from https to http, the token only to the first origin.
 *  2. Nothing of an answer whose redirect is followed reaches the caller, nor of 1xx answers.
 *  3. Deadlines: libcurl's for connecting; from the moment the request is sent, ours: the whole header
 *     within one stall time, and at least PROGRESS_BYTES of body (sent or received) within each.
 *
 * Threads: everything runs on the I/O thread.
 */
#include "client/transport_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bytes.h"

#define REDIRECTS_MAX 5
#define PROGRESS_BYTES 1024
#define HEADER_MAX_BYTES (64u * 1024)
#define RECEIVE_BUFFER_BYTES (64l * 1024)
#define UPLOAD_BUFFER_BYTES (256l * 1024)
/* How long a large upload waits for "100 Continue" before it sends its body anyway. */
#define EXPECT_TIMEOUT_MS 300l
#define RETRY_AFTER_MAX_S (24 * 3600)

static const char *url_of(const struct transfer *transfer)
{
	return transfer->redirect ? transfer->redirect : transfer->request.url;
}

static const char *host_of(const struct transfer *transfer)
{
	const char *scheme_end = strstr(transfer->origin, "://");

	return scheme_end ? scheme_end + 3 : transfer->origin;
}

static void progress(struct transfer *transfer)
{
	transfer->progress_ns = ldr_transport_now_ns();
	transfer->progress_bytes = 0;
}

static void progressed(struct transfer *transfer, size_t length)
{
	transfer->progress_bytes += length;
	if (transfer->progress_bytes >= PROGRESS_BYTES)
		progress(transfer);
}

/* ---- the header ---- */

static const char *header_of(struct transfer *transfer, const char *name)
{
	struct curl_header *header;

	if (curl_easy_header(transfer->easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return NULL;
	return header->value;
}

static bool parse_number(const char **text, uint64_t *out)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*out = strtoull(*text, &end, 10);
	*text = end;
	return errno == 0;
}

static bool skip_char(const char **text, char c)
{
	if (**text != c)
		return false;
	(*text)++;
	return true;
}

/* bytes first-last/total or bytes first-last/ * (RFC 9110, 14.4) */
static bool parse_content_range(const char *text, struct ldr_response *response)
{
	uint64_t first, last, total = UINT64_MAX;

	if (!text || strncasecmp(text, "bytes ", 6) != 0)
		return false;
	text += 6;
	if (!parse_number(&text, &first) || !skip_char(&text, '-') || !parse_number(&text, &last) ||
	    !skip_char(&text, '/'))
		return false;
	if (!skip_char(&text, '*') && !parse_number(&text, &total))
		return false;
	if (*text || last < first || last == UINT64_MAX || last >= total)
		return false;
	response->range_first = first;
	response->range_last = last;
	response->range_total = total;
	return true;
}

static void read_header(struct transfer *transfer)
{
	struct ldr_response *response = &transfer->response;
	const char *length = header_of(transfer, "Content-Length");
	const char *etag = header_of(transfer, "ETag");
	curl_off_t retry_after_s = 0;
	char *effective = NULL;

	response->has_range = parse_content_range(header_of(transfer, "Content-Range"), response);
	response->content_length = UINT64_MAX;
	if (length && (!parse_number(&length, &response->content_length) || *length))
		response->content_length = UINT64_MAX;
	response->etag[0] = '\0';
	if (etag && strlen(etag) < sizeof(response->etag))
		snprintf(response->etag, sizeof(response->etag), "%s", etag);
	/* Seconds or a date: libcurl reads both. */
	curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
	if (retry_after_s > RETRY_AFTER_MAX_S)
		retry_after_s = RETRY_AFTER_MAX_S;
	response->retry_after_ms = retry_after_s > 0 ? (uint64_t)retry_after_s * 1000 : 0;
	if (curl_easy_getinfo(transfer->easy, CURLINFO_EFFECTIVE_URL, &effective) == CURLE_OK &&
	    effective)
		snprintf(response->url, sizeof(response->url), "%s", effective);
}

static bool is_redirect(struct transfer *transfer, long status)
{
	if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
		return false;
	return transfer->request.method != LDR_PUT && header_of(transfer, "Location");
}

/* The blank line behind a header. False ends the transfer. */
static bool header_complete(struct transfer *transfer)
{
	const struct ldr_request *request = &transfer->request;
	long status = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || transfer->head_given || transfer->following)
		return true;
	transfer->response.status = (int)status;
	read_header(transfer);
	progress(transfer);
	if (is_redirect(transfer, status)) {
		transfer->following = true;
		return true;
	}
	transfer->head_given = true;
	if (!request->head || request->head(request->context, &transfer->response))
		return true;
	ldr_transfer_end(transfer,
			 ldr_fail(&transfer->error, LDR_ECANCELLED,
				  "%s: ended by the caller at its header", transfer->response.url));
	return false;
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
	struct transfer *transfer = context;
	size_t length = size * count;

	transfer->header_bytes += length;
	if (transfer->header_bytes > HEADER_MAX_BYTES) {
		ldr_transfer_end(transfer,
				 ldr_fail(&transfer->error, LDR_ENET,
					  "%s: host %s: header over the limit of %u bytes",
					  url_of(transfer), host_of(transfer), HEADER_MAX_BYTES));
		return 0;
	}
	if (length <= 2 && (line[0] == '\r' || line[0] == '\n') && !header_complete(transfer))
		return 0;
	return length;
}

/* ---- bodies ---- */

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
	struct transfer *transfer = context;
	const struct ldr_request *request = &transfer->request;
	size_t length = size * count;
	enum ldr_flow flow = LDR_FLOW_GO;

	if (transfer->finished)
		return 0;
	if (!ldr_bucket_take(&transfer->transport->bucket, length)) {
		transfer->throttled = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	if (!transfer->following && request->body_part)
		flow = request->body_part(request->context, bytes, length);
	if (flow == LDR_FLOW_HOLD) {
		/* The bytes come again and will be paid for then. */
		if (transfer->transport->bucket.rate)
			transfer->transport->bucket.tokens += (int64_t)length;
		transfer->held = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	atomic_fetch_add_explicit(&transfer->transport->received_bytes, length,
				  memory_order_relaxed);
	progressed(transfer, length);
	if (flow == LDR_FLOW_GO)
		return length;
	ldr_transfer_end(transfer,
			 ldr_fail(&transfer->error, LDR_ECANCELLED,
				  "%s: ended by the caller in its body", transfer->response.url));
	return 0;
}

static size_t read_memory(struct transfer *transfer, char *to, size_t length)
{
	memcpy(to, (const char *)transfer->request.body + transfer->body_sent, length);
	return length;
}

static size_t read_descriptor(struct transfer *transfer, char *to, size_t length)
{
	const struct ldr_request *request = &transfer->request;
	uint64_t offset = request->body_offset + transfer->body_sent;
	ssize_t got;

	do
		got = pread(request->body_fd, to, length, (off_t)offset);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return (size_t)got;
	if (got < 0)
		ldr_transfer_end(transfer, ldr_fail_errno(&transfer->error, errno,
							  "%s: reading the body at %" PRIu64,
							  request->url, offset));
	else
		ldr_transfer_end(transfer,
				 ldr_fail(&transfer->error, LDR_ECHANGED,
					  "%s: the body ends at %" PRIu64 " of %" PRIu64 " bytes",
					  request->url, transfer->body_sent, request->body_length));
	return CURL_READFUNC_ABORT;
}

static size_t on_read(char *to, size_t size, size_t count, void *context)
{
	struct transfer *transfer = context;
	uint64_t left = transfer->request.body_length - transfer->body_sent;
	size_t length = size * count;

	if (length > left)
		length = (size_t)left;
	if (length == 0)
		return 0;
	length = transfer->request.body ? read_memory(transfer, to, length)
					: read_descriptor(transfer, to, length);
	if (length == CURL_READFUNC_ABORT)
		return length;
	transfer->body_sent += length;
	atomic_fetch_add_explicit(&transfer->transport->sent_bytes, length, memory_order_relaxed);
	/* What libcurl takes from here fits into the socket: it is progress however little it is. */
	progress(transfer);
	return length;
}

static int on_seek(void *context, curl_off_t offset, int origin)
{
	struct transfer *transfer = context;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > transfer->request.body_length)
		return CURL_SEEKFUNC_FAIL;
	transfer->body_sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

/* ---- connecting ---- */

static curl_socket_t on_open_socket(void *context, curlsocktype purpose,
				    struct curl_sockaddr *address)
{
	struct ldr_transport *transport = context;

	(void)purpose;
	atomic_fetch_add_explicit(&transport->connections, 1, memory_order_relaxed);
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int on_connected(void *context, char *remote, char *local, int remote_port, int local_port)
{
	struct transfer *transfer = context;

	(void)remote;
	(void)local;
	(void)remote_port;
	(void)local_port;
	transfer->connected = true;
	progress(transfer);
	return CURL_PREREQFUNC_OK;
}

/* ---- starting ---- */

static CURL *take_easy(struct ldr_transport *transport)
{
	CURL *easy;

	if (!transport->idle_count)
		return curl_easy_init();
	easy = transport->idle[--transport->idle_count];
	curl_easy_reset(easy);
	return easy;
}

static bool add_header(struct transfer *transfer, const char *line)
{
	struct curl_slist *longer = curl_slist_append(transfer->headers, line);

	if (longer)
		transfer->headers = longer;
	return longer != NULL;
}

static bool add_condition(struct transfer *transfer, const char *name, const char *value)
{
	char line[256];

	if (!value)
		return true;
	snprintf(line, sizeof(line), "%s: %s", name, value);
	return add_header(transfer, line);
}

/* The token goes along only to the origin that the caller named, or to the one that it is for. */
static bool may_have_token(const struct transfer *transfer)
{
	const char *wanted = transfer->transport->token_origin;
	char origin[LDR_ORIGIN_BYTES];

	if (!*wanted)
		wanted = transfer->origin;
	if (!transfer->redirect)
		return strcmp(transfer->origin, wanted) == 0;
	return ldr_url_origin(transfer->redirect, origin, NULL) == LDR_OK &&
	       strcmp(origin, wanted) == 0;
}

static bool make_headers(struct transfer *transfer)
{
	const struct ldr_request *request = &transfer->request;
	const char *authorization = transfer->transport->authorization;

	curl_slist_free_all(transfer->headers);
	transfer->headers = NULL;
	return add_header(transfer, "Accept-Encoding: identity") &&
	       add_condition(transfer, "If-Match", request->if_match) &&
	       add_condition(transfer, "If-None-Match", request->if_none_match) &&
	       (!authorization || !may_have_token(transfer) || add_header(transfer, authorization));
}

static void set_common(struct transfer *transfer)
{
	struct ldr_transport *transport = transfer->transport;
	CURL *easy = transfer->easy;

	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0l);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1l);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER_BYTES);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)transport->options.connect_timeout_ms);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "larder/" LDR_VERSION);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, (char *)transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_text);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transport);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
	if (transport->ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, transport->ca_file);
}

static void set_method(struct transfer *transfer)
{
	const struct ldr_request *request = &transfer->request;
	CURL *easy = transfer->easy;
	char range[64];

	if (request->has_range) {
		snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, request->range_first,
			 request->range_last);
		curl_easy_setopt(easy, CURLOPT_RANGE, range);
	}
	switch (request->method) {
	case LDR_GET:
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1l);
		break;
	case LDR_HEAD:
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1l);
		break;
	case LDR_PUT:
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1l);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_length);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_BYTES);
		curl_easy_setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, EXPECT_TIMEOUT_MS);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
		curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
		curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer);
		break;
	}
}

/* Sends the request to url_of(transfer), the first time or after a redirect. */
static enum ldr_status send_request(struct transfer *transfer)
{
	struct ldr_transport *transport = transfer->transport;

	transfer->connected = false;
	transfer->following = false;
	transfer->header_bytes = 0;
	set_common(transfer);
	set_method(transfer);
	if (!make_headers(transfer) ||
	    curl_easy_setopt(transfer->easy, CURLOPT_URL, url_of(transfer)) != CURLE_OK ||
	    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) != CURLE_OK ||
	    curl_multi_add_handle(transport->multi, transfer->easy) != CURLM_OK)
		return ldr_fail(&transfer->error, LDR_ENOMEM, "%s: request not started",
				url_of(transfer));
	return LDR_OK;
}

enum ldr_status ldr_http_start(struct transfer *transfer)
{
	transfer->easy = take_easy(transfer->transport);
	if (!transfer->easy)
		return ldr_fail(&transfer->error, LDR_ENOMEM, "%s: out of memory",
				transfer->request.url);
	return send_request(transfer);
}

void ldr_http_release(struct transfer *transfer)
{
	struct ldr_transport *transport = transfer->transport;

	if (transfer->easy) {
		curl_multi_remove_handle(transport->multi, transfer->easy);
		if (transport->idle_count < transport->idle_capacity)
			transport->idle[transport->idle_count++] = transfer->easy;
		else
			curl_easy_cleanup(transfer->easy);
		transfer->easy = NULL;
	}
	curl_slist_free_all(transfer->headers);
	transfer->headers = NULL;
	free(transfer->redirect);
	transfer->redirect = NULL;
}

void ldr_http_continue(struct transfer *transfer)
{
	progress(transfer);
	/* A failing write callback shows in the transfer's own result. */
	curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
}

/* ---- ends ---- */

static enum ldr_status status_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return LDR_ETIMEDOUT;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CACERT_BADFILE:
		return LDR_EDENIED;
	case CURLE_OUT_OF_MEMORY:
		return LDR_ENOMEM;
	case CURLE_URL_MALFORMAT:
		return LDR_EINVAL;
	default:
		/* The scheme has been checked, so an "unsupported protocol" is an answer that is not HTTP. */
		return LDR_ENET;
	}
}

static enum ldr_status refuse_redirect(struct transfer *transfer, const char *to, const char *why)
{
	return ldr_fail(&transfer->error, LDR_ENET, "%s: host %s: status %d: redirect to %.200s %s",
			transfer->request.url, host_of(transfer), transfer->response.status, to,
			why);
}

static enum ldr_status follow(struct transfer *transfer)
{
	char origin[LDR_ORIGIN_BYTES];
	char *to = NULL;

	curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &to);
	if (!to)
		return refuse_redirect(transfer, "nowhere", "cannot be followed");
	if (ldr_url_origin(to, origin, NULL) || strcmp(origin, "file://") == 0)
		return refuse_redirect(transfer, to, "is not to http or https");
	if (strncasecmp(url_of(transfer), "https:", 6) == 0 && strncmp(origin, "https:", 6) != 0)
		return refuse_redirect(transfer, to, "would leave https");
	if (transfer->redirects == REDIRECTS_MAX)
		return refuse_redirect(transfer, to, "is one too many (limit 5)");
	transfer->redirects++;
	to = strdup(to);
	if (!to)
		return ldr_fail(&transfer->error, LDR_ENOMEM, "%s: out of memory",
				url_of(transfer));
	free(transfer->redirect);
	transfer->redirect = to;
	curl_multi_remove_handle(transfer->transport->multi, transfer->easy);
	curl_easy_reset(transfer->easy);
	return send_request(transfer);
}

static void collect_one(struct transfer *transfer, CURLcode code)
{
	enum ldr_status status;

	if (transfer->finished)
		return;
	if (code == CURLE_OK && transfer->following) {
		status = follow(transfer);
		if (status)
			ldr_transfer_end(transfer, status);
		return;
	}
	if (code == CURLE_OK) {
		ldr_transfer_end(transfer, LDR_OK);
		return;
	}
	ldr_transfer_end(transfer, ldr_fail(&transfer->error, status_of(code), "%s: host %s: %s",
					    url_of(transfer), host_of(transfer),
					    transfer->curl_text[0] ? transfer->curl_text
								   : curl_easy_strerror(code)));
}

void ldr_http_collect(struct ldr_transport *transport)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(transport->multi, &left))) {
		struct transfer *transfer = NULL;
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
		collect_one(transfer, code);
	}
}

uint64_t ldr_http_deadlines(struct ldr_transport *transport, uint64_t now_ns)
{
	uint64_t stall_ns = transport->options.stall_timeout_ms * UINT64_C(1000000);
	uint64_t next_ns = UINT64_MAX;

	for (struct transfer *t = transport->active; t; t = t->next) {
		if (t->is_file || t->finished || !t->connected || t->held || t->throttled)
			continue;
		if (now_ns < t->progress_ns + stall_ns) {
			if (t->progress_ns + stall_ns < next_ns)
				next_ns = t->progress_ns + stall_ns;
			continue;
		}
		ldr_transfer_end(t,
				 ldr_fail(&t->error, LDR_ETIMEDOUT,
					  "%s: host %s: %s stalled for %" PRIu64 " ms", url_of(t),
					  host_of(t), t->head_given ? "body" : "answer",
					  transport->options.stall_timeout_ms));
	}
	return next_ns;
}
