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
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/store_priv.h"
#include "common/bytes.h"
#include "common/keys.h"
#include "common/lock.h"
#include "common/os.h"
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

/* For the lock of channels/, which a publisher holds for as long as a few syncs take. */
#define LOCK_TRIES 200
#define LOCK_PAUSE_MS 10

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

static enum ldr_status moved_by_another(const struct folder_store *folder, const char *path,
					struct ldr_error *err)
{
	return ldr_fail(err, LDR_ECONFLICT, "%s/%s: moved by somebody else",
			ldr_root_path(folder->root), path);
}

/* LDR_EAGAIN: the folder's lock is held, by whoever moves this channel or another one. */
static enum ldr_status move_once(struct folder_store *folder, const char *path,
				 const struct ldr_store_bytes *expected,
				 const struct ldr_store_bytes *next, struct ldr_error *err)
{
	struct ldr_publish_options options = immutable;
	LDR_AUTO_FREE uint8_t *held = NULL;
	struct ldr_error why = {0};
	size_t held_length;
	enum ldr_status status = ldr_root_observe(folder->root, path, &options.stamp, &why);

	options.condition = LDR_IF_MATCHING;
	if (!status)
		status = folder_get(folder, path, LDR_RELEASE_MAX_BYTES, &held, &held_length, &why);
	if (status == LDR_ENOTFOUND)
		return moved_by_another(folder, path, err);
	if (!status &&
	    (held_length != expected->length || memcmp(held, expected->data, held_length) != 0))
		return moved_by_another(folder, path, err);
	if (!status)
		status = ldr_publish(folder->root, path, next->data, next->length, &options, NULL,
				     &why);
	if (!status)
		return LDR_OK;
	ldr_fail(err, status, "%s", why.text);
	return status == LDR_ECONFLICT ? LDR_EAGAIN : status;
}

/* What a killed publisher has left in the folders of this channel. */
static void sweep_channel(struct folder_store *folder, const char *path)
{
	char releases[LDR_STORE_PATH_BYTES];

	snprintf(releases, sizeof(releases), "releases/%s", strrchr(path, '/') + 1);
	ldr_root_sweep(folder->root, releases, NULL, NULL);
	ldr_root_sweep(folder->root, "channels", NULL, NULL);
}

static enum ldr_status folder_move_channel(void *self, const char *path,
					   const struct ldr_store_bytes *expected,
					   const struct ldr_store_bytes *record,
					   struct ldr_error *err)
{
	const struct timespec pause = {0, LOCK_PAUSE_MS * 1000000L};
	struct folder_store *folder = self;
	struct ldr_error why = {0};
	enum ldr_status status = LDR_EAGAIN;

	if (!expected)
		status = ldr_publish(folder->root, path, record->data, record->length, &immutable,
				     NULL, &why);
	for (int i = 0; status == LDR_EAGAIN && i < LOCK_TRIES; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		status = move_once(folder, path, expected, record, &why);
	}
	if (status == LDR_EAGAIN)
		status = LDR_ECONFLICT;
	if (status)
		return ldr_fail(err, status, "%s", why.text);
	sweep_channel(folder, path);
	return LDR_OK;
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
	int fd;
	int code = ldr_os_duplicate(ldr_stream_fd(stream), &fd);
	enum ldr_status status;

	if (code)
		return ldr_fail_errno(err, code, "pack just written");
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

/* A folder with something else in it is hardly meant: a wrong path must not fill it with packs. */
static enum ldr_status refuse_foreign(struct folder_store *folder, struct ldr_error *err)
{
	struct ldr_os_listing *listing = NULL;
	int code = ldr_os_listing_open(ldr_root_fd(folder->root), &listing);
	enum ldr_status status = LDR_OK;
	const char *name;
	mode_t type;

	while (!code && !status) {
		code = ldr_os_listing_next(listing, &name, &type);
		if (code || !name)
			break;
		/* Another first publication that is under way, and the root of a file system. */
		if (strncmp(name, ".larder-tmp.", 12) != 0 && strcmp(name, "lost+found") != 0)
			status = ldr_fail(err, LDR_EUNSUPPORTED,
					  "has \"%.100s\" in it and no FORMAT: not a store, and a "
					  "new one needs an empty folder",
					  name);
	}
	ldr_os_listing_close(listing);
	return code ? ldr_fail_errno(err, code, "list") : status;
}

static enum ldr_status open_format(struct folder_store *folder, struct ldr_store *store,
				   struct ldr_error *err)
{
	struct ldr_error first = {0};
	enum ldr_status status = read_format(folder, store, &first);

	if (status == LDR_ENOTFOUND) {
		struct ldr_error foreign = {0};

		status = refuse_foreign(folder, &foreign);
		/* Unless somebody has made a store of it since. */
		if (status && read_format(folder, store, &first) == LDR_OK)
			return LDR_OK;
		if (status)
			return ldr_fail(err, status, "%s", foreign.text);
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
