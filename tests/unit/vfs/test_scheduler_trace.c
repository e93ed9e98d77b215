/*
 * Where the time of a request went: stages, the ring of records, their export as a Chrome trace.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/lock.h"
#include "tests/unit/vfs/scheduler_world.h"

static struct scheduler_world world;

static void setup(void)
{
	struct ldr_scheduler_options options = world_options(&world);

	options.trace_records = 4;
	world_make(&world, &options);
}

static void teardown(void)
{
	world_remove(&world);
}

TestSuite(scheduler_trace, .init = setup, .fini = teardown);

/* Every stage takes a time of its own that the test's clock gives it (A91, P13). */
Test(scheduler_trace, each_stage_has_its_time)
{
	struct ldr_io_request request = world_read(&world, 9, LDR_IO_HIGH);
	struct ldr_trace_record record;
	struct ldr_completion done[2];

	fake_rule_add(&world.fake, (struct fake_rule){.tag = 9, .remote = true, .step_ns = 5000});
	world_submit(&world, world_read(&world, 0, LDR_IO_NORMAL));
	fake_await_started(&world.fake, 1);
	request.offset = 77;
	world_submit(&world, request);
	fake_clock_add(&world.clock, 300); /* in the queue */
	fake_allow(&world.fake, 1);
	world_collect(&world, done, 1);
	fake_await_waits(&world.fake, 1);
	while (world_metrics(&world).waiting == 0)
		ldr_thread_pause_us(50);
	fake_clock_add(&world.clock, 70000); /* on the network */
	cr_assert(fake_arrive(&world.fake, 9, LDR_OK));
	fake_await_started(&world.fake, 2);
	fake_clock_add(&world.clock, 1000); /* at the gate */
	fake_allow(&world.fake, 1);
	cr_assert_eq(ldr_scheduler_drain(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
	fake_clock_add(&world.clock, 40); /* until it is collected */
	cr_assert_eq(ldr_scheduler_poll(world.scheduler, done, 2), 1);
	cr_expect_eq(done[0].times.queue_ns, 300);
	cr_expect_eq(done[0].times.network_ns, 70000);
	cr_expect_eq(done[0].times.service_ns, 6000);
	cr_expect_eq(done[0].times.collected_ns - done[0].times.ended_ns, 40);
	cr_expect_eq(done[0].times.collected_ns - done[0].times.submitted_ns,
		     300 + 70000 + 6000 + 40);
	cr_assert_eq(ldr_scheduler_trace(world.scheduler, &record, 1), 1);
	cr_assert_eq(ldr_scheduler_trace(world.scheduler, &record, 1), 1);
	cr_expect_eq(record.tag, 9);
	cr_expect_eq(record.sequence, done[0].ticket.sequence);
	cr_expect_eq(record.offset, 77);
	cr_expect_eq(record.got, 4096);
	cr_expect_eq(record.mount_id, WORLD_MOUNT);
	cr_expect_eq(record.io_class, LDR_IO_HIGH);
	cr_expect_eq(memcmp(&record.times, &done[0].times, sizeof(record.times)), 0);
}

/* A full ring loses its oldest and counts it: taken + lost = completions (A110, A146). */
Test(scheduler_trace, the_ring_keeps_the_newest_and_counts_what_it_lost)
{
	static const struct {
		unsigned requests, taken, lost;
		uint64_t first;
	} rows[] = {{3, 3, 0, 0}, {4, 4, 0, 0}, {5, 4, 1, 1}, {13, 4, 9, 9}};
	uint64_t lost = 0;

	fake_open(&world.fake);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_trace_record records[16];
		struct ldr_completion done;

		for (unsigned k = 0; k < rows[i].requests; k++) {
			world_submit(&world, world_read(&world, k, LDR_IO_NORMAL));
			world_collect(&world, &done, 1);
		}
		cr_expect_eq(ldr_scheduler_trace(world.scheduler, records, 1), 1);
		cr_expect_eq(ldr_scheduler_trace(world.scheduler, records + 1, 15),
			     rows[i].taken - 1);
		for (unsigned k = 0; k < rows[i].taken; k++)
			cr_expect_eq(records[k].tag, rows[i].first + k, "row %zu", i);
		lost += rows[i].lost;
		cr_expect_eq(world_metrics(&world).traces_lost, lost);
	}
	cr_expect_eq(lost + 3 + 4 + 4 + 4, world_metrics(&world).collected);
}

/* ---- export ---- */

static enum ldr_status append(void *context, const char *text, size_t length, struct ldr_error *err)
{
	struct ldr_buffer *buffer = context;

	ldr_buffer_put(buffer, text, length);
	return buffer->failed ? ldr_fail(err, LDR_ENOSPACE, "buffer full") : LDR_OK;
}

Test(scheduler_trace, the_export_is_json_that_says_everything)
{
	const char *path =
		"no such \"path\"\\ with \t and \xc3\xbc and more than sixty-four bytes of "
		"text";
	struct ldr_io_request stat = {
		.kind = LDR_IO_STAT, .vfs = world.vfs, .path = path, .tag = UINT64_MAX};
	LDR_AUTO_BUFFER struct ldr_buffer buffer;
	struct ldr_trace_record records[2];
	struct ldr_completion done[2];
	struct ldr_error err = {0};
	json_t *root, *events, *first;

	fake_open(&world.fake);
	fake_rule_add(&world.fake, (struct fake_rule){.tag = 1, .step_ns = 1234567});
	world_submit(&world, world_read(&world, 1, LDR_IO_CRITICAL));
	world_collect(&world, done, 1);
	world_submit(&world, stat);
	world_collect(&world, done, 1);
	cr_assert_eq(ldr_scheduler_trace(world.scheduler, records, 2), 2);
	ldr_buffer_init(&buffer, 1 << 20);
	cr_assert_eq(ldr_trace_export(records, 2, append, &buffer, &err), LDR_OK, "%s", err.text);
	root = json_loadb((char *)buffer.data, buffer.length, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(root, "%.*s", (int)buffer.length, buffer.data);
	events = json_object_get(root, "traceEvents");
	cr_assert_geq(json_array_size(events), 3);
	first = json_array_get(events, 0);
	cr_expect_str_eq(json_string_value(json_object_get(first, "name")), "read");
	cr_expect_str_eq(json_string_value(json_object_get(first, "cat")), "critical");
	cr_expect_eq((long)(json_number_value(json_object_get(first, "dur")) * 1000 + 0.5),
		     1234567);
	first = json_object_get(first, "args");
	cr_expect_eq(json_integer_value(json_object_get(first, "got")), 4096);
	cr_expect_eq(json_integer_value(json_object_get(first, "service_ns")), 1234567);
	first = json_object_get(json_array_get(events, json_array_size(events) - 1), "args");
	cr_expect_str_eq(json_string_value(json_object_get(first, "tag")), "18446744073709551615");
	cr_expect_str_eq(json_string_value(json_object_get(first, "status")), "LDR_EINVAL");
	cr_expect_str_eq(json_string_value(json_object_get(first, "outcome")), "done");
	cr_expect(strstr(json_string_value(json_object_get(first, "key")), "bytes of text"));
	json_decref(root);
	/* What the writer fails with ends the export. */
	ldr_buffer_dispose(&buffer);
	ldr_buffer_init(&buffer, 100);
	cr_expect_eq(ldr_trace_export(records, 2, append, &buffer, &err), LDR_ENOSPACE);
	cr_expect_str_eq(err.text, "buffer full");
}

Test(scheduler_trace, names_of_what_is_not_known)
{
	cr_expect_str_eq(ldr_io_kind_name(LDR_IO_REPLACE), "replace");
	cr_expect_str_eq(ldr_io_kind_name((enum ldr_io_kind)99), "?");
	cr_expect_str_eq(ldr_io_outcome_name(LDR_IO_EXPIRED), "expired");
	cr_expect_str_eq(ldr_io_outcome_name((enum ldr_io_outcome)99), "?");
	cr_expect_str_eq(ldr_io_class_name(LDR_IO_BACKGROUND), "background");
	cr_expect_str_eq(ldr_io_class_name((enum ldr_io_class)99), "?");
}
