/*
 * The pack writer: what it writes is read back, the same appends give the same bytes, and what a reader
 * would refuse is not written.
 */
#include "packs/pack_writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "common/publisher_seams.h"
#include "tests/unit/packs/pack_fixture.h"

static const struct fixture_shape shapes[] = {
	{1, 0, 0, NULL, NULL},
	{1, 1, 1, NULL, NULL},
	{1, 9, 70, "a tree", NULL},
	{1, 9, 5000, NULL, "a record"},
	{4096, 12, 3000, "", "a record"},
	{65536, 7, 65536, "a tree", "a record"},
	{1, 3000, 33, NULL, NULL},
};
#define SHAPES (sizeof(shapes) / sizeof(*shapes))

static void read_all_back(const struct ldr_pack *pack, const struct fixture_shape *shape)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();

	cr_assert_eq(ldr_pack_entry_count(pack), shape->block_count);
	for (uint32_t i = 0; i < shape->block_count; i++) {
		uint32_t length = shape->plain_bytes + i;
		LDR_AUTO_FREE uint8_t *plain = malloc(length);
		LDR_AUTO_FREE uint8_t *got = malloc(length);
		struct ldr_pack_entry entry;
		struct ldr_error err = {0};
		struct ldr_id id;

		fixture_fill(i % 3 == 2 ? FIXTURE_RANDOM : FIXTURE_TEXT, i, plain, length);
		ldr_digest(hasher, plain, length, &id);
		cr_assert(ldr_pack_find(pack, &id, &entry), "block %u", i);
		cr_assert_eq(entry.plain_bytes, length);
		if (entry.codec == LDR_CODEC_NONE)
			cr_assert_eq(entry.offset % shape->align, 0);
		cr_assert_eq(ldr_pack_read(pack, &entry, coder, hasher, got, &err), LDR_OK, "%s",
			     err.text);
		cr_assert_arr_eq(got, plain, length);
	}
}

static void check_section(const struct ldr_pack *pack, enum ldr_section kind, const char *text)
{
	const uint8_t *bytes;
	uint64_t length;

	cr_assert_eq(ldr_pack_section(pack, kind, &bytes, &length), text != NULL);
	if (text) {
		cr_assert_eq(length, strlen(text));
		cr_assert_arr_eq(bytes, text, length);
	}
}

Test(pack_writer, what_is_written_is_read_back)
{
	for (unsigned i = 0; i < SHAPES; i++)
		for (unsigned mode = 0; mode <= (LDR_PACK_MAP | LDR_PACK_DIGEST); mode++) {
			LDR_AUTO_BUFFER struct ldr_buffer bytes;
			LDR_AUTO_PACK struct ldr_pack *pack = NULL;
			struct ldr_error err = {0};
			struct ldr_id id;
			struct ldr_pack_options options = {.mode = mode, .expected_id = &id};

			fixture_pack(&shapes[i], &bytes, &id);
			cr_assert_eq(fixture_open(bytes.data, bytes.length, &options, &pack, &err),
				     LDR_OK, "shape %u: %s", i, err.text);
			cr_assert(ldr_id_equal(ldr_pack_id(pack), &id));
			cr_assert_eq(ldr_pack_size(pack), bytes.length);
			read_all_back(pack, &shapes[i]);
			check_section(pack, LDR_SECTION_TREE, shapes[i].tree);
			check_section(pack, LDR_SECTION_RECORD, shapes[i].record);
			cr_assert_eq(ldr_pack_verify(pack, NULL, NULL, NULL, &err), LDR_OK, "%s",
				     err.text);
		}
}

Test(pack_writer, same_appends_same_bytes)
{
	for (unsigned i = 0; i < SHAPES; i++) {
		LDR_AUTO_BUFFER struct ldr_buffer first, second;
		struct ldr_id first_id, second_id;

		fixture_pack(&shapes[i], &first, &first_id);
		fixture_pack(&shapes[i], &second, &second_id);
		cr_assert_eq(first.length, second.length);
		cr_assert_arr_eq(first.data, second.data, first.length);
		cr_assert(ldr_id_equal(&first_id, &second_id));
	}
}

static void has_and_find(struct ldr_pack_writer *writer, const struct ldr_block_ref *blocks,
			 unsigned count)
{
	struct ldr_id other = blocks[0].id;
	struct ldr_pack_entry entry;

	for (unsigned i = 0; i < count; i++) {
		cr_assert(ldr_pack_writer_has(writer, &blocks[i].id), "block %u", i);
		cr_assert(ldr_pack_writer_find(writer, &blocks[i].id, &entry));
		cr_assert(ldr_id_equal(&entry.id, &blocks[i].id));
		cr_assert_eq(entry.plain_bytes, blocks[i].plain_bytes);
	}
	other.bytes[LDR_ID_BYTES - 1] ^= 1;
	cr_assert_not(ldr_pack_writer_has(writer, &other));
}

