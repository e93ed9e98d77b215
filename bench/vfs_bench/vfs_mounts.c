/*
 * vfs_mounts.c   layers made and mounted as a recipe says.
 */
#include "bench/vfs_bench/vfs_mounts.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/process.h"
#include "bench/vfs_bench/laps.h"
#include "bench/vfs_bench/packs.h"
#include "bench/vfs_bench/remote.h"
#include "bench/vfs_bench/vfs_targets.h"
#include "vfs/layer_memory.h"
#include "vfs/layer_native.h"
#include "vfs/layer_tree.h"

#define NESTED_POINT "n1/n2/n3/n4/n5/n6/n7/n8"
#define UNRELATED_MOUNTS 32
/* Room in memory layers and caches beyond the data. */
#define HEADROOM_BYTES (64u * 1024 * 1024)
/* Written by 256 threads at most, and never all at once: taken only when it is used. */
#define MEMORY_LAYER_BYTES ((uint64_t)16 * 1024 * 1024 * 1024)

static bool say_error(const char *what, const struct ldr_error *error)
{
	bench_say("%s: %s", what, error->text);
	return false;
}

bool bench_mount(struct bench_mounts *mounts, struct ldr_layer *layer, const char *at,
		 unsigned flags, const char *what)
{
	struct ldr_error error = {0};
	struct ldr_mount mount = {
		.id = ++mounts->last_id, .layer = layer, .at = at, .flags = flags};
	enum ldr_status status = ldr_vfs_mount(mounts->vfs, &mount, &error);

	ldr_layer_unref(layer);
	return status == LDR_OK || say_error(what, &error);
}

/* A folder that is written through a layer has one owner, and targets are up side by side: each but the plain one
 * writes in a tree of its own, whose files are the same by hard links. NULL, having said so, when that fails. */
static char *tree_of(const struct bench_env *env, unsigned parts)
{
	const unsigned others = BENCH_PART_TRUSTED | BENCH_PART_WATCHED;
	char *tree, *owner;
	bool good;

	if (!env->own_tree || !(parts & others))
		return bench_copy(env->tree);
	tree = bench_join(env->made, parts & BENCH_PART_TRUSTED ? "tree-trusted" : "tree-watched");
	/* What the plain one keeps for itself is not linked. */
	owner = bench_join(tree, ".larder");
	good = bench_process_run((const char *const[]){"rm", "-rf", tree, NULL}) &&
	       bench_process_run((const char *const[]){"cp", "-al", env->tree, tree, NULL}) &&
	       bench_process_run((const char *const[]){"rm", "-rf", owner, NULL});
	free(owner);
	if (good)
		return tree;
	bench_say("%s: cannot be linked to %s", tree, env->tree);
	free(tree);
	return NULL;
}

static bool mount_native(struct bench_mounts *mounts, const struct bench_env *env, unsigned parts)
{
	const struct ldr_native_options options = {
		.size = sizeof(options),
		.read_only = !env->own_tree,
		.trusted = parts & BENCH_PART_TRUSTED,
		.watched = parts & BENCH_PART_WATCHED,
	};
	char *tree = tree_of(env, parts);
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};
	bool good = tree && ldr_layer_native_new(tree, &options, &layer, &error) == LDR_OK;

	if (tree && !good)
		say_error(tree, &error);
	free(tree);
	if (!good)
		return false;
	return bench_mount(mounts, layer, NULL, env->own_tree ? LDR_MOUNT_WRITE : 0, "native");
}

static bool mount_empty(struct bench_mounts *mounts, const char *at, unsigned flags)
{
	const struct ldr_memory_layer_options options = {.size = sizeof(options),
							 .max_bytes = MEMORY_LAYER_BYTES};
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};

	if (ldr_layer_memory_new(&options, &layer, &error))
		return say_error("memory layer", &error);
	return bench_mount(mounts, layer, at, flags, "memory");
}

static bool put_all(struct ldr_layer *layer, const struct bench_env *env)
{
	struct ldr_error error = {0};
	bool good = true;

	for (size_t i = 0; good && i < env->item_count; i++) {
		const struct bench_item *item = &env->items[i];
		uint8_t *bytes = malloc(item->size + 1);

		good = bytes && bench_item_load(env, item, bytes);
		if (good && ldr_layer_memory_put(layer, item->path, bytes, item->size, &error))
			good = say_error(item->path, &error);
		free(bytes);
	}
	return good;
}

static bool mount_memory(struct bench_mounts *mounts, const struct bench_env *env)
{
	const struct ldr_memory_layer_options options = {.size = sizeof(options),
							 .max_bytes = MEMORY_LAYER_BYTES};
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};

	if (ldr_layer_memory_new(&options, &layer, &error))
		return say_error("memory layer", &error);
	if (!put_all(layer, env)) {
		ldr_layer_unref(layer);
		return false;
	}
	return bench_mount(mounts, layer, NULL, LDR_MOUNT_WRITE, "memory");
}

