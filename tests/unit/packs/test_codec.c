/*
 * Codecs: every policy gives its bytes back and keeps its promise about sizes; whatever is not exactly
 * one well-formed block is refused.
 */
#include "packs/codec.h"

#include <criterion/criterion.h>
#include <lz4.h>
#include <stdlib.h>
#include <zstd.h>

#include "tests/unit/packs/pack_fixture.h"

struct coded {
	enum ldr_codec codec;
	uint32_t bytes;
	uint8_t stored[LDR_STORED_MAX_BYTES];
};

static void encode(struct ldr_coder *coder, enum ldr_codec_policy policy, int level,
		   const uint8_t *plain, uint32_t length, struct coded *out)
{
	struct ldr_codec_choice choice = {policy, level};

	ldr_encode(coder, &choice, plain, length, out->stored, &out->codec, &out->bytes);
}

static const uint32_t lengths[] = {1,   2,    3,    15,    16,     17,
				   100, 1000, 4096, 65536, 200001, LDR_BLOCK_MAX_BYTES};

Test(codec, every_policy_gives_the_bytes_back)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_FREE uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	LDR_AUTO_FREE uint8_t *back = malloc(LDR_BLOCK_MAX_BYTES);
	LDR_AUTO_FREE struct coded *form = malloc(sizeof(*form));
	LDR_AUTO_FREE struct coded *again = malloc(sizeof(*again));
	static const int levels[] = {0, 1, 5, 9, 100, -3};

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (unsigned kind = 0; kind <= FIXTURE_RANDOM; kind++)
			for (unsigned policy = 0; policy <= LDR_POLICY_AUTO; policy++) {
				int level = levels[(i + kind + policy) % 6];
				LDR_AUTO_CODER struct ldr_coder *fresh = ldr_coder_new();
				struct ldr_error err = {0};
				uint32_t n = lengths[i];

				fixture_fill((enum fixture_bytes)kind, i, plain, n);
				encode(coder, (enum ldr_codec_policy)policy, level, plain, n, form);
				cr_assert_leq(form->bytes, n);
				if (form->codec != LDR_CODEC_NONE)
					cr_assert_leq(form->bytes, n * 95ull / 100);
				memset(back, 0xee, n);
				cr_assert_eq(ldr_decode(coder, form->codec, form->stored,
							form->bytes, back, n, &err),
					     LDR_OK, "%s", err.text);
				cr_assert_arr_eq(back, plain, n);
				/* What the coder did before leaves no trace in the bytes. */
				encode(fresh, (enum ldr_codec_policy)policy, level, plain, n,
				       again);
				cr_assert_eq(again->bytes, form->bytes);
				cr_assert_arr_eq(again->stored, form->stored, form->bytes);
			}
}

Test(codec, the_policies_choose_as_they_say)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	static const struct {
		enum fixture_bytes bytes;
		enum ldr_codec_policy policy;
		enum ldr_codec codec;
	} rows[] = {
		{FIXTURE_TEXT, LDR_POLICY_NONE, LDR_CODEC_NONE},
		{FIXTURE_TEXT, LDR_POLICY_LZ4, LDR_CODEC_LZ4},
		{FIXTURE_TEXT, LDR_POLICY_ZSTD, LDR_CODEC_ZSTD},
		{FIXTURE_TEXT, LDR_POLICY_AUTO, LDR_CODEC_ZSTD},
		{FIXTURE_RANDOM, LDR_POLICY_LZ4, LDR_CODEC_NONE},
		{FIXTURE_RANDOM, LDR_POLICY_ZSTD, LDR_CODEC_NONE},
		{FIXTURE_RANDOM, LDR_POLICY_AUTO, LDR_CODEC_NONE},
		/* lz4 finds nothing in these, the entropy coder does: the quick test lets it try. */
		{FIXTURE_UNEVEN, LDR_POLICY_LZ4, LDR_CODEC_NONE},
		{FIXTURE_UNEVEN, LDR_POLICY_AUTO, LDR_CODEC_ZSTD},
	};
	LDR_AUTO_FREE uint8_t *plain = malloc(65536);
	LDR_AUTO_FREE struct coded *form = malloc(sizeof(*form));

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		fixture_fill(rows[i].bytes, 3, plain, 65536);
		encode(coder, rows[i].policy, 0, plain, 65536, form);
		cr_assert_eq(form->codec, rows[i].codec, "row %u: %s, expected %s", i,
			     ldr_codec_name(form->codec), ldr_codec_name(rows[i].codec));
	}
	/* Equal bytes: zstd saves less than 5 % of the plain bytes over lz4. */
	memset(plain, 'a', 65536);
	encode(coder, LDR_POLICY_AUTO, 0, plain, 65536, form);
	cr_assert_eq(form->codec, LDR_CODEC_LZ4);
}

Test(codec, names)
{
	cr_assert_str_eq(ldr_codec_name(LDR_CODEC_NONE), "none");
	cr_assert_str_eq(ldr_codec_name(LDR_CODEC_LZ4), "lz4");
	cr_assert_str_eq(ldr_codec_name(LDR_CODEC_ZSTD), "zstd");
	cr_assert_null(ldr_codec_name(LDR_CODEC_COUNT));
}

