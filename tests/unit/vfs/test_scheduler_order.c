/*
 * Which request goes next, and when: deadlines, classes, first come, ageing, the cutting of long
 * reads, lanes. The clock is the test's, and each piece waits at the fake backend's gate until the
 * test lets it go on, so every order is told by the tags in which pieces begin.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/vfs/scheduler_world.h"
#include "vfs/queue.h"

#define START_NS (1000 * WORLD_MS)

static struct scheduler_world world;

static void setup(void)
{
	world_make(&world, NULL);
}

static void teardown(void)
{
	world_remove(&world);
}

TestSuite(scheduler_order, .init = setup, .fini = teardown);

/* The one worker is busy with tag 0 until the gate lets it go. */
static void occupy(void)
{
	world_submit(&world, world_read(&world, 0, LDR_IO_CRITICAL));
	fake_await_started(&world.fake, 1);
}

struct waiting {
	uint64_t tag;
	enum ldr_io_class io_class;
	uint64_t deadline_ms; /* after the start; 0: none */
	uint64_t age_ms;      /* how long it will have waited when the worker comes free */
};

static void submit_waiting(const struct waiting *row)
{
	struct ldr_io_request request = world_read(&world, row->tag, row->io_class);

	if (row->deadline_ms)
		request.deadline_ns = START_NS + row->deadline_ms * WORLD_MS;
	world_submit(&world, request);
}

/* ---- order (A139, V40, V41) ---- */

