/*
 * Statuses and the error object; see error.h for the rules.
 */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct status_row {
	const char *name;
	const char *text;
	int exit_status;
	bool retry;
};

static const struct status_row status_rows[LDR_STATUS_COUNT] = {
#define LDR_STATUS_ROW(name, text, exit_status, retry) [name] = {#name, text, exit_status, retry},
	LDR_STATUS_TABLE(LDR_STATUS_ROW)
#undef LDR_STATUS_ROW
};

static const struct status_row unknown_row = {"LDR_?", "unknown status", 1, false};

static const struct status_row *row_of(enum ldr_status status)
{
	if ((unsigned)status >= LDR_STATUS_COUNT)
		return &unknown_row;
	return &status_rows[status];
}

const char *ldr_status_name(enum ldr_status status)
{
	return row_of(status)->name;
}

const char *ldr_status_text(enum ldr_status status)
{
	return row_of(status)->text;
}

int ldr_status_exit(enum ldr_status status)
{
	return row_of(status)->exit_status;
}

bool ldr_status_retry(enum ldr_status status)
{
	return row_of(status)->retry;
}

/* A line break inside a name from outside must not break the "one line" promise. */
static void keep_one_line(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

LDR_PRINTF(4, 0)
static enum ldr_status raise(struct ldr_error *err, enum ldr_status status, int sys_errno,
			     const char *fmt, va_list args)
{
	if (!err)
		return status;
	err->status = status;
	err->sys_errno = sys_errno;
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	keep_one_line(err->text);
	return status;
}

enum ldr_status ldr_fail(struct ldr_error *err, enum ldr_status status, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	raise(err, status, 0, fmt, args);
	va_end(args);
	return status;
}

enum ldr_status ldr_status_of_errno(int sys_errno)
{
	switch (sys_errno) {
	case ENOENT:
		return LDR_ENOTFOUND;
	case EEXIST:
		return LDR_EEXISTS;
	case EISDIR:
		return LDR_EISDIR;
	case ENOTDIR:
		return LDR_ENOTDIR;
	case ENOTEMPTY:
		return LDR_ENOTEMPTY;
	case ELOOP:
	case EXDEV:
		return LDR_ELINK;
	case EACCES:
	case EPERM:
	case EROFS:
		return LDR_EDENIED;
	case ENOSPC:
	case EDQUOT:
		return LDR_ENOSPACE;
	case ENOMEM:
		return LDR_ENOMEM;
	case EAGAIN:
		return LDR_EAGAIN;
	case ETIMEDOUT:
		return LDR_ETIMEDOUT;
	case EINVAL:
	case ENAMETOOLONG:
		return LDR_EINVAL;
	default:
		return LDR_EIO;
	}
}

enum ldr_status ldr_fail_errno(struct ldr_error *err, int sys_errno, const char *fmt, ...)
{
	enum ldr_status status = ldr_status_of_errno(sys_errno);
	va_list args;
	size_t used;

	va_start(args, fmt);
	raise(err, status, sys_errno, fmt, args);
	va_end(args);
	if (!err)
		return status;
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s",
		 strerrordesc_np(sys_errno) ? strerrordesc_np(sys_errno) : "unknown error");
	return status;
}

enum ldr_status ldr_error_prefix(struct ldr_error *err, enum ldr_status status, const char *fmt,
				 ...)
{
	char fact[LDR_ERROR_TEXT_BYTES];
	va_list args;
	size_t used;

	if (!err || status == LDR_OK)
		return status;
	memcpy(fact, err->text, sizeof(fact));
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	keep_one_line(err->text);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", fact);
	return status;
}
