/*
 * FastCDC cut points; see chunker.h for the rule.
 *
 * The loop is bound by the chain h -> h (one shift and add a byte), so the only thing worth doing is
 * to keep everything else out of it: the bytes are taken eight at a time with one test each, and the
 * mask changes between two loops, never inside one.
 */
#include "packs/chunker.h"

#include <stdbool.h>

#include "packs/chunker_priv.h"

/* The least and the greatest normal size, 1 KiB and 128 KiB: the loose mask has then at least 8 bits. */
#define NORMAL_MIN_BYTES 1024u
#define NORMAL_MAX_BYTES (128u * 1024)
#define NORMALISATION 2

enum ldr_status ldr_chunk_sizes_check(const struct ldr_chunk_sizes *sizes, struct ldr_error *err)
{
	uint32_t normal = sizes->normal_bytes;

	if (normal & (normal - 1) || normal < NORMAL_MIN_BYTES || normal > NORMAL_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL,
				"normal block size %u: not a power of two from %u to %u", normal,
				NORMAL_MIN_BYTES, NORMAL_MAX_BYTES);
	if (sizes->min_bytes > normal)
		return ldr_fail(err, LDR_EINVAL, "minimum block size %u, normal size %u",
				sizes->min_bytes, normal);
	if (sizes->max_bytes < normal)
		return ldr_fail(err, LDR_EINVAL, "maximum block size %u, normal size %u",
				sizes->max_bytes, normal);
	if (sizes->max_bytes > LDR_BLOCK_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "maximum block size %u, limit %u",
				sizes->max_bytes, LDR_BLOCK_MAX_BYTES);
	return LDR_OK;
}

/* Moves over bytes[*at..end) until h has no bit of mask; true when it stopped for that, just past the
 * byte that did it. */
static bool roll(const uint8_t *bytes, uint32_t *at, uint32_t end, uint64_t mask, uint64_t *hash)
{
	uint64_t h = *hash;
	uint32_t i = *at;

#define ROLL_STEP(k)                                   \
	h = (h << 1) + ldr_chunk_gear[bytes[i + (k)]]; \
	if (!(h & mask)) {                             \
		*at = i + (k) + 1;                     \
		return true;                           \
	}
	for (; end - i >= 8; i += 8) {
		ROLL_STEP(0)
		ROLL_STEP(1)
		ROLL_STEP(2)
		ROLL_STEP(3)
		ROLL_STEP(4)
		ROLL_STEP(5)
		ROLL_STEP(6)
		ROLL_STEP(7)
	}
	for (; i < end; i++) {
		ROLL_STEP(0)
	}
#undef ROLL_STEP
	*at = end;
	*hash = h;
	return false;
}

static uint64_t top_bits(unsigned count)
{
	return ~UINT64_C(0) << (64 - count);
}

uint32_t ldr_chunk_next(const struct ldr_chunk_sizes *sizes, const void *bytes, size_t length)
{
	uint32_t end = length < sizes->max_bytes ? (uint32_t)length : sizes->max_bytes;
	uint32_t normal = end < sizes->normal_bytes ? end : sizes->normal_bytes;
	unsigned bits = (unsigned)__builtin_ctz(sizes->normal_bytes);
	uint32_t at = sizes->min_bytes;
	uint64_t hash = 0;

	if (length <= sizes->min_bytes)
		return (uint32_t)length;
	if (!roll(bytes, &at, normal, top_bits(bits + NORMALISATION), &hash))
		roll(bytes, &at, end, top_bits(bits - NORMALISATION), &hash);
	return at;
}
