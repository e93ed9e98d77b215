/*
 * Benches; see bench.h.
 */
#include "client/bench.h"

#include <stdlib.h>

#include "common/lock.h"

struct ldr_benches {
	struct ldr_mutex mutex;
	struct ldr_bench *free; /* under the mutex */
};

enum ldr_status ldr_benches_new(struct ldr_benches **out_benches, struct ldr_error *err)
{
	struct ldr_benches *benches = calloc(1, sizeof(*benches));

	if (!benches)
		return ldr_fail(err, LDR_ENOMEM, "benches: out of memory");
	ldr_mutex_init(&benches->mutex, LDR_RANK_LEAF);
	*out_benches = benches;
	return LDR_OK;
}

static void bench_free(struct ldr_bench *bench)
{
	if (!bench)
		return;
	ldr_coder_free(bench->coder);
	ldr_hasher_free(bench->hasher);
	free(bench->plain);
	free(bench);
}

void ldr_benches_free(struct ldr_benches *benches)
{
	if (!benches)
		return;
	while (benches->free) {
		struct ldr_bench *bench = benches->free;

		benches->free = bench->next;
		bench_free(bench);
	}
	ldr_mutex_dispose(&benches->mutex);
	free(benches);
}

static struct ldr_bench *bench_new(void)
{
	struct ldr_bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return NULL;
	bench->coder = ldr_coder_new();
	bench->hasher = ldr_hasher_new();
	bench->plain = malloc(LDR_BLOCK_MAX_BYTES);
	if (bench->coder && bench->hasher && bench->plain)
		return bench;
	bench_free(bench);
	return NULL;
}

struct ldr_bench *ldr_bench_take(struct ldr_benches *benches)
{
	struct ldr_bench *bench;

	ldr_mutex_lock(&benches->mutex);
	bench = benches->free;
	if (bench)
		benches->free = bench->next;
	ldr_mutex_unlock(&benches->mutex);
	return bench ? bench : bench_new();
}

void ldr_bench_give(struct ldr_benches *benches, struct ldr_bench *bench)
{
	ldr_mutex_lock(&benches->mutex);
	bench->next = benches->free;
	benches->free = bench;
	ldr_mutex_unlock(&benches->mutex);
}
