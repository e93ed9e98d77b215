/*
 * The cursor and the buffer: bounds, stickiness, little-endian fields, varints in their shortest form.
 */
#include "common/bytes.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

static const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88, 0x99, 0xaa};

static uint64_t read_field(struct ldr_cursor *cursor, unsigned width)
{
	switch (width) {
	case 1:
		return ldr_cursor_u8(cursor);
	case 2:
		return ldr_cursor_u16(cursor);
	case 3:
		return ldr_cursor_u24(cursor);
	case 4:
		return ldr_cursor_u32(cursor);
	case 6:
		return ldr_cursor_u48(cursor);
	default:
		return ldr_cursor_u64(cursor);
	}
}

static void write_field(struct ldr_buffer *buffer, unsigned width, uint64_t value)
{
	switch (width) {
	case 1:
		ldr_buffer_u8(buffer, (uint8_t)value);
		break;
	case 2:
		ldr_buffer_u16(buffer, (uint16_t)value);
		break;
	case 3:
		ldr_buffer_u24(buffer, (uint32_t)value);
		break;
	case 4:
		ldr_buffer_u32(buffer, (uint32_t)value);
		break;
	case 6:
		ldr_buffer_u48(buffer, value);
		break;
	default:
		ldr_buffer_u64(buffer, value);
	}
}

Test(bytes, cursor_fields_and_bounds)
{
	static const struct {
		unsigned width;
		uint64_t value;
	} cases[] = {
		{1, 0x01},       {2, 0x0201},         {3, 0x030201},
		{4, 0x04030201}, {6, 0x060504030201}, {8, 0x8807060504030201},
	};

	for (size_t i = 0; i < CASES(cases); i++) {
		unsigned width = cases[i].width;

		/* Of exactly so many bytes, so that a sanitizer sees a read past them. */
		for (size_t length = 0; length <= width; length++) {
			uint8_t *own = malloc(length ? length : 1);
			struct ldr_cursor cursor;

			memcpy(own, bytes, length);
			cursor = ldr_cursor_over(own, length);
			cr_expect_eq(ldr_cursor_left(&cursor), length);
			cr_expect_eq(read_field(&cursor, width),
				     length == width ? cases[i].value : 0);
			cr_expect_eq(cursor.failed, length < width);
			cr_expect_eq(ldr_cursor_left(&cursor), 0u);
			cr_expect_eq(ldr_cursor_position(&cursor), length == width ? width : 0u);
			free(own);
		}
	}
}

Test(bytes, cursor_is_sticky)
{
	struct ldr_cursor cursor = ldr_cursor_over(bytes, sizeof(bytes));
	struct ldr_cursor nothing = ldr_cursor_over(NULL, 0);

	cr_expect_eq(ldr_cursor_bytes(&cursor, 4), bytes);
	cr_expect_eq(ldr_cursor_position(&cursor), 4u);
	cr_expect_not_null(ldr_cursor_bytes(&cursor, 0));
	cr_expect_null(ldr_cursor_bytes(&cursor, 7));
	cr_expect(cursor.failed);
	cr_expect_eq(ldr_cursor_u8(&cursor), 0, "though there are bytes left");
	cr_expect_null(ldr_cursor_bytes(&cursor, 0));
	cr_expect_eq(ldr_cursor_varint(&cursor), 0u);
	cursor = ldr_cursor_over(bytes, sizeof(bytes));
	cr_expect_null(ldr_cursor_bytes(&cursor, SIZE_MAX));
	cr_expect_not_null(ldr_cursor_bytes(&nothing, 0));
	cr_expect_not(nothing.failed);
	cr_expect_eq(ldr_cursor_u8(&nothing), 0);
	cr_expect(nothing.failed);
}

