/*
 * remote.c   a release behind a server as a layer: the client's view of it, a block source of its own with a memory cache that
 * the layer knows, and all places of the map fetched when it is mounted (so that reads ask the view for nothing).
 */
#include "bench/vfs_bench/remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/vfs_bench/store.h"
#include "client/view.h"
#include "vfs/layer_tree.h"

#define HEADROOM_BYTES (64u * 1024 * 1024)

struct bench_remote {
	struct bench_store store;
	struct ldr_view *view;
	struct ldr_memory_cache *memory;
	struct ldr_source *source;
	struct ldr_placed_block *places;
	struct ldr_placement placement;
};

static enum ldr_status places_of(void *context, uint64_t first, uint64_t count,
				 struct ldr_placed_block *out, struct ldr_error *err)
{
	const struct bench_remote *remote = context;

	(void)err;
	for (uint64_t i = 0; i < count; i++)
		out[i] = remote->places[first + i];
	return LDR_OK;
}

static enum ldr_status open_view(struct bench_remote *remote, const char *cache,
				 struct ldr_error *err)
{
	struct ldr_view_options options = {.cache_path = cache, .key_count = 1};
	struct ldr_public_key *keys[] = {remote->store.trust};
	struct ldr_location location = {0};
	enum ldr_status status;

	options.keys = keys;
	status = ldr_location_parse_source(remote->store.source, &location, err);
	if (status)
		return status;
	status = ldr_view_open(&location, &options, &remote->view, err);
	ldr_location_dispose(&location);
	return status;
}

static enum ldr_status open_source(struct bench_remote *remote, const struct bench_env *env,
				   struct ldr_error *err)
{
	size_t room = (size_t)(env->item_bytes + env->item_bytes / 4 + HEADROOM_BYTES);
	enum ldr_status status = ldr_memory_cache_new(room, &remote->memory, err);

	if (status == LDR_OK)
		status = ldr_source_new(remote->memory, ldr_view_disk(remote->view),
					&remote->source, err);
	if (status == LDR_OK)
		ldr_source_set_upstream(remote->source, ldr_view_upstream(remote->view));
	return status;
}

static enum ldr_status open_layer(struct bench_remote *remote, struct ldr_layer **out_layer,
				  struct ldr_error *err)
{
	struct ldr_tree_layer_parts parts = {.size = sizeof(parts), .is_release = true};
	struct ldr_tree_totals totals;
	enum ldr_status status = ldr_view_tree(remote->view, &parts.tree, err);

	if (status)
		return status;
	totals = *ldr_tree_totals(parts.tree);
	remote->places = calloc(totals.blocks + 1, sizeof(*remote->places));
	if (!remote->places)
		return ldr_fail(err, LDR_ENOMEM, "places of %llu blocks",
				(unsigned long long)totals.blocks);
	status = ldr_view_places(remote->view, 0, totals.blocks, remote->places, err);
	if (status)
		return status;
	remote->placement = (struct ldr_placement){.context = remote, .places = places_of};
	parts.source = remote->source;
	parts.memory = remote->memory;
	parts.placement = &remote->placement;
	return ldr_layer_tree_new(&parts, out_layer, err);
}

bool bench_remote_mount(struct bench_mounts *mounts, const struct bench_env *env, bool cold)
{
	struct bench_remote *remote = calloc(1, sizeof(*remote));
	char *cache = bench_join(env->made, cold ? "cache-cold" : "cache-warm");
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};
	enum ldr_status status = LDR_ENOMEM;
	bool up = remote && bench_store_up(env, &remote->store);

	mounts->remote = remote;
	if (up)
		status = open_view(remote, cache, &error);
	if (up && status == LDR_OK)
		status = open_source(remote, env, &error);
	if (up && status == LDR_OK)
		status = open_layer(remote, &layer, &error);
	free(cache);
	if (up && status)
		bench_say("remote: %s", error.text);
	return up && status == LDR_OK && bench_mount(mounts, layer, NULL, 0, "release");
}

void bench_remote_free(struct bench_remote *remote)
{
	if (!remote)
		return;
	ldr_source_free(remote->source);
	ldr_memory_cache_free(remote->memory);
	ldr_view_close(remote->view);
	free(remote->places);
	bench_store_down(&remote->store);
	free(remote);
}

bool bench_remote_chill(void *self)
{
	struct bench_mounts *mounts = self;
	struct ldr_disk_cache *disk = ldr_view_disk(mounts->remote->view);
	struct ldr_error error = {0};

	ldr_memory_clear(mounts->remote->memory);
	if (ldr_disk_flush(disk, &error) || ldr_disk_trim(disk, 0, &error)) {
		bench_say("cold cache: %s", error.text);
		return false;
	}
	return true;
}
