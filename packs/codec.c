/*
 * Codecs over liblz4 and libzstd; see codec.h.
 *
 * The slow coder is kept away from what does not compress: more than half of a game's blocks are
 * pictures, sound and archives that are compressed already. See pays() for the test.
 */
#include "packs/codec.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/aead.h"
#include "common/bytes.h"

#define ZSTD_LEVEL_DEFAULT 3
/* Equal pairs of bytes, in percent of what random bytes have. */
#define UNEVEN_PERCENT 115
#define LZ4_HC_FROM_LEVEL 3
#define LZ4_LEVEL_MAX LZ4HC_CLEVEL_MAX
#define ZSTD_FRAME_MAGIC 0xfd2fb528u

struct ldr_coder {
	ZSTD_CCtx *compressor; /* owns; NULL until first used, as all of these */
	ZSTD_DCtx *expander;
	void *lz4_state;
	void *lz4hc_state;
	struct ldr_aead *aead;
	uint8_t *scratch;
	uint8_t *trial; /* ZSTD_compressBound of a whole block */
};

struct ldr_coder *ldr_coder_new(void)
{
	return calloc(1, sizeof(struct ldr_coder));
}

void ldr_coder_free(struct ldr_coder *coder)
{
	if (!coder)
		return;
	ZSTD_freeCCtx(coder->compressor);
	ZSTD_freeDCtx(coder->expander);
	free(coder->lz4_state);
	free(coder->lz4hc_state);
	ldr_aead_free(coder->aead);
	free(coder->scratch);
	free(coder->trial);
	free(coder);
}

void ldr_coder_cleanup(struct ldr_coder **coder)
{
	ldr_coder_free(*coder);
}

uint8_t *ldr_coder_scratch(struct ldr_coder *coder)
{
	if (!coder->scratch)
		coder->scratch = malloc(LDR_STORED_MAX_BYTES);
	return coder->scratch;
}

struct ldr_aead *ldr_coder_aead(struct ldr_coder *coder)
{
	if (!coder->aead)
		coder->aead = ldr_aead_new();
	return coder->aead;
}

const char *ldr_codec_name(enum ldr_codec codec)
{
	static const char *const names[LDR_CODEC_COUNT] = {"none", "lz4", "zstd"};

	return (unsigned)codec < LDR_CODEC_COUNT ? names[codec] : NULL;
}

/* ---- encoding ---- */

/* The greatest stored length that still saves percent of plain_bytes. */
static uint32_t at_most(uint32_t plain_bytes, uint32_t percent)
{
	return (uint32_t)((uint64_t)plain_bytes * (100 - percent) / 100);
}

