/*
 * Folders for the tests of scan and builder; see folder_fixture.h.
 */
#include "tests/unit/packs/folder_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void folder_begin(struct folder *folder)
{
	snprintf(folder->path, sizeof(folder->path), "/tmp/larder-folder.XXXXXX");
	cr_assert_not_null(mkdtemp(folder->path));
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *walk)
{
	(void)found;
	(void)type;
	(void)walk;
	return remove(path);
}

void folder_end(struct folder *folder)
{
	cr_assert_eq(nftw(folder->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *folder_path(const struct folder *folder, const char *path)
{
	static char paths[16][2048];
	static unsigned next;
	char *whole = paths[next++ % 16];

	snprintf(whole, sizeof(paths[0]), "%s%s%s", folder->path, *path ? "/" : "", path);
	return whole;
}

static void make_parents(const struct folder *folder, const char *path)
{
	char part[1200];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		mkdir(folder_path(folder, part), 0755);
	}
}

void folder_make(const struct folder *folder, const char *path, mode_t mode)
{
	make_parents(folder, path);
	cr_assert_eq(mkdir(folder_path(folder, path), 0755), 0, "%s", path);
	folder_mode(folder, path, mode);
}

void folder_file(const struct folder *folder, const char *path, const void *bytes, size_t length)
{
	int fd;

	make_parents(folder, path);
	fd = open(folder_path(folder, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(write(fd, bytes, length), (ssize_t)length);
	cr_assert_eq(fchmod(fd, 0644), 0);
	close(fd);
}

void folder_text(const struct folder *folder, const char *path, const char *text)
{
	folder_file(folder, path, text, strlen(text));
}

static uint64_t next_random(uint64_t *state)
{
	/* xorshift64* */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

void folder_random(const struct folder *folder, const char *path, uint64_t seed, size_t length)
{
	uint8_t *bytes = malloc(length + 8);
	uint64_t state = seed * 2 + 1;

	cr_assert_not_null(bytes);
	for (size_t i = 0; i < length; i += 8) {
		uint64_t value = next_random(&state);

		memcpy(bytes + i, &value, 8);
	}
	folder_file(folder, path, bytes, length);
	free(bytes);
}

void folder_words(const struct folder *folder, const char *path, uint64_t seed, size_t length)
{
	static const char *const words[] = {"stone ", "river ", "walking ", "under ",
					    "the ",   "hill ",  "and\n",    "castle "};
	char *text = malloc(length + 16);
	uint64_t state = seed * 2 + 1;
	size_t used = 0;

	cr_assert_not_null(text);
	while (used < length) {
		const char *word = words[next_random(&state) >> 61];

		memcpy(text + used, word, strlen(word));
		used += strlen(word);
	}
	folder_file(folder, path, text, length);
	free(text);
}

void folder_link(const struct folder *folder, const char *path, const char *target)
{
	make_parents(folder, path);
	cr_assert_eq(symlink(target, folder_path(folder, path)), 0, "%s", path);
}

void folder_mode(const struct folder *folder, const char *path, mode_t mode)
{
	cr_assert_eq(chmod(folder_path(folder, path), mode), 0, "%s", path);
}

void folder_age(const struct folder *folder, const char *path)
{
	static const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

	cr_assert_eq(utimensat(AT_FDCWD, folder_path(folder, path), times, 0), 0, "%s", path);
}

void folder_remove(const struct folder *folder, const char *path)
{
	cr_assert_eq(remove(folder_path(folder, path)), 0, "%s", path);
}

uint8_t *folder_read(const struct folder *folder, const char *path, size_t *out_length)
{
	int fd = open(folder_path(folder, path), O_RDONLY | O_CLOEXEC);
	struct stat found;
	uint8_t *bytes;

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(fstat(fd, &found), 0);
	bytes = malloc((size_t)found.st_size + 1);
	cr_assert_not_null(bytes);
	cr_assert_eq(read(fd, bytes, (size_t)found.st_size), found.st_size);
	close(fd);
	*out_length = (size_t)found.st_size;
	return bytes;
}
