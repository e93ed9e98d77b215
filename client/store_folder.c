/*
 * A folder as a store; see store.h.
 *
 * Invariants
 *  1. Every object goes through the publisher with LDR_SYNC_FILE_AND_FOLDER: when a channel moves, what
 *     it names is on the disk.
 *  2. A block was digested, encoded and decoded back when it was made (packs/codec); before a pack is
 *     published its index is digested, and every stored block is read again from the file and tested
 *     against its checksum.
 *  3. A sealed pack is checked, synced and named by a thread of its own while the next one is built; at
 *     most one is under way. Settling waits for it, and a failure of it is the next call's.
 *  4. A channel moves under the publisher's folder lock, after its bytes were compared with those that
 *     the caller built upon.
 */
#include <stdlib.h>
#include <unistd.h>

#include "client/store_priv.h"
#include "common/bytes.h"
#include "common/keys.h"
#include "common/lock.h"
#include "packs/layout.h"
#include "packs/pack_reader.h"

/* A pack on its way into the folder. The thread's own while it runs. */
struct sealed_pack {
	struct ldr_stream *stream; /* owns; NULL when it has been committed or given up */
	struct ldr_id id;
	uint64_t size_bytes;
	bool held; /* the same pack was there already */
	enum ldr_status status;
	struct ldr_error error;
};

struct folder_store {
	struct ldr_root *root;
	struct ldr_store *store; /* borrowed: for its figures */
	bool running;            /* thread works on sealed */
	pthread_t thread;
	struct sealed_pack sealed;
};

static const struct ldr_publish_options immutable = {
	.sync = LDR_SYNC_FILE_AND_FOLDER,
	.condition = LDR_IF_MISSING,
	.max_bytes = LDR_RELEASE_MAX_BYTES,
	.make_parents = true,
};

static enum ldr_status folder_get(void *self, const char *path, size_t max_bytes,
				  uint8_t **out_data, size_t *out_length, struct ldr_error *err)
{
	struct folder_store *folder = self;

	return ldr_root_read_file(folder->root, path, max_bytes, out_data, out_length, err);
}

/* An immutable object that is there already is a success when its bytes are the same. */
static enum ldr_status compare_held(struct folder_store *folder, const char *path,
				    const void *bytes, size_t length, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *held = NULL;
	size_t held_length;
	enum ldr_status status = folder_get(folder, path, LDR_RELEASE_MAX_BYTES, &held,
					    &held_length, err);

	if (!status && (held_length != length || memcmp(held, bytes, length) != 0))
		status = ldr_fail(err, LDR_ECONFLICT, "%s/%s: exists with other bytes",
				  ldr_root_path(folder->root), path);
	return status;
}

static enum ldr_status folder_put(void *self, const char *path, const void *bytes, size_t length,
				  struct ldr_error *err)
{
	struct folder_store *folder = self;
	struct ldr_error conflict = {0};
	enum ldr_status status = ldr_publish(folder->root, path, bytes, length, &immutable, NULL,
					     &conflict);

	if (status == LDR_ECONFLICT)
		return compare_held(folder, path, bytes, length, err);
	if (status)
		return ldr_fail(err, status, "%s", conflict.text);
	return LDR_OK;
}

static enum ldr_status folder_move_channel(void *self, const char *path, const void *expected,
					   size_t expected_length, const void *record,
					   size_t record_length, struct ldr_error *err)
{
	struct folder_store *folder = self;
	struct ldr_publish_options options = immutable;
	LDR_AUTO_FREE uint8_t *held = NULL;
	size_t held_length;
	enum ldr_status status = LDR_OK;

	if (expected) {
		options.condition = LDR_IF_MATCHING;
		status = ldr_root_observe(folder->root, path, &options.stamp, err);
		if (!status)
			status = folder_get(folder, path, LDR_RELEASE_MAX_BYTES, &held,
					    &held_length, err);
		if (!status && (held_length != expected_length ||
				memcmp(held, expected, expected_length) != 0))
			status = ldr_fail(err, LDR_ECONFLICT, "%s/%s: moved by somebody else",
					  ldr_root_path(folder->root), path);
	}
	if (!status)
		status = ldr_publish(folder->root, path, record, record_length, &options, NULL,
				     err);
	return status;
}

/* ---- packs ---- */

static enum ldr_status folder_begin(void *context, struct ldr_stream **out_stream,
				    struct ldr_error *err)
{
	struct folder_store *folder = context;
	struct ldr_publish_options options = immutable;

	options.max_bytes = 0;
	return ldr_stream_begin(folder->root, "packs", &options, out_stream, err);
}

static enum ldr_status verify_written(struct ldr_stream *stream, const struct ldr_id *id,
				      struct ldr_error *err)
{
	/* Mapped: the file is ours alone until it is published. */
	struct ldr_pack_options options = {.mode = LDR_PACK_MAP, .expected_id = id};
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	int fd = dup(ldr_stream_fd(stream));
	enum ldr_status status;

	if (fd < 0)
		return ldr_fail(err, LDR_EIO, "pack: no descriptor");
	status = ldr_pack_open_fd(fd, "pack just written", &options, &pack, err);
	return status ? status : ldr_pack_verify_stored(pack, err);
}

