/*
 * What the parts of the pack reader share: pack_file.c reaches the bytes, pack_check.c proves an index,
 * pack_reader.c finds and reads blocks, pack_verify.c reads everything.
 */
#ifndef LDR_PACKS_PACK_PRIV_H
#define LDR_PACKS_PACK_PRIV_H

#include <stdatomic.h>

#include "common/bytes.h"
#include "packs/cipher.h"
#include "packs/pack_reader.h"
#include "packs/pack_writer.h"
#include "packs/tree_priv.h"

/* Where the fields of an entry lie; docs/formats/pack.md has the tables. */
#define ENTRY_OFFSET 32
#define ENTRY_STORED 38
#define ENTRY_PLAIN 42
#define ENTRY_CODEC 46
#define ENTRY_FLAGS 47

/* And those of the header. */
#define HEADER_FLAGS 12
#define HEADER_ALIGN 16
#define HEADER_RESERVED 20
#define HEADER_SALT 24
#define HEADER_PROOF 40

/* An offset has 6 bytes in an entry. */
#define PACK_BYTES_MAX (UINT64_C(1) << 48)
#define SECTIONS_REQUIRED 3u
#define PACK_BYTES_MIN                                       \
	(LDR_PACK_HEADER_BYTES + LDR_PACK_TABLE_HEAD_BYTES + \
	 SECTIONS_REQUIRED * LDR_PACK_TABLE_ROW_BYTES + LDR_PACK_TRAILER_BYTES)
#define TABLE_BYTES_MAX \
	(LDR_PACK_TABLE_HEAD_BYTES + LDR_PACK_SECTIONS_MAX * LDR_PACK_TABLE_ROW_BYTES)

/* A pack's bytes: a descriptor, or a mapping and then no descriptor. */
struct pack_file {
	int fd; /* owns; -1 when mapped */
	uint64_t base;
	uint64_t size_bytes;
	const uint8_t *map;    /* the pack's first byte */
	const void *map_start; /* owns */
	size_t map_length;
};

struct pack_section {
	uint32_t kind;
	uint64_t position;
	uint64_t length;
	uint64_t checksum;
	struct ldr_id digest;
};

struct ldr_pack {
	atomic_uint references;
	char *name; /* owns */
	struct pack_file file;
	uint8_t header[LDR_PACK_HEADER_BYTES];
	uint32_t align;
	struct ldr_cipher cipher;
	struct ldr_id id;
	unsigned section_count;
	struct pack_section sections[LDR_PACK_SECTIONS_MAX];
	uint64_t blocks_end; /* where the first section begins */
	uint32_t entry_count;
	struct ldr_tree_memory index_copy; /* owns; nothing when mapped */
	const uint8_t *index;              /* the sections' bytes, from blocks_end */
	const uint8_t *entries;
	const uint8_t *checksums;
};

/* A stored block's place, for walks in the order of offsets. */
struct pack_extent {
	uint64_t offset;
	uint32_t stored_bytes;
	uint32_t entry;
};

/* Looks at the open file and maps it where asked. LDR_ECORRUPT too short, LDR_ELIMIT too long. */
enum ldr_status ldr_pack_file_init(struct pack_file *file, const char *name,
				   const struct ldr_pack_options *options, struct ldr_error *err);
void ldr_pack_file_dispose(struct pack_file *file);
/* Reads exactly length bytes at the offset. LDR_ECORRUPT when the file ends before. */
enum ldr_status ldr_pack_file_read(const struct pack_file *file, const char *name, uint64_t offset,
				   void *bytes, size_t length, struct ldr_error *err);

/* Reads and proves header, trailer, table, sections and entries, and fills the pack. */
enum ldr_status ldr_pack_check(struct ldr_pack *pack, const struct ldr_pack_options *options,
			       struct ldr_error *err);
/* The SHA-256 of header and sections, from the bytes in memory. */
enum ldr_status ldr_pack_check_digests(const struct ldr_pack *pack, struct ldr_error *err);
/* The entries in the order of their offsets; owns: free(). NULL: out of memory. */
struct pack_extent *ldr_pack_extents(const struct ldr_pack *pack);

static inline const uint8_t *pack_entry_bytes(const struct ldr_pack *pack, uint32_t i)
{
	return pack->entries + (size_t)i * LDR_PACK_ENTRY_BYTES;
}

/* Where a block begins after one that ends at end: raw blocks are aligned, the others follow. */
static inline uint64_t pack_next_offset(uint64_t end, uint32_t align, enum ldr_codec codec)
{
	return codec == LDR_CODEC_NONE ? (end + align - 1) & ~((uint64_t)align - 1) : end;
}

/* The 48 bytes of an entry, as the index has them. */
static inline void pack_put_entry(uint8_t *row, const struct ldr_pack_entry *entry)
{
	memcpy(row, entry->id.bytes, LDR_ID_BYTES);
	ldr_put_le(row + ENTRY_OFFSET, 6, entry->offset);
	ldr_put_le(row + ENTRY_STORED, 4, entry->stored_bytes);
	ldr_put_le(row + ENTRY_PLAIN, 4, entry->plain_bytes);
	row[ENTRY_CODEC] = (uint8_t)entry->codec;
	row[ENTRY_FLAGS] = 0;
}

/* The header of a pack that is written with these options. */
static inline void pack_put_header(uint8_t header[LDR_PACK_HEADER_BYTES],
				   const struct ldr_pack_writer_options *options)
{
	memset(header, 0, LDR_PACK_HEADER_BYTES);
	memcpy(header, LDR_PACK_MAGIC, 8);
	ldr_put_le(header + 8, 4, LDR_PACK_VERSION);
	ldr_put_le(header + HEADER_FLAGS, 4, options->flags);
	ldr_put_le(header + HEADER_ALIGN, 4, options->align);
	if (options->salt)
		memcpy(header + HEADER_SALT, options->salt, LDR_PACK_SALT_BYTES);
	if (options->proof)
		memcpy(header + HEADER_PROOF, options->proof, LDR_PACK_PROOF_BYTES);
}

#endif
