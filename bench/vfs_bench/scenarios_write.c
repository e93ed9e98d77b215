/*
 * scenarios_write.c   writing: many new files, short-lived ones, large, in place, at the end.
 *
 * Every thread writes in a folder of its own and removes what it made afterwards, untimed. What is
 * written does not compress and is touched before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/vfs_bench/scenarios.h"

#define APPENDS_A_ROUND 16

static bool can_write(const struct bench_target *target)
{
	return target->traits & BENCH_WRITES;
}

static bool can_write_handles(const struct bench_target *target)
{
	return target->traits & BENCH_HANDLE_WRITES;
}

/* The names of a thread's files: the digits of one text are changed in place. */
struct numbered {
	char path[1024];
	char *digits;
};

static void numbered_begin(const struct bench_worker *worker, struct numbered *out)
{
	int length = snprintf(out->path, sizeof(out->path), "%s/c000000.bin", worker->own_folder);

	out->digits = out->path + length - (int)strlen("000000.bin");
}

static const char *numbered_path(struct numbered *numbered, uint32_t i)
{
	for (int k = 5; k >= 0; k--, i /= 10)
		numbered->digits[k] = (char)('0' + i % 10);
	return numbered->path;
}

static bool prepare_folder(struct bench_worker *worker)
{
	char name[32];

	snprintf(name, sizeof(name), "t%u", worker->index);
	free(worker->own_folder);
	worker->own_folder = bench_join(worker->write_prefix, name);
	worker->made = 0;
	bench_fill(worker->index + 1, worker->buffer, BENCH_BUFFER_BYTES);
	if (worker->ops->make_folder(worker->self, worker->own_folder))
		return true;
	return bench_failed(worker, "make folder", worker->own_folder);
}

static bool finish_folder(struct bench_worker *worker)
{
	struct numbered numbered;
	bool good = true;

	numbered_begin(worker, &numbered);
	for (uint32_t i = 0; i < worker->made; i++)
		good &= worker->ops->remove(worker->self, numbered_path(&numbered, i));
	worker->made = 0;
	good &= worker->ops->remove(worker->self, worker->own_folder);
	return good || bench_failed(worker, "remove", worker->own_folder);
}

static bool write_whole(struct bench_worker *worker, const char *path, size_t length)
{
	struct bench_file file;
	bool good;

	if (!worker->ops->open(worker->self, path, BENCH_CREATE, &file))
		return bench_failed(worker, "create", worker->own_folder);
	good = worker->ops->write(&file, worker->buffer, length);
	worker->ops->close(&file);
	worker->bytes += length;
	return good || bench_failed(worker, "write", worker->own_folder);
}

static bool run_create(struct bench_worker *worker)
{
	struct numbered numbered;

	numbered_begin(worker, &numbered);
	for (uint32_t i = 0; i < worker->counts->creates && !worker->laps.expired; i++) {
		uint64_t began = bench_lap_begin(&worker->laps);

		if (!write_whole(worker, numbered_path(&numbered, i), BENCH_CREATE_BYTES))
			return false;
		bench_lap_end(&worker->laps, began);
		worker->made++;
		worker->operations++;
	}
	return true;
}

static bool run_churn(struct bench_worker *worker)
{
	uint64_t total = (uint64_t)worker->counts->churns * worker->repeats;
	struct numbered numbered;

	numbered_begin(worker, &numbered);
	for (uint64_t i = 0; i < total && !worker->laps.expired; i++) {
		const char *path = numbered_path(&numbered, (uint32_t)(i % 1000000));
		uint64_t began = bench_lap_begin(&worker->laps);

		if (!write_whole(worker, path, BENCH_SMALL_BYTES) ||
		    !worker->ops->remove(worker->self, path))
			return bench_failed(worker, "churn", worker->own_folder);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
	}
	return true;
}

static bool write_chunks(struct bench_worker *worker, struct bench_file *file, uint64_t size)
{
	for (uint64_t at = 0; at < size && !worker->laps.expired; at += BENCH_LARGE_CHUNK) {
		uint64_t began = bench_lap_begin(&worker->laps);

		if (!worker->ops->write(file, worker->buffer, BENCH_LARGE_CHUNK))
			return bench_failed(worker, "write", worker->own_folder);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
		worker->bytes += BENCH_LARGE_CHUNK;
	}
	return true;
}

static bool run_large(struct bench_worker *worker)
{
	struct numbered numbered;
	struct bench_file file;
	bool good;

	numbered_begin(worker, &numbered);
	if (!worker->ops->open(worker->self, numbered_path(&numbered, 0), BENCH_CREATE, &file))
		return bench_failed(worker, "create", worker->own_folder);
	good = write_chunks(worker, &file, worker->counts->large_bytes);
	worker->ops->close(&file);
	worker->made = 1;
	return good;
}

