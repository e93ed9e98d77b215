/*
 * Strict reading of JSON; see json.h.
 */
#include "common/json.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

void ldr_json_cleanup(json_t **json)
{
	json_decref(*json);
}

enum ldr_status ldr_json_parse(const char *text, size_t length, size_t max_bytes, const char *name,
			       json_t **out_object, struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *root = NULL;
	json_error_t error;

	if (length > max_bytes)
		return ldr_fail(err, LDR_ELIMIT, "%s: %zu bytes of JSON, limit %zu", name, length,
				max_bytes);
	root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	if (!root && json_error_code(&error) == json_error_out_of_memory)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", name);
	if (!root)
		return ldr_fail(err, LDR_ECORRUPT, "%s: line %d, column %d: %s", name, error.line,
				error.column, error.text);
	if (!json_is_object(root))
		return ldr_fail(err, LDR_ECORRUPT, "%s: not a JSON object", name);
	*out_object = root;
	root = NULL;
	return LDR_OK;
}

static const char *kind_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a real number";
	case JSON_NULL:
		return "null";
	default:
		return "a boolean";
	}
}

static enum ldr_status fetch(const json_t *object, const char *field, json_type kind,
			     const char *wanted, json_t **out_value, struct ldr_error *err)
{
	json_t *value = json_object_get(object, field);

	if (!value)
		return ldr_fail(err, LDR_ECORRUPT, "field \"%s\" is missing", field);
	if (json_typeof(value) != kind)
		return ldr_fail(err, LDR_ECORRUPT, "field \"%s\" is %s, wanted %s", field,
				kind_name(value), wanted);
	*out_value = value;
	return LDR_OK;
}

enum ldr_status ldr_json_u64(const json_t *object, const char *field, uint64_t max,
			     uint64_t *out_value, struct ldr_error *err)
{
	json_t *value = NULL;
	enum ldr_status status = fetch(object, field, JSON_INTEGER, "an integer", &value, err);
	json_int_t integer;

	assert(max <= LDR_JSON_INTEGER_MAX);
	if (status)
		return status;
	integer = json_integer_value(value);
	if (integer < 0 || (uint64_t)integer > max)
		return ldr_fail(err, LDR_ECORRUPT,
				"field \"%s\" is %" JSON_INTEGER_FORMAT ", allowed 0 to %" PRIu64,
				field, integer, max);
	*out_value = (uint64_t)integer;
	return LDR_OK;
}

enum ldr_status ldr_json_string(const json_t *object, const char *field, size_t max_bytes,
				const char **out_text, struct ldr_error *err)
{
	json_t *value = NULL;
	enum ldr_status status = fetch(object, field, JSON_STRING, "a string", &value, err);

	if (status)
		return status;
	if (json_string_length(value) > max_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "field \"%s\" has %zu bytes, limit %zu", field,
				json_string_length(value), max_bytes);
	/* The parser was not told to allow NUL, so the length is strlen's. */
	*out_text = json_string_value(value);
	return LDR_OK;
}

enum ldr_status ldr_json_id(const json_t *object, const char *field, struct ldr_id *out_id,
			    struct ldr_error *err)
{
	const char *text = NULL;
	enum ldr_status status = ldr_json_string(object, field, LDR_ID_HEX_CHARS, &text, err);

	if (status)
		return status;
	assert(text);
	if (!ldr_id_from_hex(text, strlen(text), out_id))
		return ldr_fail(err, LDR_ECORRUPT,
				"field \"%s\" is no id of 64 lower-case hexadecimal digits", field);
	return LDR_OK;
}

enum ldr_status ldr_json_array(const json_t *object, const char *field, size_t max_items,
			       json_t **out_array, struct ldr_error *err)
{
	json_t *value = NULL;
	enum ldr_status status = fetch(object, field, JSON_ARRAY, "an array", &value, err);

	if (status)
		return status;
	if (json_array_size(value) > max_items)
		return ldr_fail(err, LDR_ECORRUPT, "field \"%s\" has %zu items, limit %zu", field,
				json_array_size(value), max_items);
	*out_array = value;
	return LDR_OK;
}

enum ldr_status ldr_json_object(const json_t *object, const char *field, json_t **out_object,
				struct ldr_error *err)
{
	return fetch(object, field, JSON_OBJECT, "an object", out_object, err);
}

bool ldr_json_has(const json_t *object, const char *field)
{
	const json_t *value = json_object_get(object, field);

	return value && !json_is_null(value);
}
