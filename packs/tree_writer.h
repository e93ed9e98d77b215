/*
 * Writing a tree. Entries come in tree order: names of one folder strictly rising by bytes, a folder's
 * own entries between its begin and end. Whatever tree_reader.h would refuse is refused here, with the
 * same statuses, when it is added, or, for rules over the whole tree, by ldr_tree_writer_end.
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
void ldr_tree_writer_free(struct ldr_tree_writer *writer);
enum ldr_status ldr_tree_writer_folder_begin(struct ldr_tree_writer *writer, const char *name,
					     uint32_t mode, struct ldr_error *err);
enum ldr_status ldr_tree_writer_folder_end(struct ldr_tree_writer *writer, struct ldr_error *err);
enum ldr_status ldr_tree_writer_file(struct ldr_tree_writer *writer, const char *name,
				     uint32_t mode, const struct ldr_block_ref *blocks,
				     uint64_t block_count, struct ldr_error *err);
enum ldr_status ldr_tree_writer_symlink(struct ldr_tree_writer *writer, const char *name,
					uint32_t mode, const char *target, struct ldr_error *err);
/* Closes the root and parses the result once: what comes out can be read. The bytes stay the
 * writer's until it is freed. */
enum ldr_status ldr_tree_writer_end(struct ldr_tree_writer *writer, const uint8_t **out_bytes,
				    size_t *out_length, struct ldr_tree_totals *out_totals,
				    struct ldr_error *err);

#endif
