/*
 * A backend and a clock that a test holds.
 *
 * Each piece that a worker reads waits at a gate until the test lets it through; what becomes of it
 * (how many bytes, which failure, over the network or not) the test has said by the request's tag.
 * The bytes that are read are fake_byte of their offset. Waits of the test are for things to happen,
 * never for time to pass; a wait that lasts ten seconds ends the test program.
 */
#ifndef LDR_TESTS_FAKE_BACKEND_H
#define LDR_TESTS_FAKE_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "vfs/backend.h"

#define FAKE_PIECES_MAX 65536u
#define FAKE_RULES_MAX 256u
#define FAKE_WAITS_MAX 4096u

struct fake_clock {
	struct ldr_clock clock; /* first */
	_Atomic uint64_t now_ns;
};

void fake_clock_init(struct fake_clock *clock, uint64_t now_ns);
void fake_clock_add(struct fake_clock *clock, uint64_t ns);

/* What becomes of the pieces of a tag; without a rule they are read whole. */
struct fake_rule {
	uint64_t tag;
	size_t most;            /* bytes a read gives at once; 0: all */
	uint64_t file_bytes;    /* where the file ends; 0: nowhere */
	enum ldr_status status; /* of every read */
	bool remote;            /* every piece is fetched before it is read */
	uint64_t step_ns;       /* the clock moves by so much with each piece */
};

enum fake_wait_state { FAKE_WAIT_FREE, FAKE_WAIT_HELD, FAKE_WAIT_TELLING, FAKE_WAIT_ENDED };

/* What a wait stands for, from the read that answered LDR_EAGAIN to the release. */
struct fake_wait {
	struct fake_backend *fake;
	struct ldr_wait *wait;
	uint64_t tag;
	enum fake_wait_state state;
	enum ldr_status status; /* once ended */
};

struct fake_backend {
	struct ldr_backend backend; /* first */
	struct fake_clock *clock;   /* borrowed; may be NULL */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct fake_rule rules[FAKE_RULES_MAX];
	unsigned rule_count;
	bool open;                         /* the gate: reads wait for nothing */
	unsigned allowed;                  /* reads that may pass a closed gate */
	uint64_t started[FAKE_PIECES_MAX]; /* tags in the order in which pieces began to be read */
	unsigned started_count;
	unsigned inside; /* reads in the backend now */
	unsigned inside_peak;
	struct fake_wait waits[FAKE_WAITS_MAX];
	unsigned waiting;  /* of them, not ended */
	unsigned released; /* that had not ended */
};

void fake_backend_init(struct fake_backend *fake, struct fake_clock *clock);
void fake_backend_dispose(struct fake_backend *fake);
void fake_rule_add(struct fake_backend *fake, struct fake_rule rule);
uint8_t fake_byte(uint64_t offset);

/* Lets so many reads pass the closed gate, those inside first. */
void fake_allow(struct fake_backend *fake, unsigned reads);
void fake_open(struct fake_backend *fake);
/* Until so many pieces in all have begun. */
void fake_await_started(struct fake_backend *fake, unsigned count);
/* Until so many waits are held. */
void fake_await_waits(struct fake_backend *fake, unsigned count);
/* Ends a held wait of a tag, with what its read is then told; false: there is none. */
bool fake_arrive(struct fake_backend *fake, uint64_t tag, enum ldr_status status);
/* The priority of a held wait of the tag, -1 when there is none. */
int fake_wait_priority(struct fake_backend *fake, uint64_t tag);

#endif
