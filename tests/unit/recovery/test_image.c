/* The image of a state: two ways to it agree, from both formats of the log, and a wrong image is told. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/bytes.h"
#include "tests/recovery/core/disk.h"
#include "tests/recovery/core/reference.h"

#define IMAGE_BYTES (64u * 4096u)
#define RECORDS 120u

static uint64_t draw(uint64_t *random)
{
	*random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *random >> 33;
}

/* Writes, discards, flushes and marks that overlap a lot; in our format and as dm-log-writes has it. */
struct logs {
	struct ldr_buffer own, dm;
};

static void put_own(struct logs *logs, const struct crash_record *record)
{
	uint8_t head[CRASH_LOG_RECORD_BYTES];

	crash_log_put_record(head, record);
	ldr_buffer_put(&logs->own, head, sizeof(head));
	if (record->data)
		ldr_buffer_put(&logs->own, record->data, record->length);
}

static void put_dm(struct logs *logs, const struct crash_record *record)
{
	uint64_t flags = record->type == CRASH_FLUSH     ? 1
			 : record->type == CRASH_DISCARD ? 4
			 : record->type == CRASH_MARK    ? 8
							 : 0;
	bool mark = record->type == CRASH_MARK;
	uint8_t head[512] = {0};

	ldr_put_le(head, 8, record->offset / 512);
	ldr_put_le(head + 8, 8, mark ? 0 : record->length / 512);
	ldr_put_le(head + 16, 8, flags | (record->flags & CRASH_LOG_FUA ? 2 : 0));
	ldr_put_le(head + 24, 8, mark ? record->length : 0);
	if (mark)
		memcpy(head + 32, record->data, record->length);
	ldr_buffer_put(&logs->dm, head, sizeof(head));
	if (record->type == CRASH_WRITE)
		ldr_buffer_put(&logs->dm, record->data, record->length);
}

static void draw_record(uint64_t *random, uint8_t data[32768], struct crash_record *out)
{
	uint64_t kind = draw(random) % 12;

	*out = (struct crash_record){.type = CRASH_WRITE};
	if (kind < 2) {
		out->type = kind ? CRASH_MARK : CRASH_FLUSH;
		out->length = kind ? 4 : 0;
		out->data = kind ? (const uint8_t *)"mark" : NULL;
		return;
	}
	out->offset = draw(random) % (IMAGE_BYTES / 512 - 64) * 512;
	out->length = (1 + draw(random) % 64) * 512;
	if (kind == 2) {
		out->type = CRASH_DISCARD;
		return;
	}
	out->flags = kind == 3 ? CRASH_LOG_FUA : 0;
	for (size_t i = 0; i < out->length; i++)
		data[i] = (uint8_t)draw(random);
	out->data = data;
}

static void make_logs(struct logs *logs, uint64_t seed)
{
	static uint8_t data[32768];
	uint8_t head[CRASH_LOG_HEAD_BYTES], super[512] = {0};
	uint64_t random = seed;

	ldr_buffer_init(&logs->own, 8 << 20);
	ldr_buffer_init(&logs->dm, 8 << 20);
	crash_log_put_head(head);
	ldr_buffer_put(&logs->own, head, sizeof(head));
	ldr_put_le(super, 8, UINT64_C(0x6a736677736872));
	ldr_put_le(super + 8, 8, 1);
	ldr_put_le(super + 16, 8, RECORDS);
	ldr_put_le(super + 24, 4, 512);
	ldr_buffer_put(&logs->dm, super, sizeof(super));
	for (unsigned i = 0; i < RECORDS; i++) {
		struct crash_record record;

		draw_record(&random, data, &record);
		put_own(logs, &record);
		put_dm(logs, &record);
	}
}

/* A seed with holes. */
static int make_seed(uint64_t random)
{
	int fd = memfd_create("seed", MFD_CLOEXEC);
	uint8_t block[4096];

	cr_assert(fd >= 0 && ftruncate(fd, IMAGE_BYTES) == 0);
	for (unsigned i = 0; i < IMAGE_BYTES / 4096; i++) {
		if (draw(&random) % 3 == 0)
			continue;
		memset(block, (int)draw(&random), sizeof(block));
		block[draw(&random) % sizeof(block)] ^= 0x55;
		cr_assert_eq(pwrite(fd, block, sizeof(block), i * 4096), 4096);
	}
	return fd;
}

struct world {
	struct logs logs;
	struct crash_log own, dm;
	struct crash_states states, dm_states;
	struct crash_seed seed;
	int seed_fd, image_fd;
};

