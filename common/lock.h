/*
 * Mutexes with ranks, conditions and threads.
 *
 * Invariant: a thread takes mutexes only in rising rank; builds with LDR_DEBUG (debug, asan,
 * tsan) assert it. No I/O and no callback happens under a lock.
 *
 * Failure to lock is our own mistake (an assertion); failure to start a thread is a status.
 */
#ifndef LDR_COMMON_LOCK_H
#define LDR_COMMON_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* From the outside in: who holds a lower rank may take a higher one. */
enum ldr_lock_rank {
	LDR_RANK_SCHEDULER = 2, /* requests and their queues */
	LDR_RANK_VFS = 4,       /* changes of mounts */
	LDR_RANK_OVERLAY = 6,   /* whiteouts and copy-up */
	LDR_RANK_WATCH = 37,    /* whose turn it is to take in events */
	LDR_RANK_INSTALL = 10,
	LDR_RANK_ASK = 15, /* what the upstream of a source hears of priorities */
	LDR_RANK_FETCH = 20,
	LDR_RANK_TRANSPORT = 30,
	LDR_RANK_SERVER = 35,
	LDR_RANK_LAYER = 38, /* a live layer's own names */
	LDR_RANK_SOURCE = 40,
	LDR_RANK_DISK = 50,
	LDR_RANK_MEMORY = 60,
	LDR_RANK_BUILDER = 70,
	LDR_RANK_PACK = 80,
	LDR_RANK_LEAF = 90,
};

struct ldr_mutex {
	pthread_mutex_t handle;
	enum ldr_lock_rank rank;
};

struct ldr_condition {
	pthread_cond_t handle; /* waits on CLOCK_MONOTONIC */
};

void ldr_mutex_init(struct ldr_mutex *mutex, enum ldr_lock_rank rank);
void ldr_mutex_dispose(struct ldr_mutex *mutex);
void ldr_mutex_lock(struct ldr_mutex *mutex);
void ldr_mutex_unlock(struct ldr_mutex *mutex);

void ldr_condition_init(struct ldr_condition *condition);
void ldr_condition_dispose(struct ldr_condition *condition);
void ldr_condition_wait(struct ldr_condition *condition, struct ldr_mutex *mutex);
/* False when timeout_ms went by; like all waits it may also return true for no reason. */
bool ldr_condition_wait_ms(struct ldr_condition *condition, struct ldr_mutex *mutex,
			   uint64_t timeout_ms);
void ldr_condition_signal(struct ldr_condition *condition);
void ldr_condition_broadcast(struct ldr_condition *condition);

/* Starts a thread with all signals blocked, so that signals stay the main thread's business.
 * LDR_EAGAIN or LDR_ENOMEM when the system gives no thread. */
enum ldr_status ldr_thread_start(pthread_t *out_thread, void *(*run)(void *), void *argument,
				 struct ldr_error *err);

/* Lets the calling thread sleep; signals may cut it short. */
void ldr_thread_pause_us(unsigned microseconds);

/* A number below LDR_STRIPES that stays the same for a thread and is another one for most others:
 * which of several counters or lists it uses, so that threads do not write to each other's cache
 * lines. */
#define LDR_STRIPES 64u
static inline unsigned ldr_thread_stripe(void)
{
	uint64_t self = (uint64_t)(uintptr_t)pthread_self();

	return (unsigned)((self * UINT64_C(0x9e3779b97f4a7c15)) >> 58);
}

/* A lock for a few instructions; it has no rank, and nothing else is locked under it. */
static inline void ldr_spin_lock(atomic_flag *flag)
{
	unsigned spins = 0;

	while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire)) {
		if (++spins % 64 == 0)
			ldr_thread_pause_us(1);
	}
}

static inline void ldr_spin_unlock(atomic_flag *flag)
{
	atomic_flag_clear_explicit(flag, memory_order_release);
}

/* Processors that this process may use, at least 1. */
unsigned ldr_thread_processors(void);

#endif
