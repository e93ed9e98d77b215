/*
 * verify.c   every file of the tree through a target.
 */
#include "bench/vfs_bench/verify.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/vfs_bench/vfs_mounts.h"
#include "bench/vfs_bench/vfs_targets.h"

#define THREADS 8
#define RANGE_MOST 70000u

/* What the host has, read once. */
struct wanted {
	uint8_t *bytes;
	uint64_t *start; /* of each item */
};

struct visitor {
	const struct bench_slot *slot;
	const struct bench_env *env;
	const struct wanted *wanted;
	unsigned index;
	uint8_t *buffer;
	uint64_t compared;
	const char *bad; /* the path that differs; NULL: none */
};

static bool load_all(const struct bench_env *env, struct wanted *out)
{
	uint64_t at = 0;

	out->bytes = malloc(env->item_bytes + 1);
	out->start = calloc(env->item_count + 1, sizeof(*out->start));
	if (!out->bytes || !out->start)
		return false;
	for (size_t i = 0; i < env->item_count; i++) {
		out->start[i] = at;
		if (!bench_item_load(env, &env->items[i], out->bytes + at))
			return false;
		at += env->items[i].size;
	}
	return true;
}

/* A range of the file, which may reach past its end. */
static bool compare_range(struct visitor *visitor, struct bench_file *file, size_t item,
			  uint64_t offset, size_t length)
{
	uint64_t size = visitor->env->items[item].size;
	uint64_t left = offset < size ? size - offset : 0;
	size_t wanted = length < left ? length : (size_t)left, got = 0;

	if (!visitor->slot->target->ops->read_at(file, visitor->buffer, length, offset, &got) ||
	    got != wanted)
		return false;
	visitor->compared += got;
	return !memcmp(visitor->buffer,
		       visitor->wanted->bytes + visitor->wanted->start[item] + offset, got);
}

static bool compare_whole(struct visitor *visitor, struct bench_file *file, size_t item)
{
	uint64_t size = visitor->env->items[item].size;
	bool good = true;

	for (uint64_t at = 0; good && at <= size; at += RANGE_MOST)
		good = compare_range(visitor, file, item, at, RANGE_MOST);
	return good;
}

static bool visit(struct visitor *visitor, void *self, size_t item, uint64_t *state)
{
	const struct bench_ops *ops = visitor->slot->target->ops;
	const struct bench_item *held = &visitor->env->items[item];
	char *path = bench_join(visitor->slot->instance.data_prefix, held->path);
	uint64_t dice = bench_random(state);
	struct bench_file file;
	bool good = false;

	if (ops->open(self, path, BENCH_READ, &file)) {
		if (item % THREADS == visitor->index)
			good = compare_whole(visitor, &file, item);
		else
			good = compare_range(visitor, &file, item, dice % (held->size + 2),
					     1 + (dice >> 40) % RANGE_MOST);
		ops->close(&file);
	}
	free(path);
	if (!good)
		visitor->bad = held->path;
	return good;
}

static void *visit_all(void *argument)
{
	struct visitor *visitor = argument;
	const struct bench_ops *ops = visitor->slot->target->ops;
	void *self = visitor->slot->instance.self;
	size_t count = visitor->env->item_count;
	size_t at = count * visitor->index / THREADS;
	uint64_t state = visitor->index + 1;
	bool good = true;

	if (ops->enter)
		self = ops->enter(self);
	for (size_t i = 0; good && i < count; i++) {
		good = visit(visitor, self, at, &state);
		/* Half of the threads go the other way round. */
		at = visitor->index % 2 ? (at + 1) % count : (at + count - 1) % count;
	}
	if (ops->leave)
		ops->leave(self);
	return NULL;
}

static bool verify_slot(const struct bench_slot *slot, const struct bench_env *env,
			const struct wanted *wanted)
{
	struct visitor visitors[THREADS];
	pthread_t ids[THREADS];
	uint64_t compared = 0;
	const char *bad = NULL;

	for (unsigned i = 0; i < THREADS; i++) {
		visitors[i] = (struct visitor){.slot = slot,
					       .env = env,
					       .wanted = wanted,
					       .index = i,
					       .buffer = malloc(RANGE_MOST)};
		if (!visitors[i].buffer || pthread_create(&ids[i], NULL, visit_all, &visitors[i]))
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		free(visitors[i].buffer);
		compared += visitors[i].compared;
		bad = visitors[i].bad ? visitors[i].bad : bad;
	}
	if (slot->target->ops == &bench_vfs_ops &&
	    ((struct bench_mounts *)slot->instance.self)->archive_ms > 0)
		printf("opened %s in %.1f ms\n", slot->target->name,
		       ((struct bench_mounts *)slot->instance.self)->archive_ms);
	if (bad)
		bench_say("%s: %s differs from the host's", slot->target->name, bad);
	else
		printf("verified %s: %zu files, %.1f MiB compared by %d threads\n",
		       slot->target->name, env->item_count, (double)compared / (1024 * 1024),
		       THREADS);
	return !bad;
}

bool bench_verify(struct bench_slots *slots, struct bench_env *env)
{
	struct wanted wanted = {0};
	bool good = load_all(env, &wanted) && slots->count > 0;

	/* Once more up, so that what is kept between runs is used. */
	for (size_t i = 0; i < slots->count && good; i++)
		good = bench_slot_again(&slots->slot[i], env) &&
		       verify_slot(&slots->slot[i], env, &wanted);
	free(wanted.bytes);
	free(wanted.start);
	return good;
}
