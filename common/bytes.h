/*
 * Bytes from outside are read with a bounds-checked cursor, never cast; bytes for outside are put
 * together in a buffer that grows up to a limit.
 *
 * Both are sticky: after the first failure every further call does nothing (a read gives 0 or NULL),
 * so that a parser checks once, after a group of fields, instead of after each one.
 *
 * All integers are little-endian. Varints are LEB128, at most 10 bytes, in their shortest form
 * (a longer form is a failure, so that equal values have equal bytes).
 *
 * Threads: an object belongs to one thread at a time.
 */
#ifndef LDR_COMMON_BYTES_H
#define LDR_COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrows the bytes that it reads. */
struct ldr_cursor {
	const uint8_t *next;
	const uint8_t *end;
	const uint8_t *start;
	bool failed;
};

struct ldr_cursor ldr_cursor_over(const void *bytes, size_t length);

/* Each moves past what it reads. On too few bytes: failed is set, 0 or NULL comes back. */
uint8_t ldr_cursor_u8(struct ldr_cursor *cursor);
uint16_t ldr_cursor_u16(struct ldr_cursor *cursor);
uint32_t ldr_cursor_u24(struct ldr_cursor *cursor);
uint32_t ldr_cursor_u32(struct ldr_cursor *cursor);
uint64_t ldr_cursor_u48(struct ldr_cursor *cursor);
uint64_t ldr_cursor_u64(struct ldr_cursor *cursor);
uint64_t ldr_cursor_varint(struct ldr_cursor *cursor);
/* Borrowed pointer to the next length bytes. A zero length gives a valid non-NULL pointer. */
const uint8_t *ldr_cursor_bytes(struct ldr_cursor *cursor, size_t length);

static inline size_t ldr_cursor_left(const struct ldr_cursor *cursor)
{
	return cursor->failed ? 0 : (size_t)(cursor->end - cursor->next);
}

static inline size_t ldr_cursor_position(const struct ldr_cursor *cursor)
{
	return (size_t)(cursor->next - cursor->start);
}

/* Owns data (heap). Zeroed except max_bytes is a valid empty buffer; failed means "out of memory, or
 * past max_bytes". Dispose frees data and leaves an empty buffer. */
struct ldr_buffer {
	uint8_t *data;
	size_t length;
	size_t capacity;
	size_t max_bytes;
	bool failed;
};

void ldr_buffer_init(struct ldr_buffer *buffer, size_t max_bytes);
void ldr_buffer_dispose(struct ldr_buffer *buffer);
/* Forgets the contents and the failure, keeps the memory. */
void ldr_buffer_clear(struct ldr_buffer *buffer);
/* Room for length more bytes at the end, already counted in length; NULL on failure. The pointer is
 * valid until the next call. */
uint8_t *ldr_buffer_extend(struct ldr_buffer *buffer, size_t length);
void ldr_buffer_put(struct ldr_buffer *buffer, const void *bytes, size_t length);
void ldr_buffer_u8(struct ldr_buffer *buffer, uint8_t value);
void ldr_buffer_u16(struct ldr_buffer *buffer, uint16_t value);
void ldr_buffer_u24(struct ldr_buffer *buffer, uint32_t value);
void ldr_buffer_u32(struct ldr_buffer *buffer, uint32_t value);
void ldr_buffer_u48(struct ldr_buffer *buffer, uint64_t value);
void ldr_buffer_u64(struct ldr_buffer *buffer, uint64_t value);
void ldr_buffer_varint(struct ldr_buffer *buffer, uint64_t value);
/* Ownership of the data moves to the caller (free() it); the buffer is empty afterwards. */
uint8_t *ldr_buffer_take(struct ldr_buffer *buffer);

/* Single little-endian fields in memory whose bounds the caller has checked. */
static inline uint64_t ldr_get_le(const uint8_t *bytes, unsigned width)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < width; i++)
		value |= (uint64_t)bytes[i] << (8 * i);
	return value;
}

static inline void ldr_put_le(uint8_t *bytes, unsigned width, uint64_t value)
{
	for (unsigned i = 0; i < width; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

/* Clean-up helpers for `__attribute__((cleanup(...)))`. */
void ldr_cleanup_free(void *pointer_to_pointer);
void ldr_cleanup_fd(int *fd);
#define LDR_AUTO_FREE __attribute__((cleanup(ldr_cleanup_free)))
#define LDR_AUTO_FD __attribute__((cleanup(ldr_cleanup_fd)))
#define LDR_AUTO_BUFFER __attribute__((cleanup(ldr_buffer_dispose)))

/* The steal that goes with them: gives the value and leaves the empty one behind. */
#define LDR_STEAL(pointer)                               \
	({                                               \
		__typeof__(pointer) stolen_ = (pointer); \
		(pointer) = NULL;                        \
		stolen_;                                 \
	})

static inline int ldr_steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

/* memcpy and memcmp with a NULL pointer and length 0 are undefined; these are not. */
static inline void ldr_copy(void *to, const void *from, size_t length)
{
	if (length)
		memcpy(to, from, length);
}

#endif
