/*
 * One loop over several threads: each item once, the first failure returned with its error, threads that
 * cannot be had done without.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/parallel.h"

struct state {
	atomic_uint *calls;
	size_t fail_at; /* SIZE_MAX: never */
	atomic_uint total;
};

static enum ldr_status work(void *context, size_t item, struct ldr_error *err)
{
	struct state *state = context;

	atomic_fetch_add(&state->calls[item], 1);
	atomic_fetch_add(&state->total, 1);
	if (item == state->fail_at)
		return ldr_fail(err, LDR_ECORRUPT, "item %zu", item);
	return LDR_OK;
}

Test(parallel, each_item_once_with_any_number_of_threads)
{
	static const size_t counts[] = {0, 1, 15, 16, 17, 1000};
	static const unsigned workers[] = {0, 1, 2, 3, 16, 1000};

	for (size_t c = 0; c < 6; c++)
		for (size_t w = 0; w < 6; w++) {
			struct state state = {.calls = calloc(counts[c] + 1, sizeof(atomic_uint)),
					      .fail_at = SIZE_MAX};
			struct ldr_error err = {0};

			cr_assert(state.calls);
			cr_assert_eq(ldr_parallel(counts[c], workers[w], work, &state, &err),
				     LDR_OK);
			for (size_t i = 0; i < counts[c]; i++)
				cr_assert_eq(state.calls[i], 1, "item %zu", i);
			cr_assert_eq(state.calls[counts[c]], 0);
			cr_assert_eq(err.status, LDR_OK);
			free(state.calls);
		}
}

Test(parallel, a_failure_ends_the_loop)
{
	enum { COUNT = 100000 };
	struct state state = {.calls = calloc(COUNT, sizeof(atomic_uint))};
	struct ldr_error err = {0};

	cr_assert(state.calls);
	for (unsigned workers = 1; workers <= 4; workers++) {
		state.total = 0;
		state.fail_at = 7;
		cr_assert_eq(ldr_parallel(COUNT, workers, work, &state, &err), LDR_ECORRUPT);
		cr_assert_str_eq(err.text, "item 7");
		cr_assert_eq(ldr_parallel(COUNT, workers, work, &state, NULL), LDR_ECORRUPT);
		/* With one thread exactly the items up to it. */
		if (workers == 1)
			cr_assert_eq(state.total, 16);
		state.fail_at = COUNT - 1;
		cr_assert_eq(ldr_parallel(COUNT, workers, work, &state, &err), LDR_ECORRUPT);
		cr_assert_str_eq(err.text, "item 99999");
	}
	free(state.calls);
}
