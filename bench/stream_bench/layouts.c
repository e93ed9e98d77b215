/*
 * layouts.c   layers made and mounted.
 */
#include "bench/stream_bench/layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/stream_bench/parent_crc.h"
#include "bench/support.h"
#include "vfs/layer_native.h"
#include "vfs/layer_tree.h"

/* Room in memory caches beyond the data. */
#define HEADROOM_BYTES (64u * 1024 * 1024)
#define ANEW "+anew"

static bool say_error(const char *what, const struct ldr_error *error)
{
	bench_say("%s: %s", what, error->text);
	return false;
}

static size_t memory_for(const struct stream_corpus *corpus)
{
	return corpus->mapping_bytes + corpus->mapping_bytes / 4 + HEADROOM_BYTES;
}

static bool loose_layer(const struct stream_corpus *corpus, struct ldr_layer **out_layer)
{
	const struct ldr_native_options options = {.size = sizeof(options), .read_only = true};
	char *folder = bench_join(corpus->folder, "loose");
	struct ldr_error error = {0};
	bool good = !ldr_layer_native_new(folder, &options, out_layer, &error) ||
		    say_error(folder, &error);

	free(folder);
	return good;
}

static bool pack_layer(const char *name, const struct stream_corpus *corpus,
		       struct stream_layout *layout, struct ldr_layer **out_layer)
{
	struct ldr_archive_options options = {.size = sizeof(options),
					      .memory_bytes = memory_for(corpus)};
	size_t length = strlen(name), anew = strlen(ANEW);
	char *path = bench_join(corpus->folder, name);
	struct ldr_error error = {0};
	bool good = true;

	if (length > anew && !strcmp(name + length - anew, ANEW)) {
		path[strlen(path) - anew] = '\0';
		good = !ldr_memory_cache_new(0, &layout->memory, &error) || say_error(name, &error);
		options.memory = layout->memory;
	}
	good = good && (!ldr_layer_archive_open(path, &options, out_layer, &error) ||
			say_error(path, &error));
	free(path);
	return good;
}

/* A cache that begins empty has a name of its own and goes with the layout; the other one stays in the corpus, as the
 * store does. */
static char *cache_folder(const char *made, bool cold)
{
	char name[64] = "cache-warm";

	if (cold)
		snprintf(name, sizeof(name), "cache-cold-%ld-%llu", (long)getpid(),
			 (unsigned long long)bench_now());
	return bench_join(made, name);
}

static bool remote_layer(const struct stream_corpus *corpus, bool cold,
			 struct stream_layout *layout, struct ldr_layer **out_layer)
{
	char *tree = bench_join(corpus->folder, "loose");
	char *made = bench_join(corpus->folder, "made");
	char *program = bench_program_folder();
	char *cache = cache_folder(made, cold);
	const struct bench_store_request request = {.tree = tree, .made = made, .program = program};
	bool good = bench_make_folders(made) && bench_store_up(&request, &layout->store) &&
		    bench_store_layer(&layout->store, cache, memory_for(corpus), out_layer);

	if (cold)
		layout->cache = cache;
	else
		free(cache);
	free(tree);
	free(made);
	free(program);
	return good;
}

static bool make_layer(const char *name, const struct stream_corpus *corpus,
		       struct stream_layout *layout, struct ldr_layer **out_layer)
{
	static const char *const packs[] = {"raw.pack", "lz4.pack", "raw.pack" ANEW,
					    "lz4.pack" ANEW};

	if (!strcmp(name, "loose"))
		return loose_layer(corpus, out_layer);
	if (!strcmp(name, "parent-crc"))
		return stream_parent_layer(corpus, out_layer);
	if (!strcmp(name, "remote-warm") || !strcmp(name, "remote-cold"))
		return remote_layer(corpus, !strcmp(name, "remote-cold"), layout, out_layer);
	for (size_t i = 0; i < sizeof(packs) / sizeof(packs[0]); i++)
		if (!strcmp(name, packs[i]))
			return pack_layer(name, corpus, layout, out_layer);
	bench_say("%s: no layout", name);
	return false;
}

bool stream_mount(struct ldr_vfs *vfs, struct ldr_layer *layer, uint32_t id, const char *at)
{
	const struct ldr_mount mount = {.id = id, .layer = layer, .at = at};
	struct ldr_error error = {0};
	enum ldr_status status = ldr_vfs_mount(vfs, &mount, &error);

	ldr_layer_unref(layer);
	return status == LDR_OK || say_error("mount", &error);
}

bool stream_layout_up(const char *name, const struct stream_corpus *corpus,
		      struct stream_layout *out)
{
	struct ldr_layer *layer = NULL;
	struct ldr_error error = {0};
	bool good;

	*out = (struct stream_layout){.store.larderd.output = -1};
	good = !ldr_vfs_new(NULL, &out->vfs, &error) || say_error("ldr_vfs_new", &error);
	good = good && make_layer(name, corpus, out, &layer);
	if (good)
		good = stream_mount(out->vfs, layer, 1, NULL);
	if (good)
		ldr_vfs_settle(out->vfs);
	else
		stream_layout_down(out);
	return good;
}

void stream_layout_down(struct stream_layout *layout)
{
	ldr_vfs_free(layout->vfs);
	ldr_memory_cache_free(layout->memory);
	bench_store_down(&layout->store);
	if (layout->cache)
		bench_remove_all(layout->cache);
	free(layout->cache);
	*layout = (struct stream_layout){.store.larderd.output = -1};
}

struct ldr_file **stream_open_all(struct ldr_vfs *vfs, const char *prefix,
				  const struct stream_corpus *corpus)
{
	struct ldr_file **files = calloc(corpus->count, sizeof(struct ldr_file *));
	struct ldr_error error = {0};
	bool good = files != NULL;

	for (size_t i = 0; good && i < corpus->count; i++) {
		char *path = bench_join(prefix, corpus->path[i]);

		good = !ldr_vfs_open(vfs, path, LDR_OPEN_READ, &files[i], &error) ||
		       say_error(path, &error);
		free(path);
	}
	if (good)
		return files;
	stream_close_all(files, corpus->count);
	return NULL;
}

void stream_close_all(struct ldr_file **files, size_t count)
{
	for (size_t i = 0; files && i < count; i++)
		ldr_file_close(files[i]);
	free(files);
}
