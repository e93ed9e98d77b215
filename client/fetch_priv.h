/*
 * What the rooms of fetch share.
 *
 *   call     one request of the upstream table: its wants and their plan
 *   range    a joined run of wants on its way: waits (in its call), is received (in a stream), is handed
 *            out (in the workers' queue), is settled: done, or waits again for its next attempt
 *   stream   one request: usually one range; all of a pack's ranges where a server ignores ranges
 *
 * Life of a range
 *   planned --start--> received by a stream --stream done or range full--> settled when no worker has it
 *                                                                           |-> done
 *                                                                           `-> waits again (call->again)
 *
 * Invariants
 *  1. A range that is in a stream and has begun to be filled has a buffer of the pool; it gives it back
 *     when it is settled. So memory is bounded by the pool.
 *  2. Wants below `offered` are whole in the buffer and belong to the workers; offered only rises, under
 *     the lock, which is what publishes the bytes to them.
 *  3. A call is over when it has no stream, no range on its way, and either a failure or no range left.
 *     It is the worker which calls done that frees it, so nobody may touch a call once the lock was given
 *     back after that.
 *  4. `filled`, `complete`, and all of a stream but `next` and `call` belong to the transport's thread
 *     once the request is submitted.
 *
 * Locks: LDR_RANK_FETCH for all that is not said above; the transport is submitted to, cancelled and
 * resumed under it (its rank is above), so that a stream's id is known before its callbacks come.
 */
#ifndef LDR_CLIENT_FETCH_PRIV_H
#define LDR_CLIENT_FETCH_PRIV_H

#include <stdatomic.h>

#include "client/buffer_pool.h"
#include "client/fetch.h"
#include "client/hosts.h"
#include "client/range_plan.h"
#include "common/lock.h"

struct call;
struct stream;

struct range {
	struct range *next;       /* in its call's `again`, or in its stream by rising offset */
	struct range *ready_next; /* in the workers' queue */
	struct call *call;
	struct ldr_planned_range plan;
	uint8_t *buffer;
	uint64_t filled;
	uint32_t complete; /* wants of the plan that are whole in the buffer */
	uint32_t offered;
	uint32_t taken; /* by workers */
	unsigned busy;  /* workers that are on it */
	bool queued;
	bool received; /* no more bytes come in this attempt */
	unsigned attempts;
	uint32_t refused; /* a bit for each host that does not have it or does not give it */
	unsigned host;    /* of this attempt */
	uint64_t began_ns;
	bool attempt_failed;
	struct ldr_error error; /* the failure to report if no attempt is left */
};

struct call {
	struct call *next; /* in the queue, or among the ended */
	struct call *previous;
	unsigned priority;
	const struct ldr_placed_block *wants;
	enum ldr_status (*arrived)(void *arrival, size_t want, const void *stored,
				   struct ldr_error *err);
	void (*done)(void *arrival, const struct ldr_error *error);
	void *arrival;
	struct ldr_range_plan plan;
	uint8_t *
		held; /* owns; 1 for each want that has arrived. Written by the worker that has the want */
	size_t planned_next;  /* ranges of the plan from here on are not started */
	size_t ranges_left;   /* not done */
	size_t ranges_on_way; /* in a stream, or not settled */
	struct range *again;  /* wait for another attempt */
	struct stream *streams;
	uint64_t wake_ns; /* when a range that waits for its host may start; 0: none does */
	enum ldr_status status;
	struct ldr_error error;
	atomic_bool failed; /* status is set; for workers without the lock */
	bool ended;         /* it is over, and a worker says so to whoever asked */
};