Test(scheduler_order, deadline_then_class_then_first_come)
{
	static const struct {
		const char *what;
		struct waiting in[6];
		uint64_t out[6];
	} rows[] = {
		{"first come among equals",
		 {{1, LDR_IO_NORMAL, 0, 0}, {2, LDR_IO_NORMAL, 0, 0}, {3, LDR_IO_NORMAL, 0, 0}},
		 {1, 2, 3}},
		{"class",
		 {{1, LDR_IO_BACKGROUND, 0, 0},
		  {2, LDR_IO_NORMAL, 0, 0},
		  {3, LDR_IO_HIGH, 0, 0},
		  {4, LDR_IO_CRITICAL, 0, 0}},
		 {4, 3, 2, 1}},
		{"default is normal",
		 {{1, LDR_IO_BACKGROUND, 0, 0},
		  {2, LDR_IO_DEFAULT, 0, 0},
		  {3, LDR_IO_NORMAL, 0, 0}},
		 {2, 3, 1}},
		{"a deadline goes before every class",
		 {{1, LDR_IO_CRITICAL, 0, 0}, {2, LDR_IO_BACKGROUND, 900, 0}},
		 {2, 1}},
		{"the earlier deadline, whatever the class",
		 {{1, LDR_IO_CRITICAL, 300, 0},
		  {2, LDR_IO_BACKGROUND, 100, 0},
		  {3, LDR_IO_NORMAL, 200, 0}},
		 {2, 3, 1}},
		{"class among equal deadlines",
		 {{1, LDR_IO_BACKGROUND, 100, 0},
		  {2, LDR_IO_HIGH, 100, 0},
		  {3, LDR_IO_HIGH, 100, 0}},
		 {2, 3, 1}},
		{"below the threshold age says nothing",
		 {{1, LDR_IO_BACKGROUND, 0, 4}, {2, LDR_IO_CRITICAL, 0, 0}},
		 {2, 1}},
		{"at the threshold the oldest goes first, and then the order counts again",
		 {{1, LDR_IO_BACKGROUND, 0, 5},
		  {2, LDR_IO_NORMAL, 0, 0},
		  {3, LDR_IO_CRITICAL, 0, 0}},
		 {1, 3, 2}},
		{"past the threshold also before a deadline",
		 {{1, LDR_IO_BACKGROUND, 0, 7}, {2, LDR_IO_CRITICAL, 100, 0}},
		 {1, 2}},
		{"of several past the threshold the oldest",
		 {{1, LDR_IO_BACKGROUND, 0, 9},
		  {2, LDR_IO_NORMAL, 0, 7},
		  {3, LDR_IO_HIGH, 0, 6},
		  {4, LDR_IO_CRITICAL, 0, 0}},
		 {1, 2, 3, 4}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_completion done[7];
		unsigned count = 0, at = world.fake.started_count;

		atomic_store(&world.clock.now_ns, START_NS);
		world_submit(&world, world_read(&world, 0, LDR_IO_CRITICAL));
		fake_await_started(&world.fake, at + 1);
		for (; rows[i].in[count].tag; count++) {
			submit_waiting(&rows[i].in[count]);
			if (rows[i].in[count].age_ms)
				fake_clock_add(&world.clock, (rows[i].in[count].age_ms -
							      rows[i].in[count + 1].age_ms) *
								     WORLD_MS);
		}
		fake_allow(&world.fake, count + 1);
		world_collect(&world, done, count + 1);
		for (unsigned k = 0; k < count; k++)
			cr_expect_eq(world.fake.started[at + 1 + k], rows[i].out[k],
				     "%s: place %u has %llu", rows[i].what, k,
				     (unsigned long long)world.fake.started[at + 1 + k]);
	}
}

/* The queue against a model that looks at everything, over random puts, takes and changes. */
struct model {
	struct ldr_queue_node nodes[64];
	bool in[64];
};

static struct ldr_queue_node *model_next(struct model *model, uint64_t now_ns, uint64_t starvation)
{
	struct ldr_queue_node *oldest = NULL, *best = NULL;

	for (unsigned i = 0; i < 64; i++) {
		struct ldr_queue_node *node = &model->nodes[i];
		uint64_t deadline = node->deadline_ns ? node->deadline_ns : UINT64_MAX,
			 best_deadline;

		if (!model->in[i])
			continue;
		/* Entered at the same time: the one that was put first, whose order is lower here. */
		if (!oldest || node->entered_ns < oldest->entered_ns ||
		    (node->entered_ns == oldest->entered_ns && node->order < oldest->order))
			oldest = node;
		best_deadline = best && best->deadline_ns ? best->deadline_ns : UINT64_MAX;
		if (!best || deadline < best_deadline ||
		    (deadline == best_deadline &&
		     (node->io_class < best->io_class ||
		      (node->io_class == best->io_class && node->order < best->order))))
			best = node;
	}
	return oldest && now_ns - oldest->entered_ns >= starvation ? oldest : best;
}

Test(scheduler_order, the_queue_agrees_with_a_model_that_looks_at_everything)
{
	static struct model model;
	struct ldr_queue queue;
	uint64_t now_ns = 0, order = 0;
	unsigned random = 1, compared = 0, starved = 0;

	cr_assert_eq(ldr_queue_init(&queue, 64, 600, NULL), LDR_OK);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i, what;
		struct ldr_queue_node *node, *next;

		random = random * 1664525u + 1013904223u;
		i = random >> 26;
		what = (random >> 20) % 8;
		node = &model.nodes[i];
		now_ns += (random >> 12) % 4;
		if (!model.in[i] && what < 4) {
			node->deadline_ns = what == 0 ? 1 + (random >> 8) % 1000 : 0;
			node->io_class = 1 + (random >> 16) % 4;
			node->order = order++;
			ldr_queue_put(&queue, node, now_ns);
			model.in[i] = true;
		} else if (model.in[i] && what == 4) {
			ldr_queue_remove(&queue, node);
			model.in[i] = false;
		} else if (model.in[i] && what == 5) {
			ldr_queue_reclass(&queue, node, 1 + (random >> 16) % 4);
		} else if (what > 5) {
			next = model_next(&model, now_ns, 600);
			cr_assert_eq(ldr_queue_peek(&queue, now_ns), next, "step %u", step);
			compared += next != NULL;
			starved += next && now_ns - next->entered_ns >= 600;
			if (next) {
				ldr_queue_remove(&queue, next);
				model.in[next - model.nodes] = false;
			}
		}
	}
	cr_expect_gt(compared, 10000);
	cr_expect_gt(starved, 1000);
	cr_expect_lt(starved, compared - 1000);
	ldr_queue_dispose(&queue);
}

