/*
 * Names of the memory layer: a sharded table from paths to inodes, and the folders' lists of
 * children.
 *
 * A look-up takes no lock: it reads its shard's version, probes, and reads the version again; when
 * the version was odd or has changed it tries anew. A change makes the version odd, changes slots,
 * and makes it even. All fields that a look-up reads are atomic, loaded with acquire, so that
 * whoever has seen a changed field also sees the changed version (Boehm, "Can Seqlocks Get Along
 * With Programming Language Memory Models?", 2012). Paths stand for themselves by XXH3-128 under
 * the layer's random seed, as in the merged table.
 */
#include <assert.h>
#include <stdlib.h>

#include "common/keys.h"
#include "vfs/memory_priv.h"

#define SLOTS_FIRST 64u

static struct ldr_wide_hash hash_of(const struct ldr_memory_layer *layer, const char *path,
				    size_t length)
{
	return ldr_checksum_wide(path, length, layer->seed);
}

static struct ldr_memory_shard *shard_of(struct ldr_memory_layer *layer, struct ldr_wide_hash hash)
{
	return &layer->shards[hash.high % LDR_MEMORY_SHARDS];
}

/* ---- looking up ---- */

/* The inode as the table has it at some moment within the call, without a reference; the version it
 * was seen under. */
static struct ldr_inode *probe(struct ldr_memory_shard *shard, struct ldr_wide_hash hash,
			       uint32_t *out_version)
{
	for (;;) {
		uint32_t version = atomic_load_explicit(&shard->version, memory_order_acquire);
		struct ldr_memory_table *table = atomic_load_explicit(&shard->table,
								      memory_order_acquire);
		struct ldr_inode *inode = NULL;

		for (size_t i = hash.low & table->mask, n = 0; n <= table->mask;
		     i = (i + 1) & table->mask, n++) {
			struct ldr_memory_slot *slot = &table->slots[i];

			inode = atomic_load_explicit(&slot->inode, memory_order_acquire);
			if (!inode)
				break;
			if (atomic_load_explicit(&slot->low, memory_order_acquire) == hash.low &&
			    atomic_load_explicit(&slot->high, memory_order_acquire) == hash.high)
				break;
			inode = NULL;
		}
		*out_version = version;
		if (!(version & 1) &&
		    atomic_load_explicit(&shard->version, memory_order_relaxed) == version)
			return inode;
		if (version & 1)
			ldr_thread_pause_us(1);
	}
}

static bool is_still(struct ldr_memory_shard *shard, uint32_t version)
{
	return atomic_load_explicit(&shard->version, memory_order_relaxed) == version;
}

struct ldr_inode *ldr_names_find(struct ldr_memory_layer *layer, const char *path, size_t length)
{
	struct ldr_wide_hash hash;
	struct ldr_memory_shard *shard;

	if (length == 0) {
		ldr_inode_try_ref(layer->root);
		return layer->root;
	}
	hash = hash_of(layer, path, length);
	shard = shard_of(layer, hash);
	for (;;) {
		uint32_t version;
		struct ldr_inode *inode = probe(shard, hash, &version);

		if (!inode)
			return NULL;
		/* Taken while the name led to it, or given back: it may be another file's by now.
		 * */
		if (!ldr_inode_try_ref(inode))
			continue;
		if (is_still(shard, version))
			return inode;
		ldr_inode_unref(layer, inode);
	}
}

bool ldr_names_stat(struct ldr_memory_layer *layer, const char *path, size_t length,
		    struct ldr_stat *out)
{
	struct ldr_wide_hash hash;
	struct ldr_memory_shard *shard;
	struct ldr_inode *inode = layer->root;
	uint32_t version = 0;

	hash = hash_of(layer, path, length);
	shard = shard_of(layer, hash);
	do {
		if (length > 0)
			inode = probe(shard, hash, &version);
		if (!inode)
			return false;
		out->kind = (enum ldr_kind)atomic_load_explicit(&inode->kind, memory_order_acquire);
		out->size_bytes = atomic_load_explicit(&inode->size_bytes, memory_order_acquire);
		out->modified_ns = atomic_load_explicit(&inode->modified_ns, memory_order_acquire);
	} while (length > 0 && !is_still(shard, version));
	out->mode = out->kind == LDR_KIND_FOLDER ? 0755 : 0644;
	return true;
}

