/*
 * The source under threads: single reads and windows of many readers over an upstream that answers out
 * of order, fails now and then, and sometimes gives wrong bytes first. Every delivered byte is right, the
 * only failures are the upstream's, and no block is given without being counted.
 */
#include "cache/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 6u
#define STEPS 500u
#define SEEDS 500u
#define WINDOW 12u

struct shared {
	struct ldr_source *source;
	struct ldr_placed_block wants[SEEDS];
	atomic_uint calls;
	atomic_uint_fast64_t given, failed, faults;
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

static void fill(uint32_t seed, uint32_t length, uint8_t *bytes)
{
	memset(bytes, (int)(seed & 0xff), length);
	memcpy(bytes, &seed, length < sizeof(seed) ? length : sizeof(seed));
}

static enum ldr_status fetch(void *context, const struct ldr_placed_block *wants, size_t count,
			     enum ldr_status (*arrived)(void *arrival, size_t want,
							const void *stored, struct ldr_error *err),
			     void *arrival, struct ldr_error *err)
{
	struct shared *shared = context;
	unsigned call = atomic_fetch_add(&shared->calls, 1);
	uint8_t *bytes = malloc(LDR_BLOCK_MAX_BYTES);
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; status == LDR_OK && i < count; i++) {
		size_t which = call % 2 ? i : count - 1 - i;

		if (call % 7 == 3 && i == count / 2) {
			status = ldr_fail(err, LDR_ENET, "call %u broke", call);
			break;
		}
		fill((uint32_t)wants[which].place.offset, wants[which].block.plain_bytes, bytes);
		if (call % 5 == 2) {
			bytes[0] ^= 1;
			if (arrived(arrival, which, bytes, NULL) != LDR_ECORRUPT)
				atomic_fetch_add(&shared->faults, 1);
			bytes[0] ^= 1;
		}
		status = arrived(arrival, which, bytes, err);
	}
	free(bytes);
	return status;
}

static int is(const struct ldr_placed_block *want, const uint8_t *bytes)
{
	uint32_t seed = (uint32_t)want->place.offset, length = want->block.plain_bytes;

	return (length < 4 || memcmp(bytes, &seed, 4) == 0) &&
	       (length <= 4 || bytes[length - 1] == (uint8_t)seed);
}

struct taken {
	struct shared *shared;
	const struct ldr_placed_block *wants;
};

static enum ldr_status take(void *context, size_t which, const void *plain, struct ldr_error *err)
{
	struct taken *taken = context;

	(void)err;
	if (!is(&taken->wants[which], plain))
		atomic_fetch_add(&taken->shared->faults, 1);
	atomic_fetch_add(&taken->shared->given, 1);
	return LDR_OK;
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	struct shared *shared = worker->shared;
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);

	for (unsigned step = 0; step < STEPS; step++) {
		uint32_t first = next_random(&worker->random) % (SEEDS - WINDOW);
		const struct ldr_placed_block *wants = &shared->wants[first];
		struct taken taken = {shared, wants};
		enum ldr_status status;

		if (step % 2) {
			status = ldr_source_read_many(shared->source, wants, WINDOW, 200000, take,
						      &taken, NULL);
		} else {
			status = ldr_source_read(shared->source, wants, plain, NULL);
			if (status == LDR_OK)
				take(&taken, 0, plain, NULL);
		}
		if (status)
			atomic_fetch_add(&shared->failed, 1);
		if (status && status != LDR_ENET)
			atomic_fetch_add(&shared->faults, 1);
	}
	free(plain);
	return NULL;
}

int main(void)
{
	static struct shared shared;
	const struct ldr_upstream upstream = {.context = &shared, .fetch = fetch};
	struct ldr_memory_cache *memory = NULL;
	uint8_t *bytes = malloc(LDR_BLOCK_MAX_BYTES);
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct ldr_source_stat stat;
	uint64_t counted;
	uint32_t random = 3;

	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		struct ldr_placed_block *want = &shared.wants[seed];

		want->block.plain_bytes = 1 + next_random(&random) % 40000;
		want->place = (struct ldr_place){.offset = seed,
						 .stored_bytes = want->block.plain_bytes,
						 .codec = LDR_CODEC_NONE};
		fill(seed, want->block.plain_bytes, bytes);
		if (ldr_digest_once(bytes, want->block.plain_bytes, &want->block.id, NULL))
			return 1;
	}
	/* Too small for all, so that blocks come again and again. */
	if (ldr_memory_cache_new(4u << 20, &memory, NULL) ||
	    ldr_source_new(memory, NULL, &shared.source, NULL))
		return 1;
	ldr_source_set_upstream(shared.source, &upstream);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){&shared, i * 77 + 5};
		if (pthread_create(&threads[i], NULL, run, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ldr_source_stat(shared.source, &stat);
	counted = stat.from_memory + stat.from_upstream + stat.shared;
	printf("given %llu, counted %llu (memory %llu, upstream %llu, shared %llu), calls %u, "
	       "failed reads %llu, faults %llu\n",
	       (unsigned long long)shared.given, (unsigned long long)counted,
	       (unsigned long long)stat.from_memory, (unsigned long long)stat.from_upstream,
	       (unsigned long long)stat.shared, shared.calls, (unsigned long long)shared.failed,
	       (unsigned long long)shared.faults);
	ldr_source_free(shared.source);
	ldr_memory_cache_free(memory);
	free(bytes);
	/* Of a window that fails, blocks behind the failure have come and are not given. */
	return shared.faults || counted < shared.given || shared.given == 0 || shared.failed == 0;
}
