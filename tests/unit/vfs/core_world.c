/*
 * See core_world.h.
 */
#include "tests/unit/vfs/core_world.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void must(enum ldr_status status, const struct ldr_error *err)
{
	cr_assert_eq(status, LDR_OK, "%s: %s", ldr_status_name(status), err->text);
}

void core_is(const char *got, const char *wanted, const char *what)
{
	cr_assert_str_eq(got, wanted, "%s: \"%s\", wanted \"%s\"", what, got, wanted);
}

void core_gives(enum ldr_status got, enum ldr_status wanted, const char *what)
{
	cr_assert_eq(got, wanted, "%s: %s, wanted %s", what, ldr_status_name(got),
		     ldr_status_name(wanted));
}

void core_begin(struct core_world *world)
{
	struct ldr_error err = {.status = LDR_OK};

	memset(world, 0, sizeof(*world));
	scratch_open(&world->scratch);
	must(ldr_vfs_new(NULL, &world->vfs, &err), &err);
}

void core_end(struct core_world *world)
{
	ldr_vfs_free(world->vfs);
	scratch_close(&world->scratch);
}

void core_restart(struct core_world *world)
{
	struct ldr_error err = {.status = LDR_OK};

	ldr_vfs_free(world->vfs);
	must(ldr_vfs_new(NULL, &world->vfs, &err), &err);
}

struct ldr_layer *core_native(const struct core_world *world, const char *folder)
{
	const struct ldr_native_options options = {.size = sizeof(options), .make = true};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	char path[256];

	scratch_join(&world->scratch, folder, path);
	must(ldr_layer_native_new(path, &options, &layer, &err), &err);
	return layer;
}

struct ldr_layer *core_memory(const char *const *files)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;

	must(ldr_layer_memory_new(NULL, &layer, &err), &err);
	for (; files && *files; files++) {
		const char *text = strchrnul(*files, '=');
		char path[256];

		snprintf(path, sizeof(path), "%.*s", (int)(text - *files), *files);
		text += *text == '=';
		must(ldr_layer_memory_put(layer, path, text, strlen(text), &err), &err);
	}
	return layer;
}

struct ldr_layer *core_table(const struct table_row *rows, bool live, struct table_moods *moods)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	size_t count = 0;

	while (rows[count].path)
		count++;
	must(table_layer_new(rows, count, live, moods, &layer, &err), &err);
	return layer;
}

void core_mount_gives(struct core_world *world, struct ldr_layer *layer, struct ldr_mount mount,
		      enum ldr_status wanted)
{
	struct ldr_error err = {.status = LDR_OK};
	enum ldr_status status;

	mount.layer = layer;
	status = ldr_vfs_mount(world->vfs, &mount, &err);
	ldr_layer_unref(layer);
	cr_assert_eq(status, wanted, "mount %u: %s (%s), wanted %s", mount.id,
		     ldr_status_name(status), err.text, ldr_status_name(wanted));
}

void core_mount(struct core_world *world, struct ldr_layer *layer, struct ldr_mount mount)
{
	core_mount_gives(world, layer, mount, LDR_OK);
}

static void LDR_PRINTF(2, 3) add(struct core_world *world, const char *fmt, ...)
{
	size_t used = strlen(world->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(world->text + used, sizeof(world->text) - used, fmt, args);
	va_end(args);
}

static const char *say(struct core_world *world, enum ldr_status status)
{
	world->text[0] = '\0';
	add(world, "%s", ldr_status_name(status));
	return world->text;
}

const char *core_read(struct core_world *world, const char *path)
{
	struct ldr_file *file;
	enum ldr_status status = ldr_vfs_open(world->vfs, path, LDR_OPEN_READ, &file, NULL);
	size_t got;

	if (status != LDR_OK)
		return say(world, status);
	status = ldr_file_pread(file, world->text, sizeof(world->text) - 1, 0, &got, NULL);
	ldr_file_close(file);
	if (status != LDR_OK)
		return say(world, status);
	world->text[got] = '\0';
	return world->text;
}

const char *core_list(struct core_world *world, const char *path)
{
	struct ldr_list *list;
	enum ldr_status status = ldr_vfs_list(world->vfs, path, &list, NULL);

	if (status != LDR_OK)
		return say(world, status);
	world->text[0] = '\0';
	for (size_t i = 0; i < ldr_list_count(list); i++) {
		struct ldr_list_entry entry;

		ldr_list_at(list, i, &entry);
		add(world, "%s%s%s", i ? " " : "", entry.name,
		    entry.kind == LDR_KIND_FOLDER ? "/" : "");
	}
	ldr_list_free(list);
	return world->text;
}

const char *core_which(struct core_world *world, const char *path, size_t capacity)
{
	struct ldr_attempt attempts[8];
	struct ldr_which which;
	size_t count = 99;
	enum ldr_status status = ldr_vfs_which(world->vfs, path, &which, attempts, capacity, &count,
					       NULL);

	world->text[0] = '\0';
	if (status == LDR_OK)
		add(world, "mount %u %s |", which.mount_id,
		    which.stat.kind == LDR_KIND_FILE ? "file" : "folder");
	else
		add(world, "%s |", ldr_status_name(status));
	for (size_t i = 0; i < count && i < capacity; i++)
		add(world, " %u:%s%s", attempts[i].mount_id, ldr_status_name(attempts[i].outcome),
		    attempts[i].whiteout ? "!" : "");
	add(world, " of %zu", count);
	return world->text;
}

void core_write(struct core_world *world, const char *path, const char *text)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_file *file;

	must(ldr_vfs_open(world->vfs, path, LDR_OPEN_WRITE, &file, &err), &err);
	must(ldr_file_pwrite(file, text, strlen(text), 0, &err), &err);
	ldr_file_close(file);
}

enum ldr_status core_exists(struct core_world *world, const char *path)
{
	return ldr_vfs_exists(world->vfs, path, NULL);
}
