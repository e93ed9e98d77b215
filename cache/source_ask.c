/*
 * What is asked of the upstream, and what arrives; see source.h.
 *
 * An ask is one request upwards for flights that somebody leads. It goes on when that reader has gone: what
 * arrives serves the others and the caches. Its priority follows that of its flights, which rises and falls
 * with those who wait.
 *
 * Invariants
 *  1. Every flight of an ask has ended when its done returns.
 *  2. An arrival goes into disk and memory before its flight ends, so that whoever does not find the flight
 *     finds the block.
 *  3. The upstream hears of priorities one after the other, and only while the ticket is valid: under
 *     ask_lock, which done takes first.
 */
#include <assert.h>
#include <stdlib.h>

#include "cache/source_priv.h"
#include "common/bytes.h"

struct ldr_ask {
	struct ldr_source *source;
	struct ldr_placed_block *wants; /* owns */
	struct ldr_flight **flights;    /* owns; shares each */
	size_t count;
	void *ticket;               /* under ask_lock; NULL: the upstream has none */
	bool is_over;               /* under ask_lock */
	bool has_news;              /* somebody came before there was a ticket; under ask_lock */
	enum ldr_priority priority; /* what the upstream knows; under ask_lock */
	unsigned
		references; /* under the flights' lock: the upstream, whoever starts or changes it */
};

static void ask_unref(struct ldr_ask *ask)
{
	struct ldr_flights *flights = &ask->source->flights;
	bool last;

	ldr_mutex_lock(&flights->lock);
	last = --ask->references == 0;
	ldr_mutex_unlock(&flights->lock);
	if (!last)
		return;
	for (size_t i = 0; i < ask->count; i++)
		ldr_flights_unref(flights, ask->flights[i]);
	free(ask->flights);
	free(ask->wants);
	free(ask);
}

/* ---- arrivals ---- */

static enum ldr_status decode_arrival(struct ldr_source *source,
				      const struct ldr_placed_block *want, const void *stored,
				      uint8_t *plain, struct ldr_error *err)
{
	struct ldr_source_scratch *scratch;
	struct ldr_id id;
	enum ldr_status status = ldr_source_scratch_take(source, &scratch, err);

	if (status)
		return status;
	status = ldr_decode(scratch->coder, want->place.codec, stored, want->place.stored_bytes,
			    plain, want->block.plain_bytes, err);
	if (status == LDR_OK) {
		ldr_digest(scratch->hasher, plain, want->block.plain_bytes, &id);
		if (!ldr_id_equal(&id, &want->block.id)) {
			char wanted[LDR_ID_HEX_CHARS + 1], got[LDR_ID_HEX_CHARS + 1];

			ldr_id_to_hex(&want->block.id, wanted);
			ldr_id_to_hex(&id, got);
			status = ldr_fail(err, LDR_ECORRUPT, "block %s: bytes with digest %s",
					  wanted, got);
		}
	}
	ldr_source_scratch_give(source, scratch);
	return status;
}

static enum ldr_status arrived(void *arrival, size_t which, const void *stored,
			       struct ldr_error *err)
{
	struct ldr_ask *ask = arrival;
	struct ldr_source *source = ask->source;
	const struct ldr_placed_block *want = &ask->wants[which];
	struct ldr_flight *flight = ask->flights[which];
	LDR_AUTO_FREE uint8_t *plain = NULL;
	enum ldr_status status;

	assert(which < ask->count);
	if (!ldr_flight_claim(&source->flights, flight))
		return LDR_OK;
	plain = malloc(want->block.plain_bytes);
	status = plain ? decode_arrival(source, want, stored, plain, err)
		       : ldr_fail(err, LDR_ENOMEM, "no memory for a block of %u bytes",
				  want->block.plain_bytes);
	if (status) {
		ldr_flight_give_back(&source->flights, flight);
		return status;
	}
	if (source->disk)
		ldr_disk_put(source->disk, &want->block, want->place.codec, stored,
			     want->place.stored_bytes);
	if (source->memory)
		ldr_memory_put(source->memory, &want->block, plain, NULL);
	ldr_source_count(&source->from_upstream, 1);
	ldr_source_count(&source->upstream_bytes, want->place.stored_bytes);
	ldr_flight_land(&source->flights, flight, LDR_STEAL(plain));
	return LDR_OK;
}

/* ---- the end ---- */

static void end_flights(struct ldr_ask *ask, const struct ldr_error *error)
{
	struct ldr_error why = *error;
	char hex[LDR_ID_HEX_CHARS + 1];

	if (why.status == LDR_OK) {
		ldr_id_to_hex(&ask->wants[0].block.id, hex);
		ldr_fail(&why, LDR_EIO, "block %s or one after it was not delivered", hex);
	}
	for (size_t i = 0; i < ask->count; i++)
		ldr_flight_fail(&ask->source->flights, ask->flights[i], &why);
}

