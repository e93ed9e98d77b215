/*
 * A backend and a clock that a test holds; see fake_backend.h.
 */
#include "tests/support/fake_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 10

static uint64_t fake_now_ns(const struct ldr_clock *clock)
{
	const struct fake_clock *fake = (const struct fake_clock *)clock;

	return atomic_load(&fake->now_ns);
}

void fake_clock_init(struct fake_clock *clock, uint64_t now_ns)
{
	clock->clock = (struct ldr_clock){.now_ns = fake_now_ns};
	atomic_store(&clock->now_ns, now_ns);
}

void fake_clock_add(struct fake_clock *clock, uint64_t ns)
{
	atomic_fetch_add(&clock->now_ns, ns);
}

uint8_t fake_byte(uint64_t offset)
{
	return (uint8_t)(offset * 131 + (offset >> 8) * 7 + 3);
}

static const struct fake_rule *rule_of(const struct fake_backend *fake, uint64_t tag)
{
	static const struct fake_rule plain = {.tag = 0};

	for (unsigned i = 0; i < fake->rule_count; i++) {
		if (fake->rules[i].tag == tag)
			return &fake->rules[i];
	}
	return &plain;
}

/* Under the lock; ends the program when nothing has changed for PATIENCE_S. */
static void await_change(struct fake_backend *fake, const char *what)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (pthread_cond_timedwait(&fake->changed, &fake->lock, &until)) {
		fprintf(stderr, "fake backend: nothing has changed for %d s: %s\n", PATIENCE_S,
			what);
		abort();
	}
}

/* ---- reading ---- */

/* Under the lock. */
static void pass_gate(struct fake_backend *fake, uint64_t tag)
{
	if (fake->started_count < FAKE_PIECES_MAX)
		fake->started[fake->started_count] = tag;
	fake->started_count++;
	if (++fake->inside > fake->inside_peak)
		fake->inside_peak = fake->inside;
	pthread_cond_broadcast(&fake->changed);
	while (!fake->open && fake->allowed == 0)
		pthread_cond_wait(&fake->changed, &fake->lock);
	if (!fake->open)
		fake->allowed--;
	fake->inside--;
	pthread_cond_broadcast(&fake->changed);
}

static size_t cut(const struct fake_rule *rule, const struct ldr_piece *piece)
{
	size_t length = piece->length;

	if (rule->file_bytes && piece->offset >= rule->file_bytes)
		return 0;
	if (rule->file_bytes && length > rule->file_bytes - piece->offset)
		length = (size_t)(rule->file_bytes - piece->offset);
	return rule->most && length > rule->most ? rule->most : length;
}

/* ---- the network ---- */

static void set_priority(struct ldr_wait *wait)
{
	(void)wait;
}

static void release(struct ldr_wait *wait)
{
	struct fake_wait *own = wait->self;
	struct fake_backend *fake = own->fake;

	pthread_mutex_lock(&fake->lock);
	while (own->state == FAKE_WAIT_TELLING)
		pthread_cond_wait(&fake->changed, &fake->lock);
	if (own->state == FAKE_WAIT_HELD) {
		fake->waiting--;
		fake->released++;
	}
	own->state = FAKE_WAIT_FREE;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
	wait->ops = NULL;
	wait->self = NULL;
}

static const struct ldr_wait_ops wait_ops = {.set_priority = set_priority, .release = release};

/* Under the lock. */
static struct fake_wait *find(struct fake_backend *fake, enum fake_wait_state state, uint64_t tag)
{
	for (unsigned i = 0; i < FAKE_WAITS_MAX; i++) {
		if (fake->waits[i].state == state &&
		    (state == FAKE_WAIT_FREE || fake->waits[i].tag == tag))
			return &fake->waits[i];
	}
	return NULL;
}

/* Under the lock: a read of something remote. LDR_OK: it has come. */
static enum ldr_status fetch(struct fake_backend *fake, uint64_t tag, struct ldr_wait *wait)
{
	struct fake_wait *own = wait->ops ? wait->self : NULL;

