/*
 * What root.c and publisher.c share; for common's own files only.
 */
#ifndef LDR_COMMON_PUBLISHER_PRIV_H
#define LDR_COMMON_PUBLISHER_PRIV_H

#include <stdbool.h>

#include "common/publisher.h"

/* Immutable after open. */
struct ldr_root {
	int fd;
	char path[]; /* as given, for messages */
};

/* ".larder-tmp.<pid>.<ticket>" */
#define LDR_TEMP_PREFIX ".larder-tmp."
#define LDR_TEMP_NAME_BYTES 64
/* Whether a name is one that a publisher gives to its temporaries. */
bool ldr_temp_name_is(const char *name);

/*
 * The folder that holds path, on a file description of its own (so that a lock on it is this
 * transaction's), and the name inside it, a tail of path. By options (NULL: nothing is made) missing
 * folders are made (0755) and their names are on the disk before this returns.
 */
enum ldr_status ldr_root_open_parent(const struct ldr_root *root, const char *path,
				     const struct ldr_publish_options *options, int *out_fd,
				     const char **out_name, struct ldr_error *err);

/* The folder itself; "" is the root. Also on a description of its own. */
enum ldr_status ldr_root_open_folder(const struct ldr_root *root, const char *folder,
				     const struct ldr_publish_options *options, int *out_fd,
				     struct ldr_error *err);

/* A root of its own on a single name inside root, made with mode where it is missing; a symlink in its
 * place is LDR_ELINK. */
enum ldr_status ldr_root_open_inside(const struct ldr_root *root, const char *name, mode_t mode,
				     struct ldr_root **out_root, struct ldr_error *err);

#endif
