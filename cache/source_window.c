/*
 * Blocks by the window: look, ask upwards, hand over; see source.h.
 *
 *   look    which blocks are held here (memory, packs, disk); join a flight for each of the others
 *   ask     one call upwards for all flights that this window leads; arrivals land at once
 *   hand    in order: from the flight that was joined, or from where it was held
 *
 * A block that was held when looked for and is not any more (evicted, or its bytes were bad) is read
 * alone, which is a window of one.
 *
 * A window with a struct ldr_wait hands nothing over before all that it joined has ended: until then its
 * reader goes away and comes again (source_wait.c).
 *
 * Invariants
 *  1. A leader looks once more into memory and disk before it asks upwards: between its first look and
 *     its joining, the flight of somebody else may have landed there.
 *  2. A reader that shared a flight which failed together with others asks once for itself; one whose
 *     block was asked for alone shares the failure.
 */
#include "cache/source_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "common/bytes.h"

#define WINDOW_BYTES ((size_t)16 * 1024 * 1024)
/* Bounds the tables of a window of tiny blocks. */
#define WINDOW_BLOCKS 8192u

/* What a want of a window waits for. */
struct joined {
	struct ldr_flight *flight; /* shares; NULL where the block is held here */
	bool leads;                /* this want made the flight */
};

struct window {
	struct ldr_source *source;
	const struct ldr_placed_block *wants; /* borrows */
	size_t count;
	bool alone;
	struct ldr_wait *wait; /* NULL: the calling thread waits */
	struct joined *joined; /* owns; one per want */
	/* Owns, side by side: what goes upwards, and the flights that this ends. */
	struct ldr_placed_block *asked;
	struct ldr_flight **led;
	size_t led_count;
};

/* ---- a window ---- */

static enum ldr_status window_init(struct window *window, struct ldr_error *err)
{
	window->joined = calloc(window->count, sizeof(*window->joined));
	window->led = calloc(window->count, sizeof(*window->led));
	window->asked = calloc(window->count, sizeof(*window->asked));
	if (!window->joined || !window->led || !window->asked)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a window of %zu blocks",
				window->count);
	return LDR_OK;
}

static void window_leave(struct window *window, size_t which)
{
	if (window->joined[which].flight)
		ldr_flights_unref(&window->source->flights,
				  LDR_STEAL(window->joined[which].flight));
}

static void window_dispose(struct window *window)
{
	for (size_t i = 0; window->joined && i < window->count; i++)
		window_leave(window, i);
	free(window->joined);
	free(window->led);
	free(window->asked);
}

/* True when another want of this window made the flight. */
static bool window_leads(const struct window *window, const struct ldr_flight *flight)
{
	for (size_t i = 0; i < window->count; i++) {
		if (window->joined[i].leads && window->joined[i].flight == flight)
			return true;
	}
	return false;
}

static enum ldr_status window_join(struct window *window, size_t which, struct ldr_error *err)
{
	const struct ldr_placed_block *want = &window->wants[which];
	struct joined *joined = &window->joined[which];

	joined->flight = ldr_flights_join(&window->source->flights, &want->block, window->alone,
					  window->wait ? LDR_FLIGHT_NO_THREAD : LDR_PRIORITY_HIGH,
					  &joined->leads);
	if (!joined->flight)
		return ldr_fail(err, LDR_ENOMEM, "no memory to wait for a block");
	if (joined->leads) {
		window->led[window->led_count] = joined->flight;
		window->asked[window->led_count++] = *want;
	}
	return LDR_OK;
}

/* The block's bytes (malloc) if memory or disk have it by now. */
static uint8_t *read_if_here(struct ldr_source *source, const struct ldr_block_ref *block)
{
	LDR_AUTO_FREE uint8_t *plain = NULL;
	struct ldr_memory_block pin;

	if (!(source->memory && ldr_memory_has(source->memory, &block->id)) &&
	    !(source->disk && ldr_disk_has(source->disk, &block->id)))
		return NULL;
	plain = malloc(block->plain_bytes);
	if (plain && ldr_source_pin(source, block, &pin)) {
		ldr_copy(plain, pin.bytes, pin.length);
		ldr_memory_unpin(source->memory, &pin);
		return LDR_STEAL(plain);
	}
	if (plain && ldr_source_read_stored(source, block, plain, NULL) == LDR_OK)
		return LDR_STEAL(plain);
	return NULL;
}

