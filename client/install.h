/*
 * Installing a release, or an archive, as a folder; and updating what is installed.
 *
 * The life of an installation:
 *
 *	1 open    the view's tree; the folder's record, and the plan of an update that was cut off
 *	2 compare disk, old and wanted: what is kept, written, removed (client/plan)
 *	3 fill    temporaries in DIR/.larder/tmp from the nearest places (client/stage)
 *	4 apply   by the publisher's batch: syncs, renames, removals, the record
 *
 * Until 4 nothing outside .larder has changed. A killed run resumes: its temporaries are found again by
 * name and digested block by block. Files and folders that are in no release of Larder are not touched;
 * a file that lies where the release has one is replaced unless it is the same. What an update that was
 * cut off has brought goes again when another release follows it.
 *
 * Threads: one call per folder at a time, also among processes (LDR_ECONFLICT).
 */
#ifndef LDR_CLIENT_INSTALL_H
#define LDR_CLIENT_INSTALL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/stage.h"
#include "client/view.h"
#include "common/publisher.h"

struct ldr_install_request {
	size_t size; /* sizeof(struct ldr_install_request) */
	struct ldr_view *view;
	const char *folder;
	enum ldr_sync sync; /* LDR_SYNC_NONE leaves the two syncs of the file system out */
	bool without_record; /* plain extraction: DIR/.larder goes when all is done. LDR_EEXISTS where
				something is installed: its record would be lost */
	unsigned workers;    /* 0: processors */
	struct ldr_stage_progress *progress; /* may be NULL */
};

struct ldr_install_outcome {
	struct ldr_tree_totals totals;
	uint64_t files_written;
	uint64_t files_removed;
	uint64_t bytes_written;
	uint64_t bytes_reused; /* from temporaries, old files, packs at hand and the cache */
	bool up_to_date;       /* there was nothing to do */
	char trouble[256];     /* a damaged record that was ignored, or "" */
};

LDR_API enum ldr_status ldr_install(const struct ldr_install_request *request,
				    struct ldr_install_outcome *out, struct ldr_error *err);

/* Digests every file of an installation against the tree it was installed from. Each difference is told
 * to each_fault (path and what is wrong); the status is LDR_ECORRUPT when there was any. LDR_ENOTFOUND:
 * nothing is installed there. */
struct ldr_check_report {
	uint64_t files;
	uint64_t bytes;
	uint64_t faults;
};
LDR_API enum ldr_status ldr_install_check(
	const char *folder, void (*each_fault)(void *context, const char *path, const char *what),
	void *context, struct ldr_check_report *out, struct ldr_error *err);

#endif
