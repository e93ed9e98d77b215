/*
 * Trees: what is written can be read; what breaks a rule is refused when parsed, before any path of it
 * can be used; what is accepted obeys every rule, whatever was done to its bytes.
 */
#include "packs/tree_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "packs/tree_writer.h"
#include "tests/unit/packs/tree_text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char sample[] = "D art\nF b.png\nL c\tdeep/big.ogg\nL dangling\tno/where\n"
			     "D deep\nF big.ogg\t2\nL up\t../../readme\nE\nL same\tdeep\nE\n"
			     "D empty\nE\nF readme\nZ zero\n";

static struct ldr_tree *parse_bytes(const struct ldr_buffer *bytes)
{
	struct ldr_tree *tree = NULL;
	struct ldr_error err = {0};
	enum ldr_status status = ldr_tree_parse(bytes->data, bytes->length, "t", NULL, NULL, &tree,
						&err);

	cr_assert_eq(status, LDR_OK, "%s", err.text);
	return tree;
}

static struct ldr_tree *parse_lines(const char *lines)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(lines);

	return parse_bytes(&bytes);
}

static uint32_t find(const struct ldr_tree *tree, const char *path)
{
	uint32_t node = UINT32_MAX;

	return ldr_tree_find(tree, path, strlen(path), &node) ? node : UINT32_MAX;
}

/* ---- reading ------------------------------------------------------------------------------------ */

Test(tree, nodes_totals_blocks_and_paths)
{
	LDR_AUTO_TREE struct ldr_tree *tree = parse_lines(sample);
	const struct ldr_tree_totals *totals = ldr_tree_totals(tree);
	struct ldr_tree_node node;
	char path[LDR_PATH_MAX_BYTES + 1];

	cr_assert_null(test_tree_fault(tree), "%s", test_tree_fault(tree));
	cr_assert_eq(totals->files, 4);
	cr_assert_eq(totals->folders, 3);
	cr_assert_eq(totals->symlinks, 4);
	cr_assert_eq(totals->blocks, 5);
	cr_assert_eq(totals->bytes, 2 * LDR_BLOCK_MAX_BYTES + 15);
	cr_assert_eq(ldr_tree_node_count(tree), 12);
	ldr_tree_node(tree, 0, &node);
	cr_assert_eq(node.kind, LDR_KIND_FOLDER);
	cr_assert_eq(node.mode, 0755);
	cr_assert_eq(node.end, 12);
	cr_assert_eq(node.parent, 0);
	ldr_tree_node(tree, find(tree, "art/b.png"), &node);
	cr_assert_eq(node.mode, 0644);
	cr_assert_eq(node.size_bytes, 5);
	cr_assert_eq(node.first_block, 0);
	cr_assert_eq(ldr_tree_block(tree, 3)->plain_bytes, 5);
	cr_assert_eq(ldr_tree_block(tree, 2)->id.bytes[31], 2);
	ldr_tree_node(tree, find(tree, "art/c"), &node);
	cr_assert_eq(node.target_bytes, 12);
	cr_assert(!memcmp(node.target, "deep/big.ogg", 12));
	ldr_tree_node(tree, find(tree, "zero"), &node);
	cr_assert_eq(node.block_count, 0);
	cr_assert_eq(node.size_bytes, 0);
	cr_assert_eq(ldr_tree_path(tree, find(tree, "art/deep/up"), path), 11);
	cr_assert_str_eq(path, "art/deep/up");
}

Test(tree, paths_that_are_not_there)
{
	static const char *const absent[] = {
		"ar",  "art/",     "/art", "art//b.png",       "b.png", "art/b.pn",   "art/b.png/x",
		"ART", "a",        "deep", "art/same/big.ogg", "..",    "art/../art", "art/.",
		"/",   "art/\xff",
	};
	LDR_AUTO_TREE struct ldr_tree *tree = parse_lines(sample);
	LDR_AUTO_TREE struct ldr_tree *none = parse_lines("");

	for (size_t i = 0; i < COUNT(absent); i++) {
		cr_assert_eq(find(tree, absent[i]), UINT32_MAX, "%s", absent[i]);
		cr_assert_eq(find(none, absent[i]), UINT32_MAX, "%s", absent[i]);
	}
	cr_assert_eq(find(none, ""), 0);
	cr_assert_null(test_tree_fault(none));
}

