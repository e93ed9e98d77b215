/*
 * See scratch.h.
 */
#include "tests/unit/common/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(bool holds, const char *what, const char *path)
{
	if (holds)
		return;
	fprintf(stderr, "scratch: %s %s: %s\n", what, path, strerror(errno));
	abort();
}

void scratch_open(struct scratch *scratch)
{
	const char *above = getenv("TMPDIR");

	snprintf(scratch->path, sizeof(scratch->path), "%s/larder-unit.XXXXXX",
		 above ? above : "/tmp");
	must(mkdtemp(scratch->path) != NULL, "make", scratch->path);
	scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(scratch->fd >= 0, "open", scratch->path);
}

static int open_folder(const char *path, const struct stat *found, int type, struct FTW *where)
{
	(void)found;
	(void)where;
	return type == FTW_D || type == FTW_DNR ? chmod(path, 0700) : 0;
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *where)
{
	(void)found;
	(void)type;
	(void)where;
	return remove(path);
}

void scratch_close(struct scratch *scratch)
{
	close(scratch->fd);
	nftw(scratch->path, open_folder, 16, FTW_PHYS);
	must(nftw(scratch->path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "remove",
	     scratch->path);
}

void scratch_write_bytes(const struct scratch *scratch, const char *path, const void *bytes,
			 size_t length)
{
	int fd = openat(scratch->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	must(fd >= 0, "create", path);
	must(fchmod(fd, 0644) == 0, "mode of", path);
	must(write(fd, bytes, length) == (ssize_t)length, "write", path);
	close(fd);
}

void scratch_write(const struct scratch *scratch, const char *path, const char *text)
{
	scratch_write_bytes(scratch, path, text, strlen(text));
}

void scratch_mkdir(const struct scratch *scratch, const char *path)
{
	must(mkdirat(scratch->fd, path, 0755) == 0, "mkdir", path);
	must(fchmodat(scratch->fd, path, 0755, 0) == 0, "mode of", path);
}

void scratch_link(const struct scratch *scratch, const char *path, const char *target)
{
	must(symlinkat(target, scratch->fd, path) == 0, "link", path);
}

void scratch_remove(const struct scratch *scratch, const char *path)
{
	must(unlinkat(scratch->fd, path, 0) == 0 || unlinkat(scratch->fd, path, AT_REMOVEDIR) == 0,
	     "remove", path);
}

const char *scratch_join(const struct scratch *scratch, const char *path, char out[256])
{
	snprintf(out, 256, "%s/%s", scratch->path, path);
	return out;
}

bool scratch_is(const struct scratch *scratch, const char *path, const void *bytes, size_t length)
{
	int fd = openat(scratch->fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char *found = malloc(length + 1);
	ssize_t count;
	bool same;

	if (fd < 0) {
		free(found);
		return false;
	}
	count = read(fd, found, length + 1);
	same = count == (ssize_t)length && (length == 0 || memcmp(found, bytes, length) == 0);
	free(found);
	close(fd);
	return same;
}

bool scratch_exists(const struct scratch *scratch, const char *path)
{
	struct stat found;

	return fstatat(scratch->fd, path, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

mode_t scratch_mode(const struct scratch *scratch, const char *path)
{
	struct stat found;

	must(fstatat(scratch->fd, path, &found, AT_SYMLINK_NOFOLLOW) == 0, "stat", path);
	return found.st_mode & 07777;
}

/* Counts the names that begin with prefix; out (may be NULL) gets the last of them. */
static int count_names(int fd, const char *prefix, char *out)
{
	DIR *stream = fdopendir(fd);
	const struct dirent *entry;
	int count = 0;

	must(stream != NULL, "list", "folder");
	while ((entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		count++;
		if (out)
			snprintf(out, 256, "%s", entry->d_name);
	}
	closedir(stream);
	return count;
}

static int open_listed(int folder_fd, const char *folder)
{
	int fd = openat(folder_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	must(fd >= 0, "open", folder);
	return fd;
}

int scratch_count(const struct scratch *scratch, const char *folder, const char *prefix)
{
	return count_names(open_listed(scratch->fd, folder), prefix, NULL);
}

bool scratch_first(const struct scratch *scratch, const char *folder, const char *prefix,
		   char out[256])
{
	return count_names(open_listed(scratch->fd, folder), prefix, out) > 0;
}

int scratch_descriptors(void)
{
	return count_names(open_listed(AT_FDCWD, "/proc/self/fd"), "", NULL) - 1;
}

/* ---- the whole tree as text ---- */

#define LINES_MAX 256
#define FOLDERS_MAX 64

struct line {
	char *path;
	char *text;
};

struct walk {
	const struct scratch *scratch;
	const char *without;
	struct line lines[LINES_MAX];
	int line_count;
	char *folders[FOLDERS_MAX]; /* still to be listed */
	int folder_count;
};

static void describe(struct walk *walk, const char *path)
{
	int root_fd = walk->scratch->fd;
	char text[256] = "", line[1024];
	struct stat found;

	must(fstatat(root_fd, path, &found, AT_SYMLINK_NOFOLLOW) == 0, "stat", path);
	if (S_ISDIR(found.st_mode)) {
		snprintf(line, sizeof(line), "d %o %s\n", found.st_mode & 07777, path);
		must(walk->folder_count < FOLDERS_MAX, "too many folders at", path);
		walk->folders[walk->folder_count++] = strdup(path);
	} else if (S_ISLNK(found.st_mode)) {
		must(readlinkat(root_fd, path, text, sizeof(text) - 1) >= 0, "readlink", path);
		snprintf(line, sizeof(line), "l %s -> %s\n", path, text);
	} else {
		int fd = openat(root_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && S_ISREG(found.st_mode))
			must(read(fd, text, sizeof(text) - 1) >= 0, "read", path);
		snprintf(line, sizeof(line), "%c %o %s %s\n", S_ISREG(found.st_mode) ? 'f' : '?',
			 found.st_mode & 07777, path, text);
		close(fd);
	}
	must(walk->line_count < LINES_MAX, "too many paths at", path);
	walk->lines[walk->line_count++] = (struct line){strdup(path), strdup(line)};
}

static void list_folder(struct walk *walk, const char *folder)
{
	int fd = openat(walk->scratch->fd, *folder ? folder : ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fdopendir(fd);
	const struct dirent *entry;
	char path[600];

	must(stream != NULL, "list", folder);
	while ((entry = readdir(stream))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", entry->d_name);
		if (!walk->without || strncmp(path, walk->without, strlen(walk->without)) != 0)
			describe(walk, path);
	}
	closedir(stream);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->path, ((const struct line *)b)->path);
}

void scratch_tree(const struct scratch *scratch, const char *without, char out[SCRATCH_TREE_BYTES])
{
	struct walk walk = {.scratch = scratch, .without = without};
	size_t used = 0;

	list_folder(&walk, "");
	while (walk.folder_count > 0) {
		char *folder = walk.folders[--walk.folder_count];

		list_folder(&walk, folder);
		free(folder);
	}
	qsort(walk.lines, (size_t)walk.line_count, sizeof(walk.lines[0]), by_path);
	out[0] = '\0';
	for (int i = 0; i < walk.line_count; i++) {
		size_t length = strlen(walk.lines[i].text);

		if (used + length < SCRATCH_TREE_BYTES) {
			memcpy(out + used, walk.lines[i].text, length + 1);
			used += length;
		}
		free(walk.lines[i].path);
		free(walk.lines[i].text);
	}
}

/* ---- children ---- */

int scratch_child(void (*body)(void *context), void *context)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	must(child >= 0, "fork", "");
	if (child == 0) {
		body(context);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		must(errno == EINTR, "wait", "");
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
