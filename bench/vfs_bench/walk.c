/*
 * walk.c   the files of the tree, sorted by path.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/vfs_bench/env.h"

#define FOLDERS_MAX 65536

/* Folders that are still to be read, as paths below the tree. */
struct stack {
	char **folder;
	size_t count;
	size_t capacity;
};

static bool push(struct stack *stack, char *folder)
{
	if (stack->count == stack->capacity) {
		size_t capacity = stack->capacity ? stack->capacity * 2 : 64;
		char **grown = realloc(stack->folder, capacity * sizeof(*grown));

		if (!grown || capacity > FOLDERS_MAX) {
			bench_say("%s: more folders than %d at once", folder, FOLDERS_MAX);
			free(folder);
			return false;
		}
		stack->folder = grown;
		stack->capacity = capacity;
	}
	stack->folder[stack->count++] = folder;
	return true;
}

static bool add_item(struct bench_env *env, char *path, uint64_t size)
{
	/* Grown at powers of two. */
	if ((env->item_count & (env->item_count - 1)) == 0) {
		size_t capacity = env->item_count ? env->item_count * 2 : 1;
		struct bench_item *grown = realloc(env->items, capacity * sizeof(*grown));

		if (!grown) {
			free(path);
			return false;
		}
		env->items = grown;
	}
	env->items[env->item_count++] = (struct bench_item){path, size};
	env->item_bytes += size;
	return true;
}

/* A file is added, a folder put on the stack; links and the rest are not read by any scenario. */
static bool take_entry(struct bench_env *env, struct stack *stack, const char *folder,
		       const char *name)
{
	char *path = bench_join(folder, name);
	char *host = bench_join(env->tree, path);
	struct stat stat;
	bool good = true;

	if (lstat(host, &stat))
		free(path);
	else if (S_ISDIR(stat.st_mode))
		good = push(stack, path);
	else if (S_ISREG(stat.st_mode))
		good = add_item(env, path, (uint64_t)stat.st_size);
	else
		free(path);
	free(host);
	return good;
}

static bool read_folder(struct bench_env *env, struct stack *stack, const char *folder)
{
	char *host = *folder ? bench_join(env->tree, folder) : bench_copy(env->tree);
	DIR *stream = opendir(host);
	bool good = stream != NULL;

	if (!stream)
		bench_say("%s: cannot be listed", host);
	for (struct dirent *entry; good && (entry = readdir(stream));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			good = take_entry(env, stack, folder, entry->d_name);
	if (stream)
		closedir(stream);
	free(host);
	return good;
}

static int by_path(const void *left, const void *right)
{
	return strcmp(((const struct bench_item *)left)->path,
		      ((const struct bench_item *)right)->path);
}

bool bench_env_walk(struct bench_env *env)
{
	struct stack stack = {0};
	bool good = push(&stack, bench_copy(""));

	while (good && stack.count) {
		char *folder = stack.folder[--stack.count];

		good = read_folder(env, &stack, folder);
		free(folder);
	}
	while (stack.count)
		free(stack.folder[--stack.count]);
	free(stack.folder);
	if (good && env->item_count)
		qsort(env->items, env->item_count, sizeof(*env->items), by_path);
	return good;
}
