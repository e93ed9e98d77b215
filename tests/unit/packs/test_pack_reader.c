/*
 * The pack reader: what it finds and reads, its limits, and what it says of faults.
 */
#include "packs/pack_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/pack_repair.h"
#include "tests/unit/packs/pack_fixture.h"

struct faults {
	unsigned count;
	uint64_t offsets[8];
};

static void count_fault(void *context, const struct ldr_pack_entry *entry,
			const struct ldr_error *fault)
{
	struct faults *faults = context;

	cr_assert_eq(fault->status, LDR_ECORRUPT);
	faults->offsets[faults->count++ % 8] = entry->offset;
}

Test(pack_reader, verify_reports_every_fault)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	struct ldr_pack_verify_report report = {0};
	struct faults faults = {0};
	struct ldr_error err = {0};
	struct repair bytes;
	uint64_t first, third;

	fixture_pack(&fixture_six, &base, NULL);
	bytes = (struct repair){base.data, base.length};
	first = ldr_get_le(fixture_entry_by_offset(&bytes, 0) + 32, 6);
	third = ldr_get_le(fixture_entry_by_offset(&bytes, 2) + 32, 6);
	base.data[first] ^= 4;
	base.data[third - 1] ^= 4; /* the gap before the raw block */
	base.data[third] ^= 4;
	cr_assert_eq(fixture_open(base.data, base.length, NULL, &pack, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(ldr_pack_verify(pack, count_fault, &faults, &report, &err), LDR_ECORRUPT);
	cr_assert_eq(faults.count, 3);
	cr_assert_eq(faults.offsets[0], first);
	cr_assert_eq(faults.offsets[1], third);
	cr_assert_eq(faults.offsets[2], third);
	cr_assert_eq(report.blocks, 6);
	cr_assert_eq(report.bad_blocks, 2);
	cr_assert_eq(report.plain_bytes, 301 + 302 + 303 + 304 + 305 + 306);
}

/* The cheap half sees a bit of a stored block and a bit of a gap, read and mapped, and nothing in a good pack. */
Test(pack_reader, verify_stored_sees_blocks_and_gaps)
{
	for (int damage = 0; damage < 3; damage++)
		for (unsigned mode = 0; mode <= LDR_PACK_MAP; mode += LDR_PACK_MAP) {
			const struct ldr_pack_options options = {.mode = mode};
			LDR_AUTO_BUFFER struct ldr_buffer base;
			LDR_AUTO_PACK struct ldr_pack *pack = NULL;
			struct ldr_error err = {0};
			struct repair bytes;
			uint64_t third;

			fixture_pack(&fixture_six, &base, NULL);
			bytes = (struct repair){base.data, base.length};
			third = ldr_get_le(fixture_entry_by_offset(&bytes, 2) + 32, 6);
			if (damage)
				base.data[damage == 1 ? third : third - 1] ^= 4;
			cr_assert_eq(fixture_open(base.data, base.length, &options, &pack, &err),
				     LDR_OK, "%s", err.text);
			cr_assert_eq(ldr_pack_verify_stored(pack, &err),
				     damage ? LDR_ECORRUPT : LDR_OK, "damage %d mode %u: %s",
				     damage, mode, err.text);
		}
}

Test(pack_reader, limits_give_both_values)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	uint64_t index;
	struct ldr_pack_options options[6] = {{0}};
	struct repair bytes;

	fixture_pack(&fixture_six, &base, NULL);
	bytes = (struct repair){base.data, base.length};
	index = base.length - 32 - ldr_get_le(repair_row(&bytes, LDR_SECTION_ENTRIES) + 8, 8);
	options[0].max_pack_bytes = base.length - 1;
	options[1].max_index_bytes = index - 1;
	options[2].max_entries = fixture_six.block_count - 1;
	options[3].max_pack_bytes = base.length;
	options[4].max_index_bytes = index;
	options[5].max_entries = fixture_six.block_count;
	for (unsigned i = 0; i < 6; i++) {
		LDR_AUTO_FREE char *limit = NULL;
		LDR_AUTO_PACK struct ldr_pack *pack = NULL;
		struct ldr_error err = {0};
		enum ldr_status status = fixture_open(base.data, base.length, &options[i], &pack,
						      &err);
		uint64_t value = options[i].max_pack_bytes + options[i].max_index_bytes +
				 options[i].max_entries;

		cr_assert_eq(status, i < 3 ? LDR_ELIMIT : LDR_OK, "row %u: %s", i, err.text);
		if (i >= 3)
			continue;
		cr_assert(asprintf(&limit, "%llu", (unsigned long long)value) > 0);
		cr_assert(strstr(err.text, limit), "row %u: %s", i, err.text);
		free(LDR_STEAL(limit));
		cr_assert(asprintf(&limit, "%llu", (unsigned long long)value + 1) > 0);
		cr_assert(strstr(err.text, limit), "row %u: %s", i, err.text);
	}
}

