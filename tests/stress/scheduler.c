/*
 * The scheduler under threads: producers submit reads, opens, listings and saves, some of them over
 * a network that answers when it likes or fails, cancel them one by one and by tag, change their
 * classes, and one or several collect, by poll or by waiting for the descriptor.
 *
 *	scheduler [STEPS]    default 120000; the long form is 1000000
 *
 * What must hold, whoever runs when: every accepted ticket is completed exactly once, with bytes
 * that are the file's when it says so and none of another request's; nothing is lost when there is
 * something to collect and somebody waits for the descriptor; at the end every gauge is 0.
 */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "tests/support/fake_backend.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/scheduler.h"

#define PRODUCERS 4u
#define SLOTS 64u /* in flight of each producer */
#define READ_BYTES 512u
#define LONG_BYTES (LDR_SCHEDULER_PIECE_BYTES + 777)

/* ---- a backend that answers at once, or by a thread of its own, or fails ---- */

struct remote_wait {
	struct ldr_wait *wait;
	struct remote_wait *next;
	struct network *network;
	enum { ASKED, TELLING, TOLD } state;
};

struct network {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct remote_wait *asked;
	bool over;
	atomic_uint_fast64_t waits;
};

static void network_priority(struct ldr_wait *wait)
{
	(void)wait;
}

static void network_release(struct ldr_wait *wait)
{
	struct remote_wait *own = wait->self;
	struct network *network = own->network;

	pthread_mutex_lock(&network->lock);
	for (struct remote_wait **link = &network->asked; *link; link = &(*link)->next) {
		if (*link == own) {
			*link = own->next;
			break;
		}
	}
	while (own->state == TELLING)
		pthread_cond_wait(&network->changed, &network->lock);
	pthread_mutex_unlock(&network->lock);
	wait->ops = NULL;
	free(own);
}

static const struct ldr_wait_ops network_ops = {network_priority, network_release};

static void *answer_all(void *argument)
{
	struct network *network = argument;

	pthread_mutex_lock(&network->lock);
	while (!network->over || network->asked) {
		struct remote_wait *own = network->asked;

		if (!own) {
			pthread_cond_wait(&network->changed, &network->lock);
			continue;
		}
		network->asked = own->next;
		own->state = TELLING;
		pthread_mutex_unlock(&network->lock);
		own->wait->ready(own->wait);
		pthread_mutex_lock(&network->lock);
		own->state = TOLD;
		pthread_cond_broadcast(&network->changed);
	}
	pthread_mutex_unlock(&network->lock);
	return NULL;
}

/* True: it has come. */
static bool came(struct network *network, struct ldr_wait *wait)
{
	struct remote_wait *own;
	bool has;

	if (wait->ops) {
		own = wait->self;
		pthread_mutex_lock(&network->lock);
		has = own->state != ASKED;
		pthread_mutex_unlock(&network->lock);
		assert(has);
		return true;
	}
	own = calloc(1, sizeof(*own));
	assert(own);
	*own = (struct remote_wait){.wait = wait, .network = network};
	wait->ops = &network_ops;
	wait->self = own;
	atomic_fetch_add(&network->waits, 1);
	pthread_mutex_lock(&network->lock);
	own->next = network->asked;
	network->asked = own;
	pthread_cond_broadcast(&network->changed);
	pthread_mutex_unlock(&network->lock);
	return false;
}

/* What becomes of a read is in its tag: bit 0 fails, bit 1 remote, bit 2 short transfers. */
static enum ldr_status network_read(void *context, const struct ldr_piece *piece,
				    struct ldr_wait *wait, size_t *out_length,
				    struct ldr_error *err)
{
	size_t length = piece->length;

