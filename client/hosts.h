/*
 * The hosts that serve one store: which to ask next, by what they did before.
 *
 * A host is *demoted* after a failure, for a time that doubles with each further one: others are
 * preferred, but it is still asked when there is nobody else. When its time is over, one request
 * probes it; the first good answer restores it (fail-back). Independently a host may say (Retry-After) or
 * show (failures in a row) that it must be left alone until a moment: nobody asks it before.
 *
 * Invariants
 *  1. choose gives the first host in the user's order that is neither excluded, demoted nor to be left
 *     alone; failing that, the one that may be asked soonest, and how long to wait for it.
 *  2. Failures of requests that began before the last failure are one burst and count once.
 *
 * Threads: no lock of its own; the owner (fetch) calls under its lock.
 */
#ifndef LDR_CLIENT_HOSTS_H
#define LDR_CLIENT_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"

#define LDR_HOSTS_MAX 16
#define LDR_RETRY_AFTER_MAX_MS 60000u

enum ldr_host_outcome {
	LDR_HOST_GOOD,
	LDR_HOST_FAILED, /* unreachable, reset, stalled, 5xx, nonsense */
	LDR_HOST_BUSY,   /* 429 or 503 with Retry-After */
	LDR_HOST_REFUSED, /* 401, 403, 404, 416: this object, so others are asked and it need not rest */
	LDR_HOST_WRONG,     /* sent bytes that are not the block's */
	LDR_HOST_UNDECIDED, /* the request was called off */
};

struct ldr_host {
	char *base; /* owns the URL */
	unsigned failures;
	bool demoted;
	bool probing;        /* the request that decides about fail-back is under way */
	bool ignores_ranges; /* answered 200 to a range */
	uint64_t demoted_until_ns;
	uint64_t not_before_ns;
	uint64_t failed_ns; /* when the last failure was reported */
};

struct ldr_hosts {
	struct ldr_host items[LDR_HOSTS_MAX];
	size_t count;
	const struct ldr_clock *clock;
	uint64_t random; /* state of the jitter */
};

struct ldr_host_choice {
	int index; /* -1: all are excluded */
	uint64_t wait_ns;
};

/* Copies the URLs. LDR_EINVAL: none or more than LDR_HOSTS_MAX; LDR_ENOMEM. Borrows the clock. */
enum ldr_status ldr_hosts_init(struct ldr_hosts *hosts, const char *const *bases, size_t count,
			       const struct ldr_clock *clock, struct ldr_error *err);
void ldr_hosts_dispose(struct ldr_hosts *hosts);
/* excluded: a bit for each host that must not be chosen. */
struct ldr_host_choice ldr_hosts_choose(const struct ldr_hosts *hosts, uint32_t excluded);
/* A request to a chosen host begins (it may be a probe); gives the time to report later. */
uint64_t ldr_hosts_begin(struct ldr_hosts *hosts, int index);
void ldr_hosts_report(struct ldr_hosts *hosts, int index, enum ldr_host_outcome outcome,
		      uint64_t began_ns, uint64_t retry_after_ms);

#endif