Test(tree, resolving_follows_symlinks)
{
	static const struct {
		const char *path, *ends; /* ends NULL: the status */
		enum ldr_status status;
	} rows[] = {
		{"", "", LDR_OK},
		{"art/same/big.ogg", "art/deep/big.ogg", LDR_OK},
		{"art/c", "art/deep/big.ogg", LDR_OK},
		{"art/same", "art/deep", LDR_OK},
		{"art/same/up", "readme", LDR_OK},
		{"art/deep/up", "readme", LDR_OK},
		{"art/dangling", NULL, LDR_ENOTFOUND},
		{"art/nothing", NULL, LDR_ENOTFOUND},
		{"art/", NULL, LDR_ENOTFOUND},
		{"readme/x", NULL, LDR_ENOTDIR},
		{"art/c/x", NULL, LDR_ENOTDIR},
		{"through", NULL, LDR_ENOTDIR},
		{"chain19/chain18/file", NULL, LDR_ELINK},
		{"chain18/chain18/file", "file", LDR_OK},
	};
	LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("");
	LDR_AUTO_TREE struct ldr_tree *tree = NULL;

	/* chain00 leads to the root's folder "box", which leads back; each next one to the one before. */
	bytes.length -= 2;
	test_tree_lines(&bytes,
			"D art\nL c\tdeep/big.ogg\nL dangling\tno/where\nD deep\nF big.ogg\n"
			"L up\t../../readme\nE\nL same\tdeep\nE\nD box\n");
	for (unsigned i = 0; i <= 20; i++) {
		char line[64];

		snprintf(line, sizeof(line), "L chain%02u\t../chain%02u\n", i, i);
		test_tree_lines(&bytes, line);
	}
	test_tree_lines(&bytes, "L file\t../file\nE\n");
	for (unsigned i = 0; i <= 20; i++) {
		char line[64];

		snprintf(line, sizeof(line), i ? "L chain%02u\tchain%02u\n" : "L chain%02u\tbox\n",
			 i, i - 1);
		test_tree_lines(&bytes, line);
	}
	test_tree_lines(&bytes, "F file\nF readme\nL through\treadme/x\n");
	ldr_buffer_u16(&bytes, 0);
	tree = parse_bytes(&bytes);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct ldr_error err = {0};
		uint32_t node = UINT32_MAX;
		enum ldr_status status = ldr_tree_resolve(tree, rows[i].path, &node, &err);

		cr_assert_eq(status, rows[i].status, "%s: %s", rows[i].path, err.text);
		if (rows[i].ends)
			cr_assert_eq(node, find(tree, rows[i].ends), "%s", rows[i].path);
		else
			cr_assert(strstr(err.text, rows[i].path), "%s", err.text);
	}
}

/* ---- what is refused ---------------------------------------------------------------------------- */

struct refusal {
	const char *lines;
	const char *says;
	enum ldr_status written; /* by the writer; LDR_OK: it cannot be said there */
};

