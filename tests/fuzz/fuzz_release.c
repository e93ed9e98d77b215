/*
 * Fuzz target: a record from a stranger. The first byte of an input says how the rest is taken:
 *
 *   0        as a payload, behind the signature that no fuzzer can make; what is accepted is written and
 *            read again as the same release
 *   others   as a whole record, by the splitter and by the check with a trusted key
 */
#include <assert.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "packs/release_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The public key of RFC 7515 appendix A.3, which is in the corpus as the signer. */
static const char trusted_pem[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
	"6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
	"-----END PUBLIC KEY-----\n";

static void check_status(const struct ldr_error *err, bool signed_too)
{
	assert(err->text[0]);
	assert(err->status == LDR_ECORRUPT || err->status == LDR_EUNSUPPORTED ||
	       err->status == LDR_ELIMIT || (signed_too && err->status == LDR_EUNTRUSTED));
	(void)signed_too;
}

static void read_payload(const char *text, size_t size)
{
	LDR_AUTO_RELEASE struct ldr_release release = {0}, again = {0};
	LDR_AUTO_FREE char *json = NULL, *json_again = NULL;
	struct ldr_error err = {0};
	size_t length = 0, length_again = 0;
	enum ldr_status status = ldr_release_parse_payload(text, size, "fuzz", &release, &err);

	if (status) {
		check_status(&err, false);
		return;
	}
	for (uint32_t i = 0; i < release.pack_count; i++)
		assert(ldr_release_pack(&release, release.packs[i].number) == release.packs + i);
	assert(ldr_release_check_place(&release, &release.top.place, NULL) == LDR_OK);
	status = ldr_release_write_payload(&release, &json, &length, NULL);
	assert(!status);
	status = ldr_release_parse_payload(json, length, "again", &again, NULL);
	assert(!status);
	status = ldr_release_write_payload(&again, &json_again, &length_again, NULL);
	assert(!status && length == length_again && memcmp(json, json_again, length) == 0);
}

static void read_record(const char *text, size_t size)
{
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *key = NULL;
	LDR_AUTO_RELEASE struct ldr_release release = {0};
	char kid[LDR_KID_CHARS + 1] = "";
	struct ldr_error err = {0};
	enum ldr_status split = ldr_release_kid(text, size, kid, &err);
	enum ldr_status status = ldr_public_key_parse(trusted_pem, sizeof(trusted_pem) - 1,
						      "trusted", &key, NULL);

	assert(!status);
	if (split)
		check_status(&err, false);
	else
		assert(strlen(kid) == LDR_KID_CHARS);
	status = ldr_release_verify(text, size, "fuzz", &key, 1, &release, &err);
	assert(!split || status == split);
	if (status)
		check_status(&err, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0])
		read_record((const char *)data + 1, size - 1);
	else
		read_payload((const char *)data + 1, size - 1);
	return 0;
}
