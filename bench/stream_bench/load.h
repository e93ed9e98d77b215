/*
 * Threads that keep processors busy, as a game's other threads would.
 */
#ifndef LDR_BENCH_STREAM_LOAD_H
#define LDR_BENCH_STREAM_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define STREAM_LOAD_MAX 64

struct stream_load {
	pthread_t thread[STREAM_LOAD_MAX];
	unsigned count;
	atomic_bool stop;
};

/* False after bench_say. The storage must stay where it is until stop. */
bool stream_load_start(struct stream_load *load, unsigned count);
void stream_load_stop(struct stream_load *load);

#endif