static const struct refusal refusals[] = {
	{"F ..\n", "\"..\"", LDR_EINVAL},
	{"F .\n", "\".\"", LDR_EINVAL},
	{"D ..\nF x\nE\n", "\"..\"", LDR_EINVAL},
	{"F ../etc\n", "\"..\"", LDR_EINVAL},
	{"F /etc\n", "empty component", LDR_EINVAL},
	{"F a/b\n", "slash", LDR_EINVAL},
	{"F \n", "empty", LDR_EINVAL},
	{"F a\\b\n", "backslash", LDR_EINVAL},
	{"F C:\n", "colon", LDR_EINVAL},
	{"F a\x01\n", "control", LDR_EINVAL},
	{"F a\x7f\n", "control", LDR_EINVAL},
	{"F a\xc2\x85\n", "control", LDR_EINVAL},
	{"F a\xc0\xaf\n", "UTF-8", LDR_EINVAL},
	{"F a\xed\xa0\x80\n", "UTF-8", LDR_EINVAL},
	{"F a\xff\n", "UTF-8", LDR_EINVAL},
	{"F e\xcc\x81\n", "NFC", LDR_EINVAL},
	{"F CON\n", "device", LDR_EINVAL},
	{"D a\nF nul.txt\nE\n", "device", LDR_EINVAL},
	{"F Lpt9.tar.gz\n", "device", LDR_EINVAL},
	{"D a.\nE\n", "dot at its end", LDR_EINVAL},
	{"F a \n", "space at its end", LDR_EINVAL},
	{"F a*\n", "one of", LDR_EINVAL},
	{"F b\nF a\n", "does not come after", LDR_EINVAL},
	{"F a\nF a\n", "does not come after", LDR_EINVAL},
	{"D a\nE\nF a\n", "does not come after", LDR_EINVAL},
	{"D d\nF b\nL a\tb\nE\n", "does not come after", LDR_EINVAL},
	{"F README\nF readme\n", "differ in case", LDR_EINVAL},
	{"D A\nE\nF a\n", "differ in case", LDR_EINVAL},
	{"D d\nF Ab\nF aB\nE\n", "differ in case", LDR_EINVAL},
	{"F \xc3\x84\nF \xc3\xa4\n", "differ in case", LDR_EINVAL},
	{"F stra\xc3\x9f"
	 "e\nF strasse\n",
	 "come after", LDR_EINVAL},
	{"F strasse\nF stra\xc3\x9f"
	 "e\n",
	 "differ in case", LDR_EINVAL},
	{"D .larder\nE\n", "reserved", LDR_EINVAL},
	{"F .Larder\n", "reserved", LDR_EINVAL},
	{"L .LARDER\tx\nF x\n", "reserved", LDR_EINVAL},
	{"L a\t/etc/passwd\n", "", LDR_ELINK},
	{"L a\t..\n", "", LDR_ELINK},
	{"L a\t../x\n", "", LDR_ELINK},
	{"D d\nL a\t../../x\nE\n", "", LDR_ELINK},
	{"D d\nL a\tx/../../../x\nE\n", "", LDR_ELINK},
	{"D d\nL a\tx/../y\nE\n", "", LDR_ELINK},
	{"L a\tb/..\n", "", LDR_ELINK},
	{"L a\t.\n", "", LDR_ELINK},
	{"L a\tb//c\n", "", LDR_ELINK},
	{"L a\tb/\n", "", LDR_ELINK},
	{"L a\tC:x\n", "", LDR_ELINK},
	{"L a\tb\\c\n", "", LDR_ELINK},
	{"L a\t\n", "0 bytes", LDR_ELINK},
	{"L a\ta\n", "40 symlinks", LDR_ELINK},
	{"L a\tb\nL b\ta\n", "40 symlinks", LDR_ELINK},
	{"D d\nL a\t../e/b\nE\nD e\nL b\t../d/a/x\nE\n", "40 symlinks", LDR_ELINK},
};

static void expect_refused(const struct ldr_buffer *bytes, const char *what, const char *says)
{
	struct ldr_tree *tree = NULL;
	struct ldr_error err = {0};
	enum ldr_status status = ldr_tree_parse(bytes->data, bytes->length, "hostile", NULL, NULL,
						&tree, &err);

	cr_assert_eq(status, LDR_ECORRUPT, "%s: %s %s", what, ldr_status_name(status), err.text);
	cr_assert_eq(err.status, LDR_ECORRUPT, "%s", what);
	cr_assert(strstr(err.text, says), "%s: says \"%s\", not \"%s\"", what, err.text, says);
	cr_assert(!strncmp(err.text, "tree hostile: ", 14), "%s", err.text);
	cr_assert_null(tree);
}

Test(tree, hostile_trees_are_refused_when_parsed)
{
	for (size_t i = 0; i < COUNT(refusals); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(refusals[i].lines);

		expect_refused(&bytes, refusals[i].lines, refusals[i].says);
	}
}

