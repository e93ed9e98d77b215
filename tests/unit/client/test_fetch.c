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
					       .take_percent = 85};

struct rig {
	struct ldr_transport *transport;
	struct ldr_fetch *fetch;
};

#define SOON_MS 300u     /* for servers that stall */
#define NEVER_MS 600000u /* for those that only seem to, on a busy machine */

static void rig_start_patient(struct rig *rig, const struct fetch_world *world,
			      const char *const *hosts, size_t host_count,
			      const struct ldr_fetch_options *more, uint64_t stall_ms)
{
	struct ldr_transport_options transport = {.stall_timeout_ms = stall_ms};
	struct ldr_fetch_options options = more ? *more : (struct ldr_fetch_options){0};
	struct ldr_error err = {0};

	cr_assert_eq(ldr_transport_new(&transport, &rig->transport, &err), LDR_OK, "%s", err.text);
	options.transport = rig->transport;
	options.hosts = hosts;
	options.host_count = host_count;
	cr_assert_eq(ldr_fetch_new(&options, &rig->fetch, &err), LDR_OK, "%s", err.text);
	ldr_fetch_set_release(rig->fetch, &world->release);
}

static void rig_start(struct rig *rig, const struct fetch_world *world, const char *const *hosts,
		      size_t host_count, const struct ldr_fetch_options *more)
{
	rig_start_patient(rig, world, hosts, host_count, more, SOON_MS);
}

static void rig_stop(struct rig *rig)
{
	ldr_fetch_free(rig->fetch);
	ldr_transport_free(rig->transport);
}

static void assert_all(struct fetch_world *world, struct ldr_fetch *fetch, const char *name)
{
	struct ldr_error err = {0};
	enum ldr_status status = fetch_world_run(world, fetch, &err);

	cr_assert_eq(status, LDR_OK, "%s: %s: %s", name, ldr_status_name(status), err.text);
	cr_assert_eq(fetch_world_missing(world), 0, "%s", name);
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
	assert_all(&world, rig.fetch, "true");
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
	assert_all(&world, rig.fetch, "true");
	rig_stop(&rig);
	free(url);
	fetch_world_dispose(&world);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0); /* style: a folder of our own */
}

/* ---- lies ---- */

static const struct fetch_world_shape tiny = {.seed = 5,
					      .pack_count = 2,
					      .pack_bytes = 400 * 1024,
					      .block_bytes_max = 20 * 1024,
					      .take_percent = 90};

struct lie_row {
	const char *name;
	struct lie_plan plan;
	enum ldr_status status; /* when everything is a lie */
	const char *text;       /* what the message must hold, besides URL and host */
	bool forgiven;          /* the lie can be lived with: no failure at all */
};

