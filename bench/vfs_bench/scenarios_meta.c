/*
 * scenarios_meta.c   names: opening, attributes, what is not there, listing.
 */
#include "bench/vfs_bench/scenarios.h"

static bool can_open(const struct bench_target *target)
{
	return target->traits & BENCH_OPENS;
}

static bool can_stat(const struct bench_target *target)
{
	return target->ops->stat != NULL;
}

static bool can_miss(const struct bench_target *target)
{
	return target->ops->absent != NULL;
}

static bool can_list(const struct bench_target *target)
{
	return target->ops->list != NULL;
}

static bool open_close(struct bench_worker *worker, const char *path)
{
	struct bench_file file;

	if (!worker->ops->open(worker->self, path, BENCH_READ, &file))
		return bench_failed(worker, "open", path);
	worker->ops->close(&file);
	return true;
}

static bool stat_one(struct bench_worker *worker, const char *path)
{
	uint64_t size = 0;

	if (worker->ops->stat(worker->self, path, &size) && size == BENCH_SMALL_BYTES)
		return true;
	return bench_failed(worker, "stat", path);
}

static bool miss_one(struct bench_worker *worker, const char *path)
{
	return worker->ops->absent(worker->self, path) || bench_failed(worker, "miss", path);
}

/* One operation on every path, as often as asked for. Inlined so that `one` is called directly. */
static inline __attribute__((always_inline)) bool over_paths(
	struct bench_worker *worker, const struct bench_texts *paths,
	bool (*one)(struct bench_worker *worker, const char *path))
{
	uint32_t i = (uint32_t)((uint64_t)worker->index * paths->count / worker->count);

	for (unsigned pass = 0; pass < worker->repeats; pass++) {
		for (uint32_t k = 0; k < paths->count && !worker->laps.expired; k++) {
			uint64_t began = bench_lap_begin(&worker->laps);

			if (!one(worker, paths->text[i]))
				return false;
			bench_lap_end(&worker->laps, began);
			worker->operations++;
			i = i + 1 < paths->count ? i + 1 : 0;
		}
	}
	return true;
}

static bool run_open(struct bench_worker *worker)
{
	return over_paths(worker, &worker->names->small, open_close);
}

static bool run_stat(struct bench_worker *worker)
{
	return over_paths(worker, &worker->names->small, stat_one);
}

static bool run_miss(struct bench_worker *worker)
{
	return over_paths(worker, &worker->names->absent, miss_one);
}

static bool run_list(struct bench_worker *worker)
{
	uint64_t total = (uint64_t)worker->counts->lists * worker->repeats;

	for (uint64_t i = 0; i < total && !worker->laps.expired; i++) {
		uint64_t began = bench_lap_begin(&worker->laps);
		uint64_t count = 0;

		if (!worker->ops->list(worker->self, worker->names->folder, &count) ||
		    count != worker->counts->small)
			return bench_failed(worker, "list", worker->names->folder);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
	}
	return true;
}

const struct bench_scenario bench_meta_open = {
	.name = "meta.open",
	.stride = 16,
	.repeatable = true,
	.possible = can_open,
	.run = run_open,
};
const struct bench_scenario bench_meta_stat = {
	.name = "meta.stat",
	.stride = 16,
	.repeatable = true,
	.possible = can_stat,
	.run = run_stat,
};
const struct bench_scenario bench_meta_miss = {
	.name = "meta.miss",
	.stride = 16,
	.repeatable = true,
	.possible = can_miss,
	.run = run_miss,
};
const struct bench_scenario bench_meta_list = {
	.name = "meta.list",
	.stride = 1,
	.repeatable = true,
	.possible = can_list,
	.run = run_list,
};
