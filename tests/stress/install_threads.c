/*
 * Several installations at once, each with several workers, from one folder store and one cache: fresh ones,
 * updates and resumed ones. Every folder is checked byte by byte. Meant for MODE=tsan.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/client_world.h"

#define THREADS 4
#define ROUNDS 3
#define RELEASES 3
#define FILES 24

struct thread {
	const struct client_world *world;
	unsigned number;
	pthread_t handle;
};

/* Half of the files are the same in all releases, some blocks lie in several files. */
static void make_release(const struct client_world *world, unsigned release)
{
	char tree[32], name[64];

	snprintf(tree, sizeof(tree), "tree%u", release);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%s/%s/file%u", tree, i % 3 ? "deep/er" : "flat", i);
		client_noise(world, name, i * 9001, i % 2 ? i / 4 : release * 100 + i);
	}
	client_publish(world, tree, "live");
}

static void *run(void *argument)
{
	const struct thread *thread = argument;
	char path[CLIENT_PATH_BYTES], target[32], source[32];

	snprintf(target, sizeof(target), "out%u", thread->number);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned release = 1 + (thread->number + round) % RELEASES;
		struct ldr_check_report report;
		struct ldr_error err = {0};

		snprintf(source, sizeof(source), "live@%u", release);
		if (client_fetch(thread->world, source, target, NULL, &err) ||
		    ldr_install_check(client_path(thread->world, target, path), NULL, NULL, &report,
				      &err)) {
			fprintf(stderr, "install threads: %s\n", err.text);
			abort();
		}
		assert(report.files == FILES && report.faults == 0);
	}
	return NULL;
}

int main(void)
{
	struct thread threads[THREADS] = {0};
	struct client_world world;

	client_world_make(&world);
	for (unsigned i = 1; i <= RELEASES; i++)
		make_release(&world, i);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){.world = &world, .number = i};
		assert(pthread_create(&threads[i].handle, NULL, run, &threads[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert(pthread_join(threads[i].handle, NULL) == 0);
	client_world_remove(&world);
	printf("install threads: %d folders, %d rounds\n", THREADS, ROUNDS);
	return 0;
}
