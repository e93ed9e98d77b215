/*
 * check.c   a target reads what the dataset holds, before anybody asks how fast.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/vfs_bench/slots.h"

#define ITEMS_CHECKED 48
#define RANGES_CHECKED 16

/* What is compared: an item, its bytes from the host, and room for those of the target. */
struct comparison {
	const struct bench_slot *slot;
	void *self;
	const struct bench_item *item;
	uint8_t *wanted;
	uint8_t *got;
};

static bool read_whole(const struct comparison *comparison, struct bench_file *file)
{
	uint64_t at = 0;

	while (at < comparison->item->size) {
		uint64_t left = comparison->item->size - at;
		size_t chunk = left < BENCH_BUFFER_BYTES ? (size_t)left : BENCH_BUFFER_BYTES;
		size_t length = 0;

		if (!comparison->slot->target->ops->read(file, comparison->got + at, chunk,
							 &length) ||
		    length == 0)
			return false;
		at += length;
	}
	return !memcmp(comparison->wanted, comparison->got, comparison->item->size);
}

static bool read_ranges(const struct comparison *comparison, struct bench_file *file)
{
	const struct bench_ops *ops = comparison->slot->target->ops;
	uint64_t state = 1, size = comparison->item->size;

	for (int i = 0; ops->read_at && size && i < RANGES_CHECKED; i++) {
		uint64_t offset = bench_random(&state) % size;
		size_t wanted = size - offset < 5000 ? (size_t)(size - offset) : 5000;
		size_t length = 0;

		if (!ops->read_at(file, comparison->got, wanted, offset, &length) ||
		    length != wanted ||
		    memcmp(comparison->got, comparison->wanted + offset, wanted) != 0)
			return false;
	}
	return true;
}

static bool compare_item(struct comparison *comparison, const struct bench_env *env)
{
	const struct bench_ops *ops = comparison->slot->target->ops;
	char *path = bench_join(comparison->slot->instance.data_prefix, comparison->item->path);
	size_t room = comparison->item->size ? comparison->item->size : 1;
	struct bench_file file;
	bool good = false;

	comparison->wanted = malloc(room);
	comparison->got = malloc(room);
	if (comparison->wanted && comparison->got &&
	    bench_item_load(env, comparison->item, comparison->wanted) &&
	    ops->open(comparison->self, path, BENCH_READ, &file)) {
		good = read_whole(comparison, &file) && read_ranges(comparison, &file);
		ops->close(&file);
	}
	if (!good)
		bench_say("%s: %s does not read as the dataset", comparison->slot->target->name,
			  path);
	free(comparison->wanted);
	free(comparison->got);
	free(path);
	return good;
}

static const struct bench_item *largest(const struct bench_env *env)
{
	const struct bench_item *out = &env->items[0];

	for (size_t i = 1; i < env->item_count; i++)
		if (env->items[i].size > out->size)
			out = &env->items[i];
	return out;
}

bool bench_slot_check(const struct bench_slot *slot, const struct bench_env *env)
{
	const struct bench_ops *ops = slot->target->ops;
	struct comparison comparison = {.slot = slot, .self = slot->instance.self};
	uint64_t state = 7;
	bool good = true;

	if (ops->enter)
		comparison.self = ops->enter(slot->instance.self);
	for (int i = 0; good && env->item_count && i < ITEMS_CHECKED; i++) {
		comparison.item = i == 0 ? largest(env)
					 : &env->items[bench_random(&state) % env->item_count];
		good = compare_item(&comparison, env);
	}
	if (ops->leave)
		ops->leave(comparison.self);
	return good;
}
