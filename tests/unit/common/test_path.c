/*
 * The path rule: what is legal, what is refused and why, portable names, link targets, folding, order.
 */
#include "common/path.h"

#include <criterion/criterion.h>
#include <string.h>

struct name_case {
	const char *text;
	size_t length;     /* 0: strlen */
	const char *fault; /* NULL: legal */
};

#define CASES(table) (sizeof(table) / sizeof((table)[0]))
#define TEN "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
#define N255 FIFTY FIFTY FIFTY FIFTY FIFTY "12345"

static size_t length_of(const struct name_case *row)
{
	return row->length ? row->length : strlen(row->text);
}

static void expect(const struct name_case *row, enum ldr_status got, const struct ldr_error *err)
{
	if (!row->fault) {
		cr_expect_eq(got, LDR_OK, "\"%s\": %s", row->text, err->text);
		cr_expect_eq(err->text[0], '\0', "untouched on success");
		return;
	}
	cr_expect_eq(got, LDR_EINVAL, "\"%s\" is legal", row->text);
	cr_expect_eq(err->status, LDR_EINVAL);
	cr_expect(strstr(err->text, row->fault) != NULL, "\"%s\": %s, not %s", row->text, err->text,
		  row->fault);
}

static const struct name_case path_cases[] = {
	{"a", 0, NULL},
	{"a/b/c.txt", 0, NULL},
	{"...", 0, NULL},
	{".hidden/..x/x..", 0, NULL},
	{"CON/nul.txt", 0, NULL},
	{"a b/c d", 0, NULL},
	{"caf\xc3\xa9/\xe6\x97\xa5\xe6\x9c\xac/\xf0\x9f\x8e\xae", 0, NULL},
	{N255 "/" N255 "/" N255 "/" N255, 0, NULL},
	{"\xcc\x81x", 0, NULL},
	{"\xef\xbf\xbd\xef\xbf\xbf", 0, NULL},
	{"\xf4\x8f\xbf\xbf", 0, NULL},
	{"\xee\x80\x80", 0, NULL},
	{"", 0, "empty"},
	{"/", 0, "absolute"},
	{"/a", 0, "absolute"},
	{"a/", 0, "empty component"},
	{"a//b", 0, "empty component"},
	{".", 0, "component \".\""},
	{"a/./b", 0, "component \".\""},
	{"..", 0, "component \"..\""},
	{"a/../b", 0, "component \"..\""},
	{"a/..", 0, "component \"..\""},
	{"a\\b", 0, "backslash or colon"},
	{"C:", 0, "backslash or colon"},
	{"a/b:c", 0, "backslash or colon"},
	{"a\0b", 3, "control character"},
	{"a\nb", 0, "control character"},
	{"a\x1f", 0, "control character"},
	{"\x7f", 0, "control character"},
	{"a/\xc2\x80", 0, "control character"},
	{"\xc2\x9f", 0, "control character"},
	{N255 "6", 0, "component too long"},
	{"x/" N255 "6/y", 0, "component too long"},
	{N255 "/" N255 "/" N255 "/" N255 "/", 0, "empty component"},
	{N255 "/" N255 "/" N255 "/" N255 "/a", 0, "too long"},
	{"\x80", 0, "not UTF-8"},
	{"a\xc3", 0, "not UTF-8"},
	{"a\xc3/b", 0, "not UTF-8"},
	{"\xc3\x28", 0, "not UTF-8"},
	{"\xc0\xaf", 0, "not UTF-8"},
	{"\xc1\xbf", 0, "not UTF-8"},
	{"\xe0\x80\xaf", 0, "not UTF-8"},
	{"\xe0\x9f\xbf", 0, "not UTF-8"},
	{"\xed\xa0\x80", 0, "not UTF-8"},
	{"\xed\xbf\xbf", 0, "not UTF-8"},
	{"\xf0\x8f\xbf\xbf", 0, "not UTF-8"},
	{"\xf4\x90\x80\x80", 0, "not UTF-8"},
	{"\xf5\x80\x80\x80", 0, "not UTF-8"},
	{"\xff", 0, "not UTF-8"},
	{"\xe6\x97", 0, "not UTF-8"},
	{"\xf0\x9f\x8e", 0, "not UTF-8"},
	{"cafe\xcc\x81", 0, "NFC"},
	{"\xe2\x84\xab", 0, "NFC"},
	{"a/\xe1\x84\x80\xe1\x85\xa1", 0, "NFC"},
	{"q\xcc\x87\xcc\xa3", 0, "NFC"},
};

