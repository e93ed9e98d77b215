/*
 * Keys: known answers of the RFCs, refusals of what is no P-256 key, signatures, base64url.
 */
#include "common/keys.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PRIVATE(body) "-----BEGIN EC PRIVATE KEY-----\n" body "-----END EC PRIVATE KEY-----\n"
#define PUBLIC(body) "-----BEGIN PUBLIC KEY-----\n" body "-----END PUBLIC KEY-----\n"

/* The key of RFC 7515 appendix A.3. */
static const char rfc7515_key[] = PRIVATE(
	"MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49\n"
	"AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72b\n"
	"focs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n");
static const char rfc7515_public[] = PUBLIC(
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
	"6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n");
/* Computed from the x and y that the RFC prints, by Python's hashlib. */
static const char rfc7515_kid[] = "oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U";
static const char rfc7515_signed[] =
	"eyJhbGciOiJFUzI1NiJ9."
	"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
	"cGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
static const char rfc7515_signature[] =
	"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSA"
	"pmWQxfKTUJqPP3-Kg6NU1Q";

/* The key of RFC 6979 appendix A.2.5, without its public half, which the standard allows. */
static const char rfc6979_key[] = PRIVATE(
	"MDECAQEEIMmvqdhFunUWa1whV2ex1pNOUMPbNuibEnuKYisSD2choAoGCCqGSM49AwEH\n");
static const char rfc6979_public[] = PUBLIC(
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7\n"
	"Yfps5mliLmDyn7Z5A/4QCLi8maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n");
static const char rfc6979_sample[] =
	"efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
	"f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8";

static struct ldr_key *private_of(const char *pem)
{
	struct ldr_key *key = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_key_parse(pem, strlen(pem), "test.key", &key, &err), LDR_OK, "%s",
		     err.text);
	return key;
}

static struct ldr_public_key *public_of(const char *pem)
{
	struct ldr_public_key *key = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_public_key_parse(pem, strlen(pem), "test.pub", &key, &err), LDR_OK, "%s",
		     err.text);
	return key;
}

Test(keys, known_answers)
{
	LDR_AUTO_KEY struct ldr_key *key = private_of(rfc6979_key);
	LDR_AUTO_KEY struct ldr_key *other = private_of(rfc7515_key);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = public_of(rfc7515_public);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *derived = NULL;
	LDR_AUTO_FREE uint8_t *signature = NULL;
	uint8_t made[LDR_SIGNATURE_BYTES];
	char pem[LDR_KEY_PEM_MAX_BYTES];
	char hex[2 * LDR_SIGNATURE_BYTES + 1];
	size_t length = 0;

	cr_assert_eq(ldr_base64url_decode(rfc7515_signature, strlen(rfc7515_signature), &signature,
					  &length, NULL),
		     LDR_OK);
	cr_assert_eq(length, LDR_SIGNATURE_BYTES);
	cr_assert_eq(ldr_public_key_check(public, rfc7515_signed, strlen(rfc7515_signed), signature,
					  NULL),
		     LDR_OK);
	cr_assert_str_eq(ldr_public_key_kid(public), rfc7515_kid);
	cr_assert_eq(ldr_key_public(other, &derived, NULL), LDR_OK);
	cr_assert_str_eq(ldr_public_key_kid(derived), rfc7515_kid);
	cr_assert_eq(ldr_public_key_to_pem(derived, pem, NULL), LDR_OK);
	cr_assert_str_eq(pem, rfc7515_public);
	cr_assert_eq(ldr_key_to_pem(other, pem, NULL), LDR_OK);
	cr_assert_str_eq(pem, rfc7515_key);
	cr_assert_eq(ldr_key_sign(key, "sample", 6, made, NULL), LDR_OK);
	for (unsigned i = 0; i < sizeof(made); i++)
		snprintf(hex + 2 * i, 3, "%02x", made[i]);
	cr_assert_str_eq(hex, rfc6979_sample);
}

