/*
 * From URL to name; see routes.h.
 */
#include "server/routes.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Percent-decodes; decoded has room for length bytes. False on a bad escape. */
static bool decode(const char *text, size_t length, char *decoded, size_t *out_length)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++) {
		int high;
		int low;

		if (text[i] != '%') {
			decoded[n++] = text[i];
			continue;
		}
		if (length - i < 3)
			return false;
		high = hex_digit(text[i + 1]);
		low = hex_digit(text[i + 2]);
		if (high < 0 || low < 0)
			return false;
		decoded[n++] = (char)(high << 4 | low);
		i += 2;
	}
	*out_length = n;
	return true;
}

/* The absolute form (RFC 9112 §3.2.2): scheme and authority go. */
static void skip_authority(const char **url, size_t *length)
{
	static const char scheme[] = "http://";
	size_t skipped = sizeof(scheme) - 1;
	const char *slash;

	if (*length < skipped || strncasecmp(*url, scheme, skipped) != 0)
		return;
	slash = memchr(*url + skipped, '/', *length - skipped);
	if (!slash)
		return;
	*length -= (size_t)(slash - *url);
	*url = slash;
}

enum ldr_route ldr_route_parse(const char *url, size_t length, struct ldr_object_name *out_name)
{
	char path[LDR_URL_MAX_BYTES];
	const char *query;

	if (length > LDR_URL_MAX_BYTES)
		return LDR_ROUTE_TOO_LONG;
	skip_authority(&url, &length);
	query = memchr(url, '?', length);
	if (query)
		length = (size_t)(query - url);
	if (length == 0 || url[0] != '/' || !decode(url + 1, length - 1, path, &length))
		return LDR_ROUTE_MALFORMED;
	return ldr_store_path_parse(path, length, out_name) ? LDR_ROUTE_OBJECT : LDR_ROUTE_UNKNOWN;
}