Test(pack_writer, knows_what_it_has)
{
	enum { COUNT = 2500 };
	LDR_AUTO_FREE struct ldr_block_ref *blocks = calloc(COUNT, sizeof(*blocks));
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	struct fixture_stream stream;
	struct ldr_error err = {0};
	uint8_t plain[16] = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	cr_assert_eq(ldr_pack_writer_new(stream.stream, NULL, &writer, &err), LDR_OK);
	for (uint32_t i = 0; i < COUNT; i++) {
		ldr_put_le(plain, 4, i);
		fixture_append(writer, LDR_POLICY_NONE, plain, sizeof(plain), &blocks[i]);
	}
	cr_assert_eq(ldr_pack_writer_count(writer), COUNT);
	cr_assert_eq(ldr_pack_writer_bytes(writer), 64 + COUNT * 16);
	has_and_find(writer, blocks, COUNT);
	cr_assert_eq(
		ldr_pack_writer_append(writer, &blocks[7], LDR_CODEC_NONE, plain, 16, NULL, &err),
		LDR_EEXISTS);
	cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_OK, "%s", err.text);
	has_and_find(writer, blocks, COUNT);
	fixture_stream_end(&stream);
}

Test(pack_writer, what_a_reader_would_refuse_is_not_written)
{
	static const struct {
		uint32_t plain_bytes;
		enum ldr_codec codec;
		uint32_t stored_bytes;
	} rows[] = {
		{0, LDR_CODEC_NONE, 0},  {LDR_BLOCK_MAX_BYTES + 1, LDR_CODEC_LZ4, 10},
		{10, LDR_CODEC_NONE, 9}, {10, LDR_CODEC_NONE, 11},
		{10, LDR_CODEC_LZ4, 10}, {10, LDR_CODEC_ZSTD, 11},
		{10, LDR_CODEC_LZ4, 0},  {10, LDR_CODEC_COUNT, 5},
	};
	static const uint8_t salt[16], proof[24];
	struct ldr_pack_writer_options options[] = {
		{.align = 3},
		{.align = 131072},
		{.flags = 3},
		{.flags = 4},
		{.salt = salt},
		{.proof = proof},
		{.flags = 2},
		{.flags = 2, .salt = salt},
		{.flags = 1, .salt = salt},
		{.flags = 2, .proof = proof},
	};
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	struct fixture_stream stream;
	struct ldr_error err = {0};
	uint8_t stored[16] = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	for (unsigned i = 0; i < sizeof(options) / sizeof(*options); i++)
		cr_assert_eq(ldr_pack_writer_new(stream.stream, &options[i], &writer, &err),
			     options[i].flags > 2 ? LDR_EUNSUPPORTED : LDR_EINVAL, "options %u", i);
	cr_assert_eq(ldr_pack_writer_new(stream.stream, NULL, &writer, &err), LDR_OK);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct ldr_block_ref block = {.plain_bytes = rows[i].plain_bytes};

		cr_assert_eq(ldr_pack_writer_append(writer, &block, rows[i].codec, stored,
						    rows[i].stored_bytes, NULL, &err),
			     LDR_EINVAL, "row %u", i);
	}
	cr_assert_eq(ldr_pack_writer_section(writer, LDR_SECTION_ENTRIES, stored, 1, &err),
		     LDR_EINVAL);
	cr_assert_eq(ldr_pack_writer_section(writer, (enum ldr_section)6, stored, 1, &err),
		     LDR_EINVAL);
	cr_assert_eq(ldr_pack_writer_section(writer, LDR_SECTION_TREE, stored, 1, &err), LDR_OK);
	cr_assert_eq(ldr_pack_writer_section(writer, LDR_SECTION_TREE, stored, 1, &err),
		     LDR_EEXISTS);
	cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_OK, "%s", err.text);
	/* Sealed is sealed, and a second pack does not begin behind the first. */
	{
		struct ldr_block_ref block = {.plain_bytes = 10};
		struct ldr_pack_writer *second = NULL;

		cr_assert_eq(ldr_pack_writer_append(writer, &block, LDR_CODEC_NONE, stored, 10,
						    NULL, &err),
			     LDR_EINVAL);
		cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_EINVAL);
		cr_assert_eq(ldr_pack_writer_new(stream.stream, NULL, &second, &err), LDR_EINVAL);
	}
	fixture_stream_end(&stream);
}

/* Every write of a pack fails once; the writer says so, and says so again ever after. */
Test(pack_writer, a_failed_write_breaks_the_writer)
{
	unsigned failures = 0;

	for (unsigned nth = 1; nth < 200; nth++) {
		LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
		enum ldr_status status;
		struct ldr_block_ref block = {.plain_bytes = 10};
		struct fixture_stream stream;
		struct ldr_error err = {0};
		uint8_t stored[10] = {0};
		struct ldr_id id;
		uint64_t size;

		fixture_stream_begin(&stream);
		ldr_seam_fail(LDR_SEAM_WRITE, nth, 1, ENOSPC);
		status = ldr_pack_writer_new(stream.stream, NULL, &writer, &err);
		if (status == LDR_OK)
			status = ldr_pack_writer_append(writer, &block, LDR_CODEC_NONE, stored, 10,
							NULL, &err);
		if (status == LDR_OK)
			status = ldr_pack_writer_seal(writer, &id, &size, &err);
		ldr_seam_reset();
		if (status == LDR_OK) {
			fixture_stream_end(&stream);
			break;
		}
		failures++;
		cr_assert_eq(status, LDR_ENOSPACE, "write %u: %s", nth, err.text);
		if (writer)
			cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_ENOSPACE);
		fixture_stream_end(&stream);
	}
	cr_assert_gt(failures, 0);
}
