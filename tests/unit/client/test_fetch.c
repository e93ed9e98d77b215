/*
 * Fetch against a folder, an honest server and lying ones.
 */
#include "client/fetch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/range_plan.h"
#include "tests/faults/lying_server.h"
#include "tests/support/fetch_world.h"

static const struct fetch_world_shape small = {.seed = 7,
					       .pack_count = 3,
					       .pack_bytes = 3 * 1024 * 1024,
					       .block_bytes_max = 24 * 1024,
					       .take_percent = 60};

struct rig {
	struct ldr_transport *transport;
	struct ldr_fetch *fetch;
};

static void rig_start(struct rig *rig, const struct fetch_world *world, const char *const *hosts,
		      size_t host_count, const struct ldr_fetch_options *more)
{
	struct ldr_transport_options transport = {.stall_timeout_ms = 300};
	struct ldr_fetch_options options = more ? *more : (struct ldr_fetch_options){0};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_transport_new(&transport, &rig->transport, &err), LDR_OK, "%s", err.text);
	options.transport = rig->transport;
	options.hosts = hosts;
	options.host_count = host_count;
	cr_assert_eq(ldr_fetch_new(&options, &rig->fetch, &err), LDR_OK, "%s", err.text);
	ldr_fetch_set_release(rig->fetch, &world->release);
}

static void rig_stop(struct rig *rig)
{
	ldr_fetch_free(rig->fetch);
	ldr_transport_free(rig->transport);
}

static void assert_all(struct fetch_world *world, struct ldr_fetch *fetch)
{
	struct ldr_error err = {0};
	enum ldr_status status = fetch_world_run(world, fetch, &err);

	cr_assert_eq(status, LDR_OK, "%s: %s", ldr_status_name(status), err.text);
	cr_assert_eq(fetch_world_missing(world), 0);
}

static size_t planned_ranges(const struct fetch_world *world)
{
	struct ldr_range_plan plan;
	size_t count;

	cr_assert_eq(ldr_range_plan_make(world->wants, world->want_count, 2u << 20, 32u << 10,
					 &plan, NULL),
		     LDR_OK);
	count = plan.range_count;
	ldr_range_plan_dispose(&plan);
	return count;
}

Test(fetch, honest_server)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_stat stat;
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &small);
	fetch_world_serve(&world, server);
	rig_start(&rig, &world, hosts, 1, NULL);
	assert_all(&world, rig.fetch);
	ldr_fetch_stat(rig.fetch, &stat);
	cr_assert_eq(stat.requests, lying_server_request_count(server));
	cr_assert_eq(stat.requests, planned_ranges(&world), "%lu requests", stat.requests);
	cr_assert_eq(stat.blocks, world.want_count);
	cr_assert_eq(stat.retries, 0);
	cr_assert_eq(stat.bad_blocks, 0);
	cr_assert_leq(stat.body_bytes, 9u * 1024 * 1024);
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

Test(fetch, folder)
{
	char folder[] = "/tmp/ldr-fetch-XXXXXX";
	struct fetch_world world;
	char command[128];
	struct rig rig;
	char *url;

	cr_assert_not_null(mkdtemp(folder));
	fetch_world_make(&world, &small);
	fetch_world_write(&world, folder);
	url = ldr_url_of_folder(folder);
	rig_start(&rig, &world, (const char *const[]){url}, 1, NULL);
	assert_all(&world, rig.fetch);
	rig_stop(&rig);
	free(url);
	fetch_world_dispose(&world);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0); /* style: a folder of our own */
}

Test(fetch, server_that_ignores_ranges)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_stat stat;
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &small);
	fetch_world_serve(&world, server);
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_WHOLE});
	rig_start(&rig, &world, hosts, 1, NULL);
	assert_all(&world, rig.fetch);
	ldr_fetch_stat(rig.fetch, &stat);
	cr_assert_eq(stat.retries, 0);
	cr_assert_eq(stat.whole_packs, 3, "%lu", stat.whole_packs);
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}
