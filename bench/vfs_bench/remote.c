/*
 * remote.c   a release behind a server as a layer, with a memory cache that holds all its data.
 *
 * The cold target gets a new layer with a new, empty disk cache before each run, put in place of the old one as a live switch of
 * releases is.
 */
#include "bench/vfs_bench/remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/store.h"
#include "bench/vfs_bench/packs.h"

#define HEADROOM_BYTES (64u * 1024 * 1024)

struct bench_remote {
	struct bench_store store;
	char *made;
	size_t memory_bytes;
	uint32_t mount_id;
	unsigned switches;
};

/* Two folders more than the present one are never left. */
static char *cold_folder(const struct bench_remote *remote, unsigned number)
{
	char name[32];

	snprintf(name, sizeof(name), "cache-cold-%u", number);
	return bench_join(remote->made, name);
}

bool bench_remote_mount(struct bench_mounts *mounts, const struct bench_env *env, bool cold)
{
	struct bench_remote *remote = calloc(1, sizeof(*remote));
	struct ldr_layer *layer = NULL;
	char *cache;
	const struct bench_store_request request = {env->tree, env->made, env->program,
						    bench_pack_chunks(env)};
	bool good;

	if (!remote)
		return false;
	mounts->remote = remote;
	remote->made = bench_copy(env->made);
	remote->memory_bytes = (size_t)(env->item_bytes + env->item_bytes / 4 + HEADROOM_BYTES);
	cache = cold ? cold_folder(remote, 0) : bench_join(env->made, "cache-warm");
	good = bench_store_up(&request, &remote->store) &&
	       bench_store_layer(&remote->store, cache, remote->memory_bytes, &layer) &&
	       bench_mount(mounts, layer, NULL, 0, "release");
	remote->mount_id = mounts->last_id;
	free(cache);
	return good;
}

void bench_remote_free(struct bench_remote *remote)
{
	if (!remote)
		return;
	bench_store_down(&remote->store);
	free(remote->made);
	free(remote);
}

bool bench_remote_chill(void *self)
{
	struct bench_mounts *mounts = self;
	struct bench_remote *remote = mounts->remote;
	struct ldr_mount mount = {.id = remote->mount_id};
	struct ldr_error error = {0};
	unsigned number = ++remote->switches;
	char *fresh = cold_folder(remote, number);
	char *old = number > 1 ? cold_folder(remote, number - 2) : NULL;
	bool good = bench_store_layer(&remote->store, fresh, remote->memory_bytes, &mount.layer);

	if (good && ldr_vfs_apply(mounts->vfs, &mount, 1, &error)) {
		bench_say("switch: %s", error.text);
		good = false;
	}
	ldr_layer_unref(mount.layer);
	ldr_vfs_settle(mounts->vfs);
	if (old)
		bench_remove_all(old);
	free(old);
	free(fresh);
	return good;
}
