/*
 * scenarios.c   the list of scenarios.
 */
#include "bench/vfs_bench/scenarios.h"

static const struct bench_scenario *const all[] = {
	&bench_read_small,   &bench_read_medium, &bench_read_large_seq,  &bench_read_large_rand,
	&bench_meta_open,    &bench_meta_stat,   &bench_meta_miss,       &bench_meta_list,
	&bench_write_create, &bench_write_churn, &bench_write_large_seq, &bench_write_overwrite,
	&bench_write_append,
};

const struct bench_scenario *const *bench_scenarios(size_t *out_count)
{
	*out_count = sizeof(all) / sizeof(all[0]);
	return all;
}

bool bench_failed(struct bench_worker *worker, const char *call, const char *path)
{
	worker->failed_call = call;
	worker->failed_path = path;
	return false;
}
