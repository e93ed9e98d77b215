/*
 * Buffers for decoded blocks; see slab.h.
 *
 * The page table has one row per page. Of a run, the first row holds length and kind, the last one
 * points back to the first (so that a neighbour can be joined); rows between them mean nothing.
 */
#include "cache/slab.h"

#include <assert.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/os_arena.h"

/* 1, 2, 4 ... 32 pages, and 64 pages (256 KiB) or more. */
#define BINS 7
/* In the bin that holds runs on both sides of the wanted size, look at this many. */
#define BIN_LOOK 16

struct row {
	uint32_t pages;          /* of the run that begins here */
	uint32_t first : 31;     /* of the run that ends here */
	uint32_t used : 1;       /* of the run that begins here */
	uint32_t next, previous; /* in its bin, of a free run that begins here */
};

_Static_assert(sizeof(struct row) == LDR_SLAB_OVERHEAD_BYTES, "the overhead is told to callers");

struct ldr_slab {
	uint8_t *arena;   /* owns */
	struct row *rows; /* owns */
	uint32_t pages;
	uint32_t used_pages;
	uint32_t bins[BINS];
};

static unsigned bin_of(uint32_t pages)
{
	unsigned bin = 31 - (unsigned)__builtin_clz(pages);

	return bin < BINS ? bin : BINS - 1;
}

static void bin_add(struct ldr_slab *slab, uint32_t page)
{
	uint32_t *head = &slab->bins[bin_of(slab->rows[page].pages)];

	slab->rows[page].previous = LDR_SLAB_NONE;
	slab->rows[page].next = *head;
	if (*head != LDR_SLAB_NONE)
		slab->rows[*head].previous = page;
	*head = page;
}

static void bin_remove(struct ldr_slab *slab, uint32_t page)
{
	const struct row *row = &slab->rows[page];

	if (row->previous != LDR_SLAB_NONE)
		slab->rows[row->previous].next = row->next;
	else
		slab->bins[bin_of(row->pages)] = row->next;
	if (row->next != LDR_SLAB_NONE)
		slab->rows[row->next].previous = row->previous;
}

static void run_set(struct ldr_slab *slab, uint32_t page, uint32_t pages, bool used)
{
	slab->rows[page].pages = pages;
	slab->rows[page].used = used;
	slab->rows[page + pages - 1].first = page & 0x7fffffffu;
	if (!used)
		bin_add(slab, page);
}

enum ldr_status ldr_slab_new(uint32_t pages, struct ldr_slab **out_slab, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_slab *slab = NULL;
	LDR_AUTO_FREE struct row *rows = NULL;
	void *arena;
	int error;

	if (pages == 0 || pages > LDR_SLAB_PAGES_MAX)
		return ldr_fail(err, LDR_EINVAL, "slab: %u pages, limit %u", pages,
				LDR_SLAB_PAGES_MAX);
	slab = calloc(1, sizeof(*slab));
	rows = calloc(pages, sizeof(*rows));
	if (!slab || !rows)
		return ldr_fail(err, LDR_ENOMEM, "slab: no memory for %u pages", pages);
	error = ldr_os_arena_map((size_t)pages * LDR_SLAB_PAGE_BYTES, &arena);
	if (error)
		return ldr_fail_errno(err, error, "slab: %u pages not mapped", pages);
	slab->arena = arena;
	slab->rows = LDR_STEAL(rows);
	slab->pages = pages;
	for (unsigned i = 0; i < BINS; i++)
		slab->bins[i] = LDR_SLAB_NONE;
	run_set(slab, 0, pages, false);
	*out_slab = LDR_STEAL(slab);
	return LDR_OK;
}

void ldr_slab_free(struct ldr_slab *slab)
{
	if (!slab)
		return;
	ldr_os_arena_unmap(slab->arena, (size_t)slab->pages * LDR_SLAB_PAGE_BYTES);
	free(slab->rows);
	free(slab);
}

/* A free run of at least this many pages: in its own bin some are too small, in those above none. */
static uint32_t find_free(const struct ldr_slab *slab, uint32_t pages)
{
	unsigned bin = bin_of(pages);
	uint32_t page = slab->bins[bin];

	for (unsigned i = 0; i < BIN_LOOK && page != LDR_SLAB_NONE; i++) {
		if (slab->rows[page].pages >= pages)
			return page;
		page = slab->rows[page].next;
	}
	while (++bin < BINS) {
		if (slab->bins[bin] != LDR_SLAB_NONE)
			return slab->bins[bin];
	}
	return LDR_SLAB_NONE;
}

uint32_t ldr_slab_take(struct ldr_slab *slab, size_t length)
{
	size_t wanted = (length + LDR_SLAB_PAGE_BYTES - 1) / LDR_SLAB_PAGE_BYTES;
	uint32_t page, pages, whole;

	assert(length > 0);
	if (wanted > slab->pages)
		return LDR_SLAB_NONE;
	pages = (uint32_t)wanted;
	page = find_free(slab, pages);
	if (page == LDR_SLAB_NONE)
		return LDR_SLAB_NONE;
	whole = slab->rows[page].pages;
	bin_remove(slab, page);
	run_set(slab, page, pages, true);
	if (whole > pages)
		run_set(slab, page + pages, whole - pages, false);
	slab->used_pages += pages;
	return page;
}

uint32_t ldr_slab_release(struct ldr_slab *slab, uint32_t page)
{
	uint32_t first = page, pages = slab->rows[page].pages;

	assert(page < slab->pages && slab->rows[page].used);
	slab->used_pages -= pages;
	if (page + pages < slab->pages && !slab->rows[page + pages].used) {
		bin_remove(slab, page + pages);
		pages += slab->rows[page + pages].pages;
	}
	if (page > 0 && !slab->rows[slab->rows[page - 1].first].used) {
		first = slab->rows[page - 1].first;
		bin_remove(slab, first);
		pages += page - first;
	}
	run_set(slab, first, pages, false);
	return first;
}

uint8_t *ldr_slab_at(const struct ldr_slab *slab, uint32_t page)
{
	return slab->arena + (size_t)page * LDR_SLAB_PAGE_BYTES;
}

uint32_t ldr_slab_run_pages(const struct ldr_slab *slab, uint32_t page)
{
	return slab->rows[page].pages;
}

uint32_t ldr_slab_next(const struct ldr_slab *slab, uint32_t page)
{
	/* Two free runs are never neighbours. */
	if (page < slab->pages && !slab->rows[page].used)
		page += slab->rows[page].pages;
	return page < slab->pages ? page : LDR_SLAB_NONE;
}

uint32_t ldr_slab_used_pages(const struct ldr_slab *slab)
{
	return slab->used_pages;
}

uint32_t ldr_slab_pages(const struct ldr_slab *slab)
{
	return slab->pages;
}
