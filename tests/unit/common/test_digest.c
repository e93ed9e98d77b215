/*
 * SHA-256 by the vectors of FIPS 180-4 and RFC 6234, ids as text, and the XXH3-64 checksum.
 */
#include "common/digest.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

static const struct {
	const char *text;
	unsigned times;
	const char *hex;
} vectors[] = {
	{"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	{"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
	 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	{"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
	{"0123456701234567012345670123456701234567012345670123456701234567", 10,
	 "594847328451bdfa85056225462cc1d867d877fb388df0ce35f25ab5562bfbb5"},
};

Test(digest, vectors_in_one_piece_and_many)
{
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();

	cr_assert_not_null(hasher);
	for (size_t i = 0; i < CASES(vectors); i++) {
		size_t width = strlen(vectors[i].text), length = width * vectors[i].times;
		uint8_t *bytes = malloc(length + 1);
		char hex[LDR_ID_HEX_CHARS + 1];
		struct ldr_id id, other;

		for (unsigned k = 0; k < vectors[i].times; k++)
			memcpy(bytes + k * width, vectors[i].text, width);
		ldr_digest(hasher, bytes, length, &id);
		ldr_id_to_hex(&id, hex);
		cr_expect_str_eq(hex, vectors[i].hex);
		cr_assert_eq(ldr_digest_once(bytes, length, &other, NULL), LDR_OK);
		cr_expect(ldr_id_equal(&id, &other));
		ldr_hasher_begin(hasher);
		for (size_t at = 0, piece = 1; at < length;
		     at += piece, piece = piece * 2 % 1021 + 1)
			ldr_hasher_update(hasher, bytes + at,
					  piece < length - at ? piece : length - at);
		ldr_hasher_update(hasher, NULL, 0);
		ldr_hasher_end(hasher, &other);
		cr_expect(ldr_id_equal(&id, &other), "in pieces");
		free(bytes);
	}
	ldr_hasher_free(NULL);
}

Test(digest, ids_as_text)
{
	static const char right[] =
		"00ff10203040506070809aabbccddeefba7816bf8f01cfea414140de5dae2223";
	char hex[LDR_ID_HEX_CHARS + 2];
	struct ldr_id id = {{0}}, before, next;

	cr_assert(ldr_id_from_hex(right, 64, &id));
	cr_expect_eq(id.bytes[0], 0x00);
	cr_expect_eq(id.bytes[1], 0xff);
	cr_expect_eq(id.bytes[31], 0x23);
	ldr_id_to_hex(&id, hex);
	cr_expect_str_eq(hex, right);
	before = id;
	cr_expect_not(ldr_id_from_hex(right, 63, &id));
	cr_expect_not(ldr_id_from_hex(right, 65, &id));
	cr_expect_not(ldr_id_from_hex("", 0, &id));
	for (int i = 0; i < 64; i++)
		for (const char *wrong = "gG/:@AF`\x80 "; *wrong; wrong++) {
			memcpy(hex, right, sizeof(right));
			hex[i] = *wrong;
			cr_expect_not(ldr_id_from_hex(hex, 64, &id), "%s", hex);
		}
	cr_expect(ldr_id_equal(&id, &before), "written on success only");
	next = id;
	next.bytes[31]++;
	cr_expect_lt(ldr_id_compare(&id, &next), 0);
	cr_expect_gt(ldr_id_compare(&next, &id), 0);
	cr_expect_not(ldr_id_equal(&id, &next));
	cr_expect_eq(ldr_id_hash(&id), ldr_id_hash(&next), "the first bytes");
}

/* Vectors of XXH3's own documentation and of libxxhash's xxhsum -H3. */
Test(checksum, vectors_and_damage)
{
	static uint8_t bytes[4096];
	uint64_t whole;

	cr_expect_eq(ldr_checksum("", 0), UINT64_C(0x2d06800538d394c2));
	cr_expect_eq(ldr_checksum(NULL, 0), UINT64_C(0x2d06800538d394c2));
	cr_expect_eq(ldr_checksum("abc", 3), UINT64_C(0x78af5f94892f3950));
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	whole = ldr_checksum(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes) * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		cr_assert_neq(ldr_checksum(bytes, sizeof(bytes)), whole, "bit %zu", i);
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	cr_expect_eq(ldr_checksum(bytes, sizeof(bytes)), whole);
	cr_expect_neq(ldr_checksum(bytes, sizeof(bytes) - 1), whole);
}
