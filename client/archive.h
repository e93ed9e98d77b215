/*
 * Local archives: a folder, or a release, as one pack file that carries its tree.
 *
 * Threads: one call per output file.
 */
#ifndef LDR_CLIENT_ARCHIVE_H
#define LDR_CLIENT_ARCHIVE_H

#include <stdint.h>

#include "client/view.h"
#include "packs/builder.h"
#include "packs/pack_protect.h"

struct ldr_archive_outcome {
	struct ldr_id id;
	uint64_t pack_bytes;
	struct ldr_tree_totals totals;
	struct ldr_scan_totals scanned; /* of a folder */
	struct ldr_build_stats stats;   /* of a folder */
	uint64_t blocks;                /* distinct ones in the pack */
};

struct ldr_archive_request {
	size_t size; /* sizeof(struct ldr_archive_request) */
	const char *folder;
	const char *out_path;
	const struct ldr_scan_options *scan;   /* NULL: the defaults */
	const struct ldr_build_options *build; /* kind is set here */
	struct ldr_scan_report *report;        /* may be NULL */
	/* flags of 0: none. A plain copy lies in the folder of out_path, without a name that anybody
	 * knows, until the protected one is written. */
	struct ldr_protection protection;
};

/* Packs a folder into out_path, which appears whole or not at all; a file that is there is replaced.
 * LDR_EINVAL: out_path lies inside the folder. */
LDR_API enum ldr_status ldr_archive_folder(const struct ldr_archive_request *request,
					   struct ldr_archive_outcome *out, struct ldr_error *err);

/* Writes a whole release into one pack, with tree and record, for offline use. Blocks that are held come
 * from memory, packs at hand and the cache, the rest from the hosts; each is digested and stored again as
 * lz4 or raw. */
LDR_API enum ldr_status ldr_archive_export(struct ldr_view *view, const char *out_path,
					   struct ldr_archive_outcome *out, struct ldr_error *err);

#endif
