/*
 * Strict JSON: what the parser lets in, and each kind of field with every way of being wrong.
 */
#include "common/json.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HEX64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static enum ldr_status parse(const char *text, json_t **out, struct ldr_error *err)
{
	return ldr_json_parse(text, strlen(text), 200000, "doc", out, err);
}

Test(json, documents)
{
	static const struct {
		const char *text;
		enum ldr_status status;
		const char *says;
	} rows[] = {
		{"{}", LDR_OK, ""},
		{" {\"a\":1,\"b\":{\"a\":2}} \n", LDR_OK, ""},
		{"{\"a\":\"\\u00e4\xc3\xa4\"}", LDR_OK, ""},
		{"", LDR_ECORRUPT, "line"},
		{"[]", LDR_ECORRUPT, "not a JSON object"},
		{"1", LDR_ECORRUPT, "line 1"},
		{"null", LDR_ECORRUPT, "line 1"},
		{"{}{}", LDR_ECORRUPT, "end of file"},
		{"{},", LDR_ECORRUPT, "end of file"},
		{"{\"a\":1,\"a\":1}", LDR_ECORRUPT, "duplicate"},
		{"{\"x\":{\"a\":1,\"b\":0,\"a\":2}}", LDR_ECORRUPT, "duplicate"},
		{"{\"a\":1,\"\\u0061\":2}", LDR_ECORRUPT, "duplicate"},
		{"{\"a\":1,}", LDR_ECORRUPT, "line 1, column 8"},
		{"{'a':1}", LDR_ECORRUPT, "line 1"},
		{"{\"a\":01}", LDR_ECORRUPT, "line 1"},
		{"{\"a\":NaN}", LDR_ECORRUPT, "line 1"},
		{"{\"a\":9223372036854775808}", LDR_ECORRUPT, "too big"},
		{"{\"a\":1e999}", LDR_ECORRUPT, "overflow"},
		{"{\"a\":\"\xff\"}", LDR_ECORRUPT, "decode byte"},
		{"{\"a\":\"\xc0\xaf\"}", LDR_ECORRUPT, "decode byte"},
		{"{\"a\":\"\\ud800\"}", LDR_ECORRUPT, "invalid"},
		{"{\"a\":\"x\\u0000y\"}", LDR_ECORRUPT, "\\u0000"},
		{"{\"a\":\"\n\"}", LDR_ECORRUPT, "line"},
		{"{\"a\":1", LDR_ECORRUPT, "line"},
		{"{/* no */}", LDR_ECORRUPT, "line"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_JSON json_t *root = NULL;
		struct ldr_error err = {0};
		enum ldr_status status = parse(rows[i].text, &root, &err);

		cr_assert_eq(status, rows[i].status, "%s: %s", rows[i].text, err.text);
		cr_assert_eq(root != NULL, status == LDR_OK, "%s", rows[i].text);
		cr_assert(strstr(err.text, rows[i].says), "%s: %s", rows[i].text, err.text);
		if (status)
			cr_assert(!strncmp(err.text, "doc: ", 5), "%s", err.text);
	}
}

Test(json, lengths_and_depth)
{
	LDR_AUTO_JSON json_t *root = NULL;
	struct ldr_error err = {0};
	char *deep = malloc(100000);
	char bytes[] = {'{', '}', 0, '{'};

	cr_assert_eq(ldr_json_parse("{}", 2, 1, "doc", &root, &err), LDR_ELIMIT);
	cr_assert_str_eq(err.text, "doc: 2 bytes of JSON, limit 1");
	cr_assert_eq(ldr_json_parse(bytes, 3, 10, "doc", &root, NULL), LDR_ECORRUPT);
	cr_assert_eq(ldr_json_parse(bytes, 1, 10, "doc", &root, NULL), LDR_ECORRUPT);
	memcpy(deep, "{\"a\":", 5);
	memset(deep + 5, '[', 90000);
	cr_assert_eq(ldr_json_parse(deep, 90005, 100000, "doc", &root, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "depth"), "%s", err.text);
	cr_assert_null(root);
	free(deep);
	cr_assert_eq(ldr_json_parse(bytes, 2, 2, "doc", &root, NULL), LDR_OK);
}

/* One document with each kind under its name; each reader is tried on all of them. */
static const char kinds[] =
	"{\"null\":null,\"true\":true,\"int\":7,\"real\":7.0,\"text\":\"seven\","
	"\"array\":[1,2],\"object\":{\"x\":1},\"id\":\"" HEX64 "\"}";
static const char *const names[] = {"null",  "true",   "int", "real",   "text",
				    "array", "object", "id",  "missing"};

static enum ldr_status read_as(const json_t *root, const char *kind, const char *field,
			       struct ldr_error *err)
{
	const char *text;
	struct ldr_id id;
	json_t *inner;
	uint64_t value;

	if (!strcmp(kind, "int"))
		return ldr_json_u64(root, field, 10, &value, err);
	if (!strcmp(kind, "text"))
		return ldr_json_string(root, field, 10, &text, err);
	if (!strcmp(kind, "id"))
		return ldr_json_id(root, field, &id, err);
	if (!strcmp(kind, "array"))
		return ldr_json_array(root, field, 10, &inner, err);
	return ldr_json_object(root, field, &inner, err);
}

Test(json, a_field_of_another_kind_is_refused)
{
	static const char *const readers[] = {"int", "text", "id", "array", "object"};
	LDR_AUTO_JSON json_t *root = NULL;

	cr_assert_eq(parse(kinds, &root, NULL), LDR_OK);
	for (size_t r = 0; r < COUNT(readers); r++)
		for (size_t n = 0; n < COUNT(names); n++) {
			struct ldr_error err = {0};
			enum ldr_status status = read_as(root, readers[r], names[n], &err);
			bool right = !strcmp(readers[r], names[n]);

			cr_assert_eq(status, right ? LDR_OK : LDR_ECORRUPT, "%s as %s: %s",
				     names[n], readers[r], err.text);
			cr_assert(right || strstr(err.text, names[n]), "%s", err.text);
			cr_assert(strcmp(names[n], "missing") || strstr(err.text, "is missing"));
		}
	cr_assert(ldr_json_has(root, "int"));
	cr_assert(ldr_json_has(root, "object"));
	cr_assert_not(ldr_json_has(root, "null"));
	cr_assert_not(ldr_json_has(root, "missing"));
}

Test(json, ranges)
{
	static const struct {
		const char *value;
		uint64_t max;
		bool fits;
	} rows[] = {
		{"0", 0, true},
		{"-0", 0, true},
		{"1", 0, false},
		{"-1", 10, false},
		{"-9223372036854775808", 10, false},
		{"10", 10, true},
		{"11", 10, false},
		{"9007199254740991", LDR_JSON_INTEGER_MAX, true},
		{"9007199254740992", LDR_JSON_INTEGER_MAX, false},
		{"9223372036854775807", LDR_JSON_INTEGER_MAX, false},
	};
	const char *text = NULL;
	json_t *array = NULL;
	LDR_AUTO_JSON json_t *root = NULL;
	struct ldr_error err = {0};

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_JSON json_t *row = NULL;
		char json[64];
		uint64_t value = 0;
		enum ldr_status status;

		snprintf(json, sizeof(json), "{\"n\":%s}", rows[i].value);
		cr_assert_eq(parse(json, &row, NULL), LDR_OK);
		status = ldr_json_u64(row, "n", rows[i].max, &value, &err);
		cr_assert_eq(status, rows[i].fits ? LDR_OK : LDR_ECORRUPT, "%s", json);
		cr_assert_eq(value, rows[i].fits ? strtoull(rows[i].value, NULL, 10) : 0, "%s",
			     json);
		cr_assert(rows[i].fits || strstr(err.text, rows[i].value), "%s", err.text);
	}
	cr_assert_eq(parse(kinds, &root, NULL), LDR_OK);
	cr_assert_eq(ldr_json_string(root, "text", 5, &text, NULL), LDR_OK);
	cr_assert_str_eq(text, "seven");
	cr_assert_eq(ldr_json_string(root, "text", 4, &text, &err), LDR_ECORRUPT);
	cr_assert_str_eq(err.text, "field \"text\" has 5 bytes, limit 4");
	cr_assert_eq(ldr_json_array(root, "array", 2, &array, NULL), LDR_OK);
	cr_assert_eq(ldr_json_array(root, "array", 1, &array, &err), LDR_ECORRUPT);
	cr_assert_str_eq(err.text, "field \"array\" has 2 items, limit 1");
}

Test(json, ids)
{
	static const char *const wrong[] = {
		"",
		"0011",
		"00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff",
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg",
		HEX64 "00",
	};
	LDR_AUTO_JSON json_t *root = NULL;
	struct ldr_id id;

	cr_assert_eq(parse(kinds, &root, NULL), LDR_OK);
	cr_assert_eq(ldr_json_id(root, "id", &id, NULL), LDR_OK);
	cr_assert_eq(id.bytes[1], 0x11);
	cr_assert_eq(id.bytes[31], 0xff);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		LDR_AUTO_JSON json_t *row = json_pack("{s:s}", "id", wrong[i]);

		cr_assert_eq(ldr_json_id(row, "id", &id, NULL), LDR_ECORRUPT, "%s", wrong[i]);
	}
}