static void *commit_sealed(void *argument)
{
	struct sealed_pack *sealed = argument;
	struct ldr_stream *stream = LDR_STEAL(sealed->stream);
	char path[LDR_STORE_PATH_BYTES];

	sealed->status = verify_written(stream, &sealed->id, &sealed->error);
	if (sealed->status) {
		ldr_stream_abort(stream);
		return NULL;
	}
	ldr_store_pack_path(&sealed->id, path);
	sealed->status = ldr_stream_commit(stream, path, NULL, &sealed->error);
	sealed->held = sealed->status == LDR_ECONFLICT;
	if (sealed->held)
		sealed->status = LDR_OK;
	return NULL;
}

static enum ldr_status folder_settle(void *self, struct ldr_error *err)
{
	struct folder_store *folder = self;
	const struct sealed_pack *sealed = &folder->sealed;

	if (!folder->running)
		return LDR_OK;
	pthread_join(folder->thread, NULL);
	folder->running = false;
	if (sealed->status)
		return ldr_fail(err, sealed->status, "%s", sealed->error.text);
	if (sealed->held)
		folder->store->packs_held++;
	else
		folder->store->bytes += sealed->size_bytes;
	return LDR_OK;
}

static enum ldr_status folder_finish(void *context, struct ldr_stream *stream,
				     const struct ldr_id *id, uint64_t size_bytes, uint32_t ordinal,
				     struct ldr_error *err)
{
	struct folder_store *folder = context;
	enum ldr_status status = folder_settle(folder, err);

	(void)ordinal;
	if (!status) {
		folder->sealed = (struct sealed_pack){
			.stream = stream, .id = *id, .size_bytes = size_bytes};
		status = ldr_thread_start(&folder->thread, commit_sealed, &folder->sealed, err);
	}
	folder->running = !status;
	if (status)
		ldr_stream_abort(stream);
	return status;
}

/* ---- closure ---- */

static enum ldr_status open_pack(void *context, const struct ldr_release_pack *listed,
				 struct ldr_pack **out_pack, struct ldr_error *err)
{
	struct folder_store *folder = context;
	struct ldr_pack_options options = {.expected_id = &listed->id};
	char path[LDR_STORE_PATH_BYTES];
	int fd;
	enum ldr_status status;

	ldr_store_pack_path(&listed->id, path);
	status = ldr_root_open_file(folder->root, path, &fd, err);
	return status ? status : ldr_pack_open_fd(fd, path, &options, out_pack, err);
}

static enum ldr_status folder_check(void *self, const struct ldr_release *release,
				    struct ldr_error *err)
{
	const struct ldr_closure_packs packs = {.open = open_pack, .context = self};

	return ldr_closure_check(release, &packs, NULL, err);
}

/* ---- opening ---- */

static enum ldr_status make_format(struct folder_store *folder, struct ldr_store *store,
				   struct ldr_error *err)
{
	char text[LDR_STORE_FORMAT_BYTES + 1];
	enum ldr_status status = ldr_random(store->id, LDR_STORE_ID_BYTES, err);

	if (status)
		return status;
	ldr_store_format_write(store->id, text);
	return ldr_publish(folder->root, LDR_STORE_FORMAT_PATH, text, strlen(text), &immutable,
			   NULL, err);
}

static enum ldr_status read_format(struct folder_store *folder, struct ldr_store *store,
				   struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	size_t length;
	enum ldr_status status = ldr_root_read_file(folder->root, LDR_STORE_FORMAT_PATH, 4096,
						    &text, &length, err);

	if (status)
		return status;
	return ldr_store_format_parse((char *)text, length, ldr_root_path(folder->root), store->id,
				      err);
}

static enum ldr_status open_format(struct folder_store *folder, struct ldr_store *store,
				   struct ldr_error *err)
{
	struct ldr_error first = {0};
	enum ldr_status status = read_format(folder, store, &first);

	if (status == LDR_ENOTFOUND) {
		status = make_format(folder, store, &first);
		/* Two first publications at once: the slower takes the faster one's. */
		if (status == LDR_ECONFLICT)
			status = read_format(folder, store, &first);
	}
	return status ? ldr_fail(err, status, "%s", first.text) : LDR_OK;
}

static void folder_close(void *self)
{
	struct folder_store *folder = self;

	folder_settle(folder, NULL);
	ldr_root_close(folder->root);
	free(folder);
}

static const struct ldr_store_kind folder_kind = {
	.get = folder_get,
	.put = folder_put,
	.settle = folder_settle,
	.move_channel = folder_move_channel,
	.check = folder_check,
	.close = folder_close,
};

enum ldr_status ldr_store_folder_open(const struct ldr_location *location, struct ldr_store *store,
				      struct ldr_error *err)
{
	struct folder_store *folder = calloc(1, sizeof(*folder));
	enum ldr_status status;

	if (!folder)
		return ldr_fail(err, LDR_ENOMEM, "store %s: out of memory", location->text);
	folder->store = store;
	store->self = folder;
	store->kind = &folder_kind;
	store->sink = (struct ldr_pack_sink){
		.begin = folder_begin, .finish = folder_finish, .context = folder};
	status = ldr_root_open(location->path, true, &folder->root, err);
	if (!status)
		status = open_format(folder, store, err);
	if (!status)
		status = ldr_root_make_folder(folder->root, "packs", err);
	if (!status)
		status = ldr_root_sweep(folder->root, "packs", NULL, err);
	return ldr_error_prefix(err, status, "store %s", location->text);
}