struct stream {
	struct stream *next;      /* in its call */
	struct stream *hold_next; /* in the fetch's list of those that wait for a buffer */
	bool holds;
	struct ldr_fetch *fetch;
	struct call *call;
	struct range *ranges; /* not wholly received */
	uint64_t id;
	char *url; /* owns */
	unsigned host;
	uint64_t began_ns;
	uint32_t pack;
	uint64_t pack_bytes;
	bool asked_whole;
	uint64_t asked_first;
	uint64_t asked_last;
	bool head_seen;
	bool called_off;        /* its ranges went to another stream */
	bool satisfied;         /* ended by us: all ranges are full */
	uint64_t position;      /* of the pack: the next byte that is not yet used */
	uint64_t delivered;     /* of the pack: the next byte that the transport gives (again) */
	uint64_t refused_bytes; /* of an answer that says no */
	uint64_t retry_after_ms;
	struct ldr_error error;        /* what is wrong with the answer; status LDR_OK: nothing */
	enum ldr_host_outcome outcome; /* goes with error */
};

struct ldr_fetch {
	struct ldr_fetch_options options; /* with the defaults put in; hosts is NULL */
	struct ldr_upstream upstream;
	const struct ldr_release *release; /* borrowed */
	pthread_t *workers;                /* owns */
	unsigned worker_count;

	struct ldr_mutex lock;
	struct ldr_condition work;  /* workers wait for ready ranges */
	struct ldr_condition pause; /* objects wait for their next attempt */
	struct ldr_hosts hosts;
	struct ldr_buffer_pool pool;
	struct call
		*first_call; /* by rising priority; of one priority, the one that is served next */
	struct call *last_call;
	struct call *ended;           /* over, and done is not called yet */
	unsigned calls;               /* not freed */
	struct ldr_condition drained; /* calls fell to 0 */
	unsigned streams;
	struct stream *holding;
	struct range *ready_first;
	struct range *ready_last;
	unsigned idle_workers;
	bool stopping;

	_Atomic uint64_t requests;
	_Atomic uint64_t body_bytes;
	_Atomic uint64_t blocks;
	_Atomic uint64_t retries;
	_Atomic uint64_t bad_blocks;
	_Atomic uint64_t whole_packs;
};

static inline void ldr_fetch_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* fetch_schedule.c; all under the lock. */
void ldr_fetch_schedule(struct ldr_fetch *fetch);
/* Ends the call with the first failure; what is on its way is cancelled. */
void ldr_fetch_fail(struct ldr_fetch *fetch, struct call *call, const struct ldr_error *error);
/* Settles the range if nothing more comes for this attempt. */
void ldr_range_settle(struct ldr_fetch *fetch, struct range *range);
/* Notes a failure of this attempt; wrong bytes do not hide an earlier failure of another kind. */
void ldr_range_blame(struct range *range, const struct ldr_error *error);
bool ldr_call_is_over(const struct call *call);
/* Hands a call that is over to the workers. */
void ldr_call_end_if_over(struct ldr_fetch *fetch, struct call *call);
/* Puts a call into the queue, behind those of its priority; takes it out. */
void ldr_call_queue(struct ldr_fetch *fetch, struct call *call);
void ldr_call_unqueue(struct ldr_fetch *fetch, struct call *call);
/* Takes all that is planned or waits for this pack into the stream, by rising offset. */
void ldr_stream_adopt(struct stream *stream);
void ldr_stream_insert(struct stream *stream, struct range *range);

/* fetch_stream.c. Under the lock: the stream is over; frees it. */
void ldr_stream_end(struct stream *stream, enum ldr_status status, const struct ldr_error *error);
/* The request's callbacks. */
bool ldr_stream_head(void *context, const struct ldr_response *response);
enum ldr_flow ldr_stream_body(void *context, const void *bytes, size_t length);
void ldr_stream_done(void *context, enum ldr_status status, const struct ldr_response *response,
		     const struct ldr_error *error);

/* fetch.c: without the lock, once a call has ended. */
void ldr_call_free(struct call *call);

/* fetch_worker.c */
enum ldr_status ldr_fetch_start_workers(struct ldr_fetch *fetch, struct ldr_error *err);
void ldr_fetch_stop_workers(struct ldr_fetch *fetch);
/* Under the lock: the range has wants that no worker has taken. */
void ldr_fetch_offer(struct ldr_fetch *fetch, struct range *range);

#endif
