/*
 * The commands of `larder`, in the order of its help; each in the file of its group.
 */
#ifndef LDR_CLIENT_CLI_COMMANDS_H
#define LDR_CLIENT_CLI_COMMANDS_H

#include "client/cli/args.h"

/* cmd_publish.c */
extern const struct ldr_command ldr_command_keygen;
extern const struct ldr_command ldr_command_pack;
extern const struct ldr_command ldr_command_publish;
/* cmd_fetch.c */
extern const struct ldr_command ldr_command_fetch;
extern const struct ldr_command ldr_command_unpack;
extern const struct ldr_command ldr_command_export;
/* cmd_read.c */
extern const struct ldr_command ldr_command_ls;
extern const struct ldr_command ldr_command_stat;
extern const struct ldr_command ldr_command_cat;
/* cmd_layers.c */
extern const struct ldr_command ldr_command_which;
/* cmd_history.c */
extern const struct ldr_command ldr_command_log;
extern const struct ldr_command ldr_command_diff;
/* cmd_verify.c */
extern const struct ldr_command ldr_command_verify;
/* cmd_store.c */
extern const struct ldr_command ldr_command_token;

#endif
