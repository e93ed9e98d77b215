/*
 * XXH3-64; see checksum.h.
 */
#include "common/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<xxh_x86dispatch.h>)
/* Puts AVX2 and AVX-512 in place of the plain functions, which distributions build for every x86-64. */
#include <xxh_x86dispatch.h>
#endif
#endif

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
