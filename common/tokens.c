/*
 * Bearer tokens; see tokens.h.
 */
#include "common/tokens.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/bytes.h"
#include "common/json.h"
#include "common/keys.h"
#include "common/publisher.h"

#define FILE_MAX_BYTES (4u * 1024 * 1024)
#define TOKEN_PREFIX "lrd_"
#define TOKEN_RANDOM_BYTES 32
#define TRIES 50
#define PAUSE_MS 10

const char *ldr_token_scope_name(enum ldr_token_scope scope)
{
	return scope == LDR_TOKEN_PUBLISH ? "publish" : "read";
}

void ldr_tokens_dispose(struct ldr_tokens *tokens)
{
	free(tokens->items);
	*tokens = (struct ldr_tokens){0};
}

/* ---- the file ---- */

/* The file's folder and its name in it. */
struct place {
	struct ldr_root *root;
	const char *name;
};

static void place_close(struct place *place)
{
	ldr_root_close(place->root);
}
#define AUTO_PLACE __attribute__((cleanup(place_close)))

static enum ldr_status place_open(const char *path, struct place *out, struct ldr_error *err)
{
	const char *slash = strrchr(path, '/');
	LDR_AUTO_FREE char *folder = NULL;

	out->name = slash ? slash + 1 : path;
	if (!*out->name)
		return ldr_fail(err, LDR_EISDIR, "tokens %s: not a file's name", path);
	if (!slash)
		return ldr_root_open(".", false, &out->root, err);
	folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (!folder)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	return ldr_root_open(folder, false, &out->root, err);
}

static enum ldr_status parse_token(const json_t *object, struct ldr_token *out,
				   struct ldr_error *err)
{
	const char *id = NULL;
	const char *scope = NULL;
	const char *channels = NULL;
	const char *note = NULL;
	uint64_t created = 0;
	enum ldr_status status = ldr_json_string(object, "id", LDR_TOKEN_ID_CHARS, &id, err);

	if (!status)
		status = ldr_json_id(object, "digest", &out->digest, err);
	if (!status)
		status = ldr_json_string(object, "scope", 16, &scope, err);
	if (!status)
		status = ldr_json_string(object, "channels", LDR_TOKEN_PATTERN_MAX_BYTES, &channels,
					 err);
	if (!status)
		status = ldr_json_string(object, "note", LDR_TOKEN_NOTE_MAX_BYTES, &note, err);
	if (!status)
		status = ldr_json_u64(object, "created", LDR_JSON_INTEGER_MAX, &created, err);
	if (status)
		return status;
	out->scope = strcmp(scope, "publish") == 0 ? LDR_TOKEN_PUBLISH : LDR_TOKEN_READ;
	if (strcmp(scope, ldr_token_scope_name(out->scope)) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "scope \"%s\": not read or publish", scope);
	snprintf(out->id, sizeof(out->id), "%s", id);
	snprintf(out->channels, sizeof(out->channels), "%s", channels);
	snprintf(out->note, sizeof(out->note), "%s", note);
	out->created_s = (int64_t)created;
	return LDR_OK;
}

static enum ldr_status parse_list(const char *text, size_t length, const char *path,
				  struct ldr_tokens *out, struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *document = NULL;
	json_t *array = NULL;
	enum ldr_status status = ldr_json_parse(text, length, FILE_MAX_BYTES, path, &document, err);

	if (status)
		return status;
	status = ldr_json_array(document, "tokens", LDR_TOKENS_MAX, &array, err);
	if (status)
		return ldr_error_prefix(err, status, "tokens %s", path);
	out->items = calloc(json_array_size(array) + 1, sizeof(*out->items));
	if (!out->items)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	for (size_t i = 0; i < json_array_size(array); i++) {
		status = parse_token(json_array_get(array, i), &out->items[i], err);
		if (status)
			return ldr_error_prefix(err, status, "tokens %s: token %zu", path, i);
		out->count++;
	}
	return LDR_OK;
}

static enum ldr_status load(const struct place *place, const char *path, struct ldr_tokens *out,
			    struct ldr_error *err)
{
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	LDR_AUTO_FREE uint8_t *text = NULL;
	size_t length = 0;
	enum ldr_status status = ldr_root_read_file(place->root, place->name, FILE_MAX_BYTES, &text,
						    &length, err);

