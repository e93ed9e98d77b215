/*
 * Blocks in flight; see flight.h.
 */
#include "cache/flight.h"

#include <assert.h>
#include <stdlib.h>

void ldr_flights_init(struct ldr_flights *flights)
{
	*flights = (struct ldr_flights){0};
	ldr_mutex_init(&flights->lock, LDR_RANK_SOURCE);
	ldr_condition_init(&flights->told);
}

void ldr_flights_dispose(struct ldr_flights *flights)
{
	for (unsigned i = 0; i < LDR_FLIGHT_HEADS; i++)
		assert(!flights->heads[i]);
	ldr_condition_dispose(&flights->told);
	ldr_mutex_dispose(&flights->lock);
}

static struct ldr_flight **head_of(struct ldr_flights *flights, const struct ldr_id *id)
{
	return &flights->heads[ldr_id_hash(id) % LDR_FLIGHT_HEADS];
}

static struct ldr_flight *flight_new(const struct ldr_block_ref *block, bool alone)
{
	struct ldr_flight *flight = calloc(1, sizeof(*flight));

	if (!flight)
		return NULL;
	flight->block = *block;
	flight->alone = alone;
	flight->threads = LDR_FLIGHT_NO_THREAD;
	flight->in_table = true;
	ldr_condition_init(&flight->ended);
	return flight;
}

static void flight_free(struct ldr_flight *flight)
{
	ldr_condition_dispose(&flight->ended);
	free(flight->bytes);
	free(flight);
}

struct ldr_flight *ldr_flights_join(struct ldr_flights *flights, const struct ldr_block_ref *block,
				    bool alone, enum ldr_priority threads, bool *out_leads)
{
	struct ldr_flight **head = head_of(flights, &block->id), *flight;

	ldr_mutex_lock(&flights->lock);
	for (flight = *head; flight; flight = flight->next) {
		if (flight->block.plain_bytes == block->plain_bytes &&
		    ldr_id_equal(&flight->block.id, &block->id))
			break;
	}
	*out_leads = !flight;
	if (!flight) {
		flight = flight_new(block, alone);
		if (flight) {
			flight->next = *head;
			*head = flight;
		}
	}
	if (flight)
		flight->references++;
	if (flight && threads < flight->threads)
		flight->threads = threads;
	ldr_mutex_unlock(&flights->lock);
	return flight;
}

/* True: the last reference has gone, and the caller frees it without the lock. */
static bool unref_locked(struct ldr_flight *flight)
{
	bool last = --flight->references == 0;

	assert(!last || (flight->state >= LDR_FLIGHT_LANDED && !flight->in_table));
	return last;
}

struct ldr_flight *ldr_flights_ref(struct ldr_flights *flights, struct ldr_flight *flight)
{
	ldr_mutex_lock(&flights->lock);
	flight->references++;
	ldr_mutex_unlock(&flights->lock);
	return flight;
}

void ldr_flights_unref(struct ldr_flights *flights, struct ldr_flight *flight)
{
	bool last;

	ldr_mutex_lock(&flights->lock);
	last = unref_locked(flight);
	ldr_mutex_unlock(&flights->lock);
	if (last)
		flight_free(flight);
}

bool ldr_flight_claim(struct ldr_flights *flights, struct ldr_flight *flight)
{
	bool claimed;

	ldr_mutex_lock(&flights->lock);
	claimed = flight->state == LDR_FLIGHT_PENDING;
	if (claimed)
		flight->state = LDR_FLIGHT_CLAIMED;
	ldr_mutex_unlock(&flights->lock);
	return claimed;
}

void ldr_flight_give_back(struct ldr_flights *flights, struct ldr_flight *flight)
{
	ldr_mutex_lock(&flights->lock);
	assert(flight->state == LDR_FLIGHT_CLAIMED);
	flight->state = LDR_FLIGHT_PENDING;
	ldr_mutex_unlock(&flights->lock);
}

static void leave_table(struct ldr_flights *flights, struct ldr_flight *flight)
{
	struct ldr_flight **link = head_of(flights, &flight->block.id);

	while (*link != flight)
		link = &(*link)->next;
	*link = flight->next;
	flight->next = NULL;
	flight->in_table = false;
}

static void note_failure(struct ldr_flight_watch *watch)
{
	const struct ldr_flight *flight = watch->flight;
	struct ldr_flight_group *group = watch->group;

	if (flight->state != LDR_FLIGHT_FAILED || group->is_final)
		return;
	group->is_final = watch->leads || flight->alone;
	if (group->is_final || group->error.status == LDR_OK)
		group->error = flight->error;
}

