/*
 * The table of places: random adding, dropping and finding against a plain array; and its file: what is
 * written is read, whatever else is refused.
 */
#include "cache/lookup.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"

#define PACKS 40u
#define ROWS 60u

/* An id by number. Few different first bytes, so that cells collide and runs of them grow long. */
static struct ldr_id id_of(uint32_t number)
{
	struct ldr_id id = {{0}};

	id.bytes[0] = (uint8_t)(number % 7);
	ldr_put_le(id.bytes + 12, 4, number % 5);
	ldr_put_le(id.bytes + 20, 4, number);
	return id;
}

static struct ldr_pack_entry entry_of(uint32_t number)
{
	return (struct ldr_pack_entry){.id = id_of(number),
				       .offset = 64 + number,
				       .stored_bytes = 1 + number % 1000,
				       .plain_bytes = 1 + number % 2000,
				       .codec = (enum ldr_codec)(number % LDR_CODEC_COUNT),
				       .checksum = number * UINT64_C(0x9e3779b97f4a7c15)};
}

/* How many live rows the model has for each number, and which pack has which numbers. */
struct model {
	uint32_t copies[1000];
	struct {
		bool used;
		uint32_t count;
		uint32_t numbers[ROWS];
		bool dropped[ROWS];
	} packs[PACKS * 2];
	uint64_t blocks;
};

static void compare(const struct ldr_lookup *lookup, const struct model *model)
{
	uint32_t pack, row;

	cr_assert_eq(lookup->blocks, model->blocks);
	for (uint32_t number = 0; number < 1000; number++) {
		struct ldr_id id = id_of(number);
		bool found = ldr_lookup_find(lookup, &id, &pack, &row);

		cr_assert_eq(found, model->copies[number] > 0, "number %u", number);
		if (!found)
			continue;
		cr_assert(model->packs[pack].used && row < model->packs[pack].count);
		cr_assert_eq(model->packs[pack].numbers[row], number);
		cr_assert_not(model->packs[pack].dropped[row], "a dropped row was found");
		cr_assert_eq(lookup->packs[pack].rows[row].entry.offset, 64 + number);
	}
}

static void add_pack(struct ldr_lookup *lookup, struct model *model, uint32_t *random)
{
	uint32_t pack = ldr_lookup_add_pack(lookup), count;

	cr_assert_lt(pack, PACKS * 2, "numbers are given out again");
	cr_assert_not(model->packs[pack].used);
	*random = *random * 1664525u + 1013904223u;
	count = (*random >> 8) % ROWS;
	model->packs[pack].used = true;
	model->packs[pack].count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct ldr_pack_entry entry;
		uint32_t number;

		*random = *random * 1664525u + 1013904223u;
		number = (*random >> 8) % 1000;
		entry = entry_of(number);
		cr_assert(ldr_lookup_add(lookup, pack, &entry));
		model->packs[pack].numbers[i] = number;
		model->packs[pack].dropped[i] = false;
		model->copies[number]++;
		model->blocks++;
	}
}

static void drop_row(struct ldr_lookup *lookup, struct model *model, uint32_t pack, uint32_t row)
{
	if (row >= model->packs[pack].count)
		return;
	ldr_lookup_drop_row(lookup, pack, row);
	if (!model->packs[pack].dropped[row]) {
		model->packs[pack].dropped[row] = true;
		model->copies[model->packs[pack].numbers[row]]--;
		model->blocks--;
	}
}