static int clamp(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

/* 0 when it does not fit into capacity (or memory is out). */
static uint32_t lz4_encode(struct ldr_coder *coder, int level, const void *plain,
			   uint32_t plain_bytes, void *stored, uint32_t capacity)
{
	int done;

	if (level >= LZ4_HC_FROM_LEVEL) {
		if (!coder->lz4hc_state)
			coder->lz4hc_state = malloc((size_t)LZ4_sizeofStateHC());
		if (!coder->lz4hc_state)
			return 0;
		done = LZ4_compress_HC_extStateHC(coder->lz4hc_state, plain, stored,
						  (int)plain_bytes, (int)capacity,
						  clamp(level, LZ4_HC_FROM_LEVEL, LZ4_LEVEL_MAX));
	} else {
		if (!coder->lz4_state)
			coder->lz4_state = malloc((size_t)LZ4_sizeofState());
		if (!coder->lz4_state)
			return 0;
		done = LZ4_compress_fast_extState(coder->lz4_state, plain, stored, (int)plain_bytes,
						  (int)capacity, 1);
	}
	return done > 0 ? (uint32_t)done : 0;
}

/* Into coder->trial, which always has room; UINT32_MAX when memory is out. */
static uint32_t zstd_encode(struct ldr_coder *coder, int level, const void *plain,
			    uint32_t plain_bytes)
{
	size_t capacity = ZSTD_compressBound(LDR_BLOCK_MAX_BYTES);
	size_t done;

	if (!coder->compressor)
		coder->compressor = ZSTD_createCCtx();
	if (!coder->trial)
		coder->trial = malloc(capacity);
	if (!coder->compressor || !coder->trial)
		return UINT32_MAX;
	/* The window follows from the level and the pledged size; content size on and checksum off
	 * are the defaults, and said here because the format asks for them. */
	ZSTD_CCtx_reset(coder->compressor, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(coder->compressor, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(coder->compressor, ZSTD_c_contentSizeFlag, 1);
	ZSTD_CCtx_setParameter(coder->compressor, ZSTD_c_checksumFlag, 0);
	done = ZSTD_compress2(coder->compressor, coder->trial, capacity, plain, plain_bytes);
	return ZSTD_isError(done) ? UINT32_MAX : (uint32_t)done;
}

struct stored_form {
	enum ldr_codec codec;
	uint32_t bytes;
};

/* One call of ldr_encode. */
struct task {
	struct ldr_coder *coder;
	int level;
	const void *plain;
	uint32_t plain_bytes;
	void *stored;
};

static struct stored_form try_lz4(const struct task *task)
{
	uint32_t bytes = lz4_encode(task->coder, task->level, task->plain, task->plain_bytes,
				    task->stored, at_most(task->plain_bytes, 6));

	if (bytes)
		return (struct stored_form){LDR_CODEC_LZ4, bytes};
	return (struct stored_form){LDR_CODEC_NONE, task->plain_bytes};
}

/* zstd where it needs at most limit bytes. */
static struct stored_form try_zstd(const struct task *task, uint32_t limit,
				   struct stored_form otherwise)
{
	int level = task->level ? clamp(task->level, 1, ZSTD_maxCLevel()) : ZSTD_LEVEL_DEFAULT;
	uint32_t bytes = zstd_encode(task->coder, level, task->plain, task->plain_bytes);

	if (bytes > limit)
		return otherwise;
	memcpy(task->stored, task->coder->trial, bytes);
	return (struct stored_form){LDR_CODEC_ZSTD, bytes};
}

/*
 * How uneven the bytes are: the chance that two bytes of the block are equal, against that of random
 * bytes. Unlike the entropy it needs no logarithm and is no smaller for short blocks.
 */
static bool uneven(const uint8_t *plain, uint32_t plain_bytes)
{
	uint32_t counts[4][256] = {{0}};
	uint64_t pairs = 0;
	uint32_t i = 0;

	for (; plain_bytes - i >= 4; i += 4) {
		counts[0][plain[i]]++;
		counts[1][plain[i + 1]]++;
		counts[2][plain[i + 2]]++;
		counts[3][plain[i + 3]]++;
	}
	for (; i < plain_bytes; i++)
		counts[0][plain[i]]++;
	for (unsigned value = 0; value < 256; value++) {
		uint64_t count = (uint64_t)counts[0][value] + counts[1][value] + counts[2][value] +
				 counts[3][value];

		pairs += count * (count - !!count);
	}
	return pairs * 256 * 100 >= (uint64_t)plain_bytes * (plain_bytes - 1) * UNEVEN_PERCENT;
}

/*
 * Whether zstd may save something where lz4 does not: its entropy coder on uneven bytes, or, where lz4
 * found a little (hint), its longer search. What this misses are repeats over more than lz4's 64 KiB in
 * bytes that look random otherwise. Over the assets of three games, against trying zstd on every block:
 * 1.35 times as fast and not a byte larger (wesnoth), 1.4 times and 0.011 % (warzone2100), no change
 * (mame, where all compresses).
 */
static bool pays(const void *plain, uint32_t plain_bytes, bool hint)
{
	return hint || uneven(plain, plain_bytes);
}

static struct stored_form encode_auto(const struct task *task)
{
	uint32_t plain_bytes = task->plain_bytes;
	struct stored_form lz4 = {LDR_CODEC_NONE, plain_bytes};
	uint32_t gain = plain_bytes - at_most(plain_bytes, 5);
	uint32_t bytes = lz4_encode(task->coder, 0, task->plain, plain_bytes, task->stored,
				    at_most(plain_bytes, 2));

	if (bytes && bytes <= at_most(plain_bytes, 6))
		lz4 = (struct stored_form){LDR_CODEC_LZ4, bytes};
	if (lz4.bytes <= gain ||
	    (lz4.codec == LDR_CODEC_NONE && !pays(task->plain, plain_bytes, bytes > 0)))
		return lz4;
	return try_zstd(task, lz4.bytes - gain, lz4);
}

static struct stored_form encode(const struct task *task, enum ldr_codec_policy policy)
{
	struct stored_form none = {LDR_CODEC_NONE, task->plain_bytes};

	switch (policy) {
	case LDR_POLICY_LZ4:
		return try_lz4(task);
	case LDR_POLICY_ZSTD:
		return try_zstd(task, at_most(task->plain_bytes, 6), none);
	case LDR_POLICY_AUTO:
		return encode_auto(task);
	case LDR_POLICY_NONE:
	default:
		return none;
	}
}

/* ---- decoding ---- */

static enum ldr_status decode_none(const void *stored, uint32_t stored_bytes, void *plain,
				   uint32_t plain_bytes, struct ldr_error *err)
{
	if (stored_bytes != plain_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "raw block: stored length %u, plain length %u",
				stored_bytes, plain_bytes);
	ldr_copy(plain, stored, plain_bytes);
	return LDR_OK;
}

static enum ldr_status decode_lz4(const void *stored, uint32_t stored_bytes, void *plain,
				  uint32_t plain_bytes, struct ldr_error *err)
{
	int done = LZ4_decompress_safe(stored, plain, (int)stored_bytes, (int)plain_bytes);

	if (done < 0)
		return ldr_fail(err, LDR_ECORRUPT,
				"lz4 block: malformed, or more than its plain length %u",
				plain_bytes);
	if ((uint32_t)done != plain_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"lz4 block: decodes to %d bytes, plain length %u", done,
				plain_bytes);
	return LDR_OK;
}

/* Exactly one frame with this content size and without a dictionary. */
static enum ldr_status check_frame(const uint8_t *stored, uint32_t stored_bytes,
				   uint32_t plain_bytes, struct ldr_error *err)
{
	unsigned long long content;
	size_t frame;

	if (stored_bytes < 4 || ldr_get_le(stored, 4) != ZSTD_FRAME_MAGIC)
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: begins with no zstd frame");
	content = ZSTD_getFrameContentSize(stored, stored_bytes);
	if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR)
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: frame without a content size");
	if (content != plain_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: content size %llu, plain length %u",
				content, plain_bytes);
	if (ZSTD_getDictID_fromFrame(stored, stored_bytes) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: needs dictionary %u, expected none",
				ZSTD_getDictID_fromFrame(stored, stored_bytes));
	frame = ZSTD_findFrameCompressedSize(stored, stored_bytes);
	if (ZSTD_isError(frame))
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: frame does not end in %u bytes",
				stored_bytes);
	if (frame != stored_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: frame length %zu, stored length %u",
				frame, stored_bytes);
	return LDR_OK;
}

static enum ldr_status decode_zstd(struct ldr_coder *coder, const void *stored,
				   uint32_t stored_bytes, void *plain, uint32_t plain_bytes,
				   struct ldr_error *err)
{
	enum ldr_status status = check_frame(stored, stored_bytes, plain_bytes, err);
	size_t done;

	if (status != LDR_OK)
		return status;
	if (!coder->expander)
		coder->expander = ZSTD_createDCtx();
	if (!coder->expander)
		return ldr_fail(err, LDR_ENOMEM, "zstd block: no memory for a decoder");
	done = ZSTD_decompressDCtx(coder->expander, plain, plain_bytes, stored, stored_bytes);
	if (ZSTD_isError(done))
		return ldr_fail(err, LDR_ECORRUPT, "zstd block: %s", ZSTD_getErrorName(done));
	if (done != plain_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"zstd block: decodes to %zu bytes, plain length %u", done,
				plain_bytes);
	return LDR_OK;
}

/* Two buffers with their lengths and a context are seven. */
/* NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_decode(struct ldr_coder *coder, enum ldr_codec codec, const void *stored,
			   uint32_t stored_bytes, void *plain, uint32_t plain_bytes,
			   struct ldr_error *err)
{
	if (plain_bytes > LDR_BLOCK_MAX_BYTES || stored_bytes > LDR_STORED_MAX_BYTES)
		return ldr_fail(err, LDR_ECORRUPT,
				"block: stored length %u, limit %u, plain length %u, limit %u",
				stored_bytes, LDR_STORED_MAX_BYTES, plain_bytes,
				LDR_BLOCK_MAX_BYTES);
	switch (codec) {
	case LDR_CODEC_NONE:
		return decode_none(stored, stored_bytes, plain, plain_bytes, err);
	case LDR_CODEC_LZ4:
		return decode_lz4(stored, stored_bytes, plain, plain_bytes, err);
	case LDR_CODEC_ZSTD:
		return decode_zstd(coder, stored, stored_bytes, plain, plain_bytes, err);
	case LDR_CODEC_COUNT:
	default:
		return ldr_fail(err, LDR_EUNSUPPORTED, "block: unknown codec %u", (unsigned)codec);
	}
}

enum ldr_status ldr_decode_until(struct ldr_coder *coder, const struct ldr_coded *coded,
				 uint32_t until, void *plain, uint32_t plain_bytes,
				 struct ldr_error *err)
{
	int done;

	if (coded->codec != LDR_CODEC_LZ4 || until >= plain_bytes ||
	    plain_bytes > LDR_BLOCK_MAX_BYTES || coded->bytes > LDR_STORED_MAX_BYTES)
		return ldr_decode(coder, coded->codec, coded->stored, coded->bytes, plain,
				  plain_bytes, err);
	done = LZ4_decompress_safe_partial(coded->stored, plain, (int)coded->bytes, (int)until,
					   (int)plain_bytes);
	if (done < 0)
		return ldr_fail(err, LDR_ECORRUPT, "lz4 block: malformed before byte %u", until);
	if ((uint32_t)done < until)
		return ldr_fail(err, LDR_ECORRUPT,
				"lz4 block: decodes to %d bytes, plain length %u", done,
				plain_bytes);
	return LDR_OK;
}

/* ---- encoding, checked ---- */

/* An encoder's fault must never cost content, only room: what does not decode back is stored raw. */
static bool decodes_back(const struct task *task, const struct stored_form *form)
{
	uint8_t *scratch = ldr_coder_scratch(task->coder);

	return scratch &&
	       ldr_decode(task->coder, form->codec, task->stored, form->bytes, scratch,
			  task->plain_bytes, NULL) == LDR_OK &&
	       memcmp(scratch, task->plain, task->plain_bytes) == 0;
}

/* Two buffers with their lengths and a context are seven. */
/* NOLINTNEXTLINE(readability-function-size) */
void ldr_encode(struct ldr_coder *coder, const struct ldr_codec_choice *choice, const void *plain,
		uint32_t plain_bytes, void *stored, enum ldr_codec *out_codec,
		uint32_t *out_stored_bytes)
{
	struct task task = {coder, choice->level, plain, plain_bytes, stored};
	struct stored_form form = encode(&task, choice->policy);

	if (form.codec != LDR_CODEC_NONE && !decodes_back(&task, &form))
		form = (struct stored_form){LDR_CODEC_NONE, plain_bytes};
	if (form.codec == LDR_CODEC_NONE)
		ldr_copy(stored, plain, plain_bytes);
	*out_codec = form.codec;
	*out_stored_bytes = form.bytes;
}