static const struct name_case name_cases[] = {
	{"a", 0, NULL},
	{N255, 0, NULL},
	{"..a", 0, NULL},
	{"caf\xc3\xa9", 0, NULL},
	{"", 0, "empty"},
	{"a/b", 0, "slash in a name"},
	{"/", 0, "empty"},
	{"..", 0, "component"},
	{"a/", 0, "slash in a name"},
	{N255 "6", 0, "too long"},
};

Test(path, rule_for_paths_and_names)
{
	for (size_t i = 0; i < CASES(path_cases); i++) {
		struct ldr_error err = {0};
		const struct name_case *row = &path_cases[i];

		expect(row, ldr_path_check(row->text, length_of(row), &err), &err);
		cr_expect_eq(ldr_path_check(row->text, length_of(row), NULL),
			     row->fault ? LDR_EINVAL : LDR_OK, "without an error object");
	}
	for (size_t i = 0; i < CASES(name_cases); i++) {
		struct ldr_error err = {0};
		const struct name_case *row = &name_cases[i];

		expect(row, ldr_name_check(row->text, length_of(row), &err), &err);
	}
}

/* 64 KiB of a name or path costs no more than a look at its beginning and is refused. */
Test(path, very_long_input)
{
	static char long_name[65536];
	struct ldr_error err = {0};

	memset(long_name, 'a', sizeof(long_name));
	cr_assert_eq(ldr_path_check(long_name, sizeof(long_name), &err), LDR_EINVAL);
	cr_assert(strstr(err.text, "too long (65536 bytes)") != NULL, "%s", err.text);
	cr_assert_eq(ldr_name_check(long_name, sizeof(long_name), &err), LDR_EINVAL);
	cr_assert_eq(ldr_name_check_portable(long_name, sizeof(long_name), &err), LDR_EINVAL);
	memset(long_name, 0xc3, sizeof(long_name));
	cr_assert_eq(ldr_name_check(long_name, sizeof(long_name), &err), LDR_EINVAL);
}

Test(path, portable_names)
{
	static const struct name_case cases[] = {
		{"console", 0, NULL},
		{"com", 0, NULL},
		{"com0", 0, NULL},
		{"com10", 0, NULL},
		{"xnul", 0, NULL},
		{"nul1", 0, NULL},
		{".nul", 0, NULL},
		{"a.con", 0, NULL},
		{"conin", 0, NULL},
		{" con", 0, NULL},
		{"lpt\xc2\xb4", 0, NULL},
		{"...x", 0, NULL},
		{"CON", 0, "device name"},
		{"con", 0, "device name"},
		{"Prn.txt", 0, "device"},
		{"aux.tar.gz", 0, "device"},
		{"NUL .txt", 0, "device"},
		{"com1", 0, "device"},
		{"LPT9.dat", 0, "device"},
		{"COM\xc2\xb9", 0, "device"},
		{"lpt\xc2\xb2.x", 0, "device"},
		{"com\xc2\xb3", 0, "device"},
		{"conin$", 0, "device"},
		{"CONOUT$.x", 0, "device"},
		{"a.", 0, "dot at its end"},
		{"...", 0, "dot at its end"},
		{"a ", 0, "space at its end"},
		{"con ", 0, "space at its end"},
		{"a<b", 0, "one of"},
		{"a>b", 0, "one of"},
		{"a\"b", 0, "one of"},
		{"a|b", 0, "one of"},
		{"a?", 0, "one of"},
		{"*", 0, "one of"},
		{"a/b", 0, "slash"},
		{"..", 0, "component"},
		{"a:b", 0, "colon"},
	};

	for (size_t i = 0; i < CASES(cases); i++) {
		struct ldr_error err = {0};
		const struct name_case *row = &cases[i];

		expect(row, ldr_name_check_portable(row->text, length_of(row), &err), &err);
	}
}

