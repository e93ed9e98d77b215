/*
 * The environment of a run: options, the dataset on the disk, and what targets have made of it
 * (packs, a zip, servers), each made once, when the first target asks for it.
 *
 * The working folder:
 *	tree/{small,medium,large}/	the dataset (or --data, elsewhere)
 *	tree/write/			where writing scenarios write
 *	made/				packs, zip, gzipped copies, store, caches
 *	stamp				what the dataset was made from; --keep uses it again when it is the same
 *
 * Threads: the main thread only.
 */
#ifndef LDR_BENCH_ENV_H
#define LDR_BENCH_ENV_H

#include "bench/vfs_bench/options.h"
#include "bench/vfs_bench/target.h"

#define BENCH_SMALL_BYTES (4u * 1024)
#define BENCH_MEDIUM_BYTES (256u * 1024)
#define BENCH_MEDIUM_CHUNK (64u * 1024)
#define BENCH_LARGE_CHUNK (1024u * 1024)
#define BENCH_CREATE_BYTES (64u * 1024)
#define BENCH_BUFFER_BYTES BENCH_LARGE_CHUNK

/* How much there is to do at the scale asked for. */
struct bench_counts {
	uint32_t small;
	uint32_t medium;
	uint64_t large_bytes;
	uint32_t random_reads;
	uint32_t lists;
	uint32_t creates;
	uint32_t churns;
	uint64_t overwrite_bytes;
	uint32_t overwrites;
	uint32_t append_rounds;
};

/* A file of the dataset; path below the tree. */
struct bench_item {
	char *path;
	uint64_t size;
};

struct bench_env {
	const struct bench_options *options;
	struct bench_counts counts;
	char *work;    /* absolute */
	char *tree;    /* absolute; the data */
	char *made;    /* absolute */
	char *program; /* the folder of this program, where larderd lies one above */
	struct bench_item *items;
	size_t item_count;
	uint64_t item_bytes;
	bool own_tree; /* may be written below tree/write */
};

/* Fills bytes with data that lz4 makes 3.5 times smaller, the same for the same seed. */
void bench_fill(uint64_t seed, uint8_t *bytes, size_t length);
uint64_t bench_random(uint64_t *state);

bool bench_env_up(struct bench_env *env, const struct bench_options *options, const char *program);
/* The dataset, or the tree of a trace; then every file of it is in items. */
bool bench_dataset(struct bench_env *env);
bool bench_env_walk(struct bench_env *env);
void bench_env_down(struct bench_env *env);

/* Reads a whole file of the dataset into bytes (its size), from the host. */
bool bench_item_load(const struct bench_env *env, const struct bench_item *item, uint8_t *bytes);
/* A file of the tree: the folders above it are made. */
bool bench_write_file(const char *path, uint64_t size, uint64_t seed);
/* The whole dataset on the disk, nothing else in flight. */
void bench_settle(const struct bench_env *env);

#endif
