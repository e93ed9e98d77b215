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

struct ldr_wide_hash ldr_checksum_wide(const void *bytes, size_t length, uint64_t seed)
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, seed);

	return (struct ldr_wide_hash){.low = hash.low64, .high = hash.high64};
}
