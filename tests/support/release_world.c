/*
 * Real releases for tests; see release_world.h.
 */
#include "tests/support/release_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "packs/layout.h"
#include "packs/scan.h"

#define FILES 20u
#define PACK_TARGET_BYTES (300u * 1024)
#define MAX_PACK_BYTES (8u * 1024 * 1024)

void release_world_make(struct release_world *world)
{
	char path[160];

	snprintf(world->folder, sizeof(world->folder), "%s/larder-world-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert(mkdtemp(world->folder));
	snprintf(path, sizeof(path), "%s/staging", world->folder);
	assert(ldr_root_open(path, true, &world->staging, NULL) == LDR_OK);
	assert(ldr_key_generate(&world->key, NULL) == LDR_OK);
	assert(ldr_key_public(world->key, &world->public_key, NULL) == LDR_OK);
	assert(ldr_public_key_to_pem(world->public_key, world->pem, NULL) == LDR_OK);
	assert(ldr_random(world->store, sizeof(world->store), NULL) == LDR_OK);
}

void release_world_remove(struct release_world *world)
{
	char command[192];

	ldr_root_close(world->staging);
	ldr_key_free(world->key);
	ldr_public_key_free(world->public_key);
	snprintf(command, sizeof(command), "rm -rf '%s'", world->folder);
	assert(system(command) == 0); /* style: a test's own folder */
}

/* Noise of a seed, or the same line again and again: what compresses and what does not. */
static void fill(uint8_t *bytes, size_t length, unsigned seed, bool noise)
{
	uint64_t state = 88172645463325252u + seed * 7919u;

	for (size_t i = 0; i < length; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		bytes[i] = noise ? (uint8_t)(state >> 32) : (uint8_t)("larder\n"[i % 7] + seed % 3);
	}
}

static void write_tree(const struct release_world *world, const char *tree, unsigned seed)
{
	static uint8_t bytes[200000];
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	struct ldr_publish_options options = {.make_parents = true};
	char name[64];

	(void)world;
	assert(ldr_root_open(tree, true, &root, NULL) == LDR_OK);
	for (unsigned i = 0; i < FILES; i++) {
		size_t length = i == 0 ? 0 : i == 1 ? 1 : 9000u * i;

		snprintf(name, sizeof(name), i % 3 ? "file-%02u" : "folder/deep/file-%02u", i);
		fill(bytes, length, i % 2 ? seed * 100 + i : i, i % 4 != 3);
		assert(ldr_publish(root, name, bytes, length, &options, NULL, NULL) == LDR_OK);
	}
	/* A second name for bytes that are there already. */
	fill(bytes, 9000u * 12, 12, true);
	assert(ldr_publish(root, "twin", bytes, 9000u * 12, &options, NULL, NULL) == LDR_OK);
}

static enum ldr_status begin_pack(void *context, struct ldr_stream **out_stream,
				  struct ldr_error *err)
{
	struct release_world *world = context;
	struct ldr_publish_options options = {.make_parents = true};

	return ldr_stream_begin(world->staging, "", &options, out_stream, err);
}

static enum ldr_status finish_pack(void *context, struct ldr_stream *stream,
				   const struct ldr_id *id, uint64_t size_bytes, uint32_t ordinal,
				   struct ldr_error *err)
{
	struct release_world *world = context;
	char path[LDR_STORE_PATH_BYTES];

	(void)world;
	(void)size_bytes;
	(void)ordinal;
	ldr_store_pack_path(id, path);
	return ldr_stream_commit(stream, path, NULL, err);
}

static void build_packs(struct release_world *world, const char *tree, uint32_t first_number,
			struct ldr_build *out)
{
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	struct ldr_pack_sink sink = {begin_pack, finish_pack, world};
	struct ldr_error err = {0};
	struct ldr_build_options options = {
		.size = sizeof(options),
		.kind = LDR_BUILD_RELEASE,
		.codec = {LDR_POLICY_AUTO, 1},
		.workers = 1,
		.pack_target_bytes = PACK_TARGET_BYTES,
		.first_pack_number = first_number,
	};

	if (ldr_scan_folder(tree, NULL, NULL, &scan, &err) ||
	    ldr_build_run(scan, &options, &sink, out, &err)) {
		fprintf(stderr, "release world: %s\n", err.text);
		abort();
	}
}

static void list_packs(struct ldr_release *release, const struct ldr_build *build,
		       uint32_t first_number)
{
	release->pack_count = build->pack_count;
	release->packs = calloc(build->pack_count, sizeof(*release->packs));
	assert(release->packs);
	for (uint32_t i = 0; i < build->pack_count; i++)
		release->packs[i] = (struct ldr_release_pack){
			.number = first_number + i,
			.id = build->packs[i].id,
			.size_bytes = build->packs[i].size_bytes,
		};
}

void release_world_build(struct release_world *world, unsigned seed, const char *channel,
			 uint64_t sequence, const struct world_release *previous,
			 struct world_release *out)
{
	struct ldr_release *release = &out->release;
	uint32_t first_number = 1;
	char tree[192];

	*out = (struct world_release){0};
	if (previous)
		first_number = previous->release.packs[previous->release.pack_count - 1].number + 1;
	snprintf(tree, sizeof(tree), "%s/tree-%u", world->folder, seed);
	write_tree(world, tree, seed);
	build_packs(world, tree, first_number, &out->build);
	memcpy(release->store, world->store, LDR_STORE_ID_BYTES);
	snprintf(release->channel, sizeof(release->channel), "%s", channel);
	release->sequence = sequence;
	release->created_s = 1700000000;
	release->totals = out->build.totals;
	release->tree_bytes = out->build.tree_bytes;
	release->map_bytes = out->build.map_bytes;
	release->top = out->build.top;
	release->tree_digest = out->build.tree_digest;
	list_packs(release, &out->build, first_number);
	if (previous) {
		release->previous_sequence = previous->release.sequence;
		release->previous_digest = previous->release.digest;
	}
	release_world_sign(world, out, NULL);
}

void release_world_sign(struct release_world *world, struct world_release *release,
			struct ldr_key *key)
{
	struct ldr_error err = {0};

	free(release->jws);
	release->jws = NULL;
	if (ldr_release_sign(&release->release, key ? key : world->key, &release->jws,
			     &release->length, &err)) {
		fprintf(stderr, "release world: %s\n", err.text);
		abort();
	}
}

void world_release_dispose(struct world_release *release)
{
	ldr_release_dispose(&release->release);
	ldr_build_dispose(&release->build);
	free(release->jws);
}

uint8_t *release_world_pack(struct release_world *world, const struct world_release *release,
			    uint32_t i, size_t *out_length)
{
	char path[LDR_STORE_PATH_BYTES];
	uint8_t *bytes = NULL;

	ldr_store_pack_path(&release->release.packs[i].id, path);
	assert(ldr_root_read_file(world->staging, path, MAX_PACK_BYTES, &bytes, out_length, NULL) ==
	       LDR_OK);
	return bytes;
}
