/*
 * The inside of an upload: upload.c takes the bytes, upload_publish.c checks and publishes them.
 */
#ifndef LDR_SERVER_UPLOAD_PRIV_H
#define LDR_SERVER_UPLOAD_PRIV_H

#include <stdatomic.h>

#include "common/bytes.h"
#include "server/upload.h"

struct ldr_desk {
	struct ldr_desk_options options;
	atomic_uint uploads;
};

struct ldr_upload {
	struct ldr_desk *desk;
	struct ldr_object_name name;
	char path[LDR_STORE_PATH_BYTES];
	uint64_t length; /* that was promised */
	uint64_t received;
	bool replaces;  /* a broken pack is in the way */
	bool only_new;  /* If-None-Match: * */
	char *if_match; /* owns; NULL: none */

	struct ldr_stream *stream; /* packs */
	struct ldr_buffer bytes;   /* packs: what is not appended yet; others: all of it */
	enum ldr_status status;    /* of the first failure */
	struct ldr_error error;
};

/* Fills the reply for a failure; returns its HTTP status. */
unsigned upload_refuse(struct ldr_reply *reply, enum ldr_status status,
		       const struct ldr_error *error);
void upload_say(struct ldr_reply *reply, unsigned status, const char *fmt, ...) LDR_PRINTF(3, 4);
/* ETag of these bytes; "" when there is no memory for it. */
void upload_etag(const void *bytes, size_t length, char etag[LDR_ID_HEX_CHARS + 3]);

void upload_publish_pack(struct ldr_upload *upload, struct ldr_reply *reply);
void upload_publish_key(struct ldr_upload *upload, struct ldr_reply *reply);
void upload_publish_release(struct ldr_upload *upload, struct ldr_reply *reply);
void upload_publish_channel(struct ldr_upload *upload, struct ldr_reply *reply);

#endif