/* What the table's lines cannot say. */
Test(tree, hostile_bytes_are_refused_when_parsed)
{
	static const unsigned kinds[] = {
		0x0001,
		0x01ff,
		LDR_KIND_FILE << 12 | 04755,
		LDR_KIND_FILE << 12 | 02755,
		LDR_KIND_FILE << 12 | 01755,
		LDR_KIND_FOLDER << 12 | 07000,
		4 << 12 | 0644,
		0xffff,
	};
	uint8_t zeros[LDR_ID_BYTES] = {0};
	char long_name[65536];

	memset(long_name, 'n', sizeof(long_name));
	for (size_t i = 0; i < COUNT(kinds); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("");

		bytes.length -= 2;
		test_tree_entry(&bytes, kinds[i], "a", 1);
		ldr_buffer_u8(&bytes, 0);
		ldr_buffer_u16(&bytes, 0);
		expect_refused(&bytes, "kind",
			       kinds[i] >> 12 && kinds[i] >> 12 < 4 ? "mode" : "kind");
	}
	for (unsigned i = 0; i < 4; i++) {
		static const uint64_t lengths[] = {0, LDR_BLOCK_MAX_BYTES + 1, UINT64_MAX, 65536};
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("");

		bytes.length -= 2;
		test_tree_entry(&bytes, LDR_KIND_FILE << 12 | 0644, i < 3 ? "a" : "\0", 1);
		ldr_buffer_varint(&bytes, 1);
		ldr_buffer_varint(&bytes, lengths[i]);
		ldr_buffer_put(&bytes, zeros, sizeof(zeros));
		ldr_buffer_u16(&bytes, 0);
		expect_refused(&bytes, "length of a block",
			       i < 3 ? "allowed 1 to 262144" : "control");
	}
	for (unsigned i = 0; i < 3; i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("");

		/* A name of 64 KiB cannot be said in its one byte of length; a target of that size can. */
		bytes.length -= 2;
		if (i == 0)
			test_tree_entry(&bytes, LDR_KIND_FILE << 12 | 0644, long_name, 65536);
		else
			test_tree_symlink(&bytes, "a", long_name, i == 1 ? 65536 : 1025);
		ldr_buffer_u16(&bytes, 0);
		expect_refused(&bytes, "64 KiB", i == 0 ? "empty" : "allowed 1 to 1024");
	}
	{
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("F a\n");

		ldr_buffer_u8(&bytes, 0);
		expect_refused(&bytes, "bytes after the end", "1 bytes after its end");
	}
}

/* Depth is bounded by the length of paths, and counts by the bytes that are there. */
Test(tree, claims_cost_nothing)
{
	LDR_AUTO_BUFFER struct ldr_buffer deep = test_tree_of("");
	LDR_AUTO_BUFFER struct ldr_buffer fits = test_tree_of("");
	LDR_AUTO_BUFFER struct ldr_buffer long_path = test_tree_of("");
	char name[LDR_NAME_MAX_BYTES + 1] = "";
	struct ldr_tree *tree = NULL;

	memset(name, 'n', LDR_NAME_MAX_BYTES);
	deep.length = fits.length = long_path.length -= 2;
	for (unsigned i = 0; i < 100000; i++)
		test_tree_lines(&deep, "D a\n");
	expect_refused(&deep, "100,000 folders", "path of 1025 bytes, limit 1024");
	for (unsigned i = 0; i < 512; i++)
		test_tree_lines(&fits, "D a\n");
	for (unsigned i = 0; i <= 512; i++)
		ldr_buffer_u16(&fits, 0);
	tree = parse_bytes(&fits);
	cr_assert_eq(ldr_tree_totals(tree)->folders, 512);
	cr_assert_null(test_tree_fault(tree));
	ldr_tree_free(tree);
	for (unsigned i = 0; i < 5; i++)
		test_tree_entry(&long_path, LDR_KIND_FOLDER << 12 | 0755, name, LDR_NAME_MAX_BYTES);
	expect_refused(&long_path, "a long path", "path of 1279 bytes");
	for (unsigned shift = 7; shift < 64; shift += 8) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of("");

		bytes.length -= 2;
		test_tree_entry(&bytes, LDR_KIND_FILE << 12 | 0644, "a", 1);
		ldr_buffer_varint(&bytes, UINT64_C(1) << shift);
		ldr_buffer_u16(&bytes, 0);
		expect_refused(&bytes, "a count", "bytes left");
	}
}

