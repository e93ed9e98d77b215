/*
 * The log of whiteouts: what is read back, what a crash may have left at its end, what is refused.
 */
#include "vfs/hidden.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/path.h"

#define HEADER_BYTES 16u

static void put_header(struct ldr_buffer *log, uint32_t version)
{
	ldr_buffer_put(log, "LARDHIDE", 8);
	ldr_buffer_u32(log, version);
	ldr_buffer_u32(log, 0);
}

static void put_record(struct ldr_buffer *log, const char *path, size_t length)
{
	size_t start = log->length;

	ldr_buffer_u16(log, (uint16_t)length);
	ldr_buffer_put(log, path, length);
	ldr_buffer_u64(log, ldr_checksum(log->data + start, log->length - start));
}

static enum ldr_status count_record(void *context, const char *path, size_t path_bytes,
				    struct ldr_error *err)
{
	(void)path;
	(void)path_bytes;
	(void)err;
	++*(unsigned *)context;
	return LDR_OK;
}

static enum ldr_status parse(const struct ldr_buffer *log, size_t length, unsigned *out_count,
			     size_t *out_good)
{
	struct ldr_error err = {.status = LDR_OK};
	enum ldr_status status;

	*out_count = 0;
	status = ldr_hidden_parse(log->data, length, count_record, out_count, out_good, &err);
	cr_assert_eq(status, err.status, "%s", err.text);
	return status;
}

/* Two records, then `wanted` bytes of a third one that should have come to 10 + strlen(third). */
static const char third[] = "folder/with a name/of some length.bin";

static void begin(struct ldr_buffer *log)
{
	*log = (struct ldr_buffer){.max_bytes = 1 << 20};
	put_header(log, 1);
	put_record(log, "a", 1);
	put_record(log, "b/c", 3);
}

/* A crash leaves any part of the last append: cut short, or at its full length with zeros where
 * bytes did not arrive, from any place on. */
Test(hidden, torn_ends)
{
	const size_t whole = 10 + strlen(third);
	struct ldr_buffer log;
	unsigned count;
	size_t good, two;

	begin(&log);
	two = log.length;
	put_record(&log, third, strlen(third));
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_OK);
	cr_assert(count == 3 && good == log.length);
	for (size_t length = 0; length < whole; length++) {
		for (size_t arrived = 0; arrived <= length; arrived++) {
			struct ldr_buffer torn = {.max_bytes = 1 << 20};

			ldr_buffer_put(&torn, log.data, two + arrived);
			for (size_t i = arrived; i < length; i++)
				ldr_buffer_put(&torn, "", 1);
			cr_assert_eq(parse(&torn, torn.length, &count, &good), LDR_OK,
				     "length %zu of %zu, arrived %zu", length, whole, arrived);
			cr_assert(count == 2 && good == two, "length %zu, arrived %zu: %u records",
				  length, arrived, count);
			ldr_buffer_dispose(&torn);
		}
	}
	/* At full length, with any one block of it missing. */
	for (size_t from = 0; from < whole; from++) {
		struct ldr_buffer torn = {.max_bytes = 1 << 20};

		ldr_buffer_put(&torn, log.data, log.length);
		memset(torn.data + two + from, 0, whole - from);
		cr_assert_eq(parse(&torn, torn.length, &count, &good), LDR_OK, "from %zu", from);
		cr_assert(count == 2 && good == two, "from %zu: %u records", from, count);
		memcpy(torn.data + two, log.data + two, whole);
		memset(torn.data + two, 0, from + 1);
		cr_assert_eq(parse(&torn, torn.length, &count, &good), LDR_OK, "up to %zu", from);
		cr_assert(count == 2 && good == two, "up to %zu: %u records", from, count);
		ldr_buffer_dispose(&torn);
	}
	ldr_buffer_dispose(&log);
}

/* The longest record there can be, zeroed: still one append. One byte more was never one. */
Test(hidden, longest_torn_end)
{
	struct ldr_buffer log;
	unsigned count;
	size_t good, two;

	begin(&log);
	two = log.length;
	for (size_t i = 0; i < 10 + LDR_PATH_MAX_BYTES; i++)
		ldr_buffer_put(&log, "", 1);
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_OK);
	cr_assert(count == 2 && good == two);
	ldr_buffer_put(&log, "", 1);
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_ECORRUPT);
	ldr_buffer_dispose(&log);
}

/* A bad record with a good one behind it was acknowledged once: guessing would show what was
 * removed. */
Test(hidden, damage_in_the_middle)
{
	struct ldr_buffer log;
	unsigned count;
	size_t good, two;

	begin(&log);
	two = log.length;
	for (size_t i = HEADER_BYTES; i < two - 13; i++) { /* the first record */
		for (unsigned flip = 1; flip < 256; flip *= 2) {
			log.data[i] ^= (uint8_t)flip;
			cr_assert_eq(parse(&log, two, &count, &good), LDR_ECORRUPT, "byte %zu ^ %u",
				     i, flip);
			log.data[i] ^= (uint8_t)flip;
		}
	}
	memset(log.data + HEADER_BYTES, 0, two - 13 - HEADER_BYTES);
	cr_assert_eq(parse(&log, two, &count, &good), LDR_ECORRUPT, "zeroed");
	ldr_buffer_dispose(&log);
}

Test(hidden, headers_and_names)
{
	static const char *const illegal[] = {"/a", "a/", "a//b", "..", "a/./b", "a\\b", "\x01"};
	struct ldr_buffer log;
	unsigned count;
	size_t good;

	for (size_t i = 0; i < sizeof(illegal) / sizeof(illegal[0]); i++) {
		begin(&log);
		put_record(&log, illegal[i], strlen(illegal[i]));
		cr_assert_eq(parse(&log, log.length, &count, &good), LDR_ECORRUPT, "%s",
			     illegal[i]);
		ldr_buffer_dispose(&log);
	}
	begin(&log);
	cr_assert_eq(parse(&log, HEADER_BYTES, &count, &good), LDR_OK);
	cr_assert(count == 0 && good == HEADER_BYTES);
	for (size_t length = 0; length < HEADER_BYTES; length++)
		cr_assert_eq(parse(&log, length, &count, &good), LDR_ECORRUPT, "%zu", length);
	log.data[8] = 2;
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_EUNSUPPORTED);
	log.data[8] = 1;
	log.data[12] = 1;
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_EUNSUPPORTED);
	log.data[0] = 'l';
	cr_assert_eq(parse(&log, log.length, &count, &good), LDR_ECORRUPT);
	ldr_buffer_dispose(&log);
}
