/*
 * From the URL of a request to the name of an object. A URL never reaches a file system: what does is
 * the path that packs/layout.h makes of the name that it has parsed here, and that has a closed form.
 *
 * Invariants
 *  1. The URL is taken raw and decoded here, once, with its length: an encoded NUL, slash or dot is a
 *     byte like others, and no name holds one where it does harm.
 *  2. A query is cut off and means nothing, as with any static server.
 *
 * Threads: no state.
 */
#ifndef LDR_SERVER_ROUTES_H
#define LDR_SERVER_ROUTES_H

#include <stddef.h>

#include "packs/layout.h"

/* No name needs more than LDR_STORE_PATH_BYTES, or three times that when all of it is encoded. */
#define LDR_URL_MAX_BYTES 1024

enum ldr_route {
	LDR_ROUTE_OBJECT,
	LDR_ROUTE_UNKNOWN,   /* well formed, but the name of nothing: 404 */
	LDR_ROUTE_MALFORMED, /* not a URL path, or a bad escape: 400 */
	LDR_ROUTE_TOO_LONG,  /* 414 */
};

/* url is the request's target in origin form ("/channels/live") or absolute form
 * ("http://host/channels/live"). The name is written with LDR_ROUTE_OBJECT only. */
enum ldr_route ldr_route_parse(const char *url, size_t length, struct ldr_object_name *out_name);

#endif
