/*
 * Waiting without a thread: how a read that lacks something which is under way from elsewhere gives its
 * thread back, and hears when to come again.
 *
 * A function that takes a wait and cannot finish yet answers LDR_EAGAIN. Then ready is called once, and the
 * caller calls the function again, with the same wait and the same arguments; it may be told LDR_EAGAIN
 * again. What came meanwhile is kept until the wait is released, so that it is there for that call however
 * small the caches are. A wait is released once after its last use, also after a failure, and whether or not
 * ready has come: no call of ready is under way or comes later when the release returns.
 *
 * Threads: ready is called from any thread, with no lock held, perhaps before the function has returned;
 * it must not block and not release. Calls that take one wait, its release and its change of priority
 * exclude each other: the caller's business. A release waits for a ready under way, so it is not called
 * under a lock that ready takes.
 */
#ifndef LDR_COMMON_WAIT_H
#define LDR_COMMON_WAIT_H

/* Who is served first where work queues; the classes of the scheduler. */
enum ldr_priority {
	LDR_PRIORITY_CRITICAL = 0,
	LDR_PRIORITY_HIGH = 1, /* whoever waits with a thread */
	LDR_PRIORITY_NORMAL = 2,
	LDR_PRIORITY_BACKGROUND = 3, /* leaves room for the others */
};

struct ldr_wait;

struct ldr_wait_ops {
	void (*set_priority)(struct ldr_wait *wait);
	void (*release)(struct ldr_wait *wait);
};

/* The caller sets ready and priority, the rest to zero. */
struct ldr_wait {
	void (*ready)(struct ldr_wait *wait);
	enum ldr_priority
		priority; /* of what this wait asks for; several who want the same: the first */
	const struct ldr_wait_ops *ops; /* of whoever said LDR_EAGAIN; else NULL */
	void *self;
};

static inline void ldr_wait_set_priority(struct ldr_wait *wait, enum ldr_priority priority)
{
	wait->priority = priority;
	if (wait->ops)
		wait->ops->set_priority(wait);
}

static inline void ldr_wait_release(struct ldr_wait *wait)
{
	if (wait->ops)
		wait->ops->release(wait);
}

#endif
