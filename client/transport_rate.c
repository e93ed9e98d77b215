/*
 * The token bucket of --limit-rate.
 *
 * A piece is handed on when the bucket holds anything, and its whole length is taken, so the bucket may
 * go into debt; the debt is paid before the next piece. So the mean holds whatever the pieces' size, and
 * only the depth of the bucket (50 ms of rate) can ever come at once.
 *
 * Threads: belongs to the I/O thread.
 */
#include "client/transport_priv.h"

#define DEPTH_PER_SECOND 20
#define NS_PER_SECOND UINT64_C(1000000000)

void ldr_bucket_fill(struct bucket *bucket, uint64_t now_ns)
{
	int64_t depth = (int64_t)(bucket->rate / DEPTH_PER_SECOND) + 1;
	uint64_t gain;

	/* More than a second would only overflow the depth. */
	if (now_ns - bucket->filled_ns > NS_PER_SECOND)
		bucket->filled_ns = now_ns - NS_PER_SECOND;
	gain = (uint64_t)((__uint128_t)bucket->rate * (now_ns - bucket->filled_ns) / NS_PER_SECOND);
	/* Time moves on by what was paid out, so that no fraction of a byte is lost. */
	bucket->filled_ns += (uint64_t)((__uint128_t)gain * NS_PER_SECOND / bucket->rate);
	bucket->tokens += (int64_t)gain;
	if (bucket->tokens > depth)
		bucket->tokens = depth;
}

bool ldr_bucket_take(struct bucket *bucket, size_t length)
{
	if (!bucket->rate)
		return true;
	if (bucket->tokens <= 0)
		return false;
	bucket->tokens -= (int64_t)length;
	return true;
}

uint64_t ldr_bucket_wait_ns(const struct bucket *bucket)
{
	if (!bucket->rate || bucket->tokens > 0)
		return 0;
	return (uint64_t)((__uint128_t)(uint64_t)(1 - bucket->tokens) * NS_PER_SECOND /
			  bucket->rate) +
	       1;
}
