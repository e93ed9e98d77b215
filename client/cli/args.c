/*
 * Arguments of the commands; see args.h.
 */
#include "client/cli/args.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/aead.h"
#include "common/bytes.h"
#include "common/os.h"
#include "packs/cipher.h"

#define FIRST_CODE 1000 /* above every character */

struct option_row {
	const char *name;
	const char *value;
	const char *help;
};

static const struct option_row option_rows[LDR_OPT_COUNT] = {
#define LDR_OPTION_ROW(id, name, value, help) [LDR_OPT_##id] = {name, value, help},
	LDR_OPTION_TABLE(LDR_OPTION_ROW)
#undef LDR_OPTION_ROW
};

enum ldr_status ldr_args_read_file(const char *path, size_t max_bytes, uint8_t **out_data,
				   size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *data = malloc(max_bytes + 1);
	LDR_AUTO_FD int fd = -1;
	int code;

	if (!data)
		return ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	code = ldr_os_open_file(path, &fd);
	if (!code)
		code = ldr_os_pread(fd, data, max_bytes + 1, 0, out_length);
	if (code)
		return ldr_fail_errno(err, code, "%s", path);
	if (*out_length > max_bytes)
		return ldr_fail(err, LDR_EINVAL, "%s: more than %zu bytes", path, max_bytes);
	data[*out_length] = '\0';
	*out_data = LDR_STEAL(data);
	return LDR_OK;
}

static enum ldr_status bad_value(enum ldr_option option, const char *value, const char *wanted,
				 struct ldr_error *err)
{
	return ldr_fail(err, LDR_EUSAGE, "--%s: \"%s\", wanted %s", option_rows[option].name, value,
			wanted);
}

/* A number with an optional suffix out of `suffixes`, whose factors follow in the same order. */
static bool parse_number(const char *text, const char *suffixes, const uint64_t *factors,
			 uint64_t *out)
{
	uint64_t number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || number > INT64_MAX)
		return false;
	if (*end) {
		const char *suffix = strchr(suffixes, *end);

		if (!suffix || end[1] || number > INT64_MAX / factors[suffix - suffixes])
			return false;
		number *= factors[suffix - suffixes];
	}
	*out = number;
	return true;
}

static enum ldr_status parse_range(enum ldr_option option, const char *text, uint64_t least,
				   uint64_t most, uint64_t *out, struct ldr_error *err)
{
	char wanted[64];

	if (parse_number(text, "", NULL, out) && *out >= least && *out <= most)
		return LDR_OK;
	snprintf(wanted, sizeof(wanted), "%" PRIu64 " to %" PRIu64, least, most);
	return bad_value(option, text, wanted, err);
}

static enum ldr_status parse_codec(struct ldr_args *args, const char *text, struct ldr_error *err)
{
	static const char *const names[] = {
		[LDR_POLICY_NONE] = "none",
		[LDR_POLICY_LZ4] = "lz4",
		[LDR_POLICY_ZSTD] = "zstd",
		[LDR_POLICY_AUTO] = "auto",
	};

	for (int i = 0; i < 4; i++)
		if (strcmp(text, names[i]) == 0) {
			args->codec.policy = (enum ldr_codec_policy)i;
			return LDR_OK;
		}
	return bad_value(LDR_OPT_CODEC, text, "none, lz4, zstd or auto", err);
}

static enum ldr_status parse_block_size(struct ldr_args *args, const char *text,
					struct ldr_error *err)
{
	struct ldr_chunk_sizes *chunks = &args->chunks;
	uint64_t kib;

	if (!parse_number(text, "", NULL, &kib) || kib < 4 || kib > 128 || (kib & (kib - 1)))
		return bad_value(LDR_OPT_BLOCK_SIZE, text, "4, 8, 16, 32, 64 or 128", err);
	chunks->normal_bytes = (uint32_t)kib * 1024;
	chunks->min_bytes = chunks->normal_bytes / 4;
	chunks->max_bytes = chunks->normal_bytes * 4;
	if (chunks->max_bytes > LDR_BLOCK_MAX_BYTES)
		chunks->max_bytes = LDR_BLOCK_MAX_BYTES;
	return LDR_OK;
}

