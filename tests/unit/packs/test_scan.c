/*
 * Scanning folders: order, attributes, every kind of offence, links by policy, limits and failures.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/publisher_seams.h"
#include "packs/scan.h"
#include "tests/unit/packs/folder_fixture.h"

static struct folder folder;
static struct folder other;

static void begin(void)
{
	umask(022);
	folder_begin(&folder);
	folder_begin(&other);
}

static void end(void)
{
	folder_end(&folder);
	folder_end(&other);
}

TestSuite(scan, .init = begin, .fini = end);

static enum ldr_status scan_with(enum ldr_link_policy links, struct ldr_scan_report *report,
				 struct ldr_scan **out_scan, struct ldr_error *err)
{
	struct ldr_scan_options options = {.size = sizeof(options), .links = links};

	return ldr_scan_folder(folder.path, &options, report, out_scan, err);
}

static struct ldr_scan *scanned(enum ldr_link_policy links)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	cr_assert_eq(scan_with(links, NULL, &scan, &err), LDR_OK, "%s", err.text);
	return scan;
}

/* The listing as text: "f 644 12 path", "d 755 path", "l path -> target"; followed entries with "+". */
static void listing(const struct ldr_scan *scan, char *text, size_t capacity)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 1; i < ldr_scan_count(scan); i++) {
		const struct ldr_scan_entry *entry = ldr_scan_at(scan, i);
		const char *plus = entry->followed ? "+" : "";

		cr_assert_eq(ldr_scan_path(scan, i, path), strlen(path));
		cr_assert_leq(entry->end, ldr_scan_count(scan));
		if (entry->kind == LDR_KIND_FILE)
			used += (size_t)snprintf(text + used, capacity - used, "f%s %o %u %s\n",
						 plus, entry->mode,
						 (unsigned)entry->stamp.size_bytes, path);
		else if (entry->kind == LDR_KIND_FOLDER)
			used += (size_t)snprintf(text + used, capacity - used, "d%s %o %s\n", plus,
						 entry->mode, path);
		else
			used += (size_t)snprintf(text + used, capacity - used, "l %s -> %s\n", path,
						 entry->target);
		cr_assert_lt(used, capacity);
	}
}

static void expect_listing(struct ldr_scan *scan, const char *expected)
{
	char text[8192];

	listing(scan, text, sizeof(text));
	cr_assert_str_eq(text, expected);
	ldr_scan_free(scan);
}

/* ---- order and attributes ---- */

/* "a.b" comes after "a" but before "a/..." by bytes of whole paths; the tree's order is by component. */
static const char *const some_files[] = {"a/x", "a/b/deep", "a.b", "B", "z/last", "\xc3\xa4", "_"};
#define SOME_FILES (sizeof(some_files) / sizeof(some_files[0]))

static void make_some(unsigned first, unsigned step)
{
	for (unsigned i = 0; i < SOME_FILES; i++)
		folder_text(&folder, some_files[(first + i * step) % SOME_FILES], "12345");
	folder_make(&folder, "empty", 0700);
	folder_make(&folder, ".larder", 0755);
	folder_text(&folder, ".larder/installed", "not part of it");
	folder_text(&folder, "a/.larder", "");
	folder_mode(&folder, "a/.larder", 0400);
	folder_mode(&folder, "B", 04711);
	folder_link(&folder, "a/b/inner", "../x");
	folder_link(&folder, "dangling", "a/not/there");
	folder_link(&folder, "a/b/top", "../../a.b");
}

