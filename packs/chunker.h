/*
 * FastCDC: where a file's bytes are cut into blocks, so that an insertion changes the blocks near it
 * and no others.
 *
 * Xia et al., "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for Data
 * Deduplication", USENIX ATC 2016; normalised chunking, level 2. The gear hash is
 * h = (h << 1) + gear[byte] with gear[i] = the first 8 bytes (little-endian) of SHA-256 of the one byte
 * i; a cut is taken after a byte where the top (bits + 2) bits of h are zero before the normal size,
 * the top (bits - 2) bits after it, bits = log2(normal). The hash starts at 0 after the minimum is
 * skipped. Table and cut points are frozen by tests/golden/chunker.*: a change is a new format.
 *
 * Threads: no state.
 */
#ifndef LDR_PACKS_CHUNKER_H
#define LDR_PACKS_CHUNKER_H

#include <stddef.h>
#include <stdint.h>

#include "packs/block.h"

struct ldr_chunk_sizes {
	uint32_t min_bytes;
	uint32_t normal_bytes; /* a power of two, 1 KiB to 128 KiB */
	uint32_t max_bytes;    /* at most LDR_BLOCK_MAX_BYTES */
};

/* 16 KiB, 64 KiB, 256 KiB. */
#define LDR_CHUNK_SIZES_DEFAULT ((struct ldr_chunk_sizes){16 * 1024, 64 * 1024, 256 * 1024})

/* LDR_EINVAL with the rule that is broken: min <= normal <= max <= 256 KiB, normal a power of two. */
enum ldr_status ldr_chunk_sizes_check(const struct ldr_chunk_sizes *sizes, struct ldr_error *err);

/* Length of the first block of these bytes. With length < max_bytes the caller says by being at the
 * end of the file that there is nothing more: the rest may be one block. length 0 gives 0. */
uint32_t ldr_chunk_next(const struct ldr_chunk_sizes *sizes, const void *bytes, size_t length);

#endif
