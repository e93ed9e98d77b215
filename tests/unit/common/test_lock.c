/*
 * Mutexes, conditions, threads, ranks; and the clock that is passed in.
 */
#include "common/lock.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/unit/common/scratch.h"

enum { THREADS = 4, ROUNDS = 20000 };

struct counter {
	struct ldr_mutex mutex;
	struct ldr_condition changed;
	unsigned long value;
	unsigned long wanted;
};

static void *count_up(void *argument)
{
	struct counter *counter = argument;

	for (int i = 0; i < ROUNDS; i++) {
		ldr_mutex_lock(&counter->mutex);
		counter->value++;
		ldr_condition_signal(&counter->changed);
		ldr_mutex_unlock(&counter->mutex);
	}
	return NULL;
}

Test(lock, mutual_exclusion_and_waiting)
{
	struct counter counter = {.value = 0};
	pthread_t threads[THREADS];

	ldr_mutex_init(&counter.mutex, LDR_RANK_LEAF);
	ldr_condition_init(&counter.changed);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(ldr_thread_start(&threads[i], count_up, &counter, NULL), LDR_OK);
	ldr_mutex_lock(&counter.mutex);
	while (counter.value < THREADS * ROUNDS)
		ldr_condition_wait(&counter.changed, &counter.mutex);
	ldr_mutex_unlock(&counter.mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(counter.value, (unsigned long)THREADS * ROUNDS);
	ldr_condition_dispose(&counter.changed);
	ldr_mutex_dispose(&counter.mutex);
}

static void *wait_for_it(void *argument)
{
	struct counter *counter = argument;

	ldr_mutex_lock(&counter->mutex);
	counter->value++;
	/* All wait for the same condition: a signal might wake another waiter. */
	ldr_condition_broadcast(&counter->changed);
	while (!counter->wanted)
		ldr_condition_wait(&counter->changed, &counter->mutex);
	counter->value--;
	ldr_mutex_unlock(&counter->mutex);
	return NULL;
}

Test(lock, broadcast_and_timeout)
{
	const struct ldr_clock *clock = ldr_clock_system();
	struct counter counter = {.value = 0};
	pthread_t threads[THREADS];
	uint64_t before;

	ldr_mutex_init(&counter.mutex, LDR_RANK_LEAF);
	ldr_condition_init(&counter.changed);
	ldr_mutex_lock(&counter.mutex);
	/* Nobody signals, so a wait that says "not timed out" was woken for no reason: wait again. */
	before = clock->now_ns(clock);
	while (ldr_condition_wait_ms(&counter.changed, &counter.mutex, 20))
		continue;
	cr_expect_geq(clock->now_ns(clock) - before, UINT64_C(20000000), "not before its time");
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(ldr_thread_start(&threads[i], wait_for_it, &counter, NULL), LDR_OK);
	while (counter.value < THREADS)
		ldr_condition_wait(&counter.changed, &counter.mutex);
	counter.wanted = 1;
	ldr_condition_broadcast(&counter.changed);
	ldr_mutex_unlock(&counter.mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_expect_eq(counter.value, 0u, "all of them woke");
	ldr_condition_dispose(&counter.changed);
	ldr_mutex_dispose(&counter.mutex);
}

static void *look_at_signals(void *argument)
{
	sigset_t *mask = argument;

	pthread_sigmask(SIG_SETMASK, NULL, mask);
	return NULL;
}

Test(lock, threads_take_no_signals)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE, SIGUSR1};
	sigset_t inside, before, after;
	pthread_t thread;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	cr_assert_eq(ldr_thread_start(&thread, look_at_signals, &inside, NULL), LDR_OK);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		cr_expect_eq(sigismember(&inside, signals[i]), 1);
		cr_expect_eq(sigismember(&after, signals[i]), sigismember(&before, signals[i]),
			     "the starter's are as they were");
	}
	cr_expect_geq(ldr_thread_processors(), 1u);
}

/* ---- ranks: taking a lower one while holding a higher one is our own mistake ---- */

struct order {
	enum ldr_lock_rank first, second;
	int ends; /* 0, or minus the signal */
};

static void take_two(void *context)
{
	const struct order *order = context;
	struct ldr_mutex first, second;

	close(2); /* the assertion's text is not the test's */
	ldr_mutex_init(&first, order->first);
	ldr_mutex_init(&second, order->second);
	ldr_mutex_lock(&first);
	ldr_mutex_lock(&second);
	/* In any order. */
	ldr_mutex_unlock(&first);
	ldr_mutex_unlock(&second);
	ldr_mutex_lock(&first);
	ldr_mutex_unlock(&first);
}

Test(lock, ranks)
{
	static const struct order orders[] = {
		{LDR_RANK_FETCH, LDR_RANK_LEAF, 0},
		{LDR_RANK_INSTALL, LDR_RANK_FETCH, 0},
		{LDR_RANK_LEAF, LDR_RANK_FETCH, -SIGABRT},
		{LDR_RANK_LEAF, LDR_RANK_LEAF, -SIGABRT},
		{LDR_RANK_PACK, LDR_RANK_BUILDER, -SIGABRT},
	};

#ifndef LDR_DEBUG
	cr_skip_test("ranks are checked in debug builds only");
#endif
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct order order = orders[i];

		cr_expect_eq(scratch_child(take_two, &order), order.ends, "%zu", i);
	}
}

/* ---- the clock ---- */

static uint64_t held_now(const struct ldr_clock *clock)
{
	return *(const uint64_t *)clock->context;
}

Test(lock, clocks)
{
	const struct ldr_clock *system = ldr_clock_system();
	uint64_t held = 1999999, last = system->now_ns(system);
	struct ldr_clock own = {.now_ns = held_now, .context = &held};

	for (int i = 0; i < 1000; i++) {
		uint64_t now = system->now_ns(system);

		cr_assert_geq(now, last, "never backwards");
		last = now;
	}
	cr_expect_gt(system->wall_s(system), INT64_C(1600000000));
	cr_expect_eq(ldr_clock_now_ms(&own), 1u);
	held++;
	cr_expect_eq(ldr_clock_now_ms(&own), 2u);
}
