/*
 * The pack container: what reader, writer, caches and the server share. docs/formats/pack.md is the
 * normative text.
 *
 *   0        header     64 bytes   magic "LARDPACK", version, flags, align, salt
 *   64       blocks     stored blocks; a raw one (codec none) at the next multiple of align, the others
 *                       right behind the block before; gaps are zero
 *   ...      sections   bodies: entries, checksums, and optionally tree and record
 *   ...      table      "LARDINDX", count, one 64-byte row per section: kind, flags, position, length,
 *                       XXH3-64 and SHA-256 of its bytes; the first row is the header itself
 *   end-32   trailer    table's position and length, XXH3-64 of the table, "LARDTAIL"
 *
 * The pack id is the SHA-256 of the table. The table holds the SHA-256 of header, entries, checksums,
 * tree and record; the entries hold the SHA-256 of every block: so the id covers every byte.
 */
#ifndef LDR_PACKS_PACK_H
#define LDR_PACKS_PACK_H

#include <stdint.h>

#include "packs/block.h"

#define LDR_PACK_MAGIC "LARDPACK"
#define LDR_PACK_TABLE_MAGIC "LARDINDX"
#define LDR_PACK_TRAILER_MAGIC "LARDTAIL"
#define LDR_PACK_VERSION 1u

#define LDR_PACK_HEADER_BYTES 64u
#define LDR_PACK_ENTRY_BYTES 48u
#define LDR_PACK_CHECKSUM_BYTES 8u
#define LDR_PACK_TABLE_HEAD_BYTES 16u
#define LDR_PACK_TABLE_ROW_BYTES 64u
#define LDR_PACK_TRAILER_BYTES 32u
#define LDR_PACK_SECTIONS_MAX 16u
#define LDR_PACK_ALIGN_MAX 65536u

/* The key that an encrypted pack's owner keeps; what hangs on it stands in the header. */
#define LDR_TITLE_KEY_BYTES 32u
#define LDR_PACK_SALT_BYTES 16u
#define LDR_PACK_PROOF_BYTES 24u

/* Header flags, one at most; 0 in packs that are published: both are for local archives only. */
#define LDR_PACK_FLAG_XOR 1u       /* obfuscation, protects nothing */
#define LDR_PACK_FLAG_ENCRYPTED 2u /* AES-256-GCM per block */

enum ldr_section {
	LDR_SECTION_HEADER = 1,    /* row only: position 0, length 64 */
	LDR_SECTION_ENTRIES = 2,   /* 48 bytes each, sorted by id, no id twice */
	LDR_SECTION_CHECKSUMS = 3, /* XXH3-64 of each stored block, in the order of the entries */
	LDR_SECTION_TREE = 4,      /* docs/formats/tree.md */
	LDR_SECTION_RECORD = 5,    /* docs/formats/release.md */
	/* 6 and 7 are kept for delta packs: tree patch and delta entries. */
};

/* One entry, decoded. On disk: id 32, offset 6, stored length 4, plain length 4, codec 1, flags 1. */
struct ldr_pack_entry {
	struct ldr_id id;
	uint64_t offset;
	uint32_t stored_bytes;
	uint32_t plain_bytes;
	enum ldr_codec codec;
	uint64_t checksum;
};

#endif
