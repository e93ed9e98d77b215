/*
 * Blocks for the tests of the cache; see blocks.h.
 */
#include "tests/unit/cache/blocks.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void fill(uint32_t seed, uint32_t length, uint8_t *bytes)
{
	uint64_t state = seed * UINT64_C(0x100000001) + length;

	for (uint32_t at = 0; at < length; at += 8) {
		uint64_t value = next_random(&state);
		uint32_t left = length - at;

		memcpy(bytes + at, &value, left < 8 ? left : 8);
	}
}

struct ldr_block_ref test_block_fill(uint32_t seed, uint32_t length, uint8_t *bytes)
{
	struct ldr_block_ref block = {.plain_bytes = length};

	fill(seed, length, bytes);
	if (ldr_digest_once(bytes, length, &block.id, NULL))
		abort();
	return block;
}

uint32_t test_block_length(uint32_t seed, uint32_t max)
{
	uint64_t state = seed;

	return 1 + (uint32_t)(next_random(&state) % max);
}

int test_block_is(uint32_t seed, uint32_t length, const uint8_t *bytes)
{
	uint8_t *expected = malloc(length ? length : 1);
	int same;

	if (!expected)
		abort();
	fill(seed, length, expected);
	same = memcmp(expected, bytes, length) == 0;
	free(expected);
	return same;
}
