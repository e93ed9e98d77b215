/*
 * Bearer tokens: who may do what at a server. The file holds digests only, so that reading it gives
 * nobody a token.
 *
 *	{"tokens": [{"id": "5f0c81d2", "digest": "<64 hex>", "scope": "publish", "channels": "beta*",
 *	             "note": "build machine", "created": 1767225600}]}
 *
 * A token is "lrd_" and 43 characters of base64url, 256 random bits; its digest is the SHA-256 of that
 * text. It is shown once, when it is made. "channels" is a pattern with * and ? over channel names.
 *
 * Invariants
 *  1. The file is replaced as a whole by the publisher, mode 0600, only if it is still the one that was
 *     read: two who change it at once lose nothing.
 *  2. Comparing takes the same time whatever is compared, and looks at every token.
 *
 * Threads: a loaded list is immutable; functions that take a path may be called by any thread.
 */
#ifndef LDR_COMMON_TOKENS_H
#define LDR_COMMON_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/error.h"

#define LDR_TOKEN_CHARS 47
#define LDR_TOKEN_ID_CHARS 8
#define LDR_TOKEN_PATTERN_MAX_BYTES 256
#define LDR_TOKEN_NOTE_MAX_BYTES 256
#define LDR_TOKENS_MAX 4096

enum ldr_token_scope {
	LDR_TOKEN_READ,
	LDR_TOKEN_PUBLISH, /* reading too */
};

struct ldr_token {
	char id[LDR_TOKEN_ID_CHARS + 1];
	struct ldr_id digest;
	enum ldr_token_scope scope;
	char channels[LDR_TOKEN_PATTERN_MAX_BYTES + 1];
	char note[LDR_TOKEN_NOTE_MAX_BYTES + 1];
	int64_t created_s;
};

/* Owns items. */
struct ldr_tokens {
	struct ldr_token *items;
	size_t count;
};

/* LDR_ENOTFOUND when there is no file; LDR_ECORRUPT, LDR_ELIMIT name it. */
LDR_API enum ldr_status ldr_tokens_load(const char *path, struct ldr_tokens *out_tokens,
					struct ldr_error *err);
LDR_API void ldr_tokens_dispose(struct ldr_tokens *tokens);
#define LDR_AUTO_TOKENS __attribute__((cleanup(ldr_tokens_dispose)))

/* What a new token may do. channels NULL means all, note NULL none. */
struct ldr_token_grant {
	enum ldr_token_scope scope;
	const char *channels;
	const char *note;
};

/* Makes a token and the file where there is none; gives the text, which is kept nowhere. LDR_EINVAL: a
 * pattern or note that is too long or no UTF-8; LDR_ELIMIT: too many tokens; LDR_ECONFLICT: others kept
 * changing the file. */
LDR_API enum ldr_status ldr_tokens_add(const char *path, const struct ldr_token_grant *grant,
				       const struct ldr_clock *clock,
				       char out_token[LDR_TOKEN_CHARS + 1],
				       char out_id[LDR_TOKEN_ID_CHARS + 1], struct ldr_error *err);
/* LDR_ENOTFOUND names the id. */
LDR_API enum ldr_status ldr_tokens_revoke(const char *path, const char *id, struct ldr_error *err);

/* The token of this text, NULL when there is none. */
LDR_API const struct ldr_token *ldr_tokens_find(const struct ldr_tokens *tokens, const char *text);
/* channel NULL: what belongs to no channel (packs, keys). */
LDR_API bool ldr_token_allows(const struct ldr_token *token, enum ldr_token_scope scope,
			      const char *channel);
/* "read", "publish". */
LDR_API const char *ldr_token_scope_name(enum ldr_token_scope scope);

#endif
