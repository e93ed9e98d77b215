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
 * Invariants
 *  1. What a window leads has ended before it waits for what others lead: so no two calls wait for
 *     each other.
 *  2. A leader looks once more into memory and disk before it asks upwards: between its first look and
 *     its joining, the flight of somebody else may have landed there.
 *  3. A reader that shared a flight which failed together with others asks once for itself; one whose
 *     block was asked for alone shares the failure.
 *  4. An arrival goes into disk and memory before its flight ends, so that whoever does not find the
 *     flight finds the block.
 */
#include "cache/source_priv.h"

#include <assert.h>
#include <stdlib.h>

#include "common/bytes.h"

#define WINDOW_BYTES ((size_t)16 * 1024 * 1024)
/* Bounds the tables of a window of tiny blocks. */
#define WINDOW_BLOCKS 8192u

/* ---- asking upwards ---- */

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
	struct joined *joined;          /* owns; one per want */
	struct ldr_placed_block *asked; /* owns: the wants that go upwards, side by side */
	size_t *led;                    /* owns: which wants these are */
	size_t led_count;
};

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
	struct window *window = arrival;
	struct ldr_source *source = window->source;
	const struct ldr_placed_block *want = &window->asked[which];
	struct ldr_flight *flight = window->joined[window->led[which]].flight;
	LDR_AUTO_FREE uint8_t *plain = NULL;
	enum ldr_status status;

	assert(which < window->led_count);
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

/* Ends every flight that the window leads: landed by an arrival, or failed with the reason. */
static void ask_upwards(struct window *window)
{
	struct ldr_source *source = window->source;
	struct ldr_error why = {0};
	char hex[LDR_ID_HEX_CHARS + 1];
	enum ldr_status status;

	ldr_id_to_hex(&window->asked[0].block.id, hex);
	if (source->upstream.fetch)
		status = source->upstream.fetch(source->upstream.context, window->asked,
						window->led_count, arrived, window, &why);
	else
		status = ldr_fail(&why, LDR_EOFFLINE, "block %s is not held here", hex);
	if (status == LDR_OK)
		ldr_fail(&why, LDR_EIO, "block %s or one after it was not delivered", hex);
	else if (why.status != status)
		ldr_fail(&why, status, "block %s: %s", hex, ldr_status_text(status));
	for (size_t i = 0; i < window->led_count; i++)
		ldr_flight_fail(&source->flights, window->joined[window->led[i]].flight, &why);
}

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
					  &joined->leads);
	if (!joined->flight)
		return ldr_fail(err, LDR_ENOMEM, "no memory to wait for a block");
	if (joined->leads) {
		window->led[window->led_count] = which;
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

/* Lands what has come since the first look (invariant 2) and asks for the rest. */
static void window_ask(struct window *window)
{
	struct ldr_source *source = window->source;
	size_t kept = 0;

	for (size_t i = 0; i < window->led_count; i++) {
		struct ldr_flight *flight = window->joined[window->led[i]].flight;
		uint8_t *plain = read_if_here(source, &window->asked[i].block);

		if (plain) {
			ldr_flight_claim(&source->flights, flight);
			ldr_flight_land(&source->flights, flight, plain);
		} else {
			window->led[kept] = window->led[i];
			window->asked[kept++] = window->asked[i];
		}
	}
	window->led_count = kept;
	if (kept)
		ask_upwards(window);
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
		return LDR_OK;
	}
	/* What was joined must end (invariant 2 of flight.h). */
	for (size_t i = 0; i < window->led_count; i++)
		ldr_flight_fail(&window->source->flights, window->joined[window->led[i]].flight,
				&fault);
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

/* A second round is for those whose shared flight failed together with others (invariant 3). */
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

static enum ldr_status read_window(struct ldr_source *source, const struct ldr_placed_block *wants,
				   size_t first, size_t size, const struct delivery *delivery,
				   struct ldr_error *err)
{
	struct window window = {
		.source = source, .wants = wants + first, .count = size, .alone = size == 1};
	enum ldr_status status = window_open(&window, false, err);

	for (size_t i = 0; status == LDR_OK && i < size; i++)
		status = hand_one(&window, i, first, delivery, err);
	window_dispose(&window);
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
	LDR_AUTO_FREE uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	struct delivery delivery = {.deliver = deliver, .context = context, .plain = plain};
	enum ldr_status status = LDR_OK;
	size_t size;

	if (!plain)
		return ldr_fail(err, LDR_ENOMEM, "no memory for a block");
	for (size_t i = 0; status == LDR_OK && i < count; i++)
		status = ldr_source_check_want(&wants[i], err);
	for (size_t first = 0; status == LDR_OK && first < count; first += size) {
		size = window_size(wants + first, count - first,
				   window_bytes ? window_bytes : WINDOW_BYTES);
		status = read_window(source, wants, first, size, &delivery, err);
	}
	return status;
}
