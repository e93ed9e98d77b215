/*
 * support.c   what every benchmark needs.
 */
#include "bench/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILD_TYPE "sanitizer"
#elif defined(LDR_DEBUG)
#define BUILD_TYPE "debug"
#elif defined(__OPTIMIZE__)
#define BUILD_TYPE "release"
#else
#define BUILD_TYPE "unoptimised"
#endif

void bench_print_build(void)
{
	printf("%s " LDR_VERSION ", build type: " BUILD_TYPE ", compiler: " __VERSION__ "\n",
	       program_invocation_short_name);
	if (strcmp(BUILD_TYPE, "release") != 0)
		bench_say("NOT A RELEASE BUILD (" BUILD_TYPE "): THESE FIGURES MEAN NOTHING; use "
			  "make MODE=release benches");
}

void bench_say(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

char *bench_copy(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		abort();
	return copy;
}

char *bench_join(const char *prefix, const char *rest)
{
	char *whole;

	if (!*prefix)
		return bench_copy(rest);
	if (asprintf(&whole, "%s/%s", prefix, rest) < 0)
		abort();
	return whole;
}

bool bench_make_folders(const char *path)
{
	int code = ldr_os_make_folders(path);

	if (code)
		bench_say("%s: %s", path, strerror(code));
	return code == 0;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
	(void)stat;
	(void)kind;
	(void)where;
	remove(path);
	return 0;
}

void bench_remove_all(const char *folder)
{
	nftw(folder, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static int drop_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
	int fd;

	(void)stat;
	(void)where;
	if (kind != FTW_F || ldr_os_open_file(path, &fd))
		return 0;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	ldr_os_close(fd);
	return 0;
}

void bench_drop_cache(const char *folder)
{
	nftw(folder, drop_one, 32, FTW_PHYS);
}

size_t bench_descriptors(void)
{
	DIR *stream = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t count = 0;

	if (!stream)
		return 0;
	while ((entry = readdir(stream)))
		count += entry->d_name[0] != '.';
	closedir(stream);
	return count - 1; /* the one that lists them */
}

char *bench_program_folder(void)
{
	char *path = realpath("/proc/self/exe", NULL);
	char *slash = path ? strrchr(path, '/') : NULL;

	if (slash)
		*slash = '\0';
	return path ? path : bench_copy(".");
}
