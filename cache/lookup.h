/*
 * From a block's id to the pack that holds it and the place in it: the table in memory, and its form as
 * a file.
 *
 * The table holds the entries of all packs, published and open, one list of rows per pack, and finds a
 * row by open addressing over the ids (which are uniform already). The same block may lie in several
 * packs; a find gives one of them, and when its row is dropped, the next.
 *
 * The file `lookup` is a copy of the rows of the published packs, derived from the packs and never
 * needed: it saves reading every pack's index at the start. Rows of packs that are gone are passed over,
 * packs that it does not know are read, and a damaged file is as good as none. It also remembers which
 * blocks of a pack were found bad, by leaving them out.
 *
 * Threads: one at a time (the disk cache's lock); a parsed file is immutable.
 */
#ifndef LDR_CACHE_LOOKUP_H
#define LDR_CACHE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "packs/pack.h"

#define LDR_LOOKUP_NONE UINT32_MAX
#define LDR_LOOKUP_MAX_BYTES ((size_t)512 * 1024 * 1024)
#define LDR_LOOKUP_HEAD_BYTES 24u
#define LDR_LOOKUP_PACK_BYTES 48u
#define LDR_LOOKUP_ROW_BYTES 56u

/* ---- the table ---- */

struct ldr_lookup_row {
	struct ldr_pack_entry entry;
	bool dropped; /* its bytes were bad; not found any more */
};

struct ldr_lookup_pack {
	struct ldr_lookup_row *rows; /* owns */
	uint32_t count;
	uint32_t capacity;
	uint32_t dropped;
	bool used; /* the number belongs to a pack */
};

struct ldr_lookup_cell {
	uint32_t tag;
	uint32_t pack; /* LDR_LOOKUP_NONE: empty */
	uint32_t row;
};

/* Zeroed is a valid empty table. */
struct ldr_lookup {
	struct ldr_lookup_pack *packs; /* owns */
	uint32_t pack_count;           /* numbers given out, with those that are free again */
	uint32_t pack_capacity;
	struct ldr_lookup_cell *cells; /* owns */
	size_t cell_count;             /* 0 or a power of two */
	uint64_t blocks;               /* rows that can be found */
};

void ldr_lookup_dispose(struct ldr_lookup *lookup);
/* A number for a new pack without rows; numbers of dropped packs come again. LDR_LOOKUP_NONE: out of
 * memory. */
uint32_t ldr_lookup_add_pack(struct ldr_lookup *lookup);
/* False: out of memory, nothing changed. */
bool ldr_lookup_add(struct ldr_lookup *lookup, uint32_t pack, const struct ldr_pack_entry *entry);
void ldr_lookup_drop_pack(struct ldr_lookup *lookup, uint32_t pack);
void ldr_lookup_drop_row(struct ldr_lookup *lookup, uint32_t pack, uint32_t row);
/* False when it is not there; otherwise which pack and which of its rows. */
bool ldr_lookup_find(const struct ldr_lookup *lookup, const struct ldr_id *id, uint32_t *out_pack,
		     uint32_t *out_row);

/* ---- the file ---- */

/* A pack as the file knows it. */
struct ldr_lookup_listed {
	struct ldr_id id;
	uint64_t size_bytes;
	uint32_t first; /* row */
	uint32_t count;
};

/* Borrows the bytes that it was parsed from. Zeroed is a valid file without packs. */
struct ldr_lookup_file {
	const uint8_t *packs;
	const uint8_t *rows;
	uint32_t pack_count;
	uint32_t row_count;
};

/* Puts the file together: begin with how many packs there will be, each pack once in rising order of
 * ids, then end. The buffer's sticky failure is the caller's to check. */
void ldr_lookup_file_begin(struct ldr_buffer *out, uint32_t pack_count);
void ldr_lookup_file_pack(struct ldr_buffer *out, const struct ldr_id *id, uint64_t size_bytes,
			  uint32_t row_count);
void ldr_lookup_file_rows(struct ldr_buffer *out, const struct ldr_lookup_pack *pack);
void ldr_lookup_file_end(struct ldr_buffer *out);

/* LDR_ECORRUPT for anything that ldr_lookup_file_end would not have made; LDR_EUNSUPPORTED for another
 * version. */
enum ldr_status ldr_lookup_file_parse(const void *bytes, size_t length,
				      struct ldr_lookup_file *out_file, struct ldr_error *err);
/* False when the file does not know the pack. */
bool ldr_lookup_file_find(const struct ldr_lookup_file *file, const struct ldr_id *id,
			  struct ldr_lookup_listed *out_listed);
void ldr_lookup_file_row(const struct ldr_lookup_file *file, uint32_t row,
			 struct ldr_pack_entry *out_entry);

#endif
