/*
 * The scheduler's requests from submit to poll: options, every kind of request, admission, results,
 * tickets. Order and time are in test_scheduler_order.c, ends in test_scheduler_end.c.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

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

TestSuite(scheduler, .init = setup, .fini = teardown);

/* ---- options (A132) ---- */

Test(scheduler, options_out_of_range_are_refused_by_name)
{
	static const struct {
		const char *what;
		size_t at;
		size_t width;
		uint64_t value;
		enum ldr_status status;
	} rows[] = {
#define ROW(field, value, status)                               \
	{#field, offsetof(struct ldr_scheduler_options, field), \
	 sizeof(((struct ldr_scheduler_options *)0)->field), value, status}
		ROW(max_requests, 0, LDR_EINVAL),
		ROW(max_requests, 1, LDR_OK),
		ROW(max_requests, 4096, LDR_OK),
		ROW(max_requests, 4097, LDR_EINVAL),
		ROW(workers, 0, LDR_OK),
		ROW(workers, 1, LDR_OK),
		ROW(workers, 64, LDR_OK),
		ROW(workers, 65, LDR_EINVAL),
		ROW(name_workers, 0, LDR_EINVAL),
		ROW(name_workers, 8, LDR_OK),
		ROW(name_workers, 9, LDR_EINVAL),
		ROW(trace_records, 0, LDR_OK),
		ROW(trace_records, 4096, LDR_OK),
		ROW(trace_records, 4097, LDR_EINVAL),
		ROW(max_bytes, 0, LDR_EINVAL),
		ROW(max_bytes, 1, LDR_OK),
		ROW(max_bytes, UINT64_MAX, LDR_OK),
		ROW(starvation_ns, 0, LDR_EINVAL),
		ROW(starvation_ns, 1, LDR_OK),
		ROW(starvation_ns, UINT64_MAX, LDR_OK),
		ROW(size, 8, LDR_EINVAL),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_scheduler_options options = ldr_scheduler_defaults();
		LDR_AUTO_SCHEDULER struct ldr_scheduler *made = NULL;
		struct ldr_error err = {0};

		memcpy((char *)&options + rows[i].at, &rows[i].value, rows[i].width);
		cr_expect_eq(ldr_scheduler_new(&options, &made, &err), rows[i].status, "%s = %llu",
			     rows[i].what, (unsigned long long)rows[i].value);
		if (rows[i].status)
			cr_expect(strstr(err.text, rows[i].what), "%s", err.text);
	}
}

Test(scheduler, defaults_are_the_documented_ones)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();

	cr_expect_eq(options.max_requests, 256);
	cr_expect_eq(options.workers, 2);
	cr_expect_eq(options.name_workers, 1);
	cr_expect_eq(options.trace_records, 0);
	cr_expect_eq(options.max_bytes, 16u << 20);
	cr_expect_eq(options.starvation_ns, 5000000);
}

/* ---- one read ---- */

Test(scheduler, a_read_is_completed_once_with_its_bytes)
{
	struct ldr_io_request request = world_read(&world, 42, LDR_IO_DEFAULT);
	struct ldr_completion done;
	struct ldr_ticket ticket;

	request.offset = 1000;
	request.length = 3000;
	fake_open(&world.fake);
	ticket = world_submit(&world, request);
	world_collect(&world, &done, 1);
	cr_expect_eq(done.ticket.sequence, ticket.sequence);
	cr_expect_eq(done.tag, 42);
	cr_expect_eq(done.kind, LDR_IO_READ);
	cr_expect_eq(done.outcome, LDR_IO_DONE);
	cr_expect_eq(done.status, LDR_OK);
	cr_expect_eq(done.length, 3000);
	cr_expect_eq(done.mount_id, WORLD_MOUNT);
	cr_expect_neq(done.mount_generation, UINT64_MAX);
	for (size_t i = 0; i < 3000; i++)
		cr_assert_eq(world.bytes[i], fake_byte(1000 + i), "byte %zu", i);
	cr_expect_eq(ldr_scheduler_poll(world.scheduler, &done, 1), 0);
	world_expect_idle(&world);
}

