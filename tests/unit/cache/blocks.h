/*
 * Blocks for the tests of the cache: contents made of a seed, with their true ids.
 */
#ifndef LDR_TESTS_UNIT_CACHE_BLOCKS_H
#define LDR_TESTS_UNIT_CACHE_BLOCKS_H

#include <stdint.h>

#include "packs/block.h"

/* Fills bytes (length of them) with the contents of this seed, and gives the block's id and length. */
struct ldr_block_ref test_block_fill(uint32_t seed, uint32_t length, uint8_t *bytes);
/* A length between 1 and max that depends on the seed only. */
uint32_t test_block_length(uint32_t seed, uint32_t max);
/* True when bytes are the contents of this seed. */
int test_block_is(uint32_t seed, uint32_t length, const uint8_t *bytes);

#endif
