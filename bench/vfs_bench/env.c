/*
 * env.c   the working folder: made, settled, dropped from the page cache, removed.
 */
#include "bench/vfs_bench/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os.h"

void bench_settle(const struct bench_env *env)
{
	int fd;

	if (ldr_os_open_folder(env->work, &fd))
		return;
	ldr_os_sync_system(fd);
	ldr_os_close(fd);
}

static uint32_t scaled(double scale, double count, uint32_t least)
{
	double value = count * scale;

	return value < least ? least : (uint32_t)value;
}

static void count_work(double scale, struct bench_counts *out)
{
	uint64_t mib = scaled(scale, 64, 1);

	*out = (struct bench_counts){
		.small = scaled(scale, 10000, 16),
		.medium = scaled(scale, 200, 2),
		.large_bytes = mib * 1024 * 1024,
		.random_reads = scaled(scale, 20000, 64),
		.lists = 10,
		.creates = scaled(scale, 400, 4),
		.churns = scaled(scale, 1000, 8),
		.overwrite_bytes = (uint64_t)scaled(scale, 64, 1) * 256 * 1024,
		.overwrites = scaled(scale, 4096, 16),
		.append_rounds = scaled(scale, 128, 2),
	};
}

/* A folder of its own, or with --keep one whose name stays. */
static char *work_folder(const struct bench_options *options)
{
	char *pattern, *real;

	if (options->keep)
		pattern = bench_join(options->folder, "larder-vfs-bench");
	else
		pattern = bench_join(options->folder, "larder-vfs-bench.XXXXXX");
	if (options->keep ? !bench_make_folders(pattern) : !mkdtemp(pattern)) {
		bench_say("%s: no working folder: %s", pattern, strerror(errno));
		free(pattern);
		return NULL;
	}
	real = realpath(pattern, NULL);
	free(pattern);
	return real;
}

bool bench_env_up(struct bench_env *env, const struct bench_options *options, const char *program)
{
	*env = (struct bench_env){.options = options, .own_tree = !options->data};
	count_work(options->scale, &env->counts);
	env->work = work_folder(options);
	if (!env->work)
		return false;
	env->program = bench_copy(program);
	env->made = bench_join(env->work, "made");
	env->tree = options->data ? realpath(options->data, NULL) : bench_join(env->work, "tree");
	if (!env->tree) {
		bench_say("%s: %s", options->data, strerror(errno));
		return false;
	}
	return bench_make_folders(env->made);
}

void bench_env_down(struct bench_env *env)
{
	if (env->work && !env->options->keep)
		bench_remove_all(env->work);
	for (size_t i = 0; i < env->item_count; i++)
		free(env->items[i].path);
	free(env->items);
	free(env->work);
	free(env->tree);
	free(env->made);
	free(env->program);
}
