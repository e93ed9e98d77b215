/*
 * Two releases of a small installation, as a caller of the batch installs them.
 */
#ifndef LDR_TESTS_UNIT_COMMON_INSTALLATION_H
#define LDR_TESTS_UNIT_COMMON_INSTALLATION_H

#include "common/batch.h"
#include "tests/unit/common/scratch.h"

/* What scratch_tree gives for each, without .larder. */
extern const char installation_first_tree[];
extern const char installation_update_tree[];

/* Steps with a plan "the plan" and a record "the record". */
enum ldr_status installation_apply(struct ldr_batch *batch, const struct ldr_batch_step *steps,
				   size_t count, struct ldr_error *err);
enum ldr_status installation_first(struct ldr_batch *batch, struct ldr_error *err);
/* From the first, or from wherever an earlier update has stopped. Files whose content is there already get
 * no step. */
enum ldr_status installation_update(struct ldr_batch *batch, const struct scratch *scratch,
				    struct ldr_error *err);

#endif