	if (status)
		return ldr_error_prefix(err, status, "tokens %s", path);
	status = parse_list((const char *)text, length, path, &tokens, err);
	if (status)
		return status;
	*out = tokens;
	tokens = (struct ldr_tokens){0};
	return LDR_OK;
}

enum ldr_status ldr_tokens_load(const char *path, struct ldr_tokens *out_tokens,
				struct ldr_error *err)
{
	AUTO_PLACE struct place place = {0};
	enum ldr_status status = place_open(path, &place, err);

	return status ? status : load(&place, path, out_tokens, err);
}

/* ---- changing it ---- */

static json_t *token_json(const struct ldr_token *token)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(&token->digest, hex);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "id", token->id, "digest", hex, "scope",
			 ldr_token_scope_name(token->scope), "channels", token->channels, "note",
			 token->note, "created", (json_int_t)token->created_s);
}

/* Owns: free(). NULL: out of memory, or a text that is no UTF-8. */
static char *list_text(const struct ldr_tokens *tokens)
{
	LDR_AUTO_JSON json_t *array = json_array();
	LDR_AUTO_JSON json_t *document = NULL;

	for (size_t i = 0; i < tokens->count; i++)
		if (json_array_append_new(array, token_json(&tokens->items[i])))
			return NULL;
	document = json_pack("{s:O}", "tokens", array);
	return document ? json_dumps(document, JSON_INDENT(1)) : NULL;
}

static enum ldr_status save(const struct place *place, const struct ldr_tokens *tokens,
			    const struct ldr_publish_options *options, struct ldr_error *err)
{
	LDR_AUTO_FREE char *text = list_text(tokens);

	if (!text)
		return ldr_fail(err, LDR_EINVAL, "tokens: channels or note is no UTF-8");
	return ldr_publish(place->root, place->name, text, strlen(text), options, NULL, err);
}

/* Adds `add`, or removes the token called `remove`: exactly one of them is given. */
struct change {
	const struct ldr_token *add;
	const char *remove;
};

static enum ldr_status remove_token(struct ldr_tokens *tokens, const char *id, const char *path,
				    struct ldr_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < tokens->count; i++)
		if (strcmp(tokens->items[i].id, id) != 0)
			tokens->items[kept++] = tokens->items[i];
	if (kept == tokens->count)
		return ldr_fail(err, LDR_ENOTFOUND, "tokens %s: no token \"%s\"", path, id);
	tokens->count = kept;
	return LDR_OK;
}

static enum ldr_status add_token(struct ldr_tokens *tokens, const struct ldr_token *token,
				 const char *path, struct ldr_error *err)
{
	struct ldr_token *grown;

	if (tokens->count == LDR_TOKENS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "tokens %s: %zu tokens, limit %d", path,
				tokens->count, LDR_TOKENS_MAX);
	grown = reallocarray(tokens->items, tokens->count + 1, sizeof(*grown));
	if (!grown)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	grown[tokens->count++] = *token;
	tokens->items = grown;
	return LDR_OK;
}

static enum ldr_status change_once(const struct place *place, const char *path,
				   const struct change *change, struct ldr_error *err)
{
	struct ldr_publish_options options = {
		.sync = LDR_SYNC_FILE_AND_FOLDER,
		.condition = LDR_IF_MATCHING,
		.mode = 0600,
	};
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	enum ldr_status status = ldr_root_observe(place->root, place->name, &options.stamp, err);

	if (status == LDR_ENOTFOUND) {
		options.condition = LDR_IF_MISSING;
		status = LDR_OK;
	} else if (!status) {
		status = load(place, path, &tokens, err);
	}
	if (!status && change->add)
		status = add_token(&tokens, change->add, path, err);
	else if (!status)
		status = remove_token(&tokens, change->remove, path, err);
	return status ? status : save(place, &tokens, &options, err);
}

static enum ldr_status change_file(const char *path, const struct change *change,
				   struct ldr_error *err)
{
	const struct timespec pause = {0, PAUSE_MS * 1000000L};
	AUTO_PLACE struct place place = {0};
	enum ldr_status status = place_open(path, &place, err);

	if (status)
		return status;
	status = change_once(&place, path, change, err);
	for (int i = 1; i < TRIES && status == LDR_ECONFLICT; i++) {
		nanosleep(&pause, NULL);
		status = change_once(&place, path, change, err);
	}
	return status;
}

