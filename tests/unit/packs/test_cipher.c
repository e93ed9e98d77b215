/*
 * Packs with keys: what is protected is read back with the key and shows nothing without it; and whoever
 * can write the file, and knows how checksums are made, can still change nothing unnoticed: neither
 * the index nor the tree, nor can blocks be swapped, changed or replayed from another pack.
 */
#include "packs/cipher.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "packs/pack_protect.h"
#include "tests/unit/packs/pack_fixture.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))
#define BLOCKS 8u
#define BLOCK_BYTES 2000u

static const uint8_t title_key[LDR_TITLE_KEY_BYTES] = "the owner keeps it, nobody else";

/* Even ones raw and equally long, odd ones compressed. */
static void fill_block(uint64_t seed, uint32_t i, uint8_t *bytes)
{
	fixture_fill(i % 2 ? FIXTURE_TEXT : FIXTURE_RANDOM, seed + i, bytes, BLOCK_BYTES);
}

/* A plain pack of eight blocks; the first `common` of them are those of seed 0. */
static void plain_pack(uint64_t seed, uint32_t common, struct ldr_pack **out_pack)
{
	struct ldr_pack_writer_options options = {.align = 16};
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	struct fixture_stream stream;
	struct ldr_block_ref block;
	struct ldr_error err = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	cr_assert_eq(ldr_pack_writer_new(stream.stream, &options, &writer, &err), LDR_OK);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint8_t plain[BLOCK_BYTES];

		fill_block(i < common ? 0 : seed, i, plain);
		fixture_append(writer, LDR_POLICY_LZ4, plain, BLOCK_BYTES, &block);
	}
	cr_assert_eq(ldr_pack_writer_section(writer, LDR_SECTION_TREE, "a tree", 6, &err), LDR_OK);
	cr_assert_eq(ldr_pack_writer_seal(writer, &id, &size, &err), LDR_OK, "%s", err.text);
	fixture_stream_bytes(&stream, &bytes);
	fixture_stream_end(&stream);
	cr_assert_eq(fixture_open(bytes.data, bytes.length, NULL, out_pack, &err), LDR_OK, "%s",
		     err.text);
}

static void protect(const struct ldr_pack *plain, uint32_t flags, struct ldr_buffer *out_bytes)
{
	const struct ldr_protection protection = {flags, title_key};
	struct fixture_stream stream;
	struct ldr_error err = {0};
	struct ldr_id id;
	uint64_t size;

	fixture_stream_begin(&stream);
	cr_assert_eq(ldr_pack_protect(plain, &protection, stream.stream, &id, &size, &err), LDR_OK,
		     "%s", err.text);
	fixture_stream_bytes(&stream, out_bytes);
	cr_assert_eq(out_bytes->length, size);
	fixture_stream_end(&stream);
}

static void encrypted_pack(uint64_t seed, uint32_t common, struct ldr_buffer *out_bytes)
{
	LDR_AUTO_PACK struct ldr_pack *plain = NULL;

	plain_pack(seed, common, &plain);
	protect(plain, LDR_PACK_FLAG_ENCRYPTED, out_bytes);
}

static enum ldr_status open_local(const struct ldr_buffer *bytes, const uint8_t *key, unsigned mode,
				  struct ldr_pack **out_pack, struct ldr_error *err)
{
	const struct ldr_pack_options options = {.mode = LDR_PACK_LOCAL | mode, .title_key = key};

	return fixture_open(bytes->data, bytes->length, &options, out_pack, err);
}

/* Reads a block without looking at its id, as a mount does; a failed read shows nothing. */
static enum ldr_status read_block(const struct ldr_pack *pack, const struct ldr_pack_entry *entry,
				  uint8_t *plain, struct ldr_error *err)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	enum ldr_status status;

	memset(plain, 0xee, entry->plain_bytes);
	status = ldr_pack_read(pack, entry, coder, NULL, plain, err);
	for (uint32_t i = 0; status != LDR_OK && i < entry->plain_bytes; i++)
		cr_assert_eq(plain[i], 0, "byte %u reached the caller", i);
	return status;
}

/* How many of the entries cannot be read for lack of trust; the others must be right. */
static unsigned count_untrusted(const struct ldr_pack *pack)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	unsigned untrusted = 0;

	for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++) {
		LDR_AUTO_FREE uint8_t *plain = NULL;
		struct ldr_pack_entry entry;
		struct ldr_error err = {0};
		struct ldr_id id;

		ldr_pack_entry_at(pack, i, &entry);
		plain = malloc(entry.plain_bytes);
		if (read_block(pack, &entry, plain, &err) == LDR_OK) {
			ldr_digest(hasher, plain, entry.plain_bytes, &id);
			cr_expect(ldr_id_equal(&id, &entry.id), "block %u", i);
			continue;
		}
		cr_expect_eq(err.status, LDR_EUNTRUSTED, "block %u: %s", i, err.text);
		untrusted++;
	}
	return untrusted;
}