static const struct lie_row lies[] = {
	{"404", {.lie = LIE_STATUS, .status = 404}, LDR_ENOTFOUND, "status 404", false},
	{"410", {.lie = LIE_STATUS, .status = 410}, LDR_ENOTFOUND, "status 410", false},
	{"401", {.lie = LIE_STATUS, .status = 401}, LDR_EDENIED, "status 401", false},
	{"403", {.lie = LIE_STATUS, .status = 403}, LDR_EDENIED, "status 403", false},
	{"416", {.lie = LIE_STATUS, .status = 416}, LDR_ENET, "should have 409600 bytes", false},
	{"429", {.lie = LIE_STATUS, .status = 429}, LDR_ENET, "status 429", false},
	{"500", {.lie = LIE_STATUS, .status = 500}, LDR_ENET, "status 500", false},
	{"503", {.lie = LIE_STATUS, .status = 503}, LDR_ENET, "status 503", false},
	{"299", {.lie = LIE_STATUS, .status = 299}, LDR_ENET, "status 299", false},
	{"whole", {.lie = LIE_WHOLE}, LDR_OK, NULL, true},
	{"200 for the range's bytes",
	 {.lie = LIE_WHOLE_STATUS},
	 LDR_ENET,
	 "the pack has 409600",
	 false},
	{"another range", {.lie = LIE_OTHER_RANGE}, LDR_ENET, "status 206 with bytes", false},
	{"no range said", {.lie = LIE_NO_RANGE}, LDR_ENET, "without a valid Content-Range", false},
	{"shifted", {.lie = LIE_SHIFT}, LDR_ECORRUPT, "expected 0x", false},
	{"a bit changed", {.lie = LIE_FLIP}, LDR_ECORRUPT, "expected 0x", false},
	{"short", {.lie = LIE_SHORT}, LDR_ENET, "bytes remaining", false},
	{"short, properly ended",
	 {.lie = LIE_SHORT_CHUNKED},
	 LDR_ENET,
	 "the answer ended at",
	 false},
	{"reset in the body", {.lie = LIE_RESET}, LDR_ENET, "127.0.0.1", false},
	{"reset at once", {.lie = LIE_RESET_HEAD}, LDR_ENET, "127.0.0.1", false},
	{"stall before the header",
	 {.lie = LIE_STALL_HEAD},
	 LDR_ETIMEDOUT,
	 "answer stalled",
	 false},
	{"stall in the body", {.lie = LIE_STALL_BODY}, LDR_ETIMEDOUT, "body stalled", false},
	{"length twice", {.lie = LIE_LENGTH}, LDR_ENET, "Content-Length", false},
	{"empty", {.lie = LIE_EMPTY}, LDR_ENET, "Content-Length 0", false},
	{"redirect to itself", {.lie = LIE_REDIRECT}, LDR_ENET, "one too many", false},
	{"redirect to a file",
	 {.lie = LIE_REDIRECT, .location = "file:///etc/passwd"},
	 LDR_ENET,
	 "not to http or https",
	 false},
	{"not HTTP", {.lie = LIE_GARBAGE}, LDR_ENET, "127.0.0.1", false},
	{"header without end",
	 {.lie = LIE_ENDLESS_HEADER},
	 LDR_ENET,
	 "header over the limit",
	 false},
};
#define LIES (sizeof(lies) / sizeof(*lies))

/* T33: each way to fail has its status and its message: URL, host, and what was wrong. T23: bounded. */
Test(fetch, t33_t23_every_lie_alone, .timeout = 60)
{
	struct fetch_world world;

	fetch_world_make(&world, &tiny);
	for (size_t i = 0; i < LIES; i++) {
		struct lying_server *server = lying_server_start();
		const char *hosts[] = {lying_server_url(server)};
		struct ldr_fetch_options options = {.attempts = 2, .range_bytes = 300000};
		struct ldr_error err = {0};
		enum ldr_status status;
		struct rig rig;

		fetch_world_serve(&world, server);
		lying_server_lie(server, &lies[i].plan);
		rig_start(&rig, &world, hosts, 1, &options);
		status = fetch_world_run(&world, rig.fetch, &err);
		cr_assert_eq(status, lies[i].status, "%s: %s: %s", lies[i].name,
			     ldr_status_name(status), err.text);
		if (lies[i].forgiven) {
			cr_assert_eq(fetch_world_missing(&world), 0, "%s", lies[i].name);
		} else {
			/* "http://" comes first in a URL, so this names host and URL. */
			cr_assert_not_null(strstr(err.text, hosts[0]), "%s: %s", lies[i].name,
					   err.text);
			cr_assert_not_null(strstr(err.text, "/packs/"), "%s: %s", lies[i].name,
					   err.text);
			cr_assert_not_null(strstr(err.text, lies[i].text), "%s: %s", lies[i].name,
					   err.text);
		}
		/* 4 ranges, 2 attempts, and up to 6 hops for a redirect */
		cr_assert_leq(lying_server_request_count(server), 4 * 2 * 6, "%s", lies[i].name);
		rig_stop(&rig);
		lying_server_stop(server);
	}
	fetch_world_dispose(&world);
}

