/*
 * What larderd is told: its command line, checked before anything is opened.
 *
 * Threads: immutable after parsing.
 */
#ifndef LDR_SERVER_CONFIG_H
#define LDR_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LDR_PUBLISH_KEYS_MAX 64

struct ldr_config {
	const char *store;
	const char *tokens; /* NULL: publishing is off */
	const char *publish_keys[LDR_PUBLISH_KEYS_MAX];
	size_t publish_key_count;
	char host[256];
	char port[8];
	uint64_t drain_ms;
	bool log_json;
	bool log_quiet;
};

enum ldr_config_action {
	LDR_CONFIG_RUN,
	LDR_CONFIG_HELP,
	LDR_CONFIG_VERSION,
};

/* Borrows the strings of argv. LDR_EUSAGE names the option and what is wrong. */
enum ldr_status ldr_config_parse(int argc, char **argv, struct ldr_config *out_config,
				 enum ldr_config_action *out_action, struct ldr_error *err);
const char *ldr_config_help(void);

#endif
