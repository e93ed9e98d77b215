/*
 * Choosing hosts, on a clock that the test holds.
 */
#include "client/hosts.h"

#include <criterion/criterion.h>

#define MS UINT64_C(1000000)

struct held_clock {
	struct ldr_clock clock;
	uint64_t ns;
};

static uint64_t held_now(const struct ldr_clock *clock)
{
	return ((const struct held_clock *)clock->context)->ns;
}

static void setup(struct ldr_hosts *hosts, struct held_clock *held, size_t count)
{
	static const char *const bases[] = {"http://a", "http://b", "http://c"};

	*held = (struct held_clock){.clock = {.now_ns = held_now, .context = held},
				    .ns = 1000000 * MS};
	cr_assert_eq(ldr_hosts_init(hosts, bases, count, &held->clock, NULL), LDR_OK);
}

/* One whole request to the host that is chosen; gives which. */
static int request(struct ldr_hosts *hosts, struct held_clock *held, enum ldr_host_outcome outcome,
		   uint64_t retry_after_ms)
{
	struct ldr_host_choice choice = ldr_hosts_choose(hosts, 0);
	uint64_t began_ns;

	held->ns += choice.wait_ns;
	began_ns = ldr_hosts_begin(hosts, choice.index);
	held->ns += MS;
	ldr_hosts_report(hosts, choice.index, outcome, began_ns, retry_after_ms);
	return choice.index;
}

Test(hosts, number_of_hosts)
{
	const char *bases[LDR_HOSTS_MAX + 1] = {0};
	struct ldr_hosts hosts;

	cr_assert_eq(ldr_hosts_init(&hosts, bases, 0, ldr_clock_system(), NULL), LDR_EINVAL);
	cr_assert_eq(ldr_hosts_init(&hosts, bases, LDR_HOSTS_MAX + 1, ldr_clock_system(), NULL),
		     LDR_EINVAL);
}

/* T29: a failing host is left, and comes back after one probe. */
Test(hosts, t29_fail_over_and_back)
{
	struct held_clock held;
	struct ldr_hosts hosts;
	uint64_t probe_ns;

	setup(&hosts, &held, 2);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 0);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_FAILED, 0), 0);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 1);
	held.ns += 2000 * MS;
	cr_assert_eq(ldr_hosts_choose(&hosts, 0).index, 0);
	probe_ns = ldr_hosts_begin(&hosts, 0);
	/* While the probe is under way nobody else is sent there. */
	cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 1);
	ldr_hosts_report(&hosts, 0, LDR_HOST_GOOD, probe_ns, 0);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 0);
	ldr_hosts_dispose(&hosts);
}

Test(hosts, failed_probe_lasts_longer)
{
	struct held_clock held;
	struct ldr_hosts hosts;
	uint64_t away_ms[3];

	setup(&hosts, &held, 2);
	for (int i = 0; i < 3; i++) {
		uint64_t left_ns;

		cr_assert_eq(request(&hosts, &held, LDR_HOST_FAILED, 0), 0);
		left_ns = held.ns;
		while (ldr_hosts_choose(&hosts, 0).index != 0)
			held.ns += MS;
		away_ms[i] = (held.ns - left_ns) / MS;
	}
	cr_assert_eq(away_ms[0], 1000);
	cr_assert_eq(away_ms[1], 2000);
	cr_assert_eq(away_ms[2], 4000);
	ldr_hosts_dispose(&hosts);
}

/* T21: wrong bytes put a host behind the others for a minute, but it may be asked when it is the last. */
Test(hosts, t21_wrong_bytes)
{
	struct held_clock held;
	struct ldr_hosts hosts;

	setup(&hosts, &held, 2);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_WRONG, 0), 0);
	held.ns += 50000 * MS;
	cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 1);
	cr_assert_eq(ldr_hosts_choose(&hosts, 2).index, 0);
	cr_assert_eq(ldr_hosts_choose(&hosts, 2).wait_ns, 0);
	cr_assert_eq(ldr_hosts_choose(&hosts, 3).index, -1);
	ldr_hosts_dispose(&hosts);
}

/* T28: what Retry-After says is kept to, up to a limit, and never shortened by the jitter. */
Test(hosts, t28_retry_after)
{
	static const struct {
		uint64_t said_ms, least_ms, most_ms;
	} rows[] = {{5000, 5000, 6250}, {60000, 60000, 75000}, {86400000, 60000, 75000}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct held_clock held;
		struct ldr_hosts hosts;
		struct ldr_host_choice choice;

		setup(&hosts, &held, 2);
		cr_assert_eq(request(&hosts, &held, LDR_HOST_BUSY, rows[i].said_ms), 0);
		cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 1);
		choice = ldr_hosts_choose(&hosts, 2);
		cr_assert_eq(choice.index, 0);
		/* One request of 1 ms has passed since. */
		cr_assert_geq(choice.wait_ns + MS, rows[i].least_ms * MS);
		cr_assert_leq(choice.wait_ns, rows[i].most_ms * MS);
		ldr_hosts_dispose(&hosts);
	}
}

/* Alone, a host is asked again and again, after pauses that double, with jitter, up to a limit. */
Test(hosts, pauses_of_the_only_host)
{
	struct held_clock held;
	struct ldr_hosts hosts;
	uint64_t base_ms = 50;

	setup(&hosts, &held, 1);
	for (int i = 0; i < 12; i++) {
		uint64_t wait_ms;

		cr_assert_eq(request(&hosts, &held, LDR_HOST_FAILED, 0), 0);
		wait_ms = ldr_hosts_choose(&hosts, 0).wait_ns / MS;
		cr_assert_geq(wait_ms, base_ms);
		cr_assert_leq(wait_ms, base_ms + base_ms / 4);
		base_ms = 2 * base_ms < 10000 ? 2 * base_ms : 10000;
	}
	cr_assert_eq(request(&hosts, &held, LDR_HOST_GOOD, 0), 0);
	cr_assert_eq(ldr_hosts_choose(&hosts, 0).wait_ns, 0);
	ldr_hosts_dispose(&hosts);
}

/* Six requests that die together are one failure, and a late answer does not make good a failure. */
Test(hosts, a_burst_counts_once)
{
	struct held_clock held;
	struct ldr_hosts hosts;
	uint64_t began_ns;

	setup(&hosts, &held, 1);
	began_ns = ldr_hosts_begin(&hosts, 0);
	held.ns += MS;
	for (int i = 0; i < 6; i++)
		ldr_hosts_report(&hosts, 0, LDR_HOST_FAILED, began_ns, 0);
	cr_assert_eq(hosts.items[0].failures, 1);
	ldr_hosts_report(&hosts, 0, LDR_HOST_GOOD, began_ns, 0);
	cr_assert_eq(hosts.items[0].failures, 1);
	ldr_hosts_report(&hosts, 0, LDR_HOST_UNDECIDED, began_ns, 0);
	cr_assert_eq(hosts.items[0].failures, 1);
	cr_assert(hosts.items[0].demoted);
	ldr_hosts_dispose(&hosts);
}

/* What is refused for one object (404, 403) needs no pause. */
Test(hosts, refused_needs_no_rest)
{
	struct held_clock held;
	struct ldr_hosts hosts;

	setup(&hosts, &held, 2);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_REFUSED, 0), 0);
	cr_assert_eq(request(&hosts, &held, LDR_HOST_REFUSED, 0), 1);
	cr_assert_eq(ldr_hosts_choose(&hosts, 0).wait_ns, 0);
	ldr_hosts_dispose(&hosts);
}
