/*
 * The world of the scheduler's tests; see scheduler_world.h.
 */
#include "tests/unit/vfs/scheduler_world.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define BUFFER_BYTES ((size_t)4 << 20)

static void make_files(struct scheduler_world *world)
{
	struct ldr_layer *layer = NULL;
	const struct ldr_mount mount = {.id = WORLD_MOUNT, .layer = NULL, .flags = LDR_MOUNT_WRITE};
	struct ldr_mount given = mount;

	cr_assert_eq(ldr_vfs_new(NULL, &world->vfs, NULL), LDR_OK);
	cr_assert_eq(ldr_layer_memory_new(NULL, &layer, NULL), LDR_OK);
	given.layer = layer;
	cr_assert_eq(ldr_vfs_mount(world->vfs, &given, NULL), LDR_OK);
	ldr_layer_unref(layer);
	cr_assert_eq(ldr_vfs_replace(world->vfs, "file", "0123456789", 10, LDR_SYNC_NONE, NULL),
		     LDR_OK);
	cr_assert_eq(ldr_vfs_replace(world->vfs, "folder/other", "other", 5, LDR_SYNC_NONE, NULL),
		     LDR_OK);
	cr_assert_eq(ldr_vfs_open(world->vfs, "file", LDR_OPEN_READ, &world->file, NULL), LDR_OK);
}

struct ldr_scheduler_options world_options(struct scheduler_world *world)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();

	options.workers = 1;
	options.clock = &world->clock.clock;
	options.backend = &world->fake.backend;
	return options;
}

void world_make(struct scheduler_world *world, const struct ldr_scheduler_options *options)
{
	struct ldr_scheduler_options given = world_options(world);
	struct ldr_error err = {0};

	if (options)
		given = *options;
	fake_clock_init(&world->clock, 1000 * WORLD_MS);
	fake_backend_init(&world->fake, &world->clock);
	make_files(world);
	world->bytes = malloc(BUFFER_BYTES);
	cr_assert(world->bytes);
	cr_assert_eq(ldr_scheduler_new(&given, &world->scheduler, &err), LDR_OK, "%s", err.text);
}

void world_remove(struct scheduler_world *world)
{
	fake_open(&world->fake);
	ldr_scheduler_free(world->scheduler);
	ldr_file_close(world->file);
	ldr_vfs_free(world->vfs);
	fake_backend_dispose(&world->fake);
	free(world->bytes);
}

struct ldr_io_request world_read(struct scheduler_world *world, uint64_t tag,
				 enum ldr_io_class io_class)
{
	return (struct ldr_io_request){.kind = LDR_IO_READ,
				       .io_class = io_class,
				       .tag = tag,
				       .file = world->file,
				       .bytes = world->bytes,
				       .length = 4096};
}

struct ldr_ticket world_submit(struct scheduler_world *world, struct ldr_io_request request)
{
	struct ldr_ticket ticket = {0, 0};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_scheduler_submit(world->scheduler, &request, &ticket, &err), LDR_OK, "%s",
		     err.text);
	return ticket;
}

void world_collect(struct scheduler_world *world, struct ldr_completion *out, size_t count)
{
	struct ldr_error err = {0};
	size_t got = 0;

	while (got < count) {
		cr_assert_eq(ldr_scheduler_wait(world->scheduler, WORLD_LONG_MS, &err), LDR_OK,
			     "%zu of %zu: %s", got, count, err.text);
		got += ldr_scheduler_poll(world->scheduler, out + got, count - got);
	}
}

struct ldr_scheduler_metrics world_metrics(struct scheduler_world *world)
{
	struct ldr_scheduler_metrics metrics;

	ldr_scheduler_metrics(world->scheduler, &metrics);
	return metrics;
}

void world_expect_idle(struct scheduler_world *world)
{
	struct ldr_scheduler_metrics m = world_metrics(world);

	cr_expect_eq(m.requests, 0);
	cr_expect_eq(m.bytes, 0);
	cr_expect_eq(m.queued_reads + m.queued_names + m.queued_saves, 0);
	cr_expect_eq(m.running, 0);
	cr_expect_eq(m.waiting, 0);
	cr_expect_eq(m.ended, 0);
	cr_expect_eq(m.oldest_queued_ns, 0);
	cr_expect_eq(m.accepted, m.collected);
	cr_expect_eq(m.accepted, m.done + m.cancelled + m.expired);
}
