/*
 * The watched mode's table of names: asking it, and making it equal to what is there; see
 * layer_native_watch_priv.h.
 *
 * Two answers come from the table alone: "not there" and "a file is in the way". A name that is there is
 * looked at live, through the held descriptor of its folder where there is one, and folders are listed live.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/checksum.h"
#include "vfs/layer_native_watch_priv.h"

#define LOOK_TRIES 64u

/* ---- asking ---- */

static bool is_known(const struct ldr_stat *found)
{
	return found->kind == LDR_KIND_FOLDER && !(found->size_bytes & LDR_UNREAD);
}

static size_t parent_bytes(const char *path, size_t length)
{
	while (length > 0 && path[length - 1] != '/')
		length--;
	return length - (length > 0);
}

static uint64_t parent_held(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct ldr_stat found;

	length = parent_bytes(path, length);
	if (!ldr_names_stat(&watch->names, path, length, &found) || !is_known(&found))
		return 0;
	return length == 0 ? LDR_HELD_ROOT : found.size_bytes;
}

/* Of a name that the table does not have: what the nearest folder above says. */
static enum ldr_status ask_above(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct ldr_stat found;

	while (length > 0) {
		length = parent_bytes(path, length);
		if (!ldr_names_stat(&watch->names, path, length, &found))
			continue;
		if (found.kind == LDR_KIND_FILE)
			return LDR_ENOTDIR;
		return is_known(&found) ? LDR_ENOTFOUND : LDR_OK;
	}
	return LDR_OK;
}

enum ldr_status ldr_native_watch_ask(struct ldr_native_watch *watch, const char *path,
				     size_t length, struct ldr_native_known *out)
{
	uint64_t count = atomic_load_explicit(&watch->known_count, memory_order_acquire);
	enum ldr_status status;
	struct ldr_stat found;

	*out = (struct ldr_native_known){.held = 0};
	if (ldr_names_stat(&watch->names, path, length, &found)) {
		out->is_file = found.kind == LDR_KIND_FILE;
		if (found.kind != LDR_KIND_LIVE)
			out->held = parent_held(watch, path, length);
		return LDR_OK;
	}
	status = ask_above(watch, path, length);
	/* A folder that became known between the look-ups may have the name. */
	if (status != LDR_OK &&
	    atomic_load_explicit(&watch->known_count, memory_order_relaxed) != count)
		return LDR_OK;
	return status;
}

enum ldr_kind ldr_watch_get(struct ldr_native_watch *watch, const char *path, size_t length,
			    bool *out_known)
{
	struct ldr_stat found;

	*out_known = false;
	if (!ldr_names_stat(&watch->names, path, length, &found))
		return 0;
	*out_known = is_known(&found);
	return found.kind;
}

/* ---- changing; all under names.changes ---- */

static _Atomic uint32_t *version_of(struct ldr_native_watch *watch, const char *path, size_t length)
{
	uint64_t hash = ldr_checksum_seeded(path, length, watch->native->seed);

	return &watch->versions[hash % LDR_WATCH_VERSIONS];
}

static void count_up(_Atomic uint32_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_release);
}

static struct ldr_inode *inode_at(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct ldr_memory_name *name;

	if (length == 0)
		return watch->names.root;
	name = ldr_names_get(&watch->names, path, length);
	return name ? name->inode : NULL;
}

static void mark_unread(struct ldr_inode *folder)
{
	atomic_store_explicit(&folder->size_bytes, LDR_UNREAD, memory_order_release);
}

/* The next name of the tree below top, parents first; NULL at its end. */
static struct ldr_memory_name *next_below(struct ldr_native_watch *watch,
					  const struct ldr_inode *top, struct ldr_memory_name *name)
{
	if (name->inode->kind == LDR_KIND_FOLDER && name->inode->children)
		return name->inode->children;
	while (!name->next_child && name->parent != top)
		name = ldr_names_get(&watch->names, name->path, name->name_at - 1u);
	return name->next_child;
}

/* Invariant 3: the folder first, then those below. */
static void mark_tree_unread(struct ldr_native_watch *watch, struct ldr_inode *top)
{
	mark_unread(top);
	for (struct ldr_memory_name *name = top->children; name;
	     name = next_below(watch, top, name)) {
		if (name->inode->kind == LDR_KIND_FOLDER)
			mark_unread(name->inode);
	}
}