	if ((piece->tag & 2) && wait && !came(context, wait))
		return LDR_EAGAIN;
	if (piece->tag & 1)
		return ldr_fail(err, LDR_EIO, "told to fail");
	if ((piece->tag & 4) && length > 100)
		length = 1 + (piece->offset * 7 + length) % length;
	for (size_t i = 0; i < length; i++)
		((uint8_t *)piece->bytes)[i] = fake_byte(piece->offset + i);
	*out_length = length;
	return LDR_OK;
}

/* ---- producers ---- */

enum mark { UNUSED, IN_FLIGHT };

struct one {
	_Atomic int mark;
	struct ldr_ticket ticket; /* the producer's alone */
	size_t length;
	uint64_t offset;
	uint8_t *bytes;
};

struct world {
	struct ldr_scheduler *scheduler;
	struct ldr_vfs *vfs;
	struct ldr_file *file;
	uint64_t steps; /* of each producer */
	struct one ones[PRODUCERS][SLOTS];
	atomic_uint_fast64_t accepted, refused, collected, cancelled, failed;
	atomic_bool produced;
};

struct producer {
	struct world *world;
	unsigned number;
	uint32_t random;
};

static uint32_t next_random(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

/* A tag says who asked: bits 0-2 the behaviour, 8-15 the producer, 16-31 the place. */
static uint64_t tag_of(unsigned producer, unsigned place, unsigned behaviour)
{
	return behaviour | (uint64_t)producer << 8 | (uint64_t)place << 16;
}

static struct ldr_io_request make_request(struct producer *producer, unsigned place)
{
	static const char *const paths[] = {"file", "folder", "none", "folder/other"};
	struct world *world = producer->world;
	struct one *one = &world->ones[producer->number][place];
	uint32_t random = next_random(&producer->random);
	struct ldr_io_request request = {
		.io_class = (enum ldr_io_class)(random % LDR_IO_CLASSES),
		.tag = tag_of(producer->number, place, (random >> 3) % 8),
		.bytes = one->bytes,
		.length = (random >> 6) % 64 == 0 ? LONG_BYTES : READ_BYTES,
		.offset = random,
	};

	/* Failures are every sixteenth. */
	if ((request.tag & 1) && random % 16)
		request.tag &= ~UINT64_C(1);
	if ((random >> 12) % 64 == 0)
		request.deadline_ns = 1 + random % 2 * UINT64_MAX / 2;
	if ((random >> 5) % 8) {
		request.kind = random % 32 ? LDR_IO_READ : LDR_IO_PREFETCH;
		request.file = world->file;
	} else {
		static const enum ldr_io_kind kinds[] = {LDR_IO_READ, LDR_IO_OPEN, LDR_IO_STAT,
							 LDR_IO_LIST};

		request.kind = kinds[(random >> 9) % 4];
		request.vfs = world->vfs;
		request.path = paths[(random >> 11) % 4];
	}
	one->length = request.length;
	one->offset = request.offset;
	return request;
}

static void submit_one(struct producer *producer, unsigned place)
{
	struct world *world = producer->world;
	struct one *one = &world->ones[producer->number][place];
	struct ldr_io_request request = make_request(producer, place);
	enum ldr_status status;

	atomic_store(&one->mark, IN_FLIGHT);
	status = ldr_scheduler_submit(world->scheduler, &request, &one->ticket, NULL);
	if (status == LDR_OK) {
		atomic_fetch_add(&world->accepted, 1);
		return;
	}
	assert(status == LDR_EAGAIN);
	atomic_fetch_add(&world->refused, 1);
	one->ticket = (struct ldr_ticket){0, 0};
	atomic_store(&one->mark, UNUSED);
}

static void *produce(void *argument)
{
	struct producer *producer = argument;
	struct world *world = producer->world;
	unsigned idle = 0;

	for (uint64_t step = 0; step < world->steps; step++) {
		uint32_t random = next_random(&producer->random);
		unsigned place = random % SLOTS;
		struct one *one = &world->ones[producer->number][place];

		if (atomic_load(&one->mark) == UNUSED) {
			submit_one(producer, place);
			idle = 0;
		} else if (++idle > 12) {
			/* Most places are taken: let the others come to something. */
			ldr_thread_pause_us(20);
			idle = 0;
		} else if ((random >> 7) % 4 == 0) {
			ldr_scheduler_cancel(world->scheduler, one->ticket, NULL);
		} else if ((random >> 7) % 4 == 1) {
			ldr_scheduler_reclass(world->scheduler, one->ticket,
					      (enum ldr_io_class)(1 + random % 4), NULL);
		} else if ((random >> 7) % 512 == 2) {
			ldr_scheduler_cancel_tagged(world->scheduler, 0xff00,
						    (uint64_t)producer->number << 8);
		} else {
			enum ldr_io_state state;

			ldr_scheduler_state(world->scheduler, one->ticket, &state, NULL);
		}
	}
	return NULL;
}

/* ---- collecting ---- */

static void check(struct world *world, const struct ldr_completion *done)
{
	struct one *one = &world->ones[(done->tag >> 8) & 0xff][(done->tag >> 16) & 0xffff];

	/* Twice would find it unused, or in flight with another ticket. */
	assert(atomic_load(&one->mark) == IN_FLIGHT);
	if (done->kind == LDR_IO_READ && done->outcome == LDR_IO_DONE && done->status == LDR_OK) {
		assert(done->length == one->length);
		for (size_t i = 0; i < done->length; i++)
			assert(one->bytes[i] == fake_byte(one->offset + i));
	} else if (done->kind == LDR_IO_READ) {
		assert(done->length == 0);
	}
	if (done->outcome == LDR_IO_CANCELLED)
		atomic_fetch_add(&world->cancelled, 1);
	if (done->outcome == LDR_IO_DONE && done->status != LDR_OK)
		atomic_fetch_add(&world->failed, 1);
	ldr_file_close(done->file);
	ldr_list_free(done->list);
	atomic_fetch_add(&world->collected, 1);
	atomic_store(&one->mark, UNUSED);
}

static size_t collect_some(struct world *world)
{
	struct ldr_completion done[16];
	size_t count = ldr_scheduler_poll(world->scheduler, done, 16);

	for (size_t i = 0; i < count; i++)
		check(world, &done[i]);
	return count;
}

/* Waits for nothing but the descriptor: a hint that is lost leaves it here. */
static void *collect(void *argument)
{
	struct world *world = argument;
	int fd;

	assert(ldr_scheduler_eventfd(world->scheduler, &fd, NULL) == LDR_OK);
	while (!atomic_load(&world->produced) ||
	       atomic_load(&world->collected) < atomic_load(&world->accepted)) {
		struct pollfd one = {.fd = fd, .events = POLLIN};
		int ready = poll(&one, 1, 5000);
		struct ldr_scheduler_metrics m;

		ldr_scheduler_metrics(world->scheduler, &m);
		if (ready == 0 && m.ended) {
			fprintf(stderr, "scheduler: %llu ended and the descriptor is silent\n",
				(unsigned long long)m.ended);
			abort();
		}
		collect_some(world);
	}
	return NULL;
}

static void make_vfs(struct world *world)
{
	struct ldr_mount mount = {.id = 1, .flags = LDR_MOUNT_WRITE};

	assert(ldr_vfs_new(NULL, &world->vfs, NULL) == LDR_OK);
	assert(ldr_layer_memory_new(NULL, &mount.layer, NULL) == LDR_OK);
	assert(ldr_vfs_mount(world->vfs, &mount, NULL) == LDR_OK);
	ldr_layer_unref(mount.layer);
	assert(ldr_vfs_replace(world->vfs, "file", "x", 1, LDR_SYNC_NONE, NULL) == LDR_OK);
	assert(ldr_vfs_replace(world->vfs, "folder/other", "y", 1, LDR_SYNC_NONE, NULL) == LDR_OK);
	assert(ldr_vfs_open(world->vfs, "file", LDR_OPEN_READ, &world->file, NULL) == LDR_OK);
}

static void expect_idle(struct world *world)
{
	struct ldr_scheduler_metrics m;
	struct ldr_vfs_metrics v;

	ldr_scheduler_metrics(world->scheduler, &m);
	assert(m.requests == 0 && m.bytes == 0 && m.running == 0 && m.waiting == 0 && m.ended == 0);
	assert(m.queued_reads == 0 && m.queued_names == 0 && m.queued_saves == 0);
	assert(m.accepted == world->accepted && m.collected == world->accepted);
	assert(m.accepted == m.done + m.cancelled + m.expired);
	assert(m.rejected == world->refused);
	assert(m.cancelled == world->cancelled && m.failed == world->failed);
	assert(m.requests_peak <= 128 && m.bytes_peak <= 8u << 20);
	ldr_vfs_metrics(world->vfs, &v);
	assert(v.handles_open == 1);
}

static void run(struct world *world, struct network *network)
{
	struct producer producers[PRODUCERS];
	pthread_t threads[PRODUCERS], collector, wire;

	assert(pthread_create(&wire, NULL, answer_all, network) == 0);
	assert(pthread_create(&collector, NULL, collect, world) == 0);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){world, i, i * 7919 + 13};
		assert(pthread_create(&threads[i], NULL, produce, &producers[i]) == 0);
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&world->produced, true);
	/* The collector may sleep over an empty scheduler: one more completion tells it. */
	while (atomic_load(&world->ones[0][0].mark) != UNUSED)
		ldr_thread_pause_us(200);
	submit_one(&producers[0], 0);
	pthread_join(collector, NULL);
	pthread_mutex_lock(&network->lock);
	network->over = true;
	pthread_cond_broadcast(&network->changed);
	pthread_mutex_unlock(&network->lock);
	pthread_join(wire, NULL);
}

