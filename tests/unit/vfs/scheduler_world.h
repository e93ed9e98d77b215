/*
 * A scheduler over the fake backend, a file to read and a folder to write, for its tests.
 */
#ifndef LDR_TESTS_SCHEDULER_WORLD_H
#define LDR_TESTS_SCHEDULER_WORLD_H

#include "tests/support/fake_backend.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/scheduler.h"

#define WORLD_MOUNT 7u
#define WORLD_MS UINT64_C(1000000)
/* Longer than any test lasts that does not hang. */
#define WORLD_LONG_MS UINT64_C(10000)

struct scheduler_world {
	struct fake_clock clock;
	struct fake_backend fake;
	struct ldr_vfs *vfs; /* a memory layer as write target, with "file" and "folder/other" */
	struct ldr_file *file;
	struct ldr_scheduler *scheduler;
	uint8_t *bytes; /* a buffer of 4 MiB for all requests whose bytes do not matter */
};

/* The gate is closed; options' clock and backend are the world's. options NULL: one worker. */
void world_make(struct scheduler_world *world, const struct ldr_scheduler_options *options);
void world_remove(struct scheduler_world *world);
/* The defaults with one worker, the world's clock and backend. */
struct ldr_scheduler_options world_options(struct scheduler_world *world);

/* A read of 4 KiB of the file at 0 into the world's buffer. */
struct ldr_io_request world_read(struct scheduler_world *world, uint64_t tag,
				 enum ldr_io_class io_class);
struct ldr_ticket world_submit(struct scheduler_world *world, struct ldr_io_request request);
/* Collects exactly so many, waiting for them. */
void world_collect(struct scheduler_world *world, struct ldr_completion *out, size_t count);
struct ldr_scheduler_metrics world_metrics(struct scheduler_world *world);
/* Nothing is in flight and every gauge is 0. */
void world_expect_idle(struct scheduler_world *world);

#endif