static void remove_children(struct ldr_native_watch *watch, struct ldr_inode *folder)
{
	mark_tree_unread(watch, folder);
	while (folder->children)
		ldr_names_remove_tree(&watch->names, folder->children);
}

/* In place: nothing has to be had for it, and no look-up finds the name missing. */
static void change_kind(struct ldr_native_watch *watch, struct ldr_memory_name *name,
			enum ldr_kind kind)
{
	struct ldr_inode *inode = name->inode;

	if (inode->kind == LDR_KIND_FOLDER)
		remove_children(watch, inode);
	ldr_name_list_unref(name->parent->listing);
	name->parent->listing = NULL;
	mark_unread(inode);
	atomic_store_explicit(&inode->kind, (uint8_t)kind, memory_order_release);
}

static bool add(struct ldr_native_watch *watch, const char *path, size_t length, enum ldr_kind kind)
{
	struct ldr_inode *inode;

	if (ldr_inode_new(&watch->names, kind, &inode, NULL) != LDR_OK)
		return false;
	if (kind == LDR_KIND_FOLDER)
		mark_unread(inode);
	if (ldr_names_add(&watch->names, path, length, inode, NULL) == LDR_OK)
		return true;
	ldr_inode_unref(&watch->names, inode);
	return false;
}

/* The nearest folder above that the table has is looked up live from now on. */
static void doubt_above(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct ldr_inode *inode = NULL;

	while (!inode || inode->kind != LDR_KIND_FOLDER) {
		length = parent_bytes(path, length);
		inode = inode_at(watch, path, length);
		if (inode && inode->kind == LDR_KIND_FILE)
			change_kind(watch, ldr_names_get(&watch->names, path, length),
				    LDR_KIND_LIVE);
	}
	mark_unread(inode);
	ldr_watch_count_fallback(watch);
}

/* A name whose folder the table does not have yet (its event is still to come): the topmost folder
 * that is missing becomes LIVE. */
static void add_live_above(struct ldr_native_watch *watch, const char *path, size_t length)
{
	for (size_t end = 1; end < length; end++) {
		struct ldr_inode *inode;

		if (path[end] != '/')
			continue;
		inode = inode_at(watch, path, end);
		if (inode && inode->kind == LDR_KIND_FOLDER)
			continue;
		if (inode && inode->kind == LDR_KIND_FILE)
			change_kind(watch, ldr_names_get(&watch->names, path, end), LDR_KIND_LIVE);
		else if (!inode && !add(watch, path, end, LDR_KIND_LIVE))
			doubt_above(watch, path, end);
		return;
	}
}

static bool has_parent(struct ldr_native_watch *watch, const char *path, size_t length)
{
	const struct ldr_inode *parent = inode_at(watch, path, parent_bytes(path, length));

	return parent && parent->kind == LDR_KIND_FOLDER;
}

/* kind 0: nothing is there. */
static void put(struct ldr_native_watch *watch, const char *path, size_t length, enum ldr_kind kind)
{
	struct ldr_memory_name *name = ldr_names_get(&watch->names, path, length);

	if (kind == LDR_KIND_MADE)
		kind = name ? (enum ldr_kind)name->inode->kind : LDR_KIND_FILE;
	if (name && kind == 0) {
		if (name->inode->kind == LDR_KIND_FOLDER)
			mark_tree_unread(watch, name->inode);
		ldr_names_remove_tree(&watch->names, name);
	} else if (name && name->inode->kind != kind) {
		change_kind(watch, name, kind);
	} else if (!name && kind != 0) {
		if (!has_parent(watch, path, length))
			add_live_above(watch, path, length);
		else if (!add(watch, path, length, kind))
			doubt_above(watch, path, length);
	}
}

/* What is moved here brings its own names. */
static void put_moved(struct ldr_native_watch *watch, const char *path, size_t length,
		      enum ldr_kind kind)
{
	struct ldr_inode *inode;

	put(watch, path, length, kind);
	inode = inode_at(watch, path, length);
	if (kind != LDR_KIND_FOLDER || !inode || inode->kind != LDR_KIND_FOLDER)
		return;
	remove_children(watch, inode);
	count_up(&watch->unread_count);
}

/* Writes if the name's version is still the one given. */
static bool put_if(struct ldr_native_watch *watch, const char *path, size_t length,
		   enum ldr_kind kind, uint32_t version, bool moved)
{
	_Atomic uint32_t *place = version_of(watch, path, length);
	bool same;