/* T20, T21, T25, T29: whatever one host does, the other gives every block, exactly once. */
Test(fetch, t21_t25_t29_every_lie_with_a_good_host, .timeout = 60)
{
	struct fetch_world world;

	fetch_world_make(&world, &tiny);
	for (size_t i = 0; i < LIES; i++) {
		struct lying_server *liar = lying_server_start();
		struct lying_server *good = lying_server_start();
		const char *hosts[] = {lying_server_url(liar), lying_server_url(good)};
		struct ldr_fetch_options options = {.range_bytes = 300000};
		struct ldr_fetch_stat stat;
		size_t told;
		struct rig rig;

		fetch_world_serve(&world, liar);
		fetch_world_serve(&world, good);
		lying_server_lie(liar, &lies[i].plan);
		rig_start(&rig, &world, hosts, 2, &options);
		assert_all(&world, rig.fetch, lies[i].name);
		told = lying_server_request_count(liar);
		cr_assert_gt(told, 0);
		if (!lies[i].forgiven) {
			ldr_fetch_stat(rig.fetch, &stat);
			cr_assert_gt(stat.retries, 0, "%s", lies[i].name);
			cr_assert_gt(lying_server_request_count(good), 0, "%s", lies[i].name);
			cr_assert_eq(stat.bad_blocks > 0, lies[i].status == LDR_ECORRUPT, "%s",
				     lies[i].name);
			cr_assert_eq(stat.bad_blocks, atomic_load(&world.wrong), "%s",
				     lies[i].name);
		}
		if (lies[i].status == LDR_ECORRUPT) {
			/* Demoted for a minute: the next fetch asks the good one only. */
			assert_all(&world, rig.fetch, lies[i].name);
			cr_assert_eq(lying_server_request_count(liar), told, "%s", lies[i].name);
		}
		atomic_store(&world.wrong, 0);
		rig_stop(&rig);
		lying_server_stop(liar);
		lying_server_stop(good);
	}
	fetch_world_dispose(&world);
}

/* T28, T20: a lie that ends is outlived by the only host, whenever it begins. */
Test(fetch, t28_every_lie_for_a_while, .timeout = 60)
{
	struct fetch_world world;

	fetch_world_make(&world, &tiny);
	for (size_t i = 0; i < LIES; i++) {
		struct lying_server *server = lying_server_start();
		const char *hosts[] = {lying_server_url(server)};
		struct ldr_fetch_options options = {.range_bytes = 300000, .ranges_at_once = 2};
		struct lie_plan plan = lies[i].plan;
		struct rig rig;

		/* A refusal is final, and for the only host there is nobody else to ask. */
		if (lies[i].status == LDR_ENOTFOUND || lies[i].status == LDR_EDENIED ||
		    plan.status == 416) {
			lying_server_stop(server);
			continue;
		}
		plan.after = 1;
		plan.times = 2;
		fetch_world_serve(&world, server);
		lying_server_lie(server, &plan);
		rig_start(&rig, &world, hosts, 1, &options);
		assert_all(&world, rig.fetch, lies[i].name);
		rig_stop(&rig);
		lying_server_stop(server);
	}
	fetch_world_dispose(&world);
}

/* T28: nobody asks before the time that Retry-After names. */
Test(fetch, t28_retry_after_is_kept)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_options options = {.ranges_at_once = 1};
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &tiny);
	fetch_world_serve(&world, server);
	lying_server_lie(server,
			 &(struct lie_plan){
				 .lie = LIE_STATUS, .status = 429, .retry_after_s = 1, .times = 1});
	rig_start(&rig, &world, hosts, 1, &options);
	assert_all(&world, rig.fetch, "429");
	cr_assert_geq(lying_server_request(server, 1).at_ms - lying_server_request(server, 0).at_ms,
		      999);
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

/* T20: each pack once, however many of its ranges were asked for, also with few buffers. */
Test(fetch, t20_packs_are_read_whole_once)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_options options = {.ranges_at_once = 3, .range_bytes = 300000};
	struct ldr_fetch_stat stat;
	struct fetch_world world;
	struct rig rig;
	size_t known;

	fetch_world_make(&world, &small);
	fetch_world_serve(&world, server);
	lying_server_lie(server, &(struct lie_plan){.lie = LIE_WHOLE});
	rig_start(&rig, &world, hosts, 1, &options);
	assert_all(&world, rig.fetch, "whole");
	ldr_fetch_stat(rig.fetch, &stat);
	cr_assert_eq(stat.retries, 0);
	cr_assert_eq(stat.whole_packs, 3, "%lu", stat.whole_packs);
	/* How many ranges were under way before the first answer told is a matter of time; none is asked
	 * for once it is known. */
	known = lying_server_request_count(server);
	assert_all(&world, rig.fetch, "whole again");
	ldr_fetch_stat(rig.fetch, &stat);
	cr_assert_eq(stat.whole_packs, 6, "%lu", stat.whole_packs);
	for (size_t i = known; i < lying_server_request_count(server); i++)
		cr_assert_str_eq(lying_server_request(server, i).range, "");
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

