/*
 * One list of a folder's names out of all mounts that have it.
 *
 * The mounts are asked in order; each adds the names that nobody before it has and no whiteout
 * before it hides. The walk ends at a mount that has a file there, or that hides the folder. Names
 * are collected in one buffer, sorted once at the end unless they came sorted (one mount, most
 * often; listing_sort.c), and a name that several mounts have keeps the first one's kind.
 *
 * A list that is freed goes back to the instance's shelf, with all its memory, and the next one
 * is made in it: a folder of 10,000 names takes half a megabyte, and asking the system for it and
 * giving it back each time cost as much as reading the folder. A shelf keeps LDR_SHELF_LISTS lists
 * of at most SHELF_MAX_BYTES each. It lives until the instance and all its lists are gone.
 */
#include <assert.h>
#include <stdlib.h>

#include "vfs/listing_priv.h"

#define NAMES_MAX (UINT32_C(1) << 26)

#define SHELF_MAX_BYTES ((size_t)4 << 20)

struct collector {
	struct ldr_list *list;
	const struct ldr_lookup *lookup;
	uint32_t rank;
	bool drop_reserved; /* the folder is the layer's root */
};

static void *grow(void *old, size_t *capacity, size_t wanted, size_t item_bytes)
{
	size_t next = *capacity ? *capacity : 64;
	void *grown;

	while (next < wanted)
		next *= 2;
	grown = realloc(old, next * item_bytes);
	if (grown)
		*capacity = next;
	return grown;
}

static bool make_room(struct ldr_list *list, size_t name_bytes)
{
	size_t text_wanted = list->text_bytes + name_bytes + 1, names_max = list->names_max;
	void *grown;

	if (text_wanted > list->text_max) {
		grown = grow(list->text, &list->text_max, text_wanted, 1);
		if (!grown)
			return false;
		list->text = grown;
	}
	if (list->count == list->names_max) {
		grown = grow(list->names, &names_max, (size_t)list->count + 1,
			     sizeof(list->names[0]));
		if (!grown)
			return false;
		list->names = grown;
		list->names_max = (uint32_t)names_max;
	}
	return true;
}

static enum ldr_status add_name(struct ldr_list *list, const char *name, size_t name_bytes,
				enum ldr_kind kind, uint32_t order, struct ldr_error *err)
{
	struct ldr_listed *entry;

	if (list->count >= NAMES_MAX || list->text_bytes > UINT32_MAX - LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_ELIMIT, "folder: more than %u names", NAMES_MAX);
	if (!make_room(list, name_bytes))
		return ldr_fail(err, LDR_ENOMEM, "folder of %u names: out of memory", list->count);
	entry = &list->names[list->count];
	*entry = (struct ldr_listed){.at = (uint32_t)list->text_bytes,
				     .length = (uint16_t)name_bytes,
				     .kind = (uint8_t)kind,
				     .order = order};
	memcpy(list->text + entry->at, name, name_bytes);
	list->text[entry->at + name_bytes] = '\0';
	list->text_bytes += name_bytes + 1;
	if (list->is_sorted && list->count > 0) {
		const struct ldr_listed *last = entry - 1;

		list->is_sorted = ldr_name_compare(list->text + last->at, last->length, name,
						   name_bytes) < 0;
	}
	list->count++;
	return LDR_OK;
}

/* Whether a write target asked before this mount hides the name. */
static bool is_hidden(const struct collector *collector, const char *name, size_t name_bytes)
{
	const struct ldr_lookup *lookup = collector->lookup;
	char path[LDR_PATH_MAX_BYTES + LDR_NAME_MAX_BYTES + 2];
	size_t length = lookup->length;

	memcpy(path, lookup->path, length);
	if (length > 0)
		path[length++] = '/';
	memcpy(path + length, name, name_bytes);
	length += name_bytes;
	path[length] = '\0';
	for (uint32_t rank = 0; rank < collector->rank; rank++) {
		const struct ldr_mounted *mounted = lookup->snapshot->mounts[rank];
		struct ldr_layer_path rel;

		if (mounted->hidden && ldr_mounted_covers(mounted, path, length, &rel) &&
		    ldr_mounted_hides(lookup->snapshot, rank, path, length, &rel))
			return true;
	}
	return false;
}