	if (own && own->state != FAKE_WAIT_HELD)
		return own->status;
	own = find(fake, FAKE_WAIT_FREE, 0);
	*own = (struct fake_wait){.fake = fake, .wait = wait, .tag = tag, .state = FAKE_WAIT_HELD};
	wait->ops = &wait_ops;
	wait->self = own;
	fake->waiting++;
	pthread_cond_broadcast(&fake->changed);
	return LDR_EAGAIN;
}

bool fake_arrive(struct fake_backend *fake, uint64_t tag, enum ldr_status status)
{
	struct fake_wait *own;

	pthread_mutex_lock(&fake->lock);
	own = find(fake, FAKE_WAIT_HELD, tag);
	if (own) {
		own->state = FAKE_WAIT_TELLING;
		own->status = status;
		fake->waiting--;
	}
	pthread_mutex_unlock(&fake->lock);
	if (!own)
		return false;
	own->wait->ready(own->wait);
	pthread_mutex_lock(&fake->lock);
	own->state = FAKE_WAIT_ENDED;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
	return true;
}

int fake_wait_priority(struct fake_backend *fake, uint64_t tag)
{
	const struct fake_wait *own;
	int priority = -1;

	pthread_mutex_lock(&fake->lock);
	own = find(fake, FAKE_WAIT_HELD, tag);
	if (own)
		priority = (int)own->wait->priority;
	pthread_mutex_unlock(&fake->lock);
	return priority;
}

/* ---- a read ---- */

static enum ldr_status fake_read(void *context, const struct ldr_piece *piece,
				 struct ldr_wait *wait, size_t *out_length, struct ldr_error *err)
{
	struct fake_backend *fake = context;
	struct fake_rule rule;
	enum ldr_status status = LDR_OK;

	pthread_mutex_lock(&fake->lock);
	rule = *rule_of(fake, piece->tag);
	if (rule.remote && wait)
		status = fetch(fake, piece->tag, wait);
	if (status == LDR_OK)
		pass_gate(fake, piece->tag);
	pthread_mutex_unlock(&fake->lock);
	if (status == LDR_OK && fake->clock)
		fake_clock_add(fake->clock, rule.step_ns);
	if (status == LDR_OK && rule.status)
		return ldr_fail_errno(err, 5, "fake: tag %llu", (unsigned long long)piece->tag);
	if (status != LDR_OK)
		return status == LDR_EAGAIN ? status
					    : ldr_fail(err, status, "fake: tag %llu did not come",
						       (unsigned long long)piece->tag);
	*out_length = cut(&rule, piece);
	for (size_t i = 0; i < *out_length; i++)
		((uint8_t *)piece->bytes)[i] = fake_byte(piece->offset + i);
	return LDR_OK;
}

/* ---- the test's side ---- */

void fake_backend_init(struct fake_backend *fake, struct fake_clock *clock)
{
	memset(fake, 0, sizeof(*fake));
	fake->backend = (struct ldr_backend){.name = "fake", .context = fake, .read = fake_read};
	fake->clock = clock;
	pthread_mutex_init(&fake->lock, NULL);
	pthread_cond_init(&fake->changed, NULL);
}

void fake_backend_dispose(struct fake_backend *fake)
{
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->lock);
}

void fake_rule_add(struct fake_backend *fake, struct fake_rule rule)
{
	pthread_mutex_lock(&fake->lock);
	fake->rules[fake->rule_count++] = rule;
	pthread_mutex_unlock(&fake->lock);
}

void fake_allow(struct fake_backend *fake, unsigned reads)
{
	pthread_mutex_lock(&fake->lock);
	fake->allowed += reads;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

void fake_open(struct fake_backend *fake)
{
	pthread_mutex_lock(&fake->lock);
	fake->open = true;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

void fake_await_started(struct fake_backend *fake, unsigned count)
{
	pthread_mutex_lock(&fake->lock);
	while (fake->started_count < count)
		await_change(fake, "a piece begins");
	pthread_mutex_unlock(&fake->lock);
}

void fake_await_waits(struct fake_backend *fake, unsigned count)
{
	pthread_mutex_lock(&fake->lock);
	while (fake->waiting != count)
		await_change(fake, "a wait is held");
	pthread_mutex_unlock(&fake->lock);
}
