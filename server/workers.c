/*
 * Workers; see workers.h.
 */
#include "server/workers.h"

#include <stdlib.h>

#include "common/lock.h"

struct ldr_workers {
	struct ldr_mutex lock;
	struct ldr_condition changed;
	STAILQ_HEAD(, ldr_job) jobs;
	bool ending;
	unsigned count;
	pthread_t threads[];
};

/* The next job; NULL when there is none and the pool ends. */
static struct ldr_job *take_job(struct ldr_workers *workers)
{
	struct ldr_job *job;

	ldr_mutex_lock(&workers->lock);
	while (STAILQ_EMPTY(&workers->jobs) && !workers->ending)
		ldr_condition_wait(&workers->changed, &workers->lock);
	job = STAILQ_FIRST(&workers->jobs);
	if (job)
		STAILQ_REMOVE_HEAD(&workers->jobs, link);
	ldr_mutex_unlock(&workers->lock);
	return job;
}

static void *work(void *argument)
{
	struct ldr_workers *workers = argument;
	struct ldr_job *job;

	while ((job = take_job(workers)))
		job->run(job);
	return NULL;
}

enum ldr_status ldr_workers_new(unsigned threads, struct ldr_workers **out_workers,
				struct ldr_error *err)
{
	struct ldr_workers *workers = calloc(1, sizeof(*workers) +
							threads * sizeof(workers->threads[0]));
	enum ldr_status status = LDR_OK;

	if (!workers)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	ldr_mutex_init(&workers->lock, LDR_RANK_SERVER);
	ldr_condition_init(&workers->changed);
	STAILQ_INIT(&workers->jobs);
	while (workers->count < threads && !status) {
		status = ldr_thread_start(&workers->threads[workers->count], work, workers, err);
		if (!status)
			workers->count++;
	}
	if (status) {
		ldr_workers_free(workers);
		return status;
	}
	*out_workers = workers;
	return LDR_OK;
}

void ldr_workers_queue(struct ldr_workers *workers, struct ldr_job *job)
{
	bool here;

	ldr_mutex_lock(&workers->lock);
	here = workers->ending;
	if (!here) {
		STAILQ_INSERT_TAIL(&workers->jobs, job, link);
		ldr_condition_signal(&workers->changed);
	}
	ldr_mutex_unlock(&workers->lock);
	if (here)
		job->run(job);
}

void ldr_workers_end(struct ldr_workers *workers)
{
	ldr_mutex_lock(&workers->lock);
	workers->ending = true;
	ldr_condition_broadcast(&workers->changed);
	ldr_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->count; i++)
		pthread_join(workers->threads[i], NULL);
	workers->count = 0;
}

void ldr_workers_free(struct ldr_workers *workers)
{
	if (!workers)
		return;
	ldr_workers_end(workers);
	ldr_condition_dispose(&workers->changed);
	ldr_mutex_dispose(&workers->lock);
	free(workers);
}
