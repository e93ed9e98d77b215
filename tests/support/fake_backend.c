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

static enum ldr_status fake_read(void *context, const struct ldr_piece *piece, size_t *out_length,
				 struct ldr_error *err)
{
	struct fake_backend *fake = context;
	struct fake_rule rule;

	pthread_mutex_lock(&fake->lock);
	pass_gate(fake, piece->tag);
	rule = *rule_of(fake, piece->tag);
	pthread_mutex_unlock(&fake->lock);
	if (fake->clock)
		fake_clock_add(fake->clock, rule.step_ns);
	if (rule.status)
		return ldr_fail_errno(err, 5, "fake: tag %llu", (unsigned long long)piece->tag);
	*out_length = cut(&rule, piece);
	for (size_t i = 0; i < *out_length; i++)
		((uint8_t *)piece->bytes)[i] = fake_byte(piece->offset + i);
	return LDR_OK;
}

/* ---- the network ---- */

/* Under the lock: a piece of this tag has come and was not read yet. */
static bool take_fetched(struct fake_backend *fake, uint64_t tag)
{
	for (unsigned i = 0; i < fake->fetched; i++) {
		if (fake->fetched_tags[i] == tag) {
			fake->fetched_tags[i] = fake->fetched_tags[--fake->fetched];
			return true;
		}
	}
	return false;
}

static enum ldr_status fake_prepare(void *context, const struct ldr_piece *piece,
				    struct ldr_wait *wait, struct ldr_error *err)
{
	struct fake_backend *fake = context;
	enum ldr_status status = LDR_OK;

	(void)err;
	pthread_mutex_lock(&fake->lock);
	if (rule_of(fake, piece->tag)->remote && !take_fetched(fake, piece->tag)) {
		fake->wait_tags[fake->wait_count] = piece->tag;
		fake->waits[fake->wait_count++] = wait;
		wait->held = fake;
		status = LDR_EAGAIN;
		pthread_cond_broadcast(&fake->changed);
	}
	pthread_mutex_unlock(&fake->lock);
	return status;
}

/* Under the lock: takes the wait out; false: it is not held. */
static bool drop(struct fake_backend *fake, unsigned i)
{
	if (i >= fake->wait_count)
		return false;
	fake->wait_count--;
	fake->waits[i] = fake->waits[fake->wait_count];
	fake->wait_tags[i] = fake->wait_tags[fake->wait_count];
	pthread_cond_broadcast(&fake->changed);
	return true;
}

static bool fake_withdraw(void *context, struct ldr_file *file, struct ldr_wait *wait)
{
	struct fake_backend *fake = context;
	unsigned i = 0;
	bool held;

	(void)file;
	pthread_mutex_lock(&fake->lock);
	while (i < fake->wait_count && fake->waits[i] != wait)
		i++;
	held = drop(fake, i);
	fake->withdrawn += held;
	pthread_mutex_unlock(&fake->lock);
	return held;
}

static void fake_reclass(void *context, struct ldr_file *file, struct ldr_wait *wait,
			 enum ldr_io_class io_class)
{
	struct fake_backend *fake = context;

	(void)file;
	pthread_mutex_lock(&fake->lock);
	for (unsigned i = 0; i < fake->wait_count; i++) {
		if (fake->waits[i] == wait)
			wait->io_class = io_class;
	}
	pthread_mutex_unlock(&fake->lock);
}

static unsigned find_tag(const struct fake_backend *fake, uint64_t tag)
{
	unsigned i = 0;

	while (i < fake->wait_count && fake->wait_tags[i] != tag)
		i++;
	return i;
}

bool fake_arrive(struct fake_backend *fake, uint64_t tag, enum ldr_status status, bool again)
{
	struct ldr_wait *wait = NULL;
	unsigned i;

	pthread_mutex_lock(&fake->lock);
	i = find_tag(fake, tag);
	if (i < fake->wait_count) {
		wait = fake->waits[i];
		drop(fake, i);
		if (status == LDR_OK && !rule_of(fake, tag)->lost)
			fake->fetched_tags[fake->fetched++] = tag;
	}
	pthread_mutex_unlock(&fake->lock);
	if (!wait)
		return false;
	wait->status = status;
	wait->again = again;
	if (status)
		ldr_fail(&wait->error, status, "fake: tag %llu did not come",
			 (unsigned long long)tag);
	wait->wake(wait);
	return true;
}

enum ldr_io_class fake_wait_class(struct fake_backend *fake, uint64_t tag)
{
	enum ldr_io_class io_class = LDR_IO_DEFAULT;
	unsigned i;

	pthread_mutex_lock(&fake->lock);
	i = find_tag(fake, tag);
	if (i < fake->wait_count)
		io_class = fake->waits[i]->io_class;
	pthread_mutex_unlock(&fake->lock);
	return io_class;
}

/* ---- the test's side ---- */

void fake_backend_init(struct fake_backend *fake, struct fake_clock *clock)
{
	memset(fake, 0, sizeof(*fake));
	fake->backend = (struct ldr_backend){.name = "fake",
					     .context = fake,
					     .read = fake_read,
					     .prepare = fake_prepare,
					     .withdraw = fake_withdraw,
					     .reclass = fake_reclass};
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
	while (fake->wait_count != count)
		await_change(fake, "a wait is held");
	pthread_mutex_unlock(&fake->lock);
}
