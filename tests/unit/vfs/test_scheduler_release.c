/*
 * The scheduler over a layer whose blocks come from above: what waits for them holds no worker, hears when
 * they have come, and can be given up. The upstream is a fake that keeps what it is asked for until the
 * test lets it go.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/archive.h"
#include "client/view.h"
#include "tests/support/client_world.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/layer_tree.h"
#include "vfs/scheduler.h"

#define FILES 10u
#define FILE_BYTES 700000u
#define READ_BYTES 50000u
#define REMOTE_READS 100u
#define LOCAL_READS 60u
#define ASKS 256u
#define LONG_MS 60000u

static struct client_world world;
static struct ldr_view *archive; /* where the fake has its blocks from */
static struct ldr_source *source;
static struct ldr_vfs *vfs;
static struct ldr_scheduler *scheduler;
static uint8_t *buffers;

/* ---- the upstream ---- */

static struct ldr_upstream_request asks[ASKS];
static atomic_uint ask_count;

static enum ldr_status start(void *context, const struct ldr_upstream_request *request,
			     void **out_ticket, struct ldr_error *err)
{
	unsigned at = atomic_load(&ask_count);

	(void)context;
	(void)err;
	cr_assert_lt(at, ASKS);
	asks[at] = *request;
	*out_ticket = &asks[at];
	atomic_store(&ask_count, at + 1);
	return LDR_OK;
}

static void set_priority(void *context, void *ticket, unsigned priority)
{
	(void)context;
	((struct ldr_upstream_request *)ticket)->priority = priority;
}

/* Gives everything that is asked for by now, and later, until so many completions have come. */
static void give(struct ldr_upstream_request *request)
{
	const struct ldr_error none = {0};
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);

	for (size_t i = 0; i < request->count; i++) {
		cr_assert_eq(
			ldr_source_read(ldr_view_source(archive), &request->wants[i], plain, NULL),
			LDR_OK);
		cr_assert_eq(request->arrived(request->arrival, i, plain, NULL), LDR_OK);
	}
	request->done(request->arrival, &none);
	free(plain);
}

/* Stored as they are. */
static enum ldr_status places(void *context, uint64_t first, uint64_t count,
			      struct ldr_placed_block *out, struct ldr_error *err)
{
	(void)context;
	(void)err;
	for (uint64_t i = 0; i < count; i++)
		out[i].place = (struct ldr_place){.codec = LDR_CODEC_NONE,
						  .offset = first + i,
						  .stored_bytes = out[i].block.plain_bytes};
	return LDR_OK;
}

/* ---- the world ---- */

static void make_archive(void)
{
	const struct ldr_build_options build = {.size = sizeof(build)};
	char from[CLIENT_PATH_BYTES], to[CLIENT_PATH_BYTES];
	const struct ldr_archive_request request = {.size = sizeof(request),
						    .folder = client_path(&world, "tree", from),
						    .out_path = client_path(&world, "a.pack", to),
						    .build = &build};
	const struct ldr_view_options options = {.memory_bytes = 64u << 20};
	LDR_AUTO_LOCATION struct ldr_location location = {0};
	struct ldr_archive_outcome outcome;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_archive_folder(&request, &outcome, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_location_parse_source(to, &location, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_view_open(&location, &options, &archive, &err), LDR_OK, "%s", err.text);
}

/* No cache at all: what has come is there for those who wait for it, or nowhere. */
static struct ldr_layer *remote_layer(void)
{
	static const struct ldr_placement placement = {.places = places};
	const struct ldr_upstream upstream = {.start = start, .set_priority = set_priority};
	struct ldr_tree_layer_parts parts = {
		.size = sizeof(parts), .is_release = true, .placement = &placement};
	struct ldr_error err = {0};
	struct ldr_layer *layer;

	cr_assert_eq(ldr_source_new(NULL, NULL, &source, &err), LDR_OK);
	ldr_source_set_upstream(source, &upstream);
	cr_assert_eq(ldr_view_tree(archive, &parts.tree, &err), LDR_OK, "%s", err.text);
	parts.source = source;
	cr_assert_eq(ldr_layer_tree_new(&parts, &layer, &err), LDR_OK, "%s", err.text);
	return layer;
}

static void mount(uint32_t id, const char *at, struct ldr_layer *layer, unsigned flags)
{
	const struct ldr_mount mount = {.id = id, .at = at, .layer = layer, .flags = flags};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_vfs_mount(vfs, &mount, &err), LDR_OK, "%s", err.text);
	ldr_layer_unref(layer);
}