struct bad {
	const char *name;
	enum ldr_codec codec;
	size_t length;
	uint32_t plain_bytes;
	enum ldr_status status;
	const char *says;
	uint8_t stored[96];
};

/* Frames by hand, RFC 8878: magic, descriptor, content size, then a block header of three bytes. */
#define MAGIC 0x28, 0xb5, 0x2f, 0xfd
/* Single segment, one byte of content size 8; last block, raw, 8 bytes. */
#define FRAME_OF_8 MAGIC, 0x20, 8, 0x41, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'

static const struct bad bad_forms[] = {
	{"unknown codec", LDR_CODEC_COUNT, 4, 4, LDR_EUNSUPPORTED, "unknown codec 3", {0}},
	{"raw too short", LDR_CODEC_NONE, 3, 4, LDR_ECORRUPT, "stored length 3", {0}},
	{"raw too long", LDR_CODEC_NONE, 5, 4, LDR_ECORRUPT, "stored length 5", {0}},
	{"lz4 empty", LDR_CODEC_LZ4, 0, 4, LDR_ECORRUPT, "malformed", {0}},
	{"lz4 short",
	 LDR_CODEC_LZ4,
	 4,
	 8,
	 LDR_ECORRUPT,
	 "decodes to 3 bytes, plain length 8",
	 {0x30, 'a', 'b', 'c'}},
	{"lz4 long",
	 LDR_CODEC_LZ4,
	 4,
	 2,
	 LDR_ECORRUPT,
	 "more than its plain length 2",
	 {0x30, 'a', 'b', 'c'}},
	{"lz4 match before the start",
	 LDR_CODEC_LZ4,
	 10,
	 16,
	 LDR_ECORRUPT,
	 "lz4",
	 {0x10, 'a', 9, 0, 0x50, 'a', 'b', 'c', 'd', 'e'}},
	{"zstd empty", LDR_CODEC_ZSTD, 0, 8, LDR_ECORRUPT, "no zstd frame", {0}},
	{"zstd magic", LDR_CODEC_ZSTD, 17, 8, LDR_ECORRUPT, "no zstd frame", {1}},
	{"zstd skippable frame",
	 LDR_CODEC_ZSTD,
	 12,
	 4,
	 LDR_ECORRUPT,
	 "no zstd frame",
	 {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd'}},
	{"zstd old format",
	 LDR_CODEC_ZSTD,
	 12,
	 4,
	 LDR_ECORRUPT,
	 "no zstd frame",
	 {0x27, 0xb5, 0x2f, 0xfd}},
	{"zstd other content size",
	 LDR_CODEC_ZSTD,
	 17,
	 9,
	 LDR_ECORRUPT,
	 "content size 8, plain length 9",
	 {FRAME_OF_8}},
	{"zstd without content size",
	 LDR_CODEC_ZSTD,
	 17,
	 8,
	 LDR_ECORRUPT,
	 "without a content size",
	 {MAGIC, 0, 0x58, 0x41, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'}},
	{"zstd dictionary",
	 LDR_CODEC_ZSTD,
	 18,
	 8,
	 LDR_ECORRUPT,
	 "needs dictionary 77",
	 {MAGIC, 0x21, 77, 8, 0x41, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'}},
	{"zstd byte behind the frame",
	 LDR_CODEC_ZSTD,
	 18,
	 8,
	 LDR_ECORRUPT,
	 "frame length 17, stored length 18",
	 {FRAME_OF_8, 0}},
	{"zstd two frames",
	 LDR_CODEC_ZSTD,
	 34,
	 8,
	 LDR_ECORRUPT,
	 "frame length 17",
	 {FRAME_OF_8, FRAME_OF_8}},
	{"zstd skippable frame behind",
	 LDR_CODEC_ZSTD,
	 25,
	 8,
	 LDR_ECORRUPT,
	 "frame length 17",
	 {FRAME_OF_8, 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}},
	{"zstd cut", LDR_CODEC_ZSTD, 16, 8, LDR_ECORRUPT, "does not end in 16 bytes", {FRAME_OF_8}},
	{"zstd blocks shorter than it says",
	 LDR_CODEC_ZSTD,
	 17,
	 9,
	 LDR_ECORRUPT,
	 "zstd",
	 {MAGIC, 0x20, 9, 0x41, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'}},
	{"zstd blocks longer than it says",
	 LDR_CODEC_ZSTD,
	 17,
	 7,
	 LDR_ECORRUPT,
	 "zstd",
	 {MAGIC, 0x20, 7, 0x41, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'}},
	{"zstd reserved block type",
	 LDR_CODEC_ZSTD,
	 17,
	 8,
	 LDR_ECORRUPT,
	 "zstd",
	 {MAGIC, 0x20, 8, 0x47, 0, 0, 'p', 'l', 'a', 'i', 'n', '1', '2', '3'}},
	{"plain length over the limit",
	 LDR_CODEC_NONE,
	 4,
	 LDR_BLOCK_MAX_BYTES + 1,
	 LDR_ECORRUPT,
	 "limit 262144",
	 {0}},
};

Test(codec, whatever_is_not_one_block_is_refused)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();

	for (unsigned i = 0; i < sizeof(bad_forms) / sizeof(*bad_forms); i++) {
		const struct bad *row = &bad_forms[i];
		/* Of exactly their sizes, so that a sanitizer sees a step outside. */
		LDR_AUTO_FREE uint8_t *stored = malloc(row->length + !row->length);
		LDR_AUTO_FREE uint8_t *plain = malloc(row->plain_bytes);
		struct ldr_error err = {0};
		enum ldr_status status;

		memcpy(stored, row->stored, row->length);
		status = ldr_decode(coder, row->codec, stored, (uint32_t)row->length, plain,
				    row->plain_bytes, &err);
		cr_expect_eq(status, row->status, "%s: %s: %s", row->name, ldr_status_name(status),
			     err.text);
		cr_expect(strstr(err.text, row->says), "%s: \"%s\" lacks \"%s\"", row->name,
			  err.text, row->says);
	}
	/* The frame by hand is a good one, so the rows above fail for what they name. */
	{
		static const uint8_t frame[] = {FRAME_OF_8};
		uint8_t plain[8];

		cr_assert_eq(
			ldr_decode(coder, LDR_CODEC_ZSTD, frame, sizeof(frame), plain, 8, NULL),
			LDR_OK);
		cr_assert_arr_eq(plain, "plain123", 8);
	}
}

Test(codec, every_truncation_and_bit_is_refused_or_decodes_to_the_full_length)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	static const enum ldr_codec_policy policies[] = {LDR_POLICY_LZ4, LDR_POLICY_ZSTD};
	LDR_AUTO_FREE uint8_t *plain = malloc(3000);
	LDR_AUTO_FREE uint8_t *back = malloc(3000);
	LDR_AUTO_FREE struct coded *form = malloc(sizeof(*form));

	fixture_fill(FIXTURE_TEXT, 11, plain, 3000);
	for (unsigned p = 0; p < 2; p++) {
		encode(coder, policies[p], 0, plain, 3000, form);
		for (uint32_t length = 0; length < form->bytes; length++) {
			LDR_AUTO_FREE uint8_t *cut = malloc(length + 1);

			memcpy(cut, form->stored, length);
			cr_assert_eq(ldr_decode(coder, form->codec, cut, length, back, 3000, NULL),
				     LDR_ECORRUPT, "policy %u cut at %u", p, length);
		}
		for (uint32_t bit = 0; bit < form->bytes * 8; bit++) {
			form->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
			ldr_decode(coder, form->codec, form->stored, form->bytes, back, 3000, NULL);
			form->stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		cr_assert_eq(
			ldr_decode(coder, form->codec, form->stored, form->bytes, back, 3000, NULL),
			LDR_OK, "a coder works after refusals");
		cr_assert_arr_eq(back, plain, 3000);
	}
}

Test(codec, the_beginning_of_a_block_alone)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_FREE uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	LDR_AUTO_FREE uint8_t *back = malloc(LDR_BLOCK_MAX_BYTES);
	LDR_AUTO_FREE struct coded *form = malloc(sizeof(*form));
	const uint32_t n = 65536;
	const uint32_t untils[] = {1, 2, 63, 4096, 4097, 32768, n - 13, n - 1, n};

	for (unsigned policy = 0; policy <= LDR_POLICY_ZSTD; policy++) {
		fixture_fill(FIXTURE_TEXT, 7, plain, n);
		encode(coder, (enum ldr_codec_policy)policy, 0, plain, n, form);
		for (size_t i = 0; i < sizeof(untils) / sizeof(*untils); i++) {
			struct ldr_coded coded = {form->codec, form->bytes, form->stored};
			struct ldr_error err = {0};

			memset(back, 0xee, LDR_BLOCK_MAX_BYTES);
			cr_assert_eq(ldr_decode_until(coder, &coded, untils[i], back, n, &err),
				     LDR_OK, "%s", err.text);
			cr_assert_arr_eq(back, plain, untils[i]);
			cr_assert_eq(back[n], 0xee, "nothing behind the block");
			if (form->codec == LDR_CODEC_LZ4 && untils[i] < n)
				cr_assert_eq(back[untils[i] + 64], 0xee, "no more than asked for");
		}
	}
	/* Cut, it gives the beginning or an error, and never claims what is not there. */
	fixture_fill(FIXTURE_TEXT, 7, plain, n);
	encode(coder, LDR_POLICY_LZ4, 0, plain, n, form);
	for (uint32_t cut = 0; cut < form->bytes; cut += 97) {
		struct ldr_coded coded = {form->codec, cut, form->stored};

		if (ldr_decode_until(coder, &coded, 30000, back, n, NULL) == LDR_OK)
			cr_assert_arr_eq(back, plain, 30000);
		else
			cr_assert_lt(cut, form->bytes / 2 + 1000);
	}
}
