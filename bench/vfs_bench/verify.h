/*
 * vfs_bench --verify: the whole tree through each target, compared with the files of the host.
 *
 * Eight threads visit every file, each in its own order: one of them reads it whole, the others read a range at a
 * random place (past the end too).
 */
#ifndef LDR_BENCH_VERIFY_H
#define LDR_BENCH_VERIFY_H

#include "bench/vfs_bench/slots.h"

/* A line a target. False after bench_say when one byte differs. */
bool bench_verify(struct bench_slots *slots, struct bench_env *env);

#endif
