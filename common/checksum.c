/*
 * XXH3-64; see checksum.h.
 */
#include "common/checksum.h"

#include <xxhash.h>

uint64_t ldr_checksum(const void *bytes, size_t length)
{
	return XXH3_64bits(bytes, length);
}

uint64_t ldr_checksum_seeded(const void *bytes, size_t length, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, length, seed);
}
