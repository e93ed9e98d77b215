/*
 * Who may publish; see access.h.
 */
#include "server/access.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/lock.h"
#include "common/tokens.h"

struct ldr_access {
	char *path;
	struct ldr_mutex lock;
	struct ldr_tokens tokens;
	struct stat seen; /* of the file that was loaded */
};

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Loads the file if it is another than the one that is loaded. */
static enum ldr_status refresh(struct ldr_access *access, struct ldr_error *err)
{
	struct ldr_tokens fresh = {0};
	struct stat now = {0};
	enum ldr_status status;
	bool current;

	/* Where there is none, loading says so. Looked at first: a change in between is seen next time. */
	current = stat(access->path, &now) == 0;
	ldr_mutex_lock(&access->lock);
	current = current && same_file(&now, &access->seen);
	ldr_mutex_unlock(&access->lock);
	if (current)
		return LDR_OK;
	status = ldr_tokens_load(access->path, &fresh, err);
	if (status)
		return status;
	ldr_mutex_lock(&access->lock);
	ldr_tokens_dispose(&access->tokens);
	access->tokens = fresh;
	access->seen = now;
	ldr_mutex_unlock(&access->lock);
	return LDR_OK;
}

enum ldr_status ldr_access_new(const char *tokens_path, struct ldr_access **out_access,
			       struct ldr_error *err)
{
	struct ldr_access *access = calloc(1, sizeof(*access));
	enum ldr_status status;

	if (!access)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	ldr_mutex_init(&access->lock, LDR_RANK_SERVER);
	access->path = strdup(tokens_path);
	status = access->path ? refresh(access, err) : ldr_fail(err, LDR_ENOMEM, "out of memory");
	if (status) {
		ldr_access_free(access);
		return status;
	}
	*out_access = access;
	return LDR_OK;
}

void ldr_access_free(struct ldr_access *access)
{
	if (!access)
		return;
	ldr_tokens_dispose(&access->tokens);
	ldr_mutex_dispose(&access->lock);
	free(access->path);
	free(access);
}

/* "Bearer TOKEN"; NULL for anything else. */
static const char *bearer(const char *authorization)
{
	static const char scheme[] = "Bearer ";

	if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
		return NULL;
	return authorization + sizeof(scheme) - 1;
}

static const char *channel_of(const struct ldr_object_name *name)
{
	bool has_one = name->kind == LDR_OBJECT_CHANNEL || name->kind == LDR_OBJECT_RELEASE;

	return has_one ? name->channel : NULL;
}

static unsigned judge_token(const struct ldr_token *token, const struct ldr_object_name *name,
			    struct ldr_error *err)
{
	const char *channel = channel_of(name);

	if (!token) {
		ldr_fail(err, LDR_EDENIED, "the token is not known here, or was revoked");
		return 401;
	}
	if (ldr_token_allows(token, LDR_TOKEN_PUBLISH, channel))
		return 0;
	if (token->scope != LDR_TOKEN_PUBLISH)
		ldr_fail(err, LDR_EDENIED, "token %s may read, not publish", token->id);
	else
		ldr_fail(err, LDR_EDENIED, "token %s may publish to channels \"%s\", not to \"%s\"",
			 token->id, token->channels, channel);
	return 403;
}

unsigned ldr_access_judge(struct ldr_access *access, const char *authorization,
			  const struct ldr_object_name *name, struct ldr_error *err)
{
	const char *text = bearer(authorization);
	unsigned status;

	if (!access) {
		ldr_fail(err, LDR_EDENIED,
			 "publishing is off: larderd was started without --tokens");
		return 403;
	}
	if (!text) {
		ldr_fail(err, LDR_EDENIED, "publishing needs a token: Authorization: Bearer ...");
		return 401;
	}
	if (refresh(access, err))
		return 503;
	ldr_mutex_lock(&access->lock);
	status = judge_token(ldr_tokens_find(&access->tokens, text), name, err);
	ldr_mutex_unlock(&access->lock);
	return status;
}
