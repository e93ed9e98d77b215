/*
 * Builds for the tests of the builder: a folder to build from, a store that keeps the packs of several
 * builds, and a check of a whole build against the folder, through the product's own readers.
 */
#ifndef LDR_TESTS_UNIT_PACKS_BUILD_FIXTURE_H
#define LDR_TESTS_UNIT_PACKS_BUILD_FIXTURE_H

#include "packs/builder.h"
#include "packs/pack_reader.h"
#include "packs/tree_reader.h"
#include "tests/unit/packs/folder_fixture.h"

#define STORE_PACKS_MAX 64

/* Also the known table over everything that was remembered. */
struct store {
	struct folder folder;
	struct ldr_root *root;
	struct ldr_id ids[STORE_PACKS_MAX]; /* by number */
	unsigned pack_count;
	struct ldr_pack_sink sink;
	struct ldr_placed_block *known; /* owns */
	size_t known_count;
	/* Faults: begin or finish number n (from 1) fails; 0: none. */
	unsigned fail_begin, fail_finish;
	unsigned begun, finished;
};

void store_begin(struct store *store);
void store_end(struct store *store);
/* Files in the store's folder: its packs, and whatever temporaries were left. */
unsigned store_files(const struct store *store);
struct ldr_pack *store_open(const struct store *store, uint32_t number);
/* Reads and decodes a block from the pack that its place names, and checks place and id. */
void store_block(const struct store *store, const struct ldr_placed_block *placed, uint8_t *plain);
bool store_find_known(void *context, const struct ldr_id *id, struct ldr_place *out_place);

/* Options of a release into the store: next pack number, known blocks. */
struct ldr_build_options release_options(const struct store *store);

/* Scans and builds; links are kept or refused. */
enum ldr_status build_from(const struct folder *folder, const struct ldr_build_options *options,
			   struct store *store, struct ldr_build *out_build, struct ldr_error *err);
void built(const struct folder *folder, const struct ldr_build_options *options,
	   struct store *store, struct ldr_build *out_build);

struct ldr_tree *build_tree(const struct ldr_build *build);
/* Every file, folder and link of the folder is in the tree with its mode and bytes, and nothing else; every
 * place is right; totals and figures agree. */
void check_build(const struct folder *folder, const struct store *store,
		 const struct ldr_build *build);
/* Tree and map, read back by way of the top block, are those of the build. Gives the extent that top,
 * tree and map take in the pack of the top block, and how many of their bytes are stored there. */
struct top_extent {
	uint64_t first, end, stored_bytes;
	unsigned elsewhere; /* blocks of tree and map in other packs */
};
void check_top(const struct store *store, const struct ldr_build *build,
	       struct top_extent *out_extent);
/* The release's blocks are known from now on, with those of tree, map and top. */
void store_remember(struct store *store, const struct ldr_build *build);

#endif
