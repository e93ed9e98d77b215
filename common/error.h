/*
 * Statuses and the error object.
 *
 * Every function of the library that can fail returns an enum ldr_status and, where the caller
 * wants to know more, fills a struct ldr_error that the caller owns (usually on its stack). There is
 * no thread-local "last error", and errno is never meaningful across a module's edge.
 *
 * Invariants
 *  1. On LDR_OK the error object is left untouched.
 *  2. The text is one line: lower case, no full stop, names the thing and both values
 *     ("pack ab12: index length 40, limit 32").
 *  3. The innermost function writes the fact; an outer one may prefix what it was doing
 *     (ldr_error_prefix) and never replaces the status.
 *
 * Threads: the functions here touch only their arguments; any thread may call them.
 */
#ifndef LDR_COMMON_ERROR_H
#define LDR_COMMON_ERROR_H

#include <stdbool.h>

#define LDR_API __attribute__((visibility("default")))
#define LDR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/*
 * The one table of statuses: name, text, exit status of the commands, worth retrying.
 * The exit statuses are a contract (docs/protocol of the commands): 0 done, 1 failed, 2 usage,
 * 3 not found, 4 integrity, 5 network, 6 conflict, 7 no space, 8 not allowed.
 */
#define LDR_STATUS_TABLE(X)                                                         \
	X(LDR_OK, "done", 0, false)                                                 \
	X(LDR_EINVAL, "invalid argument", 1, false)                                 \
	X(LDR_EUSAGE, "usage", 2, false)                                            \
	X(LDR_ENOMEM, "out of memory", 1, true)                                     \
	X(LDR_EIO, "input or output error", 1, false)                               \
	X(LDR_ENOTFOUND, "not found", 3, false)                                     \
	X(LDR_EGONE, "hidden by an upper layer", 3, false)                          \
	X(LDR_EEXISTS, "already exists", 1, false)                                  \
	X(LDR_EISDIR, "is a folder", 1, false)                                      \
	X(LDR_ENOTDIR, "is not a folder", 1, false)                                 \
	X(LDR_ENOTREG, "is not a regular file", 1, false)                           \
	X(LDR_ENOTEMPTY, "folder is not empty", 1, false)                           \
	X(LDR_ELINK, "symbolic link refused", 1, false)                             \
	X(LDR_ECORRUPT, "corrupt data", 4, false)                                   \
	X(LDR_EUNTRUSTED, "signature, key or sequence not to be trusted", 4, false) \
	X(LDR_ELIMIT, "limit exceeded", 4, false)                                   \
	X(LDR_EUNSUPPORTED, "not supported", 1, false)                              \
	X(LDR_ENET, "network failure", 5, true)                                     \
	X(LDR_ETIMEDOUT, "timed out", 5, true)                                      \
	X(LDR_EOFFLINE, "offline and not held", 5, false)                           \
	X(LDR_ECONFLICT, "conflict", 6, true)                                       \
	X(LDR_ENOSPACE, "no space", 7, false)                                       \
	X(LDR_EDENIED, "not allowed", 8, false)                                     \
	X(LDR_ENOKEY, "no key", 8, false)                                           \
	X(LDR_ECHANGED, "changed while in use", 1, true)                            \
	X(LDR_ESTALE, "stale handle", 1, false)                                     \
	X(LDR_EAGAIN, "try again", 1, true)                                         \
	X(LDR_ECANCELLED, "cancelled", 1, false)

enum ldr_status {
#define LDR_STATUS_ENUM(name, text, exit_status, retry) name,
	LDR_STATUS_TABLE(LDR_STATUS_ENUM)
#undef LDR_STATUS_ENUM
		LDR_STATUS_COUNT
};

#define LDR_ERROR_TEXT_BYTES 768

/* Caller's storage; starts valid when zeroed. sys_errno is 0 where no system call failed. */
struct ldr_error {
	enum ldr_status status;
	int sys_errno;
	char text[LDR_ERROR_TEXT_BYTES];
};

/* The name ("LDR_ECORRUPT"), a short text, the commands' exit status, and whether the same call may
 * succeed later. An unknown value gives "LDR_?" , "unknown status", 1, false. Static strings. */
LDR_API const char *ldr_status_name(enum ldr_status status);
LDR_API const char *ldr_status_text(enum ldr_status status);
LDR_API int ldr_status_exit(enum ldr_status status);
LDR_API bool ldr_status_retry(enum ldr_status status);

/* Fills err (which may be NULL) and returns status, so that raising is one line:
 *	return ldr_fail(err, LDR_ECORRUPT, "pack %s: index past end", name); */
LDR_API enum ldr_status ldr_fail(struct ldr_error *err, enum ldr_status status, const char *fmt,
				 ...) LDR_PRINTF(3, 4);

/* The same for a failed system call: maps sys_errno to a status (ENOENT not found, EACCES denied,
 * ENOSPC and EDQUOT no space, ...; all others LDR_EIO) and appends ": " and the system's text. */
LDR_API enum ldr_status ldr_fail_errno(struct ldr_error *err, int sys_errno, const char *fmt, ...)
	LDR_PRINTF(3, 4);

/* The status that ldr_fail_errno gives for sys_errno (0 gives LDR_EIO, never LDR_OK). */
LDR_API enum ldr_status ldr_status_of_errno(int sys_errno);

/* Puts "fmt: " before the text of an error already raised; returns err's status (LDR_EIO for NULL
 * is avoided by passing the status along). A text too long is cut at its end. */
LDR_API enum ldr_status ldr_error_prefix(struct ldr_error *err, enum ldr_status status,
					 const char *fmt, ...) LDR_PRINTF(3, 4);

#endif