Test(tree, another_version_or_flags_are_an_error_of_their_own)
{
	static const struct {
		unsigned at;
		uint8_t value;
		enum ldr_status status;
	} rows[] = {
		{0, 'l', LDR_ECORRUPT},       {7, 0, LDR_ECORRUPT},      {8, 2, LDR_EUNSUPPORTED},
		{8, 0, LDR_EUNSUPPORTED},     {11, 1, LDR_EUNSUPPORTED}, {12, 1, LDR_EUNSUPPORTED},
		{15, 0x80, LDR_EUNSUPPORTED},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(sample);
		struct ldr_tree *tree = NULL;

		bytes.data[rows[i].at] = rows[i].value;
		cr_assert_eq(ldr_tree_parse(bytes.data, bytes.length, "t", NULL, NULL, &tree, NULL),
			     rows[i].status, "byte %u", rows[i].at);
	}
}

/* ---- limits and totals -------------------------------------------------------------------------- */

Test(tree, limits_and_totals_bound_what_a_tree_may_claim)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(sample);
	static const uint64_t total = 2 * LDR_BLOCK_MAX_BYTES + 15;
	static const struct ldr_tree_totals right = {4, 3, 4, 2 * LDR_BLOCK_MAX_BYTES + 15, 5};
	uint64_t exact[] = {bytes.length, 12, 5, total - 10, total};

	for (unsigned i = 0; i < COUNT(exact); i++)
		for (unsigned less = 0; less < 2; less++) {
			uint64_t values[COUNT(exact)] = {0};
			struct ldr_tree *tree = NULL;
			struct ldr_error err = {0};
			struct ldr_tree_limits limits;
			enum ldr_status status;

			values[i] = exact[i] - less;
			limits = (struct ldr_tree_limits){values[0], values[1], values[2],
							  values[3], values[4]};
			status = ldr_tree_parse(bytes.data, bytes.length, "t", &limits, &right,
						&tree, &err);
			cr_assert_eq(status, less ? LDR_ELIMIT : LDR_OK, "limit %u: %s", i,
				     err.text);
			ldr_tree_free(tree);
		}
	for (unsigned i = 0; i < 10; i++) {
		uint64_t values[] = {right.files, right.folders, right.symlinks, right.bytes,
				     right.blocks};
		struct ldr_tree *tree = NULL;
		struct ldr_tree_totals wrong;

		values[i / 2] += i % 2 ? 1 : UINT64_MAX;
		wrong = (struct ldr_tree_totals){values[0], values[1], values[2], values[3],
						 values[4]};
		cr_assert_eq(
			ldr_tree_parse(bytes.data, bytes.length, "t", NULL, &wrong, &tree, NULL),
			LDR_ECORRUPT, "total %u", i);
	}
}

/* One block repeated: a tree of 17 MB claims 128 GiB a file, five times. */
Test(tree, a_block_repeated_to_a_terabyte_is_refused)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {.max_bytes = 200u << 20};
	struct ldr_tree *tree = NULL;
	struct ldr_error err = {0};
	uint8_t entry[3 + LDR_ID_BYTES] = {0x80, 0x80, 0x10};
	const struct ldr_tree_limits limits = {.max_total_bytes = UINT64_C(40) << 30};

	test_tree_header(&bytes);
	for (char name = 'a'; name <= 'e'; name++) {
		test_tree_entry(&bytes, LDR_KIND_FILE << 12 | 0644, &name, 1);
		ldr_buffer_varint(&bytes, 40000);
		for (unsigned i = 0; i < 40000; i++)
			ldr_buffer_put(&bytes, entry, sizeof(entry));
	}
	ldr_buffer_u16(&bytes, 0);
	cr_assert_not(bytes.failed);
	cr_assert_eq(ldr_tree_parse(bytes.data, bytes.length, "t", &limits, NULL, &tree, &err),
		     LDR_ELIMIT);
	cr_assert(strstr(err.text, "52428800000 bytes together, limit 42949672960"), "%s",
		  err.text);
}

