/*
 * How requests end other than by having been done: cancelled in each state, given up by a shutdown;
 * and what waits for the network meanwhile.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "tests/unit/vfs/gate_layer.h"
#include "tests/unit/vfs/scheduler_world.h"

static struct scheduler_world world;

static void setup(void)
{
	world_make(&world, NULL);
}

static void teardown(void)
{
	world_remove(&world);
}

TestSuite(scheduler_end, .init = setup, .fini = teardown);

static void expect_state(struct ldr_ticket ticket, enum ldr_io_state expected)
{
	enum ldr_io_state state;

	cr_assert_eq(ldr_scheduler_state(world.scheduler, ticket, &state, NULL), LDR_OK);
	cr_expect_eq(state, expected);
}

static void cancel(struct ldr_ticket ticket)
{
	cr_assert_eq(ldr_scheduler_cancel(world.scheduler, ticket, NULL), LDR_OK);
}

/* Until the worker has nothing to do. */
static void await_running(uint64_t count)
{
	while (world_metrics(&world).running != count)
		ldr_thread_pause_us(50);
}

/* ---- cancel (A141, A40, A41) ---- */

Test(scheduler_end, cancelling_what_is_queued_ends_it_without_a_read)
{
	struct ldr_io_request request = world_read(&world, 5, LDR_IO_NORMAL);
	struct ldr_completion done[2];
	struct ldr_ticket ticket;

	world_submit(&world, world_read(&world, 0, LDR_IO_NORMAL));
	fake_await_started(&world.fake, 1);
	request.bytes = world.bytes + 8192;
	memset(request.bytes, 0xee, 4096);
	ticket = world_submit(&world, request);
	expect_state(ticket, LDR_IO_QUEUED);
	fake_clock_add(&world.clock, 7);
	cancel(ticket);
	fake_clock_add(&world.clock, 9);
	expect_state(ticket, LDR_IO_ENDED);
	cancel(ticket);
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 2), 1);
	cr_expect_eq(done[0].outcome, LDR_IO_CANCELLED);
	cr_expect_eq(done[0].status, LDR_ECANCELLED);
	cr_expect_eq(done[0].length, 0);
	cr_expect_eq(done[0].times.cancel_ns - done[0].times.submitted_ns, 7);
	cr_expect_eq(done[0].times.collected_ns - done[0].times.cancel_ns, 9);
	cr_expect_eq(done[0].times.service_ns, 0);
	for (unsigned i = 0; i < 4096; i++)
		cr_assert_eq(world.bytes[8192 + i], 0xee);
	fake_open(&world.fake);
	world_collect(&world, done, 1);
	cr_expect_eq(world.fake.started_count, 1);
	world_expect_idle(&world);
}

Test(scheduler_end, cancelling_what_runs_waits_for_its_piece_and_reads_no_more)
{
	struct ldr_io_request request = world_read(&world, 5, LDR_IO_NORMAL);
	struct ldr_completion done;
	struct ldr_ticket ticket;

	request.length = 8 * LDR_SCHEDULER_PIECE_BYTES;
	ticket = world_submit(&world, request);
	fake_await_started(&world.fake, 1);
	cancel(ticket);
	cancel(ticket);
	expect_state(ticket, LDR_IO_RUNNING);
	cr_expect_eq(ldr_scheduler_poll(world.scheduler, &done, 1), 0);
	fake_open(&world.fake);
	world_collect(&world, &done, 1);
	cr_expect_eq(done.outcome, LDR_IO_CANCELLED);
	cr_expect_eq(done.length, 0);
	cr_expect_eq(world.fake.started_count, 1, "one piece of eight");
	cr_expect_eq(world_metrics(&world).bytes_read, 0);
}

Test(scheduler_end, what_has_ended_stays_as_it_ended)
{
	struct ldr_ticket ticket;
	struct ldr_completion done;

	fake_open(&world.fake);
	ticket = world_submit(&world, world_read(&world, 5, LDR_IO_NORMAL));
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cancel(ticket);
	world_collect(&world, &done, 1);
	cr_expect_eq(done.outcome, LDR_IO_DONE);
	cr_expect_eq(done.length, 4096);
	cr_expect_eq(done.times.cancel_ns, 0);
	cr_expect_eq(ldr_scheduler_cancel(world.scheduler, ticket, NULL), LDR_ESTALE);
}

