/*
 * targets.c   the list of targets.
 */
#include "bench/vfs_bench/target.h"

#include "bench/vfs_bench/vfs_targets.h"

static const struct bench_target *const others[] = {
	&bench_target_stdio,      &bench_target_fstream,       &bench_target_posix,
	&bench_target_http,       &bench_target_http_gzip,     &bench_target_limit,
	&bench_target_physfs_zip, &bench_target_physfs_folder,
};

#define OTHERS (sizeof(others) / sizeof(others[0]))

size_t bench_target_count(void)
{
	size_t ours;

	bench_vfs_targets(&ours);
	return OTHERS + ours;
}

const struct bench_target *bench_target_at(size_t i)
{
	size_t ours;
	const struct bench_target *vfs = bench_vfs_targets(&ours);

	return i < OTHERS ? others[i] : &vfs[i - OTHERS];
}
