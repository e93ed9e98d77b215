/*
 * One loop over all processors; see parallel.h.
 */
#include "client/parallel.h"

#include <stdatomic.h>

#include "common/lock.h"

#define WORKERS_MAX 16
/* Items are taken in runs, so that neighbours (blocks of one file) stay with one thread. */
#define RUN 16

struct loop {
	size_t count;
	enum ldr_status (*work)(void *context, size_t item, struct ldr_error *err);
	void *context;
	atomic_size_t next;
	atomic_int failed;      /* pairs with nothing: a hint to stop early */
	struct ldr_mutex mutex; /* guards status and error */
	enum ldr_status status;
	struct ldr_error error;
};

static void keep_first(struct loop *loop, enum ldr_status status, const struct ldr_error *error)
{
	ldr_mutex_lock(&loop->mutex);
	if (!loop->status) {
		loop->status = status;
		loop->error = *error;
	}
	ldr_mutex_unlock(&loop->mutex);
	atomic_store(&loop->failed, 1);
}

static void *run(void *argument)
{
	struct loop *loop = argument;
	struct ldr_error error = {0};

	while (!atomic_load(&loop->failed)) {
		size_t first = atomic_fetch_add(&loop->next, RUN);

		if (first >= loop->count)
			break;
		for (size_t i = first; i < first + RUN && i < loop->count; i++) {
			enum ldr_status status = loop->work(loop->context, i, &error);

			if (status) {
				keep_first(loop, status, &error);
				break;
			}
		}
	}
	return NULL;
}

enum ldr_status ldr_parallel(size_t count, unsigned workers,
			     enum ldr_status (*work)(void *context, size_t item,
						     struct ldr_error *err),
			     void *context, struct ldr_error *err)
{
	struct loop loop = {.count = count, .work = work, .context = context};
	pthread_t threads[WORKERS_MAX];
	unsigned started = 0;

	if (workers > WORKERS_MAX)
		workers = WORKERS_MAX;
	ldr_mutex_init(&loop.mutex, LDR_RANK_LEAF);
	/* A thread that cannot be had is no failure: the others do its work. */
	while (started + 1 < workers && started * RUN < count &&
	       ldr_thread_start(&threads[started], run, &loop, NULL) == LDR_OK)
		started++;
	run(&loop);
	while (started > 0)
		pthread_join(threads[--started], NULL);
	ldr_mutex_dispose(&loop.mutex);
	if (loop.status && err)
		*err = loop.error;
	return loop.status;
}
