/*
 * A server for the tests of publishing: the real one, in this process, on a free port, over a store of its
 * own, with a client that sends hand-made requests.
 */
#ifndef LDR_TESTS_UNIT_SERVER_PUBLISHING_H
#define LDR_TESTS_UNIT_SERVER_PUBLISHING_H

#include "client/transport.h"
#include "common/tokens.h"
#include "server/http.h"
#include "server/store.h"
#include "tests/support/release_world.h"

struct publishing {
	struct release_world world;
	char store_path[192];
	char tokens_path[192];
	struct ldr_store_folder store;
	struct ldr_log log;
	struct ldr_objects *objects;
	struct ldr_access *access;
	struct ldr_desk *desk;
	struct ldr_workers *workers;
	struct ldr_server *http;
	struct ldr_transport *transport; /* with a token for everything */
	char token_id[LDR_TOKEN_ID_CHARS + 1];
	/* The last answer. */
	int status;
	char text[1024];
	char etag[128];
};

/* keys: the --publish-key list. */
void publishing_begin(struct publishing *p, struct ldr_public_key *const *keys, size_t key_count);
void publishing_end(struct publishing *p);

/* A transport with another token (NULL: none). */
struct ldr_transport *publishing_transport(const char *token);

/* Each sends one PUT and gives the HTTP status. if_match and if_none_match may be NULL. */
int publishing_put(struct publishing *p, const char *path, const void *body, size_t length,
		   const char *if_match, const char *if_none_match);
int publishing_put_packs(struct publishing *p, const struct world_release *release);
int publishing_put_key(struct publishing *p);
int publishing_put_record(struct publishing *p, const struct world_release *release);
/* Key, packs and record. */
void publishing_put_all(struct publishing *p, const struct world_release *release);
/* if_match NULL: If-None-Match: *. */
int publishing_put_channel(struct publishing *p, const struct world_release *release,
			   const char *if_match);
/* GET; the body is in text, cut. */
int publishing_get(struct publishing *p, const char *path);
/* Temporaries anywhere in the store. */
unsigned publishing_temporaries(const struct publishing *p);

#endif
