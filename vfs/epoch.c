/*
 * Waiting for the readers of the past; see epoch.h.
 */
#include "vfs/epoch.h"

static void wait_for(_Atomic uint32_t *readers)
{
	unsigned pause_us = 1;

	while (atomic_load(readers) != 0) {
		ldr_thread_pause_us(pause_us);
		if (pause_us < 1000)
			pause_us *= 2;
	}
}

void ldr_epoch_synchronise(struct ldr_epoch *epoch)
{
	for (int turn = 0; turn < 2; turn++) {
		uint32_t past = atomic_fetch_add(&epoch->phase, 1) & 1;

		for (unsigned i = 0; i < LDR_STRIPES; i++)
			wait_for(&epoch->stripes[i].readers[past]);
	}
}
