/*
 * One object on its way into the store: its bytes, the checks, the publication.
 *
 *   begin    may refuse, or say that the object is there already, before a byte of the body has come
 *   append   bytes of the body; a failure is kept for finish
 *   finish   checks and publishes; takes long (syncs, a whole pack decoded), so it belongs in a worker
 *
 * Invariants
 *  1. Nothing appears under its name before it has been checked whole.
 *  2. Objects named by their content, records and keys are published only where nothing is (or where a
 *     pack is that its own trailer contradicts); a channel only over the version that was named.
 *  3. Putting again what is there is a success, so a publication is resumed by doing it again.
 *  4. A failure leaves no temporary behind and changes nothing.
 *
 * Threads: an upload belongs to one thread at a time; the desk may be used by any.
 */
#ifndef LDR_SERVER_UPLOAD_H
#define LDR_SERVER_UPLOAD_H

#include <stdbool.h>

#include "server/admit.h"
#include "server/objects.h"

/* Largest pack that is taken. */
#define LDR_UPLOAD_PACK_MAX_BYTES (UINT64_C(4) << 30)
/* Uploads at once. */
#define LDR_UPLOADS_MAX 64

/* What all uploads share. */
struct ldr_desk;
struct ldr_upload;

/* Borrowed until free. */
struct ldr_desk_options {
	struct ldr_admission admission;
	struct ldr_objects *objects; /* told what has changed */
};

enum ldr_status ldr_desk_new(const struct ldr_desk_options *options, struct ldr_desk **out_desk,
			     struct ldr_error *err);
void ldr_desk_free(struct ldr_desk *desk); /* NULL is allowed; no upload may be left */

/* The answer to a PUT. etag is "" when there is none. */
struct ldr_reply {
	unsigned status;
	char text[LDR_ERROR_TEXT_BYTES];
	char etag[LDR_ID_HEX_CHARS + 3];
};

/* The request's header; conditions NULL when it has none. */
struct ldr_upload_head {
	struct ldr_object_name name;
	uint64_t length;
	const char *if_match; /* borrowed for begin */
	const char *if_none_match;
};

/* The upload, or NULL with the reply filled: refused, or nothing to do. */
struct ldr_upload *ldr_upload_begin(struct ldr_desk *desk, const struct ldr_upload_head *head,
				    struct ldr_reply *out_reply);
void ldr_upload_append(struct ldr_upload *upload, const void *bytes, size_t length);
void ldr_upload_finish(struct ldr_upload *upload, struct ldr_reply *out_reply);
/* Takes away what was not published; NULL is allowed. */
void ldr_upload_free(struct ldr_upload *upload);

/* The HTTP status that a publisher's failure means. */
unsigned ldr_upload_http_status(enum ldr_status status);

#endif