Test(scan, order_does_not_depend_on_creation)
{
	static const char expected[] = "f 711 5 B\n"
				       "f 644 5 _\n"
				       "d 755 a\n"
				       "f 400 0 a/.larder\n"
				       "d 755 a/b\n"
				       "f 644 5 a/b/deep\n"
				       "l a/b/inner -> ../x\n"
				       "l a/b/top -> ../../a.b\n"
				       "f 644 5 a/x\n"
				       "f 644 5 a.b\n"
				       "l dangling -> a/not/there\n"
				       "d 700 empty\n"
				       "d 755 z\n"
				       "f 644 5 z/last\n"
				       "f 644 5 \xc3\xa4\n";
	const struct ldr_scan_totals *totals;
	struct ldr_scan *scan;

	for (unsigned step = 1; step < SOME_FILES; step++) {
		make_some(step, step);
		scan = scanned(LDR_LINKS_REFUSE);
		totals = ldr_scan_totals(scan);
		cr_assert_eq(totals->files, 8);
		cr_assert_eq(totals->folders, 4);
		cr_assert_eq(totals->symlinks, 3);
		cr_assert_eq(totals->bytes, 7 * 5);
		cr_assert_eq(totals->dropped_links, 0);
		expect_listing(scan, expected);
		folder_end(&folder);
		folder_begin(&folder);
	}
}

Test(scan, empty_and_wide_and_deep)
{
	char path[1200];
	struct ldr_scan *scan = scanned(LDR_LINKS_REFUSE);
	size_t used = 0;

	expect_listing(scan, "");
	for (unsigned i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "wide/%03u", (i * 7) % 300);
		folder_text(&folder, path, "");
	}
	/* 512 components, 1023 bytes. */
	for (unsigned i = 0; i < 512; i++)
		used += (size_t)snprintf(path + used, sizeof(path) - used, i ? "/d" : "d");
	folder_text(&folder, path, "!");
	scan = scanned(LDR_LINKS_REFUSE);
	cr_assert_eq(ldr_scan_totals(scan)->files, 301);
	cr_assert_eq(ldr_scan_totals(scan)->folders, 512);
	cr_assert_eq(ldr_scan_at(scan, 0)->end, ldr_scan_count(scan));
	cr_assert_eq(ldr_scan_at(scan, 1)->end, 513, "the chain ends before its sibling");
	for (uint32_t i = 514; i + 1 < ldr_scan_count(scan); i++)
		cr_assert_lt(strcmp(ldr_scan_at(scan, i)->name, ldr_scan_at(scan, i + 1)->name), 0);
	ldr_scan_free(scan);
}

/* ---- offences ---- */

static void expect_row(const struct ldr_scan_report *report, unsigned row, const char *begin_text,
		       const char *says)
{
	cr_assert_lt(row, report->row_count, "no row for %s", begin_text);
	cr_assert_eq(strncmp(report->rows[row], begin_text, strlen(begin_text)), 0,
		     "row %u is: %s; expected: %s", row, report->rows[row], begin_text);
	cr_assert_not_null(strstr(report->rows[row], says), "row %u is: %s; expected: %s", row,
			   report->rows[row], says);
}

/* Names as a Linux file system allows them, in the order of the report. */
static const struct {
	const char *name;
	const char *row;
	const char *says;
	enum ldr_status status;
} bad_names[] = {
	{".Larder", ".Larder: ", "reserved", LDR_EINVAL},
	{"a\\b", "a", "", LDR_EINVAL},
	{"a:b", "a", "", LDR_EINVAL},
	{"aux.txt", "aux.txt: ", "", LDR_EINVAL},
	{"bell\a", "bell", "control", LDR_EINVAL},
	{"dot.", "dot.: ", "", LDR_EINVAL},
	{"question?", "question?: ", "", LDR_EINVAL},
	{"space ", "space", "", LDR_EINVAL},
	{"e\xcc\x81", "e", "NFC", LDR_EINVAL}, /* sorted here by report_order below */
	{"\xff\xfe", "", "UTF-8", LDR_EINVAL},
};

static int by_bytes(const void *a, const void *b)
{
	return strcmp(bad_names[*(const unsigned *)a].name, bad_names[*(const unsigned *)b].name);
}