Test(pack_reader, the_expected_id)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	char got[LDR_ID_HEX_CHARS + 1], want[LDR_ID_HEX_CHARS + 1];
	struct ldr_pack_options options = {0};
	struct ldr_error err = {0};
	struct ldr_id id, other;

	fixture_pack(&fixture_six, &base, &id);
	other = id;
	other.bytes[0] ^= 1;
	options.expected_id = &other;
	cr_assert_eq(fixture_open(base.data, base.length, &options, &pack, &err), LDR_ECORRUPT);
	ldr_id_to_hex(&id, got);
	ldr_id_to_hex(&other, want);
	cr_assert(strstr(err.text, got) && strstr(err.text, want), "%s", err.text);
	options.expected_id = &id;
	cr_assert_eq(fixture_open(base.data, base.length, &options, &pack, &err), LDR_OK);
}

Test(pack_reader, a_pack_inside_a_larger_file)
{
	static const size_t leads[] = {1, 4096, 5001};
	LDR_AUTO_BUFFER struct ldr_buffer base;

	fixture_pack(&fixture_six, &base, NULL);
	for (unsigned i = 0; i < 6; i++) {
		size_t lead = leads[i / 2], total = lead + base.length + 100;
		LDR_AUTO_FREE uint8_t *file = malloc(total);
		LDR_AUTO_PACK struct ldr_pack *pack = NULL;
		struct ldr_pack_options options = {
			.mode = i % 2, .base = lead, .length = base.length};
		struct ldr_error err = {0};

		memset(file, 0xaa, total);
		memcpy(file + lead, base.data, base.length);
		cr_assert_eq(fixture_open(file, total, &options, &pack, &err), LDR_OK, "%s",
			     err.text);
		cr_assert_eq(fixture_read_all(pack).good, fixture_six.block_count);
		ldr_pack_unref(LDR_STEAL(pack));
		options.length = total - lead + 1;
		cr_assert_eq(fixture_open(file, total, &options, &pack, &err), LDR_ECORRUPT);
		options.length = 0;
		cr_assert_eq(fixture_open(file, total, &options, &pack, &err), LDR_ECORRUPT);
		options.base = total + 1;
		cr_assert_eq(fixture_open(file, total, &options, &pack, &err), LDR_ECORRUPT);
		options = (struct ldr_pack_options){
			.mode = i % 2, .base = UINT64_MAX, .length = 400};
		cr_assert_eq(fixture_open(file, total, &options, &pack, &err), LDR_ECORRUPT);
	}
}

/* Blocks under any ids, for the search: it must not rely on ids being digests. */
static void make_with_ids(uint8_t (*byte)(unsigned i, unsigned at), unsigned count,
			  struct ldr_buffer *out)
{
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	struct fixture_stream stream;
	struct ldr_error err = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	cr_assert_eq(ldr_pack_writer_new(stream.stream, NULL, &writer, &err), LDR_OK);
	for (unsigned i = 0; i < count; i++) {
		struct ldr_block_ref block = {.plain_bytes = 1};

		for (unsigned at = 0; at < LDR_ID_BYTES; at++)
			block.id.bytes[at] = byte(i, at);
		cr_assert_eq(
			ldr_pack_writer_append(writer, &block, LDR_CODEC_NONE, "x", 1, NULL, &err),
			LDR_OK, "%s", err.text);
	}
	cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_OK);
	fixture_stream_bytes(&stream, out);
	fixture_stream_end(&stream);
}

static uint8_t all_low(unsigned i, unsigned at)
{
	return at < 30 ? 0 : at == 30 ? (uint8_t)(i >> 8) : (uint8_t)i;
}

static uint8_t all_high(unsigned i, unsigned at)
{
	return at < 30 ? 0xff : all_low(i, at);
}

static uint8_t crowded(unsigned i, unsigned at)
{
	return at == 0 ? (i % 8 ? 0x7f : (uint8_t)(i >> 3)) : all_low(i, at);
}

static uint8_t spread(unsigned i, unsigned at)
{
	return at < 2 ? (uint8_t)(i * 40503u >> (8 - 8 * at)) : all_low(i, at);
}