/* ---- damage ------------------------------------------------------------------------------------- */

Test(tree, truncation_at_every_length_is_refused)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(sample);

	for (size_t length = 0; length < bytes.length; length++) {
		/* Of exactly that size, so that a sanitizer sees a read past its end. */
		LDR_AUTO_FREE uint8_t *cut = malloc(length ? length : 1);
		struct ldr_tree *tree = NULL;

		memcpy(cut, bytes.data, length);
		cr_assert_eq(ldr_tree_parse(cut, length, "t", NULL, NULL, &tree, NULL),
			     LDR_ECORRUPT, "length %zu", length);
	}
}

Test(tree, a_changed_byte_never_gives_a_tree_that_breaks_a_rule)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = test_tree_of(sample);
	unsigned accepted = 0, refused = 0;

	for (size_t at = 0; at < bytes.length; at++)
		for (unsigned value = 0; value < 256; value++) {
			uint8_t before = bytes.data[at];
			struct ldr_tree *tree = NULL;

			bytes.data[at] = (uint8_t)value;
			if (ldr_tree_parse(bytes.data, bytes.length, "t", NULL, NULL, &tree,
					   NULL)) {
				refused++;
			} else {
				const char *fault = test_tree_fault(tree);

				if (!fault)
					fault = test_tree_spelling_fault(tree, bytes.data,
									 bytes.length);
				cr_assert_null(fault, "byte %zu = %u: %s", at, value, fault);
				ldr_tree_free(tree);
				accepted++;
			}
			bytes.data[at] = before;
		}
	/* Ids and modes may be anything; names, kinds and lengths may not. */
	cr_assert_gt(accepted, 1000);
	cr_assert_gt(refused, 10000);
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Gives the lines to a writer; the first refusal ends it. */
static enum ldr_status write_line(struct ldr_tree_writer *writer, const char *line, size_t length,
				  struct ldr_error *err)
{
	static struct ldr_block_ref blocks[8];
	char text[4096] = "";
	char *name = text + 2, *more;
	unsigned whole;

	memcpy(text, line, length);
	more = strchr(name, '\t');
	if (more)
		*more++ = '\0';
	switch (text[0]) {
	case 'D':
		return ldr_tree_writer_folder_begin(writer, name, 0755, err);
	case 'E':
		return ldr_tree_writer_folder_end(writer, err);
	case 'Z':
		return ldr_tree_writer_file(writer, name, 0600, NULL, 0, err);
	case 'L':
		return ldr_tree_writer_symlink(writer, name, 0777, more ? more : "", err);
	default:
		whole = more ? (unsigned)strtoul(more, NULL, 10) : 0;
		for (unsigned i = 0; i <= whole; i++) {
			memset(blocks[i].id.bytes, (int)(i + 1), LDR_ID_BYTES);
			blocks[i].plain_bytes = i < whole ? LDR_BLOCK_MAX_BYTES : 5;
		}
		return ldr_tree_writer_file(writer, name, 0644, blocks, whole + 1, err);
	}
}

static enum ldr_status write_lines(struct ldr_tree_writer *writer, const char *lines,
				   struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (; *lines && !status; lines = strchr(lines, '\n') + 1)
		status = write_line(writer, lines, strcspn(lines, "\n"), err);
	return status;
}

