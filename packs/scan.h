/*
 * Scanning: a folder of the host as a sorted listing, checked against every rule of a tree before a
 * byte of content is read, so that the user sees all that is wrong with a folder at once.
 *
 * Order is the tree's (tree_reader.h): pre-order, names of one folder rising by bytes. Entry 0 is the
 * root. The order in which the file system lists names has no influence on anything.
 *
 * Offences, all of them collected: names that break the path rule or are not portable, names of one
 * folder that are equal after case folding, paths over 1024 bytes, files that are neither regular nor
 * folders nor links, links that leave the tree (absolute, or more ".." than folders above them). A
 * name ".larder" at the root, Larder's own folder, is left out silently, so that an installation can
 * be packed; other spellings of it are offences.
 *
 * Links inside the tree, dangling ones too, are kept as they are. Outward ones go by the policy:
 *   refuse  each is an offence
 *   drop    left out and counted
 *   copy    replaced by what they lead to: a file by its content, a folder by everything below it
 *	     (links inside it that stay inside it are kept, others are copied in turn); one that leads
 *	     nowhere, or back to a folder that it lies in, is an offence
 *
 * Invariants
 *  1. Memory is bounded by the entries (some 100 bytes and the name each), one folder's descriptor is
 *     open at a time, and nothing recurses.
 *  2. Below the root no link is followed that the policy does not name: folders are opened beneath it
 *     by the kernel.
 *
 * Threads: one while it is made; immutable afterwards but for what the builder corrects (it owns the
 * stamps while it runs).
 */
#ifndef LDR_PACKS_SCAN_H
#define LDR_PACKS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/publisher.h"
#include "packs/tree_reader.h"

enum ldr_link_policy {
	LDR_LINKS_REFUSE,
	LDR_LINKS_DROP,
	LDR_LINKS_COPY,
};

struct ldr_scan_options {
	size_t size;                /* sizeof(struct ldr_scan_options) */
	enum ldr_link_policy links; /* for outward links only */
	uint64_t max_entries;       /* 0: 16 Mi; more is LDR_ELIMIT */
};

struct ldr_scan_entry {
	const char *name;   /* NUL-terminated; "" for the root */
	const char *target; /* symlinks, else NULL */
	struct ldr_stamp stamp;
	uint32_t parent; /* the root is its own */
	uint32_t end;    /* one past the last entry below: the next sibling */
	uint16_t mode;   /* nine bits */
	uint8_t kind;    /* enum ldr_kind */
	bool followed;   /* an outward link that is copied: opened through the link */
	bool outside;    /* this folder is followed or lies below one that is */
};

struct ldr_scan_totals {
	uint64_t files;
	uint64_t folders; /* without the root */
	uint64_t symlinks;
	uint64_t bytes;         /* of all files, when they were scanned */
	uint64_t dropped_links; /* left out by LDR_LINKS_DROP */
	uint64_t copied_links;  /* followed by LDR_LINKS_COPY */
};

/* What is wrong with a folder. Caller's storage; count may be larger than the rows that are kept
 * (the first ones in the order of the walk). Each row is one line that names path and reason. */
#define LDR_SCAN_REPORT_ROWS 20
#define LDR_SCAN_REPORT_CHARS 320
struct ldr_scan_report {
	uint64_t count;
	unsigned row_count;
	char rows[LDR_SCAN_REPORT_ROWS][LDR_SCAN_REPORT_CHARS];
};

struct ldr_scan;

/* Walks dir (which itself may be a link or lie anywhere). options and report may be NULL. With any
 * offence the status is that of the first one (LDR_EINVAL name, path or clash; LDR_ENOTREG; LDR_ELINK),
 * the error's text says it and how many there are, the report lists them. LDR_ENOTFOUND, LDR_ENOTDIR,
 * LDR_EDENIED and others from the system name the folder or file. */
LDR_API enum ldr_status ldr_scan_folder(const char *dir, const struct ldr_scan_options *options,
					struct ldr_scan_report *report, struct ldr_scan **out_scan,
					struct ldr_error *err);
LDR_API void ldr_scan_free(struct ldr_scan *scan); /* NULL is allowed */
void ldr_scan_cleanup(struct ldr_scan **scan);
#define LDR_AUTO_SCAN __attribute__((cleanup(ldr_scan_cleanup)))

LDR_API const struct ldr_scan_totals *ldr_scan_totals(const struct ldr_scan *scan);
LDR_API uint32_t ldr_scan_count(const struct ldr_scan *scan); /* with the root */
/* i < count is the caller's duty (asserted). Borrowed until free. */
LDR_API const struct ldr_scan_entry *ldr_scan_at(const struct ldr_scan *scan, uint32_t i);
/* The entry's path, NUL-terminated; gives its length. "" for the root. */
LDR_API size_t ldr_scan_path(const struct ldr_scan *scan, uint32_t i,
			     char path[LDR_PATH_MAX_BYTES + 1]);

#endif
