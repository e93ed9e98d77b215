/*
 * Scanning: what a name may be, and the report of what is wrong; see scan.h and scan_priv.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "packs/scan_priv.h"

/* ---- the report ---- */

void ldr_scan_offence(struct ldr_scan_walk *walk, const struct ldr_scan_child *child,
		      const struct ldr_error *fault)
{
	struct ldr_scan_report *report = walk->report;
	char folder[LDR_QUOTE_BYTES], name[LDR_QUOTE_BYTES];

	if (report->count++ == 0)
		walk->first_status = fault->status;
	if (report->row_count == LDR_SCAN_REPORT_ROWS)
		return;
	ldr_path_quote(walk->path, walk->path_bytes, folder);
	ldr_path_quote(child->entry.name, strlen(child->entry.name), name);
	/* A row that is too long is cut at its end. */
	if (snprintf(report->rows[report->row_count], LDR_SCAN_REPORT_CHARS, "%s%s%s: %s", folder,
		     walk->path_bytes ? "/" : "", name, fault->text) >= 0)
		report->row_count++;
}

enum ldr_status ldr_scan_verdict(const struct ldr_scan_walk *walk, struct ldr_error *err)
{
	const struct ldr_scan_report *report = walk->report;

	if (report->count == 0)
		return LDR_OK;
	if (report->count == 1)
		return ldr_fail(err, walk->first_status, "%s", report->rows[0]);
	return ldr_fail(err, walk->first_status, "%s (and %" PRIu64 " more)", report->rows[0],
			report->count - 1);
}

/* ---- names ---- */

static bool is_reserved(const char *name, size_t length)
{
	char folded[4 * LDR_NAME_MAX_BYTES];
	size_t folded_bytes;

	return ldr_name_fold(name, length, folded, sizeof(folded), &folded_bytes) &&
	       folded_bytes == strlen(LDR_RESERVED_NAME) &&
	       memcmp(folded, LDR_RESERVED_NAME, folded_bytes) == 0;
}

static enum ldr_status name_fault(const struct ldr_scan_walk *walk, const char *name,
				  struct ldr_error *fault)
{
	size_t length = strlen(name);
	size_t path_bytes = walk->path_bytes + (walk->path_bytes > 0) + length;
	enum ldr_status status = ldr_name_check_portable(name, length, fault);

	if (status)
		return status;
	if (walk->folder == 0 && is_reserved(name, length))
		return ldr_fail(fault, LDR_EINVAL, "the name is reserved for larder's own folder");
	if (path_bytes > LDR_PATH_MAX_BYTES)
		return ldr_fail(fault, LDR_EINVAL, "path of %zu bytes, limit %d", path_bytes,
				LDR_PATH_MAX_BYTES);
	return LDR_OK;
}

bool ldr_scan_check_name(struct ldr_scan_walk *walk, struct ldr_scan_child *child)
{
	struct ldr_error fault = {.status = LDR_OK};

	if (name_fault(walk, child->entry.name, &fault) == LDR_OK)
		return true;
	ldr_scan_offence(walk, child, &fault);
	return false;
}

/* ---- clashes ---- */

struct folded {
	size_t at; /* in the buffer of folded names */
	uint32_t length;
	uint32_t child;
};

static int by_folded(const void *a, const void *b, void *context)
{
	const struct folded *left = a, *right = b;
	const uint8_t *text = context;
	uint32_t shorter = left->length < right->length ? left->length : right->length;
	int order = memcmp(text + left->at, text + right->at, shorter);

	if (order == 0)
		order = (left->length > right->length) - (left->length < right->length);
	/* Equal ones in the order of the listing, so that it is always the later one that clashes. */
	if (order == 0)
		order = (left->child > right->child) - (left->child < right->child);
	return order;
}

/* Folds the names of the children that are still in; gives how many. */
static uint32_t fold_all(const struct ldr_scan_walk *walk, struct ldr_buffer *text,
			 struct folded *folded)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < walk->child_count; i++) {
		const char *name = walk->children[i].entry.name;
		size_t capacity = 4 * strlen(name), length;
		uint8_t *room;

		if (!walk->children[i].entry.kind)
			continue;
		room = ldr_buffer_extend(text, capacity);
		if (!room)
			break;
		if (!ldr_name_fold(name, strlen(name), (char *)room, capacity, &length))
			length = 0;
		text->length -= capacity - length;
		folded[count++] = (struct folded){
			.at = text->length - length,
			.length = (uint32_t)length,
			.child = i,
		};
	}
	return count;
}

static bool same_folded(const struct folded *a, const struct folded *b, const uint8_t *text)
{
	return a->length == b->length && memcmp(text + a->at, text + b->at, a->length) == 0;
}

static void report_clash(struct ldr_scan_walk *walk, uint32_t first, uint32_t second)
{
	struct ldr_scan_child *child = &walk->children[second];
	const char *other = walk->children[first].entry.name;
	char quoted[LDR_QUOTE_BYTES];
	struct ldr_error fault = {.status = LDR_OK};

	ldr_fail(&fault, LDR_EINVAL, "is equal to \"%s\" after case folding",
		 ldr_path_quote(other, strlen(other), quoted));
	ldr_scan_offence(walk, child, &fault);
	child->entry.kind = 0;
}

enum ldr_status ldr_scan_check_clashes(struct ldr_scan_walk *walk, struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer text;
	LDR_AUTO_FREE struct folded *folded = NULL;
	uint32_t count;

	ldr_buffer_init(&text, SIZE_MAX / 2);
	if (walk->child_count < 2)
		return LDR_OK;
	folded = reallocarray(NULL, walk->child_count, sizeof(*folded));
	if (!folded)
		return ldr_fail(err, LDR_ENOMEM, "scan: no memory for %u folded names",
				walk->child_count);
	count = fold_all(walk, &text, folded);
	if (text.failed)
		return ldr_fail(err, LDR_ENOMEM, "scan: no memory for %u folded names",
				walk->child_count);
	if (count < 2)
		return LDR_OK;
	qsort_r(folded, count, sizeof(*folded), by_folded, text.data);
	for (uint32_t i = 1; i < count; i++)
		if (same_folded(&folded[i - 1], &folded[i], text.data))
			report_clash(walk, folded[i - 1].child, folded[i].child);
	return LDR_OK;
}
