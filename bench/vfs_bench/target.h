/*
 * Targets: what the benchmark compares. Each is a table of the same few operations over its own way
 * of keeping files; the scenarios (scenarios.h) know nothing else.
 *
 * Paths are whole texts made beforehand (names.h), so that no scenario spends time on building them;
 * what a target wants in front of them it says in its instance.
 *
 * Every operation returns whether it worked; a failure ends the benchmark with the operation's path.
 *
 * Threads: operations are called by many threads at once, each with its own files. Where enter is
 * given, `self` is what it returned for the calling thread.
 *
 * Also included by C++ (target_fstream.cc).
 */
#ifndef LDR_BENCH_TARGET_H
#define LDR_BENCH_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/support.h"

#ifdef __cplusplus
extern "C" {
#endif

enum bench_mode {
	BENCH_READ,
	BENCH_CREATE,     /* write, emptied when there */
	BENCH_OVERLAPPED, /* read and write, kept as it is */
	BENCH_APPEND,
};

/* An open file, in the scenario's storage. */
struct bench_file {
	void *object;
	uint64_t offset;
	uint64_t word[4];
};

/* What a target cannot do is NULL, and the scenarios that need it leave the target out. */
struct bench_ops {
	void *(*enter)(void *self); /* a thread begins; NULL: self serves all */
	void (*leave)(void *thread_self);
	bool (*open)(void *self, const char *path, enum bench_mode mode, struct bench_file *file);
	void (*close)(struct bench_file *file);
	/* The next bytes; *out_length is smaller only at the end. */
	bool (*read)(struct bench_file *file, void *bytes, size_t length, size_t *out_length);
	bool (*read_at)(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			size_t *out_length);
	bool (*write)(struct bench_file *file, const void *bytes, size_t length);
	bool (*write_at)(struct bench_file *file, const void *bytes, size_t length,
			 uint64_t offset);
	bool (*stat)(void *self, const char *path, uint64_t *out_size);
	/* Whether it is certain that nothing of that name is there. */
	bool (*absent)(void *self, const char *path);
	bool (*list)(void *self, const char *folder, uint64_t *out_count);
	bool (*make_folder)(void *self, const char *path);
	bool (*remove)(void *self, const char *path);
};

enum bench_trait {
	BENCH_WRITES = 1u,        /* create and churn */
	BENCH_HANDLE_WRITES = 2u, /* large writes, overwriting, appending */
	BENCH_OPENS = 4u,         /* opening does something of its own */
	BENCH_IN_MEMORY = 8u,     /* nothing to be cold about */
	BENCH_OURS = 16u,         /* Larder: the counting allocator watches it */
};

struct bench_env;

/* A target that is up. */
struct bench_instance {
	void *self;
	char *data_prefix;  /* before "small/000001"; owned, freed by the runner */
	char *write_prefix; /* before "t0/c000001"; owned */
};

struct bench_target {
	const char *name;
	unsigned traits;
	const struct bench_ops *ops;
	const void *recipe; /* the target's own */
	/* False after bench_say: the target is left out, or the benchmark fails with --strict. */
	bool (*up)(const struct bench_target *target, struct bench_env *env,
		   struct bench_instance *out);
	void (*down)(void *self);
	/* Untimed, before each timed run; NULL: nothing to do. */
	bool (*ready)(void *self);
};

extern const struct bench_target bench_target_stdio;
extern const struct bench_target bench_target_fstream;
extern const struct bench_target bench_target_posix;
extern const struct bench_target bench_target_limit;
extern const struct bench_target bench_target_physfs_zip;
extern const struct bench_target bench_target_physfs_folder;
extern const struct bench_target bench_target_http;
extern const struct bench_target bench_target_http_gzip;

/* All of them, the reference first. i < count. */
size_t bench_target_count(void);
const struct bench_target *bench_target_at(size_t i);

#ifdef __cplusplus
}
#endif

#endif
