/*
 * larder: the command-line tool. Finds the command, parses its arguments, runs it, and turns its status
 * into a message and an exit status.
 */
#include <signal.h>
#include <stdio.h>

#include "client/cli/commands.h"
#include "client/cli/output.h"

#ifndef LDR_VERSION
#define LDR_VERSION "unknown"
#endif

static const struct ldr_command *const commands[] = {
	&ldr_command_keygen, &ldr_command_pack,  &ldr_command_unpack, &ldr_command_publish,
	&ldr_command_log,    &ldr_command_diff,  &ldr_command_fetch,  &ldr_command_ls,
	&ldr_command_stat,   &ldr_command_cat,   &ldr_command_which,  &ldr_command_verify,
	&ldr_command_export, &ldr_command_token,
};

static const size_t command_count = sizeof(commands) / sizeof(commands[0]);

static void print_help(FILE *out)
{
	fprintf(out, "larder " LDR_VERSION ": game assets, published, installed and updated\n\n");
	for (size_t i = 0; i < command_count; i++)
		fprintf(out, "  larder %s %s\n", commands[i]->name, commands[i]->arguments);
	fprintf(out, "\nSRC    FILE.pack or STORE#channel[@sequence]\n"
		     "STORE  a folder or http(s)://host[:port][/prefix]\n"
		     "\n\"larder COMMAND --help\" tells the options of a command.\n"
		     "exit: 0 done, 1 failed, 2 usage, 3 not found, 4 integrity, 5 network, "
		     "6 conflict, 7 no space, 8 not allowed\n");
}

static const struct ldr_command *find_command(const char *name)
{
	for (size_t i = 0; i < command_count; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* With --json a failure is an object too, so that scripts need not read two streams. */
static int report_failure(const struct ldr_command *command, const struct ldr_args *args,
			  enum ldr_status status, const struct ldr_error *error)
{
	fflush(stdout);
	fprintf(stderr, "larder %s: %s\n", command->name, error->text);
	if (status == LDR_EUSAGE)
		fprintf(stderr, "try: larder %s --help\n", command->name);
	if (ldr_args_has(args, LDR_OPT_JSON))
		ldr_output_json(json_pack("{s:o, s:s, s:i}", "error", ldr_output_text(error->text),
					  "status", ldr_status_name(status), "exit",
					  ldr_status_exit(status)),
				NULL);
	return ldr_status_exit(status);
}

static int run_command(const struct ldr_command *command, int argc, char **argv)
{
	struct ldr_args args = {0};
	struct ldr_error error = {0};
	enum ldr_status status = ldr_args_parse(command, argc, argv, &args, &error);
	int exit_status = 0;

	if (!status && ldr_args_has(&args, LDR_OPT_HELP))
		ldr_args_help(command);
	else if (!status && ldr_args_has(&args, LDR_OPT_VERSION))
		printf("larder %s\n", LDR_VERSION);
	else if (!status)
		status = command->run(&args, &error);
	if (!status)
		status = ldr_output_flush(&error);
	if (status)
		exit_status = report_failure(command, &args, status, &error);
	ldr_args_dispose(&args);
	return exit_status;
}

int main(int argc, char **argv)
{
	const struct ldr_command *command;

	/* A closed pipe is an error of a write, not the end of the process. */
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		print_help(stderr);
		return ldr_status_exit(LDR_EUSAGE);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("larder %s\n", LDR_VERSION);
		return 0;
	}
	command = find_command(argv[1]);
	if (!command) {
		fprintf(stderr, "larder: unknown command \"%s\"; try: larder --help\n", argv[1]);
		return ldr_status_exit(LDR_EUSAGE);
	}
	return run_command(command, argc - 1, argv + 1);
}
