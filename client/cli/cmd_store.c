/*
 * larder token: who may publish at a server. larderd notices a changed file by itself.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "common/tokens.h"

#define DATE_TEXT 24

/* What the command does with its file; args hold the rest. */
struct action {
	const char *name;
	int positional; /* arguments, the action's name included */
	enum ldr_status (*run)(const struct ldr_args *args, const char *path,
			       struct ldr_error *err);
};

static enum ldr_status parse_scope(const struct ldr_args *args, enum ldr_token_scope *out,
				   struct ldr_error *err)
{
	const char *text = args->value[LDR_OPT_SCOPE];

	*out = LDR_TOKEN_READ;
	if (!text || strcmp(text, ldr_token_scope_name(LDR_TOKEN_READ)) == 0)
		return LDR_OK;
	*out = LDR_TOKEN_PUBLISH;
	if (strcmp(text, ldr_token_scope_name(LDR_TOKEN_PUBLISH)) == 0)
		return LDR_OK;
	return ldr_fail(err, LDR_EUSAGE, "--scope \"%s\": wanted read or publish", text);
}

/* The token alone on standard output, so that a script can keep it: `larder token add ... >FILE`. */
static enum ldr_status add(const struct ldr_args *args, const char *path, struct ldr_error *err)
{
	struct ldr_token_grant grant = {
		.channels = args->value[LDR_OPT_CHANNEL],
		.note = args->value[LDR_OPT_NOTE],
	};
	char token[LDR_TOKEN_CHARS + 1];
	char id[LDR_TOKEN_ID_CHARS + 1];
	enum ldr_status status = parse_scope(args, &grant.scope, err);

	if (!status)
		status = ldr_tokens_add(path, &grant, ldr_clock_system(), token, id, err);
	if (status)
		return status;
	if (ldr_args_has(args, LDR_OPT_JSON))
		status = ldr_output_json(json_pack("{s:s, s:s, s:s, s:s}", "id", id, "token", token,
						   "scope", ldr_token_scope_name(grant.scope),
						   "channels",
						   grant.channels ? grant.channels : "*"),
					 err);
	else
		printf("%s\n", token);
	explicit_bzero(token, sizeof(token));
	return status;
}

static void date_text(int64_t seconds, char text[DATE_TEXT])
{
	time_t when = (time_t)seconds;
	struct tm parts;

	if (!gmtime_r(&when, &parts) || !strftime(text, DATE_TEXT, "%Y-%m-%d %H:%M", &parts))
		snprintf(text, DATE_TEXT, "%" PRId64, seconds);
}

static enum ldr_status list_json(const struct ldr_tokens *tokens, struct ldr_error *err)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < tokens->count; i++) {
		const struct ldr_token *token = &tokens->items[i];

		json_array_append_new(rows,
				      json_pack("{s:s, s:s, s:s, s:s, s:I}", "id", token->id,
						"scope", ldr_token_scope_name(token->scope),
						"channels", token->channels, "note", token->note,
						"created", (json_int_t)token->created_s));
	}
	return ldr_output_json(json_pack("{s:o}", "tokens", rows), err);
}

static enum ldr_status list(const struct ldr_args *args, const char *path, struct ldr_error *err)
{
	LDR_AUTO_TOKENS struct ldr_tokens tokens = {0};
	enum ldr_status status = ldr_tokens_load(path, &tokens, err);

	if (status || ldr_args_has(args, LDR_OPT_JSON))
		return status ? status : list_json(&tokens, err);
	for (size_t i = 0; i < tokens.count; i++) {
		const struct ldr_token *token = &tokens.items[i];
		char date[DATE_TEXT];

		date_text(token->created_s, date);
		printf("%s  %s  %-7s  %-16s  %s\n", token->id, date,
		       ldr_token_scope_name(token->scope), token->channels, token->note);
	}
	return LDR_OK;
}

static enum ldr_status revoke(const struct ldr_args *args, const char *path, struct ldr_error *err)
{
	enum ldr_status status = ldr_tokens_revoke(path, args->positional[1], err);

	if (!status && ldr_args_has(args, LDR_OPT_JSON))
		status = ldr_output_json(json_pack("{s:s}", "revoked", args->positional[1]), err);
	return status;
}

static const struct action actions[] = {
	{"add", 1, add},
	{"list", 1, list},
	{"revoke", 2, revoke},
};

static const struct action *find_action(const char *name)
{
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	return NULL;
}

static enum ldr_status run_token(struct ldr_args *args, struct ldr_error *err)
{
	const struct action *action = find_action(args->positional[0]);
	uint64_t grant = LDR_OPTION_BIT(SCOPE) | LDR_OPTION_BIT(CHANNEL) | LDR_OPTION_BIT(NOTE);

	if (!action)
		return ldr_fail(err, LDR_EUSAGE, "\"%s\": wanted add, list or revoke",
				args->positional[0]);
	if (args->positional_count != action->positional)
		return ldr_fail(err, LDR_EUSAGE, "%s: %d arguments, wanted %d", action->name,
				args->positional_count - 1, action->positional - 1);
	if (action->run != add && (args->given & grant))
		return ldr_fail(err, LDR_EUSAGE, "--scope, --channel and --note are for add");
	if (!args->value[LDR_OPT_TOKENS])
		return ldr_fail(err, LDR_EUSAGE, "--tokens FILE is missing");
	return action->run(args, args->value[LDR_OPT_TOKENS], err);
}

const struct ldr_command ldr_command_token = {
	.name = "token",
	.arguments = "add|list|revoke [ID] --tokens FILE",
	.help = "Keeps the file that says who may publish at a server. add prints the new token, once;\n"
		"only its digest is kept. A running larderd notices the change.",
	.options = LDR_OPTION_BIT(TOKENS) | LDR_OPTION_BIT(SCOPE) | LDR_OPTION_BIT(CHANNEL) |
		   LDR_OPTION_BIT(NOTE),
	.least = 1,
	.most = 2,
	.run = run_token,
};