/* ---- the bound on waiting (V38) ---- */

/* Reads of class high come for sixty seconds, always more than can be done. Each takes ten
 * milliseconds. One of class background is done within the threshold and what was queued before it.
 */
Test(scheduler_order, the_lowest_class_waits_no_longer_than_the_bound)
{
	const unsigned ahead = 20, seconds = 60;
	struct ldr_completion done[32];
	uint64_t background = 0, low_submitted = 0, low_started = 0, worst_ns = 0;
	unsigned lows = 0;

	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .step_ns = 10 * WORLD_MS});
	occupy();
	for (unsigned i = 0; i < ahead; i++)
		world_submit(&world, world_read(&world, 1, LDR_IO_HIGH));
	for (unsigned step = 0; step < seconds * 100; step++) {
		size_t count;

		if (!background) {
			world_submit(&world, world_read(&world, 2, LDR_IO_BACKGROUND));
			low_submitted = atomic_load(&world.clock.now_ns);
			background = 1;
		}
		fake_allow(&world.fake, 1);
		fake_await_started(&world.fake, step + 2);
		count = ldr_scheduler_poll(world.scheduler, done, 32);
		for (size_t i = 0; i < count; i++) {
			if (done[i].tag != 2) {
				world_submit(&world, world_read(&world, 1, LDR_IO_HIGH));
				continue;
			}
			low_started = done[i].times.started_ns;
			if (low_started - low_submitted > worst_ns)
				worst_ns = low_started - low_submitted;
			background = 0;
			lows++;
		}
	}
	cr_expect_gt(lows, 100);
	/* 5 ms until it is the oldest that counts, then those that were there before it. */
	cr_expect_leq(worst_ns, (5 + 10 * (ahead + 2)) * WORLD_MS, "%llu",
		      (unsigned long long)worst_ns);
	cr_expect_geq(worst_ns, 5 * WORLD_MS);
}

/* ---- deadlines (A140, P3) ---- */

Test(scheduler_order, a_deadline_is_the_latest_start)
{
	static const struct {
		uint64_t deadline_ms;
		uint64_t passed_ms;
		enum ldr_io_outcome outcome;
	} rows[] = {
		{1, 0, LDR_IO_DONE}, {1, 1, LDR_IO_DONE},      {1, 2, LDR_IO_EXPIRED},
		{4, 3, LDR_IO_DONE}, {3, 400, LDR_IO_EXPIRED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_io_request request = world_read(&world, 9, LDR_IO_NORMAL);
		unsigned at = world.fake.started_count;
		struct ldr_completion done[2];

		world_submit(&world, world_read(&world, 0, LDR_IO_CRITICAL));
		fake_await_started(&world.fake, at + 1);
		request.deadline_ns = atomic_load(&world.clock.now_ns) +
				      rows[i].deadline_ms * WORLD_MS;
		request.bytes = world.bytes + 8192;
		memset(request.bytes, 0xee, 4096);
		world_submit(&world, request);
		fake_clock_add(&world.clock, rows[i].passed_ms * WORLD_MS);
		if (rows[i].outcome == LDR_IO_EXPIRED) {
			/* Known at the next poll, while the worker is still busy. */
			cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 1), 1);
			cr_expect_eq(done[0].status, LDR_ETIMEDOUT);
			cr_expect_eq(done[0].length, 0);
			cr_expect_eq(done[0].times.started_ns, 0);
			for (unsigned k = 0; k < 4096; k++)
				cr_assert_eq(world.bytes[8192 + k], 0xee);
		}
		fake_allow(&world.fake, rows[i].outcome == LDR_IO_EXPIRED ? 1 : 2);
		if (rows[i].outcome != LDR_IO_EXPIRED) {
			world_collect(&world, done + 1, 1);
			world_collect(&world, done, 1);
		} else {
			world_collect(&world, done + 1, 1);
		}
		cr_expect_eq(done[0].tag, 9);
		cr_expect_eq(done[0].outcome, rows[i].outcome, "row %zu", i);
	}
	cr_expect_eq(world_metrics(&world).expired, 2);
	world_expect_idle(&world);
}

