/*
 * The layout of a store; see layout.h.
 */
#include "packs/layout.h"

#include <stdio.h>

#include "packs/release.h"

void ldr_store_pack_path(const struct ldr_id *id, char path[LDR_STORE_PATH_BYTES])
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(id, hex);
	snprintf(path, LDR_STORE_PATH_BYTES, "packs/%.2s/%s.pack", hex, hex);
}

void ldr_store_channel_path(const char *channel, char path[LDR_STORE_PATH_BYTES])
{
	snprintf(path, LDR_STORE_PATH_BYTES, "channels/%s", channel);
}

void ldr_store_release_path(const char *channel, uint64_t sequence, char path[LDR_STORE_PATH_BYTES])
{
	snprintf(path, LDR_STORE_PATH_BYTES, "releases/%s/%llu", channel,
		 (unsigned long long)sequence);
}

void ldr_store_key_path(const char *kid, char path[LDR_STORE_PATH_BYTES])
{
	snprintf(path, LDR_STORE_PATH_BYTES, "keys/%s.pub", kid);
}

void ldr_store_path(const struct ldr_object_name *name, char path[LDR_STORE_PATH_BYTES])
{
	switch (name->kind) {
	case LDR_OBJECT_CHANNEL:
		ldr_store_channel_path(name->channel, path);
		break;
	case LDR_OBJECT_RELEASE:
		ldr_store_release_path(name->channel, name->sequence, path);
		break;
	case LDR_OBJECT_PACK:
		ldr_store_pack_path(&name->pack, path);
		break;
	case LDR_OBJECT_KEY:
		ldr_store_key_path(name->kid, path);
		break;
	case LDR_OBJECT_FORMAT:
		snprintf(path, LDR_STORE_PATH_BYTES, "%s", LDR_STORE_FORMAT_PATH);
		break;
	}
}

static bool parse_channel(const char *text, size_t length, char out[LDR_CHANNEL_MAX_CHARS + 1])
{
	if (length == 0 || length > LDR_CHANNEL_MAX_CHARS || memchr(text, 0, length))
		return false;
	memcpy(out, text, length);
	out[length] = '\0';
	return ldr_channel_name_ok(out);
}

static bool parse_sequence(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	if (length == 0 || length > 18 || text[0] == '0')
		return false;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*out = value;
	return true;
}

static bool parse_release(const char *text, size_t length, struct ldr_object_name *out)
{
	const char *slash = memchr(text, '/', length);
	size_t channel;

	if (!slash)
		return false;
	channel = (size_t)(slash - text);
	out->kind = LDR_OBJECT_RELEASE;
	return parse_channel(text, channel, out->channel) &&
	       parse_sequence(slash + 1, length - channel - 1, &out->sequence);
}

static bool parse_pack(const char *text, size_t length, struct ldr_object_name *out)
{
	out->kind = LDR_OBJECT_PACK;
	return length == 3 + LDR_ID_HEX_CHARS + 5 && text[2] == '/' &&
	       memcmp(text, text + 3, 2) == 0 && memcmp(text + length - 5, ".pack", 5) == 0 &&
	       ldr_id_from_hex(text + 3, LDR_ID_HEX_CHARS, &out->pack);
}

static bool kid_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

static bool parse_key(const char *text, size_t length, struct ldr_object_name *out)
{
	if (length != LDR_KID_CHARS + 4 || memcmp(text + LDR_KID_CHARS, ".pub", 4) != 0)
		return false;
	for (size_t i = 0; i < LDR_KID_CHARS; i++)
		if (!kid_char(text[i]))
			return false;
	out->kind = LDR_OBJECT_KEY;
	memcpy(out->kid, text, LDR_KID_CHARS);
	return true;
}

static bool skip(const char **text, size_t *length, const char *prefix)
{
	size_t n = strlen(prefix);

	if (*length < n || memcmp(*text, prefix, n) != 0)
		return false;
	*text += n;
	*length -= n;
	return true;
}

bool ldr_store_path_parse(const char *path, size_t length, struct ldr_object_name *out_name)
{
	struct ldr_object_name name = {0};
	bool known = false;

	if (skip(&path, &length, "channels/")) {
		name.kind = LDR_OBJECT_CHANNEL;
		known = parse_channel(path, length, name.channel);
	} else if (skip(&path, &length, "releases/")) {
		known = parse_release(path, length, &name);
	} else if (skip(&path, &length, "packs/")) {
		known = parse_pack(path, length, &name);
	} else if (skip(&path, &length, "keys/")) {
		known = parse_key(path, length, &name);
	} else if (skip(&path, &length, LDR_STORE_FORMAT_PATH)) {
		name.kind = LDR_OBJECT_FORMAT;
		known = length == 0;
	}
	if (known)
		*out_name = name;
	return known;
}

void ldr_store_id_to_hex(const uint8_t store[LDR_STORE_ID_BYTES], char hex[LDR_STORE_ID_CHARS + 1])
{
	for (int i = 0; i < LDR_STORE_ID_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", store[i]);
}

bool ldr_store_id_from_hex(const char *text, size_t length, uint8_t out_store[LDR_STORE_ID_BYTES])
{
	char doubled[LDR_ID_HEX_CHARS];
	struct ldr_id id;

	if (length != LDR_STORE_ID_CHARS)
		return false;
	memcpy(doubled, text, LDR_STORE_ID_CHARS);
	memcpy(doubled + LDR_STORE_ID_CHARS, text, LDR_STORE_ID_CHARS);
	if (!ldr_id_from_hex(doubled, LDR_ID_HEX_CHARS, &id))
		return false;
	memcpy(out_store, id.bytes, LDR_STORE_ID_BYTES);
	return true;
}

void ldr_store_format_write(const uint8_t store[LDR_STORE_ID_BYTES],
			    char out[LDR_STORE_FORMAT_BYTES + 1])
{
	char hex[LDR_STORE_ID_CHARS + 1];

	ldr_store_id_to_hex(store, hex);
	snprintf(out, LDR_STORE_FORMAT_BYTES + 1, "%s%s\n", LDR_STORE_FORMAT, hex);
}

enum ldr_status ldr_store_format_parse(const char *text, size_t length, const char *name,
				       uint8_t out_store[LDR_STORE_ID_BYTES], struct ldr_error *err)
{
	const size_t head = sizeof(LDR_STORE_FORMAT) - 1;
	char quoted[LDR_QUOTE_BYTES];
	size_t line = length;

	if (length < head || memcmp(text, LDR_STORE_FORMAT, head) != 0) {
		const char *end = memchr(text, '\n', length);

		if (end)
			line = (size_t)(end - text);
		return ldr_fail(err, LDR_EUNSUPPORTED, "%s: format \"%s\", wanted \"%.*s\"", name,
				ldr_path_quote(text, line, quoted), (int)head - 1,
				LDR_STORE_FORMAT);
	}
	if (length != LDR_STORE_FORMAT_BYTES || text[length - 1] != '\n' ||
	    !ldr_store_id_from_hex(text + head, LDR_STORE_ID_CHARS, out_store))
		return ldr_fail(err, LDR_ECORRUPT, "%s: no store id in its second line", name);
	return LDR_OK;
}