enum ldr_status ldr_names_why_not(struct ldr_memory_layer *layer, const char *path, size_t length)
{
	struct ldr_stat found;

	while (length > 0) {
		while (length > 0 && path[length - 1] != '/')
			length--;
		if (length == 0)
			break;
		length--;
		if (ldr_names_stat(layer, path, length, &found))
			return found.kind == LDR_KIND_FOLDER ? LDR_ENOTFOUND : LDR_ENOTDIR;
	}
	return LDR_ENOTFOUND;
}

/* ---- changing; under changes ---- */

static void begin_change(struct ldr_memory_shard *shard)
{
	/* Acquire keeps the stores to the slots behind it. */
	atomic_fetch_add_explicit(&shard->version, 1, memory_order_acq_rel);
}

static void end_change(struct ldr_memory_shard *shard)
{
	atomic_fetch_add_explicit(&shard->version, 1, memory_order_release);
}

static struct ldr_memory_table *table_of(struct ldr_memory_shard *shard)
{
	return atomic_load_explicit(&shard->table, memory_order_relaxed);
}

static struct ldr_inode *slot_inode(const struct ldr_memory_slot *slot)
{
	return atomic_load_explicit(&slot->inode, memory_order_relaxed);
}

static void slot_set(struct ldr_memory_slot *slot, struct ldr_wide_hash hash,
		     struct ldr_inode *inode, struct ldr_memory_name *name)
{
	atomic_store_explicit(&slot->low, hash.low, memory_order_release);
	atomic_store_explicit(&slot->high, hash.high, memory_order_release);
	atomic_store_explicit(&slot->inode, inode, memory_order_release);
	slot->name = name;
}

static struct ldr_wide_hash slot_hash(const struct ldr_memory_slot *slot)
{
	return (struct ldr_wide_hash){
		.low = atomic_load_explicit(&slot->low, memory_order_relaxed),
		.high = atomic_load_explicit(&slot->high, memory_order_relaxed)};
}

/* The slot of this hash, or the free one where it would go. */
static struct ldr_memory_slot *slot_for(struct ldr_memory_table *table, struct ldr_wide_hash hash)
{
	for (size_t i = hash.low & table->mask;; i = (i + 1) & table->mask) {
		struct ldr_memory_slot *slot = &table->slots[i];
		struct ldr_wide_hash here = slot_hash(slot);

		if (!slot_inode(slot) || (here.low == hash.low && here.high == hash.high))
			return slot;
	}
}

static struct ldr_memory_table *table_new(size_t slots, struct ldr_memory_table *older)
{
	struct ldr_memory_table *table = calloc(1,
						sizeof(*table) + slots * sizeof(table->slots[0]));

	if (table) {
		table->mask = slots - 1;
		table->older = older;
	}
	return table;
}

static bool make_room(struct ldr_memory_shard *shard)
{
	struct ldr_memory_table *old = table_of(shard), *table;

	if ((shard->count + 1) * 3 <= (old->mask + 1) * 2)
		return true;
	table = table_new((old->mask + 1) * 2, old);
	if (!table)
		return false;
	for (size_t i = 0; i <= old->mask; i++) {
		struct ldr_wide_hash hash = slot_hash(&old->slots[i]);

		if (slot_inode(&old->slots[i]))
			slot_set(slot_for(table, hash), hash, slot_inode(&old->slots[i]),
				 old->slots[i].name);
	}
	begin_change(shard);
	atomic_store_explicit(&shard->table, table, memory_order_release);
	end_change(shard);
	return true;
}

