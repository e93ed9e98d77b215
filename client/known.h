/*
 * The blocks that a release maps, by id: what the next publication need not store again.
 *
 * Threads: filled by one; afterwards ldr_known_find may be called by any number at once.
 */
#ifndef LDR_CLIENT_KNOWN_H
#define LDR_CLIENT_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "packs/map.h"

struct ldr_known;

/* A table for at most `blocks` blocks. */
enum ldr_status ldr_known_new(uint64_t blocks, struct ldr_known **out_known, struct ldr_error *err);
void ldr_known_free(struct ldr_known *known); /* NULL is allowed */
/* The first place of an id is kept. */
void ldr_known_add(struct ldr_known *known, const struct ldr_placed_block *block);
/* The shape of struct ldr_known_blocks.find; a place that is given out marks its pack as used. */
bool ldr_known_find(void *known, const struct ldr_id *id, struct ldr_place *out_place);
/* Whether a place in the pack with this number was given out. */
bool ldr_known_used(const struct ldr_known *known, uint32_t pack_number);

#endif
