/*
 * Traces: what a real game opened, asked for and read (bench/traces/README.md), for replaying.
 *
 *	seconds  op  path  offset  length	op: open read zread close stat miss list
 *
 * A path PACK!ENTRY is taken as PACK.d/ENTRY: the entry as a file of its own. Times are not kept: a replay goes as
 * fast as it can. Where no tree is given (--data), one is made with the files that are read and as long as the
 * reads reach.
 *
 * Threads: immutable after loading.
 */
#ifndef LDR_BENCH_TRACE_H
#define LDR_BENCH_TRACE_H

#include "bench/vfs_bench/names.h"

enum bench_trace_op {
	BENCH_TRACE_OPEN,
	BENCH_TRACE_READ,
	BENCH_TRACE_CLOSE,
	BENCH_TRACE_STAT,
	BENCH_TRACE_MISS,
	BENCH_TRACE_LIST,
};

struct bench_trace_step {
	uint64_t offset;
	uint32_t length;
	uint32_t path; /* a number of paths */
	uint8_t op;
};

struct bench_trace {
	char *name; /* "trace.wesnoth118-nogui" */
	struct bench_trace_step *step;
	size_t count;
	struct bench_texts paths;
	uint64_t *size;   /* of each path, by the reads; 0: never read */
	bool *folder;     /* it was listed, or something lies below it */
	bool *file;       /* it was read */
	uint64_t longest; /* the longest read */
};

bool bench_trace_load(const char *path, struct bench_trace *out);
void bench_trace_dispose(struct bench_trace *trace);

/* Makes the tree of the trace in env->tree, unless --data gave one; fills env->items. Steps that do not fit
 * the tree (a file that is not in it) are taken out. */
bool bench_trace_tree(struct bench_trace *trace, struct bench_env *env);

#endif