static void open_world(struct world *world, uint64_t seed)
{
	struct crash_state_options options = {.models = CRASH_PREFIX | CRASH_SUBSET |
							CRASH_TORNLAST | CRASH_TORN | CRASH_LYING,
					      .grain_bytes = 512,
					      .subset_max = 4,
					      .subset_samples = 6,
					      .torn_samples = 12,
					      .lying_samples = 20,
					      .cuts_max = 5,
					      .seed = seed,
					      .max_states = 100000};
	struct ldr_error err = {0};
	char path[64];

	memset(world, 0, sizeof(*world));
	make_logs(&world->logs, seed);
	cr_assert_eq(
		crash_log_read(world->logs.own.data, world->logs.own.length, &world->own, &err),
		LDR_OK, "%s", err.text);
	cr_assert_eq(crash_log_read(world->logs.dm.data, world->logs.dm.length, &world->dm, &err),
		     LDR_OK, "%s", err.text);
	cr_assert_eq(crash_states_enumerate(&world->own, &options, &world->states, &err), LDR_OK);
	cr_assert_eq(crash_states_enumerate(&world->dm, &options, &world->dm_states, &err), LDR_OK);
	world->seed_fd = make_seed(seed);
	world->image_fd = memfd_create("image", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", world->seed_fd);
	cr_assert_eq(crash_seed_load(path, &world->seed, &err), LDR_OK, "%s", err.text);
}

static void close_world(struct world *world)
{
	close(world->seed_fd);
	close(world->image_fd);
	crash_seed_dispose(&world->seed);
	crash_states_dispose(&world->states);
	crash_states_dispose(&world->dm_states);
	crash_log_dispose(&world->own);
	crash_log_dispose(&world->dm);
	ldr_buffer_dispose(&world->logs.own);
	ldr_buffer_dispose(&world->logs.dm);
}

static struct crash_image_ids compare(struct world *world, const struct crash_log *log,
				      const struct crash_states *states, size_t number)
{
	struct crash_image_ids ids;
	struct ldr_error err = {0};

	cr_assert_eq(crash_reference_compare(world->seed_fd, world->image_fd, log, states,
					     &states->states[number], &ids, &err),
		     LDR_OK, "%s", err.text);
	return ids;
}

static void build(struct world *world, size_t number)
{
	struct ldr_error err = {0};

	cr_assert_eq(crash_disk_build(world->image_fd, &world->seed, &world->own, &world->states,
				      &world->states.states[number], &err),
		     LDR_OK, "%s", err.text);
}

Test(image, two_replayers_agree_on_every_state)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct world world;

		open_world(&world, seed);
		cr_expect_gt(world.states.count, 400);
		for (size_t i = 0; i < world.states.count; i++) {
			struct crash_image_ids ids;

			build(&world, i);
			ids = compare(&world, &world.own, &world.states, i);
			cr_assert(ldr_id_equal(&ids.wanted, &ids.found), "seed %d, state %s",
				  (int)seed, world.states.states[i].name);
		}
		close_world(&world);
	}
}

/* What was built from our log is what the log of dm-log-writes means. */
Test(image, both_formats_give_the_same_states_and_images)
{
	struct world world;

	open_world(&world, 7);
	cr_assert_eq(world.dm.count, world.own.count);
	cr_assert_eq(world.dm_states.count, world.states.count);
	for (size_t i = 0; i < world.states.count; i++) {
		struct crash_image_ids ids;

		cr_assert_str_eq(world.dm_states.states[i].name, world.states.states[i].name);
		build(&world, i);
		ids = compare(&world, &world.dm, &world.dm_states, i);
		cr_assert(ldr_id_equal(&ids.wanted, &ids.found), "%s", world.states.states[i].name);
	}
	close_world(&world);
}

/* Neither passes by hashing nothing: another state's image, and one other bit, are told. */
Test(image, what_differs_is_told)
{
	struct crash_image_ids ids;
	struct world world;
	uint8_t byte;
	size_t last;

	open_world(&world, 5);
	last = world.states.count - 1;
	build(&world, last);
	ids = compare(&world, &world.own, &world.states, 0);
	cr_expect(!ldr_id_equal(&ids.wanted, &ids.found), "the image of another state");
	for (size_t at = 0; at < IMAGE_BYTES; at += 11251) {
		cr_assert_eq(pread(world.image_fd, &byte, 1, (off_t)at), 1);
		byte ^= 4;
		cr_assert_eq(pwrite(world.image_fd, &byte, 1, (off_t)at), 1);
		ids = compare(&world, &world.own, &world.states, last);
		cr_expect(!ldr_id_equal(&ids.wanted, &ids.found), "byte %zu", at);
		byte ^= 4;
		cr_assert_eq(pwrite(world.image_fd, &byte, 1, (off_t)at), 1);
	}
	ids = compare(&world, &world.own, &world.states, last);
	cr_expect(ldr_id_equal(&ids.wanted, &ids.found));
	close_world(&world);
}

/* seed_sha256 of a record: of what is there, where it is. */
Test(image, the_digest_of_a_seed)
{
	struct crash_image_ids ids;
	struct ldr_error err = {0};
	struct ldr_id id, moved;
	struct crash_state empty = {.base = 0};
	struct world world;

	open_world(&world, 9);
	cr_assert_eq(crash_seed_digest(&world.seed, &id, &err), LDR_OK);
	cr_assert_eq(crash_reference_compare(world.seed_fd, world.seed_fd, &world.own,
					     &world.states, &empty, &ids, &err),
		     LDR_OK);
	cr_expect(ldr_id_equal(&ids.wanted, &id) && ldr_id_equal(&ids.found, &id));
	world.seed.extents[0].offset += 4096;
	cr_assert_eq(crash_seed_digest(&world.seed, &moved, &err), LDR_OK);
	cr_expect(!ldr_id_equal(&moved, &id), "the same bytes elsewhere");
	close_world(&world);
}
