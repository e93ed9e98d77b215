/*
 * A world to fetch in; see fetch_world.h.
 */
#include "tests/support/fetch_world.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "packs/layout.h"

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void make_packs(struct fetch_world *world, const struct fetch_world_shape *shape,
		       uint64_t *random)
{
	world->packs = calloc(shape->pack_count, sizeof(*world->packs));
	world->release.packs = calloc(shape->pack_count, sizeof(*world->release.packs));
	world->release.pack_count = shape->pack_count;
	assert(world->packs && world->release.packs);
	for (uint32_t i = 0; i < shape->pack_count; i++) {
		size_t words = (shape->pack_bytes + FETCH_WORLD_SLACK) / 8 + 1;
		uint64_t *pack = malloc(words * 8);

		assert(pack);
		for (size_t k = 0; k < words; k++)
			pack[k] = next_random(random);
		world->packs[i] = (uint8_t *)pack;
		/* Numbers with gaps, so that an index is not mistaken for one. */
		world->release.packs[i].number = 3 * i + 1;
		world->release.packs[i].size_bytes = shape->pack_bytes;
		for (size_t k = 0; k < LDR_ID_BYTES; k++)
			world->release.packs[i].id.bytes[k] = (uint8_t)next_random(random);
	}
}

static void make_wants(struct fetch_world *world, const struct fetch_world_shape *shape,
		       uint64_t *random)
{
	size_t room = 0;

	for (uint32_t pack = 0; pack < shape->pack_count; pack++) {
		uint64_t offset = 64;

		for (;;) {
			uint32_t length = 1 +
					  (uint32_t)(next_random(random) % shape->block_bytes_max);
			struct ldr_placed_block *want;

			if (offset + length + 8 > shape->pack_bytes)
				break;
			offset += length;
			if (next_random(random) % 100 >= shape->take_percent)
				continue;
			if (world->want_count == room) {
				room = room ? 2 * room : 256;
				world->wants = realloc(world->wants, room * sizeof(*world->wants));
				assert(world->wants);
			}
			want = &world->wants[world->want_count++];
			*want = (struct ldr_placed_block){.place = {.pack = 3 * pack + 1,
								    .offset = offset - length,
								    .stored_bytes = length}};
		}
	}
}

static void shuffle(struct fetch_world *world, uint64_t *random)
{
	for (size_t i = world->want_count; i > 1; i--) {
		size_t k = (size_t)(next_random(random) % i);
		struct ldr_placed_block kept = world->wants[i - 1];

		world->wants[i - 1] = world->wants[k];
		world->wants[k] = kept;
	}
}

void fetch_world_make(struct fetch_world *world, const struct fetch_world_shape *shape)
{
	uint64_t random = shape->seed * 2 + 1;

	memset(world, 0, sizeof(*world));
	make_packs(world, shape, &random);
	make_wants(world, shape, &random);
	shuffle(world, &random);
	world->arrivals = calloc(world->want_count + 1, sizeof(*world->arrivals));
	assert(world->arrivals && world->want_count);
}

void fetch_world_double(struct fetch_world *world)
{
	size_t count = world->want_count;

	world->wants = realloc(world->wants, 2 * count * sizeof(*world->wants));
	assert(world->wants);
	memcpy(world->wants + count, world->wants, count * sizeof(*world->wants));
	free(world->arrivals);
	world->want_count = 2 * count;
	world->arrivals = calloc(world->want_count, sizeof(*world->arrivals));
	assert(world->arrivals);
}

void fetch_world_dispose(struct fetch_world *world)
{
	for (uint32_t i = 0; i < world->release.pack_count; i++)
		free(world->packs[i]);
	free(world->packs);
	free(world->release.packs);
	free(world->wants);
	free(world->arrivals);
}

void fetch_world_path(const struct fetch_world *world, uint32_t pack, char path[160])
{
	path[0] = '/';
	ldr_store_pack_path(&world->release.packs[pack].id, path + 1);
}

void fetch_world_serve(const struct fetch_world *world, struct lying_server *server)
{
	char path[160];

	for (uint32_t i = 0; i < world->release.pack_count; i++) {
		fetch_world_path(world, i, path);
		lying_server_add_file(server, path, world->packs[i],
				      world->release.packs[i].size_bytes);
	}
}

static void make_folder(const char *path)
{
	assert(mkdir(path, 0755) == 0 || access(path, X_OK) == 0);
}

void fetch_world_write(const struct fetch_world *world, const char *folder)
{
	char full[512], path[160];

	for (uint32_t i = 0; i < world->release.pack_count; i++) {
		size_t length = world->release.packs[i].size_bytes;
		int fd;

		fetch_world_path(world, i, path);
		snprintf(full, sizeof(full), "%s/packs", folder);
		make_folder(full);
		snprintf(full, sizeof(full), "%s%.9s", folder, path);
		make_folder(full);
		snprintf(full, sizeof(full), "%s%s", folder, path);
		fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		assert(fd >= 0);
		assert(write(fd, world->packs[i], length) == (ssize_t)length);
		close(fd);
	}
}

enum ldr_status fetch_world_arrived(void *arrival, size_t want, const void *stored,
				    struct ldr_error *err)
{
	struct fetch_world *world = arrival;
	const struct ldr_place *place = &world->wants[want].place;
	const uint8_t *expected = world->packs[place->pack / 3] + place->offset;

	assert(!atomic_load(&world->closed));
	if (world->refuse && atomic_fetch_add(&world->calls, 1) >= world->refuse_after)
		return ldr_fail(err, world->refuse, "refused by the test");
	if (memcmp(stored, expected, place->stored_bytes) != 0) {
		atomic_fetch_add(&world->wrong, 1);
		return ldr_fail(err, LDR_ECORRUPT, "block %zu: expected 0x%02x.., got 0x%02x..",
				want, expected[0], *(const uint8_t *)stored);
	}
	atomic_fetch_add(&world->arrivals[want], 1);
	return LDR_OK;
}

enum ldr_status fetch_world_run(struct fetch_world *world, struct ldr_fetch *fetch,
				struct ldr_error *err)
{
	const struct ldr_upstream *upstream = ldr_fetch_upstream(fetch);
	enum ldr_status status;

	for (size_t i = 0; i < world->want_count; i++)
		atomic_store(&world->arrivals[i], 0);
	atomic_store(&world->closed, false);
	status = upstream->fetch(upstream->context, world->wants, world->want_count,
				 fetch_world_arrived, world, err);
	atomic_store(&world->closed, true);
	return status;
}

size_t fetch_world_missing(const struct fetch_world *world)
{
	size_t missing = 0;

	for (size_t i = 0; i < world->want_count; i++)
		missing += atomic_load(&world->arrivals[i]) != 1;
	return missing;
}