static enum ldr_status collect(void *context, const char *name, size_t name_bytes,
			       enum ldr_kind kind, struct ldr_error *err)
{
	const struct collector *collector = context;

	if (collector->drop_reserved && name[0] == '.' &&
	    name_bytes == sizeof(LDR_RESERVED_NAME) - 1 &&
	    memcmp(name, LDR_RESERVED_NAME, name_bytes) == 0)
		return LDR_OK;
	if (name_bytes > LDR_NAME_MAX_BYTES)
		return LDR_OK;
	if (collector->lookup->snapshot->any_hidden && is_hidden(collector, name, name_bytes))
		return LDR_OK;
	return add_name(collector->list, name, name_bytes, kind, collector->rank + 1, err);
}

/* ---- which mounts have the folder ---- */

struct reach {
	bool found;
	bool end;
};

/* A mount has a file at the path or above it, but where a mount point must be: it hides nothing. */
static bool is_covered(const struct ldr_lookup *lookup, const struct ldr_mounted *mounted,
		       const struct ldr_layer_path *rel)
{
	return ldr_snapshot_is_point(lookup->snapshot, lookup->path, lookup->length) ||
	       ldr_lookup_file_is_covered(lookup, mounted, rel);
}

static enum ldr_status list_mount(const struct ldr_lookup *lookup, uint32_t rank,
				  struct ldr_list *list, struct reach *reach, struct ldr_error *err)
{
	struct ldr_mounted *mounted = lookup->snapshot->mounts[rank];
	struct collector collector = {.list = list, .lookup = lookup, .rank = rank};
	struct ldr_layer_path rel;
	struct ldr_error why;
	enum ldr_status status;

	if (!ldr_mounted_covers(mounted, lookup->path, lookup->length, &rel) ||
	    ldr_mounted_reserves(rel.text, rel.length, rel.fold_case))
		return LDR_OK;
	collector.drop_reserved = rel.length == 0;
	ldr_why_begin(&why);
	status = mounted->ops->list(mounted->self, &rel, collect, &collector, &why);
	if (status == LDR_OK)
		reach->found = true;
	else if (status == LDR_ENOTDIR)
		reach->end = !is_covered(lookup, mounted, &rel);
	else if (status == LDR_EGONE)
		reach->end = true;
	else if (status != LDR_ENOTFOUND)
		return ldr_why_tell(&why, status, err);
	reach->end |= ldr_mounted_hides(lookup->snapshot, rank, lookup->path, lookup->length, &rel);
	return LDR_OK;
}

/* Folders that lead to mount points below. */
static enum ldr_status list_points(const struct ldr_lookup *lookup, struct ldr_list *list,
				   struct ldr_error *err)
{
	size_t start = lookup->length > 0 ? lookup->length + 1 : 0;

	for (uint32_t rank = 0; rank < lookup->snapshot->count; rank++) {
		const struct ldr_mounted *mounted = lookup->snapshot->mounts[rank];
		const char *name = mounted->at + start, *end;
		enum ldr_status status;

		if (mounted->at_bytes <= start ||
		    memcmp(mounted->at, lookup->path, lookup->length) ||
		    (start > 0 && mounted->at[start - 1] != '/'))
			continue;
		end = strchrnul(name, '/');
		status = add_name(list, name, (size_t)(end - name), LDR_KIND_FOLDER, 0, err);
		if (status != LDR_OK)
			return status;
	}
	return LDR_OK;
}

/* A path that is a file in one mount: whether that is what a lookup sees there. */
static enum ldr_status say_why_not(const struct ldr_lookup *lookup, struct ldr_error *err)
{
	struct ldr_stat found;
	struct ldr_visit visit = {.lookup = lookup, .stat = &found};
	enum ldr_status status = ldr_lookup_ask(&ldr_verbs_stat, &visit, err);
	char shown[LDR_QUOTE_BYTES];

	if (status != LDR_OK)
		return ldr_lookup_say(&visit, status, err);
	return ldr_fail(err, LDR_ENOTDIR, "%s: is not a folder",
			ldr_path_quote(lookup->path, lookup->length, shown));
}

