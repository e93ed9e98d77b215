/*
 * GET and HEAD: an object, a part of it, or the news that it has not changed.
 *
 * Bodies are sent straight from the object's bytes (a mapping, for packs); the response holds a reference
 * to the object until it is sent.
 */
#include <inttypes.h>
#include <stdio.h>

#include "server/range.h"
#include "server/request_priv.h"

/* By kind of object. Content that has its digest for a name never changes; nor do records and keys. What
 * can change is asked for again after a moment, cheaply, by its ETag. */
#define FOR_EVER "public, max-age=31536000, immutable"
#define FOR_A_MOMENT "public, max-age=5, must-revalidate"

struct kind {
	const char *type;
	const char *cache;
};

static const struct kind kinds[] = {
	[LDR_OBJECT_CHANNEL] = {"application/jose", FOR_A_MOMENT},
	[LDR_OBJECT_RELEASE] = {"application/jose", FOR_EVER},
	[LDR_OBJECT_PACK] = {"application/octet-stream", FOR_EVER},
	[LDR_OBJECT_KEY] = {"application/x-pem-file", FOR_EVER},
	[LDR_OBJECT_FORMAT] = {"text/plain; charset=utf-8", FOR_A_MOMENT},
};

static enum MHD_Result refuse_object(struct request *request, const struct ldr_error *error)
{
	char path[LDR_STORE_PATH_BYTES];

	switch (error->status) {
	case LDR_ENOTFOUND:
		ldr_store_path(&request->name, path);
		return request_refuse(request, MHD_HTTP_NOT_FOUND, "%s: not found", path);
	case LDR_ENOMEM:
	case LDR_EAGAIN:
		return request_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", error->text);
	default:
		return request_refuse(request, MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", error->text);
	}
}

static void sent(void *object)
{
	ldr_object_unref(object);
}

/* length bytes of the object from first on; takes the reference. */
static struct MHD_Response *body_response(struct ldr_object *object, uint64_t first,
					  uint64_t length)
{
	const char *bytes = ldr_object_bytes(object);
	/* The library takes the buffer as its own and only reads it. */
	void *part = (void *)(uintptr_t)(bytes + first);
	struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
		(size_t)length, part, sent, object);

	if (!response)
		ldr_object_unref(object);
	return response;
}

static void add_fields(const struct request *request, struct MHD_Response *response,
		       const char *etag)
{
	const struct kind *kind = &kinds[request->name.kind];

	request_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, kind->type);
	request_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, kind->cache);
	request_header(response, MHD_HTTP_HEADER_ETAG, etag);
	request_header(response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
}

static enum MHD_Result answer_object(struct request *request, struct ldr_object *object,
				     unsigned status, const struct ldr_range *range, bool head)
{
	char etag[LDR_ID_HEX_CHARS + 3];
	char extent[80];
	uint64_t size = ldr_object_length(object);
	uint64_t first = status == MHD_HTTP_PARTIAL_CONTENT ? range->first : 0;
	uint64_t length = status == MHD_HTTP_PARTIAL_CONTENT ? range->last - first + 1 : size;
	struct MHD_Response *response;

	snprintf(etag, sizeof(etag), "%s", ldr_object_etag(object));
	response = body_response(object, first, length);
	if (!response)
		return MHD_NO;
	add_fields(request, response, etag);
	if (status == MHD_HTTP_PARTIAL_CONTENT) {
		snprintf(extent, sizeof(extent), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first,
			 range->last, size);
		request_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, extent);
	}
	if (!head && status != MHD_HTTP_NOT_MODIFIED)
		request->answer_bytes = length;
	return request_answer(request, status, response);
}

static enum MHD_Result refuse_range(struct request *request, uint64_t size, const char *range)
{
	char extent[40];
	char quoted[LDR_QUOTE_BYTES];
	struct MHD_Response *response;

	snprintf(extent, sizeof(extent), "bytes */%" PRIu64, size);
	snprintf(request->reason, sizeof(request->reason), "range %s of %" PRIu64 " bytes",
		 ldr_path_quote(range, strlen(range), quoted), size);
	response = request_text(request->reason);
	if (response)
		request_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, extent);
	request->answer_bytes = strlen(request->reason) + 1;
	return request_answer(request, MHD_HTTP_RANGE_NOT_SATISFIABLE, response);
}

enum MHD_Result request_read(struct request *request, bool head)
{
	struct ldr_conditions conditions = {
		.if_match = request_field(request, MHD_HTTP_HEADER_IF_MATCH),
		.if_none_match = request_field(request, MHD_HTTP_HEADER_IF_NONE_MATCH),
		.if_range = request_field(request, MHD_HTTP_HEADER_IF_RANGE),
		.range = request_field(request, MHD_HTTP_HEADER_RANGE),
		.get = !head && request->one_range,
	};
	struct ldr_error error = {0};
	struct ldr_object *object;
	struct ldr_range range;
	uint64_t size;
	unsigned status;

	if (ldr_objects_get(request->http->options.objects, &request->name, &object, &error))
		return refuse_object(request, &error);
	size = ldr_object_length(object);
	status = ldr_conditions_judge(&conditions, ldr_object_etag(object), size, &range);
	if (status == 200 || status == 206 || status == 304)
		return answer_object(request, object, status, &range, head);
	ldr_object_unref(object);
	if (status == 416)
		return refuse_range(request, size, conditions.range);
	return request_refuse(request, status, "If-Match %s is not the current version",
			      conditions.if_match);
}
