/*
 * URLs: joined, made of a folder's path, and taken apart as far as the transport must judge them.
 *
 * Threads: no state.
 */
#include "client/transport_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *ldr_url_join(const char *base, const char *path)
{
	size_t length = strlen(base);
	char *url;

	while (length && base[length - 1] == '/')
		length--;
	while (*path == '/')
		path++;
	if (asprintf(&url, "%.*s/%s", (int)length, base, path) < 0)
		return NULL;
	return url;
}

static bool plain_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '/' || c == '-' || c == '.' || c == '_' || c == '~';
}

char *ldr_url_of_folder(const char *absolute_path)
{
	static const char hex[] = "0123456789ABCDEF";
	static const char scheme[] = "file://";
	char *url = malloc(strlen(scheme) + 3 * strlen(absolute_path) + 1);
	char *to = url;

	if (!url)
		return NULL;
	memcpy(to, scheme, strlen(scheme));
	to += strlen(scheme);
	for (const char *from = absolute_path; *from; from++) {
		unsigned char c = (unsigned char)*from;

		if (plain_char(c)) {
			*to++ = *from;
			continue;
		}
		*to++ = '%';
		*to++ = hex[c >> 4];
		*to++ = hex[c & 15];
	}
	*to = '\0';
	return url;
}

static enum ldr_status judge(CURLU *parts, const char *url, char origin[LDR_ORIGIN_BYTES],
			     struct ldr_error *err)
{
	char *scheme = NULL, *host = NULL, *port = NULL, *user = NULL;
	enum ldr_status status = LDR_OK;
	bool is_file;

	curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0);
	curl_url_get(parts, CURLUPART_HOST, &host, 0);
	curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
	curl_url_get(parts, CURLUPART_USER, &user, 0);
	is_file = scheme && strcmp(scheme, "file") == 0;
	if (!is_file && (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)))
		status = ldr_fail(err, LDR_EINVAL, "%.200s: not an http, https or file URL", url);
	else if (user)
		status = ldr_fail(err, LDR_EINVAL,
				  "URL of host %.100s: a user's name in a URL is "
				  "not supported, use a token",
				  host ? host : "?");
	else if (is_file)
		snprintf(origin, LDR_ORIGIN_BYTES, "file://");
	else if (!host || snprintf(origin, LDR_ORIGIN_BYTES, "%s://%s:%s", scheme, host,
				   port ? port : "") >= LDR_ORIGIN_BYTES)
		status = ldr_fail(err, LDR_EINVAL, "%.200s: host is missing or too long", url);
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_free(user);
	return status;
}

enum ldr_status ldr_url_origin(const char *url, char origin[LDR_ORIGIN_BYTES],
			       struct ldr_error *err)
{
	CURLU *parts = curl_url();
	enum ldr_status status;
	CURLUcode code;

	if (!parts)
		return ldr_fail(err, LDR_ENOMEM, "%.200s: out of memory", url);
	code = curl_url_set(parts, CURLUPART_URL, url, 0);
	if (code)
		status = ldr_fail(err, LDR_EINVAL, "%.200s: %s", url, curl_url_strerror(code));
	else
		status = judge(parts, url, origin, err);
	curl_url_cleanup(parts);
	return status;
}
