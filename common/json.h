/*
 * Strict reading of JSON over jansson: duplicate keys, trailing bytes, bad UTF-8 and too deep nesting
 * are refused by the parser; a field of the wrong kind or out of its range is refused here, with a
 * message that names field, value and bound (the caller puts the document's name before it, by
 * ldr_error_prefix). Unknown fields are ignored, so that a format can grow.
 *
 * Integers go to 2^53 - 1 (RFC 7493, I-JSON), so that every reader in every language has the same value.
 *
 * Writing goes through jansson directly (json_pack, json_dumps).
 *
 * Threads: no state.
 */
#ifndef LDR_COMMON_JSON_H
#define LDR_COMMON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"
#include "common/error.h"

#define LDR_JSON_INTEGER_MAX ((UINT64_C(1) << 53) - 1)

void ldr_json_cleanup(json_t **json);
#define LDR_AUTO_JSON __attribute__((cleanup(ldr_json_cleanup)))

/* The document must be an object. LDR_ECORRUPT with line and column; LDR_ELIMIT past max_bytes. Owns:
 * the caller decrefs. */
enum ldr_status ldr_json_parse(const char *text, size_t length, size_t max_bytes, const char *name,
			       json_t **out_object, struct ldr_error *err);

/* Required fields; LDR_ECORRUPT when missing, of another kind or out of range. Strings and sub-objects
 * are borrowed from the object. Integers from 0 to max, which is at most LDR_JSON_INTEGER_MAX; strings
 * of at most max_bytes bytes, without NUL; arrays of at most max_items. */
enum ldr_status ldr_json_u64(const json_t *object, const char *field, uint64_t max,
			     uint64_t *out_value, struct ldr_error *err);
enum ldr_status ldr_json_string(const json_t *object, const char *field, size_t max_bytes,
				const char **out_text, struct ldr_error *err);
enum ldr_status ldr_json_id(const json_t *object, const char *field, struct ldr_id *out_id,
			    struct ldr_error *err);
enum ldr_status ldr_json_array(const json_t *object, const char *field, size_t max_items,
			       json_t **out_array, struct ldr_error *err);
enum ldr_status ldr_json_object(const json_t *object, const char *field, json_t **out_object,
				struct ldr_error *err);

/* An optional field: true when it is there and not null. */
bool ldr_json_has(const json_t *object, const char *field);

#endif
