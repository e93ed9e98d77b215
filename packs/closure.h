/*
 * Closure: is a release whole? Everything that a reader of the release could ask for is there and right.
 *
 * Checked, from packs' indexes and the release's metadata blocks (file blocks are checked when their
 * pack is published, or by ldr_pack_verify): each listed pack exists with its size and id; top, tree and
 * map blocks decode to their digests; the tree parses with the record's totals and digest; for each
 * block reference the map's entry equals the entry of its pack: same id as the tree says, same offset,
 * stored length, plain length and codec.
 *
 * Threads: one per call. Packs are opened one after the other, so that a release of thousands needs no
 * more than two descriptors; those that hold metadata are opened once more.
 */
#ifndef LDR_PACKS_CLOSURE_H
#define LDR_PACKS_CLOSURE_H

#include "packs/pack_reader.h"
#include "packs/release.h"

/* Where packs come from. open gives a new reference; its errors name the pack. */
struct ldr_closure_packs {
	enum ldr_status (*open)(void *context, const struct ldr_release_pack *listed,
				struct ldr_pack **out_pack, struct ldr_error *err);
	void *context;
};

/* What is missing or wrong; caller's storage. Rows name pack, block and the affected path. */
#define LDR_CLOSURE_REPORT_ROWS 20
#define LDR_CLOSURE_ROW_CHARS 512
struct ldr_closure_report {
	uint64_t count;
	unsigned row_count;
	char rows[LDR_CLOSURE_REPORT_ROWS][LDR_CLOSURE_ROW_CHARS];
};

/* LDR_OK: whole. Else the status of the first fault (LDR_ECORRUPT, LDR_ENOTFOUND of a pack, ...), its
 * text, and with a report (may be NULL) up to 20 faults and their count. */
LDR_API enum ldr_status ldr_closure_check(const struct ldr_release *release,
					  const struct ldr_closure_packs *packs,
					  struct ldr_closure_report *report, struct ldr_error *err);

#endif
