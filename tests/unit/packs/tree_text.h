/*
 * Trees for tests, made byte by byte from a few lines of text without any of the writer's checks, and a
 * judge of parsed trees that shares no code with the parser.
 *
 * Lines, each ended by "\n"; fields are separated by tabs:
 *   D name            opens a folder          E    closes it (the root is closed at the end)
 *   F name [n]        a file of n whole blocks and one of 5 bytes (n defaults to 0)
 *   Z name            a file of no blocks
 *   L name target     a symlink
 */
#ifndef LDR_TESTS_UNIT_PACKS_TREE_TEXT_H
#define LDR_TESTS_UNIT_PACKS_TREE_TEXT_H

#include "common/bytes.h"
#include "packs/tree_reader.h"

#define TEST_TREE_HEADER_BYTES 16u

void test_tree_header(struct ldr_buffer *out);
void test_tree_entry(struct ldr_buffer *out, unsigned kind_mode, const void *name, size_t length);
void test_tree_symlink(struct ldr_buffer *out, const char *name, const void *target, size_t length);
void test_tree_file(struct ldr_buffer *out, const char *name, unsigned whole_blocks);
/* The lines' entries, without header and without the root's end. */
void test_tree_lines(struct ldr_buffer *out, const char *lines);
/* A whole tree; the caller disposes. */
struct ldr_buffer test_tree_of(const char *lines);

/* NULL when the tree obeys every rule and its functions agree with each other, else which does not.
 * Quadratic: for small trees. */
const char *test_tree_fault(const struct ldr_tree *tree);

/* NULL when the writer, given what the tree holds, makes exactly these bytes: a tree has one spelling. */
const char *test_tree_spelling_fault(const struct ldr_tree *tree, const void *bytes, size_t length);

#endif
