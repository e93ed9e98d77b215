/*
 * What the files of the scheduler share. Inside vfs/ only.
 *
 *   scheduler.c          making, ending, drain and shutdown
 *   scheduler_submit.c   admission
 *   scheduler_work.c     the workers: what is done with a request until it has ended or waits
 *   scheduler_control.c  cancel, reclass, state: from outside into a request's life
 *   scheduler_collect.c  poll, wait, the descriptor, metrics, traces
 *
 * A request lives in a slot, from an array made at the start. States and who changes them:
 *
 *	FREE -> QUEUED        submit
 *	QUEUED -> RUNNING     a worker; or whoever ends it without work: cancel, shutdown, a deadline
 *	RUNNING -> QUEUED     its worker: others pass, or the open is done and the read is next
 *	RUNNING -> WAITING    its worker: the piece has to come over the network
 *	WAITING -> QUEUED     the wait's ready; WAITING -> RUNNING: whoever cancels it
 *	RUNNING -> ENDED      whoever made it RUNNING
 *	ENDED -> FREE         poll
 *
 * Invariants
 *  1. A slot that is RUNNING belongs to the one thread that made it so; that one alone ends it.
 *     That is why each request ends once.
 *  2. Files are opened, closed and read, and results freed, outside the lock.
 *  3. The wait of a slot (common/wait.h) belongs to its worker, and while it is WAITING to whoever
 *     has `pinned` it; a ready that comes meanwhile only notes itself (`woken`).
 *
 * Lock: `lock` (LDR_RANK_SCHEDULER) over everything that is not atomic or said to belong to a
 * worker. Nothing is called under it but the queue, the ring and the conditions.
 */
#ifndef LDR_VFS_SCHEDULER_PRIV_H
#define LDR_VFS_SCHEDULER_PRIV_H

#include <stdatomic.h>

#include "common/lock.h"
#include "common/wait.h"
#include "vfs/backend.h"
#include "vfs/file.h"
#include "vfs/queue.h"
#include "vfs/scheduler.h"

/* A sequence is a slot's number below and how often it was used above. */
#define LDR_SLOT_BITS 12u

enum ldr_slot_state {
	LDR_SLOT_FREE,
	LDR_SLOT_QUEUED,
	LDR_SLOT_RUNNING,
	LDR_SLOT_WAITING,
	LDR_SLOT_ENDED,
};

enum ldr_lane_name { LDR_LANE_READS, LDR_LANE_NAMES, LDR_LANE_SAVES, LDR_LANES };

struct ldr_slot {
	struct ldr_queue_node node; /* the first member: a node is its slot */
	struct ldr_scheduler *scheduler;
	uint64_t sequence;
	enum ldr_slot_state state;
	enum ldr_lane_name lane;
	bool pinned;           /* somebody releases its wait or changes its priority */
	bool woken;            /* the wake came while it was RUNNING or pinned */
	atomic_bool cancelled; /* also read by its worker without the lock */
	struct ldr_slot *next; /* free, or ended in order */

	/* of the one it belongs to while RUNNING */
	struct ldr_io_request request;
	struct ldr_file *file; /* shares; of the request, or opened by its path */
	size_t done;
	uint64_t cost; /* of max_bytes */
	uint32_t pieces;
	struct ldr_wait wait;
	uint64_t since_ns; /* when it came into its present state */
	struct ldr_io_times times;
	enum ldr_io_outcome outcome;
	uint32_t mount_id;
	uint64_t mount_generation;
	struct ldr_list *list;
	struct ldr_stat stat;
	struct ldr_error error; /* status LDR_OK: none, and the text is stale */
};

struct ldr_lane {
	struct ldr_scheduler *scheduler;
	struct ldr_queue queue;
	struct ldr_condition work;
	uint32_t idle;  /* workers that sleep and that nobody has woken */
	uint32_t woken; /* workers that were woken and do not run yet */
	uint32_t workers;
	/* How urgent the most urgent waiting one is, and since when the oldest waits: what a long
	 * read looks at between two pieces, without the lock; hints. */
	_Atomic uint32_t waiting_class; /* 0: a deadline; LDR_IO_CLASSES: nobody waits */
	_Atomic uint64_t oldest_ns;
};

struct ldr_scheduler {
	uint64_t id;
	struct ldr_scheduler_options options;
	const struct ldr_clock *clock;
	const struct ldr_backend *backend;
	struct ldr_slot *slots; /* owns */
	uint32_t slot_count;    /* 0 until there are slots */
	uint8_t *scratch;       /* owns: a piece for each reader, where bytes of a prefetch go */
	size_t scratch_taken;   /* pieces of it that have a reader */

