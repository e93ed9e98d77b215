/*
 * The lying server's answers, true and false; see lying_server.h.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/faults/lying_server_priv.h"

/* What goes out; a lie changes some of it. */
struct answer {
	int status;
	bool has_range;
	uint64_t first;
	uint64_t last;
	uint64_t total;
	const uint8_t *body;
	uint64_t said_bytes; /* Content-Length */
	uint64_t sent_bytes;
	unsigned retry_after_s;
	char location[256];
	bool chunked;
	bool flip_last; /* one bit of the last byte sent is changed */
};

static const char *reason(int status)
{
	return status < 300 ? "Fine" : status < 400 ? "Elsewhere" : "No";
}

static bool send_head(struct connection *connection, const struct answer *answer)
{
	char head[1024];
	int used;

	used = snprintf(head, sizeof(head), "HTTP/1.1 %d %s\r\nETag: \"tag-1\"\r\n", answer->status,
			reason(answer->status));
	if (answer->chunked)
		used += snprintf(head + used, sizeof(head) - (size_t)used,
				 "Transfer-Encoding: chunked\r\n");
	else
		used += snprintf(head + used, sizeof(head) - (size_t)used,
				 "Content-Length: %" PRIu64 "\r\n", answer->said_bytes);
	if (answer->has_range)
		used += snprintf(head + used, sizeof(head) - (size_t)used,
				 "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n",
				 answer->first, answer->last, answer->total);
	if (answer->retry_after_s)
		used += snprintf(head + used, sizeof(head) - (size_t)used, "Retry-After: %u\r\n",
				 answer->retry_after_s);
	if (answer->location[0])
		used += snprintf(head + used, sizeof(head) - (size_t)used, "Location: %s\r\n",
				 answer->location);
	used += snprintf(head + used, sizeof(head) - (size_t)used, "\r\n");
	return lying_send(connection, head, (size_t)used);
}

static bool send_body(struct connection *connection, const struct answer *answer)
{
	uint64_t length = answer->sent_bytes;
	uint8_t flipped;

	if (length == 0)
		return true;
	if (!answer->flip_last)
		return lying_send(connection, answer->body, length);
	flipped = answer->body[length - 1] ^ 1;
	return lying_send(connection, answer->body, length - 1) &&
	       lying_send(connection, &flipped, 1);
}

static bool send_answer(struct connection *connection, const struct answer *answer)
{
	char size[32];

	if (!send_head(connection, answer))
		return false;
	if (strcmp(connection->seen.method, "HEAD") == 0)
		return true;
	if (!answer->chunked)
		return send_body(connection, answer);
	snprintf(size, sizeof(size), "%" PRIx64 "\r\n", answer->sent_bytes);
	return lying_send(connection, size, strlen(size)) && send_body(connection, answer) &&
	       lying_send(connection, "\r\n0\r\n\r\n", 7);
}

/* The true answer. */
static struct answer tell(struct connection *connection)
{
	static const char missing[] = "there is no such thing";
	struct answer answer = {.status = 200};
	struct served_file file;
	uint64_t first, last;

	if (!lying_find(connection->server, connection->seen.path, &file)) {
		answer.status = 404;
		answer.body = (const uint8_t *)missing;
		answer.said_bytes = answer.sent_bytes = strlen(missing);
		return answer;
	}
	answer.body = file.bytes;
	answer.total = file.length;
	answer.said_bytes = answer.sent_bytes = file.length;
	if (sscanf(connection->seen.range, "bytes=%" SCNu64 "-%" SCNu64, &first, &last) != 2)
		return answer;
	if (first >= file.length)
		return (struct answer){.status = 416};
	answer.status = 206;
	answer.has_range = true;
	answer.first = first;
	answer.last = last < file.length ? last : file.length - 1;
	answer.body += first;
	answer.said_bytes = answer.sent_bytes = answer.last - first + 1;
	return answer;
}

static void go_whole(struct answer *answer)
{
	answer->status = 200;
	if (!answer->has_range)
		return;
	answer->body -= answer->first;
	answer->said_bytes = answer->sent_bytes = answer->total;
	answer->has_range = false;
}