Test(pack_reader, find_with_any_ids)
{
	uint8_t (*const shapes[])(unsigned, unsigned) = {all_low, all_high, crowded, spread};
	static const unsigned counts[] = {0, 1, 2, 3, 1000};

	for (unsigned s = 0; s < 4; s++)
		for (unsigned c = 0; c < 5; c++) {
			LDR_AUTO_BUFFER struct ldr_buffer bytes;
			LDR_AUTO_PACK struct ldr_pack *pack = NULL;
			struct ldr_pack_entry entry;
			struct ldr_error err = {0};
			struct ldr_id id;

			make_with_ids(shapes[s], counts[c], &bytes);
			cr_assert_eq(fixture_open(bytes.data, bytes.length, NULL, &pack, &err),
				     LDR_OK, "%s", err.text);
			for (unsigned i = 0; i < counts[c]; i++) {
				for (unsigned at = 0; at < LDR_ID_BYTES; at++)
					id.bytes[at] = shapes[s](i, at);
				cr_assert(ldr_pack_find(pack, &id, &entry), "%u %u %u", s, c, i);
				cr_assert(ldr_id_equal(&entry.id, &id));
				id.bytes[2] ^= 0x55;
				cr_assert_not(ldr_pack_find(pack, &id, &entry));
			}
			memset(&id, 0, sizeof(id));
			id.bytes[5] = 1;
			cr_assert_not(ldr_pack_find(pack, &id, &entry));
			memset(&id, 0xff, sizeof(id));
			cr_assert_not(ldr_pack_find(pack, &id, &entry));
		}
}

Test(pack_reader, entries_that_are_not_its_own_are_refused)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	uint8_t plain[400];

	fixture_pack(&fixture_six, &base, NULL);
	for (unsigned mode = 0; mode <= LDR_PACK_MAP; mode++) {
		struct ldr_pack_options options = {.mode = mode};
		LDR_AUTO_PACK struct ldr_pack *pack = NULL;
		struct ldr_pack_entry entry, wrong;

		cr_assert_eq(fixture_open(base.data, base.length, &options, &pack, NULL), LDR_OK);
		ldr_pack_entry_at(pack, 0, &entry);
		cr_assert_eq(ldr_pack_peek_stored(pack, &entry) != NULL, mode == LDR_PACK_MAP);
		for (unsigned i = 0; i < 4; i++) {
			wrong = entry;
			if (i == 0)
				wrong.offset = 0;
			else if (i == 1)
				wrong.offset = UINT64_MAX;
			else if (i == 2)
				wrong.offset = base.length - 8;
			else
				wrong.stored_bytes = UINT32_MAX;
			cr_assert_eq(ldr_pack_read(pack, &wrong, coder, NULL, plain, NULL),
				     LDR_EINVAL, "row %u", i);
			cr_assert_eq(ldr_pack_read_stored(pack, &wrong, plain, NULL), LDR_EINVAL);
			cr_assert_null(ldr_pack_peek_stored(pack, &wrong));
		}
		/* A raw block whose plain length is another would be copied past the caller's buffer. */
		for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++) {
			ldr_pack_entry_at(pack, i, &wrong);
			wrong.plain_bytes--;
			if (wrong.codec == LDR_CODEC_NONE)
				cr_assert_eq(ldr_pack_read(pack, &wrong, coder, NULL, plain, NULL),
					     LDR_ECORRUPT);
		}
	}
}

/* In the default mode a file that shrinks is an error, never a signal. */
Test(pack_reader, a_file_cut_while_open)
{
	LDR_AUTO_BUFFER struct ldr_buffer base;
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	struct ldr_pack_entry entry;
	struct ldr_error err = {0};
	uint8_t plain[400];
	int fd;

	fixture_pack(&fixture_six, &base, NULL);
	fd = fixture_memfd(base.data, base.length);
	cr_assert_eq(ldr_pack_open_fd(dup(fd), "test", NULL, &pack, &err), LDR_OK);
	cr_assert_eq(ftruncate(fd, 64), 0);
	close(fd);
	ldr_pack_entry_at(pack, 0, &entry);
	cr_assert_eq(ldr_pack_read(pack, &entry, coder, NULL, plain, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "its size was"), "%s", err.text);
}

Test(pack_reader, what_is_no_file_is_no_pack)
{
	char folder[] = "/tmp/larder-reader.XXXXXX", pipe_path[64];
	struct ldr_pack *pack = NULL;
	struct ldr_error err = {0};

	cr_assert_not_null(mkdtemp(folder));
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
	cr_assert_eq(mkfifo(pipe_path, 0600), 0);
	cr_expect_eq(ldr_pack_open(folder, NULL, &pack, &err), LDR_EISDIR, "%s", err.text);
	cr_expect_eq(ldr_pack_open(pipe_path, NULL, &pack, &err), LDR_ENOTREG, "%s", err.text);
	cr_expect_eq(ldr_pack_open("/dev/null", NULL, &pack, &err), LDR_ENOTREG, "%s", err.text);
	unlink(pipe_path);
	cr_expect_eq(ldr_pack_open(pipe_path, NULL, &pack, &err), LDR_ENOTFOUND, "%s", err.text);
	cr_expect(strstr(err.text, pipe_path), "%s", err.text);
	rmdir(folder);
}