int main(int argc, char **argv)
{
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 120000;
	static struct world world;
	struct network network = {.lock = PTHREAD_MUTEX_INITIALIZER,
				  .changed = PTHREAD_COND_INITIALIZER};
	const struct ldr_backend backend = {
		.name = "network", .context = &network, .read = network_read};
	struct ldr_scheduler_options options = ldr_scheduler_defaults();

	options.max_requests = 128;
	options.max_bytes = 8u << 20;
	options.trace_records = 32;
	options.starvation_ns = 200000;
	options.backend = &backend;
	world.steps = steps / PRODUCERS;
	make_vfs(&world);
	for (unsigned i = 0; i < PRODUCERS * SLOTS; i++)
		world.ones[i / SLOTS][i % SLOTS].bytes = malloc(LONG_BYTES);
	assert(ldr_scheduler_new(&options, &world.scheduler, NULL) == LDR_OK);
	run(&world, &network);
	expect_idle(&world);
	/* Shut down in the middle: what was taken is completed, and once. */
	atomic_store(&world.produced, false);
	for (unsigned i = 0; i < SLOTS; i++)
		submit_one(&(struct producer){&world, 0, i}, i);
	assert(ldr_scheduler_shutdown(world.scheduler, 20000, NULL) == LDR_OK);
	while (collect_some(&world))
		;
	expect_idle(&world);
	ldr_scheduler_free(world.scheduler);
	printf("ok scheduler: %llu steps, %llu accepted, %llu cancelled, %llu failed, %llu waits\n",
	       (unsigned long long)steps, (unsigned long long)world.accepted,
	       (unsigned long long)world.cancelled, (unsigned long long)world.failed,
	       (unsigned long long)network.waits);
	assert(world.cancelled > 0 && world.failed > 0 && network.waits > 0);
	ldr_file_close(world.file);
	ldr_vfs_free(world.vfs);
	for (unsigned i = 0; i < PRODUCERS * SLOTS; i++)
		free(world.ones[i / SLOTS][i % SLOTS].bytes);
	return 0;
}
