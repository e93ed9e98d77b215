/*
 * An ordered parallel stage; see pipeline.h.
 *
 * Three counters walk around the ring: released <= claimed <= submitted <= released + items. Item k lies
 * at k modulo items; `done` is its worker's word that it is finished.
 */
#include "packs/pipeline.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/lock.h"

struct worker {
	struct ldr_pipeline *pipeline;
	unsigned number;
	pthread_t thread;
};

struct ldr_pipeline {
	struct ldr_pipeline_options options;
	struct ldr_mutex lock; /* guards all below, down to stopping */
	struct ldr_condition queued;
	struct ldr_condition finished;
	bool *done; /* owns */
	uint64_t submitted;
	uint64_t claimed;
	uint64_t released;
	bool stopping;
	struct worker workers[LDR_PIPELINE_WORKERS_MAX];
	unsigned started;
};

/* Waits for an item to work on; false when there will be none. */
static bool claim_locked(struct ldr_pipeline *pipeline, uint64_t *out_number)
{
	while (!pipeline->stopping && pipeline->claimed == pipeline->submitted)
		ldr_condition_wait(&pipeline->queued, &pipeline->lock);
	if (pipeline->stopping)
		return false;
	*out_number = pipeline->claimed++;
	return true;
}

static void *work_on(void *argument)
{
	struct worker *worker = argument;
	struct ldr_pipeline *pipeline = worker->pipeline;
	const struct ldr_pipeline_options *options = &pipeline->options;
	uint64_t number;

	ldr_mutex_lock(&pipeline->lock);
	while (claim_locked(pipeline, &number)) {
		unsigned at = (unsigned)(number % options->items);

		ldr_mutex_unlock(&pipeline->lock);
		options->work(options->context, worker->number, options->item[at]);
		ldr_mutex_lock(&pipeline->lock);
		pipeline->done[at] = true;
		if (number == pipeline->released)
			ldr_condition_signal(&pipeline->finished);
	}
	ldr_mutex_unlock(&pipeline->lock);
	return NULL;
}

static enum ldr_status start_workers(struct ldr_pipeline *pipeline, struct ldr_error *err)
{
	while (pipeline->started < pipeline->options.workers) {
		struct worker *worker = &pipeline->workers[pipeline->started];
		enum ldr_status status;

		*worker = (struct worker){.pipeline = pipeline, .number = pipeline->started};
		status = ldr_thread_start(&worker->thread, work_on, worker,
					  pipeline->started ? NULL : err);
		if (status)
			return pipeline->started ? LDR_OK : status;
		pipeline->started++;
	}
	return LDR_OK;
}

enum ldr_status ldr_pipeline_new(const struct ldr_pipeline_options *options,
				 struct ldr_pipeline **out_pipeline, struct ldr_error *err)
{
	struct ldr_pipeline *pipeline = calloc(1, sizeof(*pipeline));
	enum ldr_status status;

	assert(options->workers >= 1 && options->workers <= LDR_PIPELINE_WORKERS_MAX);
	assert(options->items > options->workers);
	if (!pipeline)
		return ldr_fail(err, LDR_ENOMEM, "pipeline: no memory");
	pipeline->options = *options;
	ldr_mutex_init(&pipeline->lock, LDR_RANK_BUILDER);
	ldr_condition_init(&pipeline->queued);
	ldr_condition_init(&pipeline->finished);
	pipeline->done = calloc(options->items, sizeof(*pipeline->done));
	status = pipeline->done ? start_workers(pipeline, err)
				: ldr_fail(err, LDR_ENOMEM, "pipeline: no memory");
	if (status)
		ldr_pipeline_free(pipeline);
	else
		*out_pipeline = pipeline;
	return status;
}

void ldr_pipeline_free(struct ldr_pipeline *pipeline)
{
	if (!pipeline)
		return;
	ldr_mutex_lock(&pipeline->lock);
	pipeline->stopping = true;
	ldr_condition_broadcast(&pipeline->queued);
	ldr_mutex_unlock(&pipeline->lock);
	for (unsigned i = 0; i < pipeline->started; i++)
		pthread_join(pipeline->workers[i].thread, NULL);
	ldr_condition_dispose(&pipeline->queued);
	ldr_condition_dispose(&pipeline->finished);
	ldr_mutex_dispose(&pipeline->lock);
	free(pipeline->done);
	free(pipeline);
}

void *ldr_pipeline_take(struct ldr_pipeline *pipeline)
{
	unsigned items = pipeline->options.items;
	uint64_t next;
	bool free_item;

	ldr_mutex_lock(&pipeline->lock);
	next = pipeline->submitted;
	free_item = next - pipeline->released < items;
	ldr_mutex_unlock(&pipeline->lock);
	return free_item ? pipeline->options.item[next % items] : NULL;
}

void ldr_pipeline_submit(struct ldr_pipeline *pipeline)
{
	ldr_mutex_lock(&pipeline->lock);
	pipeline->submitted++;
	ldr_condition_signal(&pipeline->queued);
	ldr_mutex_unlock(&pipeline->lock);
}

void *ldr_pipeline_next(struct ldr_pipeline *pipeline, bool wait)
{
	uint64_t oldest;
	unsigned at;
	bool ready;

	ldr_mutex_lock(&pipeline->lock);
	oldest = pipeline->released;
	at = (unsigned)(oldest % pipeline->options.items);
	while (wait && oldest < pipeline->submitted && !pipeline->done[at])
		ldr_condition_wait(&pipeline->finished, &pipeline->lock);
	ready = oldest < pipeline->submitted && pipeline->done[at];
	ldr_mutex_unlock(&pipeline->lock);
	return ready ? pipeline->options.item[at] : NULL;
}

void ldr_pipeline_release(struct ldr_pipeline *pipeline)
{
	ldr_mutex_lock(&pipeline->lock);
	assert(pipeline->released < pipeline->submitted);
	pipeline->done[pipeline->released % pipeline->options.items] = false;
	pipeline->released++;
	ldr_mutex_unlock(&pipeline->lock);
}