Test(scan, every_offence_in_one_report)
{
	enum { COUNT = sizeof(bad_names) / sizeof(bad_names[0]) };
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	unsigned order[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		folder_text(&folder, bad_names[i].name, "");
		order[i] = i;
	}
	qsort(order, COUNT, sizeof(order[0]), by_bytes);
	cr_assert_eq(mkfifo(folder_path(&folder, "zz-pipe"), 0600), 0);
	folder_link(&folder, "zz-out", "/etc/passwd");
	folder_text(&folder, "zz/good", "");
	folder_text(&folder, "zz/NUL", "");
	cr_assert_eq(scan_with(LDR_LINKS_REFUSE, &report, &scan, &err), LDR_EINVAL);
	cr_assert_null(scan);
	cr_assert_eq(report.count, COUNT + 3);
	cr_assert_eq(report.row_count, COUNT + 3);
	/* The root's own offences first, then those of the folders in it. */
	for (unsigned i = 0, row = 0; i < COUNT; i++, row++) {
		if (strcmp(bad_names[order[i]].name, "\xff\xfe") == 0)
			row += 2; /* the pipe and the link sort before it */
		expect_row(&report, row, bad_names[order[i]].row, bad_names[order[i]].says);
	}
	expect_row(&report, COUNT - 1, "zz-out: ", "/etc/passwd");
	expect_row(&report, COUNT, "zz-pipe: ", "neither a regular file");
	expect_row(&report, COUNT + 2, "zz/NUL: ", "");
	cr_assert_not_null(strstr(err.text, ".Larder"), "%s", err.text);
	cr_assert_not_null(strstr(err.text, "(and 12 more)"), "%s", err.text);
}

Test(scan, report_is_bounded)
{
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	char name[32];

	for (unsigned i = 0; i < 45; i++) {
		snprintf(name, sizeof(name), "a/%02u?", i);
		folder_text(&folder, name, "");
	}
	cr_assert_eq(scan_with(LDR_LINKS_REFUSE, &report, &scan, &err), LDR_EINVAL);
	cr_assert_eq(report.count, 45);
	cr_assert_eq(report.row_count, LDR_SCAN_REPORT_ROWS);
	expect_row(&report, 0, "a/00?: ", "");
	expect_row(&report, 19, "a/19?: ", "");
}

Test(scan, clashes)
{
	static const struct {
		const char *first, *second, *row;
	} pairs[] = {
		{"RB9.MVE", "rb9.mve", "rb9.mve: "},
		{"stra\xc3\x9f"
		 "e",
		 "strasse", "stra"},
		{"\xce\xa3igma", "\xcf\x83igma", "\\x"},
		{"sub/Folder/x", "sub/folder", "sub/folder: "},
	};

	for (unsigned i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct ldr_scan_report report;
		struct ldr_error err = {.status = LDR_OK};
		struct ldr_scan *scan = NULL;

		folder_text(&folder, pairs[i].first, "1");
		folder_text(&folder, pairs[i].second, "2");
		folder_text(&folder, "unrelated", "3");
		cr_assert_eq(scan_with(LDR_LINKS_REFUSE, &report, &scan, &err), LDR_EINVAL);
		cr_assert_eq(report.count, 1, "pair %u: %s", i, err.text);
		expect_row(&report, 0, pairs[i].row, "after case folding");
		folder_end(&folder);
		folder_begin(&folder);
	}
	/* The same names in different folders are no clash. */
	folder_text(&folder, "a/NAME", "");
	folder_text(&folder, "b/name", "");
	ldr_scan_free(scanned(LDR_LINKS_REFUSE));
}

/* ---- links ---- */

static void make_links(void)
{
	folder_text(&other, "data/file", "outside");
	folder_mode(&other, "data/file", 0640);
	folder_text(&other, "data/sub/more", "deep");
	folder_make(&other, "data/void", 0750);
	folder_link(&other, "data/sub/in", "../file");
	folder_link(&other, "data/sub/out", "../../beside");
	folder_text(&other, "beside", "copied in turn");
	folder_text(&folder, "d/real", "x");
	folder_link(&folder, "d/abs", folder_path(&other, "data/file"));
	folder_link(&folder, "d/kept", "real");
	folder_link(&folder, "tree", folder_path(&other, "data"));
	folder_link(&folder, "up", "../elsewhere");
}

