/*
 * Workers: a few threads for what would stall the threads that serve connections: checking a pack,
 * syncing, walking a release's closure.
 *
 * A job is a part of its owner's object: queueing allocates nothing and cannot fail. Whoever queues
 * bounds how many there are. Jobs run in the order in which they came.
 *
 * Locks: one mutex (LDR_RANK_SERVER) over the queue; a job runs without it.
 */
#ifndef LDR_SERVER_WORKERS_H
#define LDR_SERVER_WORKERS_H

#include <sys/queue.h>

#include "common/error.h"

struct ldr_workers;

/* Belongs to its owner again when run is called, which may free it. */
struct ldr_job {
	STAILQ_ENTRY(ldr_job) link;
	void (*run)(struct ldr_job *job);
};

enum ldr_status ldr_workers_new(unsigned threads, struct ldr_workers **out_workers,
				struct ldr_error *err);
/* Once the pool has ended, the job is run before this returns. */
void ldr_workers_queue(struct ldr_workers *workers, struct ldr_job *job);
/* Runs what is queued, ends the threads. */
void ldr_workers_end(struct ldr_workers *workers);
/* Ends and frees. NULL is allowed. */
void ldr_workers_free(struct ldr_workers *workers);

#endif
