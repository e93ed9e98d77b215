/*
 * Time, as a thing that is passed in, so that tests can hold it.
 *
 * Threads: now_ns of the system clocks may be called from any thread; a test's clock says itself.
 */
#ifndef LDR_COMMON_CLOCK_H
#define LDR_COMMON_CLOCK_H

#include <stdint.h>

struct ldr_clock {
	/* Monotonic nanoseconds, for waits and rates. */
	uint64_t (*now_ns)(const struct ldr_clock *clock);
	/* Seconds since 1970-01-01 UTC, for records and expiry. */
	int64_t (*wall_s)(const struct ldr_clock *clock);
	void *context;
};

/* The system's clocks; static storage. */
const struct ldr_clock *ldr_clock_system(void);

/* Nanoseconds since 1970-01-01 UTC as of the last tick of the system: what file systems stamp their
 * files with. No system call. */
int64_t ldr_clock_coarse_wall_ns(void);

static inline uint64_t ldr_clock_now_ms(const struct ldr_clock *clock)
{
	return clock->now_ns(clock) / 1000000;
}

static inline double ldr_clock_seconds_since(const struct ldr_clock *clock, uint64_t started_ns)
{
	return (double)(clock->now_ns(clock) - started_ns) / 1e9;
}

#endif
