/*
 * Inodes of the memory layer: counting, reading, writing; see memory_priv.h.
 *
 * A file's extents lie one behind the other in offset order, never moving. A writer adds extents,
 * fills in the bytes, and then publishes the new length (release); a reader loads the length
 * (acquire) and so finds every extent below it.
 */
#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "vfs/memory_priv.h"

#define SLAB_INODES 64u

struct ldr_inode_slab {
	struct ldr_inode_slab *next;
	struct ldr_inode inodes[SLAB_INODES];
};

/* ---- life ---- */

static struct ldr_inode *pool_take(struct ldr_inode_pool *pool)
{
	struct ldr_inode_slab *slab = NULL;
	struct ldr_inode *inode;

	ldr_spin_lock(&pool->busy);
	if (!pool->free) {
		slab = calloc(1, sizeof(*slab));
		for (unsigned i = 0; slab && i < SLAB_INODES; i++) {
			slab->inodes[i].next_free = pool->free;
			pool->free = &slab->inodes[i];
		}
	}
	if (slab) {
		slab->next = pool->slabs;
		pool->slabs = slab;
	}
	inode = pool->free;
	if (inode)
		pool->free = inode->next_free;
	ldr_spin_unlock(&pool->busy);
	return inode;
}

static void pool_give(struct ldr_inode_pool *pool, struct ldr_inode *inode)
{
	ldr_spin_lock(&pool->busy);
	inode->next_free = pool->free;
	pool->free = inode;
	ldr_spin_unlock(&pool->busy);
}

void ldr_inode_touch(struct ldr_inode *inode)
{
	atomic_store_explicit(&inode->modified_ns, ldr_clock_coarse_wall_ns(),
			      memory_order_relaxed);
}

enum ldr_status ldr_inode_new(struct ldr_memory_layer *layer, enum ldr_kind kind,
			      struct ldr_inode **out_inode, struct ldr_error *err)
{
	struct ldr_inode *inode;

	if (!ldr_extent_pool_charge(&layer->extents, sizeof(*inode)))
		return ldr_fail(err, LDR_ENOSPACE, "memory layer: one file more, limit %llu bytes",
				(unsigned long long)layer->extents.max_bytes);
	inode = pool_take(&layer->inodes);
	if (!inode) {
		ldr_extent_pool_refund(&layer->extents, sizeof(*inode));
		return ldr_fail(err, LDR_ENOMEM, "memory layer: out of memory");
	}
	atomic_flag_clear(&inode->busy);
	atomic_store_explicit(&inode->kind, (uint8_t)kind, memory_order_relaxed);
	inode->writers = inode->maps = 0;
	inode->capacity_bytes = 0;
	inode->children = NULL;
	inode->child_count = 0;
	inode->listing = NULL;
	inode->table = NULL;
	atomic_store_explicit(&inode->extent_count, 0, memory_order_relaxed);
	atomic_store_explicit(&inode->extents, inode->first, memory_order_relaxed);
	atomic_store_explicit(&inode->size_bytes, 0, memory_order_relaxed);
	ldr_inode_touch(inode);
	/* Last: from now on a look-up may take it. */
	atomic_store_explicit(&inode->references, 1, memory_order_release);
	*out_inode = inode;
	return LDR_OK;
}

