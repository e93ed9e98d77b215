/*
 * FastCDC: the table, the rule, the limits, and that an insertion stays local. The frozen cut points are
 * in tests/golden/.
 */
#include "packs/chunker.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "packs/chunker_priv.h"
#include "tests/unit/packs/pack_fixture.h"

Test(chunker, gear_table_is_sha256_of_each_byte)
{
	for (unsigned i = 0; i < 256; i++) {
		uint8_t byte = (uint8_t)i;
		struct ldr_id digest;

		ldr_digest_once(&byte, 1, &digest, NULL);
		cr_assert_eq(ldr_chunk_gear[i], ldr_get_le(digest.bytes, 8), "entry %u", i);
	}
}

/* The rule as the header says it, one byte at a time. */
static uint32_t by_the_rule(const struct ldr_chunk_sizes *sizes, const uint8_t *bytes,
			    size_t length)
{
	unsigned bits = 0;
	uint64_t h = 0;
	size_t i;

	while (1u << bits < sizes->normal_bytes)
		bits++;
	if (length <= sizes->min_bytes)
		return (uint32_t)length;
	for (i = sizes->min_bytes; i < length && i < sizes->max_bytes; i++) {
		unsigned zeros = i < sizes->normal_bytes ? bits + 2 : bits - 2;

		h = (h << 1) + ldr_chunk_gear[bytes[i]];
		if (h >> (64 - zeros) == 0)
			return (uint32_t)i + 1;
	}
	return (uint32_t)i;
}

Test(chunker, cuts_where_the_rule_says)
{
	static const struct ldr_chunk_sizes sizes[] = {
		{16 * 1024, 64 * 1024, 256 * 1024},
		{0, 1024, 4096},
		{1024, 1024, 1024},
		{257, 2048, 65536},
		{1, 128 * 1024, 256 * 1024},
	};
	size_t length = 3 << 20;
	LDR_AUTO_FREE uint8_t *bytes = malloc(length);

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (unsigned kind = FIXTURE_TEXT; kind <= FIXTURE_RANDOM; kind++) {
			size_t at = 0;

			cr_assert_eq(ldr_chunk_sizes_check(&sizes[s], NULL), LDR_OK);
			fixture_fill((enum fixture_bytes)kind, s, bytes, length);
			while (at < length) {
				uint32_t got = ldr_chunk_next(&sizes[s], bytes + at, length - at);

				cr_assert_eq(got, by_the_rule(&sizes[s], bytes + at, length - at),
					     "sizes %u, bytes %u, at %zu: %u", s, kind, at, got);
				cr_assert(got > 0 && got <= sizes[s].max_bytes);
				at += got;
			}
		}
}

Test(chunker, short_inputs_and_the_end)
{
	struct ldr_chunk_sizes sizes = LDR_CHUNK_SIZES_DEFAULT;
	size_t length = 300 * 1024;
	LDR_AUTO_FREE uint8_t *zeros = calloc(1, length);

	/* Equal bytes never cut: the hash settles to one value. */
	cr_assert_eq(ldr_chunk_next(&sizes, zeros, 0), 0);
	cr_assert_eq(ldr_chunk_next(&sizes, zeros, 1), 1);
	cr_assert_eq(ldr_chunk_next(&sizes, zeros, sizes.min_bytes), sizes.min_bytes);
	cr_assert_eq(ldr_chunk_next(&sizes, zeros, sizes.max_bytes - 1), sizes.max_bytes - 1);
	cr_assert_eq(ldr_chunk_next(&sizes, zeros, length), sizes.max_bytes);
}

Test(chunker, an_insertion_changes_the_blocks_near_it_only)
{
	struct ldr_chunk_sizes sizes = LDR_CHUNK_SIZES_DEFAULT;
	size_t length = 8 << 20, inserted = 5, at_byte = 1000000;
	LDR_AUTO_FREE uint8_t *old = malloc(length);
	LDR_AUTO_FREE uint8_t *new = malloc(length + inserted);
	LDR_AUTO_FREE uint8_t *is_cut = calloc(1, length + inserted + 1);
	unsigned blocks = 0, shared = 0;

	fixture_fill(FIXTURE_RANDOM, 7, old, length);
	memcpy(new, old, at_byte);
	memset(new + at_byte, 'x', inserted);
	memcpy(new + at_byte + inserted, old + at_byte, length - at_byte);
	for (size_t at = 0; at < length + inserted;) {
		at += ldr_chunk_next(&sizes, new + at, length + inserted - at);
		is_cut[at] = 1;
	}
	for (size_t at = 0; at < length; blocks++) {
		at += ldr_chunk_next(&sizes, old + at, length - at);
		shared += is_cut[at < at_byte ? at : at + inserted];
	}
	cr_assert_gt(blocks, 80);
	cr_assert_geq(shared, blocks - 4, "%u of %u cuts are shared", shared, blocks);
}

Test(chunker, sizes_that_break_a_rule_are_refused)
{
	static const struct ldr_chunk_sizes bad[] = {
		{16, 3000, 65536},            /* not a power of two */
		{0, 0, 65536},                /* nothing */
		{16, 512, 65536},             /* too small */
		{16, 256 * 1024, 256 * 1024}, /* too large */
		{4096, 2048, 65536},          /* min above normal */
		{16, 65536, 32768},           /* max below normal */
		{16, 65536, 256 * 1024 + 1},  /* max above the limit */
	};
	struct ldr_error err;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		err = (struct ldr_error){0};
		cr_assert_eq(ldr_chunk_sizes_check(&bad[i], &err), LDR_EINVAL, "row %u", i);
		cr_assert_eq(err.status, LDR_EINVAL);
		cr_assert_neq(err.text[0], '\0');
	}
}
