/*
 * The scheduler and the heap: nothing is allocated after the start, by no thread; a start that fails
 * leaves nothing. malloc, its sisters and pthread_create are this program's own and count or fail.
 * Also: many producers in narrow bounds.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"
#include "tests/unit/vfs/scheduler_world.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING 0
#endif
#endif
#ifndef COUNTING
#define COUNTING 1
#endif

static atomic_bool counting;
static atomic_uint allocations;
static atomic_int allocation_to_fail; /* counts down; the one that meets 1 fails */
static atomic_int thread_to_fail;

#if COUNTING

static bool take(void)
{
	if (!atomic_load(&counting))
		return true;
	atomic_fetch_add(&allocations, 1);
	if (atomic_load(&allocation_to_fail) == 0 || atomic_fetch_sub(&allocation_to_fail, 1) != 1)
		return true;
	errno = ENOMEM;
	return false;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *bytes, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	return take() ? __libc_malloc(size) : NULL;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	return take() ? __libc_calloc(count, size) : NULL;
}

__attribute__((visibility("default"))) void *realloc(void *bytes, size_t size)
{
	return take() ? __libc_realloc(bytes, size) : NULL;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
	return take() ? __libc_memalign(alignment, size) : NULL;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attributes,
							  void *(*run)(void *), void *argument)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (atomic_load(&counting) && atomic_load(&thread_to_fail) > 0 &&
	    atomic_fetch_sub(&thread_to_fail, 1) == 1)
		return EAGAIN;
	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	return next(thread, attributes, run, argument);
}

#endif

static struct scheduler_world world;

static void setup(void)
{
	world_make(&world, NULL);
	fake_open(&world.fake);
}

static void teardown(void)
{
	world_remove(&world);
}

TestSuite(scheduler_memory, .init = setup, .fini = teardown);

/* ---- nothing is allocated (A26, A122) ---- */

static void one_lap(struct ldr_scheduler *scheduler, unsigned lap)
{
	struct ldr_io_request rows[] = {
		{.kind = LDR_IO_READ, .file = world.file, .bytes = world.bytes, .length = 9},
		{.kind = LDR_IO_READ, .path = "file", .bytes = world.bytes, .length = 9},
		{.kind = LDR_IO_STAT, .path = "folder/other"},
		{.kind = LDR_IO_OPEN, .path = "file"},
		{.kind = LDR_IO_STAT, .path = "nothing"},
		{.kind = LDR_IO_PREFETCH, .file = world.file, .length = 10},
		{.kind = LDR_IO_READ, .file = world.file, .deadline_ns = 1},
		{.kind = LDR_IO_READ, .file = world.file, .io_class = LDR_IO_BACKGROUND},
	};
	const size_t count = sizeof(rows) / sizeof(rows[0]);
	struct ldr_completion done[8];
	struct ldr_trace_record records[8];
	struct ldr_scheduler_metrics m;
	struct ldr_ticket tickets[8];
	size_t accepted, got = 0;

	for (size_t i = 0; i < count; i++) {
		rows[i].vfs = rows[i].path ? world.vfs : NULL;
		rows[i].tag = i;
	}
	cr_assert_eq(ldr_scheduler_submit_many(scheduler, rows, count, tickets, &accepted, NULL),
		     LDR_OK);
	ldr_scheduler_reclass(scheduler, tickets[7], LDR_IO_CRITICAL, NULL);
	ldr_scheduler_cancel(scheduler, tickets[lap % count], NULL);
	ldr_scheduler_cancel_tagged(scheduler, UINT64_MAX, 2);
	while (got < count) {
		ldr_scheduler_wait(scheduler, WORLD_LONG_MS, NULL);
		got += ldr_scheduler_poll(scheduler, done + got, count - got);
	}
	for (size_t i = 0; i < count; i++)
		ldr_file_close(done[i].file);
	ldr_scheduler_metrics(scheduler, &m);
	ldr_scheduler_trace(scheduler, records, lap % 8);
}

Test(scheduler_memory, nothing_is_allocated_after_the_start, .disabled = !COUNTING)
{
	for (uint32_t workers = 0; workers <= 4; workers += 2) {
		struct ldr_scheduler_options options = ldr_scheduler_defaults();
		LDR_AUTO_SCHEDULER struct ldr_scheduler *scheduler = NULL;
		int fd;

		options.workers = workers;
		options.trace_records = 16;
		cr_assert_eq(ldr_scheduler_new(&options, &scheduler, NULL), LDR_OK);
		cr_assert_eq(ldr_scheduler_eventfd(scheduler, &fd, NULL), LDR_OK);
		/* Handles of files come in slabs, one for each stripe of threads that opens. */
		for (unsigned lap = 0; lap < 32; lap++)
			one_lap(scheduler, lap);
		atomic_store(&allocations, 0);
		atomic_store(&counting, true);
		for (unsigned lap = 0; lap < 500; lap++)
			one_lap(scheduler, lap);
		atomic_store(&counting, false);
		cr_expect_eq(atomic_load(&allocations), 0, "%u workers: %u allocations", workers,
			     atomic_load(&allocations));
	}
}

