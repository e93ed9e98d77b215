/*
 * Requests to fetch that no thread waits for: each ends once, the urgent ones first, and prefetches never
 * take the last streams.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/fetch.h"
#include "tests/faults/lying_server.h"
#include "tests/support/fetch_world.h"

#define PACKS 3u

static const struct fetch_world_shape shape = {.seed = 11,
					       .pack_count = PACKS,
					       .pack_bytes = 1024 * 1024,
					       .block_bytes_max = 24 * 1024,
					       .take_percent = 90};

static struct fetch_world world;
static struct lying_server *server;
static struct ldr_transport *transport;
static struct ldr_fetch *fetch;

static void setup(void)
{
	server = lying_server_start();
	fetch_world_make(&world, &shape);
	fetch_world_serve(&world, server);
}

static void teardown(void)
{
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

TestSuite(fetch_async, .init = setup, .fini = teardown);

/* Small ranges, so that a pack is many requests; nothing that stalls is given up meanwhile. */
static void start_fetch(unsigned ranges_at_once)
{
	const struct ldr_transport_options transport_options = {.stall_timeout_ms = 60000};
	const char *host = lying_server_url(server);
	struct ldr_fetch_options options = {.hosts = &host,
					    .host_count = 1,
					    .ranges_at_once = ranges_at_once,
					    .range_bytes = 1,
					    .gap_bytes = 1};

	cr_assert_eq(ldr_transport_new(&transport_options, &transport, NULL), LDR_OK);
	options.transport = transport;
	cr_assert_eq(ldr_fetch_new(&options, &fetch, NULL), LDR_OK);
	ldr_fetch_set_release(fetch, &world.release);
}

static void end_fetch(void)
{
	ldr_fetch_free(fetch);
	ldr_transport_free(transport);
}

/* One request, for the wants of one pack. */
struct asking {
	struct ldr_placed_block *wants; /* owns */
	size_t count;
	void *ticket;
	atomic_uint arrived;
	atomic_uint done;
	enum ldr_status status;
	unsigned order; /* among those that have ended */
};

static atomic_uint ended;

static enum ldr_status arrived(void *arrival, size_t want, const void *stored,
			       struct ldr_error *err)
{
	struct asking *asking = arrival;
	const struct ldr_place *place = &asking->wants[want].place;

	(void)err;
	cr_assert_eq(asking->done, 0u, "an arrival after the end");
	cr_assert_eq(
		memcmp(stored, world.packs[place->pack / 3] + place->offset, place->stored_bytes),
		0);
	atomic_fetch_add(&asking->arrived, 1);
	return LDR_OK;
}

static void done(void *arrival, const struct ldr_error *error)
{
	struct asking *asking = arrival;

	asking->status = error->status;
	asking->order = atomic_fetch_add(&ended, 1);
	atomic_fetch_add(&asking->done, 1);
}

static void ask(struct asking *asking, uint32_t pack, unsigned priority)
{
	const struct ldr_upstream *upstream = ldr_fetch_upstream(fetch);
	struct ldr_upstream_request request = {
		.priority = priority, .arrived = arrived, .done = done, .arrival = asking};

	*asking = (struct asking){.wants = calloc(world.want_count, sizeof(*asking->wants))};
	for (size_t i = 0; i < world.want_count; i++) {
		if (world.wants[i].place.pack == world.release.packs[pack].number)
			asking->wants[asking->count++] = world.wants[i];
	}
	request.wants = asking->wants;
	request.count = asking->count;
	cr_assert_eq(upstream->start(upstream->context, &request, &asking->ticket, NULL), LDR_OK);
}

static void await(struct asking *asking)
{
	while (!atomic_load(&asking->done))
		sched_yield();
}

static unsigned requests_of(uint32_t pack)
{
	char path[160];
	unsigned count = 0;

	fetch_world_path(&world, pack, path);
	for (size_t i = 0; i < lying_server_request_count(server); i++) {
		struct seen_request seen = lying_server_request(server, i);

		count += strcmp(seen.path, path) == 0;
	}
	return count;
}

static void stall(uint32_t pack, char path[160])
{
	fetch_world_path(&world, pack, path);
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_STALL_BODY, .path = path});
}

Test(fetch_async, each_of_many_ends_once_with_all_its_blocks)
{
	struct asking askings[4 * PACKS];

	start_fetch(4);
	for (unsigned i = 0; i < 4 * PACKS; i++)
		ask(&askings[i], i % PACKS, i % 4);
	for (unsigned i = 0; i < 4 * PACKS; i++) {
		await(&askings[i]);
		cr_expect_eq(askings[i].status, LDR_OK);
		cr_expect_eq(askings[i].arrived, askings[i].count);
	}
	end_fetch();
	for (unsigned i = 0; i < 4 * PACKS; i++) {
		cr_expect_eq(askings[i].done, 1u);
		free(askings[i].wants);
	}
}

Test(fetch_async, P15_prefetches_leave_streams_for_what_somebody_waits_for)
{
	struct asking prefetch, demand;
	char path[160];

	stall(0, path);
	start_fetch(4);
	ask(&prefetch, 0, LDR_PRIORITY_BACKGROUND);
	while (requests_of(0) < 2)
		sched_yield();
	/* All of this goes through the two streams that are left. */
	ask(&demand, 1, LDR_PRIORITY_NORMAL);
	await(&demand);
	cr_expect_eq(demand.status, LDR_OK);
	cr_expect_eq(requests_of(0), 2u);
	cr_expect_eq(prefetch.done, 0u);
	/* Raised, it may take the others. */
	ldr_fetch_upstream(fetch)->set_priority(ldr_fetch_upstream(fetch)->context, prefetch.ticket,
						LDR_PRIORITY_CRITICAL);
	while (requests_of(0) < 4)
		sched_yield();
	end_fetch();
	cr_expect_eq(prefetch.done, 1u);
	cr_expect_eq(prefetch.status, LDR_ECANCELLED);
	free(prefetch.wants);
	free(demand.wants);
}

Test(fetch_async, the_urgent_request_overtakes_what_was_asked_before)
{
	struct asking first, second, urgent;

	/* One stream, which gets no answer until all three are in the queue. */
	start_fetch(1);
	lying_server_gather(server, 2);
	ask(&first, 0, LDR_PRIORITY_NORMAL);
	ask(&second, 1, LDR_PRIORITY_NORMAL);
	ask(&urgent, 2, LDR_PRIORITY_CRITICAL);
	lying_server_gather(server, 0);
	await(&first);
	await(&second);
	await(&urgent);
	cr_expect_eq(urgent.order, 0u);
	end_fetch();
	free(first.wants);
	free(second.wants);
	free(urgent.wants);
}

Test(fetch_async, closing_ends_what_is_under_way_and_what_waits)
{
	struct asking askings[PACKS];
	char paths[PACKS][160];

	for (uint32_t i = 0; i < PACKS; i++)
		stall(i, paths[i]);
	start_fetch(2);
	for (uint32_t i = 0; i < PACKS; i++)
		ask(&askings[i], i, LDR_PRIORITY_NORMAL);
	end_fetch();
	for (uint32_t i = 0; i < PACKS; i++) {
		cr_expect_eq(askings[i].done, 1u);
		cr_expect_eq(askings[i].status, LDR_ECANCELLED);
		free(askings[i].wants);
	}
}