/* ---- tokens ---- */

static enum ldr_status make_text(char out[LDR_TOKEN_CHARS + 1], struct ldr_error *err)
{
	uint8_t secret[TOKEN_RANDOM_BYTES];
	LDR_AUTO_FREE char *encoded = NULL;
	enum ldr_status status = ldr_random(secret, sizeof(secret), err);

	if (status)
		return status;
	encoded = ldr_base64url_encode(secret, sizeof(secret));
	if (!encoded)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	snprintf(out, LDR_TOKEN_CHARS + 1, "%s%s", TOKEN_PREFIX, encoded);
	return LDR_OK;
}

static enum ldr_status copy_text(const char *what, const char *text, char *out, size_t max_bytes,
				 struct ldr_error *err)
{
	if (strlen(text) > max_bytes)
		return ldr_fail(err, LDR_EINVAL, "token: %s of %zu bytes, limit %zu", what,
				strlen(text), max_bytes);
	memcpy(out, text, strlen(text) + 1);
	return LDR_OK;
}

static enum ldr_status make_token(const struct ldr_token_grant *grant,
				  const struct ldr_clock *clock, struct ldr_token *out,
				  char text[LDR_TOKEN_CHARS + 1], struct ldr_error *err)
{
	uint8_t id[LDR_TOKEN_ID_CHARS / 2];
	enum ldr_status status = copy_text("channels", grant->channels ? grant->channels : "*",
					   out->channels, LDR_TOKEN_PATTERN_MAX_BYTES, err);

	if (!status)
		status = copy_text("note", grant->note ? grant->note : "", out->note,
				   LDR_TOKEN_NOTE_MAX_BYTES, err);
	if (!status)
		status = make_text(text, err);
	if (!status)
		status = ldr_random(id, sizeof(id), err);
	if (!status)
		status = ldr_digest_once(text, LDR_TOKEN_CHARS, &out->digest, err);
	if (status)
		return status;
	for (size_t i = 0; i < sizeof(id); i++)
		snprintf(out->id + 2 * i, 3, "%02x", id[i]);
	out->scope = grant->scope;
	out->created_s = clock->wall_s(clock);
	return LDR_OK;
}

enum ldr_status ldr_tokens_add(const char *path, const struct ldr_token_grant *grant,
			       const struct ldr_clock *clock, char out_token[LDR_TOKEN_CHARS + 1],
			       char out_id[LDR_TOKEN_ID_CHARS + 1], struct ldr_error *err)
{
	char text[LDR_TOKEN_CHARS + 1];
	struct ldr_token token = {0};
	enum ldr_status status = make_token(grant, clock, &token, text, err);

	if (!status)
		status = change_file(path, &(struct change){.add = &token}, err);
	if (status)
		return status;
	memcpy(out_token, text, sizeof(text));
	memcpy(out_id, token.id, sizeof(token.id));
	return LDR_OK;
}

enum ldr_status ldr_tokens_revoke(const char *path, const char *id, struct ldr_error *err)
{
	return change_file(path, &(struct change){.remove = id}, err);
}

/* All bytes are looked at, whatever the first ones say. */
static bool same_digest(const struct ldr_id *a, const struct ldr_id *b)
{
	volatile uint8_t different = 0;

	for (size_t i = 0; i < LDR_ID_BYTES; i++)
		different = (uint8_t)(different | (a->bytes[i] ^ b->bytes[i]));
	return different == 0;
}

const struct ldr_token *ldr_tokens_find(const struct ldr_tokens *tokens, const char *text)
{
	const struct ldr_token *found = NULL;
	struct ldr_id digest;

	if (ldr_digest_once(text, strlen(text), &digest, NULL))
		return NULL;
	for (size_t i = 0; i < tokens->count; i++)
		if (same_digest(&tokens->items[i].digest, &digest))
			found = &tokens->items[i];
	return found;
}

bool ldr_token_allows(const struct ldr_token *token, enum ldr_token_scope scope,
		      const char *channel)
{
	if (scope == LDR_TOKEN_PUBLISH && token->scope != LDR_TOKEN_PUBLISH)
		return false;
	return !channel || fnmatch(token->channels, channel, 0) == 0;
}