static void setup(void)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_layer *local;
	struct ldr_error err = {0};
	char name[32];

	/* Under the thread sanitizer all tests share one process. */
	atomic_store(&ask_count, 0);
	client_world_make(&world);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "tree/%u", i);
		client_noise(&world, name, FILE_BYTES, i + 1);
	}
	make_archive();
	cr_assert_eq(ldr_vfs_new(NULL, &vfs, &err), LDR_OK, "%s", err.text);
	mount(1, "remote", remote_layer(), 0);
	cr_assert_eq(ldr_layer_memory_new(NULL, &local, &err), LDR_OK);
	mount(2, "local", local, LDR_MOUNT_WRITE);
	ldr_vfs_settle(vfs);
	cr_assert_eq(ldr_vfs_replace(vfs, "local/file", "local bytes", 11, LDR_SYNC_NONE, &err),
		     LDR_OK, "%s", err.text);
	options.workers = 1;
	options.max_bytes = 64u << 20;
	cr_assert_eq(ldr_scheduler_new(&options, &scheduler, &err), LDR_OK, "%s", err.text);
	buffers = calloc(REMOTE_READS, READ_BYTES);
}

static void teardown(void)
{
	ldr_scheduler_free(scheduler);
	ldr_vfs_free(vfs);
	/* Asserts that no block is in flight any more. */
	ldr_source_free(source);
	ldr_view_close(archive);
	client_world_remove(&world);
	free(buffers);
}

TestSuite(scheduler_release, .init = setup, .fini = teardown);

static char paths[REMOTE_READS][16];

static uint64_t offset_of(unsigned i)
{
	return (uint64_t)(i / FILES) * (FILE_BYTES - READ_BYTES) / (REMOTE_READS / FILES);
}

static void submit_remote(unsigned i, struct ldr_ticket *out_ticket)
{
	struct ldr_io_request request = {.kind = LDR_IO_READ,
					 .tag = i,
					 .vfs = vfs,
					 .path = paths[i],
					 .bytes = buffers + (size_t)i * READ_BYTES,
					 .length = READ_BYTES,
					 .offset = offset_of(i)};
	struct ldr_error err = {0};

	snprintf(paths[i], sizeof(paths[i]), "remote/%u", i % FILES);
	cr_assert_eq(ldr_scheduler_submit(scheduler, &request, out_ticket, &err), LDR_OK, "%s",
		     err.text);
}

static struct ldr_scheduler_metrics metrics(void)
{
	struct ldr_scheduler_metrics now;

	ldr_scheduler_metrics(scheduler, &now);
	return now;
}

static void wait_until_all_wait(unsigned count)
{
	while (metrics().waiting < count)
		sched_yield();
	cr_assert_eq(metrics().running, 0u);
	cr_assert_eq(metrics().queued_reads + metrics().queued_names, 0u);
}

