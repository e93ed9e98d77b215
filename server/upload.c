/*
 * Taking an object's bytes; see upload.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os.h"
#include "packs/pack.h"
#include "server/upload_priv.h"

/* Bytes of a pack are gathered to this length before they are written. */
#define GATHER_BYTES (256u * 1024)

enum ldr_status ldr_desk_new(const struct ldr_desk_options *options, struct ldr_desk **out_desk,
			     struct ldr_error *err)
{
	struct ldr_desk *desk = calloc(1, sizeof(*desk));

	if (!desk)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	desk->options = *options;
	*out_desk = desk;
	return LDR_OK;
}

void ldr_desk_free(struct ldr_desk *desk)
{
	free(desk);
}

/* ---- replies ---- */

unsigned ldr_upload_http_status(enum ldr_status status)
{
	switch (status) {
	case LDR_OK:
		return 200;
	case LDR_EINVAL:
		return 400;
	case LDR_EDENIED:
		return 403;
	case LDR_ECONFLICT:
		return 412;
	case LDR_ECORRUPT:
	case LDR_EUNTRUSTED:
	case LDR_ELIMIT:
	case LDR_EUNSUPPORTED:
	case LDR_ENOTFOUND: /* something that the body names, not the URL */
		return 422;
	case LDR_ENOSPACE:
		return 507;
	case LDR_ENOMEM:
	case LDR_EAGAIN:
		return 503;
	default:
		return 500;
	}
}

void upload_say(struct ldr_reply *reply, unsigned status, const char *fmt, ...)
{
	va_list arguments;

	reply->status = status;
	va_start(arguments, fmt);
	vsnprintf(reply->text, sizeof(reply->text), fmt, arguments);
	va_end(arguments);
}

unsigned upload_refuse(struct ldr_reply *reply, enum ldr_status status,
		       const struct ldr_error *error)
{
	upload_say(reply, ldr_upload_http_status(status), "%s", error->text);
	return reply->status;
}

void upload_etag(const void *bytes, size_t length, char etag[LDR_ID_HEX_CHARS + 3])
{
	struct ldr_id id;

	etag[0] = '\0';
	if (ldr_digest_once(bytes, length, &id, NULL))
		return;
	etag[0] = '"';
	ldr_id_to_hex(&id, etag + 1);
	memcpy(etag + 1 + LDR_ID_HEX_CHARS, "\"", 2);
}

/* ---- begin ---- */

static uint64_t max_bytes(enum ldr_object_kind kind)
{
	switch (kind) {
	case LDR_OBJECT_PACK:
		return LDR_UPLOAD_PACK_MAX_BYTES;
	case LDR_OBJECT_KEY:
		return LDR_KEY_PEM_MAX_BYTES;
	default:
		return LDR_RELEASE_MAX_BYTES;
	}
}

/* A condition on a channel is a must: moving one blindly would lose somebody's release. */
static bool conditions_ok(const struct ldr_upload_head *head, const char *path,
			  struct ldr_reply *reply)
{
	bool only_new = head->if_none_match != NULL;

	if (only_new && strcmp(head->if_none_match, "*") != 0) {
		upload_say(reply, 400, "%s: If-None-Match of a PUT can only be *", path);
		return false;
	}
	if (head->if_match && only_new) {
		upload_say(reply, 400, "%s: If-Match and If-None-Match together", path);
		return false;
	}
	if (head->name.kind == LDR_OBJECT_CHANNEL && !head->if_match && !only_new) {
		upload_say(reply, 428,
			   "%s: If-Match with the current ETag, or If-None-Match: *, is required",
			   path);
		return false;
	}
	if (head->name.kind != LDR_OBJECT_CHANNEL && head->if_match) {
		upload_say(reply, 412, "%s: it never changes, If-Match means nothing", path);
		return false;
	}
	return true;
}

static bool head_ok(const struct ldr_upload_head *head, const char *path, struct ldr_reply *reply)
{
	uint64_t limit = max_bytes(head->name.kind);

	if (head->name.kind == LDR_OBJECT_FORMAT) {
		upload_say(reply, 403, "%s: made by the server, never put", path);
		return false;
	}
	if (head->length == 0) {
		upload_say(reply, 400, "%s: an empty body", path);
		return false;
	}
	if (head->length > limit) {
		upload_say(reply, 413, "%s: %" PRIu64 " bytes, limit %" PRIu64, path, head->length,
			   limit);
		return false;
	}
	return conditions_ok(head, path, reply);
}

/* Is a sound pack of this name there? A broken one is to be replaced. */
static bool pack_is_there(struct ldr_upload *upload, struct ldr_reply *reply)
{
	struct ldr_object *object;
	uint64_t length;
	enum ldr_status status = ldr_objects_get(upload->desk->options.objects, &upload->name,
						 &object, NULL);

	upload->replaces = status == LDR_ECORRUPT;
	if (status)
		return false;
	length = ldr_object_length(object);
	snprintf(reply->etag, sizeof(reply->etag), "%s", ldr_object_etag(object));
	ldr_object_unref(object);
	if (length == upload->length)
		upload_say(reply, 200, "%s: already there", upload->path);
	else
		upload_say(reply, 422, "%s: %" PRIu64 " bytes, the pack of this id has %" PRIu64,
			   upload->path, upload->length, length);
	return true;
}

