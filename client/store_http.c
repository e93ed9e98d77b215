/*
 * A server as a store; see store.h and docs/protocol.md.
 *
 * A pack is built into a staging folder as a temporary of the publisher and sent from its descriptor;
 * the temporary goes when the server has answered. At most UPLOADS_AT_ONCE packs are on their way, so
 * that building and sending overlap and the staging folder stays small.
 *
 * Locks: upload.mutex (LDR_RANK_LEAF) for what the I/O thread says; never held over a call.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/store_priv.h"
#include "common/bytes.h"
#include "common/lock.h"
#include "packs/layout.h"

#define UPLOADS_AT_ONCE 2
#define ANSWER_MAX_BYTES 4096
#define ATTEMPTS 3

struct upload {
	struct ldr_stream *stream; /* owns; NULL: the slot is free */
	char *url;                 /* owns */
	uint64_t size_bytes;
	unsigned attempts;
	/* Written by the I/O thread under the mutex. */
	bool done;
	enum ldr_status status;
	struct ldr_error error;
	struct ldr_response response;
	char answer[ANSWER_MAX_BYTES];
	size_t answer_length;
	struct http_store *http;
};

struct http_store {
	char *base;
	struct ldr_transport *transport;
	struct ldr_root *staging;
	struct ldr_store *store; /* borrowed: for its figures */
	struct ldr_mutex mutex;
	struct ldr_condition changed;
	struct upload uploads[UPLOADS_AT_ONCE];
};

/* One exchange whose answer is small; raises what its status means. */
static enum ldr_status exchange(struct http_store *http, struct ldr_request *request,
				const char *path, size_t max_bytes, struct ldr_exchange *out,
				struct ldr_error *err)
{
	LDR_AUTO_FREE char *url = ldr_url_join(http->base, path);
	enum ldr_status status;

	if (!url)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	request->url = url;
	status = ldr_transport_perform(http->transport, request, max_bytes, out, err);
	if (status)
		return status;
	return ldr_response_status(&out->response, out->body, out->body_length, err);
}

static enum ldr_status http_get(void *self, const char *path, size_t max_bytes, uint8_t **out_data,
				size_t *out_length, struct ldr_error *err)
{
	struct ldr_request request = {.method = LDR_GET, .body_fd = -1};
	struct ldr_exchange answer = {0};
	enum ldr_status status = exchange(self, &request, path, max_bytes, &answer, err);

	if (!status) {
		*out_data = LDR_STEAL(answer.body);
		*out_length = answer.body_length;
	}
	ldr_exchange_dispose(&answer);
	return status;
}

/* The bytes of an object; if_match NULL: it must not exist, or with the same bytes. */
static enum ldr_status put_bytes(struct http_store *http, const char *path,
				 const struct ldr_store_bytes *bytes, const char *if_match,
				 struct ldr_error *err)
{
	struct ldr_request request = {
		.method = LDR_PUT,
		.if_match = if_match,
		.if_none_match = if_match ? NULL : "*",
		.body = bytes->data,
		.body_fd = -1,
		.body_length = bytes->length,
	};
	struct ldr_exchange answer = {0};
	enum ldr_status status = exchange(http, &request, path, ANSWER_MAX_BYTES, &answer, err);

	ldr_exchange_dispose(&answer);
	return status;
}

/* The server answers 200 when the same bytes are there already. */
static enum ldr_status http_put(void *self, const char *path, const void *bytes, size_t length,
				struct ldr_error *err)
{
	const struct ldr_store_bytes all = {bytes, length};

	return put_bytes(self, path, &all, NULL, err);
}

static enum ldr_status http_move_channel(void *self, const char *path,
					 const struct ldr_store_bytes *expected,
					 const struct ldr_store_bytes *record,
					 struct ldr_error *err)
{
	char etag[LDR_ID_HEX_CHARS + 3];
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_id digest;
	enum ldr_status status;

	if (!expected)
		return put_bytes(self, path, record, NULL, err);
	status = ldr_digest_once(expected->data, expected->length, &digest, err);
	if (status)
		return status;
	ldr_id_to_hex(&digest, hex);
	snprintf(etag, sizeof(etag), "\"%s\"", hex);
	return put_bytes(self, path, record, etag, err);
}

/* ---- uploads ---- */

static enum ldr_flow upload_answer(void *context, const void *bytes, size_t length)
{
	struct upload *upload = context;
	size_t room = sizeof(upload->answer) - upload->answer_length;

	if (length > room)
		length = room;
	ldr_copy(upload->answer + upload->answer_length, bytes, length);
	upload->answer_length += length;
	return LDR_FLOW_GO;
}

static void upload_done(void *context, enum ldr_status status, const struct ldr_response *response,
			const struct ldr_error *error)
{
	struct upload *upload = context;
	struct http_store *http = upload->http;

	ldr_mutex_lock(&http->mutex);
	upload->status = status;
	if (status)
		upload->error = *error;
	else
		upload->response = *response;
	upload->done = true;
	ldr_condition_broadcast(&http->changed);
	ldr_mutex_unlock(&http->mutex);
}

static enum ldr_status upload_submit(struct upload *upload, struct ldr_error *err)
{
	const struct ldr_request request = {
		.method = LDR_PUT,
		.url = upload->url,
		.if_none_match = "*",
		.body_fd = ldr_stream_fd(upload->stream),
		.body_length = upload->size_bytes,
		.context = upload,
		.body_part = upload_answer,
		.done = upload_done,
	};

	upload->done = false;
	upload->answer_length = 0;
	upload->attempts++;
	return ldr_transport_submit(upload->http->transport, &request, NULL, err);
}

static void upload_release(struct upload *upload)
{
	ldr_stream_abort(upload->stream);
	free(upload->url);
	upload->stream = NULL;
	upload->url = NULL;
	upload->done = false;
}

