/*
 * The packs that archive targets mount: made once from the tree, by the same library that reads them.
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_PACKS_H
#define LDR_BENCH_PACKS_H

#include "bench/vfs_bench/env.h"
#include "packs/chunker.h"

enum bench_pack_kind {
	BENCH_PACK_PLAIN,
	BENCH_PACK_XOR,
	BENCH_PACK_LZ4,
	BENCH_PACK_ZSTD,
	BENCH_PACK_AES,
};

/* What lies before and behind the pack in the container of vfs:embedded. */
#define BENCH_EMBEDDED_BASE 100003u
#define BENCH_EMBEDDED_TAIL 777u

/* The path of the pack, which the caller frees; NULL after bench_say. */
char *bench_pack(const struct bench_env *env, enum bench_pack_kind kind);
/* A larger file that holds the plain pack at BENCH_EMBEDDED_BASE; *out_length is the pack's length. */
char *bench_embedded(const struct bench_env *env, uint64_t *out_length);
/* The title key of the encrypted pack. */
const uint8_t *bench_pack_key(void);
/* As `larder pack --block-size` cuts. */
struct ldr_chunk_sizes bench_pack_chunks(const struct bench_env *env);

#endif
