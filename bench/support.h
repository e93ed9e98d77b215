/*
 * What every benchmark needs: messages, texts, the clock, folders, descriptors.
 *
 * Threads: any, but bench_say's lines of several threads may come in any order.
 *
 * Also included by C++.
 */
#ifndef LDR_BENCH_SUPPORT_H
#define LDR_BENCH_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One line on standard error, behind the program's name. */
void bench_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* prefix + "/" + rest, or only rest where prefix is ""; owned by the caller. */
char *bench_join(const char *prefix, const char *rest);
char *bench_copy(const char *text);

static inline uint64_t bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool bench_make_folders(const char *path);
/* Removes a folder and all below it; one that is not there is no failure. */
void bench_remove_all(const char *folder);
/* Drops every file below a folder from the page cache. */
void bench_drop_cache(const char *folder);

/* Descriptors that this process has open. */
size_t bench_descriptors(void);
/* The folder of this program, for the programs beside it; owned by the caller. */
char *bench_program_folder(void);
/* The program's version, build type and compiler on standard output, with a warning where figures would mean
 * nothing. */
void bench_print_build(void);

#ifdef __cplusplus
}
#endif

#endif
