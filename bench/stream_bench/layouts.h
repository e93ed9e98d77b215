/*
 * Layouts: the same corpus behind different layers, mounted at the root of an instance of its own.
 *
 *	loose			a folder
 *	raw.pack lz4.pack	a local archive with a memory cache that holds all of it: checked once, when decoded
 *	raw.pack+anew ...	the same with a memory cache that keeps nothing: every read is checked and decoded anew
 *	remote-warm remote-cold	a release of larderd over the loopback, its disk cache full or empty
 *	parent-crc		what the parent system does (parent_crc.h)
 *
 * Threads: made and taken down by the main thread.
 */
#ifndef LDR_BENCH_STREAM_LAYOUTS_H
#define LDR_BENCH_STREAM_LAYOUTS_H

#include "bench/store.h"
#include "bench/stream_bench/corpus.h"
#include "cache/memory.h"
#include "vfs/file.h"
#include "vfs/vfs.h"

struct stream_layout {
	struct ldr_vfs *vfs;
	struct ldr_memory_cache *memory; /* only where it keeps nothing */
	struct bench_store store;
	char *cache; /* a disk cache that is removed at the end, or NULL */
};

/* False after bench_say; the layout is down then. */
bool stream_layout_up(const char *name, const struct stream_corpus *corpus,
		      struct stream_layout *out);
void stream_layout_down(struct stream_layout *layout);

/* Mounts a layer, which it takes over whatever comes of it, as mount `id` at `at`. */
bool stream_mount(struct ldr_vfs *vfs, struct ldr_layer *layer, uint32_t id, const char *at);

/* Every file of the corpus, opened; NULL after bench_say. prefix: "" or a mount point. */
struct ldr_file **stream_open_all(struct ldr_vfs *vfs, const char *prefix,
				  const struct stream_corpus *corpus);
/* NULL is allowed, also for single files. */
void stream_close_all(struct ldr_file **files, size_t count);

#endif
