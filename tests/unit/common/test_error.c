/*
 * Statuses and the error object.
 */
#include "common/error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define CASES(table) (sizeof(table) / sizeof((table)[0]))

Test(error, table)
{
	static const struct {
		enum ldr_status status;
		const char *name;
		int exit_status;
		bool retry;
	} cases[] = {
		{LDR_OK, "LDR_OK", 0, false},
		{LDR_EINVAL, "LDR_EINVAL", 1, false},
		{LDR_EUSAGE, "LDR_EUSAGE", 2, false},
		{LDR_ENOTFOUND, "LDR_ENOTFOUND", 3, false},
		{LDR_ECORRUPT, "LDR_ECORRUPT", 4, false},
		{LDR_EUNTRUSTED, "LDR_EUNTRUSTED", 4, false},
		{LDR_ENET, "LDR_ENET", 5, true},
		{LDR_ETIMEDOUT, "LDR_ETIMEDOUT", 5, true},
		{LDR_EOFFLINE, "LDR_EOFFLINE", 5, false},
		{LDR_ECONFLICT, "LDR_ECONFLICT", 6, true},
		{LDR_ENOSPACE, "LDR_ENOSPACE", 7, false},
		{LDR_EDENIED, "LDR_EDENIED", 8, false},
		{LDR_ENOKEY, "LDR_ENOKEY", 8, false},
		{LDR_ECHANGED, "LDR_ECHANGED", 1, true},
		{LDR_STATUS_COUNT, "LDR_?", 1, false},
		{(enum ldr_status)1000, "LDR_?", 1, false},
		{(enum ldr_status) - 1, "LDR_?", 1, false},
	};

	for (size_t i = 0; i < CASES(cases); i++) {
		cr_expect_str_eq(ldr_status_name(cases[i].status), cases[i].name);
		cr_expect_eq(ldr_status_exit(cases[i].status), cases[i].exit_status, "%s",
			     cases[i].name);
		cr_expect_eq(ldr_status_retry(cases[i].status), cases[i].retry, "%s",
			     cases[i].name);
	}
	/* Every status has a name of its own, a text, and an exit status of the commands' contract. */
	for (int a = 0; a < LDR_STATUS_COUNT; a++) {
		cr_expect(strncmp(ldr_status_name(a), "LDR_", 4) == 0);
		cr_expect_gt(strlen(ldr_status_text(a)), 0u);
		cr_expect((a == LDR_OK) == (ldr_status_exit(a) == 0));
		cr_expect(ldr_status_exit(a) >= 0 && ldr_status_exit(a) <= 8);
		for (int b = 0; b < a; b++)
			cr_expect_str_neq(ldr_status_name(a), ldr_status_name(b));
	}
}

Test(error, of_errno)
{
	static const struct {
		int sys_errno;
		enum ldr_status status;
	} cases[] = {
		{0, LDR_EIO},           {ENOENT, LDR_ENOTFOUND},
		{EEXIST, LDR_EEXISTS},  {EISDIR, LDR_EISDIR},
		{ENOTDIR, LDR_ENOTDIR}, {ENOTEMPTY, LDR_ENOTEMPTY},
		{ELOOP, LDR_ELINK},     {EXDEV, LDR_ELINK},
		{EACCES, LDR_EDENIED},  {EPERM, LDR_EDENIED},
		{EROFS, LDR_EDENIED},   {ENOSPC, LDR_ENOSPACE},
		{EDQUOT, LDR_ENOSPACE}, {ENOMEM, LDR_ENOMEM},
		{EAGAIN, LDR_EAGAIN},   {ETIMEDOUT, LDR_ETIMEDOUT},
		{EINVAL, LDR_EINVAL},   {ENAMETOOLONG, LDR_EINVAL},
		{EIO, LDR_EIO},         {EBADF, LDR_EIO},
		{9999, LDR_EIO},
	};

	for (size_t i = 0; i < CASES(cases); i++) {
		struct ldr_error err = {0};
		int sys_errno = cases[i].sys_errno;

		cr_expect_eq(ldr_status_of_errno(sys_errno), cases[i].status, "%d", sys_errno);
		cr_expect_eq(ldr_fail_errno(&err, sys_errno, "thing %d", 7), cases[i].status);
		cr_expect_eq(err.status, cases[i].status);
		cr_expect_eq(err.sys_errno, sys_errno);
		cr_expect(strncmp(err.text, "thing 7: ", 9) == 0 && strlen(err.text) > 9, "%s",
			  err.text);
		cr_expect_eq(ldr_fail_errno(NULL, sys_errno, "x"), cases[i].status);
	}
}

Test(error, raising_and_prefixing)
{
	struct ldr_error err = {0};

	cr_expect_eq(ldr_fail(NULL, LDR_ECORRUPT, "x"), LDR_ECORRUPT);
	cr_expect_eq(ldr_fail(&err, LDR_ECORRUPT, "pack %s: length %d, limit %d", "ab", 40, 32),
		     LDR_ECORRUPT);
	cr_expect_str_eq(err.text, "pack ab: length 40, limit 32");
	cr_expect_eq(err.sys_errno, 0);
	cr_expect_eq(ldr_error_prefix(&err, LDR_ECORRUPT, "release %d", 3), LDR_ECORRUPT);
	cr_expect_str_eq(err.text, "release 3: pack ab: length 40, limit 32");
	cr_expect_eq(err.status, LDR_ECORRUPT);
	cr_expect_eq(ldr_error_prefix(&err, LDR_OK, "never"), LDR_OK, "success is left alone");
	cr_expect_str_eq(err.text, "release 3: pack ab: length 40, limit 32");
	cr_expect_eq(ldr_error_prefix(NULL, LDR_EIO, "x"), LDR_EIO);
	ldr_fail(&err, LDR_EINVAL, "name %s: bad",
		 "a\nb\tc\x7f"
		 "d");
	cr_expect_str_eq(err.text, "name a?b?c?d: bad", "one line");
	ldr_fail(&err, LDR_EINVAL, "x");
	ldr_error_prefix(&err, LDR_EINVAL, "a\nb");
	cr_expect_str_eq(err.text, "a?b: x");
}

Test(error, too_long_is_cut)
{
	static char text[5000];
	struct ldr_error err = {0};

	memset(text, 'x', sizeof(text) - 1);
	ldr_fail(&err, LDR_EIO, "%s", text);
	cr_expect_eq(strlen(err.text), LDR_ERROR_TEXT_BYTES - 1u);
	ldr_error_prefix(&err, LDR_EIO, "before");
	cr_expect_eq(strlen(err.text), LDR_ERROR_TEXT_BYTES - 1u);
	cr_expect(strncmp(err.text, "before: xxx", 11) == 0);
	ldr_error_prefix(&err, LDR_EIO, "%s", text);
	cr_expect_eq(strlen(err.text), LDR_ERROR_TEXT_BYTES - 1u);
	ldr_fail_errno(&err, ENOENT, "%s", text);
	cr_expect_eq(strlen(err.text), LDR_ERROR_TEXT_BYTES - 1u);
	cr_expect_eq(err.status, LDR_ENOTFOUND);
}
