/*
 * scenarios_read.c   reading: small and medium files whole, a large one in order and at random.
 */
#include "bench/vfs_bench/scenarios.h"

static bool can_read(const struct bench_target *target)
{
	return target->ops->read != NULL;
}

static bool can_read_at(const struct bench_target *target)
{
	return target->ops->read_at != NULL;
}

static bool read_small_file(struct bench_worker *worker, const char *path)
{
	struct bench_file file;
	size_t length = 0;
	bool good;

	if (!worker->ops->open(worker->self, path, BENCH_READ, &file))
		return bench_failed(worker, "open", path);
	good = worker->ops->read(&file, worker->buffer, BENCH_SMALL_BYTES, &length);
	worker->ops->close(&file);
	return (good && length == BENCH_SMALL_BYTES) || bench_failed(worker, "read", path);
}

static bool run_small(struct bench_worker *worker)
{
	const struct bench_texts *paths = &worker->names->small;
	uint32_t start = (uint32_t)((uint64_t)worker->index * paths->count / worker->count);

	for (unsigned pass = 0; pass < worker->repeats; pass++) {
		for (uint32_t k = 0; k < paths->count && !worker->laps.expired; k++) {
			uint32_t i = start + k < paths->count ? start + k
							      : start + k - paths->count;
			uint64_t began = bench_lap_begin(&worker->laps);

			if (!read_small_file(worker, paths->text[i]))
				return false;
			bench_lap_end(&worker->laps, began);
			worker->operations++;
			worker->bytes += BENCH_SMALL_BYTES;
		}
	}
	return true;
}

/* Until the end, in pieces of `chunk`; laps of pieces where each is an operation. */
static bool read_pieces(struct bench_worker *worker, const char *path, size_t chunk, uint64_t size,
			bool each)
{
	struct bench_file file;
	uint64_t total = 0;
	bool good = true;

	if (!worker->ops->open(worker->self, path, BENCH_READ, &file))
		return bench_failed(worker, "open", path);
	while (good && total < size && !(each && worker->laps.expired)) {
		uint64_t began = each ? bench_lap_begin(&worker->laps) : 0;
		size_t length = 0;

		good = worker->ops->read(&file, worker->buffer, chunk, &length) && length > 0;
		bench_lap_end(&worker->laps, began);
		total += length;
		worker->operations += each;
	}
	worker->ops->close(&file);
	worker->bytes += total;
	return good || bench_failed(worker, "read", path);
}

static bool run_medium(struct bench_worker *worker)
{
	const struct bench_texts *paths = &worker->names->medium;
	uint32_t start = (uint32_t)((uint64_t)worker->index * paths->count / worker->count);

	for (unsigned pass = 0; pass < worker->repeats; pass++) {
		for (uint32_t k = 0; k < paths->count && !worker->laps.expired; k++) {
			const char *path = paths->text[(start + k) % paths->count];
			uint64_t began = bench_lap_begin(&worker->laps);

			if (!read_pieces(worker, path, BENCH_MEDIUM_CHUNK, BENCH_MEDIUM_BYTES,
					 false))
				return false;
			bench_lap_end(&worker->laps, began);
			worker->operations++;
		}
	}
	return true;
}

static bool run_large_seq(struct bench_worker *worker)
{
	for (unsigned pass = 0; pass < worker->repeats && !worker->laps.expired; pass++)
		if (!read_pieces(worker, worker->names->large, BENCH_LARGE_CHUNK,
				 worker->counts->large_bytes, true))
			return false;
	return true;
}

/* At multiples of 4 KiB, where stdio is at its best: it needs one read a seek there, and two elsewhere. */
static bool read_at_random(struct bench_worker *worker, struct bench_file *file)
{
	uint64_t places = worker->counts->large_bytes / BENCH_SMALL_BYTES;
	uint64_t total = (uint64_t)worker->counts->random_reads * worker->repeats;

	for (uint64_t i = 0; i < total && !worker->laps.expired; i++) {
		uint64_t offset = bench_random(&worker->random) % places * BENCH_SMALL_BYTES;
		uint64_t began = bench_lap_begin(&worker->laps);
		size_t length = 0;

		if (!worker->ops->read_at(file, worker->buffer, BENCH_SMALL_BYTES, offset,
					  &length) ||
		    length != BENCH_SMALL_BYTES)
			return bench_failed(worker, "read", worker->names->large);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
		worker->bytes += BENCH_SMALL_BYTES;
	}
	return true;
}

static bool run_large_rand(struct bench_worker *worker)
{
	struct bench_file file;
	bool good;

	if (!worker->ops->open(worker->self, worker->names->large, BENCH_READ, &file))
		return bench_failed(worker, "open", worker->names->large);
	good = read_at_random(worker, &file);
	worker->ops->close(&file);
	return good;
}

const struct bench_scenario bench_read_small = {
	.name = "read.small",
	.stride = 16,
	.repeatable = true,
	.possible = can_read,
	.run = run_small,
};
const struct bench_scenario bench_read_medium = {
	.name = "read.medium",
	.stride = 1,
	.repeatable = true,
	.possible = can_read,
	.run = run_medium,
};
const struct bench_scenario bench_read_large_seq = {
	.name = "read.large.seq",
	.stride = 1,
	.repeatable = true,
	.possible = can_read,
	.run = run_large_seq,
};
const struct bench_scenario bench_read_large_rand = {
	.name = "read.large.rand",
	.stride = 16,
	.repeatable = true,
	.possible = can_read_at,
	.run = run_large_rand,
};