/* ---- a start that fails (A149) ---- */

Test(scheduler_memory, a_start_that_fails_leaves_nothing_and_may_be_tried_again,
     .disabled = !COUNTING)
{
	struct ldr_scheduler_options options = ldr_scheduler_defaults();
	unsigned failed_allocations = 0, failed_threads = 0;

	options.workers = 5;
	options.trace_records = 7;
	for (int what = 0; what < 2; what++) {
		for (int k = 1; k < 32; k++) {
			struct ldr_scheduler *scheduler = NULL;
			struct ldr_error err = {0};
			enum ldr_status status;

			atomic_store(what ? &thread_to_fail : &allocation_to_fail, k);
			atomic_store(&counting, true);
			status = ldr_scheduler_new(&options, &scheduler, &err);
			atomic_store(&counting, false);
			atomic_store(&allocation_to_fail, 0);
			atomic_store(&thread_to_fail, 0);
			if (status == LDR_OK) {
				ldr_scheduler_free(scheduler);
				continue;
			}
			cr_expect_null(scheduler);
			cr_expect(err.status == status && err.text[0], "%s", err.text);
			if (what)
				cr_expect_eq(status, LDR_EAGAIN);
			failed_threads += what;
			failed_allocations += !what && status == LDR_ENOMEM;
		}
	}
	cr_expect_eq(failed_threads, 5 + 1 + 1, "%u", failed_threads);
	/* The scheduler, slots, threads, scratch, three queues, the trace. */
	cr_expect_geq(failed_allocations, 8, "%u", failed_allocations);
}

/* ---- many producers in narrow bounds (A152) ---- */

#define PRODUCERS 4u
#define EACH 512u

struct producer {
	struct ldr_scheduler *scheduler;
	unsigned number;
	atomic_uint *seen; /* of each identity */
};

static void *produce(void *argument)
{
	struct producer *producer = argument;
	uint8_t bytes[4 * EACH];

	for (unsigned i = 0; i < EACH; i++) {
		struct ldr_io_request request = {.kind = LDR_IO_READ,
						 .file = world.file,
						 .tag = producer->number * EACH + i,
						 .bytes = bytes + 4 * i,
						 .length = 4,
						 .offset = i};
		struct ldr_ticket ticket;

		while (ldr_scheduler_submit(producer->scheduler, &request, &ticket, NULL) ==
		       LDR_EAGAIN)
			ldr_thread_pause_us(20);
		if (i % 3 == 0)
			ldr_scheduler_cancel(producer->scheduler, ticket, NULL);
	}
	/* The bytes are the scheduler's until all have been collected. */
	for (unsigned i = 0; i < EACH; i++) {
		while (atomic_load(&producer->seen[producer->number * EACH + i]) == 0)
			ldr_thread_pause_us(100);
	}
	return NULL;
}

Test(scheduler_memory, four_producers_keep_every_identity_within_the_bounds)
{
	static atomic_uint seen[PRODUCERS * EACH];
	struct ldr_scheduler_options options = world_options(&world);
	struct ldr_scheduler *kept = world.scheduler;
	struct producer producers[PRODUCERS];
	pthread_t threads[PRODUCERS];
	unsigned collected = 0;

	options.workers = 3;
	options.max_requests = 16;
	options.max_bytes = 64;
	cr_assert_eq(ldr_scheduler_new(&options, &world.scheduler, NULL), LDR_OK);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){world.scheduler, i, seen};
		cr_assert_eq(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
	}
	while (collected < PRODUCERS * EACH) {
		struct ldr_completion done[5];
		size_t count;

		cr_assert_eq(ldr_scheduler_wait(world.scheduler, WORLD_LONG_MS, NULL), LDR_OK);
		count = ldr_scheduler_poll(world.scheduler, done, 5);
		for (size_t i = 0; i < count; i++) {
			cr_assert_lt(done[i].tag, PRODUCERS * EACH);
			cr_assert_eq(atomic_fetch_add(&seen[done[i].tag], 1), 0, "twice");
			if (done[i].outcome == LDR_IO_DONE)
				cr_expect_eq(done[i].length, 4);
		}
		collected += count;
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_leq(world_metrics(&world).requests_peak, 16);
	cr_expect_leq(world_metrics(&world).bytes_peak, 64);
	cr_expect_gt(world_metrics(&world).cancelled, 0);
	world_expect_idle(&world);
	ldr_scheduler_free(world.scheduler);
	world.scheduler = kept;
}
