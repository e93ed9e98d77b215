/*
 * Many threads fetch at once through one transport from two hosts that lie now and then, and ask for small
 * objects and whole exchanges in between: every block is right and comes once, or the call says why not.
 * Meant for MODE=tsan. (T32)
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fetch.h"
#include "tests/faults/lying_server.h"
#include "tests/support/fetch_world.h"

#define THREADS 16
#define ROUNDS 4

struct shared {
	struct ldr_transport *transport;
	struct ldr_fetch *fetch;
	const char *url; /* of the honest objects */
};

struct thread {
	struct shared *shared;
	struct fetch_world world; /* the same packs for all, its own arrivals */
	unsigned number;
	unsigned failed;
	pthread_t handle;
};

static void get_object(struct shared *shared)
{
	struct ldr_error err = {0};
	uint8_t *data = NULL;
	size_t length = 0;
	enum ldr_status status;

	status = ldr_fetch_object(shared->fetch, "channels/live", 100, &data, &length, &err);
	if (status) {
		assert(err.status == status && err.text[0]);
		return;
	}
	assert(length == 5 && memcmp(data, "hello", 6) == 0);
	free(data);
}

static void exchange(struct shared *shared)
{
	struct ldr_error err = {0};
	struct ldr_exchange exchange = {0};
	char *url = ldr_url_join(shared->url, "honest");
	struct ldr_request request = {.method = LDR_GET, .url = url};

	assert(url);
	if (ldr_transport_perform(shared->transport, &request, 100, &exchange, &err) == LDR_OK) {
		assert(exchange.body_length == 6 || exchange.response.status != 200);
		ldr_exchange_dispose(&exchange);
	}
	free(url);
}

static void *run(void *argument)
{
	struct thread *thread = argument;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ldr_error err = {0};
		enum ldr_status status;

		/* Some calls are ended by their own arrival, in the middle of all others. */
		thread->world.refuse = (thread->number + round) % 5 == 0 ? LDR_ENOSPACE : LDR_OK;
		thread->world.refuse_after = 20;
		atomic_store(&thread->world.calls, 0);
		status = fetch_world_run(&thread->world, thread->shared->fetch, &err);
		if (thread->world.refuse) {
			assert(status == LDR_ENOSPACE || err.text[0]);
		} else if (status) {
			thread->failed++;
			assert(err.status == status && err.text[0]);
		} else {
			assert(fetch_world_missing(&thread->world) == 0);
		}
		get_object(thread->shared);
		exchange(thread->shared);
	}
	return NULL;
}

/* Lies of every kind that needs no stall, each at its own moments. Only about packs: what a small object
 * holds is for its signature to prove, not for fetch. */
static void plan_lies(struct lying_server *server, char paths[3][160], unsigned first)
{
	static const enum lie kinds[] = {LIE_FLIP,  LIE_RESET,      LIE_SHORT,       LIE_STATUS,
					 LIE_SHIFT, LIE_RESET_HEAD, LIE_OTHER_RANGE, LIE_EMPTY};

	for (unsigned i = 0; i < 24; i++) {
		struct lie_plan plan = {.lie = kinds[i % 8],
					.path = paths[i % 3],
					.status = 503,
					.after = first + 5 * i,
					.times = 1};

		lying_server_lie(server, &plan);
	}
}

int main(void)
{
	static const struct fetch_world_shape shape = {.seed = 9,
						       .pack_count = 3,
						       .pack_bytes = 700 * 1024,
						       .block_bytes_max = 30 * 1024,
						       .take_percent = 70};
	struct lying_server *servers[2] = {lying_server_start(), lying_server_start()};
	const char *hosts[2] = {lying_server_url(servers[0]), lying_server_url(servers[1])};
	struct shared shared = {.url = hosts[1]};
	struct thread *threads = calloc(THREADS, sizeof(*threads));
	struct ldr_fetch_options options = {.hosts = hosts,
					    .host_count = 2,
					    .range_bytes = 300000,
					    .workers = 3,
					    .attempts = 8};
	unsigned failed = 0;
	char paths[3][160];

	assert(threads);
	assert(ldr_transport_new(NULL, &shared.transport, NULL) == LDR_OK);
	options.transport = shared.transport;
	assert(ldr_fetch_new(&options, &shared.fetch, NULL) == LDR_OK);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].shared = &shared;
		threads[i].number = i;
		fetch_world_make(&threads[i].world, &shape);
	}
	ldr_fetch_set_release(shared.fetch, &threads[0].world.release);
	for (unsigned i = 0; i < 3; i++)
		fetch_world_path(&threads[0].world, i, paths[i]);
	for (unsigned i = 0; i < 2; i++) {
		fetch_world_serve(&threads[0].world, servers[i]);
		lying_server_add_file(servers[i], "/channels/live", "hello", 5);
		lying_server_add_file(servers[i], "/honest", "honest", 6);
		plan_lies(servers[i], paths, 1 + i);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert(pthread_create(&threads[i].handle, NULL, run, &threads[i]) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i].handle, NULL);
		failed += threads[i].failed;
	}
	ldr_fetch_free(shared.fetch);
	ldr_transport_free(shared.transport);
	for (unsigned i = 0; i < 2; i++)
		lying_server_stop(servers[i]);
	for (unsigned i = 0; i < THREADS; i++)
		fetch_world_dispose(&threads[i].world);
	free(threads);
	/* Every lie is told once and there are eight attempts: a call that fails is a bug. */
	printf("%u of %u calls failed\n", failed, THREADS * ROUNDS);
	return failed != 0;
}
