/*
 * Locations: what a user types to say where a store or a release is.
 *
 *	SRC    FILE.pack | STORE#channel[@sequence]
 *	STORE  a folder | http(s)://host[:port][/prefix]
 *
 * A text that has a '#' is a channel of a store; a text without one is a pack file (as SRC) or a store
 * (as STORE). s3:// is recognised and refused until it is supported.
 *
 * Threads: immutable after parsing.
 */
#ifndef LDR_CLIENT_LOCATION_H
#define LDR_CLIENT_LOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "packs/release.h"

enum ldr_location_kind {
	LDR_LOCATION_PACK,   /* path: the file */
	LDR_LOCATION_FOLDER, /* path: the store's absolute path; base: its file:// URL */
	LDR_LOCATION_HTTP,   /* base: the URL without a slash at its end */
};

struct ldr_location {
	enum ldr_location_kind kind;
	char *text; /* as it was given, for messages; owns all three */
	char *path;
	char *base;
	char channel[LDR_CHANNEL_MAX_CHARS + 1]; /* "" for a STORE or a pack */
	uint64_t sequence;                       /* 0: the channel's current release */
};

/* LDR_EUSAGE with what is wrong and an example of what is right. */
LDR_API enum ldr_status ldr_location_parse_source(const char *text, struct ldr_location *out,
						  struct ldr_error *err);
LDR_API enum ldr_status ldr_location_parse_store(const char *text, struct ldr_location *out,
						 struct ldr_error *err);
LDR_API void ldr_location_dispose(struct ldr_location *location);
#define LDR_AUTO_LOCATION __attribute__((cleanup(ldr_location_dispose)))

#endif