Test(scan, outward_links_refused_or_dropped)
{
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	make_links();
	cr_assert_eq(scan_with(LDR_LINKS_REFUSE, &report, &scan, &err), LDR_ELINK);
	cr_assert_eq(report.count, 3);
	expect_row(&report, 0, "tree: ", "absolute");
	expect_row(&report, 1, "up: ", "leads out of the tree");
	expect_row(&report, 2, "d/abs: ", "absolute");
	scan = scanned(LDR_LINKS_DROP);
	cr_assert_eq(ldr_scan_totals(scan)->dropped_links, 3);
	cr_assert_eq(ldr_scan_totals(scan)->symlinks, 1);
	expect_listing(scan, "d 755 d\nl d/kept -> real\nf 644 1 d/real\n");
}

Test(scan, outward_links_copied)
{
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	make_links();
	cr_assert_eq(scan_with(LDR_LINKS_COPY, &report, &scan, &err), LDR_ELINK);
	cr_assert_eq(report.count, 1);
	expect_row(&report, 0, "up: ", "cannot be copied");
	folder_remove(&folder, "up");
	scan = scanned(LDR_LINKS_COPY);
	cr_assert_eq(ldr_scan_totals(scan)->copied_links, 3);
	expect_listing(scan, "d 755 d\n"
			     "f+ 640 7 d/abs\n"
			     "l d/kept -> real\n"
			     "f 644 1 d/real\n"
			     "d+ 755 tree\n"
			     "f 640 7 tree/file\n"
			     "d 755 tree/sub\n"
			     "l tree/sub/in -> ../file\n"
			     "f 644 4 tree/sub/more\n"
			     "f+ 644 14 tree/sub/out\n"
			     "d 750 tree/void\n");
}

Test(scan, copied_links_that_lead_back)
{
	static const struct {
		const char *path, *target; /* below other */
		const char *row;
	} loops[] = {
		{"data/self", NULL, "tree/self: "}, /* to other's data, which holds it */
		{"data/a/b/up", NULL, "tree/a/b/up: "},
	};
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	for (unsigned i = 0; i < 2; i++) {
		folder_make(&other, "data", 0755);
		folder_link(&folder, "tree", folder_path(&other, "data"));
		folder_link(&other, loops[i].path, folder_path(&other, "data"));
		cr_assert_eq(scan_with(LDR_LINKS_COPY, &report, &scan, &err), LDR_ELINK);
		cr_assert_eq(report.count, 1);
		expect_row(&report, 0, loops[i].row, "leads back to the folder \"tree\"");
		folder_end(&other);
		folder_begin(&other);
		folder_remove(&folder, "tree");
	}
	/* To the root of the scan itself, and two links that lead into each other. */
	folder_link(&folder, "me", folder.path);
	folder_link(&other, "x/to-y", folder_path(&other, "y"));
	folder_link(&other, "y/to-x", folder_path(&other, "x"));
	folder_link(&folder, "x", folder_path(&other, "x"));
	cr_assert_eq(scan_with(LDR_LINKS_COPY, &report, &scan, &err), LDR_ELINK);
	cr_assert_eq(report.count, 2);
	expect_row(&report, 0, "me: ", "leads back to the folder \"\"");
	expect_row(&report, 1, "x/to-y/to-x: ", "leads back to the folder \"x\"");
}

Test(scan, copied_links_to_other_things)
{
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	cr_assert_eq(mkfifo(folder_path(&other, "pipe"), 0600), 0);
	folder_link(&folder, "pipe", folder_path(&other, "pipe"));
	folder_link(&folder, "round", folder_path(&folder, "round"));
	cr_assert_eq(scan_with(LDR_LINKS_COPY, &report, &scan, &err), LDR_ENOTREG);
	cr_assert_eq(report.count, 2);
	expect_row(&report, 0, "pipe: ", "neither a regular file nor a folder");
	expect_row(&report, 1, "round: ", "cannot be copied");
}

