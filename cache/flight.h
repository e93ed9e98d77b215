/*
 * Blocks in flight: wanted by somebody, asked for from above, not yet here.
 *
 * Life of a flight: the first to join it leads, that is, asks upwards; others share. What arrives is
 * claimed (so that of two arrivals of the same block one is decoded), then lands with its bytes, or is
 * given back when the bytes were wrong. A flight that nobody can land fails. Landing and failing take
 * it out of the table, so that the next reader finds the block in a cache or asks anew, and wake all.
 *
 *   pending -> claimed -> landed        claimed -> pending (wrong bytes)        pending -> failed
 *
 * Who wants several blocks and waits with no thread watches their flights as a group: it is told when the
 * last of them has ended, and until it leaves, each that landed stays in the table, so that it finds the
 * bytes there whatever has become of the caches.
 *
 * Invariants
 *  1. A block with one length has at most one flight in the table. (The same id with two lengths has two,
 *     so that a lying tree spoils its own reading only.)
 *  2. Whoever leads a flight asks upwards for it, and the end of what was asked ends the flight.
 *  3. bytes are set once, before landed, and stay until the last reference goes.
 *  4. A flight's priority is the first among those of its groups and of the threads that wait for it.
 *     Groups come and go; a thread stays till the end.
 *
 * Threads: any. Locks: LDR_RANK_SOURCE over the table and all states, never held over I/O.
 */
#ifndef LDR_CACHE_FLIGHT_H
#define LDR_CACHE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/lock.h"
#include "common/wait.h"
#include "packs/block.h"

#define LDR_FLIGHT_HEADS 256u

enum ldr_flight_state {
	LDR_FLIGHT_PENDING,
	LDR_FLIGHT_CLAIMED,
	LDR_FLIGHT_LANDED,
	LDR_FLIGHT_FAILED,
};

struct ldr_ask;
struct ldr_flight_group;

/* One flight of a group. */
struct ldr_flight_watch {
	struct ldr_flight_watch *next; /* at its flight */
	struct ldr_flight_group *group;
	struct ldr_flight *flight; /* shares */
	bool leads;                /* it was made for this group */
};

struct ldr_flight_group {
	void (*ended)(struct ldr_flight_group *group); /* from any thread, no lock held */
	enum ldr_priority priority;
	struct ldr_flight_watch *watches;
	size_t count;
	size_t left;                   /* flights that have not ended */
	bool telling;                  /* ended is being called */
	struct ldr_flight_group *next; /* among those to be told */
	struct ldr_error error;        /* of the flight that failed first; status LDR_OK: none */
	bool is_final; /* a flight failed that was this group's own, or asked for alone */
};

struct ldr_flight {
	struct ldr_block_ref block;
	struct ldr_flight *next; /* in its chain of the table */
	struct ldr_flight_watch *watches;
	struct ldr_ask *ask;       /* borrows; what will end it, NULL before and after */
	enum ldr_priority threads; /* the first of those that wait for it; NO_THREAD */
	bool in_table;
	struct ldr_condition ended;
	unsigned references;
	enum ldr_flight_state state;
	bool alone;     /* the leader asked for this block only, so a failure is this block's own */
	uint8_t *bytes; /* owns; plain, once landed */
	struct ldr_error error; /* once failed */
};

struct ldr_flights {
	struct ldr_mutex lock;
	struct ldr_condition told; /* a group's ended has returned */
	struct ldr_flight *heads[LDR_FLIGHT_HEADS];
};

void ldr_flights_init(struct ldr_flights *flights);
/* No flight may be in the table (asserted). */
void ldr_flights_dispose(struct ldr_flights *flights);

/* The flight of this block, made if there is none; the caller gets a reference. *out_leads: it was made,
 * and the caller asks upwards. NULL: out of memory. threads: of a thread that will wait, or
 * LDR_FLIGHT_NO_THREAD. */
#define LDR_FLIGHT_NO_THREAD ((enum ldr_priority)(LDR_PRIORITY_BACKGROUND + 1))
struct ldr_flight *ldr_flights_join(struct ldr_flights *flights, const struct ldr_block_ref *block,
				    bool alone, enum ldr_priority threads, bool *out_leads);
struct ldr_flight *ldr_flights_ref(struct ldr_flights *flights, struct ldr_flight *flight);
void ldr_flights_unref(struct ldr_flights *flights, struct ldr_flight *flight);

/* True: the caller decodes, then lands or gives back. False: it is here already, or being decoded. */
bool ldr_flight_claim(struct ldr_flights *flights, struct ldr_flight *flight);
void ldr_flight_give_back(struct ldr_flights *flights, struct ldr_flight *flight);
/* Takes the bytes (malloc). */
void ldr_flight_land(struct ldr_flights *flights, struct ldr_flight *flight, uint8_t *bytes);
/* Fails it with a copy of why, unless it has landed. */
void ldr_flight_fail(struct ldr_flights *flights, struct ldr_flight *flight,
		     const struct ldr_error *why);
/* Waits for the end: LDR_OK, or the failure's status with its text in err. */
enum ldr_status ldr_flight_wait(struct ldr_flights *flights, struct ldr_flight *flight,
				struct ldr_error *err);

/* Watches the flights of group->watches (flight and leads are set, with a reference each, which becomes the
 * group's). True: ended will be called once, unless the group leaves before. False: all have ended. */
bool ldr_flights_watch(struct ldr_flights *flights, struct ldr_flight_group *group);
/* No call of ended is under way or comes later. The references are the caller's again. */
void ldr_flights_leave(struct ldr_flights *flights, struct ldr_flight_group *group);
/* Under the lock. */
enum ldr_priority ldr_flight_priority(const struct ldr_flight *flight);

#endif
