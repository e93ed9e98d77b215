/*
 * A store to publish into: a folder, or a server over HTTP. (Reading goes through fetch.h, which needs
 * only GET and so works with any static server.)
 *
 * Both kinds promise the same: packs, releases and keys are immutable and safe on the disk before a
 * channel moves; a channel moves by compare-and-swap; whatever crashes leaves orphans, never a broken
 * channel. Publishing again after a failure sends only what is not there yet.
 *
 * Threads: one at a time.
 */
#ifndef LDR_CLIENT_STORE_H
#define LDR_CLIENT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/location.h"
#include "client/transport.h"
#include "packs/builder.h"
#include "packs/closure.h"

struct ldr_store;

struct ldr_store_options {
	struct ldr_transport_options transport; /* of HTTP stores */
	const char *staging_path; /* HTTP: folder for packs on their way up; made where missing */
};

/* Opens, making a folder store where there is none. LDR_EUNSUPPORTED: the folder is another format's, or
 * not empty and no store. */
LDR_API enum ldr_status ldr_store_open(const struct ldr_location *location,
				       const struct ldr_store_options *options,
				       struct ldr_store **out_store, struct ldr_error *err);
LDR_API void ldr_store_close(struct ldr_store *store); /* NULL is allowed */
void ldr_store_cleanup(struct ldr_store **store);
#define LDR_AUTO_STORE __attribute__((cleanup(ldr_store_cleanup)))

LDR_API const uint8_t *ldr_store_id(const struct ldr_store *store);
/* An object's bytes (owns: free(); a NUL behind them), or LDR_ENOTFOUND. */
LDR_API enum ldr_status ldr_store_get(struct ldr_store *store, const char *path, size_t max_bytes,
				      uint8_t **out_data, size_t *out_length,
				      struct ldr_error *err);
/* Publishes an immutable object. The same bytes there already is success, others are LDR_ECONFLICT. */
LDR_API enum ldr_status ldr_store_put(struct ldr_store *store, const char *path, const void *bytes,
				      size_t length, struct ldr_error *err);
/* Where a build's packs go; borrowed until close. A pack that is there already is not sent again. Packs
 * may still be on their way up when the build ends: ldr_store_settle waits for them. */
LDR_API const struct ldr_pack_sink *ldr_store_sink(struct ldr_store *store);
LDR_API enum ldr_status ldr_store_settle(struct ldr_store *store, struct ldr_error *err);
/* A record's bytes; borrowed. */
struct ldr_store_bytes {
	const void *data;
	size_t length;
};
/* Moves a channel from the record `expected` (NULL: the channel must not exist) to `record`.
 * LDR_ECONFLICT: somebody else has moved it. A folder store first checks what a server would: that the
 * new release is whole (packs/closure.h). */
LDR_API enum ldr_status ldr_store_move_channel(struct ldr_store *store, const char *channel,
					       const struct ldr_store_bytes *expected,
					       const struct ldr_store_bytes *record,
					       const struct ldr_release *release,
					       struct ldr_error *err);

/* Bytes of packs written or sent, and packs that were there already. */
LDR_API void ldr_store_traffic(const struct ldr_store *store, uint64_t *out_bytes,
			       uint32_t *out_packs_held);

#endif