/* Lands what has come since the first look (invariant 1) and asks for the rest. */
static void window_ask(struct window *window)
{
	struct ldr_source *source = window->source;
	size_t kept = 0;

	for (size_t i = 0; i < window->led_count; i++) {
		struct ldr_flight *flight = window->led[i];
		uint8_t *plain = read_if_here(source, &window->asked[i].block);

		if (plain) {
			ldr_flight_claim(&source->flights, flight);
			ldr_flight_land(&source->flights, flight, plain);
		} else {
			window->led[kept] = flight;
			window->asked[kept++] = window->asked[i];
		}
	}
	window->led_count = 0;
	if (kept)
		ldr_source_ask(source, LDR_STEAL(window->asked), LDR_STEAL(window->led), kept,
			       window->wait ? window->wait->priority : LDR_PRIORITY_HIGH);
}

/* What others had asked for is worth more by now, perhaps. */
static void window_hurry(struct window *window)
{
	for (size_t i = 0; i < window->count; i++) {
		if (window->joined[i].flight && !window->joined[i].leads)
			ldr_source_flight_priority_changed(window->source,
							   window->joined[i].flight);
	}
}

/* Looks for every want (unless the caller has just missed them) and asks for those not held. */
static enum ldr_status window_open(struct window *window, bool missed, struct ldr_error *err)
{
	struct ldr_error fault = {0};
	enum ldr_status status = window_init(window, &fault);

	for (size_t i = 0; status == LDR_OK && i < window->count; i++) {
		if (missed || !ldr_source_holds(window->source, &window->wants[i].block.id))
			status = window_join(window, i, &fault);
	}
	if (status == LDR_OK) {
		if (window->led_count)
			window_ask(window);
		if (!window->wait)
			window_hurry(window);
		return LDR_OK;
	}
	/* What was joined must end (invariant 2 of flight.h). */
	for (size_t i = 0; i < window->led_count; i++)
		ldr_flight_fail(&window->source->flights, window->led[i], &fault);
	if (err)
		*err = fault;
	return status;
}

/* Waits for a flight of this window; counts it when others had asked for it. */
static enum ldr_status window_wait(struct window *window, size_t which, struct ldr_error *err)
{
	struct ldr_flight *flight = window->joined[which].flight;
	enum ldr_status status = ldr_flight_wait(&window->source->flights, flight, err);

	if (status == LDR_OK && !window->joined[which].leads)
		ldr_source_count(&window->source->shared, 1);
	return status;
}

/* Whether the reader must go away: gives LDR_EAGAIN, and its wait has the flights. */
static enum ldr_status window_leave_for_now(struct window *window, struct ldr_error *err)
{
	struct ldr_flight_watch *watches = calloc(window->count, sizeof(*watches));
	size_t count = 0;

	if (!watches)
		return ldr_fail(err, LDR_ENOMEM, "no memory to wait for %zu blocks", window->count);
	for (size_t i = 0; i < window->count; i++) {
		const struct joined *joined = &window->joined[i];

		if (!joined->flight)
			continue;
		watches[count].flight = ldr_flights_ref(&window->source->flights, joined->flight);
		watches[count++].leads = joined->leads;
	}
	return ldr_source_wait_begin(window->source, window->wait, watches, count, err);
}

/* A second round is for those whose shared flight failed together with others (invariant 2). */
enum ldr_status ldr_source_read_above(struct ldr_source *source,
				      const struct ldr_placed_block *want, void *plain,
				      struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	bool again = true;

	for (unsigned round = 0; again && round < 2; round++) {
		struct window window = {.source = source, .wants = want, .count = 1, .alone = true};
		struct ldr_error fault = {0};

		again = false;
		status = window_open(&window, true, &fault);
		if (status == LDR_OK) {
			status = window_wait(&window, 0, &fault);
			again = status && !window.joined[0].flight->alone;
		}
		if (status == LDR_OK)
			ldr_copy(plain, window.joined[0].flight->bytes, want->block.plain_bytes);
		else if (err)
			*err = fault;
		window_dispose(&window);
	}
	return status;
}

/* ---- many ---- */

struct delivery {
	enum ldr_status (*deliver)(void *context, size_t want, const void *plain,
				   struct ldr_error *err);
	void *context;
	uint8_t *plain; /* owns; room for one block */
};

/* Held a moment ago, and read from there, or asked for by now. */
static enum ldr_status read_below_or_wait(struct window *window,
					  const struct ldr_placed_block *want, void *plain,
					  struct ldr_error *err)
{
	struct window alone = {.source = window->source,
			       .wants = want,
			       .count = 1,
			       .alone = true,
			       .wait = window->wait};
	enum ldr_status status = ldr_source_read_stored(window->source, &want->block, plain, NULL);

