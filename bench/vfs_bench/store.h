/*
 * The release that remote targets mount: the tree published once, compressed as vfs:archive-lz4 is, and a larderd that
 * serves it on a port of the loopback.
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_STORE_H
#define LDR_BENCH_STORE_H

#include "bench/vfs_bench/env.h"
#include "bench/vfs_bench/process.h"
#include "common/keys.h"

struct bench_store {
	struct bench_process larderd;
	struct ldr_public_key *trust;
	char *source; /* "http://127.0.0.1:PORT#live" */
};

/* False after bench_say. */
bool bench_store_up(const struct bench_env *env, struct bench_store *out);
void bench_store_down(struct bench_store *store);

#endif
