/*
 * Codecs: how a block's bytes are stored.
 *
 * Decoding is the guarded side: stored bytes come from anywhere. A zstd block is exactly one frame
 * whose content size is the plain length; no dictionary, no skippable frame, nothing after it. An lz4
 * block fills exactly the plain length. Whatever else is LDR_ECORRUPT; an unknown codec is
 * LDR_EUNSUPPORTED. No input can make a decoder write past plain_bytes or allocate by what it claims.
 *
 * Encoding is deterministic: same bytes, same policy, same library version, same stored bytes.
 *
 * Threads: a context belongs to one thread at a time.
 */
#ifndef LDR_PACKS_CODEC_H
#define LDR_PACKS_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "packs/block.h"

/* Reused zstd and lz4 state; 1 to 3 MB after first use at high levels. */
struct ldr_coder;
struct ldr_aead;

struct ldr_coder *ldr_coder_new(void); /* NULL: out of memory */
void ldr_coder_free(struct ldr_coder *coder);
void ldr_coder_cleanup(struct ldr_coder **coder);
/* LDR_STORED_MAX_BYTES for the caller's stored bytes, so that whoever reads blocks needs no buffer of its
 * own; no function here touches it. Borrowed until free; NULL: out of memory. */
uint8_t *ldr_coder_scratch(struct ldr_coder *coder);
/* A context for sealed blocks, made when first asked for. Borrowed until free; NULL: out of memory. */
struct ldr_aead *ldr_coder_aead(struct ldr_coder *coder);
#define LDR_AUTO_CODER __attribute__((cleanup(ldr_coder_cleanup)))

enum ldr_codec_policy {
	LDR_POLICY_NONE,
	LDR_POLICY_LZ4,  /* lz4 where it saves at least 6 %, else none */
	LDR_POLICY_ZSTD, /* zstd where it saves at least 6 %, else none */
	LDR_POLICY_AUTO, /* zstd where it saves at least 5 % of the plain bytes over what LZ4 gives (lz4
			  * or none), else that */
};

/* Level 0 means the default (zstd 3, lz4 fast). lz4 levels above 2 use the high-compression coder. AUTO
 * uses the level for zstd. Levels past the library's are its highest. */
struct ldr_codec_choice {
	enum ldr_codec_policy policy;
	int level;
};

/* Encodes plain into stored (capacity at least plain_bytes) and gives the codec it chose and the
 * stored length; with LDR_CODEC_NONE the bytes are copied. A quick test keeps the slow coder away from
 * blocks that do not compress. Cannot fail on any input: where memory is out, the block is stored by
 * a codec that needs none. */
void ldr_encode(struct ldr_coder *coder, const struct ldr_codec_choice *choice, const void *plain,
		uint32_t plain_bytes, void *stored, enum ldr_codec *out_codec,
		uint32_t *out_stored_bytes);

/* Decodes exactly plain_bytes into plain. LDR_ECORRUPT, LDR_EUNSUPPORTED. */
enum ldr_status ldr_decode(struct ldr_coder *coder, enum ldr_codec codec, const void *stored,
			   uint32_t stored_bytes, void *plain, uint32_t plain_bytes,
			   struct ldr_error *err);

/* Only the first bytes of a block, at least until of them (at most plain_bytes): as many as the codec has
 * to decode for that, lz4 hardly more, the others all. What is not decoded is not checked, so the stored
 * bytes must be known to be as they were written. plain has room for plain_bytes. */
struct ldr_coded {
	enum ldr_codec codec;
	uint32_t bytes;
	const void *stored;
};
enum ldr_status ldr_decode_until(struct ldr_coder *coder, const struct ldr_coded *coded,
				 uint32_t until, void *plain, uint32_t plain_bytes,
				 struct ldr_error *err);

/* "none", "lz4", "zstd"; NULL for an unknown value. */
const char *ldr_codec_name(enum ldr_codec codec);

#endif