static enum ldr_status parse_links(struct ldr_args *args, const char *text, struct ldr_error *err)
{
	if (strcmp(text, "drop") == 0)
		args->links = LDR_LINKS_DROP;
	else if (strcmp(text, "copy") == 0)
		args->links = LDR_LINKS_COPY;
	else
		return bad_value(LDR_OPT_LINKS, text, "drop or copy", err);
	return LDR_OK;
}

static enum ldr_status parse_rate(struct ldr_args *args, const char *text, struct ldr_error *err)
{
	static const uint64_t factors[] = {1u << 10, 1u << 20, 1u << 30,
					   1u << 10, 1u << 20, 1u << 30};

	if (parse_number(text, "KMGkmg", factors, &args->limit_rate_bytes) &&
	    args->limit_rate_bytes > 0)
		return LDR_OK;
	return bad_value(LDR_OPT_LIMIT_RATE, text, "a number of bytes, also with K, M or G", err);
}

static enum ldr_status parse_expires(struct ldr_args *args, const char *text, struct ldr_error *err)
{
	static const uint64_t factors[] = {1, 60, 3600, 86400};
	uint64_t age;

	if (!parse_number(text, "smhd", factors, &age) || age == 0 || age > UINT32_MAX)
		return bad_value(LDR_OPT_EXPIRES, text, "an age such as 90s, 10m, 12h or 30d", err);
	args->lifetime_s = (int64_t)age;
	return LDR_OK;
}

static enum ldr_status add_key(struct ldr_args *args, const char *path, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *pem = NULL;
	size_t length;
	enum ldr_status status;

	if (args->key_count == LDR_ARGS_LIST_MAX)
		return ldr_fail(err, LDR_EUSAGE, "--trust: more than %d", LDR_ARGS_LIST_MAX);
	status = ldr_args_read_file(path, LDR_KEY_PEM_MAX_BYTES, &pem, &length, err);
	if (!status)
		status = ldr_public_key_parse((char *)pem, length, path,
					      &args->keys[args->key_count], err);
	if (status)
		return ldr_error_prefix(err, status, "--trust");
	args->key_count++;
	return LDR_OK;
}

static enum ldr_status add_to_list(enum ldr_option option, const char **list, size_t *count,
				   const char *value, struct ldr_error *err)
{
	if (*count == LDR_ARGS_LIST_MAX)
		return ldr_fail(err, LDR_EUSAGE, "--%s: more than %d", option_rows[option].name,
				LDR_ARGS_LIST_MAX);
	list[(*count)++] = value;
	return LDR_OK;
}

static enum ldr_status read_token(struct ldr_args *args, const char *path, struct ldr_error *err)
{
	uint8_t *text;
	size_t length;
	enum ldr_status status = ldr_args_read_file(path, 4096, &text, &length, err);

	if (status)
		return ldr_error_prefix(err, status, "--token-file");
	free(args->token);
	args->token = (char *)text;
	args->token[strcspn(args->token, " \t\r\n")] = '\0';
	if (args->token[0] == '\0')
		return ldr_fail(err, LDR_EUSAGE, "--token-file %s: no token in its first line",
				path);
	return LDR_OK;
}

static enum ldr_status read_title_key(struct ldr_args *args, enum ldr_option option,
				      const char *path, struct ldr_error *err)
{
	uint8_t *text;
	size_t length;
	enum ldr_status status = ldr_args_read_file(path, 128, &text, &length, err);

	if (status == LDR_OK) {
		status = ldr_title_key_parse((const char *)text, length, path, args->title_key,
					     err);
		args->has_title_key = status == LDR_OK;
		ldr_wipe(text, length);
		free(text);
	}
	return status ? ldr_error_prefix(err, status, "--%s", option_rows[option].name) : LDR_OK;
}

static enum ldr_status add_layout_line(struct ldr_args *args, const char *line, size_t *room,
				       struct ldr_error *err)
{
	if (args->layout_count == *room) {
		size_t more = *room * 2 + 64;
		char **grown = realloc(args->layout, more * sizeof(char *));

		if (!grown)
			return ldr_fail(err, LDR_ENOMEM, "--layout: out of memory");
		args->layout = grown;
		*room = more;
	}
	args->layout[args->layout_count] = strdup(line);
	if (!args->layout[args->layout_count])
		return ldr_fail(err, LDR_ENOMEM, "--layout: out of memory");
	args->layout_count++;
	return LDR_OK;
}

