/*
 * A world to fetch in: packs of made-up bytes, a release that lists them, blocks in them, and an arrival
 * that compares every block with what it should be.
 *
 * Threads: fetch_world_arrived may be called from any thread; the rest belongs to the test.
 */
#ifndef LDR_TESTS_FETCH_WORLD_H
#define LDR_TESTS_FETCH_WORLD_H

#include <stdatomic.h>

#include "client/fetch.h"
#include "tests/faults/lying_server.h"

#define FETCH_WORLD_SLACK 64 /* readable bytes behind a pack, for lies that reach past it */

struct fetch_world {
	struct ldr_release release;
	uint8_t **packs; /* owns */
	struct ldr_placed_block *wants;
	size_t want_count;
	atomic_uint *arrivals;  /* of each want, good ones */
	atomic_uint wrong;      /* refused for their bytes */
	atomic_bool closed;     /* nothing may arrive any more */
	enum ldr_status refuse; /* given instead of taking a block, from refuse_after on */
	unsigned refuse_after;
	atomic_uint calls;
};

struct fetch_world_shape {
	uint64_t seed;
	uint32_t pack_count;
	uint32_t pack_bytes;
	uint32_t block_bytes_max; /* lengths are from 1 to this */
	uint32_t take_percent;    /* of the blocks, so that there are gaps */
};

/* Asserts on failure. Wants are in a random order. */
void fetch_world_make(struct fetch_world *world, const struct fetch_world_shape *shape);
void fetch_world_dispose(struct fetch_world *world);
/* Adds every want a second time. */
void fetch_world_double(struct fetch_world *world);
/* "/packs/aa/....pack" */
void fetch_world_path(const struct fetch_world *world, uint32_t pack, char path[160]);
void fetch_world_serve(const struct fetch_world *world, struct lying_server *server);
/* Writes the packs below a folder, as a store has them. */
void fetch_world_write(const struct fetch_world *world, const char *folder);
/* For ldr_upstream.fetch; arrival is the world. LDR_ECORRUPT for other bytes. */
enum ldr_status fetch_world_arrived(void *arrival, size_t want, const void *stored,
				    struct ldr_error *err);
/* Fetches all wants and forgets what arrived before. */
enum ldr_status fetch_world_run(struct fetch_world *world, struct ldr_fetch *fetch,
				struct ldr_error *err);
/* How many wants have not arrived exactly once. */
size_t fetch_world_missing(const struct fetch_world *world);

#endif