Test(scheduler_end, a_mask_cancels_all_of_a_kind)
{
	static const struct {
		uint64_t mask, value;
		unsigned cancelled;
	} rows[] = {
		{0xff, 0x12, 1}, {0xf0, 0x10, 4},       {0x0f, 0x02, 4},
		{0, 0, 16},      {~UINT64_C(0), 99, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned at = world.fake.started_count, cancelled = 0;
		struct ldr_completion done[17];

		world_submit(&world, world_read(&world, 0x100, LDR_IO_CRITICAL));
		fake_await_started(&world.fake, at + 1);
		for (unsigned k = 0; k < 16; k++)
			world_submit(&world,
				     world_read(&world, (k / 4) * 16 + k % 4, LDR_IO_NORMAL));
		/* The one that runs has a tag of its own, which only the mask 0 takes with it. */
		cr_expect_eq(
			ldr_scheduler_cancel_tagged(world.scheduler, rows[i].mask, rows[i].value),
			rows[i].cancelled + (rows[i].mask == 0), "row %zu", i);
		fake_allow(&world.fake, 17 - rows[i].cancelled);
		world_collect(&world, done, 17);
		for (unsigned k = 0; k < 17; k++) {
			bool meant = (done[k].tag & rows[i].mask) == rows[i].value;

			cr_expect_eq(done[k].outcome == LDR_IO_CANCELLED, meant, "row %zu", i);
			cancelled += done[k].outcome == LDR_IO_CANCELLED;
		}
		cr_expect_eq(cancelled, rows[i].cancelled + (rows[i].mask == 0));
	}
}

/* Cancel and submit again in a loop over a slow read: nobody gets another's end (V43). */
Test(scheduler_end, cancelled_and_asked_again_each_has_its_own_end)
{
	struct ldr_completion done[64];
	struct ldr_ticket tickets[64];

	world_submit(&world, world_read(&world, 1000, LDR_IO_NORMAL));
	fake_await_started(&world.fake, 1);
	for (unsigned i = 0; i < 64; i++) {
		tickets[i] = world_submit(&world, world_read(&world, i, LDR_IO_NORMAL));
		cancel(tickets[i]);
	}
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 64), 64);
	for (unsigned i = 0; i < 64; i++) {
		cr_expect_eq(done[i].tag, i);
		cr_expect_eq(done[i].ticket.sequence, tickets[i].sequence);
		cr_expect_eq(ldr_scheduler_cancel(world.scheduler, tickets[i], NULL), LDR_ESTALE);
	}
}

/* ---- the network ---- */

Test(scheduler_end, what_waits_for_the_network_holds_no_worker)
{
	enum { REMOTE = 100, LOCAL = 100 };
	struct ldr_completion done[REMOTE];

	fake_open(&world.fake);
	for (unsigned i = 0; i < REMOTE; i++) {
		fake_rule_add(&world.fake, (struct fake_rule){.tag = 1000 + i, .remote = true});
		world_submit(&world, world_read(&world, 1000 + i, LDR_IO_CRITICAL));
	}
	fake_await_waits(&world.fake, REMOTE);
	await_running(0);
	cr_expect_eq(world_metrics(&world).waiting, REMOTE);
	for (unsigned i = 0; i < LOCAL; i++) {
		world_submit(&world, world_read(&world, i, LDR_IO_BACKGROUND));
		world_collect(&world, done, 1);
		cr_expect_eq(done[0].tag, i, "no local read behind a remote one");
	}
	cr_expect_eq(world_metrics(&world).waiting, REMOTE);
	fake_clock_add(&world.clock, 1000 * WORLD_MS);
	for (unsigned i = 0; i < REMOTE; i++)
		cr_assert(fake_arrive(&world.fake, 1000 + i, LDR_OK));
	world_collect(&world, done, REMOTE);
	for (unsigned i = 0; i < REMOTE; i++) {
		cr_expect_eq(done[i].status, LDR_OK);
		cr_expect_eq(done[i].length, 4096);
		cr_expect_eq(done[i].times.network_ns, 1000 * WORLD_MS);
	}
	cr_expect_eq(world_metrics(&world).network_waits, REMOTE);
	world_expect_idle(&world);
}

Test(scheduler_end, what_the_network_says_is_the_reads_end)
{
	static const enum ldr_status rows[] = {LDR_OK, LDR_ENET, LDR_ETIMEDOUT, LDR_ECORRUPT,
					       LDR_ENOTFOUND};

	fake_open(&world.fake);
	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .remote = true});
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_completion done;

		world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
		fake_await_waits(&world.fake, 1);
		cr_assert(fake_arrive(&world.fake, 1, rows[i]));
		world_collect(&world, &done, 1);
		cr_expect_eq(done.outcome, LDR_IO_DONE);
		cr_expect_eq(done.status, rows[i]);
		cr_expect_eq(done.length, rows[i] ? 0 : 4096);
	}
	world_expect_idle(&world);
}

