/*
 * The disk cache under load: several processes, each with several threads, put and read blocks in one
 * folder that is too small for them, while one clears it now and then and one is killed in the midst.
 * What is read is right or not there; the counters of each process add up; the folder stays within its
 * quota; and afterwards it opens and every block it claims to hold is good.
 *
 * Processes are forked before any thread is started.
 */
#include "cache/disk.h"

#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 3u
#define THREADS 3u
#define STEPS 700u
#define SEEDS 300u
#define QUOTA (UINT64_C(8) << 20)

struct shared {
	struct ldr_disk_cache *cache;
	atomic_uint_fast64_t reads, hits, faults;
	struct ldr_block_ref blocks[SEEDS];
};

struct worker {
	struct shared *shared;
	uint32_t random;
	unsigned clears; /* clears at every so manieth step; 0: never */
};

static uint32_t next_random(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

static void fill(uint32_t seed, uint32_t length, uint8_t *bytes)
{
	uint32_t random = seed + 1;

	for (uint32_t at = 0; at < length; at++)
		bytes[at] = (uint8_t)next_random(&random);
}

static uint32_t length_of(uint32_t seed)
{
	uint32_t random = seed * 31 + 7;

	return 1 + next_random(&random) % 90000;
}

static void one_step(struct worker *worker, struct ldr_coder *coder, struct ldr_hasher *hasher,
		     uint8_t *expected, uint8_t *plain)
{
	struct shared *shared = worker->shared;
	uint32_t seed = next_random(&worker->random) % SEEDS;
	const struct ldr_block_ref *block = &shared->blocks[seed];

	fill(seed, block->plain_bytes, expected);
	atomic_fetch_add(&shared->reads, 1);
	if (ldr_disk_read(shared->cache, block, coder, hasher, plain, NULL)) {
		ldr_disk_put(shared->cache, block, LDR_CODEC_NONE, expected, block->plain_bytes);
		return;
	}
	atomic_fetch_add(&shared->hits, 1);
	if (memcmp(plain, expected, block->plain_bytes) != 0)
		atomic_fetch_add(&shared->faults, 1);
}

static void *run(void *argument)
{
	struct worker *worker = argument;
	struct ldr_coder *coder = ldr_coder_new();
	struct ldr_hasher *hasher = ldr_hasher_new();
	uint8_t *expected = malloc(LDR_BLOCK_MAX_BYTES), *plain = malloc(LDR_BLOCK_MAX_BYTES);

	for (unsigned step = 1; step <= STEPS; step++) {
		one_step(worker, coder, hasher, expected, plain);
		if (worker->clears && step % worker->clears == 0)
			ldr_disk_trim(worker->shared->cache, step % 2 ? 0 : QUOTA / 2, NULL);
		if (step % 200 == 199)
			ldr_disk_flush(worker->shared->cache, NULL);
	}
	free(expected);
	free(plain);
	ldr_coder_free(coder);
	ldr_hasher_free(hasher);
	return NULL;
}

static int process(const char *path, unsigned number)
{
	static struct shared shared;
	const struct ldr_disk_options options = {
		.quota_bytes = QUOTA, .free_floor_bytes = 1, .seal_bytes = 512 << 10};
	uint8_t *bytes = malloc(LDR_BLOCK_MAX_BYTES);
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct ldr_disk_stat stat;
	struct ldr_error err = {0};

	for (uint32_t seed = 0; seed < SEEDS; seed++) {
		shared.blocks[seed].plain_bytes = length_of(seed);
		fill(seed, length_of(seed), bytes);
		if (ldr_digest_once(bytes, length_of(seed), &shared.blocks[seed].id, NULL))
			return 1;
	}
	free(bytes);
	if (ldr_disk_open(path, &options, &shared.cache, &err)) {
		printf("process %u: %s\n", number, err.text);
		return 1;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){&shared, number * 1000 + i * 77 + 5,
					     number == 1 && i == 0 ? 250 : 0};
		if (pthread_create(&threads[i], NULL, run, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ldr_disk_stat(shared.cache, &stat);
	printf("process %u: reads %llu hits %llu puts %llu dropped %llu evicted %llu bad %llu %s\n",
	       number, (unsigned long long)shared.reads, (unsigned long long)stat.hits,
	       (unsigned long long)stat.puts, (unsigned long long)stat.puts_dropped,
	       (unsigned long long)stat.evicted_packs, (unsigned long long)stat.bad_blocks,
	       stat.trouble);
	ldr_disk_close(shared.cache);
	return shared.faults || stat.bad_blocks || stat.hits != shared.hits || stat.hits == 0 ||
	       stat.hits + stat.misses != shared.reads;
}

static uint64_t bytes_in(const char *path)
{
	DIR *names = opendir(path);
	struct dirent *entry;
	char name[600];
	struct stat info;
	uint64_t bytes = 0;

	while (names && (entry = readdir(names)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (lstat(name, &info) == 0 && S_ISREG(info.st_mode))
			bytes += ((uint64_t)info.st_size + 4095) / 4096 * 4096;
	}
	if (names)
		closedir(names);
	return bytes;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	(void)type;
	(void)walk;
	return remove(path);
}

/* All but the killed one must end well. */
static int wait_for(pid_t processes[PROCESSES + 1], const char *packs)
{
	int failed = 0;

	/* Killed when it has begun to write: there is a temporary or a pack of somebody by then. */
	while (bytes_in(packs) < (1 << 20) && waitpid(processes[PROCESSES], NULL, WNOHANG) == 0)
		usleep(1000);
	kill(processes[PROCESSES], SIGKILL);
	for (unsigned i = 0; i < PROCESSES; i++) {
		int status;

		waitpid(processes[i], &status, 0);
		failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	waitpid(processes[PROCESSES], NULL, 0);
	return failed;
}

static int check_afterwards(const char *path, const char *packs)
{
	struct ldr_disk_cache *cache = NULL;
	uint64_t blocks = 0, bad = 0;
	struct ldr_disk_stat stat;

	if (ldr_disk_open(path, NULL, &cache, NULL) || ldr_disk_verify(cache, &blocks, &bad, NULL))
		return 1;
	ldr_disk_stat(cache, &stat);
	printf("afterwards: %llu blocks, %llu bad, %llu bytes, swept %llu\n",
	       (unsigned long long)blocks, (unsigned long long)bad,
	       (unsigned long long)bytes_in(packs), (unsigned long long)stat.swept);
	ldr_disk_close(cache);
	return bad || blocks == 0 || bytes_in(packs) > QUOTA;
}

int main(void)
{
	const char *parent = getenv("TMPDIR");
	char path[256], packs[300];
	pid_t processes[PROCESSES + 1];
	int failed;

	snprintf(path, sizeof(path), "%s/larder-stress.XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(path))
		return 1;
	snprintf(packs, sizeof(packs), "%s/packs", path);
	for (unsigned i = 0; i <= PROCESSES; i++) {
		fflush(stdout);
		processes[i] = fork();
		if (processes[i] == 0)
			exit(process(path, i));
		if (processes[i] < 0)
			return 1;
	}
	failed = wait_for(processes, packs);
	failed |= check_afterwards(path, packs);
	nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	return failed;
}
