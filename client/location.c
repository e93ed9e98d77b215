/*
 * Locations: what a user types; see location.h.
 */
#include "client/location.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/transport.h"
#include "common/bytes.h"

#define SOURCE_FORMS "FILE.pack or STORE#channel[@sequence]"
#define STORE_FORMS "a folder or http(s)://host[:port][/prefix]"

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The folder need not exist yet (a first publication makes it): only the text is made absolute. */
static char *absolute_path(const char *path)
{
	LDR_AUTO_FREE char *here = NULL;
	char *joined = NULL;

	if (path[0] == '/')
		return strdup(path);
	here = getcwd(NULL, 0);
	if (!here || asprintf(&joined, "%s/%s", here, path) < 0)
		return NULL;
	return joined;
}

static void cut_slashes(char *text)
{
	size_t length = strlen(text);

	while (length > 1 && text[length - 1] == '/')
		text[--length] = '\0';
}

static enum ldr_status set_store(struct ldr_location *out, const char *store, struct ldr_error *err)
{
	if (store[0] == '\0')
		return ldr_fail(err, LDR_EUSAGE, "\"%s\": no store before \"#\": wanted %s",
				out->text, STORE_FORMS);
	if (has_prefix(store, "s3://"))
		return ldr_fail(err, LDR_EUNSUPPORTED, "%s: s3 stores are not supported yet",
				store);
	if (has_prefix(store, "http://") || has_prefix(store, "https://")) {
		out->kind = LDR_LOCATION_HTTP;
		out->base = strdup(store);
	} else if (strstr(store, "://")) {
		return ldr_fail(err, LDR_EUSAGE, "%s: unknown scheme: wanted %s", store,
				STORE_FORMS);
	} else {
		out->kind = LDR_LOCATION_FOLDER;
		out->path = absolute_path(store);
		if (out->path)
			cut_slashes(out->path);
		out->base = out->path ? ldr_url_of_folder(out->path) : NULL;
	}
	if (!out->base)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", store);
	cut_slashes(out->base);
	return LDR_OK;
}

static enum ldr_status set_sequence(struct ldr_location *out, const char *text,
				    struct ldr_error *err)
{
	char *end;

	errno = 0;
	out->sequence = strtoull(text, &end, 10);
	if (errno || *end || text[0] < '1' || text[0] > '9' || out->sequence > INT64_MAX)
		return ldr_fail(err, LDR_EUSAGE, "\"%s\": sequence \"%s\" is not a number from 1",
				out->text, text);
	return LDR_OK;
}

static enum ldr_status set_channel(struct ldr_location *out, char *channel, struct ldr_error *err)
{
	char *at = strchr(channel, '@');

	if (at)
		*at++ = '\0';
	if (!ldr_channel_name_ok(channel))
		return ldr_fail(err, LDR_EUSAGE,
				"\"%s\": channel \"%s\": wanted 1 to %d of a-z 0-9 . _ -",
				out->text, channel, LDR_CHANNEL_MAX_CHARS);
	memcpy(out->channel, channel, strlen(channel) + 1);
	return at ? set_sequence(out, at, err) : LDR_OK;
}

static enum ldr_status parse_source(struct ldr_location *out, struct ldr_error *err)
{
	LDR_AUTO_FREE char *copy = strdup(out->text);
	char *hash;
	enum ldr_status status;

	if (!copy)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", out->text);
	hash = strrchr(copy, '#');
	if (!hash) {
		if (strstr(copy, "://"))
			return ldr_fail(err, LDR_EUSAGE, "\"%s\": no channel: wanted %s#channel",
					out->text, out->text);
		out->kind = LDR_LOCATION_PACK;
		out->path = LDR_STEAL(copy);
		return LDR_OK;
	}
	*hash = '\0';
	status = set_store(out, copy, err);
	return status ? status : set_channel(out, hash + 1, err);
}

static enum ldr_status finish(enum ldr_status status, struct ldr_location *made,
			      struct ldr_location *out)
{
	if (status)
		ldr_location_dispose(made);
	else
		*out = *made;
	return status;
}

enum ldr_status ldr_location_parse_source(const char *text, struct ldr_location *out,
					  struct ldr_error *err)
{
	struct ldr_location made = {.text = strdup(text)};

	if (!made.text)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", text);
	if (text[0] == '\0')
		return finish(ldr_fail(err, LDR_EUSAGE, "empty source: wanted " SOURCE_FORMS),
			      &made, out);
	return finish(parse_source(&made, err), &made, out);
}

enum ldr_status ldr_location_parse_store(const char *text, struct ldr_location *out,
					 struct ldr_error *err)
{
	struct ldr_location made = {.text = strdup(text)};

	if (!made.text)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", text);
	if (strchr(text, '#'))
		return finish(ldr_fail(err, LDR_EUSAGE,
				       "\"%s\": a store has no \"#channel\": wanted " STORE_FORMS,
				       text),
			      &made, out);
	return finish(set_store(&made, text, err), &made, out);
}

void ldr_location_dispose(struct ldr_location *location)
{
	free(location->text);
	free(location->path);
	free(location->base);
	*location = (struct ldr_location){0};
}