bool ldr_inode_try_ref(struct ldr_inode *inode)
{
	uint32_t count = atomic_load_explicit(&inode->references, memory_order_relaxed);

	while (count != 0) {
		if (atomic_compare_exchange_weak_explicit(&inode->references, &count, count + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

void ldr_inode_unref(struct ldr_memory_layer *layer, struct ldr_inode *inode)
{
	const struct ldr_extent *extents;
	uint32_t count;

	/* Pairs with the others' decrements: what they wrote comes before its end. */
	if (atomic_fetch_sub_explicit(&inode->references, 1, memory_order_acq_rel) != 1)
		return;
	extents = atomic_load_explicit(&inode->extents, memory_order_relaxed);
	count = atomic_load_explicit(&inode->extent_count, memory_order_relaxed);
	for (uint32_t i = 0; i < count; i++)
		ldr_extent_give(&layer->extents, &extents[i]);
	while (inode->table) {
		struct ldr_extent_table *older = inode->table->older;

		free(inode->table);
		inode->table = older;
	}
	ldr_name_list_unref(inode->listing);
	ldr_extent_pool_refund(&layer->extents, sizeof(*inode));
	pool_give(&layer->inodes, inode);
}

void ldr_inode_pool_dispose(struct ldr_memory_layer *layer)
{
	struct ldr_inode_slab *slab = layer->inodes.slabs;

	while (slab) {
		struct ldr_inode_slab *next = slab->next;

		free(slab);
		slab = next;
	}
}

/* ---- bytes ---- */

/* A reader beside a writer at the same place sees old or new bytes, which is what the layer
 * promises; the sanitizer is told so by a loop of its own, since the system's memcpy is always
 * watched. */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread"))) static void copy(void *to, const void *from, size_t length)
{
	for (size_t i = 0; i < length; i++)
		((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}
#else
static void copy(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}
#endif

/* The extent that holds offset, which lies in one. */
static const struct ldr_extent *extent_at(const struct ldr_inode *inode, uint64_t offset)
{
	const struct ldr_extent *extents = atomic_load_explicit(&inode->extents,
								memory_order_acquire);
	uint32_t low = 0;
	uint32_t high = atomic_load_explicit(&inode->extent_count, memory_order_acquire);

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (extents[middle].start <= offset)
			low = middle;
		else
			high = middle;
	}
	return &extents[low];
}

size_t ldr_inode_read(const struct ldr_inode *inode, uint8_t *bytes, size_t length, uint64_t offset)
{
	uint64_t size = atomic_load_explicit(&inode->size_bytes, memory_order_acquire);
	size_t done = 0;

	if (offset >= size)
		return 0;
	if (length > size - offset)
		length = (size_t)(size - offset);
	while (done < length) {
		const struct ldr_extent *extent = extent_at(inode, offset + done);
		uint64_t within = offset + done - extent->start;
		size_t run = length - done;

		if (run > extent->length - within)
			run = (size_t)(extent->length - within);
		copy(bytes + done, extent->bytes + within, run);
		done += run;
	}
	return done;
}

/* bytes NULL: zeros. The range lies in extents. */
static void fill(struct ldr_inode *inode, const uint8_t *bytes, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;

	while (done < length) {
		const struct ldr_extent *extent = extent_at(inode, offset + done);
		uint64_t within = offset + done - extent->start;
		uint64_t run = length - done;

		if (run > extent->length - within)
			run = extent->length - within;
		if (bytes)
			copy(extent->bytes + within, bytes + done, (size_t)run);
		else
			memset(extent->bytes + within, 0, (size_t)run);
		done += run;
	}
}

/* Room for one more extent; readers may go on in the old table. */
static bool grow_table(struct ldr_inode *inode, uint32_t count)
{
	uint32_t capacity = inode->table
				    ? inode->table->capacity
				    : (uint32_t)(sizeof(inode->first) / sizeof(inode->first[0]));
	struct ldr_extent_table *table;

	if (count < capacity)
		return true;
	table = malloc(sizeof(*table) + 4 * (size_t)capacity * sizeof(table->items[0]));
	if (!table)
		return false;
	table->capacity = 4 * capacity;
	table->older = inode->table;
	memcpy(table->items, atomic_load_explicit(&inode->extents, memory_order_relaxed),
	       count * sizeof(table->items[0]));
	inode->table = table;
	atomic_store_explicit(&inode->extents, table->items, memory_order_release);
	return true;
}

static enum ldr_status add_extent(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				  uint64_t wanted, bool exact, struct ldr_error *err)
{
	uint32_t count = atomic_load_explicit(&inode->extent_count, memory_order_relaxed);
	struct ldr_extent extent;
	enum ldr_status status;

	if (!grow_table(inode, count))
		return ldr_fail(err, LDR_ENOMEM, "memory layer: out of memory");
	status = ldr_extent_take(&layer->extents, wanted, exact, &extent, err);
	if (status != LDR_OK)
		return status;
	extent.start = inode->capacity_bytes;
	inode->capacity_bytes += extent.length;
	atomic_load_explicit(&inode->extents, memory_order_relaxed)[count] = extent;
	atomic_store_explicit(&inode->extent_count, count + 1, memory_order_release);
	return LDR_OK;
}

/* Under busy. A file that grows doubles its capacity, up to 1 MiB at a time, without copying
 * anything. */
static enum ldr_status make_room(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				 uint64_t end, struct ldr_error *err)
{
	while (inode->capacity_bytes < end) {
		uint64_t missing = end - inode->capacity_bytes;
		uint64_t wanted = inode->capacity_bytes / 4;
		enum ldr_status status;

		status = add_extent(layer, inode, missing > wanted ? missing : wanted, false, err);
		if (status != LDR_OK)
			return status;
	}
	return LDR_OK;
}

/* Under busy; offset is where it is written, the file then reaches its end. */
static enum ldr_status write_longer(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				    const void *bytes, size_t length, uint64_t offset,
				    struct ldr_error *err)
{
	uint64_t size = atomic_load_explicit(&inode->size_bytes, memory_order_relaxed);
	enum ldr_status status;

	/* Before anything is taken: a far offset must not eat the memory that is left. */
	if (offset + length > layer->extents.max_bytes)
		return ldr_fail(err, LDR_ENOSPACE, "memory layer: file of %llu bytes, limit %llu",
				(unsigned long long)(offset + length),
				(unsigned long long)layer->extents.max_bytes);
	status = make_room(layer, inode, offset + length, err);
	if (status != LDR_OK)
		return status;
	if (offset > size)
		fill(inode, NULL, offset - size, size);
	fill(inode, bytes, length, offset);
	if (offset + length > size)
		atomic_store_explicit(&inode->size_bytes, offset + length, memory_order_release);
	return LDR_OK;
}

enum ldr_status ldr_inode_write(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				const void *bytes, size_t length, uint64_t offset, bool append,
				uint64_t *out_end, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	if (!append && length == 0)
		return LDR_OK;
	ldr_inode_touch(inode);
	if (!append &&
	    offset + length <= atomic_load_explicit(&inode->size_bytes, memory_order_acquire)) {
		fill(inode, bytes, length, offset);
		return LDR_OK;
	}
	ldr_spin_lock(&inode->busy);
	if (append)
		offset = atomic_load_explicit(&inode->size_bytes, memory_order_relaxed);
	if (length > 0)
		status = length <= UINT64_MAX - offset
				 ? write_longer(layer, inode, bytes, length, offset, err)
				 : ldr_fail(err, LDR_EINVAL, "memory layer: file past 2^64 bytes");
	ldr_spin_unlock(&inode->busy);
	if (status == LDR_OK && append && out_end)
		*out_end = offset + length;
	return status;
}

enum ldr_status ldr_inode_truncate(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				   uint64_t length, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	ldr_spin_lock(&inode->busy);
	if (length > atomic_load_explicit(&inode->size_bytes, memory_order_relaxed))
		status = write_longer(layer, inode, "", 0, length, err);
	if (status == LDR_OK)
		atomic_store_explicit(&inode->size_bytes, length, memory_order_release);
	ldr_spin_unlock(&inode->busy);
	if (status == LDR_OK)
		ldr_inode_touch(inode);
	return status;
}

enum ldr_status ldr_inode_reserve(struct ldr_memory_layer *layer, struct ldr_inode *inode,
				  uint64_t length, struct ldr_error *err)
{
	if (length == 0)
		return LDR_OK;
	return add_extent(layer, inode, length, true, err);
}

/* ---- writing and mapping exclude each other ---- */

bool ldr_inode_begin_writing(struct ldr_inode *inode)
{
	bool may;

	ldr_spin_lock(&inode->busy);
	may = inode->maps == 0;
	inode->writers += may;
	ldr_spin_unlock(&inode->busy);
	return may;
}

void ldr_inode_end_writing(struct ldr_inode *inode)
{
	ldr_spin_lock(&inode->busy);
	assert(inode->writers > 0);
	inode->writers--;
	ldr_spin_unlock(&inode->busy);
}

const uint8_t *ldr_inode_map(struct ldr_inode *inode, uint64_t offset, size_t length)
{
	const struct ldr_extent *extent;
	const uint8_t *bytes = NULL;

	ldr_spin_lock(&inode->busy);
	extent = extent_at(inode, offset);
	if (inode->writers == 0 && extent->length - (offset - extent->start) >= length) {
		inode->maps++;
		bytes = extent->bytes + (offset - extent->start);
	}
	ldr_spin_unlock(&inode->busy);
	return bytes;
}

void ldr_inode_unmap(struct ldr_inode *inode)
{
	ldr_spin_lock(&inode->busy);
	assert(inode->maps > 0);
	inode->maps--;
	ldr_spin_unlock(&inode->busy);
}
