/*
 * A store to publish into; see store.h. What the kinds have in common.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "client/store_priv.h"

enum ldr_status ldr_store_open(const struct ldr_location *location,
			       const struct ldr_store_options *options,
			       struct ldr_store **out_store, struct ldr_error *err)
{
	LDR_AUTO_STORE struct ldr_store *store = calloc(1, sizeof(*store));
	enum ldr_status status;

	if (!store)
		return ldr_fail(err, LDR_ENOMEM, "store %s: out of memory", location->text);
	if (location->kind == LDR_LOCATION_FOLDER)
		status = ldr_store_folder_open(location, store, err);
	else
		status = ldr_store_http_open(location, options, store, err);
	if (!status)
		*out_store = LDR_STEAL(store);
	return status;
}

void ldr_store_close(struct ldr_store *store)
{
	if (!store)
		return;
	if (store->kind)
		store->kind->close(store->self);
	free(store);
}

void ldr_store_cleanup(struct ldr_store **store)
{
	ldr_store_close(*store);
}

const uint8_t *ldr_store_id(const struct ldr_store *store)
{
	return store->id;
}

enum ldr_status ldr_store_get(struct ldr_store *store, const char *path, size_t max_bytes,
			      uint8_t **out_data, size_t *out_length, struct ldr_error *err)
{
	return store->kind->get(store->self, path, max_bytes, out_data, out_length, err);
}

enum ldr_status ldr_store_put(struct ldr_store *store, const char *path, const void *bytes,
			      size_t length, struct ldr_error *err)
{
	return store->kind->put(store->self, path, bytes, length, err);
}

const struct ldr_pack_sink *ldr_store_sink(struct ldr_store *store)
{
	return &store->sink;
}

enum ldr_status ldr_store_settle(struct ldr_store *store, struct ldr_error *err)
{
	return store->kind->settle(store->self, err);
}

enum ldr_status ldr_store_move_channel(struct ldr_store *store, const char *channel,
				       const struct ldr_store_bytes *expected,
				       const struct ldr_store_bytes *record,
				       const struct ldr_release *release, struct ldr_error *err)
{
	char path[LDR_STORE_PATH_BYTES];
	enum ldr_status status = LDR_OK;

	ldr_store_channel_path(channel, path);
	if (store->kind->check)
		status = store->kind->check(store->self, release, err);
	if (status)
		return ldr_error_prefix(err, status, "channel %s stays: sequence %" PRIu64, channel,
					release->sequence);
	return store->kind->move_channel(store->self, path, expected, record, err);
}

void ldr_store_traffic(const struct ldr_store *store, uint64_t *out_bytes, uint32_t *out_packs_held)
{
	*out_bytes = store->bytes;
	*out_packs_held = store->packs_held;
}
