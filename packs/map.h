/*
 * The map and the top block: where the blocks of a release lie. docs/formats/release.md is the
 * normative text.
 *
 *   map  14 bytes for each block reference of the tree, in tree order (no header, so that the entry of
 *        ordinal k lies at 14 k): pack:u24 offset:u48 stored_bytes:u24 codec:u8 flags:u8=0
 *   top  "LARDTOP\0" version:u32=1 tree_blocks:u32 map_blocks:u32 reserved:u32=0, then for each block of
 *        the tree's bytes and then of the map's bytes: id:32 plain_bytes:u32 place:14   (50 bytes)
 *
 * Tree and map are cut into blocks by the chunker and are blocks of the release like all others. The top
 * block is one block (so at most 5,242 rows) and the signed record holds its id and place.
 *
 * Threads: a parsed top is immutable; the map functions have no state.
 */
#ifndef LDR_PACKS_MAP_H
#define LDR_PACKS_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "packs/block.h"

#define LDR_MAP_ENTRY_BYTES 14u
#define LDR_MAP_PACK_MAX 0xffffffu
#define LDR_TOP_MAGIC "LARDTOP" /* with its NUL, 8 bytes */
#define LDR_TOP_VERSION 1u
#define LDR_TOP_ROW_BYTES 50u

/* A block and where it lies. */
struct ldr_placed_block {
	struct ldr_block_ref block;
	struct ldr_place place;
};

/* Appends one entry; the buffer's sticky failure is the caller's to check. A field that does not fit
 * is the caller's mistake (asserted). */
void ldr_map_put(struct ldr_buffer *map, const struct ldr_place *place);
/* The entry of this ordinal out of the map's bytes (or of a page of them that begins with ordinal
 * first). LDR_ECORRUPT: outside, unknown flags, stored length 0 or over its limit; LDR_EUNSUPPORTED:
 * unknown codec. That pack and extent exist is for the release to check (ldr_release_check_place). */
enum ldr_status ldr_map_get(const void *bytes, size_t length, uint64_t first, uint64_t ordinal,
			    struct ldr_place *out_place, struct ldr_error *err);

struct ldr_top {
	struct ldr_placed_block *tree; /* owns both arrays */
	uint32_t tree_count;
	struct ldr_placed_block *map;
	uint32_t map_count;
};

#define LDR_TOP_HEADER_BYTES 24u
#define LDR_TOP_ROWS_MAX ((LDR_BLOCK_MAX_BYTES - LDR_TOP_HEADER_BYTES) / LDR_TOP_ROW_BYTES)

/* Appends the top block's bytes. LDR_ELIMIT: more rows than fit into one block. */
enum ldr_status ldr_top_write(const struct ldr_top *top, struct ldr_buffer *out,
			      struct ldr_error *err);
/* LDR_ECORRUPT, LDR_EUNSUPPORTED (version, codec). On success the top must be disposed. */
enum ldr_status ldr_top_parse(const void *bytes, size_t length, struct ldr_top *out_top,
			      struct ldr_error *err);
void ldr_top_dispose(struct ldr_top *top);

#endif
