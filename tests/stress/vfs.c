/*
 * The virtual file system under threads: readers, listers and writers while mounts come, go and are
 * switched.
 *
 * What must hold, whoever runs when: a read gives bytes of one version of the file, never a
 * mixture; a listing is sorted and has no name twice; the file below every stack is always there;
 * no handle is left, and every layer is freed.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/table_layer.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/vfs.h"

#define READERS 4
#define ROUNDS 2000
#define SWITCHES 400
#define FILE_BYTES 6000

enum { BASE = 1, SWITCHED = 2, TARGET = 3, COMING = 4 };

struct world {
	struct ldr_vfs *vfs;
	atomic_bool done;
};

static char versions[3][FILE_BYTES];
static struct table_row rows[3][4];

static void must(enum ldr_status status)
{
	if (status != LDR_OK) {
		fprintf(stderr, "vfs: %s\n", ldr_status_name(status));
		abort();
	}
}

static void read_once(struct ldr_vfs *vfs, const char *path)
{
	char bytes[FILE_BYTES];
	struct ldr_file *file;
	size_t got;

	must(ldr_vfs_open(vfs, path, LDR_OPEN_READ, &file, NULL));
	for (int half = 0; half < 2; half++) {
		must(ldr_file_pread(file, bytes + half * FILE_BYTES / 2, FILE_BYTES / 2,
				    (uint64_t)half * FILE_BYTES / 2, &got, NULL));
		assert(got == FILE_BYTES / 2);
	}
	for (size_t i = 1; i < FILE_BYTES; i++)
		assert(bytes[i] == bytes[0]);
	ldr_file_close(file);
}

static void list_once(struct ldr_vfs *vfs, const char *path)
{
	struct ldr_list_entry entry, last = {.name = NULL};
	struct ldr_list *list;

	must(ldr_vfs_list(vfs, path, &list, NULL));
	for (size_t i = 0; i < ldr_list_count(list); i++) {
		ldr_list_at(list, i, &entry);
		assert(!last.name || strcmp(last.name, entry.name) < 0);
		last = entry;
	}
	ldr_list_free(list);
}

static void *read_all(void *argument)
{
	struct world *world = argument;

	for (int i = 0; i < ROUNDS; i++) {
		struct ldr_stat found;

		read_once(world->vfs, "data/file");
		must(ldr_vfs_stat(world->vfs, "data/only", &found, NULL));
		assert(ldr_vfs_exists(world->vfs, "data/nothing", NULL) == LDR_ENOTFOUND);
		if (i % 16 == 0)
			list_once(world->vfs, i % 32 ? "data" : "");
	}
	return NULL;
}

/* Files of its own, in the write target; each step must succeed whatever is switched below. */
static void *write_all(void *argument)
{
	struct world *world = argument;

	for (int i = 0; i < ROUNDS / 4; i++) {
		char path[64], other[64];
		struct ldr_file *file;

		snprintf(path, sizeof(path), "saves/%d/slot", i % 7);
		snprintf(other, sizeof(other), "saves/%d/done", i % 7);
		must(ldr_vfs_open(world->vfs, path, LDR_OPEN_WRITE, &file, NULL));
		must(ldr_file_pwrite(file, versions[0], 100, 0, NULL));
		ldr_file_close(file);
		must(ldr_vfs_rename(world->vfs, path, other, NULL));
		must(ldr_vfs_replace(world->vfs, path, "x", 1, LDR_SYNC_NONE, NULL));
		must(ldr_vfs_remove(world->vfs, other, NULL));
	}
	return NULL;
}

static struct ldr_layer *layer_of(int version, struct table_moods *moods)
{
	struct ldr_layer *layer;

	must(table_layer_new(rows[version], 4, false, moods, &layer, NULL));
	return layer;
}

/* Switches the release, and mounts and unmounts a layer that covers nothing. */
static void *switch_all(void *argument)
{
	struct world *world = argument;
	static struct table_moods moods;

	for (int i = 0; i < SWITCHES; i++) {
		struct ldr_layer *next = layer_of(1 + i % 2, &moods);
		struct ldr_mount changes[2] = {
			{.id = SWITCHED, .layer = next, .precedence = 5},
			{.id = COMING, .layer = i % 2 ? NULL : next, .at = "extra/deep"}};

		must(ldr_vfs_apply(world->vfs, changes, 2, NULL));
		ldr_layer_unref(next);
		if (i % 8 == 0)
			ldr_vfs_settle(world->vfs);
	}
	atomic_store(&world->done, true);
	return &moods;
}

int main(void)
{
	static struct table_moods base_moods;
	struct ldr_vfs_metrics metrics;
	struct world world = {.vfs = NULL};
	struct ldr_layer *base, *target;
	pthread_t threads[READERS + 2];
	void *switched = NULL;

	for (int v = 0; v < 3; v++) {
		memset(versions[v], 'a' + v, FILE_BYTES);
		rows[v][0] = (struct table_row){"data", NULL, 0};
		rows[v][1] = (struct table_row){"data/file", versions[v], FILE_BYTES};
		rows[v][2] = (struct table_row){v == 0 ? "data/only" : "data/more", "y", 1};
		rows[v][3] = (struct table_row){"top", "z", 1};
	}
	must(ldr_vfs_new(NULL, &world.vfs, NULL));
	base = layer_of(0, &base_moods);
	must(ldr_layer_memory_new(NULL, &target, NULL));
	must(ldr_vfs_mount(world.vfs, &(struct ldr_mount){.id = BASE, .layer = base}, NULL));
	must(ldr_vfs_mount(
		world.vfs,
		&(struct ldr_mount){
			.id = TARGET, .layer = target, .precedence = 9, .flags = LDR_MOUNT_WRITE},
		NULL));
	ldr_layer_unref(base);
	ldr_layer_unref(target);
	for (int i = 0; i < READERS; i++)
		assert(pthread_create(&threads[i], NULL, read_all, &world) == 0);
	assert(pthread_create(&threads[READERS], NULL, write_all, &world) == 0);
	assert(pthread_create(&threads[READERS + 1], NULL, switch_all, &world) == 0);
	for (int i = 0; i < READERS + 2; i++)
		assert(pthread_join(threads[i], &switched) == 0);
	ldr_vfs_settle(world.vfs);
	ldr_vfs_metrics(world.vfs, &metrics);
	assert(metrics.handles_open == 0);
	ldr_vfs_free(world.vfs);
	assert(base_moods.freed == 1);
	assert(((struct table_moods *)switched)->freed == SWITCHES);
	printf("ok vfs: %d switches under %d readers\n", SWITCHES, READERS);
	return 0;
}