/* The file that is overwritten, whole beforehand. */
static bool prepare_overwrite(struct bench_worker *worker)
{
	struct numbered numbered;
	struct bench_file file;
	bool good = true;

	if (!prepare_folder(worker))
		return false;
	numbered_begin(worker, &numbered);
	if (!worker->ops->open(worker->self, numbered_path(&numbered, 0), BENCH_CREATE, &file))
		return bench_failed(worker, "create", worker->own_folder);
	for (uint64_t at = 0; good && at < worker->counts->overwrite_bytes;
	     at += BENCH_MEDIUM_BYTES)
		good = worker->ops->write(&file, worker->buffer, BENCH_MEDIUM_BYTES);
	worker->ops->close(&file);
	worker->made = 1;
	return good || bench_failed(worker, "write", worker->own_folder);
}

static bool overwrite_random(struct bench_worker *worker, struct bench_file *file)
{
	uint64_t pages = worker->counts->overwrite_bytes / BENCH_SMALL_BYTES;
	uint64_t total = (uint64_t)worker->counts->overwrites * worker->repeats;

	for (uint64_t i = 0; i < total && !worker->laps.expired; i++) {
		uint64_t offset = bench_random(&worker->random) % pages * BENCH_SMALL_BYTES;
		uint64_t began = bench_lap_begin(&worker->laps);

		if (!worker->ops->write_at(file, worker->buffer, BENCH_SMALL_BYTES, offset))
			return bench_failed(worker, "write", worker->own_folder);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
		worker->bytes += BENCH_SMALL_BYTES;
	}
	return true;
}

static bool run_overwrite(struct bench_worker *worker)
{
	struct numbered numbered;
	struct bench_file file;
	bool good;

	numbered_begin(worker, &numbered);
	if (!worker->ops->open(worker->self, numbered_path(&numbered, 0), BENCH_OVERLAPPED, &file))
		return bench_failed(worker, "open", worker->own_folder);
	good = overwrite_random(worker, &file);
	worker->ops->close(&file);
	return good;
}

static bool append_round(struct bench_worker *worker, const char *path)
{
	struct bench_file file;
	bool good = true;

	if (!worker->ops->open(worker->self, path, BENCH_APPEND, &file))
		return bench_failed(worker, "append", worker->own_folder);
	for (int i = 0; good && i < APPENDS_A_ROUND; i++) {
		uint64_t began = bench_lap_begin(&worker->laps);

		good = worker->ops->write(&file, worker->buffer, BENCH_SMALL_BYTES);
		bench_lap_end(&worker->laps, began);
		worker->operations++;
		worker->bytes += BENCH_SMALL_BYTES;
	}
	worker->ops->close(&file);
	return good || bench_failed(worker, "write", worker->own_folder);
}

static bool run_append(struct bench_worker *worker)
{
	struct numbered numbered;
	const char *path;

	numbered_begin(worker, &numbered);
	path = numbered_path(&numbered, 0);
	for (uint32_t i = 0; i < worker->counts->append_rounds && !worker->laps.expired; i++) {
		if (!append_round(worker, path))
			return false;
		worker->made = 1;
	}
	return true;
}

const struct bench_scenario bench_write_create = {
	.name = "write.create",
	.stride = 1,
	.writes = true,
	.possible = can_write,
	.prepare = prepare_folder,
	.run = run_create,
	.finish = finish_folder,
};
const struct bench_scenario bench_write_churn = {
	.name = "write.churn",
	.stride = 4,
	.repeatable = true,
	.writes = true,
	.possible = can_write,
	.prepare = prepare_folder,
	.run = run_churn,
	.finish = finish_folder,
};
const struct bench_scenario bench_write_large_seq = {
	.name = "write.large.seq",
	.stride = 1,
	.writes = true,
	.possible = can_write_handles,
	.prepare = prepare_folder,
	.run = run_large,
	.finish = finish_folder,
};
const struct bench_scenario bench_write_overwrite = {
	.name = "write.overwrite",
	.stride = 4,
	.repeatable = true,
	.writes = true,
	.possible = can_write_handles,
	.prepare = prepare_overwrite,
	.run = run_overwrite,
	.finish = finish_folder,
};
const struct bench_scenario bench_write_append = {
	.name = "write.append",
	.stride = 4,
	.writes = true,
	.possible = can_write_handles,
	.prepare = prepare_folder,
	.run = run_append,
	.finish = finish_folder,
};