static bool mount_archive(struct bench_mounts *mounts, const struct bench_env *env,
			  const struct bench_recipe *recipe)
{
	struct ldr_archive_options options = {.size = sizeof(options)};
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};
	enum ldr_status status;
	uint64_t began;
	char *path;

	options.map = recipe->parts & BENCH_PART_MAPPED;
	options.memory_bytes = recipe->parts & BENCH_PART_EIGHTH
				       ? (size_t)(env->item_bytes / 8)
				       : (size_t)(env->item_bytes + env->item_bytes / 4 +
						  HEADROOM_BYTES);
	if (recipe->pack == BENCH_PACK_AES)
		options.key = bench_pack_key();
	if (recipe->parts & BENCH_PART_EMBEDDED) {
		options.base = BENCH_EMBEDDED_BASE;
		path = bench_embedded(env, &options.length);
	} else {
		path = bench_pack(env, (enum bench_pack_kind)recipe->pack);
	}
	if (!path)
		return false;
	began = bench_now();
	status = ldr_layer_archive_open(path, &options, &layer, &error);
	mounts->archive_ms = (double)(bench_now() - began) / 1e6;
	free(path);
	if (status)
		return say_error("archive", &error);
	return bench_mount(mounts, layer, mounts->data_point, 0, "archive");
}

static bool mount_override(struct bench_mounts *mounts, const struct bench_env *env, bool watched)
{
	const struct ldr_native_options options = {
		.size = sizeof(options), .watched = watched, .make = true};
	char *folder = bench_join(env->made, "override");
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};
	enum ldr_status status = ldr_layer_native_new(folder, &options, &layer, &error);

	free(folder);
	if (status)
		return say_error("override", &error);
	return bench_mount(mounts, layer, NULL, LDR_MOUNT_OVERRIDE, "override");
}

/* Empty memory on the root and each folder above the data, and mounts that have nothing to do with it. */
static bool mount_around(struct bench_mounts *mounts)
{
	char at[] = NESTED_POINT;
	bool good = mount_empty(mounts, NULL, 0);

	for (char *end = at; good && *end; end++) {
		if (*end != '/')
			continue;
		*end = '\0';
		good = mount_empty(mounts, at, 0);
		*end = '/';
	}
	for (int i = 0; good && i < UNRELATED_MOUNTS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "unrelated/%02d", i);
		good = mount_empty(mounts, name, 0);
	}
	return good;
}

static bool mount_parts(struct bench_mounts *mounts, struct bench_env *env,
			const struct bench_recipe *recipe)
{
	unsigned parts = recipe->parts;
	const unsigned remote = BENCH_PART_WARM | BENCH_PART_COLD;

	if (parts & BENCH_PART_NATIVE && !mount_native(mounts, env, parts))
		return false;
	if (parts & BENCH_PART_MEMORY && !mount_memory(mounts, env))
		return false;
	if (parts & BENCH_PART_ARCHIVE && !mount_archive(mounts, env, recipe))
		return false;
	if (parts & remote && !bench_remote_mount(mounts, env, parts & BENCH_PART_COLD))
		return false;
	if (parts & BENCH_PART_NESTED && !mount_around(mounts))
		return false;
	if (parts & (BENCH_PART_OVERRIDE | BENCH_PART_OVERRIDE_LIVE) &&
	    !mount_override(mounts, env, parts & BENCH_PART_OVERRIDE))
		return false;
	return !(parts & BENCH_PART_SCRATCH) || mount_empty(mounts, NULL, LDR_MOUNT_WRITE);
}

void bench_mounts_down(void *self)
{
	struct bench_mounts *mounts = self;

	ldr_vfs_free(mounts->vfs);
	bench_remote_free(mounts->remote);
	free(mounts);
}

bool bench_mounts_up(const struct bench_target *target, struct bench_env *env,
		     struct bench_instance *out)
{
	const struct bench_recipe *recipe = target->recipe;
	struct bench_mounts *mounts = calloc(1, sizeof(*mounts));
	struct ldr_error error = {0};
	bool good = mounts != NULL;

	if (!good)
		return false;
	if (recipe->parts & BENCH_PART_NESTED)
		mounts->data_point = NESTED_POINT;
	if (ldr_vfs_new(NULL, &mounts->vfs, &error))
		good = say_error("ldr_vfs_new", &error);
	good = good && mount_parts(mounts, env, recipe);
	if (!good) {
		bench_mounts_down(mounts);
		return false;
	}
	ldr_vfs_settle(mounts->vfs);
	out->self = mounts;
	out->data_prefix = bench_copy(mounts->data_point ? mounts->data_point : "");
	out->write_prefix = bench_copy("write");
	return true;
}
