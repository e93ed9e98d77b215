/*
 * Choosing a host; see hosts.h.
 */
#include "client/hosts.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define REST_FIRST_NS (50 * MS)
#define REST_MAX_NS (10000 * MS)
#define DEMOTE_FIRST_NS (1000 * MS)
#define DEMOTE_MAX_NS (60000 * MS)

enum ldr_status ldr_hosts_init(struct ldr_hosts *hosts, const char *const *bases, size_t count,
			       const struct ldr_clock *clock, struct ldr_error *err)
{
	*hosts = (struct ldr_hosts){.clock = clock};
	if (count == 0 || count > LDR_HOSTS_MAX)
		return ldr_fail(err, LDR_EINVAL, "%zu hosts, from 1 to %d are possible", count,
				LDR_HOSTS_MAX);
	hosts->random = clock->now_ns(clock) | 1;
	for (; hosts->count < count; hosts->count++) {
		hosts->items[hosts->count].base = strdup(bases[hosts->count]);
		if (!hosts->items[hosts->count].base) {
			ldr_hosts_dispose(hosts);
			return ldr_fail(err, LDR_ENOMEM, "hosts: out of memory");
		}
	}
	return LDR_OK;
}

void ldr_hosts_dispose(struct ldr_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++)
		free(hosts->items[i].base);
	hosts->count = 0;
}

static bool preferred(const struct ldr_host *host, uint64_t now_ns)
{
	if (now_ns < host->not_before_ns)
		return false;
	return !host->demoted || (now_ns >= host->demoted_until_ns && !host->probing);
}

/* Is a to be asked rather than b, when neither is preferred? */
static bool sooner(const struct ldr_host *a, const struct ldr_host *b, uint64_t now_ns)
{
	uint64_t a_ns = a->not_before_ns > now_ns ? a->not_before_ns : now_ns;
	uint64_t b_ns = b->not_before_ns > now_ns ? b->not_before_ns : now_ns;

	if (a_ns != b_ns)
		return a_ns < b_ns;
	return a->demoted_until_ns < b->demoted_until_ns;
}

struct ldr_host_choice ldr_hosts_choose(const struct ldr_hosts *hosts, uint32_t excluded)
{
	uint64_t now_ns = hosts->clock->now_ns(hosts->clock);
	struct ldr_host_choice choice = {.index = -1};
	const struct ldr_host *best = NULL;

	for (size_t i = 0; i < hosts->count; i++) {
		const struct ldr_host *host = &hosts->items[i];

		if (excluded & (UINT32_C(1) << i))
			continue;
		if (preferred(host, now_ns))
			return (struct ldr_host_choice){.index = (int)i};
		if (!best || sooner(host, best, now_ns)) {
			best = host;
			choice.index = (int)i;
		}
	}
	if (best && best->not_before_ns > now_ns)
		choice.wait_ns = best->not_before_ns - now_ns;
	return choice;
}

uint64_t ldr_hosts_begin(struct ldr_hosts *hosts, int index)
{
	struct ldr_host *host = &hosts->items[index];

	if (host->demoted)
		host->probing = true;
	return hosts->clock->now_ns(hosts->clock);
}

static uint64_t doubled(uint64_t first_ns, unsigned failures, uint64_t max_ns)
{
	unsigned shift = failures > 20 ? 20 : failures - 1;
	uint64_t value = first_ns << shift;

	return value < max_ns ? value : max_ns;
}

/* Up to a quarter more, so that clients do not come back all at once (xorshift64). */
static uint64_t jittered(struct ldr_hosts *hosts, uint64_t wait_ns)
{
	hosts->random ^= hosts->random << 13;
	hosts->random ^= hosts->random >> 7;
	hosts->random ^= hosts->random << 17;
	return wait_ns + (wait_ns / 4) * (hosts->random % 1024) / 1024;
}

static void rest(struct ldr_host *host, uint64_t until_ns)
{
	if (until_ns > host->not_before_ns)
		host->not_before_ns = until_ns;
}

static void demote(struct ldr_host *host, uint64_t until_ns)
{
	host->demoted = true;
	if (until_ns > host->demoted_until_ns)
		host->demoted_until_ns = until_ns;
}

static void report_failure(struct ldr_hosts *hosts, struct ldr_host *host, uint64_t began_ns,
			   bool must_rest)
{
	uint64_t now_ns = hosts->clock->now_ns(hosts->clock);

	if (host->failures && began_ns < host->failed_ns)
		return;
	host->failures++;
	host->failed_ns = now_ns;
	demote(host, now_ns + doubled(DEMOTE_FIRST_NS, host->failures, DEMOTE_MAX_NS));
	if (must_rest)
		rest(host,
		     now_ns + jittered(hosts, doubled(REST_FIRST_NS, host->failures, REST_MAX_NS)));
}

void ldr_hosts_report(struct ldr_hosts *hosts, int index, enum ldr_host_outcome outcome,
		      uint64_t began_ns, uint64_t retry_after_ms)
{
	struct ldr_host *host = &hosts->items[index];
	uint64_t now_ns = hosts->clock->now_ns(hosts->clock);

	if (retry_after_ms > LDR_RETRY_AFTER_MAX_MS)
		retry_after_ms = LDR_RETRY_AFTER_MAX_MS;
	host->probing = false;
	switch (outcome) {
	case LDR_HOST_GOOD:
		/* An answer that was asked for before the failure says nothing about now. */
		if (began_ns < host->failed_ns)
			break;
		host->failures = 0;
		host->demoted = false;
		break;
	case LDR_HOST_FAILED:
		report_failure(hosts, host, began_ns, true);
		break;
	case LDR_HOST_BUSY:
		report_failure(hosts, host, began_ns, retry_after_ms == 0);
		rest(host, now_ns + jittered(hosts, retry_after_ms * MS));
		break;
	case LDR_HOST_REFUSED:
		report_failure(hosts, host, began_ns, false);
		break;
	case LDR_HOST_WRONG:
		report_failure(hosts, host, began_ns, false);
		demote(host, now_ns + DEMOTE_MAX_NS);
		break;
	case LDR_HOST_UNDECIDED:
		break;
	}
}
