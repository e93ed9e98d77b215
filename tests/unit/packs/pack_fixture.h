/*
 * Packs for the tests of reader and writer: made by the product's writer, then held in memory, where
 * they can be changed and opened again.
 */
#ifndef LDR_TESTS_UNIT_PACKS_PACK_FIXTURE_H
#define LDR_TESTS_UNIT_PACKS_PACK_FIXTURE_H

#include "common/bytes.h"
#include "packs/pack_reader.h"
#include "packs/pack_writer.h"
#include "tests/support/pack_repair.h"

/* Bytes that lz4 and zstd shrink, that only an entropy coder shrinks, that nothing shrinks. */
enum fixture_bytes {
	FIXTURE_TEXT,
	FIXTURE_UNEVEN,
	FIXTURE_RANDOM,
};

void fixture_fill(enum fixture_bytes kind, uint64_t seed, uint8_t *bytes, size_t length);

struct fixture_shape {
	uint32_t align;
	uint32_t block_count; /* kinds in turn */
	uint32_t plain_bytes; /* of the first; each further one is one longer */
	const char *tree;     /* NULL: no section */
	const char *record;
};

/* A stream in a folder of its own, gone with fixture_stream_end. */
struct fixture_stream {
	char folder[64];
	struct ldr_root *root;
	struct ldr_stream *stream;
};
void fixture_stream_begin(struct fixture_stream *stream);
/* What the stream holds, into a new buffer. */
void fixture_stream_bytes(const struct fixture_stream *stream, struct ldr_buffer *out_bytes);
void fixture_stream_end(struct fixture_stream *stream);

/* Encodes (policy) and appends one block; gives its reference. */
void fixture_append(struct ldr_pack_writer *writer, enum ldr_codec_policy policy,
		    const uint8_t *plain, uint32_t plain_bytes, struct ldr_block_ref *out_block);
/* A whole pack; its id where out_id is not NULL. */
void fixture_pack(const struct fixture_shape *shape, struct ldr_buffer *out_bytes,
		  struct ldr_id *out_id);
/* Opens bytes as a pack called "test". */
enum ldr_status fixture_open(const void *bytes, size_t length,
			     const struct ldr_pack_options *options, struct ldr_pack **out_pack,
			     struct ldr_error *err);
int fixture_memfd(const void *bytes, size_t length);

/* Six blocks (two of each codec), both optional sections, gaps before the raw ones. */
extern const struct fixture_shape fixture_six;
/* The entry of a block by its number in the order of offsets: lz4, zstd, raw, lz4, zstd, raw. */
uint8_t *fixture_entry_by_offset(const struct repair *pack, unsigned wanted);

struct fixture_found {
	unsigned good, bad;
};
/* Reads every entry without a hasher; the message of a bad one must name pack, block and offset, and no
 * byte of it may show. */
struct fixture_found fixture_read_all(const struct ldr_pack *pack);

#endif
