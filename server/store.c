/*
 * The store's folder; see store.h.
 */
#include "server/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "common/keys.h"
#include "common/os.h"

/* Large enough to show what a foreign FORMAT says. */
#define FORMAT_MAX_BYTES 4096u

static enum ldr_status make_format(const struct ldr_root *root, struct ldr_error *err)
{
	static const struct ldr_publish_options options = {
		.sync = LDR_SYNC_FILE_AND_FOLDER,
		.condition = LDR_IF_MISSING,
	};
	uint8_t id[LDR_STORE_ID_BYTES];
	char text[LDR_STORE_FORMAT_BYTES + 1];
	struct ldr_publish_result result;
	enum ldr_status status = ldr_random(id, sizeof(id), err);

	if (status)
		return status;
	ldr_store_format_write(id, text);
	status = ldr_publish(root, LDR_STORE_FORMAT_PATH, text, LDR_STORE_FORMAT_BYTES, &options,
			     &result, err);
	/* Somebody else has just made it: theirs counts. */
	return status == LDR_ECONFLICT ? LDR_OK : status;
}

static enum ldr_status read_format(struct ldr_store_folder *store, const char *path,
				   struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	char name[LDR_STORE_PATH_BYTES + 256];
	size_t length = 0;
	enum ldr_status status = ldr_root_read_file(store->root, LDR_STORE_FORMAT_PATH,
						    FORMAT_MAX_BYTES, &text, &length, err);

	if (status)
		return status;
	snprintf(name, sizeof(name), "%s/%s", path, LDR_STORE_FORMAT_PATH);
	return ldr_store_format_parse((const char *)text, length, name, store->id, err);
}

/* A folder that is not there has nothing to sweep, and what cannot be swept does not stop a server. */
static void sweep(struct ldr_store_folder *store, const char *folder)
{
	unsigned count = 0;

	if (ldr_root_sweep(store->root, folder, &count, NULL) == LDR_OK)
		store->swept += count;
}

static void sweep_releases(struct ldr_store_folder *store)
{
	struct ldr_os_listing *listing = NULL;
	char folder[LDR_STORE_PATH_BYTES + 256];
	const char *name;
	mode_t type;
	LDR_AUTO_FD int fd = -1;

	if (ldr_os_open_beneath(ldr_root_fd(store->root), "releases", O_RDONLY | O_DIRECTORY, 0,
				&fd) ||
	    ldr_os_listing_open(fd, &listing))
		return;
	while (ldr_os_listing_next(listing, &name, &type) == 0 && name) {
		snprintf(folder, sizeof(folder), "releases/%s", name);
		sweep(store, folder);
	}
	ldr_os_listing_close(listing);
}

enum ldr_status ldr_store_folder_open(const char *path, struct ldr_store_folder *out_store,
				      struct ldr_error *err)
{
	struct ldr_store_folder store = {0};
	enum ldr_status status = ldr_root_open(path, true, &store.root, err);

	if (status)
		return ldr_error_prefix(err, status, "store %s", path);
	status = read_format(&store, path, err);
	if (status == LDR_ENOTFOUND) {
		status = make_format(store.root, err);
		if (!status)
			status = read_format(&store, path, err);
	}
	if (status) {
		ldr_store_folder_close(&store);
		return ldr_error_prefix(err, status, "store %s", path);
	}
	sweep(&store, "");
	sweep(&store, "channels");
	sweep(&store, "keys");
	sweep(&store, "packs");
	sweep_releases(&store);
	*out_store = store;
	return LDR_OK;
}

void ldr_store_folder_close(struct ldr_store_folder *store)
{
	ldr_root_close(store->root);
	store->root = NULL;
}
