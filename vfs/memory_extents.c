/*
 * Extents of the memory layer: pieces of five sizes out of chunks on huge pages.
 *
 * The first touch of a page costs more than filling it, so extents that come back are handed out
 * again, to the same threads first. What is longer than the largest class and wanted in one piece
 * is mapped for itself and goes back to the system.
 */
#include <stdlib.h>

#include "common/os_arena.h"
#include "vfs/memory_priv.h"

#define CHUNK_BYTES LDR_OS_HUGE_BYTES

struct ldr_arena_chunk {
	struct ldr_arena_chunk *next;
	uint8_t *bytes;
	size_t used;
};

static size_t class_bytes(unsigned class)
{
	return LDR_EXTENT_MIN_BYTES << (2 * class);
}

static unsigned class_for(uint64_t wanted)
{
	unsigned class = 0;

	while (class + 1 < LDR_EXTENT_CLASSES && class_bytes(class) < wanted)
		class ++;
	return class;
}

void ldr_extent_pool_init(struct ldr_extent_pool *pool, uint64_t max_bytes)
{
	memset(pool, 0, sizeof(*pool));
	pool->max_bytes = max_bytes;
	atomic_flag_clear(&pool->chunks_busy);
	for (unsigned i = 0; i < LDR_STRIPES; i++)
		atomic_flag_clear(&pool->stripes[i].busy);
}

void ldr_extent_pool_dispose(struct ldr_extent_pool *pool)
{
	struct ldr_arena_chunk *chunk = pool->chunks;

	while (chunk) {
		struct ldr_arena_chunk *next = chunk->next;

		ldr_os_arena_unmap(chunk->bytes, CHUNK_BYTES);
		free(chunk);
		chunk = next;
	}
}

bool ldr_extent_pool_charge(struct ldr_extent_pool *pool, uint64_t bytes)
{
	uint64_t used = atomic_fetch_add_explicit(&pool->used_bytes, bytes, memory_order_relaxed);

	if (bytes <= pool->max_bytes && used <= pool->max_bytes - bytes)
		return true;
	ldr_extent_pool_refund(pool, bytes);
	return false;
}

void ldr_extent_pool_refund(struct ldr_extent_pool *pool, uint64_t bytes)
{
	atomic_fetch_sub_explicit(&pool->used_bytes, bytes, memory_order_relaxed);
}

/* A piece of the newest chunk, or of a new one. What is left of the old one is lost to larger
 * classes; small ones use it. */
static void *cut(struct ldr_extent_pool *pool, size_t bytes)
{
	struct ldr_arena_chunk *chunk;
	void *piece = NULL, *fresh;

	ldr_spin_lock(&pool->chunks_busy);
	chunk = pool->chunks;
	if (!chunk || CHUNK_BYTES - chunk->used < bytes) {
		chunk = malloc(sizeof(*chunk));
		if (!chunk || ldr_os_arena_map(CHUNK_BYTES, &fresh) != 0) {
			free(chunk);
			goto out;
		}
		*chunk = (struct ldr_arena_chunk){.next = pool->chunks, .bytes = fresh};
		pool->chunks = chunk;
	}
	piece = chunk->bytes + chunk->used;
	chunk->used += bytes;
out:
	ldr_spin_unlock(&pool->chunks_busy);
	return piece;
}

static void *pop(struct ldr_extent_pool *pool, unsigned stripe, unsigned class)
{
	void *piece;

	ldr_spin_lock(&pool->stripes[stripe].busy);
	piece = pool->stripes[stripe].free[class];
	if (piece)
		memcpy(&pool->stripes[stripe].free[class], piece, sizeof(void *));
	ldr_spin_unlock(&pool->stripes[stripe].busy);
	return piece;
}

static void *take_class(struct ldr_extent_pool *pool, unsigned class)
{
	unsigned own = ldr_thread_stripe();
	void *piece = pop(pool, own, class);

	/* Before memory is taken anew, the other threads' leftovers: a producer and a consumer
	 * would else grow for ever. */
	for (unsigned i = 1; i < LDR_STRIPES && !piece; i++) {
		unsigned stripe = (own + i) % LDR_STRIPES;

		piece = pop(pool, stripe, class);
	}
	return piece ? piece : cut(pool, class_bytes(class));
}

enum ldr_status ldr_extent_take(struct ldr_extent_pool *pool, uint64_t wanted, bool exact,
				struct ldr_extent *out, struct ldr_error *err)
{
	unsigned class = class_for(wanted);
	bool is_large = exact && wanted > LDR_EXTENT_MAX_BYTES;
	size_t length = is_large ? wanted : class_bytes(class);
	void *piece;

	if (!ldr_extent_pool_charge(pool, length))
		return ldr_fail(err, LDR_ENOSPACE, "memory layer: %zu bytes more, limit %llu",
				length, (unsigned long long)pool->max_bytes);
	if (!is_large)
		piece = take_class(pool, class);
	else if (ldr_os_arena_map(length, &piece) != 0)
		piece = NULL;
	if (!piece) {
		ldr_extent_pool_refund(pool, length);
		return ldr_fail(err, LDR_ENOMEM, "memory layer: out of memory");
	}
	*out = (struct ldr_extent){.bytes = piece, .length = length};
	return LDR_OK;
}

void ldr_extent_give(struct ldr_extent_pool *pool, const struct ldr_extent *extent)
{
	unsigned stripe = ldr_thread_stripe(), class = class_for(extent->length);

	ldr_extent_pool_refund(pool, extent->length);
	if (extent->length > LDR_EXTENT_MAX_BYTES) {
		ldr_os_arena_unmap(extent->bytes, extent->length);
		return;
	}
	ldr_spin_lock(&pool->stripes[stripe].busy);
	memcpy(extent->bytes, &pool->stripes[stripe].free[class], sizeof(void *));
	pool->stripes[stripe].free[class] = extent->bytes;
	ldr_spin_unlock(&pool->stripes[stripe].busy);
}
