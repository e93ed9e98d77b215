/*
 * SRC seen through layers: folders stacked above it (--over) and archives below it (--under).
 */
#ifndef LDR_CLIENT_CLI_LAYERS_H
#define LDR_CLIENT_CLI_LAYERS_H

#include "client/cli/args.h"

static inline bool ldr_layers_given(const struct ldr_args *args)
{
	return args->over_count + args->under_count > 0;
}

/* ls, stat and cat with layers; SRC and PATH are the positional arguments. */
enum ldr_status ldr_layers_ls(const struct ldr_args *args, struct ldr_error *err);
enum ldr_status ldr_layers_stat(const struct ldr_args *args, struct ldr_error *err);
enum ldr_status ldr_layers_cat(const struct ldr_args *args, struct ldr_error *err);

#endif