static enum ldr_status fill(const struct ldr_lookup *lookup, struct ldr_list *list,
			    struct ldr_error *err)
{
	bool is_point = ldr_snapshot_is_point(lookup->snapshot, lookup->path, lookup->length);
	struct reach reach = {.found = false};

	for (uint32_t rank = 0; rank < lookup->snapshot->count && !reach.end; rank++) {
		enum ldr_status status = list_mount(lookup, rank, list, &reach, err);

		if (status != LDR_OK)
			return status;
	}
	if (!reach.found && !is_point)
		return say_why_not(lookup, err);
	return is_point ? list_points(lookup, list, err) : LDR_OK;
}

/* ---- the shelf ---- */

struct ldr_shelf {
	_Atomic uint32_t references; /* the instance and its lists */
	_Atomic(struct ldr_list *) lists[LDR_SHELF_LISTS];
};

struct ldr_shelf *ldr_shelf_new(void)
{
	struct ldr_shelf *shelf = calloc(1, sizeof(*shelf));

	if (shelf)
		atomic_init(&shelf->references, 1);
	return shelf;
}

static void destroy(struct ldr_list *list)
{
	free(list->names);
	free(list->text);
	free(list->scratch);
	free(list);
}

void ldr_shelf_unref(struct ldr_shelf *shelf)
{
	/* Pairs with the others' decrements: what they put there comes before its end. */
	if (!shelf || atomic_fetch_sub_explicit(&shelf->references, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned i = 0; i < LDR_SHELF_LISTS; i++) {
		if (shelf->lists[i])
			destroy(shelf->lists[i]);
	}
	free(shelf);
}

/* An empty list, in the memory of one that is no longer needed if there is one. */
static struct ldr_list *take_list(struct ldr_shelf *shelf)
{
	struct ldr_list *list = NULL;

	for (unsigned i = 0; !list && i < LDR_SHELF_LISTS; i++) {
		if (atomic_load_explicit(&shelf->lists[i], memory_order_relaxed))
			list = atomic_exchange_explicit(&shelf->lists[i], NULL,
							memory_order_acquire);
	}
	if (!list)
		list = calloc(1, sizeof(*list));
	if (!list)
		return NULL;
	list->count = 0;
	list->text_bytes = 0;
	list->is_sorted = true;
	list->shelf = shelf;
	atomic_fetch_add_explicit(&shelf->references, 1, memory_order_relaxed);
	return list;
}

void ldr_list_free(struct ldr_list *list)
{
	struct ldr_shelf *shelf;
	size_t bytes;

	if (!list)
		return;
	shelf = list->shelf;
	bytes = list->names_max * sizeof(list->names[0]) + list->text_max + list->scratch_bytes;
	for (unsigned i = 0; list && bytes <= SHELF_MAX_BYTES && i < LDR_SHELF_LISTS; i++) {
		struct ldr_list *none = NULL;

		if (atomic_compare_exchange_strong_explicit(&shelf->lists[i], &none, list,
							    memory_order_release,
							    memory_order_relaxed))
			list = NULL;
	}
	if (list)
		destroy(list);
	ldr_shelf_unref(shelf);
}

/* ---- the list ---- */

enum ldr_status ldr_listing_make(struct ldr_shelf *shelf, const struct ldr_lookup *lookup,
				 struct ldr_list **out_list, struct ldr_error *err)
{
	struct ldr_list *list = take_list(shelf);
	enum ldr_status status;

	if (!list)
		return ldr_fail(err, LDR_ENOMEM, "folder: out of memory");
	status = fill(lookup, list, err);
	if (status == LDR_OK && !ldr_list_sort(list))
		status = ldr_fail(err, LDR_ENOMEM, "folder of %u names: out of memory",
				  list->count);
	if (status != LDR_OK) {
		ldr_list_free(list);
		return status;
	}
	*out_list = list;
	return LDR_OK;
}

size_t ldr_list_count(const struct ldr_list *list)
{
	return list->count;
}

void ldr_list_at(const struct ldr_list *list, size_t i, struct ldr_list_entry *out)
{
	assert(i < list->count);
	out->name = list->text + list->names[i].at;
	out->name_bytes = list->names[i].length;
	out->kind = (enum ldr_kind)list->names[i].kind;
}
