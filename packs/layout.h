/*
 * The layout of a store, the same on disk, over HTTP and on S3. This is the one place that knows it.
 *
 *   channels/<name>              the current release of a channel (JWS); the only mutable object
 *   releases/<name>/<sequence>   every release
 *   packs/<aa>/<pack id>.pack    immutable
 *   keys/<kid>.pub               public keys that signed releases, named by their thumbprint; immutable
 *   FORMAT                       "larder-store 1\n" and the store id, 32 hexadecimal digits and "\n"; made
 *                                with the store and never changed
 *
 * The store id is 128 random bits; every record of the store carries it.
 *
 * Threads: no state.
 */
#ifndef LDR_PACKS_LAYOUT_H
#define LDR_PACKS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/digest.h"

#define LDR_STORE_FORMAT "larder-store 1\n"
#define LDR_STORE_FORMAT_PATH "FORMAT"
#define LDR_STORE_ID_BYTES 16
#define LDR_STORE_ID_CHARS 32
/* The whole of FORMAT, without a NUL. */
#define LDR_STORE_FORMAT_BYTES (sizeof(LDR_STORE_FORMAT) - 1 + LDR_STORE_ID_CHARS + 1)
/* Room for any path below, with its NUL. */
#define LDR_STORE_PATH_BYTES 128

enum ldr_object_kind {
	LDR_OBJECT_CHANNEL,
	LDR_OBJECT_RELEASE,
	LDR_OBJECT_PACK,
	LDR_OBJECT_KEY,
	LDR_OBJECT_FORMAT,
};

/* A store path, taken apart. The fields that its kind does not have are zero. */
struct ldr_object_name {
	enum ldr_object_kind kind;
	char channel[65];
	uint64_t sequence;
	struct ldr_id pack;
	char kid[44];
};

void ldr_store_path(const struct ldr_object_name *name, char path[LDR_STORE_PATH_BYTES]);
/* Shorthands of the above. */
void ldr_store_pack_path(const struct ldr_id *id, char path[LDR_STORE_PATH_BYTES]);
void ldr_store_channel_path(const char *channel, char path[LDR_STORE_PATH_BYTES]);
void ldr_store_release_path(const char *channel, uint64_t sequence,
			    char path[LDR_STORE_PATH_BYTES]);
void ldr_store_key_path(const char *kid, char path[LDR_STORE_PATH_BYTES]);
/* Parses a path without its leading slash; false for anything that is not exactly one of the forms
 * above (so nothing of a URL ever reaches a file system but what this gives back). */
bool ldr_store_path_parse(const char *path, size_t length, struct ldr_object_name *out_name);

/* FORMAT's bytes for a store id, NUL-terminated; and back: LDR_EUNSUPPORTED for another format (naming
 * both), LDR_ECORRUPT for a damaged id. `name` is for messages. */
void ldr_store_format_write(const uint8_t store[LDR_STORE_ID_BYTES],
			    char out[LDR_STORE_FORMAT_BYTES + 1]);
enum ldr_status ldr_store_format_parse(const char *text, size_t length, const char *name,
				       uint8_t out_store[LDR_STORE_ID_BYTES],
				       struct ldr_error *err);
/* The store id as 32 lower-case hexadecimal digits, NUL-terminated; and back, false for anything else. */
void ldr_store_id_to_hex(const uint8_t store[LDR_STORE_ID_BYTES], char hex[LDR_STORE_ID_CHARS + 1]);
bool ldr_store_id_from_hex(const char *text, size_t length, uint8_t out_store[LDR_STORE_ID_BYTES]);

#endif