/* ---- reading back ---- */

static const struct fixture_shape shapes[] = {
	{1, 0, 0, NULL, NULL},       {1, 1, 1, NULL, NULL},
	{1, 9, 70, "a tree", NULL},  {4096, 12, 3000, "", "a record"},
	{65536, 7, 65536, "t", "r"}, {1, 3, LDR_BLOCK_MAX_BYTES - 2, NULL, NULL},
};

static void check_copy(const struct ldr_pack *plain, const struct ldr_pack *copy, uint32_t flags)
{
	LDR_AUTO_FREE uint8_t *before = malloc(LDR_STORED_MAX_BYTES);
	LDR_AUTO_FREE uint8_t *after = malloc(LDR_STORED_MAX_BYTES);
	struct ldr_pack_verify_report report;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_pack_flags(copy), flags);
	cr_assert_eq(ldr_pack_verify(copy, NULL, NULL, &report, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(report.blocks, ldr_pack_entry_count(plain));
	for (uint32_t i = 0; i < report.blocks; i++) {
		struct ldr_pack_entry was, is;

		ldr_pack_entry_at(plain, i, &was);
		ldr_pack_entry_at(copy, i, &is);
		cr_assert(ldr_id_equal(&was.id, &is.id) && was.codec == is.codec);
		cr_assert_eq(ldr_pack_read_stored(plain, &was, before, &err), LDR_OK);
		cr_assert_eq(ldr_pack_read_stored(copy, &is, after, &err), LDR_OK);
		/* Eight equal bytes by chance: once in 2^64. */
		for (uint32_t at = 0; at + 8 <= was.stored_bytes; at++)
			cr_assert_neq(memcmp(before + at, after + at, 8), 0, "plain at %u", at);
	}
}

Test(cipher, what_is_protected_is_read_back_and_does_not_show)
{
	static const uint32_t flags[] = {LDR_PACK_FLAG_XOR, LDR_PACK_FLAG_ENCRYPTED};

	for (unsigned i = 0; i < CASES(shapes) * CASES(flags); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes, first, again;
		LDR_AUTO_PACK struct ldr_pack *plain = NULL;
		struct ldr_error err = {0};
		uint32_t flag = flags[i % CASES(flags)];

		fixture_pack(&shapes[i / CASES(flags)], &bytes, NULL);
		cr_assert_eq(fixture_open(bytes.data, bytes.length, NULL, &plain, &err), LDR_OK);
		protect(plain, flag, &first);
		protect(plain, flag, &again);
		cr_assert_eq(first.length, again.length);
		cr_assert_arr_eq(first.data, again.data, first.length);
		for (unsigned mode = 0; mode <= (LDR_PACK_MAP | LDR_PACK_DIGEST); mode++) {
			LDR_AUTO_PACK struct ldr_pack *copy = NULL;

			cr_assert_eq(open_local(&first, title_key, mode, &copy, &err), LDR_OK, "%s",
				     err.text);
			check_copy(plain, copy, flag);
		}
	}
}

Test(cipher, without_the_key_names_are_there_and_blocks_are_not)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	LDR_AUTO_PACK struct ldr_pack *refused = NULL;
	uint8_t plain[BLOCK_BYTES];
	struct ldr_pack_entry entry;
	struct ldr_error err = {0};
	const uint8_t *tree;
	uint64_t length;

	encrypted_pack(1, 0, &bytes);
	cr_assert_eq(open_local(&bytes, NULL, 0, &pack, &err), LDR_OK, "%s", err.text);
	cr_expect(ldr_pack_is_locked(pack));
	cr_expect(ldr_pack_section(pack, LDR_SECTION_TREE, &tree, &length) && length == 6);
	ldr_pack_entry_at(pack, 0, &entry);
	cr_expect_eq(read_block(pack, &entry, plain, &err), LDR_ENOKEY);
	cr_expect_eq(ldr_pack_verify(pack, NULL, NULL, NULL, &err), LDR_ENOKEY);
	cr_expect_eq(fixture_open(bytes.data, bytes.length, NULL, &refused, &err), LDR_EUNSUPPORTED,
		     "only a local archive may be encrypted");
	/* Damage is found without a key. */
	ldr_pack_unref(LDR_STEAL(pack));
	bytes.data[entry.offset] ^= 1;
	cr_assert_eq(open_local(&bytes, NULL, 0, &pack, &err), LDR_OK);
	cr_expect_eq(ldr_pack_verify(pack, NULL, NULL, NULL, &err), LDR_ECORRUPT);
}

