/*
 * targets.c   the list of targets.
 */
#include "bench/vfs_bench/target.h"

static const struct bench_target *const targets[] = {
	&bench_target_stdio,      &bench_target_fstream,       &bench_target_posix,
	&bench_target_http,       &bench_target_http_gzip,     &bench_target_limit,
	&bench_target_physfs_zip, &bench_target_physfs_folder,
};

size_t bench_target_count(void)
{
	return sizeof(targets) / sizeof(targets[0]);
}

const struct bench_target *bench_target_at(size_t i)
{
	return targets[i];
}