Test(path, link_targets)
{
	static const struct {
		const char *target;
		unsigned depth;
		const char *fault;
	} cases[] = {
		{"a", 0, NULL},
		{"a/b", 0, NULL},
		{"..", 1, NULL},
		{"../a", 1, NULL},
		{"../../a/b", 2, NULL},
		{"../..", 2, NULL},
		{"...", 0, NULL},
		{"..a", 0, NULL},
		{"", 0, "empty"},
		{"", 3, "empty"},
		{"../", 1, "empty"},
		{".", 1, "component"},
		{"./a", 1, "component"},
		{"..", 0, "leads out"},
		{"../a", 0, "leads out"},
		{"../../a", 1, "leads out"},
		{"a/..", 5, "component"},
		{"a/../b", 5, "component"},
		{"../a/../b", 5, "component"},
		{"/etc/passwd", 5, "absolute"},
		{"..//a", 5, "absolute"},
		{"a//b", 5, "empty component"},
		{"C:", 5, "colon"},
		{"..\\a", 5, "backslash"},
		{"a\n", 5, "control"},
		{"cafe\xcc\x81", 5, "NFC"},
	};

	for (size_t i = 0; i < CASES(cases); i++) {
		struct ldr_error err = {0};
		const char *target = cases[i].target;
		enum ldr_status got = ldr_path_check_target(target, strlen(target), cases[i].depth,
							    &err);

		cr_expect_eq(got, cases[i].fault ? LDR_ELINK : LDR_OK, "%s at %u: %s", target,
			     cases[i].depth, err.text);
		if (cases[i].fault)
			cr_expect(strstr(err.text, cases[i].fault) != NULL, "%s: %s", target,
				  err.text);
	}
}

static const char *fold(const char *name, char folded[4 * LDR_NAME_MAX_BYTES + 1])
{
	size_t length;

	if (!ldr_name_fold(name, strlen(name), folded, 4 * LDR_NAME_MAX_BYTES, &length))
		return "(refused)";
	folded[length] = '\0';
	return folded;
}

Test(path, folding)
{
	static const struct {
		const char *name;
		const char *folded;
	} cases[] = {
		{"", ""},
		{"Plain_ASCII-09.TXT", "plain_ascii-09.txt"},
		{"@[`{", "@[`{"},
		{"CAF\xc3\x89", "caf\xc3\xa9"},
		{"stra\xc3\x9f"
		 "e",
		 "strasse"},
		{"STRASSE", "strasse"},
		{"\xe1\xba\x9e", "ss"},
		{"\xce\xa3\xcf\x82\xcf\x83", "\xcf\x83\xcf\x83\xcf\x83"}, /* all three sigmas */
		{"\xef\xac\x83", "ffi"},
		{"\xc4\xb0", "i\xcc\x87"},
		{"\xe2\x84\xaa", "k"}, /* the Kelvin sign, not NFC, folds all the same */
		{"\xff", "(refused)"},
		{"A\xc3", "(refused)"},
	};
	char folded[4 * LDR_NAME_MAX_BYTES + 1];
	size_t length;

	for (size_t i = 0; i < CASES(cases); i++)
		cr_expect_str_eq(fold(cases[i].name, folded), cases[i].folded);
	cr_expect(ldr_name_fold("ABC", 3, folded, 3, &length) && length == 3);
	cr_expect_not(ldr_name_fold("ABC", 3, folded, 2, &length), "does not fit");
	cr_expect_not(ldr_name_fold("\xc3\x89", 2, folded, 1, &length), "does not fit");
	cr_expect(ldr_name_fold("\xc3\x9f", 2, folded, 2, &length) && length == 2);
}