static bool put_slot(struct ldr_memory_layer *layer, struct ldr_memory_name *name)
{
	struct ldr_wide_hash hash = hash_of(layer, name->path, name->path_bytes);
	struct ldr_memory_shard *shard = shard_of(layer, hash);

	if (!make_room(shard))
		return false;
	begin_change(shard);
	slot_set(slot_for(table_of(shard), hash), hash, name->inode, name);
	end_change(shard);
	shard->count++;
	if (atomic_fetch_add_explicit(&layer->name_count, 1, memory_order_release) == 0 &&
	    layer->wakes)
		atomic_fetch_add_explicit(layer->wakes, 1, memory_order_release);
	return true;
}

/* Closes the gap that a removed slot would leave in the row of those behind it. */
static void close_gap(struct ldr_memory_table *table, size_t gap)
{
	for (size_t i = (gap + 1) & table->mask;; i = (i + 1) & table->mask) {
		struct ldr_memory_slot *slot = &table->slots[i];
		size_t home;

		if (!slot_inode(slot))
			break;
		home = slot_hash(slot).low & table->mask;
		if (((i - home) & table->mask) < ((i - gap) & table->mask))
			continue;
		slot_set(&table->slots[gap], slot_hash(slot), slot_inode(slot), slot->name);
		gap = i;
	}
	slot_set(&table->slots[gap], (struct ldr_wide_hash){0, 0}, NULL, NULL);
}

static void clear_slot(struct ldr_memory_layer *layer, const struct ldr_memory_name *name)
{
	struct ldr_wide_hash hash = hash_of(layer, name->path, name->path_bytes);
	struct ldr_memory_shard *shard = shard_of(layer, hash);
	struct ldr_memory_table *table = table_of(shard);

	begin_change(shard);
	close_gap(table, (size_t)(slot_for(table, hash) - table->slots));
	end_change(shard);
	shard->count--;
	atomic_fetch_sub_explicit(&layer->name_count, 1, memory_order_release);
}

/* ---- folders ---- */

static void forget_listing(struct ldr_inode *folder)
{
	ldr_name_list_unref(folder->listing);
	folder->listing = NULL;
}

static void link_child(struct ldr_memory_name *name, struct ldr_inode *parent)
{
	name->parent = parent;
	name->prev_child = NULL;
	name->next_child = parent->children;
	if (parent->children)
		parent->children->prev_child = name;
	parent->children = name;
	parent->child_count++;
	forget_listing(parent);
}

static void unlink_child(struct ldr_memory_name *name)
{
	struct ldr_inode *parent = name->parent;

	if (name->prev_child)
		name->prev_child->next_child = name->next_child;
	else
		parent->children = name->next_child;
	if (name->next_child)
		name->next_child->prev_child = name->prev_child;
	parent->child_count--;
	forget_listing(parent);
}

struct ldr_memory_name *ldr_names_get(struct ldr_memory_layer *layer, const char *path,
				      size_t length)
{
	struct ldr_wide_hash hash = hash_of(layer, path, length);
	struct ldr_memory_slot *slot = slot_for(table_of(shard_of(layer, hash)), hash);

	return slot_inode(slot) ? slot->name : NULL;
}

/* The folder that path lies in. */
static enum ldr_status find_parent(struct ldr_memory_layer *layer, const char *path, size_t length,
				   struct ldr_inode **out_parent)
{
	struct ldr_memory_name *name;
	size_t end = length;

	while (end > 0 && path[end - 1] != '/')
		end--;
	if (end == 0) {
		*out_parent = layer->root;
		return LDR_OK;
	}
	name = ldr_names_get(layer, path, end - 1);
	if (!name)
		return ldr_names_why_not(layer, path, length);
	if (name->inode->kind != LDR_KIND_FOLDER)
		return LDR_ENOTDIR;
	*out_parent = name->inode;
	return LDR_OK;
}

static struct ldr_memory_name *name_new(struct ldr_memory_layer *layer, const char *path,
					size_t length)
{
	struct ldr_memory_name *name;

	if (!ldr_extent_pool_charge(&layer->extents, sizeof(*name) + length + 1))
		return NULL;
	name = malloc(sizeof(*name) + length + 1);
	if (!name) {
		ldr_extent_pool_refund(&layer->extents, sizeof(*name) + length + 1);
		return NULL;
	}
	memcpy(name->path, path, length);
	name->path[length] = '\0';
	name->path_bytes = (uint16_t)length;
	name->name_at = (uint16_t)length;
	while (name->name_at > 0 && name->path[name->name_at - 1] != '/')
		name->name_at--;
	return name;
}

