/*
 * A folder with a signing key, a cache and a folder store, for tests of publishing and installing. Names
 * are relative to the world's folder; trees are written file by file.
 *
 * Every function that gives nothing back asserts that it succeeds.
 */
#ifndef LDR_TESTS_CLIENT_WORLD_H
#define LDR_TESTS_CLIENT_WORLD_H

#include "client/install.h"
#include "client/publish.h"
#include "client/view.h"
#include "common/keys.h"
#include "common/publisher.h"

#define CLIENT_PATH_BYTES 256

struct client_world {
	char folder[128]; /* everything of this world lies below it */
	char store_path[CLIENT_PATH_BYTES];
	char cache_path[CLIENT_PATH_BYTES];
	struct ldr_key *key;
	struct ldr_public_key *public_key;
	struct ldr_location store;
};

void client_world_make(struct client_world *world);
void client_world_remove(struct client_world *world);
/* "<folder>/<name>"; returns path. */
char *client_path(const struct client_world *world, const char *name, char path[CLIENT_PATH_BYTES]);

/* Writes a file with mode 0644 (folders above it are made); noise of a seed, or a text. */
void client_noise(const struct client_world *world, const char *name, size_t length, unsigned seed);
void client_text(const struct client_world *world, const char *name, const char *text);
void client_link(const struct client_world *world, const char *name, const char *target);
void client_mode(const struct client_world *world, const char *name, unsigned mode);
void client_remove(const struct client_world *world, const char *name);
bool client_exists(const struct client_world *world, const char *name);
/* A file's text, at most 4095 bytes; "" when it is not there. */
const char *client_read(const struct client_world *world, const char *name, char text[4096]);
/* The same files, folders and links with the same modes and bytes, .larder left out of account. */
bool client_same(const struct client_world *world, const char *a, const char *b);

/* A request for a tree of the world, to be changed by the test. */
struct ldr_publish_request client_request(const struct client_world *world, const char *tree,
					  const char *channel);
void client_publish(const struct client_world *world, const char *tree, const char *channel);
/* Opens "<store>#<channel>[@sequence]" with the world's key and cache. */
enum ldr_status client_open(const struct client_world *world, const char *source,
			    struct ldr_view **out_view, struct ldr_error *err);
/* Installs it without waiting for the disk. outcome may be NULL. */
enum ldr_status client_fetch(const struct client_world *world, const char *source,
			     const char *target, struct ldr_install_outcome *outcome,
			     struct ldr_error *err);

#endif