static enum ldr_status read_layout(struct ldr_args *args, const char *path, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *text = NULL;
	size_t length, room = args->layout_count;
	char *rest, *line;
	enum ldr_status status = ldr_args_read_file(path, 8u << 20, &text, &length, err);

	if (status)
		return ldr_error_prefix(err, status, "--layout");
	rest = (char *)text;
	while (!status && (line = strsep(&rest, "\n")))
		if (*line)
			status = add_layout_line(args, line, &room, err);
	return status;
}

static enum ldr_status take(struct ldr_args *args, enum ldr_option option, const char *value,
			    struct ldr_error *err)
{
	uint64_t number = 0;
	enum ldr_status status = LDR_OK;

	args->given |= UINT64_C(1) << option;
	args->value[option] = value;
	switch (option) {
	case LDR_OPT_TRUST:
		return add_key(args, value, err);
	case LDR_OPT_HOST:
		return add_to_list(option, args->hosts, &args->host_count, value, err);
	case LDR_OPT_OVER:
		return add_to_list(option, args->over, &args->over_count, value, err);
	case LDR_OPT_UNDER:
		return add_to_list(option, args->under, &args->under_count, value, err);
	case LDR_OPT_COMPRESS:
		return add_to_list(option, args->globs, &args->glob_count, value, err);
	case LDR_OPT_TOKEN_FILE:
		return read_token(args, value, err);
	case LDR_OPT_KEY_FILE:
	case LDR_OPT_ENCRYPT_KEY:
		return read_title_key(args, option, value, err);
	case LDR_OPT_OBFUSCATE:
		return strcmp(value, "xor") == 0 ? LDR_OK : bad_value(option, value, "xor", err);
	case LDR_OPT_LAYOUT:
		return read_layout(args, value, err);
	case LDR_OPT_LIMIT_RATE:
		return parse_rate(args, value, err);
	case LDR_OPT_EXPIRES:
		return parse_expires(args, value, err);
	case LDR_OPT_CODEC:
		return parse_codec(args, value, err);
	case LDR_OPT_BLOCK_SIZE:
		return parse_block_size(args, value, err);
	case LDR_OPT_LINKS:
		return parse_links(args, value, err);
	case LDR_OPT_LEVEL:
		status = parse_range(option, value, 1, 22, &number, err);
		args->codec.level = (int)number;
		return status;
	case LDR_OPT_ALIGN:
		status = parse_range(option, value, 1, 65536, &number, err);
		args->align = (uint32_t)number;
		return status;
	case LDR_OPT_JOBS:
		status = parse_range(option, value, 1, 64, &number, err);
		args->jobs = (unsigned)number;
		return status;
	default:
		return LDR_OK;
	}
}

/* $LARDER_CACHE, else $XDG_CACHE_HOME/larder, else ~/.cache/larder. */
static enum ldr_status find_cache(struct ldr_args *args, struct ldr_error *err)
{
	const char *named = ldr_args_has(args, LDR_OPT_CACHE) ? args->value[LDR_OPT_CACHE]
							      : getenv("LARDER_CACHE");
	const char *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	int written = 0;

	if (named && *named)
		written = asprintf(&args->cache_path, "%s", named);
	else if (xdg && *xdg)
		written = asprintf(&args->cache_path, "%s/larder", xdg);
	else if (home && *home)
		written = asprintf(&args->cache_path, "%s/.cache/larder", home);
	if (written < 0)
		return ldr_fail(err, LDR_ENOMEM, "cache folder: out of memory");
	return LDR_OK;
}

static enum ldr_status take_code(const struct ldr_command *command, int code, const char *word,
				 struct ldr_args *args, struct ldr_error *err)
{
	uint64_t allowed = command->options | LDR_OPTIONS_ALWAYS;