Test(cipher, another_key_is_not_trusted)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	uint8_t key[LDR_TITLE_KEY_BYTES];

	encrypted_pack(1, 0, &bytes);
	memcpy(key, title_key, sizeof(key));
	for (unsigned bit = 0; bit < sizeof(key) * 8; bit += 7) {
		LDR_AUTO_PACK struct ldr_pack *pack = NULL;
		struct ldr_error err = {0};

		key[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_expect_eq(open_local(&bytes, key, 0, &pack, &err), LDR_EUNTRUSTED, "bit %u",
			     bit);
		key[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* ---- attacks: everything that needs no key is made right again ---- */

static void swap(uint8_t *a, uint8_t *b, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint8_t kept = a[i];

		a[i] = b[i];
		b[i] = kept;
	}
}

static void change_codec(const struct repair *pack)
{
	uint8_t *codec = fixture_entry_by_offset(pack, 1) + 46;

	*codec = *codec == LDR_CODEC_LZ4 ? LDR_CODEC_ZSTD : LDR_CODEC_LZ4;
}

static void change_plain_length(const struct repair *pack)
{
	ldr_put_le(fixture_entry_by_offset(pack, 1) + 42, 4, BLOCK_BYTES + 1);
}

/* Two raw blocks of one length change places in the index. */
static void swap_places(const struct repair *pack)
{
	swap(fixture_entry_by_offset(pack, 0) + 32, fixture_entry_by_offset(pack, 2) + 32, 6);
}

static void change_id(const struct repair *pack)
{
	fixture_entry_by_offset(pack, 3)[31] ^= 1;
}

static void change_salt(const struct repair *pack)
{
	pack->bytes[24] ^= 1;
}

static void change_proof(const struct repair *pack)
{
	pack->bytes[63] ^= 1;
}

static void change_tree(const struct repair *pack)
{
	uint64_t length;

	repair_section(pack, LDR_SECTION_TREE, &length)[2] ^= 1;
}

static void (*const index_attacks[])(const struct repair *pack) = {
	change_codec, change_plain_length, swap_places, change_id,
	change_salt,  change_proof,        change_tree,
};

Test(cipher, a_changed_index_is_not_trusted)
{
	for (unsigned i = 0; i < CASES(index_attacks); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes;
		LDR_AUTO_PACK struct ldr_pack *pack = NULL;
		LDR_AUTO_PACK struct ldr_pack *locked = NULL;
		struct ldr_error err = {0};
		struct repair repair;

		encrypted_pack(1, 0, &bytes);
		repair = (struct repair){bytes.data, bytes.length};
		index_attacks[i](&repair);
		repair_blocks(&repair);
		repair_index(&repair);
		/* Nothing but the key finds it. */
		cr_expect_eq(open_local(&bytes, NULL, LDR_PACK_DIGEST, &locked, &err), LDR_OK,
			     "attack %u: %s", i, err.text);
		cr_expect_eq(open_local(&bytes, title_key, 0, &pack, &err), LDR_EUNTRUSTED,
			     "attack %u", i);
	}
}

/* The entries of the index are proven before a block is read; these are handed in past it. */
Test(cipher, a_block_is_bound_to_its_whole_entry)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	uint8_t plain[LDR_BLOCK_MAX_BYTES];
	struct ldr_error err = {0};

	encrypted_pack(1, 0, &bytes);
	cr_assert_eq(open_local(&bytes, title_key, 0, &pack, &err), LDR_OK);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct ldr_pack_entry good, bad;

		ldr_pack_entry_at(pack, i, &good);
		cr_expect_eq(read_block(pack, &good, plain, &err), LDR_OK);
		bad = good;
		bad.id.bytes[0] ^= 1;
		cr_expect_eq(read_block(pack, &bad, plain, &err), LDR_EUNTRUSTED);
		if (good.codec == LDR_CODEC_NONE)
			continue;
		bad = good;
		bad.codec = LDR_CODEC_ZSTD;
		cr_expect_eq(read_block(pack, &bad, plain, &err), LDR_EUNTRUSTED);
		bad = good;
		bad.plain_bytes--;
		cr_expect_eq(read_block(pack, &bad, plain, &err), LDR_EUNTRUSTED);
	}
}

static void entry_by_offset(const struct ldr_buffer *bytes, unsigned number, uint64_t *out_offset,
			    uint32_t *out_stored)
{
	const struct repair repair = {bytes->data, bytes->length};
	const uint8_t *entry = fixture_entry_by_offset(&repair, number);

	*out_offset = ldr_get_le(entry + 32, 6);
	*out_stored = (uint32_t)ldr_get_le(entry + 38, 4);
}