static struct ldr_completion next_completion(void)
{
	struct ldr_completion done;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_scheduler_wait(scheduler, LONG_MS, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(ldr_scheduler_poll(scheduler, &done, 1), 1u);
	return done;
}

static void expect_bytes(const struct ldr_completion *done)
{
	LDR_AUTO_FREE uint8_t *wanted = malloc(READ_BYTES);
	char name[32], path[CLIENT_PATH_BYTES];
	FILE *file;

	cr_assert_eq(done->status, LDR_OK, "%s", done->error.text);
	cr_assert_eq(done->length, READ_BYTES);
	snprintf(name, sizeof(name), "tree/%u", (unsigned)done->tag % FILES);
	file = fopen(client_path(&world, name, path), "rbe");
	cr_assert_eq(fseek(file, (long)offset_of((unsigned)done->tag), SEEK_SET), 0);
	cr_assert_eq(fread(wanted, 1, READ_BYTES, file), READ_BYTES);
	fclose(file);
	cr_assert_arr_eq(buffers + done->tag * READ_BYTES, wanted, READ_BYTES);
}

static void give_all_until(unsigned completions)
{
	unsigned given = 0, seen = 0;

	while (seen < completions) {
		if (given < atomic_load(&ask_count)) {
			give(&asks[given++]);
			continue;
		}
		/* Who was told comes again and may ask for more. */
		if (metrics().ended == 0) {
			sched_yield();
			continue;
		}
		struct ldr_completion done = next_completion();

		expect_bytes(&done);
		seen++;
	}
	while (given < atomic_load(&ask_count))
		give(&asks[given++]);
}

Test(scheduler_release, reads_that_wait_for_the_network_hold_no_worker_and_no_local_read)
{
	static uint8_t local[LOCAL_READS][16];
	struct ldr_ticket ticket;

	for (unsigned i = 0; i < REMOTE_READS; i++)
		submit_remote(i, &ticket);
	wait_until_all_wait(REMOTE_READS);
	for (unsigned i = 0; i < LOCAL_READS; i++) {
		const struct ldr_io_request request = {.kind = LDR_IO_READ,
						       .tag = 1000 + i,
						       .vfs = vfs,
						       .path = "local/file",
						       .bytes = local[i],
						       .length = sizeof(local[i])};

		cr_assert_eq(ldr_scheduler_submit(scheduler, &request, NULL, NULL), LDR_OK);
	}
	for (unsigned i = 0; i < LOCAL_READS; i++) {
		struct ldr_completion done = next_completion();

		cr_assert_geq(done.tag, 1000u);
		cr_assert_eq(done.length, 11u);
		cr_assert_arr_eq(local[done.tag - 1000], "local bytes", 11);
	}
	cr_expect_eq(metrics().waiting, REMOTE_READS);
	give_all_until(REMOTE_READS);
	cr_expect_eq(metrics().requests, 0u);
	cr_expect_eq(metrics().waiting, 0u);
	cr_expect_eq(metrics().running, 0u);
}

Test(scheduler_release, V41_what_waits_is_cancelled_at_once_and_what_it_asked_for_may_still_come)
{
	struct ldr_ticket tickets[REMOTE_READS];

	for (unsigned i = 0; i < REMOTE_READS; i++)
		submit_remote(i, &tickets[i]);
	wait_until_all_wait(REMOTE_READS);
	cr_expect_eq(ldr_scheduler_cancel(scheduler, tickets[0], NULL), LDR_OK);
	cr_expect_eq(ldr_scheduler_cancel_tagged(scheduler, 1, 1), REMOTE_READS / 2);
	for (unsigned i = 0; i < REMOTE_READS / 2 + 1; i++) {
		struct ldr_completion done = next_completion();

		cr_expect_eq(done.status, LDR_ECANCELLED);
		cr_expect_eq(done.outcome, LDR_IO_CANCELLED);
	}
	cr_expect_eq(metrics().waiting, REMOTE_READS / 2 - 1);
	give_all_until(REMOTE_READS / 2 - 1);
	cr_expect_eq(metrics().requests, 0u);
}

Test(scheduler_release, shutdown_ends_what_waits_for_a_network_that_never_answers)
{
	const struct ldr_error gone = {.status = LDR_ECANCELLED};
	struct ldr_ticket ticket;
	struct ldr_error err = {0};

	for (unsigned i = 0; i < REMOTE_READS; i++)
		submit_remote(i, &ticket);
	wait_until_all_wait(REMOTE_READS);
	cr_assert_eq(ldr_scheduler_shutdown(scheduler, LONG_MS, &err), LDR_OK, "%s", err.text);
	for (unsigned i = 0; i < REMOTE_READS; i++)
		cr_expect_eq(next_completion().status, LDR_ECANCELLED);
	for (unsigned i = 0; i < ask_count; i++)
		asks[i].done(asks[i].arrival, &gone);
}
