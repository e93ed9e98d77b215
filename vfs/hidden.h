/*
 * Whiteouts of one write target: the paths (inside its layer) below which nothing of lower mounts
 * is seen. Inside vfs/ only.
 *
 * A lookup asks the target's layer first, so a path that is hidden and was made anew is seen; what
 * lower mounts have at a hidden path or anywhere below it is not. So one set serves for removed
 * files, removed folders and folders made anew over removed ones, and nothing ever has to be taken
 * out of it.
 *
 * The set is kept in the layer's side log, docs/formats/overlay.md:
 *
 *   log    := "LARDHIDE" version:u32=1 reserved:u32=0 record*
 *   record := length:u16 path checksum:u64        XXH3-64 of length and path
 *
 * What a crash leaves of the last append is dropped, for it was never acknowledged: at most one
 * record's bytes, cut short or with zeros where bytes did not arrive, and no good record behind
 * them. Any other fault is LDR_ECORRUPT: guessing would show what was removed.
 *
 * Names are kept twice, as they are and folded: whether they are compared in any case is for who
 * asks.
 *
 * Invariants
 *  1. The log has each path once: hiding a hidden path writes nothing, so it cannot grow by
 *     repetition.
 *  2. A path is in the set only after its record is in the log, and all memory for it is taken
 *     before that: what is in the log and was not told as a failure is in the set.
 *
 * Threads: any thread looks up, without a lock: the table only grows, old tables stay until the set
 * is freed. Adding is for one thread at a time (the turn of the layer's claim).
 */
#ifndef LDR_VFS_HIDDEN_H
#define LDR_VFS_HIDDEN_H

#include <stdatomic.h>

#include "vfs/layer.h"

struct ldr_hidden;

/* Reads the side log of a layer that has one. LDR_ECORRUPT, LDR_EUNSUPPORTED (version), LDR_ENOMEM.
 * */
enum ldr_status ldr_hidden_load(const struct ldr_layer_ops *ops, void *layer_self,
				struct ldr_hidden **out_hidden, struct ldr_error *err);
void ldr_hidden_free(struct ldr_hidden *hidden); /* NULL is allowed */

/* Whether the path or a folder above it is hidden; fold: in whatever case. */
bool ldr_hidden_covers(const struct ldr_hidden *hidden, const char *path, size_t length, bool fold);
/* Writes nothing when it is covered already, in the sense of fold. */
enum ldr_status ldr_hidden_add(struct ldr_hidden *hidden, const char *path, size_t length,
			       bool fold, struct ldr_error *err);
uint64_t ldr_hidden_count(const struct ldr_hidden *hidden);

/* The parser alone, for tests and fuzzing: calls each for every record; *out_good is the length of
 * the log without a torn end. */
enum ldr_status ldr_hidden_parse(const uint8_t *log, size_t length,
				 enum ldr_status (*each)(void *context, const char *path,
							 size_t path_bytes, struct ldr_error *err),
				 void *context, size_t *out_good, struct ldr_error *err);

#endif