static void name_free(struct ldr_memory_layer *layer, struct ldr_memory_name *name)
{
	ldr_extent_pool_refund(&layer->extents, sizeof(*name) + name->path_bytes + 1u);
	free(name);
}

enum ldr_status ldr_names_add(struct ldr_memory_layer *layer, const char *path, size_t length,
			      struct ldr_inode *inode, struct ldr_error *err)
{
	struct ldr_inode *parent;
	struct ldr_memory_name *name;
	enum ldr_status status = find_parent(layer, path, length, &parent);

	if (status != LDR_OK)
		return ldr_fail(err, status, "%.*s: its folder %s", 80, path,
				status == LDR_ENOTDIR ? "is a file" : "is not there");
	name = name_new(layer, path, length);
	if (!name)
		return ldr_fail(err, LDR_ENOSPACE, "%.*s: no room for one name more", 80, path);
	name->inode = inode;
	if (!put_slot(layer, name)) {
		name_free(layer, name);
		return ldr_fail(err, LDR_ENOMEM, "%.*s: out of memory", 80, path);
	}
	link_child(name, parent);
	return LDR_OK;
}

void ldr_names_remove(struct ldr_memory_layer *layer, struct ldr_memory_name *name)
{
	clear_slot(layer, name);
	unlink_child(name);
	ldr_inode_unref(layer, name->inode);
	name_free(layer, name);
}

void ldr_names_remove_tree(struct ldr_memory_layer *layer, struct ldr_memory_name *name)
{
	struct ldr_memory_name *deepest = name;

	for (;;) {
		struct ldr_memory_name *above = NULL;

		while (deepest->inode->children)
			deepest = deepest->inode->children;
		if (deepest != name)
			above = ldr_names_get(layer, deepest->path, deepest->name_at - 1u);
		ldr_names_remove(layer, deepest);
		if (!above)
			return;
		deepest = above;
	}
}

void ldr_names_swap(struct ldr_memory_layer *layer, struct ldr_memory_name *name,
		    struct ldr_inode *inode)
{
	struct ldr_wide_hash hash = hash_of(layer, name->path, name->path_bytes);
	struct ldr_memory_shard *shard = shard_of(layer, hash);
	struct ldr_inode *old = name->inode;

	name->inode = inode;
	begin_change(shard);
	atomic_store_explicit(&slot_for(table_of(shard), hash)->inode, inode, memory_order_release);
	end_change(shard);
	ldr_inode_unref(layer, old);
}

/* ---- moving ---- */

/* The next name of the tree below top, parents first; NULL at its end. */
static struct ldr_memory_name *next_below(struct ldr_memory_layer *layer,
					  const struct ldr_memory_name *top,
					  struct ldr_memory_name *name)
{
	if (name->inode->kind == LDR_KIND_FOLDER && name->inode->children)
		return name->inode->children;
	while (name != top && !name->next_child) {
		/* Up: the parent's own name is the path without the last one. */
		name = ldr_names_get(layer, name->path, name->name_at - 1u);
		assert(name);
	}
	return name == top ? NULL : name->next_child;
}

/* A renamed twin of one name: table and list point to it afterwards. */
static bool move_one(struct ldr_memory_layer *layer, struct ldr_memory_name **link, const char *to,
		     size_t to_bytes, size_t from_bytes)
{
	struct ldr_memory_name *old = *link, *twin;
	char path[2 * LDR_PATH_MAX_BYTES + 1];
	size_t rest = old->path_bytes - from_bytes;

	memcpy(path, to, to_bytes);
	memcpy(path + to_bytes, old->path + from_bytes, rest);
	twin = name_new(layer, path, to_bytes + rest);
	if (!twin)
		return false;
	twin->inode = old->inode;
	*link = twin;
	return put_slot(layer, twin);
}

