/*
 * Which blocks were asked for lately; see recent.h.
 */
#include "cache/recent.h"

#include <stdlib.h>

/* A line for this many pages. */
#define PAGES_A_LINE ((uint32_t)sizeof(struct ldr_recent_line) / LDR_RECENT_PAGE_BYTES)
/* The window is an eighth of what the cache holds: of blocks asked for evenly out of far more than it
 * holds few come twice within it, of a set that would fit nearly all do after some rounds. */
#define WINDOW_SHARE 8u

bool ldr_recent_init(struct ldr_recent *recent, uint32_t pages)
{
	uint32_t lines = 1;

	while (lines <= pages / PAGES_A_LINE / 2)
		lines *= 2;
	*recent = (struct ldr_recent){.lines = calloc(lines, sizeof(*recent->lines)),
				      .mask = lines - 1,
				      .window = pages / WINDOW_SHARE};
	return recent->lines != NULL;
}

void ldr_recent_dispose(struct ldr_recent *recent)
{
	free(recent->lines);
	recent->lines = NULL;
}

bool ldr_recent_admits(struct ldr_recent *recent, uint64_t hash, uint32_t pages)
{
	struct ldr_recent_line *line = &recent->lines[hash & recent->mask];
	uint32_t tag = (uint32_t)(hash >> 32) | 1;

	recent->now += pages;
	if (line->tag == tag && recent->now - line->at <= recent->window + pages) {
		line->tag = 0;
		return true;
	}
	*line = (struct ldr_recent_line){tag, recent->now};
	if (++recent->refused < LDR_RECENT_LOTTERY)
		return false;
	recent->refused = 0;
	return true;
}
