/*
 * Benches: what a thread needs to decode and digest a block (coder, hasher, a block's room), lent from a
 * pool, because the threads that deliver blocks are not ours to keep things in.
 *
 * Threads: any thread may take and give back.
 */
#ifndef LDR_CLIENT_BENCH_H
#define LDR_CLIENT_BENCH_H

#include "packs/codec.h"

struct ldr_bench {
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
	uint8_t *plain; /* LDR_BLOCK_MAX_BYTES */
	struct ldr_bench *next;
};

struct ldr_benches;

enum ldr_status ldr_benches_new(struct ldr_benches **out_benches, struct ldr_error *err);
/* All benches must have been given back. NULL is allowed. */
void ldr_benches_free(struct ldr_benches *benches);
/* NULL: out of memory. */
struct ldr_bench *ldr_bench_take(struct ldr_benches *benches);
void ldr_bench_give(struct ldr_benches *benches, struct ldr_bench *bench);

#endif
