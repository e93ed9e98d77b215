/*
 * A writable layer of one file, "slow" (its bytes are fake_byte of their offset), whose functions
 * wait at a gate: for tests of what goes on while a layer is slow.
 */
#ifndef LDR_TESTS_GATE_LAYER_H
#define LDR_TESTS_GATE_LAYER_H

#include <pthread.h>
#include <stdbool.h>

#include "vfs/layer.h"

#define GATE_FILE_BYTES UINT64_C(1048576)

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open;
	unsigned inside; /* calls that wait, or are about to */
	unsigned replaced;
	unsigned closed;
	unsigned freed;
};

void gate_init(struct gate *gate);
void gate_dispose(struct gate *gate);
void gate_open(struct gate *gate);
/* Until so many calls are at the gate. */
void gate_await(struct gate *gate, unsigned count);
/* The gate is borrowed until the layer is freed. */
enum ldr_status gate_layer_new(struct gate *gate, struct ldr_layer **out_layer,
			       struct ldr_error *err);

#endif