/* Names below `from`, without it. */
static size_t count_below(struct ldr_memory_layer *layer, struct ldr_memory_name *from,
			  size_t *out_longest)
{
	size_t count = 0;

	*out_longest = from->path_bytes;
	for (struct ldr_memory_name *name = from; name; name = next_below(layer, from, name)) {
		count++;
		if (name->path_bytes > *out_longest)
			*out_longest = name->path_bytes;
	}
	return count;
}

/* Twins for all names of the tree first, so that nothing has changed when memory runs out; then the
 * old ones go. */
enum ldr_status ldr_names_move(struct ldr_memory_layer *layer, struct ldr_memory_name *from,
			       const char *to, size_t length, struct ldr_error *err)
{
	size_t from_bytes = from->path_bytes, longest, made = 0;
	size_t count = count_below(layer, from, &longest);
	struct ldr_memory_name **old, **twins;
	struct ldr_inode *parent;
	enum ldr_status status = find_parent(layer, to, length, &parent);

	if (status != LDR_OK)
		return ldr_fail(err, status, "%.*s: its folder is not there", 80, to);
	if (longest - from_bytes + length > LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL,
				"%.*s: a path below would have %zu bytes, limit %d", 80, to,
				longest - from_bytes + length, LDR_PATH_MAX_BYTES);
	old = calloc(2 * count, sizeof(*old));
	if (!old)
		return ldr_fail(err, LDR_ENOMEM, "%.*s: out of memory", 80, to);
	twins = old + count;
	for (struct ldr_memory_name *name = from; name; name = next_below(layer, from, name))
		old[made++] = name;
	for (made = 0; made < count; made++) {
		twins[made] = old[made];
		if (!move_one(layer, &twins[made], to, length, from_bytes))
			break;
	}
	for (size_t i = 0; made < count && i <= made; i++) {
		if (twins[i] == old[i])
			continue;
		if (i < made)
			clear_slot(layer, twins[i]);
		name_free(layer, twins[i]);
	}
	for (size_t i = 0; made == count && i < count; i++) {
		struct ldr_inode *below = i == 0 ? parent : old[i]->parent;

		clear_slot(layer, old[i]);
		unlink_child(old[i]);
		link_child(twins[i], below);
		name_free(layer, old[i]);
	}
	free(old);
	return made == count ? LDR_OK : ldr_fail(err, LDR_ENOMEM, "%.*s: out of memory", 80, to);
}

/* ---- listing ---- */

static int by_name(const void *left, const void *right)
{
	const struct ldr_memory_name *a = *(struct ldr_memory_name *const *)left;
	const struct ldr_memory_name *b = *(struct ldr_memory_name *const *)right;

	return ldr_name_compare(a->path + a->name_at, (size_t)(a->path_bytes - a->name_at),
				b->path + b->name_at, (size_t)(b->path_bytes - b->name_at));
}

static struct ldr_name_list *pack_names(struct ldr_memory_name **names, uint32_t count)
{
	struct ldr_name_list *list;
	size_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += 2u + names[i]->path_bytes - names[i]->name_at;
	list = malloc(sizeof(*list) + bytes);
	if (!list)
		return NULL;
	atomic_init(&list->references, 1);
	list->count = count;
	list->text_bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t length = (size_t)(names[i]->path_bytes - names[i]->name_at);

		list->text[list->text_bytes++] = names[i]->inode->kind;
		list->text[list->text_bytes++] = (uint8_t)length;
		memcpy(list->text + list->text_bytes, names[i]->path + names[i]->name_at, length);
		list->text_bytes += length;
	}
	return list;
}

enum ldr_status ldr_names_list(struct ldr_inode *folder, struct ldr_name_list **out_list,
			       struct ldr_error *err)
{
	struct ldr_memory_name **names;
	uint32_t count = 0;

