/*
 * AES-256-GCM by the vectors of the GCM specification (McGrew and Viega, test cases 13 to 16), HKDF and
 * HMAC by those of RFC 5869 and RFC 4231 as far as secrets of 32 bytes go, and what opening refuses.
 */
#include "common/aead.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t length = strlen(hex) / 2;

	for (size_t i = 0; i < length; i++) {
		char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

		bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return length;
}

static const struct {
	const char *key, *nonce, *data, *plain, *sealed;
} vectors[] = {
	{"0000000000000000000000000000000000000000000000000000000000000000",
	 "000000000000000000000000", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
	{"0000000000000000000000000000000000000000000000000000000000000000",
	 "000000000000000000000000", "", "00000000000000000000000000000000",
	 "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
	{"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
	 "cafebabefacedbaddecaf888", "",
	 "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
	 "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
	 "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
	 "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
	 "b094dac5d93471bdec1a502270e3cc6c"},
	{"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
	 "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
	 "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
	 "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
	 "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
	 "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece"
	 "0f4e1768cddf8853bb2d551b"},
};

Test(aead, vectors_are_sealed_and_opened_also_in_place)
{
	LDR_AUTO_AEAD struct ldr_aead *aead = ldr_aead_new();

	cr_assert_not_null(aead);
	for (size_t i = 0; i < CASES(vectors); i++) {
		uint8_t key[32], nonce[12], data[64], plain[96], sealed[96], out[96];
		size_t length = from_hex(vectors[i].plain, plain);
		struct ldr_aead_terms terms = {key, nonce, data, from_hex(vectors[i].data, data)};
		struct ldr_error err = {0};

		from_hex(vectors[i].key, key);
		from_hex(vectors[i].nonce, nonce);
		cr_assert_eq(from_hex(vectors[i].sealed, sealed), length + LDR_AEAD_TAG_BYTES);
		ldr_aead_seal(aead, &terms, plain, length, out);
		cr_expect_arr_eq(out, sealed, length + LDR_AEAD_TAG_BYTES, "vector %zu", i);
		cr_expect_eq(ldr_aead_open(aead, &terms, out, length, out, &err), LDR_OK, "%s",
			     err.text);
		cr_expect_arr_eq(out, plain, length);
		ldr_aead_seal(aead, &terms, out, length, out);
		cr_expect_arr_eq(out, sealed, length + LDR_AEAD_TAG_BYTES, "in place");
	}
	ldr_aead_free(NULL);
}

Test(aead, whatever_is_changed_is_refused_and_nothing_shows)
{
	LDR_AUTO_AEAD struct ldr_aead *aead = ldr_aead_new();
	uint8_t key[32] = {1}, nonce[12] = {2}, data[5] = "index", text[40] = "the text";
	uint8_t sealed[sizeof(text) + LDR_AEAD_TAG_BYTES], plain[sizeof(text)];
	const struct ldr_aead_terms terms = {key, nonce, data, sizeof(data)};
	struct {
		uint8_t *bytes;
		size_t length;
	} parts[] = {{key, sizeof(key)},
		     {nonce, sizeof(nonce)},
		     {data, sizeof(data)},
		     {sealed, sizeof(sealed)}};

	cr_assert_not_null(aead);
	ldr_aead_seal(aead, &terms, text, sizeof(text), sealed);
	for (size_t part = 0; part < CASES(parts); part++)
		for (size_t bit = 0; bit < parts[part].length * 8; bit++) {
			struct ldr_error err = {0};

			memset(plain, 0xee, sizeof(plain));
			parts[part].bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_expect_eq(ldr_aead_open(aead, &terms, sealed, sizeof(text), plain, &err),
				     LDR_EUNTRUSTED, "part %zu, bit %zu", part, bit);
			for (size_t i = 0; i < sizeof(plain); i++)
				cr_assert_eq(plain[i], 0);
			parts[part].bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	cr_expect_eq(ldr_aead_open(aead, &terms, sealed, sizeof(text), plain, NULL), LDR_OK);
	cr_expect_arr_eq(plain, text, sizeof(text));
}

/* Made with Python's hmac and hashlib from RFC 5869's text; its own vectors have secrets of 22 and 80. */
Test(aead, derived_keys_and_macs)
{
	uint8_t secret[32], salt[13], key[32], mac[32], wanted[32];

	for (unsigned i = 0; i < sizeof(secret); i++)
		secret[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(salt); i++)
		salt[i] = (uint8_t)(0x60 + i);
	ldr_derive_key(secret, salt, sizeof(salt), "larder test", key);
	from_hex("6f86e6aaef7df137f0b1143eda593bca50349cac7b7758726d26941d3172a2ff", wanted);
	cr_expect_arr_eq(key, wanted, 32);
	ldr_mac(secret, "what do ya want for nothing?", 28, mac);
	from_hex("099805f4ac310786968565c098db515cc50862b420ae31e20238312344bed36a", wanted);
	cr_expect_arr_eq(mac, wanted, 32);
	cr_expect(ldr_same_secret(mac, wanted, 32));
	wanted[31] ^= 1;
	cr_expect_not(ldr_same_secret(mac, wanted, 32));
	ldr_wipe(mac, sizeof(mac));
	for (unsigned i = 0; i < sizeof(mac); i++)
		cr_expect_eq(mac[i], 0);
}