Test(tree, the_writer_gives_the_documented_bytes)
{
	static const char *const trees[] = {"", sample, "D A\nE\nD a.b\nE\nF a0\n",
					    "F \xc3\xa4\nF \xe6\x97\xa5\xe6\x9c\xac\n"};

	for (size_t i = 0; i < COUNT(trees); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer wanted = test_tree_of(trees[i]);
		LDR_AUTO_TREE_WRITER struct ldr_tree_writer *writer = NULL;
		LDR_AUTO_TREE struct ldr_tree *tree = parse_bytes(&wanted);
		struct ldr_tree_totals totals;
		const uint8_t *bytes = NULL;
		struct ldr_error err = {0};
		size_t length = 0;

		cr_assert_eq(ldr_tree_writer_new(&writer, &err), LDR_OK);
		cr_assert_eq(write_lines(writer, trees[i], &err), LDR_OK, "%s", err.text);
		cr_assert_eq(ldr_tree_writer_end(writer, &bytes, &length, &totals, &err), LDR_OK,
			     "%s", err.text);
		cr_assert_eq(length, wanted.length);
		cr_assert(!memcmp(bytes, wanted.data, length));
		cr_assert(!memcmp(&totals, ldr_tree_totals(tree), sizeof(totals)));
	}
}

Test(tree, the_writer_refuses_what_the_reader_refuses)
{
	for (size_t i = 0; i < COUNT(refusals); i++) {
		LDR_AUTO_TREE_WRITER struct ldr_tree_writer *writer = NULL;
		struct ldr_tree_totals totals;
		const uint8_t *bytes = NULL;
		struct ldr_error err = {0};
		size_t length = 0;
		enum ldr_status status;

		cr_assert_eq(ldr_tree_writer_new(&writer, NULL), LDR_OK);
		status = write_lines(writer, refusals[i].lines, &err);
		if (!status)
			status = ldr_tree_writer_end(writer, &bytes, &length, &totals, &err);
		cr_assert_eq(status, refusals[i].written, "%s: %s %s", refusals[i].lines,
			     ldr_status_name(status), err.text);
		cr_assert(strstr(err.text, refusals[i].says), "%s: %s", refusals[i].lines,
			  err.text);
	}
}

/* An entry that was refused is not there, and the writer goes on. */
Test(tree, the_writer_goes_on_after_a_refusal)
{
	LDR_AUTO_BUFFER struct ldr_buffer wanted = test_tree_of("D a\nF b\nE\nF c\n");
	LDR_AUTO_TREE_WRITER struct ldr_tree_writer *writer = NULL;
	const struct ldr_block_ref empty = {.plain_bytes = 0};
	const struct ldr_block_ref large = {.plain_bytes = LDR_BLOCK_MAX_BYTES + 1};
	struct ldr_tree_totals totals;
	const uint8_t *bytes = NULL;
	size_t length = 0;

	cr_assert_eq(ldr_tree_writer_new(&writer, NULL), LDR_OK);
	cr_assert_eq(ldr_tree_writer_folder_end(writer, NULL), LDR_EINVAL);
	cr_assert_eq(ldr_tree_writer_file(writer, "a", 04644, NULL, 0, NULL), LDR_EINVAL);
	cr_assert_eq(ldr_tree_writer_file(writer, "a", 0644, &empty, 1, NULL), LDR_EINVAL);
	cr_assert_eq(ldr_tree_writer_file(writer, "a", 0644, &large, 1, NULL), LDR_EINVAL);
	cr_assert_eq(ldr_tree_writer_symlink(writer, "a", 0777, "../x", NULL), LDR_ELINK);
	cr_assert_eq(write_lines(writer, "D a\nF b\n", NULL), LDR_OK);
	cr_assert_eq(ldr_tree_writer_file(writer, "b", 0644, NULL, 0, NULL), LDR_EINVAL);
	cr_assert_eq(ldr_tree_writer_end(writer, &bytes, &length, &totals, NULL), LDR_EINVAL);
	cr_assert_eq(write_lines(writer, "E\nF c\n", NULL), LDR_OK);
	cr_assert_eq(ldr_tree_writer_end(writer, &bytes, &length, &totals, NULL), LDR_OK);
	cr_assert_eq(length, wanted.length);
	cr_assert(!memcmp(bytes, wanted.data, length));
}
