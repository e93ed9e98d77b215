/*
 * The one path rule. Every virtual path, in a tree, on a command line or from a network, obeys it
 * before anything else looks at it.
 *
 * A path is components joined by single '/': relative, UTF-8 (no overlong form, no surrogate, nothing
 * above U+10FFFF), NFC, 1 to 1024 bytes, each component 1 to 255 bytes; no empty, "." or ".."
 * component; no backslash, colon, control character (C0, DEL, C1). "..." and ".hidden" are legal.
 *
 * A component is *portable* when it is also safe on other systems: no device name (CON, NUL, COM1 ...
 * with or without an extension, whatever its case), no dot or space at its end, none of <>"|?*.
 * Trees hold portable names only; two names of one folder that are equal after case folding clash.
 *
 * Spec: RFC 3629 (UTF-8), UAX #15 (NFC) and Unicode case folding by libutf8proc.
 * Threads: no state.
 */
#ifndef LDR_COMMON_PATH_H
#define LDR_COMMON_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LDR_PATH_MAX_BYTES 1024
#define LDR_NAME_MAX_BYTES 255
/* The reserved name of Larder's own folder inside an installation; refused in trees. */
#define LDR_RESERVED_NAME ".larder"

/* LDR_OK or LDR_EINVAL with a text that quotes the name (cut to a readable length, escaped) and says
 * what is wrong with it. */
LDR_API enum ldr_status ldr_path_check(const char *path, size_t length, struct ldr_error *err);
/* The same for a NUL-terminated path of unknown length, also "" (a root), in one pass; gives its length. */
LDR_API enum ldr_status ldr_path_measure(const char *path, size_t *out_length,
					 struct ldr_error *err);
enum ldr_status ldr_name_check(const char *name, size_t length, struct ldr_error *err);
/* ldr_name_check and portable. */
enum ldr_status ldr_name_check_portable(const char *name, size_t length, struct ldr_error *err);

/*
 * A symlink's target, as a tree holds it: relative, every component a legal name, ".." only as leading
 * components and no more of them than depth (the number of folders above the link, 0 at the root).
 * LDR_OK, or LDR_ELINK with the reason.
 */
enum ldr_status ldr_path_check_target(const char *target, size_t length, unsigned depth,
				      struct ldr_error *err);

/* The case-folded, NFC form of a name: equal names clash. Writes at most capacity bytes (no NUL) and
 * gives the length; false when it does not fit (4 x LDR_NAME_MAX_BYTES always fits a legal name) or
 * the name is not UTF-8. Plain ASCII takes a short way. */
bool ldr_name_fold(const char *name, size_t length, char *folded, size_t capacity,
		   size_t *out_length);

/* Whether two names are equal after folding, that is, whether they clash. */
bool ldr_name_same_folded(const char *a, size_t a_length, const char *b, size_t b_length);

/* Names ordered by bytes; a path is ordered component by component, which is not strcmp. */
int ldr_name_compare(const char *a, size_t a_length, const char *b, size_t b_length);
int ldr_path_compare(const char *a, const char *b);

/* A name from outside, made fit for a message: control and non-ASCII bytes escaped as \xNN, cut with
 * "..." past 80 characters. Always NUL-terminated. Returns out. */
#define LDR_QUOTE_BYTES 96
const char *ldr_path_quote(const char *text, size_t length, char out[LDR_QUOTE_BYTES]);

#endif
