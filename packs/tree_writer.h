/*
 * Writing a tree. Entries come in tree order: names of one folder strictly rising by bytes, a folder's
 * own entries between its begin and end. Whatever tree_reader.h would refuse is refused here when it is
 * added, or, for the rules over the whole tree (names that clash, symlinks by way of symlinks), by
 * ldr_tree_writer_end. What is LDR_ECORRUPT in bytes from outside is the caller's own doing here:
 * LDR_EINVAL for names, order, modes and blocks, LDR_ELINK for symlinks; LDR_ELIMIT stays.
 *
 * An entry that is refused leaves nothing behind: the caller may go on with the next.
 *
 * Threads: one at a time.
 */
#ifndef LDR_PACKS_TREE_WRITER_H
#define LDR_PACKS_TREE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "packs/tree_reader.h"

struct ldr_tree_writer;

enum ldr_status ldr_tree_writer_new(struct ldr_tree_writer **out_writer, struct ldr_error *err);
void ldr_tree_writer_free(struct ldr_tree_writer *writer); /* NULL is allowed */
void ldr_tree_writer_cleanup(struct ldr_tree_writer **writer);
#define LDR_AUTO_TREE_WRITER __attribute__((cleanup(ldr_tree_writer_cleanup)))
enum ldr_status ldr_tree_writer_folder_begin(struct ldr_tree_writer *writer, const char *name,
					     uint32_t mode, struct ldr_error *err);
enum ldr_status ldr_tree_writer_folder_end(struct ldr_tree_writer *writer, struct ldr_error *err);
enum ldr_status ldr_tree_writer_file(struct ldr_tree_writer *writer, const char *name,
				     uint32_t mode, const struct ldr_block_ref *blocks,
				     uint64_t block_count, struct ldr_error *err);
enum ldr_status ldr_tree_writer_symlink(struct ldr_tree_writer *writer, const char *name,
					uint32_t mode, const char *target, struct ldr_error *err);
/* Closes the root and parses the result once: what comes out can be read. The bytes stay the
 * writer's until it is freed, which is all that may follow. */
enum ldr_status ldr_tree_writer_end(struct ldr_tree_writer *writer, const uint8_t **out_bytes,
				    size_t *out_length, struct ldr_tree_totals *out_totals,
				    struct ldr_error *err);

#endif