static unsigned untrusted_after_repair(const struct ldr_buffer *bytes)
{
	const struct repair repair = {bytes->data, bytes->length};
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	struct ldr_error err = {0};

	repair_blocks(&repair);
	repair_index(&repair);
	cr_assert_eq(open_local(bytes, title_key, 0, &pack, &err), LDR_OK, "%s", err.text);
	return count_untrusted(pack);
}

Test(cipher, swapped_blocks_are_not_trusted)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	uint64_t first, second;
	uint32_t length, other;

	encrypted_pack(1, 0, &bytes);
	cr_expect_eq(untrusted_after_repair(&bytes), 0);
	entry_by_offset(&bytes, 0, &first, &length);
	entry_by_offset(&bytes, 2, &second, &other);
	cr_assert_eq(length, other);
	swap(bytes.data + first, bytes.data + second, length);
	cr_expect_eq(untrusted_after_repair(&bytes), 2);
}

Test(cipher, a_block_of_another_pack_is_not_trusted)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes, donor;
	uint64_t offset, donor_offset;
	uint32_t length, donor_length;

	/* The same key, the same first four blocks in the same places; only what follows differs. */
	encrypted_pack(1, 4, &bytes);
	encrypted_pack(2, 4, &donor);
	entry_by_offset(&bytes, 0, &offset, &length);
	entry_by_offset(&donor, 0, &donor_offset, &donor_length);
	cr_assert(offset == donor_offset && length == donor_length);
	cr_expect_neq(memcmp(bytes.data + offset, donor.data + offset, 32), 0,
		      "two packs share no key stream");
	memcpy(bytes.data + offset, donor.data + offset, length);
	cr_expect_eq(untrusted_after_repair(&bytes), 1);
}

Test(cipher, a_changed_block_is_not_trusted)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	uint64_t offset;
	uint32_t length;

	encrypted_pack(1, 0, &bytes);
	entry_by_offset(&bytes, 3, &offset, &length);
	for (uint32_t at = 0; at < length; at += at + 8 < length - 16 ? 97 : 1) {
		bytes.data[offset + at] ^= 0x10;
		cr_expect_eq(untrusted_after_repair(&bytes), 1, "byte %u of %u", at, length);
		bytes.data[offset + at] ^= 0x10;
	}
}

/* ---- what is refused ---- */

Test(cipher, requests_that_make_no_sense)
{
	static const struct {
		uint32_t flags;
		bool key;
	} requests[] = {{0, true}, {LDR_PACK_FLAG_ENCRYPTED, false}, {3, true}, {4, true}};
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	LDR_AUTO_PACK struct ldr_pack *plain = NULL;
	LDR_AUTO_PACK struct ldr_pack *copy = NULL;
	struct fixture_stream stream;
	struct ldr_error err = {0};
	struct ldr_id id;
	uint64_t size;

	plain_pack(1, 0, &plain);
	protect(plain, LDR_PACK_FLAG_XOR, &bytes);
	cr_assert_eq(open_local(&bytes, NULL, 0, &copy, &err), LDR_OK);
	fixture_stream_begin(&stream);
	for (unsigned i = 0; i < CASES(requests); i++) {
		struct ldr_protection protection = {requests[i].flags,
						    requests[i].key ? title_key : NULL};

		cr_expect_eq(ldr_pack_protect(plain, &protection, stream.stream, &id, &size, &err),
			     LDR_EINVAL, "request %u", i);
	}
	cr_expect_eq(ldr_pack_protect(copy, &(struct ldr_protection){LDR_PACK_FLAG_XOR, NULL},
				      stream.stream, &id, &size, &err),
		     LDR_EINVAL, "protected twice");
	cr_expect_eq(ldr_stream_length(stream.stream), 0);
	fixture_stream_end(&stream);
}

Test(cipher, key_files)
{
#define DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"
	static const struct {
		const char *text;
		enum ldr_status status;
	} files[] = {
		{DIGITS, LDR_OK},
		{DIGITS "\n", LDR_OK},
		{DIGITS "\r\n", LDR_OK},
		{DIGITS "\n\n", LDR_EINVAL},
		{DIGITS "\r", LDR_EINVAL},
		{DIGITS "0", LDR_EINVAL},
		{" " DIGITS, LDR_EINVAL},
		{"\n", LDR_EINVAL},
		{"", LDR_EINVAL},
		{"000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1EFF", LDR_EINVAL},
	};

	for (unsigned i = 0; i < CASES(files); i++) {
		uint8_t key[LDR_TITLE_KEY_BYTES] = {0};
		struct ldr_error err = {0};

		cr_expect_eq(
			ldr_title_key_parse(files[i].text, strlen(files[i].text), "key", key, &err),
			files[i].status, "file %u", i);
		cr_expect_eq(key[31], files[i].status == LDR_OK ? 0xff : 0);
	}
}