static void wait_done(struct http_store *http, struct upload *upload)
{
	ldr_mutex_lock(&http->mutex);
	while (!upload->done)
		ldr_condition_wait(&http->changed, &http->mutex);
	ldr_mutex_unlock(&http->mutex);
}

/* Waits for one upload, sending it again where the network failed, and frees its slot. */
static enum ldr_status upload_wait(struct upload *upload, struct ldr_error *err)
{
	enum ldr_status status;

	if (!upload->stream)
		return LDR_OK;
	for (;;) {
		struct ldr_error error = {0};

		wait_done(upload->http, upload);
		status = upload->status;
		if (status)
			error = upload->error;
		else
			status = ldr_response_status(&upload->response, upload->answer,
						     upload->answer_length, &error);
		if (!status || !ldr_status_retry(status) || status == LDR_ECONFLICT ||
		    upload->attempts >= ATTEMPTS) {
			if (status)
				ldr_fail(err, status, "%s", error.text);
			break;
		}
		status = upload_submit(upload, err);
		if (status)
			break;
	}
	if (!status)
		upload->http->store->bytes += upload->size_bytes;
	upload_release(upload);
	return status;
}

static enum ldr_status http_settle(void *self, struct ldr_error *err)
{
	struct http_store *http = self;
	enum ldr_status status = LDR_OK;

	for (int i = 0; i < UPLOADS_AT_ONCE; i++) {
		enum ldr_status one = upload_wait(&http->uploads[i], status ? NULL : err);

		if (!status)
			status = one;
	}
	return status;
}

/* A free slot, waiting for the oldest upload when there is none: slots are used in turn. */
static enum ldr_status take_slot(struct http_store *http, uint32_t ordinal, struct upload **out,
				 struct ldr_error *err)
{
	*out = &http->uploads[ordinal % UPLOADS_AT_ONCE];
	return upload_wait(*out, err);
}

static bool server_has(struct http_store *http, const char *path)
{
	struct ldr_request request = {.method = LDR_HEAD, .body_fd = -1};
	struct ldr_exchange answer = {0};
	enum ldr_status status = exchange(http, &request, path, ANSWER_MAX_BYTES, &answer, NULL);

	ldr_exchange_dispose(&answer);
	return status == LDR_OK;
}

static enum ldr_status http_begin(void *context, struct ldr_stream **out_stream,
				  struct ldr_error *err)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_NONE};
	struct http_store *http = context;

	return ldr_stream_begin(http->staging, "", &options, out_stream, err);
}

static enum ldr_status http_finish(void *context, struct ldr_stream *stream,
				   const struct ldr_id *id, uint64_t size_bytes, uint32_t ordinal,
				   struct ldr_error *err)
{
	struct http_store *http = context;
	char path[LDR_STORE_PATH_BYTES];
	struct upload *upload;
	enum ldr_status status;

	ldr_store_pack_path(id, path);
	if (server_has(http, path)) {
		http->store->packs_held++;
		ldr_stream_abort(stream);
		return LDR_OK;
	}
	status = take_slot(http, ordinal, &upload, err);
	if (status) {
		ldr_stream_abort(stream);
		return status;
	}
	*upload = (struct upload){.stream = stream,
				  .url = ldr_url_join(http->base, path),
				  .size_bytes = size_bytes,
				  .http = http};
	status = upload->url ? upload_submit(upload, err)
			     : ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	if (status)
		upload_release(upload);
	return status;
}

/* ---- opening ---- */

static void http_close(void *self)
{
	struct http_store *http = self;

	/* Ends the callbacks first: after this nobody touches an upload. */
	ldr_transport_free(http->transport);
	for (int i = 0; i < UPLOADS_AT_ONCE; i++)
		upload_release(&http->uploads[i]);
	ldr_root_close(http->staging);
	ldr_condition_dispose(&http->changed);
	ldr_mutex_dispose(&http->mutex);
	free(http->base);
	free(http);
}

static const struct ldr_store_kind http_kind = {
	.get = http_get,
	.put = http_put,
	.settle = http_settle,
	.move_channel = http_move_channel,
	.close = http_close,
};

static enum ldr_status read_format(struct http_store *http, struct ldr_store *store,
				   struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	size_t length;
	enum ldr_status status = http_get(http, LDR_STORE_FORMAT_PATH, ANSWER_MAX_BYTES, &text,
					  &length, err);

	if (status == LDR_ENOTFOUND)
		return ldr_error_prefix(err, status, "no Larder store at %s", http->base);
	if (status)
		return status;
	return ldr_store_format_parse((char *)text, length, http->base, store->id, err);
}

enum ldr_status ldr_store_http_open(const struct ldr_location *location,
				    const struct ldr_store_options *options,
				    struct ldr_store *store, struct ldr_error *err)
{
	struct http_store *http = calloc(1, sizeof(*http));
	enum ldr_status status;

	if (!http)
		return ldr_fail(err, LDR_ENOMEM, "store %s: out of memory", location->text);
	ldr_mutex_init(&http->mutex, LDR_RANK_LEAF);
	ldr_condition_init(&http->changed);
	http->store = store;
	http->base = strdup(location->base);
	store->self = http;
	store->kind = &http_kind;
	store->sink = (struct ldr_pack_sink){
		.begin = http_begin, .finish = http_finish, .context = http};
	if (!http->base)
		return ldr_fail(err, LDR_ENOMEM, "store %s: out of memory", location->text);
	status = ldr_transport_new(&options->transport, &http->transport, err);
	if (!status)
		status = ldr_root_open(options->staging_path, true, &http->staging, err);
	if (!status)
		status = ldr_root_sweep(http->staging, "", NULL, err);
	return status ? status : read_format(http, store, err);
}
