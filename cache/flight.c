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
}

void ldr_flights_dispose(struct ldr_flights *flights)
{
	for (unsigned i = 0; i < LDR_FLIGHT_HEADS; i++)
		assert(!flights->heads[i]);
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
				    bool alone, bool *out_leads)
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
	ldr_mutex_unlock(&flights->lock);
	return flight;
}

void ldr_flights_unref(struct ldr_flights *flights, struct ldr_flight *flight)
{
	bool last;

	ldr_mutex_lock(&flights->lock);
	last = --flight->references == 0;
	assert(!last || flight->state >= LDR_FLIGHT_LANDED);
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

static void end_locked(struct ldr_flights *flights, struct ldr_flight *flight,
		       enum ldr_flight_state state)
{
	struct ldr_flight **link = head_of(flights, &flight->block.id);

	while (*link != flight)
		link = &(*link)->next;
	*link = flight->next;
	flight->next = NULL;
	flight->state = state;
	ldr_condition_broadcast(&flight->ended);
}

void ldr_flight_land(struct ldr_flights *flights, struct ldr_flight *flight, uint8_t *bytes)
{
	ldr_mutex_lock(&flights->lock);
	assert(flight->state == LDR_FLIGHT_CLAIMED);
	flight->bytes = bytes;
	end_locked(flights, flight, LDR_FLIGHT_LANDED);
	ldr_mutex_unlock(&flights->lock);
}

void ldr_flight_fail(struct ldr_flights *flights, struct ldr_flight *flight,
		     const struct ldr_error *why)
{
	ldr_mutex_lock(&flights->lock);
	/* An upstream that has returned delivers no more, so nobody holds a claim. */
	assert(flight->state != LDR_FLIGHT_CLAIMED);
	if (flight->state == LDR_FLIGHT_PENDING) {
		flight->error = *why;
		end_locked(flights, flight, LDR_FLIGHT_FAILED);
	}
	ldr_mutex_unlock(&flights->lock);
}

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
