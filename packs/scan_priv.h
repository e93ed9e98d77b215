/*
 * What the scan's files and the builder share.
 *
 *   scan.c        the walk and the listing
 *   scan_check.c  names, clashes, the report of offences
 *   scan_links.c  what becomes of a symbolic link
 */
#ifndef LDR_PACKS_SCAN_PRIV_H
#define LDR_PACKS_SCAN_PRIV_H

#include <sys/types.h>

#include "packs/scan.h"

struct ldr_scan_names;

struct ldr_scan {
	char *dir; /* owns; as given, for messages */
	int root_fd;
	struct ldr_scan_entry *entries; /* owns */
	uint32_t count;
	uint32_t capacity;
	struct ldr_scan_names *names; /* owns; every name and target */
	struct ldr_scan_totals totals;
};

/* A folder's descriptor, by its entry: beneath the root, or through links where it is outside. */
enum ldr_status ldr_scan_open_folder(const struct ldr_scan *scan, uint32_t entry, int *out_fd,
				     struct ldr_error *err);
/* Copies text into the scan; NULL: out of memory. */
const char *ldr_scan_keep(struct ldr_scan *scan, const char *text, size_t length);

/* ---- one walk ---- */

/* A name of the folder that is being listed. Its kind is decided after sorting, so that offences come
 * in a fixed order. */
struct ldr_scan_child {
	struct ldr_scan_entry entry; /* kind 0: to be left out */
	mode_t type;                 /* the S_IFMT part */
};

struct ldr_scan_walk {
	struct ldr_scan *scan;
	struct ldr_scan_options options;
	struct ldr_scan_report *report;
	enum ldr_status first_status;
	/* The folder that is being listed: */
	int folder_fd;
	uint32_t folder;
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t path_bytes;
	struct ldr_scan_child *children;
	uint32_t child_count;
};

/* Records an offence of a child of the folder; fault says why. */
void ldr_scan_offence(struct ldr_scan_walk *walk, const struct ldr_scan_child *child,
		      const struct ldr_error *fault);
/* Checks the name and path of one child; false (and an offence) when it cannot stay. */
bool ldr_scan_check_name(struct ldr_scan_walk *walk, struct ldr_scan_child *child);
/* Finds names of the folder that are equal after case folding. The only failure is LDR_ENOMEM. */
enum ldr_status ldr_scan_check_clashes(struct ldr_scan_walk *walk, struct ldr_error *err);
/* The walk's end: LDR_OK, or the first offence and how many there were. */
enum ldr_status ldr_scan_verdict(const struct ldr_scan_walk *walk, struct ldr_error *err);

/* Decides a link's kind by the policy; kind 0 leaves it out. */
enum ldr_status ldr_scan_link(struct ldr_scan_walk *walk, struct ldr_scan_child *child,
			      struct ldr_error *err);

#endif