	if (status == LDR_OK)
		return LDR_OK;
	status = window_open(&alone, true, err);
	if (status == LDR_OK)
		status = window_leave_for_now(&alone, err);
	/* It has come already. */
	if (status == LDR_OK) {
		status = window_wait(&alone, 0, err);
		if (status == LDR_OK)
			ldr_copy(plain, alone.joined[0].flight->bytes, want->block.plain_bytes);
	}
	window_dispose(&alone);
	return status;
}

/* From memory without a copy, else through the one buffer. */
static enum ldr_status hand_held(struct window *window, size_t which, size_t first,
				 const struct delivery *delivery, struct ldr_error *err)
{
	struct ldr_source *source = window->source;
	const struct ldr_placed_block *want = &window->wants[which];
	struct ldr_memory_block pin;
	enum ldr_status status;

	if (ldr_source_pin(source, &want->block, &pin)) {
		status = delivery->deliver(delivery->context, first + which, pin.bytes, err);
		ldr_memory_unpin(source->memory, &pin);
		return status;
	}
	if (window->wait)
		status = read_below_or_wait(window, want, delivery->plain, err);
	else
		status = ldr_source_read_below(source, want, delivery->plain, err);
	if (status)
		return status;
	return delivery->deliver(delivery->context, first + which, delivery->plain, err);
}

static enum ldr_status hand_one(struct window *window, size_t which, size_t first,
				const struct delivery *delivery, struct ldr_error *err)
{
	struct ldr_flight *flight = window->joined[which].flight;
	struct ldr_error fault = {0};
	enum ldr_status status;

	if (!flight)
		return hand_held(window, which, first, delivery, err);
	status = window_wait(window, which, &fault);
	if (status == LDR_OK) {
		status = delivery->deliver(delivery->context, first + which, flight->bytes, err);
		window_leave(window, which);
		return status;
	}
	/* Asking again for what this very call asked for would only repeat the failure. */
	if (!flight->alone && !window_leads(window, flight))
		return hand_held(window, which, first, delivery, err);
	if (err)
		*err = fault;
	return status;
}

/* How many of the wants make the next window, at least one. */
static size_t window_size(const struct ldr_placed_block *wants, size_t count, size_t window_bytes)
{
	size_t size = 0, bytes = 0;

	while (size < count && size < WINDOW_BLOCKS) {
		bytes += wants[size].block.plain_bytes;
		if (size && bytes > window_bytes)
			break;
		size++;
	}
	return size;
}

static enum ldr_status read_window(struct ldr_source *source, const struct ldr_source_read *read,
				   size_t first, size_t size, const struct delivery *delivery,
				   struct ldr_error *err)
{
	struct window window = {.source = source,
				.wants = read->wants + first,
				.count = size,
				.alone = size == 1,
				.wait = read->wait};
	enum ldr_status status = window_open(&window, false, err);

	if (status == LDR_OK && read->wait)
		status = window_leave_for_now(&window, err);
	for (size_t i = 0; status == LDR_OK && i < size; i++)
		status = hand_one(&window, i, first, delivery, err);
	window_dispose(&window);
	return status;
}

enum ldr_status ldr_source_read_or_wait(struct ldr_source *source,
					const struct ldr_source_read *read, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	const struct delivery delivery = {
		.deliver = read->deliver, .context = read->context, .plain = plain};
	enum ldr_status status = LDR_OK;
	size_t size;

	if (!plain)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a block");
	if (read->wait)
		status = ldr_source_wait_verdict(read->wait, err);
	for (size_t i = 0; status == LDR_OK && i < read->count; i++)
		status = ldr_source_check_want(&read->wants[i], err);
	for (size_t first = 0; status == LDR_OK && first < read->count; first += size) {
		size = window_size(read->wants + first, read->count - first,
				   read->window_bytes ? read->window_bytes : WINDOW_BYTES);
		status = read_window(source, read, first, size, &delivery, err);
	}
	return status;
}

/* Each argument is a choice of the caller's; a struct would only name them once more. */
/* NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_source_read_many(struct ldr_source *source,
				     const struct ldr_placed_block *wants, size_t count,
				     size_t window_bytes,
				     enum ldr_status (*deliver)(void *context, size_t want,
								const void *plain,
								struct ldr_error *err),
				     void *context, struct ldr_error *err)
{
	const struct ldr_source_read read = {.wants = wants,
					     .count = count,
					     .window_bytes = window_bytes,
					     .deliver = deliver,
					     .context = context};

	return ldr_source_read_or_wait(source, &read, err);
}