Test(keys, a_new_key_signs_and_survives_its_pem)
{
	LDR_AUTO_KEY struct ldr_key *key = NULL, *again = NULL;
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = NULL, *other = NULL;
	uint8_t signature[LDR_SIGNATURE_BYTES], second[LDR_SIGNATURE_BYTES];
	char pem[LDR_KEY_PEM_MAX_BYTES];

	cr_assert_eq(ldr_key_generate(&key, NULL), LDR_OK);
	cr_assert_eq(ldr_key_to_pem(key, pem, NULL), LDR_OK);
	again = private_of(pem);
	cr_assert_eq(ldr_key_public(again, &public, NULL), LDR_OK);
	cr_assert_eq(strlen(ldr_public_key_kid(public)), LDR_KID_CHARS);
	cr_assert_eq(ldr_public_key_to_pem(public, pem, NULL), LDR_OK);
	other = public_of(pem);
	cr_assert_str_eq(ldr_public_key_kid(other), ldr_public_key_kid(public));
	cr_assert_eq(ldr_key_sign(key, "text", 4, signature, NULL), LDR_OK);
	cr_assert_eq(ldr_key_sign(again, "text", 4, second, NULL), LDR_OK);
	cr_assert_arr_eq(signature, second, sizeof(second));
	cr_assert_eq(ldr_public_key_check(other, "text", 4, signature, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_check(other, "", 0, signature, NULL), LDR_EUNTRUSTED);
	cr_assert_eq(ldr_key_sign(key, NULL, 0, signature, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_check(other, "", 0, signature, NULL), LDR_OK);
}

Test(keys, signatures_that_are_not_right)
{
	/* n of P-256 and n - 1; 0 and n are outside what a half may be. */
	static const uint8_t order[32] = {0xff, 0xff, 0xff, 0xff, 0,    0,    0,    0,
					  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					  0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84,
					  0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51};
	LDR_AUTO_KEY struct ldr_key *key = private_of(rfc6979_key);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = public_of(rfc6979_public);
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *other = public_of(rfc7515_public);
	uint8_t signature[LDR_SIGNATURE_BYTES], changed[LDR_SIGNATURE_BYTES];
	struct ldr_error err = {0};

	cr_assert_eq(ldr_key_sign(key, "sample", 6, signature, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_check(public, "sample", 6, signature, NULL), LDR_OK);
	cr_assert_eq(ldr_public_key_check(other, "sample", 6, signature, &err), LDR_EUNTRUSTED);
	cr_assert(strstr(err.text, rfc7515_kid), "%s", err.text);
	for (unsigned bit = 0; bit < 8 * LDR_SIGNATURE_BYTES; bit += 7) {
		memcpy(changed, signature, sizeof(changed));
		changed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_eq(ldr_public_key_check(public, "sample", 6, changed, NULL),
			     LDR_EUNTRUSTED, "bit %u", bit);
	}
	for (unsigned i = 0; i < 6; i++) {
		memcpy(changed, signature, sizeof(changed));
		if (i / 2 == 0)
			memset(changed + 32 * (i % 2), 0, 32);
		else if (i / 2 == 1)
			memcpy(changed + 32 * (i % 2), order, 32);
		else
			memset(changed + 32 * (i % 2), 0xff, 32);
		cr_assert_eq(ldr_public_key_check(public, "sample", 6, changed, NULL),
			     LDR_EUNTRUSTED, "half %u", i);
	}
	memcpy(changed, signature + 32, 32);
	memcpy(changed + 32, signature, 32);
	cr_assert_eq(ldr_public_key_check(public, "sample", 6, changed, NULL), LDR_EUNTRUSTED);
}

static const char *const no_keys[] = {
	"",
	"key",
	PRIVATE(""),
	PRIVATE("AAAA\n"),
	PRIVATE("!!!!\n"),
	"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoG\n",
	/* P-384, secp256k1, RSA, encrypted */
	PRIVATE("MIGkAgEBBDCmVdsj4QocqSxC5XdUtIhO6sObA+oPpzqAY5NIyQLKW0+iy5stSZIU\n"
		"8EsPTcy8/SegBwYFK4EEACKhZANiAASFjBOEL/enrMXy2OX9ecRFgi3XqLLRkfGs\n"
		"YkM5QDVgdNQ4vJhdZ+AhD5dE8jA9Xy5ediNllPf5MNNKnBOFQBWZYlUR/ulz+xuo\n"
		"1JPmh+BiIfmqS2lXJipQZRve2+VljmM=\n"),
	PRIVATE("MHQCAQEEICR4i5W0QdYMAe8I5zS2pqkSqwo22zc3NRUaJHQPDZ+qoAcGBSuBBAAK\n"
		"oUQDQgAELixr1prMXRBHdXe3SC8U3YZ1eta9RM5I60IY8SWT86FfczysNKSG9kPp\n"
		"rFEiVfIRzk8PGWllTKZoFhdBTb4Rdw==\n"),
	PUBLIC("MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDCMT6SA0TOUg73GkEo1CxvXUEE\n"
	       "2Ali4iLHM/sgt66ZKX9cB06FgBCgSQK83srYsV27F+YWfiA6dqYskIEXThA2XGH5\n"
	       "gQ2bqPiWnQRJ3XGFgWFBRWzKBHCpBnsbIliKoVmbOVcV0CHNz4A4NI+PbmYC9RN6\n"
	       "vUMX0M9hX7TIcuvQpQIDAQAB\n"),
	PUBLIC("MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE8WExBvfgdIgdsTTs851Ob2Q0uL84RQUN\n"
	       "qzVKUlwS7XoyxUm512uTrmPe99qxz2LMWx8eSkh5RNRR0kh7w0bSPyTC7Q3p/Y/E\n"
	       "L+z9vzjoFIkSy4O7jllTVZhdj+U+FSA+\n"),
	PRIVATE("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,6E9A46ADE3333D8C00509B9139BE933D\n\n"
		"dIOjLNYCvzTeK3umVLeU/Xw9dtQx+DjASAxiGMZfuc6gcvkKQ3GQM+H4ghhiqzfM\n"
		"BrXY1exxuJjriCOFmNtIxQzPdKerNmzoGVQC1258H5cD7oh66ig0EwMBySGEvlZs\n"
		"fbpbACBY3vUX59HspG7ThWIdU1bl3hQUHFp/wrxAiqg=\n"),
	/* The private half of one RFC with the public half of the other; a point off the curve. */
	PRIVATE("MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49\n"
		"AwEHoUQDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7Yfps5mliLmDyn7Z5A/4QCLi8\n"
		"maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n"),
	PUBLIC("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
	       "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrA==\n"),
};

Test(keys, what_is_no_key_is_refused)
{
	struct ldr_key *key = NULL;
	struct ldr_public_key *public = NULL;
	struct ldr_error err = {0};
	char large[LDR_KEY_PEM_MAX_BYTES + 1];
	char nul[sizeof(rfc7515_key)];

	for (size_t i = 0; i < COUNT(no_keys); i++) {
		cr_assert_eq(ldr_key_parse(no_keys[i], strlen(no_keys[i]), "a.key", &key, &err),
			     LDR_ECORRUPT, "%zu", i);
		cr_assert(!strncmp(err.text, "key a.key: ", 11), "%zu: %s", i, err.text);
		cr_assert_eq(ldr_public_key_parse(no_keys[i], strlen(no_keys[i]), "a.pub", &public,
						  &err),
			     LDR_ECORRUPT, "%zu", i);
		cr_assert(!strncmp(err.text, "key a.pub: ", 11), "%zu: %s", i, err.text);
	}
	cr_assert_eq(ldr_key_parse(rfc7515_public, strlen(rfc7515_public), "a", &key, &err),
		     LDR_ECORRUPT);
	cr_assert_eq(ldr_public_key_parse(rfc7515_key, strlen(rfc7515_key), "a", &public, &err),
		     LDR_ECORRUPT);
	memset(large, '\n', sizeof(large));
	memcpy(large, rfc7515_key, strlen(rfc7515_key));
	cr_assert_eq(ldr_key_parse(large, LDR_KEY_PEM_MAX_BYTES, "a", &key, &err), LDR_ECORRUPT);
	cr_assert_eq(ldr_key_parse(large, LDR_KEY_PEM_MAX_BYTES - 1, "a", &key, &err), LDR_OK);
	ldr_key_free(key);
	memcpy(nul, rfc7515_key, sizeof(nul));
	cr_assert_eq(ldr_key_parse(nul, sizeof(nul), "a", &key, &err), LDR_ECORRUPT);
	cr_assert_null(public);
}

Test(keys, base64url)
{
	static const struct {
		const char *bytes, *text;
	} vectors[] = {{"", ""},
		       {"f", "Zg"},
		       {"fo", "Zm8"},
		       {"foo", "Zm9v"},
		       {"foob", "Zm9vYg"},
		       {"fooba", "Zm9vYmE"},
		       {"foobar", "Zm9vYmFy"},
		       {"\xfb\xff\xfe", "-__-"}};
	static const char *const wrong[] = {
		"Z",     "Zh",   "Zm9",     "Zg==",  "Zm8=",    "Zg=", "Zm9v\n", " Zm9v",
		"Zm 9v", "+//+", "Zm9vYmF", "Zm9v.", "Zm9\xc3", "=",   "A"};

	for (size_t i = 0; i < COUNT(vectors); i++) {
		size_t length = strlen(vectors[i].bytes), decoded_length = 99;
		LDR_AUTO_FREE char *text = ldr_base64url_encode(vectors[i].bytes, length);
		LDR_AUTO_FREE uint8_t *bytes = NULL;

		cr_assert_str_eq(text, vectors[i].text);
		cr_assert_eq(
			ldr_base64url_decode(text, strlen(text), &bytes, &decoded_length, NULL),
			LDR_OK);
		cr_assert_eq(decoded_length, length);
		cr_assert(!memcmp(bytes, vectors[i].bytes, length));
	}
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct ldr_error err = {0};
		uint8_t *bytes = NULL;
		size_t length;

		cr_assert_eq(
			ldr_base64url_decode(wrong[i], strlen(wrong[i]), &bytes, &length, &err),
			LDR_ECORRUPT, "%s", wrong[i]);
		cr_assert(!strncmp(err.text, "base64url: ", 11), "%s", err.text);
		cr_assert_null(bytes);
	}
	for (size_t length = 0; length < 300; length++) {
		uint8_t bytes[300];
		LDR_AUTO_FREE char *text = NULL;
		LDR_AUTO_FREE uint8_t *back = NULL;
		size_t back_length = 0;

		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)(i * 151 + length);
		text = ldr_base64url_encode(bytes, length);
		cr_assert_eq(ldr_base64url_decode(text, strlen(text), &back, &back_length, NULL),
			     LDR_OK);
		cr_assert_eq(back_length, length);
		cr_assert(!memcmp(back, bytes, length));
	}
}

Test(keys, randomness_fills_all_and_differs)
{
	uint8_t first[5000] = {0}, second[5000] = {0};
	unsigned zeros = 0;

	cr_assert_eq(ldr_random(first, sizeof(first), NULL), LDR_OK);
	cr_assert_eq(ldr_random(second, sizeof(second), NULL), LDR_OK);
	cr_assert_arr_neq(first, second, 16);
	cr_assert_arr_neq(first + 4984, second + 4984, 16);
	for (unsigned i = 0; i < sizeof(first); i++)
		zeros += first[i] == 0;
	/* 20 are to be expected; 100 would be 18 standard deviations away. */
	cr_assert_lt(zeros, 100);
	cr_assert_eq(ldr_random(NULL, 0, NULL), LDR_OK);
}
