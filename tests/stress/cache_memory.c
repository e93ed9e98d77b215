/*
 * The memory cache under threads: everything got is right while it is pinned, pins keep bytes in place,
 * and the counters add up at the end.
 */
#include "cache/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4u
#define STEPS 20000u
#define SEEDS 400u

struct shared {
	struct ldr_memory_cache *cache;
	atomic_uint_fast64_t gets, faults;
	struct ldr_block_ref blocks[SEEDS];
};

struct worker {
	struct shared *shared;
	uint32_t random;
};

static uint32_t next_random(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

/* The contents are the seed all over: enough to see another block's bytes. */
static void fill(uint32_t seed, uint32_t length, uint8_t *bytes)
{
	memset(bytes, (int)(seed % 251) + 1, length);
}

static int is(uint32_t seed, const struct ldr_memory_block *block)
{
	uint8_t byte = (uint8_t)(seed % 251 + 1);

	for (uint32_t at = 0; at < block->length; at += 509) {
		if (block->bytes[at] != byte)
			return 0;
	}
	return block->bytes[block->length - 1] == byte;
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	struct shared *shared = worker->shared;
	uint8_t *bytes = malloc(LDR_BLOCK_MAX_BYTES);
	struct ldr_memory_block held[4] = {{0}};
	uint32_t seeds[4] = {0};

	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t seed = next_random(&worker->random) % SEEDS, slot = step % 4;
		const struct ldr_block_ref *block = &shared->blocks[seed];

		/* What was pinned four steps ago is still what it was. */
		if (held[slot].pin) {
			if (!is(seeds[slot], &held[slot]))
				atomic_fetch_add(&shared->faults, 1);
			ldr_memory_unpin(shared->cache, &held[slot]);
		}
		atomic_fetch_add(&shared->gets, 1);
		if (!ldr_memory_get(shared->cache, &block->id, &held[slot])) {
			fill(seed, block->plain_bytes, bytes);
			if (!ldr_memory_put(shared->cache, block, bytes, &held[slot]))
				continue;
		}
		seeds[slot] = seed;
		if (step % 5000 == 4999)
			ldr_memory_clear(shared->cache);
	}
	for (unsigned slot = 0; slot < 4; slot++) {
		if (held[slot].pin)
			ldr_memory_unpin(shared->cache, &held[slot]);
	}
	free(bytes);
	return NULL;
}

int main(void)
{
	static struct shared shared;
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct ldr_memory_stat stat;
	uint32_t random = 1;

	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		shared.blocks[seed].plain_bytes = 1 + next_random(&random) % 100000;
		if (ldr_digest_once(&seed, sizeof(seed), &shared.blocks[seed].id, NULL))
			return 1;
	}
	if (ldr_memory_cache_new(20u << 20, &shared.cache, NULL))
		return 1;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){&shared, i * 77 + 5};
		if (pthread_create(&threads[i], NULL, run, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ldr_memory_stat(shared.cache, &stat);
	printf("gets %llu hits %llu misses %llu evictions %llu faults %llu\n",
	       (unsigned long long)shared.gets, (unsigned long long)stat.hits,
	       (unsigned long long)stat.misses, (unsigned long long)stat.evictions,
	       (unsigned long long)shared.faults);
	if (shared.faults || stat.hits + stat.misses != shared.gets || stat.evictions == 0 ||
	    stat.hits == 0 || stat.used_bytes > stat.capacity_bytes)
		return 1;
	ldr_memory_clear(shared.cache);
	ldr_memory_stat(shared.cache, &stat);
	ldr_memory_cache_free(shared.cache);
	return stat.used_bytes != 0;
}