Test(lookup, random_steps_agree_with_a_model)
{
	static struct model model;
	struct ldr_lookup lookup = {0};
	uint32_t random = 99, used = 0;
	struct ldr_id id = id_of(3);
	uint32_t pack, row;

	cr_assert_not(ldr_lookup_find(&lookup, &id, &pack, &row));
	for (unsigned step = 0; step < 3000; step++) {
		random = random * 1664525u + 1013904223u;
		pack = (random >> 8) % (PACKS * 2);
		if (used < PACKS && (random >> 24) % 3 == 0) {
			add_pack(&lookup, &model, &random);
			used++;
		} else if (model.packs[pack].used && (random >> 24) % 4 == 0) {
			for (uint32_t i = 0; i < model.packs[pack].count; i++) {
				if (model.packs[pack].dropped[i])
					continue;
				model.copies[model.packs[pack].numbers[i]]--;
				model.blocks--;
			}
			model.packs[pack].used = false;
			ldr_lookup_drop_pack(&lookup, pack);
			used--;
		} else if (model.packs[pack].used) {
			drop_row(&lookup, &model, pack, (random >> 16) % ROWS);
		}
		if (step % 50 == 0)
			compare(&lookup, &model);
	}
	compare(&lookup, &model);
	ldr_lookup_dispose(&lookup);
	cr_assert_eq(lookup.blocks, 0);
}

/* A file with packs of the given numbers of rows. */
static void write_file(struct ldr_buffer *out, const uint32_t *rows, uint32_t packs)
{
	uint32_t number = 0;

	ldr_buffer_init(out, 1 << 20);
	ldr_lookup_file_begin(out, packs);
	for (uint32_t i = 0; i < packs; i++) {
		struct ldr_id id = {{0}};

		id.bytes[5] = (uint8_t)(i + 1);
		ldr_lookup_file_pack(out, &id, 100000 + i, rows[i]);
	}
	for (uint32_t i = 0; i < packs; i++) {
		struct ldr_lookup lookup = {0};
		uint32_t pack = ldr_lookup_add_pack(&lookup);

		for (uint32_t k = 0; k < rows[i]; k++) {
			struct ldr_pack_entry entry = entry_of(number++);

			cr_assert(ldr_lookup_add(&lookup, pack, &entry));
		}
		/* One more, which is bad and left out. */
		cr_assert(ldr_lookup_add(&lookup, pack, &(struct ldr_pack_entry){.offset = 1}));
		ldr_lookup_drop_row(&lookup, pack, rows[i]);
		ldr_lookup_file_rows(out, &lookup.packs[pack]);
		ldr_lookup_dispose(&lookup);
	}
	ldr_lookup_file_end(out);
	cr_assert_not(out->failed);
}

Test(lookup, what_is_written_is_read)
{
	static const uint32_t rows[] = {3, 0, 7, 1};
	struct ldr_lookup_listed listed;
	struct ldr_lookup_file file;
	struct ldr_pack_entry entry;
	struct ldr_buffer out;
	struct ldr_id id = {{0}};
	uint32_t number = 0;

	write_file(&out, rows, 4);
	cr_assert_eq(out.length, 24 + 4 * 48 + 11 * 56 + 8);
	cr_assert_eq(ldr_lookup_file_parse(out.data, out.length, &file, NULL), LDR_OK);
	cr_assert_eq(file.pack_count, 4);
	cr_assert_eq(file.row_count, 11);
	cr_assert_not(ldr_lookup_file_find(&file, &id, &listed));
	for (uint32_t i = 0; i < 4; i++) {
		id.bytes[5] = (uint8_t)(i + 1);
		cr_assert(ldr_lookup_file_find(&file, &id, &listed));
		cr_assert_eq(listed.size_bytes, 100000 + i);
		cr_assert_eq(listed.count, rows[i]);
		for (uint32_t k = 0; k < rows[i]; k++, number++) {
			struct ldr_pack_entry expected = entry_of(number);

			ldr_lookup_file_row(&file, listed.first + k, &entry);
			cr_assert(ldr_id_equal(&entry.id, &expected.id));
			cr_assert_eq(entry.offset, expected.offset);
			cr_assert_eq(entry.stored_bytes, expected.stored_bytes);
			cr_assert_eq(entry.plain_bytes, expected.plain_bytes);
			cr_assert_eq(entry.codec, expected.codec);
			cr_assert_eq(entry.checksum, expected.checksum);
		}
	}
	ldr_buffer_dispose(&out);
	write_file(&out, rows, 0);
	cr_assert_eq(ldr_lookup_file_parse(out.data, out.length, &file, NULL), LDR_OK);
	cr_assert_eq(file.pack_count, 0);
	ldr_buffer_dispose(&out);
}

