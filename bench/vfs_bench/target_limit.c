/*
 * target_limit.c   limit:table, the floor: what a virtual file system could be at best.
 *
 * A bare hash table of names (open addressing, half full, names compared whole), attributes beside the
 * name, bytes in memory on huge pages, copied by memcpy. It checks no path, knows no mounts, handles,
 * layers or threads, and cannot be changed. Random reads are copied from a mapping of the file, which is
 * what the system gives without work.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/vfs_bench/env.h"
#include "common/os.h"
#include "common/os_arena.h"

struct entry {
	const char *name;
	const uint8_t *bytes;
	uint64_t size;
	uint32_t length;
	uint32_t folder_bytes; /* of the name, before the last slash */
};

struct slot {
	uint64_t hash;
	uint64_t entry; /* index + 1; 0: free */
};

struct table {
	struct entry *entry;
	size_t count;   /* of the files, which come first and are sorted */
	size_t entries; /* with the folders behind them */
	struct slot *slot;
	size_t slot_bytes;
	uint64_t mask;
	uint8_t *arena;
	size_t arena_bytes;
	const void *mapped; /* the largest file */
	size_t mapped_bytes;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	__uint128_t product = (__uint128_t)(hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_name(const char *name, size_t length)
{
	uint64_t hash = length * UINT64_C(0xD6E8FEB86659FD93), word = 0;

	for (; length >= sizeof(word); name += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, name, sizeof(word));
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, name, length);
	return mix(hash, word);
}

static const struct entry *find_name(const struct table *table, const char *name, size_t length)
{
	uint64_t hash = hash_name(name, length);

	for (uint64_t i = hash & table->mask;; i = (i + 1) & table->mask) {
		const struct slot *slot = &table->slot[i];
		const struct entry *entry;

		if (!slot->entry)
			return NULL;
		if (slot->hash != hash)
			continue;
		entry = &table->entry[slot->entry - 1];
		if (entry->length == length && !memcmp(entry->name, name, length))
			return entry;
	}
}

static const struct entry *find(const struct table *table, const char *name)
{
	return find_name(table, name, strlen(name));
}

static void insert(struct table *table, size_t index)
{
	const struct entry *entry = &table->entry[index];
	uint64_t hash = hash_name(entry->name, entry->length);
	uint64_t i = hash & table->mask;

	while (table->slot[i].entry)
		i = (i + 1) & table->mask;
	table->slot[i] = (struct slot){hash, index + 1};
}

/* The folders above a file, as entries without bytes. */
static void insert_folders(struct table *table, const char *path)
{
	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		uint32_t length = (uint32_t)(slash - path);

		if (find_name(table, path, length))
			continue;
		table->entry[table->entries] = (struct entry){.name = path, .length = length};
		insert(table, table->entries++);
	}
}

static size_t count_slashes(const struct bench_env *env)
{
	size_t count = 0;

	for (size_t i = 0; i < env->item_count; i++)
		for (const char *at = env->items[i].path; (at = strchr(at, '/')); at++)
			count++;
	return count;
}

static void limit_down(void *self)
{
	struct table *table = self;

	if (table->mapped)
		ldr_os_unmap(table->mapped, table->mapped_bytes);
	ldr_os_arena_unmap(table->arena, table->arena_bytes);
	ldr_os_arena_unmap(table->slot, table->slot_bytes);
	free(table->entry);
	free(table);
}

static bool map_largest(struct table *table, const struct bench_env *env, size_t largest)
{
	char *path = bench_join(env->tree, env->items[largest].path);
	volatile const uint8_t *bytes;
	const void *mapped = NULL;
	int fd, code = ldr_os_open_file(path, &fd);

	if (!code) {
		code = ldr_os_map(fd, env->items[largest].size, &mapped);
		ldr_os_close(fd);
	}
	free(path);
	if (code)
		return false;
	table->mapped = mapped;
	bytes = mapped;
	table->mapped_bytes = env->items[largest].size;
	for (size_t i = 0; i < table->mapped_bytes; i += 4096)
		(void)bytes[i];
	table->entry[largest].bytes = mapped;
	return true;
}