/* T22 and T20: one range a request, and no coding of the body. T35: as many connections as ranges. */
Test(fetch, t22_t35_requests)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_options options = {.ranges_at_once = 5, .range_bytes = 300000};
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &small);
	fetch_world_serve(&world, server);
	/* Nobody is answered before five have asked: if requests queued up, this would stall. */
	lying_server_gather(server, 5);
	rig_start_patient(&rig, &world, hosts, 1, &options, NEVER_MS);
	assert_all(&world, rig.fetch, "gather");
	cr_assert_eq(lying_server_connections_max(server), 5);
	cr_assert_eq(lying_server_connections(server), 5);
	for (size_t i = 0; i < lying_server_request_count(server); i++) {
		struct seen_request seen = lying_server_request(server, i);

		cr_assert_str_eq(seen.method, "GET");
		cr_assert_eq(strncmp(seen.range, "bytes=", 6), 0);
		cr_assert_null(strchr(seen.range, ','));
		cr_assert_str_eq(seen.accept_encoding, "identity");
	}
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

/* ---- ends ---- */

Test(fetch, server_down)
{
	struct lying_server *server = lying_server_start();
	char url[64];
	const char *hosts[] = {url};
	struct ldr_fetch_options options = {.attempts = 2};
	struct ldr_error err = {0};
	struct fetch_world world;
	enum ldr_status status;
	uint8_t *data;
	size_t length;
	struct rig rig;

	snprintf(url, sizeof(url), "%s", lying_server_url(server));
	lying_server_stop(server);
	fetch_world_make(&world, &tiny);
	rig_start(&rig, &world, hosts, 1, &options);
	status = fetch_world_run(&world, rig.fetch, &err);
	cr_assert_eq(status, LDR_ENET, "%s", err.text);
	cr_assert_eq(ldr_status_exit(status), 5);
	cr_assert_not_null(strstr(err.text, url + strlen("http://")), "%s", err.text);
	status = ldr_fetch_object(rig.fetch, "channels/live", 100, &data, &length, &err);
	cr_assert_eq(status, LDR_ENET);
	cr_assert_not_null(strstr(err.text, url + strlen("http://")), "%s", err.text);
	rig_stop(&rig);
	fetch_world_dispose(&world);
}

/* Statuses of arrived that are not LDR_ECORRUPT end the call; nothing arrives behind its back. */
Test(fetch, arrival_refuses)
{
	static const enum ldr_status refusals[] = {LDR_ENOSPACE, LDR_ENOMEM, LDR_ECANCELLED};

	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct lying_server *server = lying_server_start();
		const char *hosts[] = {lying_server_url(server)};
		struct ldr_error err = {0};
		struct ldr_fetch_stat stat;
		struct fetch_world world;
		struct rig rig;

		fetch_world_make(&world, &small);
		world.refuse = refusals[i];
		world.refuse_after = 40;
		fetch_world_serve(&world, server);
		rig_start(&rig, &world, hosts, 1, NULL);
		cr_assert_eq(fetch_world_run(&world, rig.fetch, &err), refusals[i]);
		cr_assert_not_null(strstr(err.text, "refused by the test"), "%s", err.text);
		ldr_fetch_stat(rig.fetch, &stat);
		cr_assert_eq(stat.retries, 0);
		world.refuse = LDR_OK;
		assert_all(&world, rig.fetch, "afterwards");
		rig_stop(&rig);
		lying_server_stop(server);
		fetch_world_dispose(&world);
	}
}

Test(fetch, wants_of_the_same_place)
{
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct ldr_fetch_stat once, twice;
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &tiny);
	fetch_world_serve(&world, server);
	rig_start(&rig, &world, hosts, 1, NULL);
	assert_all(&world, rig.fetch, "once");
	ldr_fetch_stat(rig.fetch, &once);
	fetch_world_double(&world);
	assert_all(&world, rig.fetch, "twice");
	ldr_fetch_stat(rig.fetch, &twice);
	cr_assert_eq(twice.body_bytes, 2 * once.body_bytes);
	cr_assert_eq(twice.requests, 2 * once.requests);
	cr_assert_eq(twice.blocks, 3 * once.blocks);
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