static void reset(struct connection *connection)
{
	struct linger hard = {.l_onoff = 1};

	setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static bool endless_header(struct connection *connection)
{
	static const char line[] =
		"X-Nothing: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";

	if (!lying_send(connection, "HTTP/1.1 200 Fine\r\n", 19))
		return false;
	while (lying_send(connection, line, strlen(line)))
		;
	return false;
}

/* Lies that change what is said or sent and keep the connection. */
static bool twist(struct answer *answer, const struct lie_plan *plan)
{
	switch (plan->lie) {
	case LIE_NONE:
		return true;
	case LIE_WHOLE:
		go_whole(answer);
		return true;
	case LIE_WHOLE_STATUS:
		answer->status = 200;
		answer->has_range = false;
		return true;
	case LIE_OTHER_RANGE:
		answer->first++;
		answer->last++;
		answer->body++;
		return true;
	case LIE_NO_RANGE:
		answer->has_range = false;
		return true;
	case LIE_SHIFT:
		answer->body += 4;
		return true;
	case LIE_FLIP:
		answer->flip_last = true;
		return true;
	case LIE_SHORT_CHUNKED:
		answer->chunked = true;
		answer->sent_bytes /= 2;
		return true;
	case LIE_EMPTY:
		answer->said_bytes = answer->sent_bytes = 0;
		return true;
	default:
		return false;
	}
}

/* Lies after which the connection is over. */
static void break_off(struct connection *connection, struct answer *answer, enum lie lie)
{
	switch (lie) {
	case LIE_RESET_HEAD:
		reset(connection);
		return;
	case LIE_STALL_HEAD:
		lying_stall(connection);
		return;
	case LIE_GARBAGE:
		lying_send(connection, "SSH-2.0-OpenSSH_9.2\r\n", 21);
		return;
	case LIE_ENDLESS_HEADER:
		endless_header(connection);
		return;
	case LIE_LENGTH:
		answer->said_bytes *= 2;
		send_answer(connection, answer);
		return;
	default:
		break;
	}
	answer->sent_bytes /= 2;
	send_answer(connection, answer);
	if (lie == LIE_STALL_BODY)
		lying_stall(connection);
	if (lie == LIE_RESET)
		reset(connection);
}

static bool refuse(struct connection *connection, const struct lie_plan *plan)
{
	static const char body[] = "the server\nsays no";
	struct answer answer = {.status = plan->status,
				.retry_after_s = plan->retry_after_s,
				.body = (const uint8_t *)body,
				.said_bytes = strlen(body),
				.sent_bytes = strlen(body)};

	if (!send_answer(connection, &answer) || connection->upload_bytes == 0)
		return connection->upload_bytes == 0;
	/* An upload is refused early. Closing with its body unread would reset the answer away. */
	shutdown(connection->fd, SHUT_WR);
	lying_stall(connection);
	return false;
}

static bool redirect(struct connection *connection, const struct lie_plan *plan)
{
	struct answer answer = {.status = 302};

	snprintf(answer.location, sizeof(answer.location), "%s",
		 plan->location ? plan->location : connection->seen.path);
	return send_answer(connection, &answer);
}

static bool take_upload(struct connection *connection)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct answer answer = {.status = 201};

	if (connection->expects && !lying_send(connection, go_on, strlen(go_on)))
		return false;
	return lying_receive(connection) && send_answer(connection, &answer);
}

bool lying_answer(struct connection *connection, const struct lie_plan *plan)
{
	struct answer answer;

	if (plan->lie == LIE_STATUS)
		return refuse(connection, plan);
	if (plan->lie == LIE_REDIRECT)
		return redirect(connection, plan);
	if (plan->lie == LIE_NONE && strcmp(connection->seen.method, "PUT") == 0)
		return take_upload(connection);
	answer = tell(connection);
	if (twist(&answer, plan))
		return send_answer(connection, &answer);
	break_off(connection, &answer, plan->lie);
	return false;
}