static bool load(struct table *table, const struct bench_env *env)
{
	size_t at = 0, largest = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct bench_item *item = &env->items[i];
		const char *slash = strrchr(item->path, '/');

		table->entry[i] = (struct entry){
			.name = item->path,
			.bytes = table->arena + at,
			.size = item->size,
			.length = (uint32_t)strlen(item->path),
			.folder_bytes = slash ? (uint32_t)(slash - item->path) : 0,
		};
		if (!bench_item_load(env, item, table->arena + at))
			return false;
		at += (item->size + 63) & ~(uint64_t)63;
		largest = item->size > env->items[largest].size ? i : largest;
		insert(table, i);
	}
	for (size_t i = 0; i < table->count; i++)
		insert_folders(table, env->items[i].path);
	return env->items[largest].size == 0 || map_largest(table, env, largest);
}

static bool limit_up(const struct bench_target *target, struct bench_env *env,
		     struct bench_instance *out)
{
	struct table *table = calloc(1, sizeof(*table));
	size_t slots = 64, most;
	void *arena = NULL, *slot = NULL;

	(void)target;
	if (!table || !env->item_count)
		return false;
	most = env->item_count + count_slashes(env);
	while (slots < most * 2)
		slots *= 2;
	table->count = table->entries = env->item_count;
	table->mask = slots - 1;
	table->slot_bytes = slots * sizeof(struct slot);
	table->arena_bytes = env->item_bytes + 64 * env->item_count + 1;
	table->entry = calloc(most, sizeof(*table->entry));
	if (table->entry && !ldr_os_arena_map(table->arena_bytes, &arena) &&
	    !ldr_os_arena_map(table->slot_bytes, &slot)) {
		table->arena = arena;
		table->slot = slot;
		*out = (struct bench_instance){.self = table, .data_prefix = bench_copy("")};
		if (load(table, env))
			return true;
	}
	limit_down(table);
	return false;
}

static bool limit_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	const struct entry *entry = find(self, path);

	(void)mode;
	file->object = (void *)(uintptr_t)entry;
	file->offset = 0;
	return entry != NULL;
}

static void limit_close(struct bench_file *file)
{
	(void)file;
}

static bool limit_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			  size_t *out_length)
{
	const struct entry *entry = file->object;
	uint64_t left = offset < entry->size ? entry->size - offset : 0;

	*out_length = length < left ? length : (size_t)left;
	memcpy(bytes, entry->bytes + offset, *out_length);
	return true;
}

static bool limit_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	bool good = limit_read_at(file, bytes, length, file->offset, out_length);

	file->offset += *out_length;
	return good;
}

static bool limit_stat(void *self, const char *path, uint64_t *out_size)
{
	const struct entry *entry = find(self, path);

	if (entry)
		*out_size = entry->size;
	return entry != NULL;
}

static bool limit_absent(void *self, const char *path)
{
	return find(self, path) == NULL;
}

/* The entries are sorted, so those of a folder lie side by side (but for the folders in it). */
static bool limit_list(void *self, const char *folder, uint64_t *out_count)
{
	const struct table *table = self;
	size_t length = strlen(folder);
	size_t low = 0, high = table->count;
	uint64_t count = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(table->entry[middle].name, folder) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < table->count && !strncmp(table->entry[low].name, folder, length); low++)
		count += table->entry[low].folder_bytes == length;
	*out_count = count;
	return true;
}

static const struct bench_ops limit_ops = {
	.open = limit_open,
	.close = limit_close,
	.read = limit_read,
	.read_at = limit_read_at,
	.stat = limit_stat,
	.absent = limit_absent,
	.list = limit_list,
};

const struct bench_target bench_target_limit = {
	.name = "limit:table",
	.traits = BENCH_OPENS | BENCH_IN_MEMORY,
	.ops = &limit_ops,
	.up = limit_up,
	.down = limit_down,
};
