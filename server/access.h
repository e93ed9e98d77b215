/*
 * Who may publish: the bearer token of a request against the token file.
 *
 * The file is looked at with every such request, so a token that is revoked is refused from the next one
 * on, without a restart. A file that has gone or cannot be read lets nobody in.
 *
 * Reading is open to everyone. Tokens are bound to channels; packs and keys belong to none and need any
 * token that may publish.
 *
 * Locks: one mutex (LDR_RANK_SERVER) over the loaded list; the file is read without it.
 */
#ifndef LDR_SERVER_ACCESS_H
#define LDR_SERVER_ACCESS_H

#include "common/error.h"
#include "packs/layout.h"

struct ldr_access;

/* The file must be there and right, so that a server does not start with a typing error in its option. */
enum ldr_status ldr_access_new(const char *tokens_path, struct ldr_access **out_access,
			       struct ldr_error *err);
void ldr_access_free(struct ldr_access *access); /* NULL is allowed */

/* May the bearer of this Authorization field (NULL: none) put this object? 0 for yes; else the HTTP status,
 * with its reason in err: 401 no token or an unknown one, 403 a token that may not, 503 the file cannot be
 * read. access NULL: publishing is off, 403. */
unsigned ldr_access_judge(struct ldr_access *access, const char *authorization,
			  const struct ldr_object_name *name, struct ldr_error *err);

#endif
