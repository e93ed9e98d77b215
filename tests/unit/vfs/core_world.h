/*
 * A folder and an instance for the tests of the virtual file system's core. Answers come as short
 * texts, so that a test reads as a table: the bytes of a file, the names of a folder, or the name
 * of the status that came instead.
 */
#ifndef LDR_TESTS_UNIT_VFS_CORE_WORLD_H
#define LDR_TESTS_UNIT_VFS_CORE_WORLD_H

#include "tests/support/table_layer.h"
#include "tests/unit/common/scratch.h"
#include "vfs/file.h"
#include "vfs/layer_memory.h"
#include "vfs/layer_native.h"
#include "vfs/vfs.h"

#define CORE_TEXT_BYTES 1024

struct core_world {
	struct scratch scratch;
	struct ldr_vfs *vfs;
	char text[CORE_TEXT_BYTES];
};

void core_begin(struct core_world *world);
void core_end(struct core_world *world);
/* Another instance over the same folder, as after a restart: whatever was mounted must be mounted
 * anew. */
void core_restart(struct core_world *world);

/* Folders of the scratch folder; made when missing. */
struct ldr_layer *core_native(const struct core_world *world, const char *folder);
/* A memory layer with these files, each "path" or "path=text", NULL at the end. */
struct ldr_layer *core_memory(const char *const *files);
/* rows as those of table_layer.h; count is told by a row without a path. */
struct ldr_layer *core_table(const struct table_row *rows, bool live, struct table_moods *moods);

/* Takes the layer's reference over. The second form says which status is wanted. */
void core_mount(struct core_world *world, struct ldr_layer *layer, struct ldr_mount mount);
void core_mount_gives(struct core_world *world, struct ldr_layer *layer, struct ldr_mount mount,
		      enum ldr_status wanted);

/* Valid until the next call of one of these three. */
const char *core_read(struct core_world *world, const char *path);
/* "a b/ c": folders have a slash. */
const char *core_list(struct core_world *world, const char *path);
/* "mount 3 file", "mount 0 folder" or a status, then " | " and the attempts: "2:LDR_OK",
 * "1:LDR_ENOTFOUND!" for one that ended at a whiteout. */
const char *core_which(struct core_world *world, const char *path, size_t capacity);

void core_write(struct core_world *world, const char *path, const char *text);
enum ldr_status core_exists(struct core_world *world, const char *path);

/* Asserts with the texts of both. */
void core_is(const char *got, const char *wanted, const char *what);
void core_gives(enum ldr_status got, enum ldr_status wanted, const char *what);

#endif
