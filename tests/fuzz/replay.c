/*
 * The main of a fuzz target in builds without libFuzzer: it gives every file below the named files and
 * folders to the target once, in the order of their names, and says how many there were. A folder that
 * does not exist holds no inputs; a file that cannot be read is a failure.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *name)
{
	fprintf(stderr, "replay: %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

static void replay_file(const char *name, size_t size)
{
	/* Of exactly the input's size, so that a sanitizer sees a read past its end. */
	uint8_t *data = malloc(size ? size : 1);
	FILE *file = fopen(name, "rbe");

	if (!data || !file || fread(data, 1, size, file) != size)
		die("cannot read", name);
	fclose(file);
	fprintf(stderr, "replay: %s\n", name);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
}

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static unsigned replay_folder(const char *name)
{
	struct dirent **entries = NULL;
	unsigned files = 0;
	int count = scandir(name, &entries, not_hidden, alphasort);

	if (count < 0 && errno != ENOENT)
		die("cannot list", name);
	for (int i = 0; i < count; i++) {
		char *path = NULL;
		struct stat info;

		if (asprintf(&path, "%s/%s", name, entries[i]->d_name) < 0 || stat(path, &info))
			die("cannot look at", entries[i]->d_name);
		if (S_ISREG(info.st_mode)) {
			replay_file(path, (size_t)info.st_size);
			files++;
		}
		free(path);
		free(entries[i]);
	}
	free(entries);
	return files;
}

int main(int argc, char **argv)
{
	unsigned files = 0;

	for (int i = 1; i < argc; i++) {
		struct stat info;

		if (!stat(argv[i], &info) && S_ISREG(info.st_mode)) {
			replay_file(argv[i], (size_t)info.st_size);
			files++;
		} else {
			files += replay_folder(argv[i]);
		}
	}
	printf("replayed %u inputs\n", files);
	return 0;
}
