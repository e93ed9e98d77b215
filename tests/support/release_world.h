/*
 * Real releases for tests: a small made-up tree, built into packs by the builder, signed by a key of the
 * world's own. Everything lies in a staging folder that has a store's layout, so that a test can serve it,
 * publish it, or take it apart.
 *
 * Every function asserts that it succeeds.
 */
#ifndef LDR_TESTS_RELEASE_WORLD_H
#define LDR_TESTS_RELEASE_WORLD_H

#include "common/keys.h"
#include "common/publisher.h"
#include "packs/builder.h"
#include "packs/release.h"

struct release_world {
	char folder[128]; /* everything of this world lies below it */
	struct ldr_root *staging;
	struct ldr_key *key;
	struct ldr_public_key *public_key;
	char pem[LDR_KEY_PEM_MAX_BYTES]; /* of the public key */
	uint8_t store[LDR_STORE_ID_BYTES];
};

struct world_release {
	struct ldr_release release;
	struct ldr_build build;
	char *jws; /* owns */
	size_t length;
};

void release_world_make(struct release_world *world);
void release_world_remove(struct release_world *world);

/* A tree of this seed (half of its files are the same for all), its packs in staging, its record signed.
 * previous NULL: the channel's first. The new packs are listed alone. */
void release_world_build(struct release_world *world, unsigned seed, const char *channel,
			 uint64_t sequence, const struct world_release *previous,
			 struct world_release *out);
/* Signs again, after a test has changed the release's fields. key NULL: the world's. */
void release_world_sign(struct release_world *world, struct world_release *release,
			struct ldr_key *key);
void world_release_dispose(struct world_release *release);
/* The i-th listed pack's bytes; owns: free(). */
uint8_t *release_world_pack(struct release_world *world, const struct world_release *release,
			    uint32_t i, size_t *out_length);

#endif
