/*
 * A bounded set of equal buffers that are used again and again: the last given back is the first given
 * out, because it is the one whose pages and cache lines are warm.
 *
 * Threads: no lock of its own; the owner (fetch) calls under its lock.
 */
#ifndef LDR_CLIENT_BUFFER_POOL_H
#define LDR_CLIENT_BUFFER_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct ldr_buffer_pool {
	size_t buffer_bytes;
	size_t max_count;
	size_t made_count;
	uint8_t **idle; /* owns; the top is the warmest */
	size_t idle_count;
};

enum ldr_status ldr_buffer_pool_init(struct ldr_buffer_pool *pool, size_t buffer_bytes,
				     size_t max_count, struct ldr_error *err);
/* All buffers must have been given back. */
void ldr_buffer_pool_dispose(struct ldr_buffer_pool *pool);
/* NULL: all are out, or memory is. */
uint8_t *ldr_buffer_pool_take(struct ldr_buffer_pool *pool);
void ldr_buffer_pool_give(struct ldr_buffer_pool *pool, uint8_t *buffer);

/* How many could be taken now. */
static inline size_t ldr_buffer_pool_room(const struct ldr_buffer_pool *pool)
{
	return pool->max_count - pool->made_count + pool->idle_count;
}

#endif
