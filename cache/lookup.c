/*
 * The table from block ids to places in packs; see lookup.h.
 *
 * Cells are probed linearly from the id's first eight bytes and removed by moving later cells back, so
 * that no table grows old. The tag (four other bytes of the id) spares most looks at rows. The table is
 * at most three quarters full.
 */
#include "cache/lookup.h"

#include <assert.h>
#include <stdlib.h>

#define CELLS_MIN 64u
/* Numbers of packs and rows are 32 bits wide; far more rows than that do not fit into memory. */
#define ROWS_MAX (UINT32_C(1) << 30)

void ldr_lookup_dispose(struct ldr_lookup *lookup)
{
	for (uint32_t i = 0; i < lookup->pack_count; i++)
		free(lookup->packs[i].rows);
	free(lookup->packs);
	free(lookup->cells);
	*lookup = (struct ldr_lookup){0};
}

static uint32_t tag_of(const struct ldr_id *id)
{
	return (uint32_t)ldr_get_le(id->bytes + 12, 4);
}

static size_t home_of(const struct ldr_lookup *lookup, const struct ldr_id *id)
{
	return (size_t)ldr_id_hash(id) & (lookup->cell_count - 1);
}

static const struct ldr_id *id_of(const struct ldr_lookup *lookup,
				  const struct ldr_lookup_cell *cell)
{
	return &lookup->packs[cell->pack].rows[cell->row].entry.id;
}

static void place(struct ldr_lookup *lookup, const struct ldr_lookup_cell *cell,
		  const struct ldr_id *id)
{
	size_t at = home_of(lookup, id);

	while (lookup->cells[at].pack != LDR_LOOKUP_NONE)
		at = (at + 1) & (lookup->cell_count - 1);
	lookup->cells[at] = *cell;
}

static bool grow_cells(struct ldr_lookup *lookup)
{
	struct ldr_lookup_cell *old = lookup->cells;
	size_t old_count = lookup->cell_count;
	size_t count = old_count ? 2 * old_count : CELLS_MIN;
	struct ldr_lookup_cell *cells;

	if (lookup->blocks + 1 <= old_count / 4 * 3)
		return true;
	cells = malloc(count * sizeof(*cells));
	if (!cells)
		return false;
	memset(cells, 0xff, count * sizeof(*cells));
	lookup->cells = cells;
	lookup->cell_count = count;
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].pack != LDR_LOOKUP_NONE)
			place(lookup, &old[i], id_of(lookup, &old[i]));
	}
	free(old);
	return true;
}

uint32_t ldr_lookup_add_pack(struct ldr_lookup *lookup)
{
	uint32_t number = 0, capacity;
	struct ldr_lookup_pack *packs;

	while (number < lookup->pack_count && lookup->packs[number].used)
		number++;
	if (number == lookup->pack_capacity) {
		if (number >= ROWS_MAX)
			return LDR_LOOKUP_NONE;
		capacity = number ? 2 * number : 16;
		packs = realloc(lookup->packs, capacity * sizeof(*packs));
		if (!packs)
			return LDR_LOOKUP_NONE;
		lookup->packs = packs;
		lookup->pack_capacity = capacity;
	}
	if (number == lookup->pack_count)
		lookup->pack_count++;
	lookup->packs[number] = (struct ldr_lookup_pack){.used = true};
	return number;
}

static bool grow_rows(struct ldr_lookup_pack *pack)
{
	uint32_t capacity = pack->capacity ? 2 * pack->capacity : 32;
	struct ldr_lookup_row *rows;

	if (pack->count < pack->capacity)
		return true;
	if (pack->count >= ROWS_MAX)
		return false;
	rows = realloc(pack->rows, capacity * sizeof(*rows));
	if (!rows)
		return false;
	pack->rows = rows;
	pack->capacity = capacity;
	return true;
}

bool ldr_lookup_add(struct ldr_lookup *lookup, uint32_t pack, const struct ldr_pack_entry *entry)
{
	struct ldr_lookup_pack *list = &lookup->packs[pack];
	struct ldr_lookup_cell cell = {.pack = pack, .row = list->count, .tag = tag_of(&entry->id)};

	assert(pack < lookup->pack_count && list->used);
	if (!grow_rows(list) || !grow_cells(lookup))
		return false;
	list->rows[list->count++] = (struct ldr_lookup_row){.entry = *entry};
	place(lookup, &cell, &entry->id);
	lookup->blocks++;
	return true;
}

/* Empties a cell and moves back those behind it that would not be found over the gap. */
static void remove_cell(struct ldr_lookup *lookup, size_t gap)
{
	size_t mask = lookup->cell_count - 1;

	for (size_t at = (gap + 1) & mask; lookup->cells[at].pack != LDR_LOOKUP_NONE;
	     at = (at + 1) & mask) {
		size_t home = home_of(lookup, id_of(lookup, &lookup->cells[at]));

		/* Its way from home to here leads over the gap. */
		if (((at - home) & mask) >= ((at - gap) & mask)) {
			lookup->cells[gap] = lookup->cells[at];
			gap = at;
		}
	}
	lookup->cells[gap].pack = LDR_LOOKUP_NONE;
	lookup->blocks--;
}

void ldr_lookup_drop_row(struct ldr_lookup *lookup, uint32_t pack, uint32_t row)
{
	struct ldr_lookup_pack *list = &lookup->packs[pack];
	size_t at;

	assert(pack < lookup->pack_count && row < list->count);
	if (list->rows[row].dropped)
		return;
	at = home_of(lookup, &list->rows[row].entry.id);
	while (lookup->cells[at].pack != pack || lookup->cells[at].row != row)
		at = (at + 1) & (lookup->cell_count - 1);
	remove_cell(lookup, at);
	list->rows[row].dropped = true;
	list->dropped++;
}

void ldr_lookup_drop_pack(struct ldr_lookup *lookup, uint32_t pack)
{
	struct ldr_lookup_pack *list = &lookup->packs[pack];

	assert(pack < lookup->pack_count && list->used);
	for (uint32_t row = 0; row < list->count; row++)
		ldr_lookup_drop_row(lookup, pack, row);
	free(list->rows);
	*list = (struct ldr_lookup_pack){0};
}

bool ldr_lookup_find(const struct ldr_lookup *lookup, const struct ldr_id *id, uint32_t *out_pack,
		     uint32_t *out_row)
{
	uint32_t tag = tag_of(id);

	if (lookup->cell_count == 0)
		return false;
	for (size_t at = home_of(lookup, id);; at = (at + 1) & (lookup->cell_count - 1)) {
		const struct ldr_lookup_cell *cell = &lookup->cells[at];

		if (cell->pack == LDR_LOOKUP_NONE)
			return false;
		if (cell->tag == tag && ldr_id_equal(id_of(lookup, cell), id)) {
			*out_pack = cell->pack;
			*out_row = cell->row;
			return true;
		}
	}
}
