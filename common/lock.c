/*
 * Mutexes with ranks, conditions and threads; see lock.h.
 */
#include "common/lock.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#ifdef LDR_DEBUG
/* The ranks that this thread holds, lowest first. Only debug builds have it; thread-local state is
 * the one way to know what the calling thread holds. */
#define HELD_MAX 16
static _Thread_local enum ldr_lock_rank held[HELD_MAX];
static _Thread_local int held_count;

static void rank_taken(enum ldr_lock_rank rank)
{
	assert(held_count < HELD_MAX);
	assert(held_count == 0 || held[held_count - 1] < rank);
	held[held_count++] = rank;
}

static void rank_given_back(enum ldr_lock_rank rank)
{
	int i = held_count - 1;

	while (i >= 0 && held[i] != rank)
		i--;
	assert(i >= 0);
	for (; i + 1 < held_count; i++)
		held[i] = held[i + 1];
	held_count--;
}
#else
static void rank_taken(enum ldr_lock_rank rank)
{
	(void)rank;
}

static void rank_given_back(enum ldr_lock_rank rank)
{
	(void)rank;
}
#endif

static void must(int result)
{
	assert(result == 0);
	(void)result;
}

void ldr_mutex_init(struct ldr_mutex *mutex, enum ldr_lock_rank rank)
{
	must(pthread_mutex_init(&mutex->handle, NULL));
	mutex->rank = rank;
}

void ldr_mutex_dispose(struct ldr_mutex *mutex)
{
	must(pthread_mutex_destroy(&mutex->handle));
}

void ldr_mutex_lock(struct ldr_mutex *mutex)
{
	rank_taken(mutex->rank);
	must(pthread_mutex_lock(&mutex->handle));
}

void ldr_mutex_unlock(struct ldr_mutex *mutex)
{
	/* Once it is unlocked, whoever waited for it may dispose of it. */
	enum ldr_lock_rank rank = mutex->rank;

	must(pthread_mutex_unlock(&mutex->handle));
	rank_given_back(rank);
}

void ldr_condition_init(struct ldr_condition *condition)
{
	pthread_condattr_t attributes;

	must(pthread_condattr_init(&attributes));
	must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
	must(pthread_cond_init(&condition->handle, &attributes));
	must(pthread_condattr_destroy(&attributes));
}

void ldr_condition_dispose(struct ldr_condition *condition)
{
	must(pthread_cond_destroy(&condition->handle));
}

void ldr_condition_wait(struct ldr_condition *condition, struct ldr_mutex *mutex)
{
	rank_given_back(mutex->rank);
	must(pthread_cond_wait(&condition->handle, &mutex->handle));
	rank_taken(mutex->rank);
}

bool ldr_condition_wait_ms(struct ldr_condition *condition, struct ldr_mutex *mutex,
			   uint64_t timeout_ms)
{
	struct timespec until;
	int result;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(timeout_ms / 1000);
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	rank_given_back(mutex->rank);
	result = pthread_cond_timedwait(&condition->handle, &mutex->handle, &until);
	rank_taken(mutex->rank);
	assert(result == 0 || result == ETIMEDOUT);
	return result == 0;
}

void ldr_condition_signal(struct ldr_condition *condition)
{
	must(pthread_cond_signal(&condition->handle));
}

void ldr_condition_broadcast(struct ldr_condition *condition)
{
	must(pthread_cond_broadcast(&condition->handle));
}

void ldr_thread_pause_us(unsigned microseconds)
{
	struct timespec pause = {.tv_sec = microseconds / 1000000,
				 .tv_nsec = (long)(microseconds % 1000000) * 1000};

	nanosleep(&pause, NULL);
}

enum ldr_status ldr_thread_start(pthread_t *out_thread, void *(*run)(void *), void *argument,
				 struct ldr_error *err)
{
	sigset_t all, before;
	int result;

	sigfillset(&all);
	must(pthread_sigmask(SIG_SETMASK, &all, &before));
	result = pthread_create(out_thread, NULL, run, argument);
	must(pthread_sigmask(SIG_SETMASK, &before, NULL));
	if (result)
		return ldr_fail_errno(err, result, "thread not started");
	return LDR_OK;
}

unsigned ldr_thread_processors(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (unsigned)CPU_COUNT(&set);
	return 1;
}
