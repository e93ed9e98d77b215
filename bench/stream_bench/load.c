/*
 * load.c   threads that compute until they are told to stop.
 */
#include "bench/stream_bench/load.h"

#include "bench/support.h"
#include "common/lock.h"

#define STEPS_BETWEEN_LOOKS 4096

static void *compute(void *argument)
{
	struct stream_load *load = argument;
	volatile uint64_t kept = 1;

	while (!atomic_load_explicit(&load->stop, memory_order_relaxed))
		for (int i = 0; i < STEPS_BETWEEN_LOOKS; i++)
			kept = kept * 6364136223846793005u + 1442695040888963407u;
	return NULL;
}

bool stream_load_start(struct stream_load *load, unsigned count)
{
	struct ldr_error error = {0};

	load->count = 0;
	atomic_store(&load->stop, false);
	while (load->count < count) {
		if (ldr_thread_start(&load->thread[load->count], compute, load, &error)) {
			bench_say("load: %s", error.text);
			stream_load_stop(load);
			return false;
		}
		load->count++;
	}
	return true;
}

void stream_load_stop(struct stream_load *load)
{
	atomic_store(&load->stop, true);
	while (load->count)
		pthread_join(load->thread[--load->count], NULL);
}
