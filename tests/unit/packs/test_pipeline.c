/*
 * The ordered parallel stage: order, bounds, and stopping in the middle.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "packs/pipeline.h"

enum { ITEMS_MAX = 12 };

struct item {
	uint64_t number;
	uint64_t result;
	unsigned worker;
};

struct stage {
	struct item items[ITEMS_MAX];
	void *pointers[ITEMS_MAX];
	unsigned workers;
	atomic_uint working;
	atomic_uint most;
	atomic_uint done;
	struct ldr_pipeline *pipeline;
};

/* Uneven work, so that later items are finished before earlier ones. */
static uint64_t effort(uint64_t number)
{
	uint64_t value = number;

	for (uint64_t i = 0; i < (number * 7919) % 5000; i++)
		value = value * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return value;
}

static void work(void *context, unsigned worker, void *pointer)
{
	struct stage *stage = context;
	struct item *item = pointer;
	unsigned working = atomic_fetch_add(&stage->working, 1) + 1;
	unsigned most = atomic_load(&stage->most);

	while (working > most && !atomic_compare_exchange_weak(&stage->most, &most, working))
		continue;
	item->result = effort(item->number);
	item->worker = worker;
	atomic_fetch_sub(&stage->working, 1);
	atomic_fetch_add(&stage->done, 1);
}

static void start(struct stage *stage, unsigned workers, unsigned items)
{
	struct ldr_error err = {.status = LDR_OK};

	*stage = (struct stage){.workers = workers};
	for (unsigned i = 0; i < items; i++)
		stage->pointers[i] = &stage->items[i];
	cr_assert_eq(ldr_pipeline_new(
			     &(struct ldr_pipeline_options){
				     .workers = workers,
				     .items = items,
				     .item = stage->pointers,
				     .work = work,
				     .context = stage,
			     },
			     &stage->pipeline, &err),
		     LDR_OK, "%s", err.text);
}

/* Takes the oldest item out and looks whether it is the expected one. */
static bool collect(struct stage *stage, bool wait, uint64_t expected)
{
	struct item *item = ldr_pipeline_next(stage->pipeline, wait);

	if (!item)
		return false;
	cr_assert_eq(item->number, expected);
	cr_assert_eq(item->result, effort(expected));
	cr_assert_lt(item->worker, stage->workers);
	ldr_pipeline_release(stage->pipeline);
	return true;
}

Test(pipeline, keeps_order_and_bounds)
{
	static const struct {
		unsigned workers, items;
	} shapes[] = {{1, 2}, {1, 12}, {2, 3}, {2, 6}, {4, 5}, {8, 12}};

	for (unsigned s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		struct stage stage;
		uint64_t in = 0, out = 0;

		start(&stage, shapes[s].workers, shapes[s].items);
		cr_assert_null(ldr_pipeline_next(stage.pipeline, true), "nothing was submitted");
		while (out < 2000) {
			struct item *item = in < 2000 ? ldr_pipeline_take(stage.pipeline) : NULL;

			if (item) {
				item->number = in++;
				ldr_pipeline_submit(stage.pipeline);
				while (collect(&stage, false, out))
					out++;
			} else {
				cr_assert(in == 2000 || in - out == shapes[s].items);
				cr_assert(collect(&stage, true, out));
				out++;
			}
		}
		cr_assert_null(ldr_pipeline_next(stage.pipeline, true));
		ldr_pipeline_free(stage.pipeline);
		cr_assert_eq(stage.done, 2000);
		cr_assert_leq(stage.most, shapes[s].workers);
	}
}

Test(pipeline, stops_with_items_in_it)
{
	for (unsigned round = 0; round < 20; round++) {
		struct stage stage;

		start(&stage, 1 + round % 4, 8);
		for (unsigned i = 0; i < round % 8; i++) {
			struct item *item = ldr_pipeline_take(stage.pipeline);

			item->number = i;
			ldr_pipeline_submit(stage.pipeline);
		}
		ldr_pipeline_free(stage.pipeline);
		cr_assert_eq(stage.working, 0, "nobody works any more");
		cr_assert_leq(stage.done, round % 8);
	}
	ldr_pipeline_free(NULL);
}