/* Gives the groups that wait for nothing any more. */
static struct ldr_flight_group *end_locked(struct ldr_flights *flights, struct ldr_flight *flight,
					   enum ldr_flight_state state)
{
	struct ldr_flight_group *over = NULL;

	flight->state = state;
	flight->ask = NULL;
	for (struct ldr_flight_watch *watch = flight->watches; watch; watch = watch->next) {
		struct ldr_flight_group *group = watch->group;

		note_failure(watch);
		if (--group->left)
			continue;
		group->telling = true;
		group->next = over;
		over = group;
	}
	if (state == LDR_FLIGHT_FAILED || !flight->watches)
		leave_table(flights, flight);
	ldr_condition_broadcast(&flight->ended);
	return over;
}

/* Without the lock. A group may be gone once its telling is over. */
static void tell(struct ldr_flights *flights, struct ldr_flight_group *over)
{
	struct ldr_flight_group *next;

	for (; over; over = next) {
		next = over->next;
		over->ended(over);
		ldr_mutex_lock(&flights->lock);
		over->telling = false;
		ldr_condition_broadcast(&flights->told);
		ldr_mutex_unlock(&flights->lock);
	}
}

void ldr_flight_land(struct ldr_flights *flights, struct ldr_flight *flight, uint8_t *bytes)
{
	struct ldr_flight_group *over;

	ldr_mutex_lock(&flights->lock);
	assert(flight->state == LDR_FLIGHT_CLAIMED);
	flight->bytes = bytes;
	over = end_locked(flights, flight, LDR_FLIGHT_LANDED);
	ldr_mutex_unlock(&flights->lock);
	tell(flights, over);
}

void ldr_flight_fail(struct ldr_flights *flights, struct ldr_flight *flight,
		     const struct ldr_error *why)
{
	struct ldr_flight_group *over = NULL;

	ldr_mutex_lock(&flights->lock);
	/* An upstream that is done delivers no more, so nobody holds a claim. */
	assert(flight->state != LDR_FLIGHT_CLAIMED);
	if (flight->state == LDR_FLIGHT_PENDING) {
		flight->error = *why;
		over = end_locked(flights, flight, LDR_FLIGHT_FAILED);
	}
	ldr_mutex_unlock(&flights->lock);
	tell(flights, over);
}

/* ---- groups ---- */

bool ldr_flights_watch(struct ldr_flights *flights, struct ldr_flight_group *group)
{
	bool waits;

	ldr_mutex_lock(&flights->lock);
	for (size_t i = 0; i < group->count; i++) {
		struct ldr_flight_watch *watch = &group->watches[i];
		struct ldr_flight *flight = watch->flight;

		watch->group = group;
		watch->next = flight->watches;
		flight->watches = watch;
		if (flight->state < LDR_FLIGHT_LANDED)
			group->left++;
		else
			note_failure(watch);
	}
	waits = group->left > 0;
	ldr_mutex_unlock(&flights->lock);
	return waits;
}

static void unwatch(struct ldr_flights *flights, struct ldr_flight_watch *watch)
{
	struct ldr_flight *flight = watch->flight;
	struct ldr_flight_watch **link = &flight->watches;

	while (*link != watch)
		link = &(*link)->next;
	*link = watch->next;
	if (!flight->watches && flight->state == LDR_FLIGHT_LANDED && flight->in_table)
		leave_table(flights, flight);
}

void ldr_flights_leave(struct ldr_flights *flights, struct ldr_flight_group *group)
{
	ldr_mutex_lock(&flights->lock);
	for (size_t i = 0; i < group->count; i++)
		unwatch(flights, &group->watches[i]);
	while (group->telling)
		ldr_condition_wait(&flights->told, &flights->lock);
	ldr_mutex_unlock(&flights->lock);
}

enum ldr_priority ldr_flight_priority(const struct ldr_flight *flight)
{
	enum ldr_priority first = flight->threads;

	for (const struct ldr_flight_watch *watch = flight->watches; watch; watch = watch->next) {
		if (watch->group->priority < first)
			first = watch->group->priority;
	}
	return first == LDR_FLIGHT_NO_THREAD ? LDR_PRIORITY_BACKGROUND : first;
}

/* ---- a thread that waits ---- */

enum ldr_status ldr_flight_wait(struct ldr_flights *flights, struct ldr_flight *flight,
				struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	ldr_mutex_lock(&flights->lock);
	while (flight->state < LDR_FLIGHT_LANDED)
		ldr_condition_wait(&flight->ended, &flights->lock);
	if (flight->state == LDR_FLIGHT_FAILED) {
		status = flight->error.status;
		if (err)
			*err = flight->error;
	}
	ldr_mutex_unlock(&flights->lock);
	return status;
}
