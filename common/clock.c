/*
 * The system's clocks; see clock.h.
 */
#include "common/clock.h"

#include <time.h>

static uint64_t system_now_ns(const struct ldr_clock *clock)
{
	struct timespec now;

	(void)clock;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int64_t system_wall_s(const struct ldr_clock *clock)
{
	struct timespec now;

	(void)clock;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec;
}

const struct ldr_clock *ldr_clock_system(void)
{
	static const struct ldr_clock system = {
		.now_ns = system_now_ns,
		.wall_s = system_wall_s,
	};

	return &system;
}

int64_t ldr_clock_coarse_wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