	if (code == ':')
		return ldr_fail(err, LDR_EUSAGE, "%s needs a value", word);
	/* Of a row of letters only the last one moves the scanner on to the next word. */
	if (code < FIRST_CODE && optopt > 0 && optopt < FIRST_CODE)
		return ldr_fail(err, LDR_EUSAGE, "unknown option -%c", optopt);
	if (code < FIRST_CODE)
		return ldr_fail(err, LDR_EUSAGE, "unknown option %s", word);
	if (!(allowed >> (code - FIRST_CODE) & 1))
		return ldr_fail(err, LDR_EUSAGE, "\"%s\" takes no option --%s", command->name,
				option_rows[code - FIRST_CODE].name);
	return take(args, (enum ldr_option)(code - FIRST_CODE), optarg, err);
}

static enum ldr_status parse_options(const struct ldr_command *command, int argc, char **argv,
				     struct ldr_args *args, struct ldr_error *err)
{
	struct option longs[LDR_OPT_COUNT + 1] = {0};
	enum ldr_status status = LDR_OK;
	int code;

	for (int i = 0; i < LDR_OPT_COUNT; i++)
		longs[i] = (struct option){
			.name = option_rows[i].name,
			.has_arg = option_rows[i].value ? required_argument : no_argument,
			.val = FIRST_CODE + i,
		};
	opterr = 0;
	optind = 0; /* also resets the GNU scanner's own state */
	while (!status && (code = getopt_long(argc, argv, ":", longs, NULL)) != -1)
		status = take_code(command, code, argv[optind - 1], args, err);
	args->positional = argv + optind;
	args->positional_count = argc - optind;
	return status;
}

enum ldr_status ldr_args_parse(const struct ldr_command *command, int argc, char **argv,
			       struct ldr_args *out, struct ldr_error *err)
{
	enum ldr_status status = parse_options(command, argc, argv, out, err);

	if (status || ldr_args_has(out, LDR_OPT_HELP) || ldr_args_has(out, LDR_OPT_VERSION))
		return status;
	if (out->positional_count < command->least || out->positional_count > command->most)
		return ldr_fail(err, LDR_EUSAGE, "%d arguments, wanted: larder %s %s",
				out->positional_count, command->name, command->arguments);
	return find_cache(out, err);
}

void ldr_args_dispose(struct ldr_args *args)
{
	for (size_t i = 0; i < args->key_count; i++)
		ldr_public_key_free(args->keys[i]);
	for (size_t i = 0; i < args->layout_count; i++)
		free(args->layout[i]);
	free(args->layout);
	free(args->token);
	free(args->cache_path);
	ldr_wipe(args->title_key, sizeof(args->title_key));
	*args = (struct ldr_args){0};
}

void ldr_args_help(const struct ldr_command *command)
{
	uint64_t options = command->options | LDR_OPTIONS_ALWAYS;

	printf("larder %s %s\n\n%s\n\n", command->name, command->arguments, command->help);
	for (int i = 0; i < LDR_OPT_COUNT; i++) {
		char left[64];

		if (!(options >> i & 1))
			continue;
		snprintf(left, sizeof(left), "--%s%s%s", option_rows[i].name,
			 option_rows[i].value ? " " : "",
			 option_rows[i].value ? option_rows[i].value : "");
		printf("  %-28s %s\n", left, option_rows[i].help);
	}
}

struct ldr_view_options ldr_args_view_options(const struct ldr_args *args)
{
	return (struct ldr_view_options){
		.cache_path = args->cache_path,
		.keys = args->keys,
		.key_count = args->key_count,
		.hosts = args->hosts,
		.host_count = args->host_count,
		.title_key = args->has_title_key ? args->title_key : NULL,
		.offline = ldr_args_has(args, LDR_OPT_OFFLINE),
		.transport = {.ca_file = args->value[LDR_OPT_CA],
			      .token = args->token,
			      .limit_rate_bytes = args->limit_rate_bytes},
	};
}

enum ldr_status ldr_args_open_view(const struct ldr_args *args, int index,
				   struct ldr_view **out_view, struct ldr_error *err)
{
	const struct ldr_view_options options = ldr_args_view_options(args);
	LDR_AUTO_LOCATION struct ldr_location source = {0};
	enum ldr_status status = ldr_location_parse_source(args->positional[index], &source, err);

	if (!status)
		status = ldr_view_open(&source, &options, out_view, err);
	if (!status && ldr_view_trouble(*out_view)[0])
		fprintf(stderr, "larder: %s\n", ldr_view_trouble(*out_view));
	return status;
}