static enum ldr_status parse_copy(const uint8_t *bytes, size_t length, struct ldr_error *err)
{
	struct ldr_lookup_file file;
	uint8_t *copy = malloc(length ? length : 1);
	enum ldr_status status;

	memcpy(copy, bytes, length);
	status = ldr_lookup_file_parse(copy, length, &file, err);
	free(copy);
	return status;
}

Test(lookup, damage_is_refused_anywhere)
{
	static const uint32_t rows[] = {2, 1};
	struct ldr_buffer out;

	write_file(&out, rows, 2);
	for (size_t length = 0; length < out.length; length++)
		cr_assert_neq(parse_copy(out.data, length, NULL), LDR_OK, "length %zu", length);
	for (size_t bit = 0; bit < out.length * 8; bit++) {
		out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_neq(parse_copy(out.data, out.length, NULL), LDR_OK, "bit %zu", bit);
		out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ldr_buffer_dispose(&out);
}

Test(lookup, fields_that_no_program_writes_are_refused_behind_a_right_checksum)
{
	enum { PACK = 24, ROW = 24 + 2 * 48 };
	static const struct {
		const char *name;
		size_t at;
		unsigned width;
		uint64_t value;
		enum ldr_status status;
	} fields[] = {
		{"magic", 0, 1, 'X', LDR_ECORRUPT},
		{"version", 8, 4, 2, LDR_EUNSUPPORTED},
		{"packs", 12, 4, 3, LDR_ECORRUPT},
		{"packs", 12, 4, UINT32_MAX, LDR_ECORRUPT},
		{"rows", 16, 8, 4, LDR_ECORRUPT},
		{"rows", 16, 8, UINT64_MAX, LDR_ECORRUPT},
		{"rows that wrap", 16, 8, UINT64_C(1) << 61, LDR_ECORRUPT},
		{"pack out of order", PACK, 1, 9, LDR_ECORRUPT},
		{"pack size", PACK + 32, 8, 10, LDR_ECORRUPT},
		{"pack rows", PACK + 40, 4, 3, LDR_ECORRUPT},
		{"pack rows", PACK + 40, 4, UINT32_MAX, LDR_ECORRUPT},
		{"pack rows fewer", PACK + 40, 4, 1, LDR_ECORRUPT},
		{"last pack rows fewer", PACK + 48 + 40, 4, 0, LDR_ECORRUPT},
		{"first row", PACK + 44, 4, 1, LDR_ECORRUPT},
		{"offset in the header", ROW + 40, 6, 63, LDR_ECORRUPT},
		{"offset at the end", ROW + 40, 6, 100000, LDR_ECORRUPT},
		{"offset", ROW + 40, 6, (UINT64_C(1) << 48) - 1, LDR_ECORRUPT},
		{"stored 0", ROW + 46, 4, 0, LDR_ECORRUPT},
		{"stored", ROW + 46, 4, LDR_STORED_MAX_BYTES + 1, LDR_ECORRUPT},
		{"plain 0", ROW + 50, 4, 0, LDR_ECORRUPT},
		{"plain", ROW + 50, 4, LDR_BLOCK_MAX_BYTES + 1, LDR_ECORRUPT},
		{"codec", ROW + 54, 1, LDR_CODEC_COUNT, LDR_ECORRUPT},
		{"zero", ROW + 55, 1, 1, LDR_ECORRUPT},
		{"nothing", ROW + 54, 1, 0, LDR_OK},
	};
	static const uint32_t rows[] = {2, 1};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct ldr_error err = {0};
		struct ldr_buffer out;

		write_file(&out, rows, 2);
		ldr_put_le(out.data + fields[i].at, fields[i].width, fields[i].value);
		ldr_put_le(out.data + out.length - 8, 8, ldr_checksum(out.data, out.length - 8));
		cr_expect_eq(parse_copy(out.data, out.length, &err), fields[i].status, "%s: %s",
			     fields[i].name, err.text);
		if (fields[i].status)
			cr_expect_eq(strncmp(err.text, "lookup: ", 8), 0, "%s", err.text);
		ldr_buffer_dispose(&out);
	}
}
