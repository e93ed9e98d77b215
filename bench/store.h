/*
 * The release that remote targets mount: a tree published once into a working folder, compressed by lz4, and a larderd
 * that serves it on a port of the loopback.
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_STORE_H
#define LDR_BENCH_STORE_H

#include "bench/process.h"
#include "common/keys.h"
#include "packs/chunker.h"
#include "vfs/layer.h"

struct bench_store {
	struct bench_process larderd;
	struct ldr_public_key *trust;
	char *source; /* "http://127.0.0.1:PORT#live" */
};

/* All borrowed for the call. */
struct bench_store_request {
	const char *tree;    /* what is published */
	const char *made;    /* where key, store and log are kept, and used again */
	const char *program; /* the folder of this program: larderd lies one above */
	struct ldr_chunk_sizes chunks;
};

/* False after bench_say. */
bool bench_store_up(const struct bench_store_request *request, struct bench_store *out);
void bench_store_down(struct bench_store *store);
/* A layer over the release, its disk cache in the folder `cache`. Owns: ldr_layer_unref. */
bool bench_store_layer(const struct bench_store *store, const char *cache, size_t memory_bytes,
		       struct ldr_layer **out_layer);

#endif
