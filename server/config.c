/*
 * larderd's command line; see config.h.
 */
#include "server/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MAX_SECONDS 86400u

enum option_id {
	OPTION_STORE = 1,
	OPTION_LISTEN,
	OPTION_TOKENS,
	OPTION_PUBLISH_KEY,
	OPTION_LOG_FORMAT,
	OPTION_QUIET,
	OPTION_DRAIN,
	OPTION_HELP,
	OPTION_VERSION,
};

static const struct option long_options[] = {
	{"store", required_argument, NULL, OPTION_STORE},
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"tokens", required_argument, NULL, OPTION_TOKENS},
	{"publish-key", required_argument, NULL, OPTION_PUBLISH_KEY},
	{"log-format", required_argument, NULL, OPTION_LOG_FORMAT},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"drain", required_argument, NULL, OPTION_DRAIN},
	{"help", no_argument, NULL, OPTION_HELP},
	{"version", no_argument, NULL, OPTION_VERSION},
	{NULL, 0, NULL, 0},
};

const char *ldr_config_help(void)
{
	return "usage: larderd --store STORE --listen HOST:PORT [OPTION]...\n"
	       "\n"
	       "Serves a store of releases over HTTP, and takes publications.\n"
	       "\n"
	       "  --store DIR           the store's folder; made where it is missing\n"
	       "  --listen HOST:PORT    address to listen on; port 0 means any free one\n"
	       "  --tokens FILE         who may publish (larder token add); without it nobody may\n"
	       "  --publish-key FILE    accept records signed by this public key only; repeatable\n"
	       "                        (default: the key that signed the channel so far)\n"
	       "  --log-format FORMAT   text (default) or json, on standard error\n"
	       "  --quiet               no log line for each request\n"
	       "  --drain SECONDS       at SIGTERM, time for requests under way (default 30)\n"
	       "  --help, --version\n"
	       "\n"
	       "Prints \"listening on http://HOST:PORT\" on standard output when it serves.\n"
	       "SIGTERM and SIGINT end it: requests under way are finished first.\n";
}

/* HOST:PORT, [HOST]:PORT or :PORT. */
static enum ldr_status parse_listen(const char *text, struct ldr_config *config,
				    struct ldr_error *err)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	const char *port = colon ? colon + 1 : "";
	unsigned long number = strtoul(port, NULL, 10);

	if (!colon || !*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
	    number > 65535)
		return ldr_fail(err, LDR_EUSAGE, "--listen \"%s\": not HOST:PORT", text);
	if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	}
	if (length >= sizeof(config->host))
		return ldr_fail(err, LDR_EUSAGE, "--listen: host of %zu characters, limit %zu",
				length, sizeof(config->host) - 1);
	memcpy(config->host, text, length);
	config->host[length] = '\0';
	memcpy(config->port, port, strlen(port) + 1);
	return LDR_OK;
}

static enum ldr_status parse_drain(const char *text, struct ldr_config *config,
				   struct ldr_error *err)
{
	char *end;
	unsigned long seconds;

	errno = 0;
	seconds = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || seconds > DRAIN_MAX_SECONDS)
		return ldr_fail(err, LDR_EUSAGE, "--drain \"%s\": not 0 to %u seconds", text,
				DRAIN_MAX_SECONDS);
	config->drain_ms = seconds * 1000;
	return LDR_OK;
}

static enum ldr_status parse_log_format(const char *text, struct ldr_config *config,
					struct ldr_error *err)
{
	config->log_json = strcmp(text, "json") == 0;
	if (!config->log_json && strcmp(text, "text") != 0)
		return ldr_fail(err, LDR_EUSAGE, "--log-format \"%s\": not text or json", text);
	return LDR_OK;
}

static enum ldr_status add_key(const char *path, struct ldr_config *config, struct ldr_error *err)
{
	if (config->publish_key_count == LDR_PUBLISH_KEYS_MAX)
		return ldr_fail(err, LDR_EUSAGE, "--publish-key: more than %d",
				LDR_PUBLISH_KEYS_MAX);
	config->publish_keys[config->publish_key_count++] = path;
	return LDR_OK;
}

static enum ldr_status take_option(int id, const char *value, struct ldr_config *config,
				   struct ldr_error *err)
{
	switch (id) {
	case OPTION_STORE:
		config->store = value;
		return LDR_OK;
	case OPTION_LISTEN:
		return parse_listen(value, config, err);
	case OPTION_TOKENS:
		config->tokens = value;
		return LDR_OK;
	case OPTION_PUBLISH_KEY:
		return add_key(value, config, err);
	case OPTION_LOG_FORMAT:
		return parse_log_format(value, config, err);
	case OPTION_QUIET:
		config->log_quiet = true;
		return LDR_OK;
	case OPTION_DRAIN:
		return parse_drain(value, config, err);
	default:
		return ldr_fail(err, LDR_EUSAGE, "see larderd --help");
	}
}

static enum ldr_status check_whole(const struct ldr_config *config, int argc, char **argv,
				   struct ldr_error *err)
{
	if (optind < argc)
		return ldr_fail(err, LDR_EUSAGE, "\"%s\": no argument is expected", argv[optind]);
	if (!config->store)
		return ldr_fail(err, LDR_EUSAGE, "--store is missing");
	if (!config->port[0])
		return ldr_fail(err, LDR_EUSAGE, "--listen is missing");
	return LDR_OK;
}

enum ldr_status ldr_config_parse(int argc, char **argv, struct ldr_config *out_config,
				 enum ldr_config_action *out_action, struct ldr_error *err)
{
	struct ldr_config config = {.drain_ms = 30000};
	enum ldr_status status;
	int id;

	optind = 0; /* GNU: start over, so that parsing can be repeated */
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (id == OPTION_HELP || id == OPTION_VERSION) {
			*out_action = id == OPTION_HELP ? LDR_CONFIG_HELP : LDR_CONFIG_VERSION;
			return LDR_OK;
		}
		status = take_option(id, optarg, &config, err);
		if (status)
			return status;
	}
	status = check_whole(&config, argc, argv, err);
	if (status)
		return status;
	*out_config = config;
	*out_action = LDR_CONFIG_RUN;
	return LDR_OK;
}