Test(scheduler_order, what_has_started_never_expires)
{
	struct ldr_io_request request = world_read(&world, 1, LDR_IO_NORMAL);
	struct ldr_completion done[2];

	request.length = 3 * LDR_SCHEDULER_PIECE_BYTES;
	request.deadline_ns = START_NS + WORLD_MS;
	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .step_ns = 10 * WORLD_MS});
	world_submit(&world, request);
	fake_await_started(&world.fake, 1);
	/* Something that it lets pass, so that it is queued again after its deadline. */
	request = world_read(&world, 2, LDR_IO_NORMAL);
	request.deadline_ns = START_NS + 500 * WORLD_MS;
	world_submit(&world, request);
	fake_open(&world.fake);
	world_collect(&world, done, 2);
	cr_expect_geq(world_metrics(&world).passes, 1);
	for (unsigned i = 0; i < 2; i++)
		cr_expect_eq(done[i].outcome, LDR_IO_DONE, "%llu", (unsigned long long)done[i].tag);
}

/* ---- long reads are cut ---- */

Test(scheduler_order, a_long_read_lets_more_urgent_ones_pass_between_its_pieces)
{
	static const struct {
		enum ldr_io_class own, other;
		uint64_t own_deadline_ms, other_deadline_ms;
		uint64_t passed_ms;
		uint64_t order[5];
		unsigned passes;
	} rows[] = {
		{LDR_IO_BACKGROUND, LDR_IO_CRITICAL, 0, 0, 0, {1, 2, 1, 1}, 1},
		{LDR_IO_NORMAL, LDR_IO_HIGH, 0, 0, 4, {1, 2, 1, 1}, 1},
		{LDR_IO_NORMAL, LDR_IO_NORMAL, 0, 0, 0, {1, 1, 1, 2}, 0},
		{LDR_IO_HIGH, LDR_IO_NORMAL, 0, 0, 4, {1, 1, 1, 2}, 0},
		{LDR_IO_HIGH, LDR_IO_BACKGROUND, 0, 0, 5, {1, 2, 1, 1}, 1},
		{LDR_IO_CRITICAL, LDR_IO_BACKGROUND, 0, 90, 0, {1, 2, 1, 1}, 1},
		{LDR_IO_BACKGROUND, LDR_IO_CRITICAL, 90, 0, 0, {1, 1, 1, 2}, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_io_request request = world_read(&world, 1, rows[i].own);
		unsigned at = world.fake.started_count;
		uint64_t passes = world_metrics(&world).passes;
		struct ldr_completion done[2];

		atomic_store(&world.clock.now_ns, START_NS);
		request.length = 3 * LDR_SCHEDULER_PIECE_BYTES;
		if (rows[i].own_deadline_ms)
			request.deadline_ns = START_NS + rows[i].own_deadline_ms * WORLD_MS;
		world_submit(&world, request);
		fake_await_started(&world.fake, at + 1);
		submit_waiting(&(struct waiting){2, rows[i].other, rows[i].other_deadline_ms, 0});
		fake_clock_add(&world.clock, rows[i].passed_ms * WORLD_MS);
		fake_allow(&world.fake, 4);
		world_collect(&world, done, 2);
		for (unsigned k = 0; k < 4; k++)
			cr_expect_eq(world.fake.started[at + k], rows[i].order[k],
				     "row %zu place %u", i, k);
		cr_expect_eq(world_metrics(&world).passes - passes, rows[i].passes, "row %zu", i);
		for (unsigned k = 0; k < 2; k++) {
			if (done[k].tag == 1)
				cr_expect_eq(done[k].length, 3 * LDR_SCHEDULER_PIECE_BYTES);
		}
	}
	for (size_t k = 4096; k < 3 * LDR_SCHEDULER_PIECE_BYTES; k++)
		cr_assert_eq(world.bytes[k], fake_byte(k), "byte %zu", k);
}

Test(scheduler_order, a_raised_request_goes_by_its_new_class)
{
	struct ldr_ticket tickets[4];
	struct ldr_completion done[4];

	occupy();
	for (unsigned i = 1; i < 4; i++)
		tickets[i] = world_submit(&world, world_read(&world, i, LDR_IO_NORMAL));
	cr_assert_eq(ldr_scheduler_reclass(world.scheduler, tickets[3], LDR_IO_CRITICAL, NULL),
		     LDR_OK);
	cr_assert_eq(ldr_scheduler_reclass(world.scheduler, tickets[1], LDR_IO_BACKGROUND, NULL),
		     LDR_OK);
	fake_open(&world.fake);
	world_collect(&world, done, 4);
	cr_expect_eq(done[1].tag, 3);
	cr_expect_eq(done[2].tag, 2);
	cr_expect_eq(done[3].tag, 1);
	cr_expect_eq(ldr_scheduler_reclass(world.scheduler, tickets[1], LDR_IO_HIGH, NULL),
		     LDR_ESTALE);
}

/* ---- lanes (P17, V48) ---- */

/* While every reader is stuck, opens, listings and saves go on; and the other way round. */
Test(scheduler_order, names_and_saves_do_not_wait_for_reads)
{
	struct ldr_io_request rows[] = {
		{.kind = LDR_IO_OPEN, .vfs = world.vfs, .path = "file", .tag = 10},
		{.kind = LDR_IO_LIST, .vfs = world.vfs, .path = "folder", .tag = 11},
		{.kind = LDR_IO_REPLACE, .vfs = world.vfs, .path = "save", .tag = 12},
		{.kind = LDR_IO_STAT, .vfs = world.vfs, .path = "file", .tag = 13},
	};
	struct ldr_completion done[4];

	occupy();
	for (unsigned i = 0; i < 8; i++)
		world_submit(&world, world_read(&world, 1, LDR_IO_CRITICAL));
	for (unsigned i = 0; i < 4; i++)
		world_submit(&world, rows[i]);
	world_collect(&world, done, 4);
	for (unsigned i = 0; i < 4; i++) {
		cr_expect_geq(done[i].tag, 10);
		cr_expect_eq(done[i].status, LDR_OK);
		ldr_file_close(done[i].file);
		ldr_list_free(done[i].list);
	}
	cr_expect_eq(world_metrics(&world).queued_reads, 8);
	cr_expect_eq(world_metrics(&world).running, 1);
}

/* Saves to one path come to be in the order in which they were asked for (P16). */
Test(scheduler_order, saves_keep_their_order)
{
	char texts[64][4], bytes[8] = "";
	struct ldr_completion done[64];
	size_t got;

	for (unsigned i = 0; i < 64; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%03u", i);
		world_submit(&world, (struct ldr_io_request){.kind = LDR_IO_REPLACE,
							     .vfs = world.vfs,
							     .path = "file",
							     .source = texts[i],
							     .length = 3,
							     .tag = i});
	}
	world_collect(&world, done, 64);
	for (unsigned i = 0; i < 64; i++)
		cr_expect_eq(done[i].tag, i);
	ldr_file_close(world.file);
	cr_assert_eq(ldr_vfs_open(world.vfs, "file", LDR_OPEN_READ, &world.file, NULL), LDR_OK);
	cr_assert_eq(ldr_file_pread(world.file, bytes, 8, 0, &got, NULL), LDR_OK);
	cr_expect_str_eq(bytes, "063");
}
