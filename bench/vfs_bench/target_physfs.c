/*
 * target_physfs.c   peer:physfs (a stored zip) and peer:physfs-folder, by PhysicsFS of the distribution.
 *
 * PhysicsFS keeps one search path for the whole process; both are mounted there, each below a name of
 * its own. Without its header the targets say so and are left out.
 */
#include "bench/vfs_bench/env.h"

#if defined(__has_include)
#if __has_include(<physfs.h>)
#define HAVE_PHYSFS 1
#endif
#endif

#ifdef HAVE_PHYSFS

#include <physfs.h>
#include <stdlib.h>

#include "bench/process.h"

/* Which of the two this is. */
struct recipe {
	const char *point;
	bool zip;
};

struct physfs {
	char *source;
};

/* Stored, not deflated, which is the faster of the two to read; the name inside is the path. */
static const char make_zip[] = "import os, sys, zipfile\n"
			       "root, out = sys.argv[1:]\n"
			       "with zipfile.ZipFile(out, 'w') as pack:\n"
			       "    for folder, folders, files in os.walk(root):\n"
			       "        for name in sorted(files):\n"
			       "            path = os.path.join(folder, name)\n"
			       "            if os.path.isfile(path):\n"
			       "                pack.write(path, os.path.relpath(path, root))\n";

static bool zip_ready(const struct bench_env *env, const char *zip)
{
	const char *const argv[] = {"python3", "-c", make_zip, env->tree, zip, NULL};
	uint64_t size;

	if (bench_target_posix.ops->stat(NULL, zip, &size))
		return true;
	return bench_process_run(argv);
}

static bool say_failure(const char *what)
{
	bench_say("physfs: %s: %s", what, PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode()));
	return false;
}

static bool physfs_up(const struct bench_target *target, struct bench_env *env,
		      struct bench_instance *out)
{
	const struct recipe *recipe = target->recipe;
	struct physfs *physfs = calloc(1, sizeof(*physfs));
	bool good = physfs != NULL;

	if (!good)
		return false;
	physfs->source = recipe->zip ? bench_join(env->made, "physfs.zip") : bench_copy(env->tree);
	if (recipe->zip)
		good = zip_ready(env, physfs->source);
	if (good && !PHYSFS_isInit() && !PHYSFS_init(NULL))
		good = say_failure("init");
	if (good && !PHYSFS_mount(physfs->source, recipe->point, 1))
		good = say_failure(physfs->source);
	if (good && !recipe->zip && env->own_tree && !PHYSFS_setWriteDir(env->tree))
		good = say_failure(env->tree);
	if (!good) {
		free(physfs->source);
		free(physfs);
		return false;
	}
	out->self = physfs;
	out->data_prefix = bench_copy(recipe->point);
	out->write_prefix = bench_copy("write");
	return true;
}

static void physfs_down(void *self)
{
	struct physfs *physfs = self;

	PHYSFS_unmount(physfs->source);
	free(physfs->source);
	free(physfs);
}

static bool physfs_open(void *self, const char *path, enum bench_mode mode, struct bench_file *file)
{
	(void)self;
	file->object = mode == BENCH_READ     ? PHYSFS_openRead(path)
		       : mode == BENCH_CREATE ? PHYSFS_openWrite(path)
					      : NULL;
	return file->object != NULL;
}

static void physfs_close(struct bench_file *file)
{
	PHYSFS_close(file->object);
}

static bool physfs_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	PHYSFS_sint64 got = PHYSFS_readBytes(file->object, bytes, length);

	*out_length = got < 0 ? 0 : (size_t)got;
	return got >= 0;
}

static bool physfs_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
			   size_t *out_length)
{
	*out_length = 0;
	if (!PHYSFS_seek(file->object, offset))
		return PHYSFS_getLastErrorCode() == PHYSFS_ERR_PAST_EOF;
	return physfs_read(file, bytes, length, out_length);
}

static bool physfs_write(struct bench_file *file, const void *bytes, size_t length)
{
	return PHYSFS_writeBytes(file->object, bytes, length) == (PHYSFS_sint64)length;
}

static bool physfs_stat(void *self, const char *path, uint64_t *out_size)
{
	PHYSFS_Stat held;

	(void)self;
	if (!PHYSFS_stat(path, &held))
		return false;
	*out_size = (uint64_t)held.filesize;
	return true;
}

static bool physfs_absent(void *self, const char *path)
{
	(void)self;
	return !PHYSFS_exists(path);
}

static bool physfs_list(void *self, const char *folder, uint64_t *out_count)
{
	char **names = PHYSFS_enumerateFiles(folder);
	uint64_t count = 0;

	(void)self;
	if (!names)
		return false;
	while (names[count])
		count++;
	PHYSFS_freeList(names);
	*out_count = count;
	return true;
}

static bool physfs_make_folder(void *self, const char *path)
{
	(void)self;
	return PHYSFS_mkdir(path);
}

static bool physfs_remove(void *self, const char *path)
{
	(void)self;
	return PHYSFS_delete(path);
}

static const struct bench_ops physfs_ops = {
	.open = physfs_open,
	.close = physfs_close,
	.read = physfs_read,
	.read_at = physfs_read_at,
	.write = physfs_write,
	.stat = physfs_stat,
	.absent = physfs_absent,
	.list = physfs_list,
	.make_folder = physfs_make_folder,
	.remove = physfs_remove,
};

#else

struct recipe {
	const char *point;
	bool zip;
};

static bool physfs_up(const struct bench_target *target, struct bench_env *env,
		      struct bench_instance *out)
{
	(void)env;
	(void)out;
	bench_say("%s: built without physfs.h (libphysfs-dev)", target->name);
	return false;
}

static void physfs_down(void *self)
{
	(void)self;
}

/* Never called; they say which scenarios there would be. */
static bool no_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	(void)file;
	(void)bytes;
	(void)length;
	(void)out_length;
	return false;
}

static const struct bench_ops physfs_ops = {.read = no_read};

#endif

static const struct recipe zip_recipe = {"zip", true};
static const struct recipe folder_recipe = {"folder", false};

const struct bench_target bench_target_physfs_zip = {
	.name = "peer:physfs",
	.traits = BENCH_OPENS,
	.ops = &physfs_ops,
	.recipe = &zip_recipe,
	.up = physfs_up,
	.down = physfs_down,
};

const struct bench_target bench_target_physfs_folder = {
	.name = "peer:physfs-folder",
	.traits = BENCH_OPENS | BENCH_WRITES,
	.ops = &physfs_ops,
	.recipe = &folder_recipe,
	.up = physfs_up,
	.down = physfs_down,
};
