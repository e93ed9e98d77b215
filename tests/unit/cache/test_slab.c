/*
 * Slab: runs of pages out of one arena. A model (an array of owners) watches every step.
 */
#include "cache/slab.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAGES 512u

/* Which run each page belongs to: 0 free, otherwise the run's first page plus one. */
struct model {
	uint32_t owner[PAGES];
	uint32_t used;
};

static void model_take(struct model *model, uint32_t page, uint32_t pages)
{
	cr_assert_leq(page + pages, PAGES);
	for (uint32_t i = page; i < page + pages; i++) {
		cr_assert_eq(model->owner[i], 0, "page %u given twice", i);
		model->owner[i] = page + 1;
	}
	model->used += pages;
}

static void model_release(struct model *model, uint32_t page)
{
	for (uint32_t i = page; i < PAGES && model->owner[i] == page + 1; i++) {
		model->owner[i] = 0;
		model->used--;
	}
}

/* Walks the slab and compares every used run with the model. */
static void compare(const struct model *model, const struct ldr_slab *slab)
{
	uint32_t used = 0;

	for (uint32_t page = ldr_slab_next(slab, 0); page != LDR_SLAB_NONE;) {
		uint32_t pages = ldr_slab_run_pages(slab, page);

		for (uint32_t i = page; i < page + pages; i++)
			cr_assert_eq(model->owner[i], page + 1, "page %u", i);
		used += pages;
		page = ldr_slab_next(slab, page + pages);
	}
	cr_assert_eq(used, model->used);
	cr_assert_eq(ldr_slab_used_pages(slab), model->used);
}

Test(slab, lengths_and_bounds)
{
	static const struct {
		size_t length;
		uint32_t pages;
	} rows[] = {{1, 1},       {4095, 1},    {4096, 1},
		    {4097, 2},    {65536, 16},  {65537, 17},
		    {262143, 64}, {262144, 64}, {PAGES * 4096u, PAGES}};
	struct ldr_slab *slab = NULL;
	struct ldr_error err = {0};

	cr_assert_eq(ldr_slab_new(0, &slab, &err), LDR_EINVAL);
	cr_assert_eq(ldr_slab_new(LDR_SLAB_PAGES_MAX + 1, &slab, &err), LDR_EINVAL);
	cr_assert_eq(ldr_slab_new(PAGES, &slab, &err), LDR_OK);
	cr_assert_eq(ldr_slab_pages(slab), PAGES);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t page = ldr_slab_take(slab, rows[i].length);

		cr_assert_neq(page, LDR_SLAB_NONE, "length %zu", rows[i].length);
		cr_assert_eq(ldr_slab_run_pages(slab, page), rows[i].pages);
		cr_assert_eq(ldr_slab_used_pages(slab), rows[i].pages);
		memset(ldr_slab_at(slab, page), 0xa5, rows[i].length);
		ldr_slab_release(slab, page);
	}
	cr_assert_eq(ldr_slab_take(slab, PAGES * 4096u + 1), LDR_SLAB_NONE);
	cr_assert_eq(ldr_slab_next(slab, 0), LDR_SLAB_NONE);
	ldr_slab_free(slab);
}

Test(slab, one_page_fills_up_and_joins_again)
{
	struct ldr_slab *slab = NULL;
	uint32_t pages[PAGES];

	cr_assert_eq(ldr_slab_new(PAGES, &slab, NULL), LDR_OK);
	for (unsigned i = 0; i < PAGES; i++)
		pages[i] = ldr_slab_take(slab, 1);
	cr_assert_eq(ldr_slab_take(slab, 1), LDR_SLAB_NONE);
	/* Every second page free: half of the arena, and no room for two pages. */
	for (unsigned i = 0; i < PAGES; i += 2)
		cr_assert_eq(ldr_slab_release(slab, pages[i]), pages[i]);
	cr_assert_eq(ldr_slab_take(slab, 4097), LDR_SLAB_NONE);
	for (unsigned i = 1; i < PAGES; i += 2)
		cr_assert_eq(ldr_slab_release(slab, pages[i]), 0, "page %u joins what lies before",
			     i);
	cr_assert_eq(ldr_slab_take(slab, PAGES * 4096u), 0);
	ldr_slab_free(slab);
}

Test(slab, random_takes_and_releases_agree_with_a_model)
{
	struct model model = {0};
	struct ldr_slab *slab = NULL;
	uint32_t held[PAGES], count = 0, random = 12345;
	unsigned taken = 0, full = 0;

	cr_assert_eq(ldr_slab_new(PAGES, &slab, NULL), LDR_OK);
	for (unsigned step = 0; step < 20000; step++) {
		random = random * 1664525u + 1013904223u;
		if ((random >> 16) % 100 < 55) {
			size_t length = 1 + (random >> 8) % (64 * 4096);
			uint32_t page = ldr_slab_take(slab, length);

			if (page == LDR_SLAB_NONE) {
				full++;
				continue;
			}
			model_take(&model, page, (uint32_t)((length + 4095) / 4096));
			held[count++] = page;
			taken++;
		} else if (count) {
			uint32_t which = (random >> 8) % count, page = held[which];

			held[which] = held[--count];
			model_release(&model, page);
			ldr_slab_release(slab, page);
		}
		if (step % 64 == 0)
			compare(&model, slab);
	}
	cr_assert_gt(taken, 1000);
	cr_assert_gt(full, 10);
	while (count)
		ldr_slab_release(slab, held[--count]);
	cr_assert_eq(ldr_slab_take(slab, PAGES * 4096u), 0, "everything joined again");
	ldr_slab_free(slab);
}