/* The space is reserved before the body comes, so that a full disk is known at once. */
static enum ldr_status begin_stream(struct ldr_upload *upload, struct ldr_error *err)
{
	const struct ldr_root *root = upload->desk->options.admission.root;
	struct ldr_publish_options options = {
		.sync = LDR_SYNC_FILE_AND_FOLDER,
		.condition = upload->replaces ? LDR_IF_ANY : LDR_IF_MISSING,
		.make_parents = true,
	};
	enum ldr_status status = ldr_root_make_folder(root, "packs", err);
	int error;

	if (!status)
		status = ldr_stream_begin(root, "packs", &options, &upload->stream, err);
	if (status)
		return status;
	error = ldr_os_reserve(ldr_stream_fd(upload->stream), upload->length);
	if (error == ENOSPC || error == EDQUOT)
		return ldr_fail_errno(err, error, "%s: %" PRIu64 " bytes", upload->path,
				      upload->length);
	return LDR_OK;
}

static struct ldr_upload *new_upload(struct ldr_desk *desk, const struct ldr_upload_head *head)
{
	struct ldr_upload *upload = calloc(1, sizeof(*upload));
	bool pack = head->name.kind == LDR_OBJECT_PACK;

	if (!upload)
		return NULL;
	atomic_fetch_add(&desk->uploads, 1);
	upload->desk = desk;
	upload->name = head->name;
	upload->length = head->length;
	upload->only_new = head->if_none_match != NULL;
	ldr_store_path(&head->name, upload->path);
	ldr_buffer_init(&upload->bytes, pack ? GATHER_BYTES : (size_t)head->length);
	upload->if_match = head->if_match ? strdup(head->if_match) : NULL;
	if (head->if_match && !upload->if_match) {
		ldr_upload_free(upload);
		return NULL;
	}
	return upload;
}

struct ldr_upload *ldr_upload_begin(struct ldr_desk *desk, const struct ldr_upload_head *head,
				    struct ldr_reply *out_reply)
{
	char path[LDR_STORE_PATH_BYTES];
	struct ldr_error error = {0};
	struct ldr_upload *upload;
	enum ldr_status status = LDR_OK;

	*out_reply = (struct ldr_reply){0};
	ldr_store_path(&head->name, path);
	if (!head_ok(head, path, out_reply))
		return NULL;
	upload = atomic_load(&desk->uploads) < LDR_UPLOADS_MAX ? new_upload(desk, head) : NULL;
	if (!upload) {
		upload_say(out_reply, 503, "%s: too many uploads at once", path);
		return NULL;
	}
	if (head->name.kind == LDR_OBJECT_PACK) {
		if (pack_is_there(upload, out_reply))
			status = LDR_EEXISTS;
		else
			status = begin_stream(upload, &error);
	}
	if (!status)
		return upload;
	if (status != LDR_EEXISTS)
		upload_refuse(out_reply, status, &error);
	ldr_upload_free(upload);
	return NULL;
}

/* ---- bytes ---- */

static void flush(struct ldr_upload *upload)
{
	if (!upload->status)
		upload->status = ldr_stream_append(upload->stream, upload->bytes.data,
						   upload->bytes.length, &upload->error);
	ldr_buffer_clear(&upload->bytes);
}

static void append_pack(struct ldr_upload *upload, const uint8_t *bytes, size_t length)
{
	while (length) {
		size_t room = GATHER_BYTES - upload->bytes.length;
		size_t part = length < room ? length : room;

		ldr_buffer_put(&upload->bytes, bytes, part);
		bytes += part;
		length -= part;
		if (upload->bytes.length == GATHER_BYTES)
			flush(upload);
	}
}

void ldr_upload_append(struct ldr_upload *upload, const void *bytes, size_t length)
{
	upload->received += length;
	if (upload->status)
		return;
	if (upload->name.kind == LDR_OBJECT_PACK)
		append_pack(upload, bytes, length);
	else
		ldr_buffer_put(&upload->bytes, bytes, length);
	if (upload->bytes.failed && !upload->status)
		upload->status = ldr_fail(&upload->error, LDR_ENOMEM, "%s: no memory for the body",
					  upload->path);
}

void ldr_upload_finish(struct ldr_upload *upload, struct ldr_reply *out_reply)
{
	*out_reply = (struct ldr_reply){0};
	if (!upload->status && upload->received != upload->length)
		upload->status = ldr_fail(&upload->error, LDR_EINVAL,
					  "%s: %" PRIu64 " bytes of %" PRIu64 " came", upload->path,
					  upload->received, upload->length);
	if (!upload->status && upload->stream)
		flush(upload);
	if (upload->status) {
		upload_refuse(out_reply, upload->status, &upload->error);
		return;
	}
	switch (upload->name.kind) {
	case LDR_OBJECT_PACK:
		upload_publish_pack(upload, out_reply);
		break;
	case LDR_OBJECT_KEY:
		upload_publish_key(upload, out_reply);
		break;
	case LDR_OBJECT_RELEASE:
		upload_publish_release(upload, out_reply);
		break;
	default:
		upload_publish_channel(upload, out_reply);
		break;
	}
}

void ldr_upload_free(struct ldr_upload *upload)
{
	if (!upload)
		return;
	ldr_stream_abort(upload->stream);
	ldr_buffer_dispose(&upload->bytes);
	atomic_fetch_sub(&upload->desk->uploads, 1);
	free(upload->if_match);
	free(upload);
}