static void done(void *arrival, const struct ldr_error *error)
{
	struct ldr_ask *ask = arrival;

	ldr_mutex_lock(&ask->source->ask_lock);
	ask->is_over = true;
	ldr_mutex_unlock(&ask->source->ask_lock);
	end_flights(ask, error);
	ask_unref(ask);
}

/* ---- priority ---- */

/* Tells the upstream what its flights are worth by now; under ask_lock. */
static void tell_priority(struct ldr_ask *ask)
{
	struct ldr_source *source = ask->source;
	enum ldr_priority first = LDR_PRIORITY_BACKGROUND;

	ask->has_news = !ask->ticket;
	if (!ask->ticket || ask->is_over)
		return;
	ldr_mutex_lock(&source->flights.lock);
	for (size_t i = 0; i < ask->count; i++) {
		const struct ldr_flight *flight = ask->flights[i];

		if (flight->state < LDR_FLIGHT_LANDED && ldr_flight_priority(flight) < first)
			first = ldr_flight_priority(flight);
	}
	ldr_mutex_unlock(&source->flights.lock);
	if (first == ask->priority)
		return;
	ask->priority = first;
	source->upstream.set_priority(source->upstream.context, ask->ticket, first);
}

void ldr_source_flight_priority_changed(struct ldr_source *source, struct ldr_flight *flight)
{
	struct ldr_ask *ask;

	ldr_mutex_lock(&source->flights.lock);
	ask = flight->ask;
	if (ask)
		ask->references++;
	ldr_mutex_unlock(&source->flights.lock);
	if (!ask)
		return;
	ldr_mutex_lock(&source->ask_lock);
	tell_priority(ask);
	ldr_mutex_unlock(&source->ask_lock);
	ask_unref(ask);
}

/* ---- the start ---- */

static void start(struct ldr_ask *ask)
{
	struct ldr_source *source = ask->source;
	const struct ldr_upstream_request request = {.wants = ask->wants,
						     .count = ask->count,
						     .priority = ask->priority,
						     .arrived = arrived,
						     .done = done,
						     .arrival = ask};
	struct ldr_error why = {0};
	void *ticket = NULL;
	enum ldr_status status = source->upstream.start(source->upstream.context, &request, &ticket,
							&why);

	if (status != LDR_OK) {
		if (why.status != status)
			ldr_fail(&why, status, "%s", ldr_status_text(status));
		done(ask, &why);
		return;
	}
	ldr_mutex_lock(&source->ask_lock);
	ask->ticket = ticket;
	if (ask->has_news)
		tell_priority(ask);
	ldr_mutex_unlock(&source->ask_lock);
}

static void fetch(struct ldr_ask *ask)
{
	struct ldr_source *source = ask->source;
	struct ldr_error why = {0};
	char hex[LDR_ID_HEX_CHARS + 1];
	enum ldr_status status;

	ldr_id_to_hex(&ask->wants[0].block.id, hex);
	if (source->upstream.fetch)
		status = source->upstream.fetch(source->upstream.context, ask->wants, ask->count,
						arrived, ask, &why);
	else
		status = ldr_fail(&why, LDR_EOFFLINE, "block %s is not held here", hex);
	if (status == LDR_OK)
		why = (struct ldr_error){0};
	else if (why.status != status)
		ldr_fail(&why, status, "block %s: %s", hex, ldr_status_text(status));
	done(ask, &why);
}

void ldr_source_ask(struct ldr_source *source, struct ldr_placed_block *wants,
		    struct ldr_flight **flights, size_t count, enum ldr_priority priority)
{
	struct ldr_ask *ask = calloc(1, sizeof(*ask));
	struct ldr_ask unborn = {
		.source = source, .wants = wants, .flights = flights, .count = count};
	struct ldr_error why;

	if (!ask) {
		ldr_fail(&why, LDR_ENOMEM, "no memory to ask for %zu blocks", count);
		end_flights(&unborn, &why);
		free(wants);
		free(flights);
		return;
	}
	*ask = unborn;
	ask->references = 2;
	ask->priority = priority;
	ldr_mutex_lock(&source->flights.lock);
	for (size_t i = 0; i < count; i++) {
		flights[i]->references++;
		flights[i]->ask = ask;
		if (ldr_flight_priority(flights[i]) < ask->priority)
			ask->priority = ldr_flight_priority(flights[i]);
	}
	ldr_mutex_unlock(&source->flights.lock);
	if (source->upstream.start)
		start(ask);
	else
		fetch(ask);
	ask_unref(ask);
}
