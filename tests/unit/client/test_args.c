/*
 * Options of the commands: numbers with their suffixes, lists, keys, what each command takes, and what is
 * said when it is wrong.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "common/bytes.h"
#include "tests/support/client_world.h"

#define WORDS 16

/* The words of a line as a command's arguments; they are borrowed from here until the next call. */
static enum ldr_status parse(const struct ldr_command *command, const char *line,
			     struct ldr_args *args, struct ldr_error *err)
{
	static char copy[1024], name[] = "command";
	static char *words[WORDS + 2] = {name};
	char *rest = copy, *word;
	int count = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	while ((word = strsep(&rest, " ")) && count <= WORDS)
		words[count++] = word;
	cr_assert_null(word);
	words[count] = NULL;
	return ldr_args_parse(command, count, words, args, err);
}

Test(args, numbers)
{
	static const struct {
		const struct ldr_command *command;
		const char *line;
		uint64_t rate;
		unsigned jobs;
		int level;
		uint32_t block, align;
	} rows[] = {
		{&ldr_command_fetch, "a b --limit-rate 7", 7, 0, 0, 0, 0},
		{&ldr_command_fetch, "a --limit-rate=3K b --jobs 64", 3072, 64, 0, 0, 0},
		{&ldr_command_fetch, "--limit-rate 2m a b", 2u << 20, 0, 0, 0, 0},
		{&ldr_command_fetch, "a b --limit-rate 8589934591G", 8589934591u * (1ull << 30), 0,
		 0, 0, 0},
		{&ldr_command_pack, "a b --level 22 --block-size 4 --align 65536", 0, 0, 22, 4096,
		 65536},
		{&ldr_command_pack, "a b --level 1 --block-size 128", 0, 0, 1, 131072, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_args args = {0};
		struct ldr_error err = {0};

		cr_expect_eq(parse(rows[i].command, rows[i].line, &args, &err), LDR_OK, "%s: %s",
			     rows[i].line, err.text);
		cr_expect_eq(args.limit_rate_bytes, rows[i].rate, "%s", rows[i].line);
		cr_expect_eq(args.jobs, rows[i].jobs);
		cr_expect_eq(args.codec.level, rows[i].level);
		cr_expect_eq(args.chunks.normal_bytes, rows[i].block);
		cr_expect(args.chunks.max_bytes <= 256 * 1024);
		cr_expect_eq(args.align, rows[i].align);
		cr_expect_eq(args.positional_count, 2);
		ldr_args_dispose(&args);
	}
}

Test(args, refused)
{
	static const struct {
		const struct ldr_command *command;
		const char *line, *says;
	} rows[] = {
		{&ldr_command_fetch, "a", "1 arguments, wanted: larder fetch SRC DIR"},
		{&ldr_command_fetch, "a b c", "3 arguments"},
		{&ldr_command_fetch, "a b --nonsense", "unknown option --nonsense"},
		{&ldr_command_fetch, "a b -x", "unknown option -x"},
		{&ldr_command_fetch, "a b -xyz", "unknown option -x"},
		{&ldr_command_fetch, "a b --cache", "--cache needs a value"},
		{&ldr_command_fetch, "a b --deep", "\"fetch\" takes no option --deep"},
		{&ldr_command_keygen, "k --trust x", "takes no option --trust"},
		{&ldr_command_fetch, "a b --limit-rate 0", "--limit-rate: \"0\""},
		{&ldr_command_fetch, "a b --limit-rate -5", "--limit-rate: \"-5\""},
		{&ldr_command_fetch, "a b --limit-rate 5KB", "5KB"},
		{&ldr_command_fetch, "a b --limit-rate 5T", "5T"},
		{&ldr_command_fetch, "a b --limit-rate 9223372036854775808", "922337"},
		{&ldr_command_fetch, "a b --limit-rate 8589934592G", "8589934592G"},
		{&ldr_command_fetch, "a b --limit-rate 0x10", "0x10"},
		{&ldr_command_fetch, "a b --jobs 0", "1 to 64"},
		{&ldr_command_fetch, "a b --jobs 65", "1 to 64"},
		{&ldr_command_pack, "a b --level 23", "1 to 22"},
		{&ldr_command_pack, "a b --block-size 5", "4, 8, 16, 32, 64 or 128"},
		{&ldr_command_pack, "a b --block-size 256", "128"},
		{&ldr_command_pack, "a b --codec gzip", "\"gzip\", wanted none, lz4, zstd or auto"},
		{&ldr_command_pack, "a b --links keep", "drop or copy"},
		{&ldr_command_publish, "a --expires 0", "an age such as"},
		{&ldr_command_publish, "a --expires 1w", "an age such as"},
		{&ldr_command_publish, "a --expires 99999999999d", "an age such as"},
		{&ldr_command_fetch, "a b --trust /nowhere/key.pub", "/nowhere/key.pub"},
		{&ldr_command_fetch, "a b --trust /dev/null", "--trust"},
		{&ldr_command_fetch, "a b --token-file /dev/null", "/dev/null"},
		{&ldr_command_fetch, "a b --token-file /nowhere/t", "/nowhere/t"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_args args = {0};
		struct ldr_error err = {0};
		enum ldr_status status = parse(rows[i].command, rows[i].line, &args, &err);

		cr_expect_neq(status, LDR_OK, "%s", rows[i].line);
		if (!strstr(rows[i].says, "/nowhere") && !strstr(rows[i].line, "/dev/null"))
			cr_expect_eq(status, LDR_EUSAGE, "%s: %s", rows[i].line, err.text);
		cr_expect(strstr(err.text, rows[i].says), "%s: %s", rows[i].line, err.text);
		ldr_args_dispose(&args);
	}
}

Test(args, lists_files_and_the_cache_folder)
{
	struct ldr_args args = {0};
	struct client_world world;
	struct ldr_error err = {0};
	char pem[LDR_KEY_PEM_MAX_BYTES], line[900];
	const char *w;

	client_world_make(&world);
	w = world.folder;
	cr_assert_eq(ldr_public_key_to_pem(world.public_key, pem, NULL), LDR_OK);
	client_text(&world, "k.pub", pem);
	client_text(&world, "token", "abc.def \nsecond line\n");
	client_text(&world, "layout", "b/c\n\na\nlast");
	setenv("LARDER_CACHE", "/from/variable", 1);
	snprintf(line, sizeof(line),
		 "d --to s --channel c --key k --trust %s/k.pub --trust %s/k.pub", w, w);
	cr_assert_eq(parse(&ldr_command_publish, line, &args, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(args.key_count, 2);
	cr_assert_str_eq(args.cache_path, "/from/variable");
	ldr_args_dispose(&args);
	snprintf(line, sizeof(line),
		 "d --token-file %s/token --layout %s/layout --cache /named --host x --host y", w,
		 w);
	cr_assert_eq(parse(&ldr_command_publish, line, &args, &err), LDR_OK, "%s", err.text);
	cr_assert_str_eq(args.token, "abc.def");
	cr_assert_eq(args.layout_count, 3);
	cr_assert_str_eq(args.layout[2], "last");
	cr_assert_eq(args.host_count, 2);
	cr_assert_str_eq(args.cache_path, "/named");
	ldr_args_dispose(&args);
	unsetenv("LARDER_CACHE");
	setenv("XDG_CACHE_HOME", "/xdg", 1);
	cr_assert_eq(parse(&ldr_command_ls, "a", &args, NULL), LDR_OK);
	cr_assert_str_eq(args.cache_path, "/xdg/larder");
	ldr_args_dispose(&args);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", "/me", 1);
	cr_assert_eq(parse(&ldr_command_ls, "a", &args, NULL), LDR_OK);
	cr_assert_str_eq(args.cache_path, "/me/.cache/larder");
	ldr_args_dispose(&args);
	unsetenv("HOME");
	cr_assert_eq(parse(&ldr_command_ls, "a", &args, NULL), LDR_OK);
	cr_assert_null(args.cache_path);
	ldr_args_dispose(&args);
	/* --help needs no arguments. */
	cr_assert_eq(parse(&ldr_command_fetch, "--help", &args, NULL), LDR_OK);
	cr_assert(ldr_args_has(&args, LDR_OPT_HELP));
	ldr_args_dispose(&args);
	client_world_remove(&world);
}

/* What --json prints is JSON, whatever bytes a message has in it. */
Test(args, texts_that_are_no_utf8_become_json)
{
	static const struct {
		const char *text, *json;
	} rows[] = {
		{"plain", "plain"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"cut gr\xc3", "cut gr?"},
		{"\xff\xc3\xbc", "???"},
	};
	char text[LDR_BYTES_TEXT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *made = ldr_output_text(rows[i].text);

		cr_assert(made);
		cr_expect_str_eq(json_string_value(made), rows[i].json);
		json_decref(made);
	}
	cr_expect_str_eq(ldr_output_bytes(0, text), "0 B");
	cr_expect_str_eq(ldr_output_bytes(999, text), "999 B");
	cr_expect_str_eq(ldr_output_bytes(1000, text), "1.0 kB");
	cr_expect_str_eq(ldr_output_bytes(999999, text), "1.0 MB");
	cr_expect_str_eq(ldr_output_bytes(UINT64_MAX, text), "18.4 EB");
}

static enum ldr_status run(const struct ldr_command *command, const char *line,
			   struct ldr_error *err)
{
	struct ldr_args args = {0};
	enum ldr_status status = parse(command, line, &args, err);

	if (!status)
		status = command->run(&args, err);
	ldr_args_dispose(&args);
	return status;
}

Test(args, keygen_leaves_both_files_or_none)
{
	struct client_world world;
	struct ldr_error err = {0};
	char line[300], text[4096];

	client_world_make(&world);
	client_text(&world, "k.pub", "somebody's");
	snprintf(line, sizeof(line), "%s/k", world.folder);
	cr_expect_eq(run(&ldr_command_keygen, line, &err), LDR_EEXISTS);
	cr_expect(strstr(err.text, "k.pub"), "%s", err.text);
	cr_expect_not(client_exists(&world, "k"));
	cr_expect_str_eq(client_read(&world, "k.pub", text), "somebody's");
	client_remove(&world, "k.pub");
	cr_expect_eq(run(&ldr_command_keygen, line, &err), LDR_OK, "%s", err.text);
	cr_expect(client_exists(&world, "k") && client_exists(&world, "k.pub"));
	cr_expect_eq(run(&ldr_command_keygen, line, &err), LDR_EEXISTS);
	cr_expect(client_exists(&world, "k")); /* and it is still the first one's */
	client_world_remove(&world);
}

Test(args, publishing_offline_to_a_server_is_refused)
{
	struct ldr_error err = {0};

	cr_expect_eq(run(&ldr_command_publish,
			 "d --to http://127.0.0.1:1 --channel c --key k --offline", &err),
		     LDR_EOFFLINE);
	cr_expect(strstr(err.text, "http://127.0.0.1:1"), "%s", err.text);
}
