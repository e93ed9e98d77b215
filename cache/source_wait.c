/*
 * Readers that wait with no thread; see common/wait.h. What a wait stands for is a group of flights, which are
 * kept until its release: so the reader that comes again finds what has come.
 *
 * Invariant: a reader comes again at most ROUNDS times for failures that were not its own; then it has the last
 * one.
 */
#include <stdlib.h>

#include "cache/source_priv.h"

#define ROUNDS 2u

struct pending {
	struct ldr_flight_group group; /* first: the one is the other */
	struct ldr_source *source;
	struct ldr_wait *wait;
	unsigned failures; /* of flights that others led, before this */
};

static void tell_flights(struct pending *pending)
{
	for (size_t i = 0; i < pending->group.count; i++)
		ldr_source_flight_priority_changed(pending->source,
						   pending->group.watches[i].flight);
}

static void set_priority(struct ldr_wait *wait)
{
	struct pending *pending = wait->self;

	ldr_mutex_lock(&pending->source->flights.lock);
	pending->group.priority = wait->priority;
	ldr_mutex_unlock(&pending->source->flights.lock);
	tell_flights(pending);
}

static void pending_free(struct pending *pending)
{
	struct ldr_flights *flights = &pending->source->flights;

	ldr_flights_leave(flights, &pending->group);
	tell_flights(pending);
	for (size_t i = 0; i < pending->group.count; i++)
		ldr_flights_unref(flights, pending->group.watches[i].flight);
	free(pending->group.watches);
	free(pending);
}

static void release(struct ldr_wait *wait)
{
	struct pending *pending = wait->self;

	wait->ops = NULL;
	wait->self = NULL;
	pending_free(pending);
}

static const struct ldr_wait_ops wait_ops = {.set_priority = set_priority, .release = release};

static void ended(struct ldr_flight_group *group)
{
	struct pending *pending = (struct pending *)group;

	pending->wait->ready(pending->wait);
}

static struct pending *pending_of(const struct ldr_wait *wait)
{
	return wait->ops == &wait_ops ? wait->self : NULL;
}

enum ldr_status ldr_source_wait_verdict(const struct ldr_wait *wait, struct ldr_error *err)
{
	const struct pending *pending = pending_of(wait);
	const struct ldr_error *error;

	if (!pending)
		return LDR_OK;
	/* It has ended, since the reader has come again: nobody writes it any more. */
	error = &pending->group.error;
	if (error->status == LDR_OK || (!pending->group.is_final && pending->failures + 1 < ROUNDS))
		return LDR_OK;
	if (err)
		*err = *error;
	return error->status;
}

static void watches_free(struct ldr_source *source, struct ldr_flight_watch *watches, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ldr_flights_unref(&source->flights, watches[i].flight);
	free(watches);
}

enum ldr_status ldr_source_wait_begin(struct ldr_source *source, struct ldr_wait *wait,
				      struct ldr_flight_watch *watches, size_t count,
				      struct ldr_error *err)
{
	struct pending *before = pending_of(wait), *pending;
	bool waits;

	if (count == 0) {
		free(watches);
		return LDR_OK;
	}
	pending = calloc(1, sizeof(*pending));
	if (!pending) {
		watches_free(source, watches, count);
		return ldr_fail(err, LDR_ENOMEM, "no memory to wait for %zu blocks", count);
	}
	*pending = (struct pending){.group = {.ended = ended,
					      .priority = wait->priority,
					      .watches = watches,
					      .count = count},
				    .source = source,
				    .wait = wait};
	if (before)
		pending->failures = before->failures + (before->group.error.status != LDR_OK);
	wait->ops = &wait_ops;
	wait->self = pending;
	waits = ldr_flights_watch(&source->flights, &pending->group);
	/* The wait is the reader's again from here on if ready has come; these two are not. */
	if (waits)
		tell_flights(pending);
	if (before)
		pending_free(before);
	return waits ? LDR_EAGAIN : LDR_OK;
}
