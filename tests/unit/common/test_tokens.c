/*
 * Tokens: made, found, revoked; what the file holds and what is refused of it.
 */
#include "common/tokens.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"

struct fixture {
	char folder[128];
	char path[160];
};

static void begin(struct fixture *f)
{
	snprintf(f->folder, sizeof(f->folder), "%s/larder-tokens-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	cr_assert_not_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/tokens.json", f->folder);
}

static void finish(struct fixture *f)
{
	char command[192];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->folder);
	cr_assert_eq(system(command), 0); /* style: a test's own folder */
}

static char *slurp(const char *path)
{
	static char text[65536];
	FILE *file = fopen(path, "re");
	size_t length;

	cr_assert_not_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	return text;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void add(struct fixture *f, enum ldr_token_scope scope, const char *channels,
		const char *note, char token[LDR_TOKEN_CHARS + 1], char id[LDR_TOKEN_ID_CHARS + 1])
{
	struct ldr_token_grant grant = {scope, channels, note};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_tokens_add(f->path, &grant, ldr_clock_system(), token, id, &err), LDR_OK,
		     "%s", err.text);
}

Test(tokens, a_token_is_found_by_its_text_and_the_file_does_not_hold_it)
{
	struct fixture f;
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	char token[LDR_TOKEN_CHARS + 1];
	char other[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	const struct ldr_token *found;
	struct stat info;

	begin(&f);
	cr_assert_eq(ldr_tokens_load(f.path, &tokens, NULL), LDR_ENOTFOUND);
	add(&f, LDR_TOKEN_PUBLISH, "beta*", "build machine \"7\"", token, id);
	cr_expect_eq(strlen(token), LDR_TOKEN_CHARS);
	cr_expect_eq(strncmp(token, "lrd_", 4), 0);
	cr_expect_null(strstr(slurp(f.path), token + 4), "the secret is in the file");
	cr_assert_eq(stat(f.path, &info), 0);
	cr_expect_eq(info.st_mode & 07777, 0600);
	cr_assert_eq(ldr_tokens_load(f.path, &tokens, NULL), LDR_OK);
	cr_assert_eq(tokens.count, 1);
	found = ldr_tokens_find(&tokens, token);
	cr_assert_not_null(found);
	cr_expect_str_eq(found->id, id);
	cr_expect_str_eq(found->channels, "beta*");
	cr_expect_str_eq(found->note, "build machine \"7\"");
	cr_expect_eq(found->scope, LDR_TOKEN_PUBLISH);
	cr_expect_gt(found->created_s, 1500000000);
	memcpy(other, token, sizeof(other));
	other[LDR_TOKEN_CHARS - 1] = other[LDR_TOKEN_CHARS - 1] == 'A' ? 'E' : 'A';
	cr_expect_null(ldr_tokens_find(&tokens, other));
	cr_expect_null(ldr_tokens_find(&tokens, ""));
	cr_expect_null(ldr_tokens_find(&tokens, token + 4));
	finish(&f);
}

Test(tokens, scope_and_channels_decide)
{
	static const struct {
		enum ldr_token_scope has;
		const char *channels;
		enum ldr_token_scope wants;
		const char *channel;
		bool allowed;
	} rows[] = {
		{LDR_TOKEN_PUBLISH, "*", LDR_TOKEN_PUBLISH, "live", true},
		{LDR_TOKEN_PUBLISH, "*", LDR_TOKEN_READ, "live", true},
		{LDR_TOKEN_READ, "*", LDR_TOKEN_READ, "live", true},
		{LDR_TOKEN_READ, "*", LDR_TOKEN_PUBLISH, "live", false},
		{LDR_TOKEN_READ, "*", LDR_TOKEN_PUBLISH, NULL, false},
		{LDR_TOKEN_PUBLISH, "beta", LDR_TOKEN_PUBLISH, "beta", true},
		{LDR_TOKEN_PUBLISH, "beta", LDR_TOKEN_PUBLISH, "beta2", false},
		{LDR_TOKEN_PUBLISH, "beta*", LDR_TOKEN_PUBLISH, "beta2", true},
		{LDR_TOKEN_PUBLISH, "beta*", LDR_TOKEN_PUBLISH, "live", false},
		{LDR_TOKEN_PUBLISH, "beta", LDR_TOKEN_PUBLISH, NULL, true},
		{LDR_TOKEN_PUBLISH, "l?ve", LDR_TOKEN_PUBLISH, "live", true},
		{LDR_TOKEN_PUBLISH, "", LDR_TOKEN_PUBLISH, "live", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_token token = {.scope = rows[i].has};

		snprintf(token.channels, sizeof(token.channels), "%s", rows[i].channels);
		cr_expect_eq(ldr_token_allows(&token, rows[i].wants, rows[i].channel),
			     rows[i].allowed, "row %zu", i);
	}
}

Test(tokens, a_revoked_token_is_gone_and_others_stay)
{
	struct fixture f;
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	char first[LDR_TOKEN_CHARS + 1];
	char second[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	char other_id[LDR_TOKEN_ID_CHARS + 1];
	struct ldr_error err = {0};

	begin(&f);
	add(&f, LDR_TOKEN_PUBLISH, NULL, NULL, first, id);
	add(&f, LDR_TOKEN_READ, NULL, NULL, second, other_id);
	cr_expect_str_neq(first, second);
	cr_expect_eq(ldr_tokens_revoke(f.path, id, NULL), LDR_OK);
	cr_expect_eq(ldr_tokens_revoke(f.path, id, &err), LDR_ENOTFOUND);
	cr_expect_not_null(strstr(err.text, id), "%s", err.text);
	cr_assert_eq(ldr_tokens_load(f.path, &tokens, NULL), LDR_OK);
	cr_expect_eq(tokens.count, 1);
	cr_expect_null(ldr_tokens_find(&tokens, first));
	cr_expect_not_null(ldr_tokens_find(&tokens, second));
	cr_expect_str_eq(tokens.items[0].channels, "*");
	finish(&f);
}

Test(tokens, what_cannot_be_kept_is_refused)
{
	static char too_long[LDR_TOKEN_NOTE_MAX_BYTES + 2];
	struct fixture f;
	struct ldr_token_grant grants[] = {
		{LDR_TOKEN_READ, too_long, NULL},
		{LDR_TOKEN_READ, NULL, too_long},
		{LDR_TOKEN_READ, NULL, "\xff\xfe"},
	};
	char token[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	struct ldr_error err = {0};

	begin(&f);
	memset(too_long, 'x', sizeof(too_long) - 1);
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(
			ldr_tokens_add(f.path, &grants[i], ldr_clock_system(), token, id, &err),
			LDR_EINVAL, "%zu: %s", i, err.text);
	cr_expect_neq(access(f.path, F_OK), 0, "no file was made");
	snprintf(f.path, sizeof(f.path), "%s/none/tokens", f.folder);
	cr_expect_eq(ldr_tokens_add(f.path, &(struct ldr_token_grant){0}, ldr_clock_system(), token,
				    id, &err),
		     LDR_ENOTFOUND);
	finish(&f);
}

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ROW(id, digest, scope, created)                                      \
	"{\"tokens\":[{\"id\":" id ",\"digest\":" digest ",\"scope\":" scope \
	",\"channels\":\"*\",\"note\":\"\",\"created\":" created "}]}"

Test(tokens, a_file_that_is_not_right_lets_nobody_in)
{
	static const char *const texts[] = {
		"",
		"[]",
		"{}",
		"{\"tokens\": 1}",
		"{\"tokens\": [1]}",
		"{\"tokens\": [{}]}",
		ROW("\"123456789\"", "\"" DIGEST "\"", "\"read\"", "1"),
		ROW("\"a\"", "\"" DIGEST "0\"", "\"read\"", "1"),
		ROW("\"a\"", "\"\"", "\"read\"", "1"),
		ROW("\"a\"", "\"" DIGEST "\"", "\"admin\"", "1"),
		ROW("\"a\"", "\"" DIGEST "\"", "\"read\"", "-1"),
		ROW("\"a\"", "\"" DIGEST "\"", "\"read\"", "\"1\""),
	};
	struct fixture f;
	struct ldr_tokens tokens = {0};
	struct ldr_error err;

	begin(&f);
	write_text(f.path, ROW("\"a\"", "\"" DIGEST "\"", "\"read\"", "1"));
	cr_assert_eq(ldr_tokens_load(f.path, &tokens, NULL), LDR_OK, "the rows' base is right");
	ldr_tokens_dispose(&tokens);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		err = (struct ldr_error){0};
		write_text(f.path, texts[i]);
		cr_expect_eq(ldr_tokens_load(f.path, &tokens, &err), LDR_ECORRUPT, "%s", texts[i]);
		cr_expect_not_null(strstr(err.text, "tokens.json"), "%s", err.text);
		cr_expect_null(tokens.items);
	}
	finish(&f);
}

static void *add_some(void *context)
{
	struct fixture *f = context;
	char token[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	struct ldr_token_grant grant = {0};
	intptr_t added = 0;

	for (int i = 0; i < 5; i++)
		added += ldr_tokens_add(f->path, &grant, ldr_clock_system(), token, id, NULL) ==
			 LDR_OK;
	return (void *)added;
}

Test(tokens, two_who_add_at_once_lose_nothing)
{
	struct fixture f;
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	pthread_t other;
	void *theirs = NULL;
	intptr_t ours;

	begin(&f);
	cr_assert_eq(pthread_create(&other, NULL, add_some, &f), 0);
	ours = (intptr_t)add_some(&f);
	pthread_join(other, &theirs);
	cr_assert_eq(ldr_tokens_load(f.path, &tokens, NULL), LDR_OK);
	cr_expect_eq((intptr_t)tokens.count, ours + (intptr_t)theirs,
		     "every add that succeeded is there");
	cr_expect_geq(tokens.count, 5);
	finish(&f);
}
