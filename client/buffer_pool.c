/*
 * Buffers that are used again; see buffer_pool.h.
 */
#include "client/buffer_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES (2u * 1024 * 1024)

enum ldr_status ldr_buffer_pool_init(struct ldr_buffer_pool *pool, size_t buffer_bytes,
				     size_t max_count, struct ldr_error *err)
{
	*pool = (struct ldr_buffer_pool){.buffer_bytes = buffer_bytes, .max_count = max_count};
	pool->idle = calloc(max_count, sizeof(*pool->idle));
	if (!pool->idle)
		return ldr_fail(err, LDR_ENOMEM, "pool of %zu buffers: out of memory", max_count);
	return LDR_OK;
}

void ldr_buffer_pool_dispose(struct ldr_buffer_pool *pool)
{
	assert(pool->idle_count == pool->made_count);
	while (pool->idle_count)
		free(pool->idle[--pool->idle_count]);
	free(pool->idle);
	*pool = (struct ldr_buffer_pool){0};
}

static uint8_t *make(struct ldr_buffer_pool *pool)
{
	void *buffer = NULL;
	size_t align = pool->buffer_bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 4096;

	if (posix_memalign(&buffer, align, pool->buffer_bytes) != 0)
		return NULL;
	/* A hint: faulting in 4 KiB at a time costs more than receiving them. */
	if (align == HUGE_PAGE_BYTES)
		(void)madvise(buffer, pool->buffer_bytes, MADV_HUGEPAGE);
	pool->made_count++;
	return buffer;
}

uint8_t *ldr_buffer_pool_take(struct ldr_buffer_pool *pool)
{
	if (pool->idle_count)
		return pool->idle[--pool->idle_count];
	return pool->made_count < pool->max_count ? make(pool) : NULL;
}

void ldr_buffer_pool_give(struct ldr_buffer_pool *pool, uint8_t *buffer)
{
	assert(pool->idle_count < pool->max_count);
	pool->idle[pool->idle_count++] = buffer;
}
