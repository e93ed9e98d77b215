/*
 * Bounds-checked cursor and growing buffer; see bytes.h.
 */
#include "common/bytes.h"

#include <stdlib.h>

#define VARINT_MAX_BYTES 10

struct ldr_cursor ldr_cursor_over(const void *bytes, size_t length)
{
	static const uint8_t nothing[1];
	const uint8_t *start = bytes ? bytes : nothing;

	return (struct ldr_cursor){.next = start, .end = start + length, .start = start};
}

const uint8_t *ldr_cursor_bytes(struct ldr_cursor *cursor, size_t length)
{
	const uint8_t *bytes = cursor->next;

	if (cursor->failed || (size_t)(cursor->end - cursor->next) < length) {
		cursor->failed = true;
		return NULL;
	}
	cursor->next += length;
	return bytes;
}

static uint64_t read_le(struct ldr_cursor *cursor, unsigned width)
{
	const uint8_t *bytes = ldr_cursor_bytes(cursor, width);

	return bytes ? ldr_get_le(bytes, width) : 0;
}

uint8_t ldr_cursor_u8(struct ldr_cursor *cursor)
{
	return (uint8_t)read_le(cursor, 1);
}

uint16_t ldr_cursor_u16(struct ldr_cursor *cursor)
{
	return (uint16_t)read_le(cursor, 2);
}

uint32_t ldr_cursor_u24(struct ldr_cursor *cursor)
{
	return (uint32_t)read_le(cursor, 3);
}

uint32_t ldr_cursor_u32(struct ldr_cursor *cursor)
{
	return (uint32_t)read_le(cursor, 4);
}

uint64_t ldr_cursor_u48(struct ldr_cursor *cursor)
{
	return read_le(cursor, 6);
}

uint64_t ldr_cursor_u64(struct ldr_cursor *cursor)
{
	return read_le(cursor, 8);
}

uint64_t ldr_cursor_varint(struct ldr_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < VARINT_MAX_BYTES; i++) {
		uint8_t byte = ldr_cursor_u8(cursor);

		if (cursor->failed)
			return 0;
		/* The tenth byte holds only bit 63; a last byte of 0 would be a longer form. */
		if ((i == VARINT_MAX_BYTES - 1 && byte > 1) || (i > 0 && byte == 0))
			break;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (!(byte & 0x80))
			return value;
	}
	cursor->failed = true;
	return 0;
}

void ldr_buffer_init(struct ldr_buffer *buffer, size_t max_bytes)
{
	*buffer = (struct ldr_buffer){.max_bytes = max_bytes};
}

void ldr_buffer_dispose(struct ldr_buffer *buffer)
{
	free(buffer->data);
	ldr_buffer_init(buffer, buffer->max_bytes);
}

void ldr_buffer_clear(struct ldr_buffer *buffer)
{
	buffer->length = 0;
	buffer->failed = false;
}

static bool grow(struct ldr_buffer *buffer, size_t wanted)
{
	size_t capacity = buffer->capacity ? buffer->capacity : 256;
	uint8_t *data;

	while (capacity < wanted)
		capacity = capacity > SIZE_MAX / 2 ? wanted : capacity * 2;
	if (capacity > buffer->max_bytes)
		capacity = buffer->max_bytes;
	data = realloc(buffer->data, capacity);
	if (!data)
		return false;
	buffer->data = data;
	buffer->capacity = capacity;
	return true;
}

uint8_t *ldr_buffer_extend(struct ldr_buffer *buffer, size_t length)
{
	size_t wanted = buffer->length + length;
	uint8_t *room;

	if (buffer->failed || wanted < length || wanted > buffer->max_bytes ||
	    ((wanted > buffer->capacity || !buffer->data) && !grow(buffer, wanted))) {
		buffer->failed = true;
		return NULL;
	}
	room = buffer->data + buffer->length;
	buffer->length = wanted;
	return room;
}

void ldr_buffer_put(struct ldr_buffer *buffer, const void *bytes, size_t length)
{
	uint8_t *room = ldr_buffer_extend(buffer, length);

	if (room)
		ldr_copy(room, bytes, length);
}

static void put_le(struct ldr_buffer *buffer, unsigned width, uint64_t value)
{
	uint8_t *room = ldr_buffer_extend(buffer, width);

	if (room)
		ldr_put_le(room, width, value);
}

void ldr_buffer_u8(struct ldr_buffer *buffer, uint8_t value)
{
	put_le(buffer, 1, value);
}

void ldr_buffer_u16(struct ldr_buffer *buffer, uint16_t value)
{
	put_le(buffer, 2, value);
}

void ldr_buffer_u24(struct ldr_buffer *buffer, uint32_t value)
{
	put_le(buffer, 3, value);
}

void ldr_buffer_u32(struct ldr_buffer *buffer, uint32_t value)
{
	put_le(buffer, 4, value);
}

void ldr_buffer_u48(struct ldr_buffer *buffer, uint64_t value)
{
	put_le(buffer, 6, value);
}

void ldr_buffer_u64(struct ldr_buffer *buffer, uint64_t value)
{
	put_le(buffer, 8, value);
}

void ldr_buffer_varint(struct ldr_buffer *buffer, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		ldr_buffer_u8(buffer, (uint8_t)(value | 0x80));
	ldr_buffer_u8(buffer, (uint8_t)value);
}

uint8_t *ldr_buffer_take(struct ldr_buffer *buffer)
{
	uint8_t *data = buffer->data;

	buffer->data = NULL;
	ldr_buffer_dispose(buffer);
	return data;
}

void ldr_cleanup_free(void *pointer_to_pointer)
{
	free(*(void **)pointer_to_pointer);
}
