/*
 * handles.c   many files open at once.
 */
#include "bench/vfs_bench/handles.h"

#include <stdio.h>
#include <stdlib.h>

/* Opened and read once, so that nothing that comes late is missed. */
static bool open_one(const struct bench_slot *slot, const char *path, struct bench_file *out)
{
	const struct bench_ops *ops = slot->target->ops;
	uint8_t byte;
	size_t length;

	if (!ops->open(slot->instance.self, path, BENCH_READ, out))
		return false;
	if (ops->read_at(out, &byte, 1, 0, &length))
		return true;
	ops->close(out);
	return false;
}

static bool hold_many(const struct bench_slot *slot, const struct bench_env *env,
		      struct bench_file *files, unsigned count)
{
	size_t before = bench_descriptors(), during;
	unsigned opened = 0;
	bool good = true;

	while (good && opened < count) {
		const struct bench_item *item = &env->items[opened % env->item_count];
		char *path = bench_join(slot->instance.data_prefix, item->path);

		good = open_one(slot, path, &files[opened]);
		if (!good)
			bench_say("%s: %s: handle %u", slot->target->name, path, opened);
		free(path);
		opened += good;
	}
	during = bench_descriptors();
	while (opened)
		slot->target->ops->close(&files[--opened]);
	if (good)
		printf("%s: %u handles at once, %zu descriptors more\n", slot->target->name, count,
		       during - before);
	return good;
}

bool bench_handles(struct bench_slots *slots, struct bench_env *env)
{
	unsigned count = env->options->handles;
	struct bench_file *files = calloc(count, sizeof(*files));
	bool good = files && slots->count && env->item_count;

	for (size_t i = 0; good && i < slots->count; i++)
		good = hold_many(&slots->slot[i], env, files, count);
	free(files);
	return good;
}