/* What a backend may give: short transfers, ends, failures (A135, V46). */
Test(scheduler, results_of_reads)
{
	static const struct {
		struct fake_rule rule;
		size_t length;
		uint64_t offset;
		enum ldr_status status;
		size_t got;
		unsigned pieces;
	} rows[] = {
		{{.tag = 1}, 4096, 0, LDR_OK, 4096, 1},
		{{.tag = 2}, 0, 0, LDR_OK, 0, 0},
		{{.tag = 3, .file_bytes = 100}, 4096, 0, LDR_OK, 100, 2},
		{{.tag = 4, .file_bytes = 100}, 4096, 100, LDR_OK, 0, 1},
		{{.tag = 5, .file_bytes = 100}, 4096, 5000, LDR_OK, 0, 1},
		{{.tag = 6, .most = 1}, 100, 7, LDR_OK, 100, 100},
		{{.tag = 7, .most = 1000}, 4096, 0, LDR_OK, 4096, 5},
		{{.tag = 8, .status = LDR_EIO}, 4096, 0, LDR_EIO, 0, 1},
		{{.tag = 9}, 256 * 1024, 0, LDR_OK, 256 * 1024, 1},
		{{.tag = 10}, 256 * 1024 + 1, 0, LDR_OK, 256 * 1024 + 1, 2},
		{{.tag = 11}, 1 << 20, 0, LDR_OK, 1 << 20, 4},
		{{.tag = 12}, 16, UINT64_MAX - 16, LDR_OK, 16, 1},
	};

	fake_open(&world.fake);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_io_request request = world_read(&world, rows[i].rule.tag, LDR_IO_HIGH);
		uint64_t pieces = world_metrics(&world).pieces;
		struct ldr_completion done;

		request.length = rows[i].length;
		request.offset = rows[i].offset;
		fake_rule_add(&world.fake, rows[i].rule);
		world_submit(&world, request);
		world_collect(&world, &done, 1);
		cr_expect_eq(done.outcome, LDR_IO_DONE);
		cr_expect_eq(done.status, rows[i].status, "row %zu", i);
		cr_expect_eq(done.length, rows[i].got, "row %zu: %zu", i, done.length);
		cr_expect_eq(world_metrics(&world).pieces - pieces, rows[i].pieces, "row %zu", i);
		for (size_t k = 0; k < done.length; k++)
			cr_assert_eq(world.bytes[k], fake_byte(rows[i].offset + k));
		if (rows[i].status) {
			cr_expect_eq(done.error.sys_errno, 5);
			cr_expect(strstr(done.error.text, "tag 8"), "%s", done.error.text);
		}
	}
	world_expect_idle(&world);
}

/* ---- all kinds, through real layers, with threads and without ---- */

static void check_kinds(struct ldr_scheduler *scheduler)
{
	struct ldr_list_entry entry;
	char bytes[16] = "";
	struct {
		struct ldr_io_request request;
		enum ldr_status status;
		size_t length;
	} rows[] = {
		{{.kind = LDR_IO_REPLACE, .path = "new", .source = "fresh", .length = 5}, 0, 5},
		{{.kind = LDR_IO_READ, .path = "new", .bytes = bytes, .length = 16}, 0, 5},
		{{.kind = LDR_IO_READ,
		  .file = world.file,
		  .bytes = bytes,
		  .length = 3,
		  .offset = 8},
		 0,
		 2},
		{{.kind = LDR_IO_READ, .path = "nothing", .bytes = bytes, .length = 16},
		 LDR_ENOTFOUND,
		 0},
		{{.kind = LDR_IO_READ, .path = "folder", .bytes = bytes, .length = 16},
		 LDR_EISDIR,
		 0},
		{{.kind = LDR_IO_STAT, .path = "folder/other"}, 0, 0},
		{{.kind = LDR_IO_STAT, .path = "a//b"}, LDR_EINVAL, 0},
		{{.kind = LDR_IO_LIST, .path = "folder"}, 0, 0},
		{{.kind = LDR_IO_LIST, .path = "file"}, LDR_ENOTDIR, 0},
		{{.kind = LDR_IO_OPEN, .path = "file"}, 0, 0},
		{{.kind = LDR_IO_OPEN, .path = "gone"}, LDR_ENOTFOUND, 0},
		{{.kind = LDR_IO_OPEN, .path = "made", .open_flags = LDR_OPEN_WRITE}, 0, 0},
		{{.kind = LDR_IO_PREFETCH, .file = world.file, .length = 1 << 20}, 0, 0},
		{{.kind = LDR_IO_PREFETCH, .path = "file", .length = 10}, 0, 0},
	};

	struct ldr_completion done[sizeof(rows) / sizeof(rows[0])];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_error err = {0};

		if (rows[i].request.path)
			rows[i].request.vfs = world.vfs;
		rows[i].request.tag = i;
		cr_assert_eq(ldr_scheduler_submit(scheduler, &rows[i].request, NULL, &err), LDR_OK,
			     "row %zu: %s", i, err.text);
		cr_assert_eq(ldr_scheduler_wait(scheduler, WORLD_LONG_MS, &err), LDR_OK);
		cr_assert_eq(ldr_scheduler_poll(scheduler, &done[i], 1), 1);
		cr_expect_eq(done[i].tag, i);
		cr_expect_eq(done[i].kind, rows[i].request.kind);
		cr_expect_eq(done[i].status, rows[i].status, "row %zu: %s", i, done[i].error.text);
		if (rows[i].request.kind == LDR_IO_READ)
			cr_expect_eq(done[i].length, rows[i].length, "row %zu", i);
	}
	cr_expect_eq(memcmp(bytes, "89", 2), 0);
	cr_expect_eq(done[1].mount_id, WORLD_MOUNT);
	cr_expect_eq(done[5].stat.size_bytes, 5);
	cr_expect_eq(ldr_list_count(done[7].list), 1);
	ldr_list_at(done[7].list, 0, &entry);
	cr_expect_str_eq(entry.name, "other");
	cr_expect_eq(ldr_file_pwrite(done[11].file, "x", 1, 0, NULL), LDR_OK);
	ldr_list_free(done[7].list);
	ldr_file_close(done[9].file);
	ldr_file_close(done[11].file);
}