static size_t encode(uint32_t value, char *out)
{
	if (value < 0x80) {
		out[0] = (char)value;
		return 1;
	}
	if (value < 0x800) {
		out[0] = (char)(0xc0 | value >> 6);
		out[1] = (char)(0x80 | (value & 0x3f));
		return 2;
	}
	if (value < 0x10000) {
		out[0] = (char)(0xe0 | value >> 12);
		out[1] = (char)(0x80 | (value >> 6 & 0x3f));
		out[2] = (char)(0x80 | (value & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | value >> 18);
	out[1] = (char)(0x80 | (value >> 12 & 0x3f));
	out[2] = (char)(0x80 | (value >> 6 & 0x3f));
	out[3] = (char)(0x80 | (value & 0x3f));
	return 4;
}

/* Every code point: folding twice is folding once, and a name full of it fits the promised room. */
Test(path, folding_every_code_point)
{
	unsigned legal = 0;

	for (uint32_t value = 0x20; value <= 0x10ffff; value++) {
		char name[LDR_NAME_MAX_BYTES], once[4 * LDR_NAME_MAX_BYTES];
		char twice[sizeof(once)];
		size_t width = encode(value, name), length = width, once_length, twice_length;

		if (ldr_name_check(name, width, NULL))
			continue;
		legal++;
		if (value >= 0x80 && value < 0x3000)
			for (; length + width <= sizeof(name); length += width)
				memcpy(name + length, name, width);
		cr_assert(ldr_name_fold(name, length, once, sizeof(once), &once_length),
			  "U+%04X does not fit", value);
		if (once_length > LDR_NAME_MAX_BYTES)
			continue;
		cr_assert(ldr_name_fold(once, once_length, twice, sizeof(twice), &twice_length));
		cr_assert(once_length == twice_length && memcmp(once, twice, once_length) == 0,
			  "U+%04X folds further", value);
	}
	cr_assert_gt(legal, 1100000u);
	cr_assert_lt(legal, 0x110000u - 2048 - 64);
}

static int sign(int value)
{
	return (value > 0) - (value < 0);
}

Test(path, order)
{
	/* In their order. strcmp would put "a b" and "a!" before "a/b". */
	static const char *const paths[] = {
		"",    "A",  "a",    "a/a", "a/b", "a/b/c", "a/b c",
		"a b", "a!", "a!/x", "a-",  "a.b", "a/",
	};
	size_t count = CASES(paths) - 1; /* "a/" is no legal path */

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < count; k++)
			cr_expect_eq(sign(ldr_path_compare(paths[i], paths[k])), (i > k) - (i < k),
				     "%s, %s", paths[i], paths[k]);
	cr_expect_lt(ldr_path_compare("a/b", "\xc3\xa9"), 0, "bytes are unsigned");
	cr_expect_lt(ldr_name_compare("a", 1, "\xc3\xa9", 2), 0);
	cr_expect_lt(ldr_name_compare("a", 1, "ab", 2), 0);
	cr_expect_gt(ldr_name_compare("b", 1, "ab", 2), 0);
	cr_expect_eq(ldr_name_compare("ab", 2, "ab", 2), 0);
	cr_expect_lt(ldr_name_compare(NULL, 0, "a", 1), 0);
}

Test(path, quoting)
{
	char out[LDR_QUOTE_BYTES], text[300];

	cr_expect_str_eq(ldr_path_quote("a b/c", 5, out), "a b/c");
	cr_expect_str_eq(ldr_path_quote("", 0, out), "");
	cr_expect_str_eq(ldr_path_quote("a\nb\0\x7f", 5, out), "a\\x0ab\\x00\\x7f");
	cr_expect_str_eq(ldr_path_quote("\xc3\xa9", 2, out), "\\xc3\\xa9");
	memset(text, 'x', sizeof(text));
	ldr_path_quote(text, 80, out);
	cr_expect(strlen(out) == 80 && !strchr(out, '.'));
	ldr_path_quote(text, 81, out);
	cr_expect(strlen(out) == 83 && strcmp(out + 80, "...") == 0);
	memset(text, 1, sizeof(text));
	for (size_t i = 0; i < 4; i++) {
		text[i] = 'x';
		ldr_path_quote(text, sizeof(text), out);
		cr_expect_leq(strlen(out), 83u);
		cr_expect(strcmp(out + strlen(out) - 3, "...") == 0, "%s", out);
		cr_expect(strcmp(out + strlen(out) - 7, "\\x01...") == 0,
			  "an escape is never cut: %s", out);
	}
}
