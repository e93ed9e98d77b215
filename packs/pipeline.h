/*
 * An ordered parallel stage: items go in one after the other, several workers work on them at once,
 * and they come out in the order in which they went in.
 *
 * The items are a fixed ring, so memory is bounded and the feeding thread cannot run ahead: when all
 * items are in use it must first take the oldest one out. An item's life:
 *
 *   free     take gives it to the feeder, who fills it
 *   queued   submit; the next idle worker claims it
 *   working  one worker has it
 *   done     next gives it to the feeder, once all older ones have been released
 *   free     release
 *
 * Threads: take, submit, next, release and free belong to one thread, the feeder. work is called from
 * the workers, never under the lock; an item belongs to exactly one thread at any time.
 */
#ifndef LDR_PACKS_PIPELINE_H
#define LDR_PACKS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

struct ldr_pipeline;

struct ldr_pipeline_options {
	unsigned workers;  /* 1 to LDR_PIPELINE_WORKERS_MAX */
	unsigned items;    /* more than workers */
	void *const *item; /* the items themselves, borrowed until free */
	/* worker counts from 0, so that each can have a state of its own. */
	void (*work)(void *context, unsigned worker, void *item);
	void *context;
};

#define LDR_PIPELINE_WORKERS_MAX 64u

/* Starts the threads. When the system gives fewer threads than asked, but at least one, that is what
 * works. */
enum ldr_status ldr_pipeline_new(const struct ldr_pipeline_options *options,
				 struct ldr_pipeline **out_pipeline, struct ldr_error *err);
/* Waits for the items that are being worked on, forgets those that are queued. NULL is allowed. */
void ldr_pipeline_free(struct ldr_pipeline *pipeline);

/* A free item, or NULL when all are in use. Give it to submit before taking another one. */
void *ldr_pipeline_take(struct ldr_pipeline *pipeline);
void ldr_pipeline_submit(struct ldr_pipeline *pipeline);
/* The oldest item when it is done; with wait, waits for it. NULL: nothing was submitted, or (without
 * wait) the oldest is not done. Give it to release before asking again. */
void *ldr_pipeline_next(struct ldr_pipeline *pipeline, bool wait);
void ldr_pipeline_release(struct ldr_pipeline *pipeline);

#endif
