/*
 * What the two kinds of stores give to store.c: one table of functions each.
 */
#ifndef LDR_CLIENT_STORE_PRIV_H
#define LDR_CLIENT_STORE_PRIV_H

#include "client/store.h"

struct ldr_store_kind {
	enum ldr_status (*get)(void *self, const char *path, size_t max_bytes, uint8_t **out_data,
			       size_t *out_length, struct ldr_error *err);
	enum ldr_status (*put)(void *self, const char *path, const void *bytes, size_t length,
			       struct ldr_error *err);
	enum ldr_status (*settle)(void *self, struct ldr_error *err);
	enum ldr_status (*move_channel)(void *self, const char *path,
					const struct ldr_store_bytes *expected,
					const struct ldr_store_bytes *record,
					struct ldr_error *err);
	/* Before a channel moves: is the release whole? NULL where the other side checks. */
	enum ldr_status (*check)(void *self, const struct ldr_release *release,
				 struct ldr_error *err);
	void (*close)(void *self);
};

struct ldr_store {
	const struct ldr_store_kind *kind;
	void *self; /* owns */
	uint8_t id[LDR_STORE_ID_BYTES];
	struct ldr_pack_sink sink;
	uint64_t bytes;
	uint32_t packs_held;
};

/* Fill kind, self, id and sink. */
enum ldr_status ldr_store_folder_open(const struct ldr_location *location, struct ldr_store *store,
				      struct ldr_error *err);
enum ldr_status ldr_store_http_open(const struct ldr_location *location,
				    const struct ldr_store_options *options,
				    struct ldr_store *store, struct ldr_error *err);

#endif
