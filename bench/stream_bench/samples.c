/*
 * samples.c   samples and their percentiles.
 */
#include "bench/stream_bench/samples.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

bool stream_samples_make(size_t room, struct stream_samples *out)
{
	*out = (struct stream_samples){calloc(room + 1, sizeof(*out->ns)), 0, room};
	return out->ns != NULL;
}

void stream_samples_dispose(struct stream_samples *samples)
{
	free(samples->ns);
	*samples = (struct stream_samples){0};
}

void stream_samples_add(struct stream_samples *samples, uint64_t ns)
{
	assert(samples->count < samples->room);
	samples->ns[samples->count++] = ns;
}

static int by_value(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

void stream_samples_sort(struct stream_samples *samples)
{
	qsort(samples->ns, samples->count, sizeof(*samples->ns), by_value);
}

uint64_t stream_samples_at(const struct stream_samples *samples, unsigned percent)
{
	size_t index = samples->count * percent / 100;

	if (samples->count == 0)
		return 0;
	return samples->ns[index < samples->count ? index : samples->count - 1];
}

uint64_t stream_samples_rank(const struct stream_samples *samples, unsigned percent)
{
	size_t rank = (samples->count * percent + 99) / 100;

	return samples->count ? samples->ns[rank ? rank - 1 : 0] : 0;
}

uint64_t stream_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}