/* Wants that no record can mean are refused before anything is asked. */
Test(fetch, wants_outside)
{
	static const struct {
		struct ldr_place place;
		const char *text;
	} rows[] = {
		{{.pack = 2, .offset = 64, .stored_bytes = 5}, "pack number 2"},
		{{.pack = 1, .offset = 409600 - 4, .stored_bytes = 5}, "409600 bytes"},
		{{.pack = 1, .offset = 64, .stored_bytes = 0}, "stored length 0"},
	};
	struct lying_server *server = lying_server_start();
	const char *hosts[] = {lying_server_url(server)};
	struct fetch_world world;
	struct rig rig;

	fetch_world_make(&world, &tiny);
	rig_start(&rig, &world, hosts, 1, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct ldr_upstream *upstream = ldr_fetch_upstream(rig.fetch);
		struct ldr_placed_block want = {.place = rows[i].place};
		struct ldr_error err = {0};

		cr_assert_eq(upstream->fetch(upstream->context, &want, 1, fetch_world_arrived,
					     &world, &err),
			     LDR_ECORRUPT);
		cr_assert_not_null(strstr(err.text, rows[i].text), "%s", err.text);
	}
	cr_assert_eq(lying_server_request_count(server), 0);
	rig_stop(&rig);
	lying_server_stop(server);
	fetch_world_dispose(&world);
}

/* ---- small objects ---- */

Test(fetch, objects)
{
	static const struct {
		struct lie_plan lie; /* of the first host */
		size_t max_bytes;
		enum ldr_status status;
		bool second_asked;
		const char *text;
	} rows[] = {
		{{.lie = LIE_NONE}, 100, LDR_OK, false, NULL},
		{{.lie = LIE_NONE}, 5, LDR_OK, false, NULL},
		{{.lie = LIE_NONE}, 4, LDR_ELIMIT, true, "limit of 4 bytes"},
		{{.lie = LIE_STATUS, .status = 404}, 100, LDR_OK, true, NULL},
		{{.lie = LIE_STATUS, .status = 503}, 100, LDR_OK, true, NULL},
		{{.lie = LIE_STALL_BODY}, 100, LDR_OK, true, NULL},
		{{.lie = LIE_RESET_HEAD}, 100, LDR_OK, true, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lying_server *first = lying_server_start();
		struct lying_server *second = lying_server_start();
		const char *hosts[] = {lying_server_url(first), lying_server_url(second)};
		struct fetch_world world = {0};
		struct ldr_error err = {0};
		enum ldr_status status;
		uint8_t *data = NULL;
		size_t length = 0;
		struct rig rig;

		lying_server_add_file(first, "/channels/live", "hello", 5);
		lying_server_add_file(second, "/channels/live", "hello", 5);
		lying_server_lie(first, &rows[i].lie);
		rig_start(&rig, &world, hosts, 2, NULL);
		status = ldr_fetch_object(rig.fetch, "channels/live", rows[i].max_bytes, &data,
					  &length, &err);
		cr_assert_eq(status, rows[i].status, "row %zu: %s", i, err.text);
		if (status == LDR_OK) {
			cr_assert_eq(length, 5);
			cr_assert_str_eq((char *)data, "hello");
		} else {
			cr_assert_not_null(strstr(err.text, rows[i].text), "%s", err.text);
		}
		cr_assert_eq(lying_server_request_count(second) > 0, rows[i].second_asked,
			     "row %zu", i);
		free(data);
		rig_stop(&rig);
		lying_server_stop(first);
		lying_server_stop(second);
	}
}

/* "Not found" needs a host that says so; asked once each. */
Test(fetch, object_that_nobody_has)
{
	struct lying_server *first = lying_server_start();
	struct lying_server *second = lying_server_start();
	const char *hosts[] = {lying_server_url(first), lying_server_url(second)};
	struct fetch_world world = {0};
	struct ldr_error err = {0};
	uint8_t *data;
	size_t length;
	struct rig rig;

	rig_start(&rig, &world, hosts, 2, NULL);
	cr_assert_eq(ldr_fetch_object(rig.fetch, "channels/nope", 100, &data, &length, &err),
		     LDR_ENOTFOUND);
	cr_assert_not_null(strstr(err.text, "/channels/nope: status 404"), "%s", err.text);
	cr_assert_eq(lying_server_request_count(first), 1);
	cr_assert_eq(lying_server_request_count(second), 1);
	rig_stop(&rig);
	lying_server_stop(first);
	lying_server_stop(second);
}