Test(scheduler, every_kind_of_request)
{
	for (uint32_t workers = 0; workers < 5; workers += 2) {
		struct ldr_scheduler_options options = ldr_scheduler_defaults();
		LDR_AUTO_SCHEDULER struct ldr_scheduler *real = NULL;
		struct ldr_scheduler_metrics m;

		options.workers = workers;
		cr_assert_eq(ldr_scheduler_new(&options, &real, NULL), LDR_OK);
		cr_expect_str_eq(ldr_scheduler_backend(real), "layers");
		check_kinds(real);
		ldr_scheduler_metrics(real, &m);
		cr_expect_eq(m.accepted, 14);
		cr_expect_eq(m.done, 14);
		cr_expect_eq(m.failed, 5);
		cr_expect_eq(m.requests + m.bytes + m.running + m.ended, 0);
		cr_assert_eq(ldr_vfs_remove(world.vfs, "new", NULL), LDR_OK);
		cr_assert_eq(ldr_vfs_remove(world.vfs, "made", NULL), LDR_OK);
	}
}

/* Submitting by path opens nothing on the caller's thread (V48): the open waits for its worker. */
Test(scheduler, synchronous_work_is_done_before_submit_returns)
{
	struct ldr_scheduler_options options = world_options(&world);
	LDR_AUTO_SCHEDULER struct ldr_scheduler *alone = NULL;
	struct ldr_io_request request = world_read(&world, 1, LDR_IO_DEFAULT);
	enum ldr_io_state state;
	struct ldr_ticket ticket;

	options.workers = 0;
	cr_assert_eq(ldr_scheduler_new(&options, &alone, NULL), LDR_OK);
	fake_open(&world.fake);
	cr_assert_eq(ldr_scheduler_submit(alone, &request, &ticket, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_state(alone, ticket, &state, NULL), LDR_OK);
	cr_expect_eq(state, LDR_IO_ENDED);
	cr_expect_eq(world.bytes[9], fake_byte(9));
	request.deadline_ns = 1;
	cr_assert_eq(ldr_scheduler_submit(alone, &request, &ticket, NULL), LDR_OK);
	{
		struct ldr_completion done[2];

		cr_assert_eq(ldr_scheduler_poll(alone, done, 2), 2);
		cr_expect_eq(done[0].outcome, LDR_IO_DONE);
		cr_expect_eq(done[1].outcome, LDR_IO_EXPIRED);
	}
}

/* ---- admission (A136-A138, V49) ---- */

Test(scheduler, a_request_that_contradicts_itself_is_refused)
{
	char byte;
	const struct ldr_io_request rows[] = {
		{.kind = LDR_IO_READ, .bytes = &byte, .length = 1},
		{.kind = LDR_IO_READ, .file = world.file, .length = 1},
		{.kind = LDR_IO_READ, .vfs = world.vfs, .bytes = &byte, .length = 1},
		{.kind = LDR_IO_READ, .path = "file", .bytes = &byte, .length = 1},
		{.kind = LDR_IO_READ,
		 .file = world.file,
		 .path = "file",
		 .vfs = world.vfs,
		 .bytes = &byte,
		 .length = 1},
		{.kind = LDR_IO_READ,
		 .file = world.file,
		 .bytes = &byte,
		 .length = 2,
		 .offset = UINT64_MAX - 1},
		{.kind = LDR_IO_STAT, .file = world.file},
		{.kind = LDR_IO_OPEN, .vfs = world.vfs},
		{.kind = LDR_IO_REPLACE, .vfs = world.vfs, .path = "x", .length = 1},
		{.kind = (enum ldr_io_kind)6, .file = world.file},
		{.kind = LDR_IO_READ,
		 .io_class = (enum ldr_io_class)5,
		 .file = world.file,
		 .bytes = &byte,
		 .length = 1},
	};
	const size_t count = sizeof(rows) / sizeof(rows[0]);

	for (size_t i = 0; i < count; i++) {
		struct ldr_ticket ticket = {1, 2};
		struct ldr_error err = {0};

		cr_expect_eq(ldr_scheduler_submit(world.scheduler, &rows[i], &ticket, &err),
			     LDR_EINVAL, "row %zu", i);
		cr_expect(strstr(err.text, "submit: "), "%s", err.text);
	}
	cr_expect_eq(world_metrics(&world).rejected, count);
	cr_expect_eq(world_metrics(&world).accepted, 0);
	world_expect_idle(&world);
}

Test(scheduler, a_full_scheduler_says_again_and_keeps_nothing)
{
	struct ldr_scheduler_options options = world_options(&world);
	struct ldr_scheduler *kept = world.scheduler;
	struct ldr_completion done[4];
	struct ldr_error err = {0};

	options.max_requests = 3;
	options.max_bytes = 10000;
	cr_assert_eq(ldr_scheduler_new(&options, &world.scheduler, NULL), LDR_OK);
	world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
	world_submit(&world, world_read(&world, 2, LDR_IO_NORMAL));
	{
		struct ldr_io_request big = world_read(&world, 3, LDR_IO_CRITICAL);

		cr_expect_eq(ldr_scheduler_submit(world.scheduler, &big, NULL, &err), LDR_EAGAIN);
		cr_expect(strstr(err.text, "8192") && strstr(err.text, "10000"), "%s", err.text);
		big.length = 10001;
		cr_expect_eq(ldr_scheduler_submit(world.scheduler, &big, NULL, &err), LDR_ELIMIT);
		big.length = 0; /* takes a slot */
		world_submit(&world, big);
		cr_expect_eq(ldr_scheduler_submit(world.scheduler, &big, NULL, &err), LDR_EAGAIN);
		cr_expect(strstr(err.text, "limit 3"), "%s", err.text);
	}
	cr_expect_eq(world_metrics(&world).rejected, 3);
	cr_expect_eq(world_metrics(&world).bytes, 8192);
	fake_open(&world.fake);
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	/* What has ended and was not collected counts on (A136). */
	cr_expect_eq(world_metrics(&world).bytes, 8192);
	{
		struct ldr_io_request more = world_read(&world, 4, LDR_IO_NORMAL);

		cr_expect_eq(ldr_scheduler_submit(world.scheduler, &more, NULL, NULL), LDR_EAGAIN);
		world_collect(&world, done, 2); /* the critical one and a read */
		world_submit(&world, more);
	}
	world_collect(&world, done, 2);
	cr_expect_eq(world_metrics(&world).requests_peak, 3);
	cr_expect_eq(world_metrics(&world).bytes_peak, 8192);
	world_expect_idle(&world);
	ldr_scheduler_free(world.scheduler);
	world.scheduler = kept;
}

Test(scheduler, a_batch_is_taken_up_to_the_first_that_is_refused)
{
	struct ldr_io_request requests[5];
	struct ldr_ticket tickets[5];
	struct ldr_completion done[3];
	size_t accepted = 9;

	for (unsigned i = 0; i < 5; i++)
		requests[i] = world_read(&world, i, LDR_IO_NORMAL);
	requests[3].bytes = NULL;
	cr_expect_eq(
		ldr_scheduler_submit_many(world.scheduler, requests, 5, tickets, &accepted, NULL),
		LDR_EINVAL);
	cr_expect_eq(accepted, 3);
	fake_open(&world.fake);
	world_collect(&world, done, 3);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(done[i].ticket.sequence, tickets[i].sequence);
	cr_expect_eq(ldr_scheduler_submit_many(world.scheduler, requests, 0, NULL, &accepted, NULL),
		     LDR_OK);
	cr_expect_eq(accepted, 0);
}

/* ---- tickets (A142, V43) ---- */

static void expect_stale(struct ldr_scheduler *scheduler, struct ldr_ticket ticket)
{
	enum ldr_io_state state = LDR_IO_WAITING;

	cr_expect_eq(ldr_scheduler_cancel(scheduler, ticket, NULL), LDR_ESTALE);
	cr_expect_eq(ldr_scheduler_reclass(scheduler, ticket, LDR_IO_HIGH, NULL), LDR_ESTALE);
	cr_expect_eq(ldr_scheduler_state(scheduler, ticket, &state, NULL), LDR_ESTALE);
	cr_expect_eq(state, LDR_IO_WAITING);
}

Test(scheduler, a_ticket_of_a_used_slot_touches_nobody_else)
{
	struct ldr_ticket first, second;
	struct ldr_completion done;

	fake_open(&world.fake);
	for (unsigned round = 0; round < 50; round++) {
		first = world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
		world_collect(&world, &done, 1);
		cr_expect_eq(done.ticket.sequence, first.sequence);
		second = world_submit(&world, world_read(&world, 2, LDR_IO_NORMAL));
		cr_expect_neq(second.sequence, first.sequence);
		expect_stale(world.scheduler, first);
		world_collect(&world, &done, 1);
		cr_expect_eq(done.outcome, LDR_IO_DONE);
		cr_expect_eq(done.tag, 2);
	}
	expect_stale(world.scheduler, (struct ldr_ticket){0, 0});
	expect_stale(world.scheduler, (struct ldr_ticket){second.scheduler, UINT64_MAX});
	expect_stale(world.scheduler, (struct ldr_ticket){second.scheduler, 0});
	expect_stale(world.scheduler, (struct ldr_ticket){second.scheduler + 1, second.sequence});
	cr_expect_eq(ldr_scheduler_reclass(world.scheduler, second, LDR_IO_DEFAULT, NULL),
		     LDR_EINVAL);
}

/* ---- waiting ---- */

static bool readable(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, 0) == 1;
}

