/*
 * See pack_fixture.h.
 */
#include "tests/unit/packs/pack_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void fixture_fill(enum fixture_bytes kind, uint64_t seed, uint8_t *bytes, size_t length)
{
	static const char *const words[] = {
		"terrain ", "unit ", "attack=", "\n", "[/variation]", "image=\"units/elf.png\"",
		"frame",    "42"};
	uint64_t state = seed;
	size_t at = 0;

	while (at < length) {
		uint64_t random = next_random(&state);

		switch (kind) {
		case FIXTURE_TEXT:
			for (const char *c = words[random % 8]; *c && at < length; c++)
				bytes[at++] = (uint8_t)*c;
			break;
		case FIXTURE_UNEVEN:
			/* Mostly the lower half of the values: an order-0 entropy of about 7.2 bits. */
			bytes[at++] = (uint8_t)(random & 0xf00 ? random & 0x7f : random);
			break;
		case FIXTURE_RANDOM:
			bytes[at++] = (uint8_t)(random >> 32);
			break;
		}
	}
}

void fixture_stream_begin(struct fixture_stream *stream)
{
	struct ldr_publish_options options = {.sync = LDR_SYNC_NONE};
	struct ldr_error err = {0};

	strcpy(stream->folder, "/tmp/larder-pack.XXXXXX"); /* style: fixed text into 64 bytes */
	cr_assert_not_null(mkdtemp(stream->folder));
	cr_assert_eq(ldr_root_open(stream->folder, false, &stream->root, &err), LDR_OK, "%s",
		     err.text);
	cr_assert_eq(ldr_stream_begin(stream->root, "", &options, &stream->stream, &err), LDR_OK,
		     "%s", err.text);
}

void fixture_stream_bytes(const struct fixture_stream *stream, struct ldr_buffer *out_bytes)
{
	size_t length = (size_t)ldr_stream_length(stream->stream);
	uint8_t *room;

	ldr_buffer_init(out_bytes, SIZE_MAX);
	room = ldr_buffer_extend(out_bytes, length);
	cr_assert_not_null(room);
	cr_assert_eq(pread(ldr_stream_fd(stream->stream), room, length, 0), (ssize_t)length);
}

void fixture_stream_end(struct fixture_stream *stream)
{
	ldr_stream_abort(stream->stream);
	ldr_root_close(stream->root);
	cr_assert_eq(rmdir(stream->folder), 0, "an aborted stream leaves nothing");
}

void fixture_append(struct ldr_pack_writer *writer, enum ldr_codec_policy policy,
		    const uint8_t *plain, uint32_t plain_bytes, struct ldr_block_ref *out_block)
{
	struct ldr_codec_choice choice = {policy, 0};
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_FREE uint8_t *stored = malloc(plain_bytes);
	struct ldr_error err = {0};
	uint32_t stored_bytes;
	enum ldr_codec codec;
	uint64_t offset;

	cr_assert(coder && stored);
	ldr_digest_once(plain, plain_bytes, &out_block->id, NULL);
	out_block->plain_bytes = plain_bytes;
	ldr_encode(coder, &choice, plain, plain_bytes, stored, &codec, &stored_bytes);
	cr_assert_eq(ldr_pack_writer_append(writer, out_block, codec, stored, stored_bytes, &offset,
					    &err),
		     LDR_OK, "%s", err.text);
}

static void append_blocks(struct ldr_pack_writer *writer, const struct fixture_shape *shape)
{
	static const enum ldr_codec_policy policies[] = {LDR_POLICY_LZ4, LDR_POLICY_ZSTD,
							 LDR_POLICY_NONE};

	for (uint32_t i = 0; i < shape->block_count; i++) {
		uint32_t length = shape->plain_bytes + i;
		LDR_AUTO_FREE uint8_t *plain = malloc(length);
		struct ldr_block_ref block;

		cr_assert_not_null(plain);
		fixture_fill(i % 3 == 2 ? FIXTURE_RANDOM : FIXTURE_TEXT, i, plain, length);
		fixture_append(writer, policies[i % 3], plain, length, &block);
	}
}

static void add_section(struct ldr_pack_writer *writer, enum ldr_section kind, const char *text)
{
	struct ldr_error err = {0};

	if (text)
		cr_assert_eq(ldr_pack_writer_section(writer, kind, text, strlen(text), &err),
			     LDR_OK, "%s", err.text);
}

void fixture_pack(const struct fixture_shape *shape, struct ldr_buffer *out_bytes,
		  struct ldr_id *out_id)
{
	struct ldr_pack_writer_options options = {.align = shape->align};
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	struct fixture_stream stream;
	struct ldr_error err = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	cr_assert_eq(ldr_pack_writer_new(stream.stream, &options, &writer, &err), LDR_OK, "%s",
		     err.text);
	append_blocks(writer, shape);
	add_section(writer, LDR_SECTION_RECORD, shape->record);
	add_section(writer, LDR_SECTION_TREE, shape->tree);
	cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_OK, "%s", err.text);
	fixture_stream_bytes(&stream, out_bytes);
	cr_assert_eq(out_bytes->length, size);
	if (out_id)
		*out_id = id;
	fixture_stream_end(&stream);
}

int fixture_memfd(const void *bytes, size_t length)
{
	int fd = memfd_create("pack", MFD_CLOEXEC);

	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, bytes, length), (ssize_t)length);
	return fd;
}

enum ldr_status fixture_open(const void *bytes, size_t length,
			     const struct ldr_pack_options *options, struct ldr_pack **out_pack,
			     struct ldr_error *err)
{
	return ldr_pack_open_fd(fixture_memfd(bytes, length), "test", options, out_pack, err);
}

const struct fixture_shape fixture_six = {16, 6, 301, "a tree", "a record"};

uint8_t *fixture_entry_by_offset(const struct repair *pack, unsigned wanted)
{
	uint64_t length;
	uint8_t *entries = repair_section(pack, LDR_SECTION_ENTRIES, &length);

	for (uint64_t i = 0; i < length; i += LDR_PACK_ENTRY_BYTES) {
		unsigned before = 0;

		for (uint64_t j = 0; j < length; j += LDR_PACK_ENTRY_BYTES)
			before += ldr_get_le(entries + j + 32, 6) < ldr_get_le(entries + i + 32, 6);
		if (before == wanted)
			return entries + i;
	}
	return NULL;
}

struct fixture_found fixture_read_all(const struct ldr_pack *pack)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	struct fixture_found found = {0, 0};

	for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++) {
		LDR_AUTO_FREE uint8_t *plain = NULL;
		LDR_AUTO_FREE char *expected = NULL;
		char hex[LDR_ID_HEX_CHARS + 1];
		struct ldr_error err = {0};
		struct ldr_pack_entry entry;

		ldr_pack_entry_at(pack, i, &entry);
		plain = malloc(entry.plain_bytes);
		memset(plain, 0xee, entry.plain_bytes);
		if (ldr_pack_read(pack, &entry, coder, NULL, plain, &err) == LDR_OK) {
			found.good++;
			continue;
		}
		found.bad++;
		cr_assert_eq(err.status, LDR_ECORRUPT);
		ldr_id_to_hex(&entry.id, hex);
		cr_assert(asprintf(&expected, "pack test: block %s at %llu: checksum", hex,
				   (unsigned long long)entry.offset) > 0);
		cr_assert_eq(strncmp(err.text, expected, strlen(expected)), 0, "%s", err.text);
		for (uint32_t b = 0; b < entry.plain_bytes; b++)
			cr_assert_eq(plain[b], 0, "byte %u reached the caller", b);
	}
	return found;
}
