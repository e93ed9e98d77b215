/*
 * One request for a file:// URL, read by pread on the I/O thread; see transport.h for why not by libcurl.
 *
 * A step reads a few pieces and then lets the other requests have their turn, so that a cancel acts
 * within STEP_PIECES pieces.
 *
 * Threads: everything runs on the I/O thread.
 */
#include "client/transport_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"

#define STEP_PIECES 8

static enum ldr_status path_of(struct transfer *transfer)
{
	const char *url = transfer->request.url + strlen("file://");
	int length = 0;
	char *path;

	if (strncmp(url, "localhost/", 10) == 0)
		url += 9;
	path = url[0] == '/' ? curl_easy_unescape(NULL, url, 0, &length) : NULL;
	if (path && strlen(path) == (size_t)length)
		transfer->file_path = strdup(path);
	curl_free(path);
	if (!transfer->file_path)
		return ldr_fail(&transfer->error, LDR_EINVAL, "%s: not the URL of a file",
				transfer->request.url);
	return LDR_OK;
}

/* Calls head; ends the transfer where there is no body to come. */
static void give_head(struct transfer *transfer, int status, uint64_t content_length)
{
	const struct ldr_request *request = &transfer->request;

	transfer->response.status = status;
	transfer->response.content_length = content_length;
	transfer->head_given = true;
	if (request->head && !request->head(request->context, &transfer->response)) {
		ldr_transfer_end(transfer,
				 ldr_fail(&transfer->error, LDR_ECANCELLED,
					  "%s: ended by the caller at its header", request->url));
		return;
	}
	if (request->method == LDR_HEAD || transfer->offset == transfer->end)
		ldr_transfer_end(transfer, LDR_OK);
}

static void begin_body(struct transfer *transfer, uint64_t size)
{
	const struct ldr_request *request = &transfer->request;
	struct ldr_response *response = &transfer->response;

	if (!request->has_range) {
		transfer->end = size;
		give_head(transfer, 200, size);
		return;
	}
	if (request->range_first >= size) {
		response->range_total = size;
		give_head(transfer, 416, 0);
		return;
	}
	response->has_range = true;
	response->range_first = request->range_first;
	response->range_last = request->range_last < size ? request->range_last : size - 1;
	response->range_total = size;
	transfer->offset = response->range_first;
	transfer->end = response->range_last + 1;
	give_head(transfer, 206, transfer->end - transfer->offset);
}

enum ldr_status ldr_file_start(struct transfer *transfer)
{
	enum ldr_status status = path_of(transfer);
	struct stat stat;

	if (status)
		return status;
	transfer->fd = open(transfer->file_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (transfer->fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		give_head(transfer, 404, 0);
		return LDR_OK;
	}
	if (transfer->fd < 0 || fstat(transfer->fd, &stat) < 0)
		return ldr_fail_errno(&transfer->error, errno, "%s", transfer->file_path);
	if (!S_ISREG(stat.st_mode))
		return ldr_fail(&transfer->error, LDR_ENOTREG, "%s: not a regular file",
				transfer->file_path);
	begin_body(transfer, (uint64_t)stat.st_size);
	return LDR_OK;
}

/* Reads one piece into the scratch buffer; 0 has ended the transfer. */
static size_t read_piece(struct transfer *transfer)
{
	uint64_t left = transfer->end - transfer->offset;
	size_t length = left < LDR_SCRATCH_BYTES ? (size_t)left : LDR_SCRATCH_BYTES;
	ssize_t got;

	do
		got = pread(transfer->fd, transfer->transport->scratch, length,
			    (off_t)transfer->offset);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return (size_t)got;
	if (got < 0)
		ldr_transfer_end(transfer,
				 ldr_fail_errno(&transfer->error, errno, "%s: reading at %" PRIu64,
						transfer->file_path, transfer->offset));
	else
		ldr_transfer_end(transfer,
				 ldr_fail(&transfer->error, LDR_ECHANGED,
					  "%s: ends at %" PRIu64 ", was to reach %" PRIu64,
					  transfer->file_path, transfer->offset, transfer->end));
	return 0;
}

void ldr_file_step(struct transfer *transfer)
{
	const struct ldr_request *request = &transfer->request;
	enum ldr_flow flow = LDR_FLOW_GO;

	for (int i = 0; i < STEP_PIECES && transfer->offset < transfer->end; i++) {
		size_t length = read_piece(transfer);

		if (length == 0)
			return;
		if (request->body_part)
			flow = request->body_part(request->context, transfer->transport->scratch,
						  length);
		transfer->held = flow == LDR_FLOW_HOLD;
		if (flow != LDR_FLOW_GO)
			break;
		transfer->offset += length;
		atomic_fetch_add_explicit(&transfer->transport->received_bytes, length,
					  memory_order_relaxed);
	}
	if (flow == LDR_FLOW_STOP)
		ldr_transfer_end(transfer,
				 ldr_fail(&transfer->error, LDR_ECANCELLED,
					  "%s: ended by the caller in its body", request->url));
	else if (transfer->offset == transfer->end)
		ldr_transfer_end(transfer, LDR_OK);
}

void ldr_file_release(struct transfer *transfer)
{
	ldr_cleanup_fd(&transfer->fd);
	transfer->fd = -1;
	free(transfer->file_path);
	transfer->file_path = NULL;
}