	if (!folder->listing) {
		names = malloc((folder->child_count + 1u) * sizeof(names[0]));
		if (!names)
			return ldr_fail(err, LDR_ENOMEM, "folder: out of memory");
		for (struct ldr_memory_name *name = folder->children; name; name = name->next_child)
			names[count++] = name;
		qsort(names, count, sizeof(names[0]), by_name);
		folder->listing = pack_names(names, count);
		free(names);
		if (!folder->listing)
			return ldr_fail(err, LDR_ENOMEM, "folder: out of memory");
	}
	atomic_fetch_add_explicit(&folder->listing->references, 1, memory_order_relaxed);
	*out_list = folder->listing;
	return LDR_OK;
}

void ldr_name_list_unref(struct ldr_name_list *list)
{
	if (list && atomic_fetch_sub_explicit(&list->references, 1, memory_order_acq_rel) == 1)
		free(list);
}

/* ---- any case ---- */

static const struct ldr_memory_name *find_folded(const struct ldr_inode *folder, const char *name,
						 size_t length)
{
	for (const struct ldr_memory_name *child = folder->children; child;
	     child = child->next_child) {
		if (ldr_name_same_folded(child->path + child->name_at,
					 (size_t)(child->path_bytes - child->name_at), name,
					 length))
			return child;
	}
	return NULL;
}

bool ldr_names_unfold(struct ldr_memory_layer *layer, const char *path, size_t length,
		      char out_path[LDR_PATH_MAX_BYTES + 1], size_t *out_length)
{
	const struct ldr_inode *folder = layer->root;
	const struct ldr_memory_name *found = NULL;
	size_t start = 0;

	if (ldr_names_get(layer, path, length)) {
		memcpy(out_path, path, length + 1);
		*out_length = length;
		return true;
	}
	while (start < length) {
		const char *end = memchr(path + start, '/', length - start);
		size_t name_bytes = end ? (size_t)(end - path) - start : length - start;

		if (folder->kind != LDR_KIND_FOLDER)
			return false;
		found = find_folded(folder, path + start, name_bytes);
		if (!found)
			return false;
		folder = found->inode;
		start += name_bytes + 1;
	}
	if (found)
		memcpy(out_path, found->path, found->path_bytes);
	*out_length = found ? found->path_bytes : 0;
	out_path[*out_length] = '\0';
	return true;
}

/* ---- beginning and end ---- */

enum ldr_status ldr_memory_init(struct ldr_memory_layer *layer, uint64_t max_bytes,
				struct ldr_error *err)
{
	enum ldr_status status;

	memset(layer, 0, sizeof(*layer));
	atomic_flag_clear(&layer->inodes.busy);
	ldr_extent_pool_init(&layer->extents, max_bytes);
	ldr_mutex_init(&layer->changes, LDR_RANK_LAYER);
	status = ldr_random(&layer->seed, sizeof(layer->seed), err);
	for (unsigned i = 0; i < LDR_MEMORY_SHARDS && status == LDR_OK; i++) {
		struct ldr_memory_table *table = table_new(SLOTS_FIRST, NULL);

		if (!table)
			status = ldr_fail(err, LDR_ENOMEM, "names in memory: out of memory");
		atomic_store_explicit(&layer->shards[i].table, table, memory_order_relaxed);
	}
	return status == LDR_OK ? ldr_inode_new(layer, LDR_KIND_FOLDER, &layer->root, err) : status;
}

static void dispose_shard(struct ldr_memory_layer *layer, struct ldr_memory_shard *shard)
{
	struct ldr_memory_table *table = table_of(shard);

	for (size_t i = 0; table && i <= table->mask; i++) {
		if (!slot_inode(&table->slots[i]))
			continue;
		ldr_inode_unref(layer, table->slots[i].name->inode);
		name_free(layer, table->slots[i].name);
	}
	while (table) {
		struct ldr_memory_table *older = table->older;

		free(table);
		table = older;
	}
}

void ldr_memory_dispose(struct ldr_memory_layer *layer)
{
	for (unsigned i = 0; i < LDR_MEMORY_SHARDS; i++)
		dispose_shard(layer, &layer->shards[i]);
	if (layer->root)
		ldr_inode_unref(layer, layer->root);
	ldr_inode_pool_dispose(layer);
	ldr_extent_pool_dispose(&layer->extents);
	ldr_mutex_dispose(&layer->changes);
}
