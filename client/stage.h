/*
 * Filling an installation's temporaries: every wanted block comes from the nearest place that has it and
 * is digested before it is written, wherever it came from.
 *
 *	1 temporaries of a killed run      2 files of the old installation
 *	3 packs at hand and the disk cache 4 the hosts
 *
 * What arrives from a host goes straight into the temporaries: an installed file is a block's lasting
 * place, a second copy in the disk cache would cost its space again.
 *
 * Threads: fill is called by one thread and uses all processors; progress may be read at any time.
 */
#ifndef LDR_CLIENT_STAGE_H
#define LDR_CLIENT_STAGE_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/plan.h"
#include "client/view.h"
#include "common/batch.h"

/* Counts up while temporaries are filled. Plain bytes. */
struct ldr_stage_progress {
	atomic_uint_least64_t bytes_total;
	atomic_uint_least64_t bytes_done;
	atomic_uint_least64_t bytes_reused; /* of these, from 1 to 3 */
	atomic_uint_least64_t files_done;
};

struct ldr_stage {
	struct ldr_batch *batch;
	struct ldr_view *view;
	struct ldr_plan *plan;
	const struct ldr_installation *old;  /* or NULL */
	unsigned workers;                    /* 0: processors */
	struct ldr_stage_progress *progress; /* zero at the start */
};

/* LDR_ENOSPACE: what is still to be written is more than the file system has free. */
enum ldr_status ldr_stage_fill(const struct ldr_stage *stage, struct ldr_error *err);

#endif
