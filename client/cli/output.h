/*
 * What the commands print: a JSON object or lines for people, and the progress of long work.
 */
#ifndef LDR_CLIENT_CLI_OUTPUT_H
#define LDR_CLIENT_CLI_OUTPUT_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/view.h"
#include "common/error.h"
#include "packs/builder.h"
#include "packs/release.h"
#include "packs/tree_reader.h"

/* Prints the object as one line on standard output and gives it back (decref). LDR_ENOMEM for NULL;
 * LDR_EIO when it cannot be written. */
enum ldr_status ldr_output_json(json_t *object, struct ldr_error *err);
/* A text that may come from outside, as a JSON string: where it is not UTF-8 (a path in an error, or one
 * that was cut), its bytes above ASCII become '?'. */
json_t *ldr_output_text(const char *text);
/* "1.5 MB" and the like, powers of ten. Returns text. */
#define LDR_BYTES_TEXT 16
const char *ldr_output_bytes(uint64_t bytes, char text[LDR_BYTES_TEXT]);
/* "drwxr-xr-x". Returns text. */
#define LDR_MODE_TEXT 11
const char *ldr_output_mode(enum ldr_kind kind, uint32_t mode, char text[LDR_MODE_TEXT]);
/* Blocks and bytes by codec. */
json_t *ldr_output_codecs(const struct ldr_build_stats *stats);
/* Channel, sequence, digest; null for NULL. */
json_t *ldr_output_release(const struct ldr_release *release);
/* What became of the view's disk cache, to be asked when the command has read all: a line on standard error
 * when it has not kept everything or given wrong bytes. */
void ldr_output_cache_trouble(struct ldr_view *view, struct ldr_disk_stat *out_stat);
/* The same figures; null for a view without a disk cache. */
json_t *ldr_output_cache(struct ldr_view *view, const struct ldr_disk_stat *stat);
/* The rows of a scan's report on standard error. */
void ldr_output_report(const struct ldr_scan_report *report);
/* Flushes standard output; LDR_EIO when something could not be written (a full disk, a closed pipe). */
enum ldr_status ldr_output_flush(struct ldr_error *err);

/* Progress on a terminal's standard error, from a thread of its own that reads two counters: nothing in
 * the first second, nothing at all when standard error is no terminal or with quiet. Caller's storage;
 * start and stop by the same thread. */
struct ldr_progress {
	const char *what;
	atomic_uint_least64_t *done;
	atomic_uint_least64_t *total;
	void *inside;
};
void ldr_progress_start(struct ldr_progress *progress, bool quiet);
void ldr_progress_stop(struct ldr_progress *progress);

#endif