Test(scheduler_end, cancelling_what_waits_for_the_network_ends_it_at_once)
{
	struct ldr_completion done;
	struct ldr_ticket ticket;

	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .remote = true});
	ticket = world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
	fake_await_waits(&world.fake, 1);
	await_running(0);
	expect_state(ticket, LDR_IO_WAITING);
	cancel(ticket);
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, &done, 1), 1);
	cr_expect_eq(done.outcome, LDR_IO_CANCELLED);
	cr_expect_eq(world.fake.released, 1);
	cr_expect_not(fake_arrive(&world.fake, 1, LDR_OK));
	world_expect_idle(&world);
}

/* A class that is changed reaches what is under way (V44). */
Test(scheduler_end, a_raise_reaches_the_network)
{
	struct ldr_completion done;
	struct ldr_ticket ticket;

	fake_open(&world.fake);
	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .remote = true});
	ticket = world_submit(&world, world_read(&world, 1, LDR_IO_BACKGROUND));
	fake_await_waits(&world.fake, 1);
	await_running(0);
	cr_expect_eq(fake_wait_priority(&world.fake, 1), LDR_PRIORITY_BACKGROUND);
	for (int i = LDR_IO_CRITICAL; i <= LDR_IO_BACKGROUND; i++) {
		cr_assert_eq(
			ldr_scheduler_reclass(world.scheduler, ticket, (enum ldr_io_class)i, NULL),
			LDR_OK);
		cr_expect_eq(fake_wait_priority(&world.fake, 1), i - 1);
	}
	cr_assert(fake_arrive(&world.fake, 1, LDR_OK));
	world_collect(&world, &done, 1);
	cr_expect_eq(done.status, LDR_OK);
}

/* A prefetch reads all of its range and gives no bytes. */
Test(scheduler_end, a_prefetch_fetches_each_piece)
{
	struct ldr_io_request request = world_read(&world, 1, LDR_IO_BACKGROUND);
	struct ldr_completion done;

	request.kind = LDR_IO_PREFETCH;
	request.bytes = NULL;
	request.length = 3 * LDR_SCHEDULER_PIECE_BYTES;
	fake_open(&world.fake);
	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .remote = true});
	world_submit(&world, request);
	for (unsigned i = 0; i < 3; i++) {
		fake_await_waits(&world.fake, 1);
		cr_assert(fake_arrive(&world.fake, 1, LDR_OK));
	}
	world_collect(&world, &done, 1);
	cr_expect_eq(done.status, LDR_OK);
	cr_expect_eq(done.length, 0);
	cr_expect_eq(world_metrics(&world).bytes_peak, 0);
}

/* ---- shutdown (A147, A148) ---- */

Test(scheduler_end, shutdown_cancels_what_has_not_started_and_leaves_ends_to_collect)
{
	struct ldr_io_request more = world_read(&world, 9, LDR_IO_NORMAL);
	struct ldr_completion done[12];
	struct ldr_error err = {0};

	fake_rule_add(&world.fake, (struct fake_rule){.tag = 7, .remote = true});
	world_submit(&world, world_read(&world, 7, LDR_IO_CRITICAL));
	fake_await_waits(&world.fake, 1);
	world_submit(&world, world_read(&world, 0, LDR_IO_CRITICAL));
	fake_await_started(&world.fake, 1);
	for (unsigned i = 0; i < 10; i++)
		world_submit(&world, world_read(&world, 8, LDR_IO_NORMAL));
	/* Stuck: it ends by its deadline and names the request. */
	cr_expect_eq(ldr_scheduler_shutdown(world.scheduler, 30, &err), LDR_ETIMEDOUT);
	cr_expect(strstr(err.text, "read of 4096 bytes at 0 (tag 0)"), "%s", err.text);
	cr_expect(strstr(err.text, "30 ms"), "%s", err.text);
	cr_expect_eq(ldr_scheduler_submit(world.scheduler, &more, NULL, &err), LDR_ECANCELLED);
	cr_expect_eq(world_metrics(&world).cancelled, 11);
	fake_open(&world.fake);
	cr_expect_eq(ldr_scheduler_shutdown(world.scheduler, WORLD_LONG_MS, &err), LDR_OK);
	cr_expect_eq(ldr_scheduler_shutdown(world.scheduler, 0, &err), LDR_OK);
	world_collect(&world, done, 12);
	for (unsigned i = 0; i < 12; i++)
		cr_expect_eq(done[i].outcome, LDR_IO_CANCELLED);
	cr_expect_eq(world.fake.started_count, 1);
	cr_expect_eq(ldr_scheduler_submit(world.scheduler, &more, NULL, NULL), LDR_ECANCELLED);
	world_expect_idle(&world);
}