/* ---- limits and failures ---- */

Test(scan, limits)
{
	struct ldr_scan_options options = {.size = sizeof(options), .max_entries = 4};
	struct ldr_scan_report report;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	char path[1100];

	folder_text(&folder, "a/1", "");
	folder_text(&folder, "a/2", "");
	cr_assert_eq(ldr_scan_folder(folder.path, &options, NULL, &scan, &err), LDR_OK);
	ldr_scan_free(LDR_STEAL(scan));
	folder_text(&folder, "a/3", "");
	cr_assert_eq(ldr_scan_folder(folder.path, &options, NULL, &scan, &err), LDR_ELIMIT);
	cr_assert_not_null(strstr(err.text, "more than 4 entries"), "%s", err.text);
	options.size--;
	cr_assert_eq(ldr_scan_folder(folder.path, &options, NULL, &scan, &err), LDR_EINVAL);
	/* A path of 1,024 bytes is good, one of 1,025 is not. */
	memset(path, 'p', sizeof(path));
	for (unsigned i = 0; i < 4; i++)
		path[i * 205 + 204] = '/';
	path[1024] = '\0';
	folder_text(&folder, path, "");
	ldr_scan_free(scanned(LDR_LINKS_REFUSE));
	path[1024] = 'p';
	path[1025] = '\0';
	folder_text(&folder, path, "");
	cr_assert_eq(scan_with(LDR_LINKS_REFUSE, &report, &scan, &err), LDR_EINVAL);
	cr_assert_eq(report.count, 1);
	cr_assert_not_null(strstr(report.rows[0], "path of 1025 bytes, limit 1024"), "%s",
			   report.rows[0]);
}

Test(scan, what_cannot_be_scanned)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;

	folder_text(&folder, "file", "");
	cr_assert_eq(ldr_scan_folder(folder_path(&folder, "none"), NULL, NULL, &scan, &err),
		     LDR_ENOTFOUND);
	cr_assert_not_null(strstr(err.text, "/none"), "%s", err.text);
	cr_assert_eq(ldr_scan_folder(folder_path(&folder, "file"), NULL, NULL, &scan, &err),
		     LDR_ENOTDIR);
	folder_make(&folder, "closed", 0000);
	if (geteuid() == 0) {
		folder_mode(&folder, "", 0755);
		cr_assert_eq(seteuid(65534), 0);
	}
	cr_assert_eq(scan_with(LDR_LINKS_REFUSE, NULL, &scan, &err), LDR_EDENIED);
	cr_assert_not_null(strstr(err.text, "closed"), "%s", err.text);
	if (getuid() == 0)
		cr_assert_eq(seteuid(0), 0);
	folder_mode(&folder, "closed", 0700);
}

/* Every single call to the system fails once: a status comes back, and nothing is leaked. */
Test(scan, failing_calls)
{
	static const enum ldr_seam_call calls[] = {LDR_SEAM_OPEN, LDR_SEAM_STAT, LDR_SEAM_LIST};
	struct ldr_error err = {.status = LDR_OK};

	make_links();
	folder_remove(&folder, "up");
	for (unsigned kind = 0; kind < sizeof(calls) / sizeof(calls[0]); kind++) {
		unsigned total;

		ldr_seam_reset();
		ldr_scan_free(scanned(LDR_LINKS_COPY));
		total = ldr_seam_calls(calls[kind]);
		cr_assert_gt(total, 4);
		for (unsigned i = 1; i <= total; i++) {
			struct ldr_scan *scan = NULL;
			enum ldr_status status;

			ldr_seam_reset();
			ldr_seam_fail(calls[kind], i, 1, EIO);
			status = scan_with(LDR_LINKS_COPY, NULL, &scan, &err);
			cr_assert_neq(status, LDR_OK, "call %u of kind %u", i, kind);
			cr_assert_null(scan);
		}
	}
	ldr_seam_reset();
}
