/*
 * A folder of its own for a test, and looks at what lies in it, past the code under test.
 */
#ifndef LDR_TESTS_UNIT_COMMON_SCRATCH_H
#define LDR_TESTS_UNIT_COMMON_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct scratch {
	char path[128];
	int fd;
};

void scratch_open(struct scratch *scratch);
/* Removes the folder and everything in it. */
void scratch_close(struct scratch *scratch);

/* All paths are below the folder. Failures fail the test. */
void scratch_write(const struct scratch *scratch, const char *path, const char *text);
void scratch_write_bytes(const struct scratch *scratch, const char *path, const void *bytes,
			 size_t length);
void scratch_mkdir(const struct scratch *scratch, const char *path);
void scratch_link(const struct scratch *scratch, const char *path, const char *target);
void scratch_remove(const struct scratch *scratch, const char *path);
const char *scratch_join(const struct scratch *scratch, const char *path, char out[256]);

/* Whether the path is a file of exactly these bytes. */
bool scratch_is(const struct scratch *scratch, const char *path, const void *bytes, size_t length);
bool scratch_exists(const struct scratch *scratch, const char *path);
mode_t scratch_mode(const struct scratch *scratch, const char *path);
/* How many names of a folder begin with prefix. */
int scratch_count(const struct scratch *scratch, const char *folder, const char *prefix);
/* Any such name; false when there is none. */
bool scratch_first(const struct scratch *scratch, const char *folder, const char *prefix,
		   char out[256]);

/*
 * Everything below the folder but `without` (a prefix of paths, or NULL), one line each, sorted:
 * "d 755 path", "f 644 path text", "l path -> target". Cut where it does not fit.
 */
#define SCRATCH_TREE_BYTES 16384
void scratch_tree(const struct scratch *scratch, const char *without, char out[SCRATCH_TREE_BYTES]);

/* Open descriptors of this process. */
int scratch_descriptors(void);

/* Runs body in a child; gives its exit status, or minus the signal that ended it. */
int scratch_child(void (*body)(void *context), void *context);

#endif
