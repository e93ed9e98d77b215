/*
 * One loop over all processors: work is called for 0 to count - 1, each once, from several threads.
 *
 * The first status other than LDR_OK ends the loop (calls that run are finished) and is returned with
 * its error. With one worker the calling thread does it all.
 */
#ifndef LDR_CLIENT_PARALLEL_H
#define LDR_CLIENT_PARALLEL_H

#include <stddef.h>

#include "common/error.h"

enum ldr_status ldr_parallel(size_t count, unsigned workers,
			     enum ldr_status (*work)(void *context, size_t item,
						     struct ldr_error *err),
			     void *context, struct ldr_error *err);

#endif
