/*
 * The table of open objects; see objects.h.
 */
#include "server/objects.h"

#include <stdlib.h>

#include "common/lock.h"
#include "server/object_priv.h"

#define BUCKETS 1024u

LIST_HEAD(bucket, ldr_object);

struct ldr_objects {
	const struct ldr_root *root;
	const struct ldr_clock *clock;
	size_t max_objects;
	size_t max_copied_bytes;
	uint64_t recheck_ms;

	struct ldr_mutex lock;
	struct bucket buckets[BUCKETS];
	TAILQ_HEAD(, ldr_object) uses;
	struct ldr_objects_stat stat;
};

enum ldr_status ldr_objects_new(const struct ldr_objects_options *options,
				struct ldr_objects **out_objects, struct ldr_error *err)
{
	struct ldr_objects *objects = calloc(1, sizeof(*objects));

	if (!objects)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	objects->root = options->root;
	objects->clock = options->clock ? options->clock : ldr_clock_system();
	objects->max_objects = options->max_objects ? options->max_objects : 512;
	objects->max_copied_bytes = options->max_copied_bytes ? options->max_copied_bytes
							      : 64u * 1024 * 1024;
	objects->recheck_ms = options->recheck_ms ? options->recheck_ms : 1000;
	ldr_mutex_init(&objects->lock, LDR_RANK_SERVER);
	TAILQ_INIT(&objects->uses);
	ldr_guard_install();
	*out_objects = objects;
	return LDR_OK;
}

/* FNV-1a: store paths are short, and only their spread matters. */
static struct bucket *bucket_of(struct ldr_objects *objects, const char *path)
{
	uint32_t hash = 2166136261u;

	for (; *path; path++)
		hash = (hash ^ (uint8_t)*path) * 16777619u;
	return &objects->buckets[hash % BUCKETS];
}

static struct ldr_object *find_locked(struct ldr_objects *objects, const char *path)
{
	struct ldr_object *object;

	LIST_FOREACH(object, bucket_of(objects, path), bucket)
	if (strcmp(object->path, path) == 0)
		return object;
	return NULL;
}

static size_t copied_bytes(const struct ldr_object *object)
{
	return object->guard ? 0 : (size_t)object->length;
}

/* The table's reference becomes the caller's, who gives it up after the lock. */
static void unlist_locked(struct ldr_objects *objects, struct ldr_object *object)
{
	object->listed = false;
	LIST_REMOVE(object, bucket);
	TAILQ_REMOVE(&objects->uses, object, use);
	objects->stat.objects--;
	objects->stat.copied_bytes -= copied_bytes(object);
	objects->stat.dropped++;
}

static void list_locked(struct ldr_objects *objects, struct ldr_object *object)
{
	object->listed = true;
	LIST_INSERT_HEAD(bucket_of(objects, object->path), object, bucket);
	TAILQ_INSERT_TAIL(&objects->uses, object, use);
	objects->stat.objects++;
	objects->stat.copied_bytes += copied_bytes(object);
	objects->stat.opened++;
}

/* One object over the bounds, unlisted, or NULL. */
static struct ldr_object *shed(struct ldr_objects *objects)
{
	struct ldr_object *victim = NULL;

	ldr_mutex_lock(&objects->lock);
	if (objects->stat.objects > objects->max_objects ||
	    objects->stat.copied_bytes > objects->max_copied_bytes)
		victim = TAILQ_FIRST(&objects->uses);
	if (victim)
		unlist_locked(objects, victim);
	ldr_mutex_unlock(&objects->lock);
	return victim;
}

static void drop(struct ldr_objects *objects, struct ldr_object *object)
{
	bool was_listed;

	ldr_mutex_lock(&objects->lock);
	was_listed = object->listed;
	if (was_listed)
		unlist_locked(objects, object);
	ldr_mutex_unlock(&objects->lock);
	if (was_listed)
		ldr_object_unref(object);
}

/* A reference to what the table has, and whether its file is to be looked at before it is used. */
static struct ldr_object *look_up(struct ldr_objects *objects, const char *path, bool *out_recheck)
{
	uint64_t now_ms = ldr_clock_now_ms(objects->clock);
	struct ldr_object *object;

	ldr_mutex_lock(&objects->lock);
	object = find_locked(objects, path);
	if (object) {
		ldr_object_ref(object);
		TAILQ_REMOVE(&objects->uses, object, use);
		TAILQ_INSERT_TAIL(&objects->uses, object, use);
		*out_recheck = object->kind == LDR_OBJECT_CHANNEL ||
			       now_ms - object->checked_ms >= objects->recheck_ms;
		if (*out_recheck)
			object->checked_ms = now_ms;
	}
	ldr_mutex_unlock(&objects->lock);
	return object;
}

static bool unchanged(const struct ldr_objects *objects, const struct ldr_object *object)
{
	struct ldr_stamp now;

	return ldr_root_observe(objects->root, object->path, &now, NULL) == LDR_OK &&
	       now.device == object->stamp.device && now.inode == object->stamp.inode &&
	       now.size_bytes == object->stamp.size_bytes &&
	       now.modified_ns == object->stamp.modified_ns &&
	       now.changed_ns == object->stamp.changed_ns;
}

/* Lists the new object in the place of one that somebody has listed meanwhile. The reference stays the
 * caller's, the table takes its own. */
static struct ldr_object *enlist(struct ldr_objects *objects, struct ldr_object *fresh)
{
	struct ldr_object *old;

	ldr_mutex_lock(&objects->lock);
	old = find_locked(objects, fresh->path);
	if (old)
		unlist_locked(objects, old);
	fresh->checked_ms = ldr_clock_now_ms(objects->clock);
	list_locked(objects, ldr_object_ref(fresh));
	ldr_mutex_unlock(&objects->lock);
	ldr_object_unref(old);
	while ((old = shed(objects)))
		ldr_object_unref(old);
	return fresh;
}

enum ldr_status ldr_objects_get(struct ldr_objects *objects, const struct ldr_object_name *name,
				struct ldr_object **out_object, struct ldr_error *err)
{
	char path[LDR_STORE_PATH_BYTES];
	struct ldr_object *object;
	bool recheck = false;
	enum ldr_status status;

	ldr_store_path(name, path);
	object = look_up(objects, path, &recheck);
	if (object && !ldr_object_broken(object) && (!recheck || unchanged(objects, object))) {
		*out_object = object;
		return LDR_OK;
	}
	if (object) {
		drop(objects, object);
		ldr_object_unref(object);
	}
	status = object_open(objects->root, name, &object, err);
	if (status)
		return status;
	*out_object = enlist(objects, object);
	return LDR_OK;
}

void ldr_objects_forget(struct ldr_objects *objects, const struct ldr_object_name *name)
{
	char path[LDR_STORE_PATH_BYTES];
	struct ldr_object *object;

	ldr_store_path(name, path);
	ldr_mutex_lock(&objects->lock);
	object = find_locked(objects, path);
	if (object)
		unlist_locked(objects, object);
	ldr_mutex_unlock(&objects->lock);
	ldr_object_unref(object);
}

void ldr_objects_stat(struct ldr_objects *objects, struct ldr_objects_stat *out)
{
	ldr_mutex_lock(&objects->lock);
	*out = objects->stat;
	ldr_mutex_unlock(&objects->lock);
}

void ldr_objects_free(struct ldr_objects *objects)
{
	struct ldr_object *object;

	if (!objects)
		return;
	while ((object = TAILQ_FIRST(&objects->uses))) {
		unlist_locked(objects, object);
		ldr_object_unref(object);
	}
	ldr_mutex_dispose(&objects->lock);
	free(objects);
}