Test(bytes, varints)
{
	static const struct {
		uint64_t value;
		const char *bytes;
		size_t length;
	} legal[] = {
		{0, "\x00", 1},
		{1, "\x01", 1},
		{127, "\x7f", 1},
		{128, "\x80\x01", 2},
		{300, "\xac\x02", 2},
		{16383, "\xff\x7f", 2},
		{16384, "\x80\x80\x01", 3},
		{UINT32_MAX, "\xff\xff\xff\xff\x0f", 5},
		{INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9},
		{UINT64_C(1) << 63, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
		{UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
	};
	static const struct {
		const char *bytes;
		size_t length;
	} refused[] = {
		{"", 0},
		{"\x80", 1},
		{"\xff\xff", 2},
		{"\x80\x00", 2},
		{"\xff\x00", 2},
		{"\x80\x80\x00", 3},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81", 10},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
	};

	for (size_t i = 0; i < CASES(legal); i++) {
		struct ldr_cursor cursor = ldr_cursor_over(legal[i].bytes, legal[i].length);
		LDR_AUTO_BUFFER struct ldr_buffer buffer;

		cr_expect_eq(ldr_cursor_varint(&cursor), legal[i].value, "%zu", i);
		cr_expect(!cursor.failed && ldr_cursor_left(&cursor) == 0, "%zu", i);
		ldr_buffer_init(&buffer, 100);
		ldr_buffer_varint(&buffer, legal[i].value);
		cr_expect(buffer.length == legal[i].length &&
				  memcmp(buffer.data, legal[i].bytes, buffer.length) == 0,
			  "%zu", i);
	}
	for (size_t i = 0; i < CASES(refused); i++) {
		struct ldr_cursor cursor = ldr_cursor_over(refused[i].bytes, refused[i].length);

		cr_expect_eq(ldr_cursor_varint(&cursor), 0u, "%zu", i);
		cr_expect(cursor.failed, "%zu", i);
	}
}

Test(bytes, buffer_fields_come_back)
{
	static const unsigned widths[] = {1, 2, 3, 4, 6, 8};
	LDR_AUTO_BUFFER struct ldr_buffer buffer;
	struct ldr_cursor cursor;

	ldr_buffer_init(&buffer, 1 << 20);
	for (uint64_t i = 0; i < 600; i++)
		write_field(&buffer, widths[i % 6], i * UINT64_C(0x9e3779b97f4a7c15));
	cr_assert_not(buffer.failed);
	cursor = ldr_cursor_over(buffer.data, buffer.length);
	for (uint64_t i = 0; i < 600; i++) {
		unsigned width = widths[i % 6];
		uint64_t mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * width) - 1;

		cr_expect_eq(read_field(&cursor, width), i * UINT64_C(0x9e3779b97f4a7c15) & mask);
	}
	cr_expect(!cursor.failed && ldr_cursor_left(&cursor) == 0);
}

Test(bytes, buffer_limit_and_ownership)
{
	struct ldr_buffer buffer;
	uint8_t *data;

	ldr_buffer_init(&buffer, 10);
	ldr_buffer_put(&buffer, NULL, 0);
	cr_expect(!buffer.failed && buffer.length == 0);
	ldr_buffer_put(&buffer, "0123456789", 10);
	cr_expect(!buffer.failed && buffer.length == 10);
	cr_expect_not_null(ldr_buffer_extend(&buffer, 0));
	ldr_buffer_u8(&buffer, 1);
	cr_expect(buffer.failed && buffer.length == 10, "the limit");
	cr_expect_null(ldr_buffer_extend(&buffer, 0), "sticky");
	ldr_buffer_clear(&buffer);
	cr_expect(!buffer.failed && buffer.length == 0 && buffer.capacity == 10);
	cr_expect_null(ldr_buffer_extend(&buffer, SIZE_MAX), "no overflow");
	ldr_buffer_clear(&buffer);
	ldr_buffer_put(&buffer, "abc", 3);
	data = ldr_buffer_take(&buffer);
	cr_expect(memcmp(data, "abc", 3) == 0);
	cr_expect(!buffer.data && buffer.length == 0 && buffer.max_bytes == 10);
	free(data);
	ldr_buffer_put(&buffer, "d", 1);
	cr_expect_eq(buffer.length, 1u, "usable again");
	ldr_buffer_dispose(&buffer);
	ldr_buffer_dispose(&buffer);
	ldr_buffer_init(&buffer, 0);
	cr_expect_null(ldr_buffer_extend(&buffer, 1));
	ldr_buffer_dispose(&buffer);
}

Test(bytes, clean_up_and_steal)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), stolen;
	char *text = strdup("x"), *taken;

	{
		LDR_AUTO_FD int own = fd;
		LDR_AUTO_FD int none = -1;

		(void)own;
		(void)none;
	}
	cr_expect_eq(fcntl(fd, F_GETFD), -1, "closed");
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	{
		LDR_AUTO_FD int own = fd;

		stolen = ldr_steal_fd(&own);
	}
	cr_expect_eq(stolen, fd);
	cr_expect_neq(fcntl(fd, F_GETFD), -1, "still open");
	close(fd);
	{
		LDR_AUTO_FREE char *own = text;

		taken = LDR_STEAL(own);
		cr_expect_null(own);
	}
	cr_expect_str_eq(taken, "x");
	free(taken);
}