	struct ldr_mutex lock;
	struct ldr_lane lanes[LDR_LANES];
	pthread_t *threads; /* owns */
	uint32_t thread_count;
	struct ldr_slot *free;
	struct ldr_slot *ended_first;
	struct ldr_slot *ended_last;
	atomic_bool has_ended; /* ended_first, for a poll that finds nothing: it takes no lock */
	uint64_t next_order;
	bool stopping; /* takes no more requests */
	bool quitting; /* workers end */
	bool joining;  /* somebody waits for the workers' end */
	bool joined;
	uint32_t collectors;            /* who wait for completions */
	uint32_t watchers;              /* who wait for the end of others */
	struct ldr_condition collect;   /* something has ended */
	struct ldr_condition quiet;     /* something has ended, or the threads have */
	struct ldr_scheduler_metrics m; /* without what is counted when asked */
	struct ldr_trace_ring ring;
	_Atomic int event_fd;     /* -1: nobody wanted one */
	atomic_bool event_raised; /* may be late: set after raising */
};

static inline struct ldr_slot *ldr_slot_of(struct ldr_queue_node *node)
{
	return (struct ldr_slot *)node;
}

static inline uint64_t ldr_scheduler_now(const struct ldr_scheduler *scheduler)
{
	return scheduler->clock->now_ns(scheduler->clock);
}

static inline void ldr_saturating_add(uint64_t *total, uint64_t more)
{
	*total = more > UINT64_MAX - *total ? UINT64_MAX : *total + more;
}

/* ---- under the lock ---- */

/* The slot goes into its lane; gives whether a worker is to be woken by ldr_lane_wake. */
bool ldr_slot_queue(struct ldr_slot *slot, uint64_t now_ns);
/* Nanoseconds from one moment to another; 0 when threads have read their clocks in another order. */
static inline uint64_t ldr_nanoseconds(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}
/* Takes it out of its lane: it is RUNNING and the caller's. */
void ldr_slot_unqueue(struct ldr_slot *slot, uint64_t now_ns);
/* WAITING -> QUEUED; as ldr_slot_queue. */
bool ldr_slot_resume(struct ldr_slot *slot, uint64_t now_ns);
/* True: it is WAITING and was pinned, since its wait does not know yet that it is cancelled or of
 * another class; the caller settles it. */
bool ldr_slot_must_settle(struct ldr_slot *slot);
/* After a change of the lane's queue. */
void ldr_lane_hint(struct ldr_lane *lane);
/* The slot of a ticket, or NULL. */
struct ldr_slot *ldr_slot_find(struct ldr_scheduler *scheduler, struct ldr_ticket ticket);
/* Who is to be told of an end once the lock is given back: woken while it is held they would only wait
 * for it. */
struct ldr_tidings {
	bool raise;   /* the descriptor */
	bool collect; /* who waits for something to collect */
	bool quiet;   /* who waits for the last end */
};
/* RUNNING -> ENDED with what the slot says. */
struct ldr_tidings ldr_slot_publish(struct ldr_slot *slot, uint64_t now_ns);

/* ---- outside the lock ---- */

void ldr_lane_wake(struct ldr_lane *lane);
void ldr_scheduler_raise_event(struct ldr_scheduler *scheduler);
void ldr_scheduler_tell(struct ldr_scheduler *scheduler, struct ldr_tidings tidings);
/* The slot is WAITING and the caller has pinned it: its wait is told the class, or given up when it is
 * cancelled, and then the slot is let go. */
void ldr_slot_settle(struct ldr_slot *slot);
/* The caller's RUNNING slot ends without (more) work; takes the lock. */
void ldr_slot_end(struct ldr_slot *slot, enum ldr_io_outcome outcome);
/* Gives up what the slot has opened or made and the caller of poll will not get. */
void ldr_slot_release(struct ldr_slot *slot);
/* Ends all queued requests whose deadline has passed. */
void ldr_scheduler_expire(struct ldr_scheduler *scheduler);
/* All that is to be done for it now, on this thread, until its end; for workers 0. */
void ldr_slot_run_alone(struct ldr_slot *slot);
/* The ready of a slot's wait. */
void ldr_slot_ready(struct ldr_wait *wait);
/* The thread of a worker; argument: its lane. */
void *ldr_lane_work(void *lane);
/* What a request is, for messages. */
#define LDR_SLOT_TEXT_BYTES 160
const char *ldr_slot_text(const struct ldr_slot *slot, char text[LDR_SLOT_TEXT_BYTES]);

#endif
