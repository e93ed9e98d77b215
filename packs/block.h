/*
 * What every room of this module knows about a block, and where one lies.
 *
 * A block is a run of 1 to 256 KiB of one file's bytes; its id is the SHA-256 of those plain bytes.
 */
#ifndef LDR_PACKS_BLOCK_H
#define LDR_PACKS_BLOCK_H

#include <stdint.h>

#include "common/digest.h"

#define LDR_BLOCK_MAX_BYTES (256u * 1024)
/* No codec may make a block longer: one that does not shrink is stored as it is. */
#define LDR_STORED_MAX_BYTES (LDR_BLOCK_MAX_BYTES + 64)

enum ldr_codec {
	LDR_CODEC_NONE = 0,
	LDR_CODEC_LZ4 = 1,  /* one LZ4 block (no frame) */
	LDR_CODEC_ZSTD = 2, /* exactly one zstd frame with its content size, no dictionary */
	LDR_CODEC_COUNT
};

/* A block's place: which pack (the record's pack number), where, and how it is stored there. */
struct ldr_place {
	uint32_t pack;
	uint64_t offset;
	uint32_t stored_bytes;
	enum ldr_codec codec;
};

struct ldr_block_ref {
	struct ldr_id id;
	uint32_t plain_bytes;
};

#endif
