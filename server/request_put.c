/*
 * PUT: who may, the body into an upload, the work in a worker, the reply.
 *
 * A PUT that is refused when its header is there is answered at once when its body is long or waits for
 * "100 Continue"; the library then closes the connection. A short body that is on its way already is
 * swallowed first, since a connection that is closed with unread bytes may lose the answer.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "server/request_priv.h"

#define SWALLOW_BYTES (64u * 1024 * 1024)
#define SWALLOW_FROM_STRANGERS_BYTES (1024u * 1024)

/* The body's length; false when there is none to trust. */
static bool body_length(const struct request *request, uint64_t *out)
{
	const char *text = request_field(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static enum MHD_Result refuse_early(struct request *request, uint64_t length, uint64_t swallow)
{
	if (length <= swallow && !request_field(request, MHD_HTTP_HEADER_EXPECT)) {
		request->put = PUT_SWALLOWING;
		ldr_connection_receiving(request->http->limits, request->connection, length);
		return MHD_YES;
	}
	request->must_close = true;
	return request_reply(request, &request->reply);
}

/* 0, or the reply is filled with why not. */
static unsigned judge(struct request *request, const char *url)
{
	const struct ldr_server_options *options = &request->http->options;
	enum ldr_route route = ldr_route_parse(url, strlen(url), &request->name);
	struct ldr_error error = {0};

	if (route != LDR_ROUTE_OBJECT) {
		request_route_reply(request, route, &request->reply);
		return request->reply.status;
	}
	request->reply.status = ldr_access_judge(
		options->access, request_field(request, MHD_HTTP_HEADER_AUTHORIZATION),
		&request->name, &error);
	snprintf(request->reply.text, sizeof(request->reply.text), "%s", error.text);
	return request->reply.status;
}

enum MHD_Result request_put_begin(struct request *request, const char *url)
{
	struct ldr_upload_head head = {
		.if_match = request_field(request, MHD_HTTP_HEADER_IF_MATCH),
		.if_none_match = request_field(request, MHD_HTTP_HEADER_IF_NONE_MATCH),
	};

	if (!body_length(request, &head.length)) {
		request->must_close = true;
		return request_refuse(request, MHD_HTTP_LENGTH_REQUIRED,
				      "PUT needs a Content-Length");
	}
	if (judge(request, url))
		return refuse_early(request, head.length, SWALLOW_FROM_STRANGERS_BYTES);
	head.name = request->name;
	request->upload = ldr_upload_begin(request->http->options.desk, &head, &request->reply);
	if (!request->upload)
		return refuse_early(request, head.length, SWALLOW_BYTES);
	request->put = PUT_RECEIVING;
	ldr_connection_receiving(request->http->limits, request->connection, head.length);
	return MHD_YES;
}

void request_put_body(struct request *request, const void *bytes, size_t length)
{
	if (request->put == PUT_RECEIVING)
		ldr_upload_append(request->upload, bytes, length);
}

/* In a worker. After the resume the request may be gone. */
static void work(struct ldr_job *job)
{
	struct request *request = (struct request *)((char *)job - offsetof(struct request, job));

	ldr_upload_finish(request->upload, &request->reply);
	ldr_upload_free(LDR_STEAL(request->upload));
	request->put = PUT_DONE;
	MHD_resume_connection(request->mhd);
}

enum MHD_Result request_put_ready(struct request *request)
{
	if (request->put != PUT_RECEIVING)
		return request_reply(request, &request->reply);
	request->put = PUT_WORKING;
	request->job.run = work;
	ldr_connection_working(request->connection);
	MHD_suspend_connection(request->mhd);
	ldr_workers_queue(request->http->options.workers, &request->job);
	return MHD_YES;
}