	ldr_mutex_lock(&watch->names.changes);
	same = atomic_load_explicit(place, memory_order_relaxed) == version;
	if (same) {
		if (moved)
			put_moved(watch, path, length, kind);
		else
			put(watch, path, length, kind);
		count_up(place);
		count_up(&watch->look_count);
	}
	ldr_mutex_unlock(&watch->names.changes);
	return same;
}

/* ---- looking ---- */

static enum ldr_kind kind_there(const struct ldr_native_watch *watch, const char *path)
{
	struct stat found;
	int code = ldr_os_stat_at(watch->native->fd, path, &found);

	if (code)
		return code == ENOENT || code == ENOTDIR ? 0 : LDR_KIND_LIVE;
	return ldr_watch_kind_of(found.st_mode);
}

static enum ldr_kind look(struct ldr_native_watch *watch, const char *path, size_t length,
			  bool moved)
{
	for (unsigned i = 0; i < LOOK_TRIES; i++) {
		uint32_t version = ldr_native_watch_version(watch, path, length);
		enum ldr_kind kind = kind_there(watch, path);

		if (put_if(watch, path, length, kind, version, moved))
			return kind;
	}
	/* Written by many at once: whatever they write, it is asked live. */
	ldr_mutex_lock(&watch->names.changes);
	put(watch, path, length, LDR_KIND_LIVE);
	ldr_mutex_unlock(&watch->names.changes);
	ldr_watch_count_fallback(watch);
	return LDR_KIND_LIVE;
}

enum ldr_kind ldr_watch_look(struct ldr_native_watch *watch, const char *path, size_t length)
{
	return look(watch, path, length, false);
}

enum ldr_kind ldr_watch_put_listed(struct ldr_native_watch *watch, const char *path, size_t length,
				   enum ldr_kind kind, uint32_t look_count)
{
	bool same;

	ldr_mutex_lock(&watch->names.changes);
	same = atomic_load_explicit(&watch->look_count, memory_order_relaxed) == look_count;
	if (same)
		put(watch, path, length, kind);
	ldr_mutex_unlock(&watch->names.changes);
	return same ? kind : look(watch, path, length, false);
}

void ldr_watch_touch(struct ldr_native_watch *watch, const char *path, size_t length)
{
	ldr_mutex_lock(&watch->names.changes);
	count_up(version_of(watch, path, length));
	ldr_mutex_unlock(&watch->names.changes);
}

void ldr_watch_touch_all(struct ldr_native_watch *watch)
{
	ldr_mutex_lock(&watch->names.changes);
	for (unsigned i = 0; i < LDR_WATCH_VERSIONS; i++)
		count_up(&watch->versions[i]);
	ldr_mutex_unlock(&watch->names.changes);
}

void ldr_watch_forget(struct ldr_native_watch *watch, const char *path, size_t length)
{
	struct ldr_inode *inode;

	ldr_mutex_lock(&watch->names.changes);
	inode = inode_at(watch, path, length);
	if (inode && inode->kind == LDR_KIND_FOLDER)
		remove_children(watch, inode);
	ldr_mutex_unlock(&watch->names.changes);
}

bool ldr_watch_set_known(struct ldr_native_watch *watch, const char *path, size_t length,
			 uint64_t held, uint32_t unread_count)
{
	struct ldr_inode *inode;
	bool same;

	ldr_mutex_lock(&watch->names.changes);
	same = atomic_load_explicit(&watch->unread_count, memory_order_relaxed) == unread_count;
	inode = inode_at(watch, path, length);
	if (same && inode && inode->kind == LDR_KIND_FOLDER) {
		atomic_fetch_add_explicit(&watch->known_count, 1, memory_order_release);
		atomic_store_explicit(&inode->size_bytes, held, memory_order_release);
	}
	ldr_mutex_unlock(&watch->names.changes);
	return same;
}

/* ---- own changes ---- */

uint32_t ldr_native_watch_version(struct ldr_native_watch *watch, const char *path, size_t length)
{
	/* Pairs with count_up: who sees the version also sees the name that was written with it. */
	return atomic_load_explicit(version_of(watch, path, length), memory_order_acquire);
}

void ldr_native_watch_note(struct ldr_native_watch *watch, const char *path, size_t length,
			   enum ldr_kind kind, uint32_t version)
{
	if (!put_if(watch, path, length, kind, version, false))
		look(watch, path, length, false);
}

void ldr_native_watch_note_moved(struct ldr_native_watch *watch, const char *path, size_t length)
{
	look(watch, path, length, true);
}
