/*
 * What an installed folder remembers: DIR/.larder/installed, and DIR/.larder/plan while an update is
 * being applied. Both have one format, private to Larder and to this machine:
 *
 *	"LARDINST" version:u32=1 flags:u32=0 record:u64 tree:u64 nodes:u64    lengths and count
 *	record bytes (JWS; none for an unpacked archive) · tree bytes
 *	nodes times: modified_ns:u64 inode:u64          of each file as it was written; 0 0 unknown
 *	XXH3-64 of all that, u64
 *
 * A stamp tells whether a file is still what was installed without reading it. A damaged record is as
 * good as none: then every file is digested.
 *
 * Threads: one at a time.
 */
#ifndef LDR_CLIENT_INSTALLATION_H
#define LDR_CLIENT_INSTALLATION_H

#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/publisher.h"
#include "packs/tree_reader.h"

#define LDR_INSTALLED_PATH LDR_RESERVED_NAME "/installed"
#define LDR_PLAN_PATH LDR_RESERVED_NAME "/plan"

struct ldr_file_stamp {
	uint64_t modified_ns;
	uint64_t inode;
};

struct ldr_installation {
	uint8_t *bytes; /* owns; what the pointers below point into */
	const char *record;
	size_t record_length;
	const uint8_t *tree_bytes;
	size_t tree_length;
	struct ldr_tree *tree; /* owns */
	const uint8_t *stamps; /* 16 bytes for each node */
};

/* LDR_ENOTFOUND: nothing installed; LDR_ECORRUPT: damaged. */
enum ldr_status ldr_installation_read(const struct ldr_root *target, const char *path,
				      struct ldr_installation *out, struct ldr_error *err);
/* Takes the bytes (heap), also when it fails. */
enum ldr_status ldr_installation_parse(uint8_t *bytes, size_t length, struct ldr_installation *out,
				       struct ldr_error *err);
void ldr_installation_dispose(struct ldr_installation *installation);
#define LDR_AUTO_INSTALLATION __attribute__((cleanup(ldr_installation_dispose)))
struct ldr_file_stamp ldr_installation_stamp(const struct ldr_installation *installation,
					     uint32_t node);

/* The bytes for these contents; stamps (one for each node) may be NULL: all unknown. */
enum ldr_status ldr_installation_write(const void *record, size_t record_length,
				       const void *tree_bytes, size_t tree_length,
				       const struct ldr_file_stamp *stamps, uint32_t node_count,
				       struct ldr_buffer *out, struct ldr_error *err);

#endif
