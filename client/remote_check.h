/*
 * Checking a release where it is stored, through the view that reads it: whether everything that a
 * client could ask for is there.
 *
 * Shallow: record, top, tree and map (whole), and for each listed pack its length, by HEAD (asking for
 * the last byte would cost the whole pack where a server ignores ranges). Deep: every block read,
 * decoded and digested, none of it from a cache.
 */
#ifndef LDR_CLIENT_REMOTE_CHECK_H
#define LDR_CLIENT_REMOTE_CHECK_H

#include "client/view.h"

struct ldr_remote_report {
	uint64_t packs;
	uint64_t blocks;
	uint64_t faults;
};

/* Each fault is told with the path that it affects (or the pack's). LDR_ECORRUPT when there was any whose
 * bytes are wrong or missing; the first other failure as it is. */
enum ldr_status ldr_remote_check(struct ldr_view *view, bool deep,
				 void (*each_fault)(void *context, const char *path,
						    const char *what),
				 void *context, struct ldr_remote_report *out,
				 struct ldr_error *err);

#endif