Test(scheduler_end, drain_names_the_first_that_has_not_ended)
{
	struct ldr_error err = {0};

	world_submit(&world, world_read(&world, 31, LDR_IO_NORMAL));
	world_submit(&world, world_read(&world, 32, LDR_IO_NORMAL));
	fake_await_started(&world.fake, 1);
	cr_expect_eq(ldr_scheduler_drain(world.scheduler, 20, &err), LDR_ETIMEDOUT);
	cr_expect(strstr(err.text, "(tag 31)") && strstr(err.text, "1 others"), "%s", err.text);
	fake_open(&world.fake);
	cr_expect_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, &err), LDR_OK);
	cr_expect_eq(world_metrics(&world).ended, 2);
}

/* A backend that calls its scheduler. */
struct inner {
	struct ldr_scheduler *scheduler;
	enum ldr_status status;
};

static enum ldr_status shut_down_inside(void *context, const struct ldr_piece *piece,
					struct ldr_wait *wait, size_t *out_length,
					struct ldr_error *err)
{
	struct inner *inner = context;

	(void)wait, (void)err;
	inner->status = ldr_scheduler_shutdown(inner->scheduler, WORLD_LONG_MS, NULL);
	*out_length = piece->length;
	return LDR_OK;
}

Test(scheduler_end, a_worker_cannot_shut_down_its_own_scheduler)
{
	struct inner inner = {.status = LDR_OK};
	const struct ldr_backend backend = {
		.name = "inner", .context = &inner, .read = shut_down_inside};
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_io_request request = world_read(&world, 1, LDR_IO_NORMAL);
	struct ldr_completion done;

	options.backend = &backend;
	cr_assert_eq(ldr_scheduler_new(&options, &inner.scheduler, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_submit(inner.scheduler, &request, NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_wait(inner.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(inner.scheduler, &done, 1), 1);
	cr_expect_eq(inner.status, LDR_EDENIED);
	cr_expect_eq(ldr_scheduler_submit(inner.scheduler, &request, NULL, NULL), LDR_OK);
	ldr_scheduler_free(inner.scheduler);
}

/* What nobody collected is given up: the leak checker looks (A148). */
Test(scheduler_end, free_gives_up_what_was_not_collected)
{
	struct ldr_io_request rows[] = {
		{.kind = LDR_IO_OPEN, .vfs = world.vfs, .path = "file"},
		{.kind = LDR_IO_LIST, .vfs = world.vfs, .path = "folder"},
		{.kind = LDR_IO_STAT, .vfs = world.vfs, .path = "nothing"},
	};
	struct ldr_vfs_metrics metrics;

	for (unsigned i = 0; i < 3; i++)
		world_submit(&world, rows[i]);
	world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
	fake_open(&world.fake);
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	ldr_scheduler_free(world.scheduler);
	world.scheduler = NULL;
	ldr_vfs_metrics(world.vfs, &metrics);
	cr_expect_eq(metrics.handles_open, 1, "the world's own");
}

/* ---- slow layers ---- */

struct slow_world {
	struct gate gate;
	struct ldr_vfs *vfs;
	struct ldr_scheduler *scheduler; /* over the layers, one worker */
};

static void slow_make(struct slow_world *slow)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	struct ldr_mount mount = {.id = 3, .flags = LDR_MOUNT_WRITE};

	options.workers = 1;
	gate_init(&slow->gate);
	cr_assert_eq(ldr_vfs_new(NULL, &slow->vfs, NULL), LDR_OK);
	cr_assert_eq(gate_layer_new(&slow->gate, &mount.layer, NULL), LDR_OK);
	cr_assert_eq(ldr_vfs_mount(slow->vfs, &mount, NULL), LDR_OK);
	ldr_layer_unref(mount.layer);
	cr_assert_eq(ldr_scheduler_new(&options, &slow->scheduler, NULL), LDR_OK);
}

static void slow_remove(struct slow_world *slow)
{
	gate_open(&slow->gate);
	ldr_scheduler_free(slow->scheduler);
	ldr_vfs_free(slow->vfs);
	cr_expect_eq(slow->gate.freed, 1);
	gate_dispose(&slow->gate);
}

/* A slow open holds neither the caller nor the reads (V48); cancelled, its file is closed. */
Test(scheduler_end, a_slow_open_blocks_nobody)
{
	struct ldr_io_request read = world_read(&world, 2, LDR_IO_BACKGROUND);
	struct ldr_io_request opens[2] = {
		{.kind = LDR_IO_READ, .path = "slow", .bytes = world.bytes, .length = 8, .tag = 1},
		{.kind = LDR_IO_OPEN, .path = "slow", .tag = 3},
	};
	struct ldr_completion done[3];
	struct slow_world slow;
	struct ldr_ticket tickets[2];

	slow_make(&slow);
	for (unsigned i = 0; i < 2; i++) {
		opens[i].vfs = slow.vfs;
		cr_assert_eq(ldr_scheduler_submit(slow.scheduler, &opens[i], &tickets[i], NULL),
			     LDR_OK);
	}
	gate_await(&slow.gate, 1);
	read.length = 10;
	cr_assert_eq(ldr_scheduler_submit(slow.scheduler, &read, NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_wait(slow.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(slow.scheduler, done, 3), 1);
	cr_expect_eq(done[0].tag, 2);
	cr_expect_eq(done[0].length, 10);
	cr_assert_eq(ldr_scheduler_cancel(slow.scheduler, tickets[0], NULL), LDR_OK);
	gate_open(&slow.gate);
	cr_assert_eq(ldr_scheduler_drain(slow.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(slow.scheduler, done, 3), 2);
	cr_expect_eq(done[0].outcome, LDR_IO_CANCELLED);
	cr_expect_null(done[0].file);
	cr_expect_eq(done[1].outcome, LDR_IO_DONE);
	cr_expect_eq(slow.gate.closed, 1);
	ldr_file_close(done[1].file);
	slow_remove(&slow);
}

/* What is visible is never called cancelled (P16); what has not begun is. */
Test(scheduler_end, a_save_that_runs_is_not_cancelled)
{
	struct ldr_io_request save = {
		.kind = LDR_IO_REPLACE, .path = "slow", .source = "x", .length = 1};
	struct ldr_ticket tickets[2];
	struct ldr_completion done[2];
	struct slow_world slow;

	slow_make(&slow);
	save.vfs = slow.vfs;
	for (unsigned i = 0; i < 2; i++) {
		save.tag = i;
		cr_assert_eq(ldr_scheduler_submit(slow.scheduler, &save, &tickets[i], NULL),
			     LDR_OK);
		if (i == 0)
			gate_await(&slow.gate, 1);
	}
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(ldr_scheduler_cancel(slow.scheduler, tickets[i], NULL), LDR_OK);
	gate_open(&slow.gate);
	cr_assert_eq(ldr_scheduler_drain(slow.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(slow.scheduler, done, 2), 2);
	cr_expect_eq(done[0].tag, 1);
	cr_expect_eq(done[0].outcome, LDR_IO_CANCELLED);
	cr_expect_eq(done[1].outcome, LDR_IO_DONE);
	cr_expect_eq(done[1].status, LDR_OK);
	cr_expect_eq(slow.gate.replaced, 1);
	slow_remove(&slow);
}

/* Unmounted by force in the middle: what runs ends as it would, what comes after it is stale. */
Test(scheduler_end, an_unmount_in_the_middle)
{
	struct ldr_io_request read = world_read(&world, 1, LDR_IO_NORMAL);
	struct ldr_completion done[3];
	struct slow_world slow;
	struct ldr_file *file;

	slow_make(&slow);
	gate_open(&slow.gate);
	cr_assert_eq(ldr_vfs_open(slow.vfs, "slow", LDR_OPEN_READ, &file, NULL), LDR_OK);
	slow.gate.open = false;
	read.file = file;
	for (unsigned i = 0; i < 3; i++) {
		read.tag = i;
		cr_assert_eq(ldr_scheduler_submit(slow.scheduler, &read, NULL, NULL), LDR_OK);
	}
	ldr_file_close(file); /* the requests keep it */
	gate_await(&slow.gate, 1);
	cr_assert_eq(ldr_vfs_unmount(slow.vfs, 3, true, NULL), LDR_OK);
	cr_expect_eq(slow.gate.closed, 0);
	gate_open(&slow.gate);
	cr_assert_eq(ldr_scheduler_drain(slow.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(slow.scheduler, done, 3), 3);
	cr_expect_eq(done[0].status, LDR_OK);
	cr_expect_eq(done[0].length, 4096);
	cr_expect_eq(done[0].mount_id, 3);
	for (unsigned i = 1; i < 3; i++)
		cr_expect_eq(done[i].status, LDR_ESTALE, "%s", done[i].error.text);
	cr_expect_eq(slow.gate.closed, 1, "by the last of them");
	slow_remove(&slow);
}
