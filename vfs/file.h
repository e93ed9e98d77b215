/*
 * Open files of the virtual file system.
 *
 * A handle has no position of its own: reads and writes say where, so that any number of threads
 * share one handle without a lock. A cursor (caller's storage) adds a position for streams.
 *
 * States of a handle: open, stale (its mount was unmounted by force: every call but close and unref
 * gives LDR_ESTALE), closed. ldr_vfs_open gives the first reference; ldr_file_close is
 * ldr_file_unref by the name that one expects.
 *
 * Threads: any thread may call anything on a handle; the last unref must be the last call. A cursor
 * belongs to one thread at a time.
 */
#ifndef LDR_VFS_FILE_H
#define LDR_VFS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "vfs/layer.h"

struct ldr_file;

LDR_API struct ldr_file *ldr_file_ref(struct ldr_file *file);
/* NULL is allowed. What a write could not bring to the file is told by the write; closing fails
 * never. */
LDR_API void ldr_file_unref(struct ldr_file *file);
LDR_API void ldr_file_close(struct ldr_file *file);
void ldr_file_cleanup(struct ldr_file **file);
#define LDR_AUTO_FILE __attribute__((cleanup(ldr_file_cleanup)))

/* Up to length bytes at offset; *out_length says how many: fewer only at the end, 0 at or past it.
 * LDR_EDENIED: opened for writing alone. LDR_EINVAL: offset + length passes 2^64. */
LDR_API enum ldr_status ldr_file_pread(struct ldr_file *file, void *bytes, size_t length,
				       uint64_t offset, size_t *out_length, struct ldr_error *err);
/* The same without a thread that waits for the network: LDR_EAGAIN, and the wait hears when to come again
 * (common/wait.h). A range of up to 256 KiB always ends; of a longer one the parts may push each other
 * out of small caches. Other layers than those of releases never answer LDR_EAGAIN. */
LDR_API enum ldr_status ldr_file_pread_or_wait(struct ldr_file *file,
					       const struct ldr_read_range *range,
					       struct ldr_wait *wait, size_t *out_length,
					       struct ldr_error *err);
/* All of length or a failure; a gap past the end reads as zeros. A file opened for APPEND ignores
 * offset. LDR_EDENIED: opened for reading. LDR_ENOSPACE. */
LDR_API enum ldr_status ldr_file_pwrite(struct ldr_file *file, const void *bytes, size_t length,
					uint64_t offset, struct ldr_error *err);
/* Cut, or extended by zeros. LDR_EDENIED: opened for reading or appending. */
LDR_API enum ldr_status ldr_file_truncate(struct ldr_file *file, uint64_t length,
					  struct ldr_error *err);
/* What was written is on the disk (nothing to do for layers without one). */
LDR_API enum ldr_status ldr_file_sync(struct ldr_file *file, struct ldr_error *err);
/* Of the open file, as it is now. */
LDR_API enum ldr_status ldr_file_stat(struct ldr_file *file, struct ldr_stat *out,
				      struct ldr_error *err);

/* Through which mount it was opened: its id, and a number that no later mount has. */
LDR_API void ldr_file_mount(const struct ldr_file *file, uint32_t *out_id,
			    uint64_t *out_generation);

/* ---- mappings ---- */

enum ldr_map_flag {
	LDR_MAP_COPY =
		/* where the bytes do not lie in memory as they are: a copy, instead of
		 * LDR_EUNSUPPORTED */
	1u,
};

/* Bytes that stay as they are until unmapped, also when the file is removed or unmounted. */
struct ldr_mapping {
	const uint8_t *bytes;
	size_t length;
	bool copied;
	struct ldr_file *file; /* the mapping keeps it */
	uint64_t pin[4];       /* the layer's own */
};

/* offset + length must lie in the file (LDR_EINVAL). Without LDR_MAP_COPY LDR_EUNSUPPORTED where
 * the bytes are not in memory in one piece: compressed or encrypted, of several blocks, or of a
 * layer that maps nothing (native files: somebody may cut them, which would kill the process). On
 * success the caller unmaps. */
LDR_API enum ldr_status ldr_file_map(struct ldr_file *file, uint64_t offset, size_t length,
				     unsigned flags, struct ldr_mapping *out,
				     struct ldr_error *err);
LDR_API void ldr_file_unmap(struct ldr_mapping *mapping);

/* ---- cursors ---- */

struct ldr_file_cursor {
	struct ldr_file *file; /* borrowed */
	uint64_t offset;
};

enum ldr_whence { LDR_FROM_START, LDR_FROM_CURRENT, LDR_FROM_END };

static inline void ldr_file_cursor_init(struct ldr_file_cursor *cursor, struct ldr_file *file)
{
	cursor->file = file;
	cursor->offset = 0;
}

/* As pread and pwrite at the cursor's place, which moves by what was done; after a failure it
 * stays. Behind an APPEND it lies at the file's end. */
LDR_API enum ldr_status ldr_file_cursor_read(struct ldr_file_cursor *cursor, void *bytes,
					     size_t length, size_t *out_length,
					     struct ldr_error *err);
LDR_API enum ldr_status ldr_file_cursor_write(struct ldr_file_cursor *cursor, const void *bytes,
					      size_t length, struct ldr_error *err);
/* Past the end is legal (reads give 0, writes leave a gap); before the start LDR_EINVAL and nothing
 * moves. */
LDR_API enum ldr_status ldr_file_cursor_seek(struct ldr_file_cursor *cursor, int64_t distance,
					     enum ldr_whence whence, uint64_t *out_offset,
					     struct ldr_error *err);

#endif