Test(scheduler, the_descriptor_tells_what_poll_would_find)
{
	struct ldr_completion done[3];
	int fd = -1, same = -1;

	cr_assert_eq(ldr_scheduler_eventfd(world.scheduler, &fd, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_eventfd(world.scheduler, &same, NULL), LDR_OK);
	cr_expect_eq(fd, same);
	cr_expect_not(readable(fd));
	for (unsigned i = 0; i < 3; i++)
		world_submit(&world, world_read(&world, i, LDR_IO_NORMAL));
	fake_await_started(&world.fake, 1);
	cr_expect_not(readable(fd));
	fake_open(&world.fake);
	{
		struct pollfd one = {.fd = fd, .events = POLLIN};

		cr_assert_eq(poll(&one, 1, (int)WORLD_LONG_MS), 1);
	}
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 1), 1);
	cr_expect(readable(fd), "one was taken, two are left");
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 3), 2);
	ldr_scheduler_poll(world.scheduler, done, 3);
	cr_expect_not(readable(fd));
	cr_expect_eq(ldr_scheduler_wait(world.scheduler, 0, NULL), LDR_ETIMEDOUT);
}

Test(scheduler, a_descriptor_that_is_made_late_knows_what_has_ended)
{
	int fd = -1;

	fake_open(&world.fake);
	world_submit(&world, world_read(&world, 1, LDR_IO_NORMAL));
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	cr_assert_eq(ldr_scheduler_eventfd(world.scheduler, &fd, NULL), LDR_OK);
	cr_expect(readable(fd));
}
