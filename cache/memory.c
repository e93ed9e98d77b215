/*
 * The memory cache; see memory.h.
 *
 * A shard owns a slab, one entry per page of it (used where a run begins) and a hash table of
 * chains through the entries. The state of an entry:
 *
 *   free      its page begins no used run
 *   filling   run taken and pinned by ldr_memory_reserve; the caller writes the bytes without the lock
 *   held      in the hash table: can be found, pinned, and evicted while nobody has it pinned
 *   doomed    cleared while pinned: cannot be found any more; the hand takes it when the pins are gone
 *
 * Invariants
 *  1. Everything but the state word and `used` changes under the shard's lock. The word holds
 *     the pins and whether the entry is held. A pin is added under the lock, or without it by a
 *     compare-and-swap that finds the entry held (who comes by a hint); it is given back without
 *     the lock. The hand and clear end "held" by a compare-and-swap from no pins, so that nobody
 *     pins what goes.
 *  2. id and length change only while the entry is not held and pinned by nobody but its filler.
 *  3. hand is the beginning of a run, or the end of the arena.
 *
 * Locks: one per shard, LDR_RANK_MEMORY, never two at once, never held over a copy of bytes.
 */
#include "cache/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cache/recent.h"
#include "cache/slab.h"
#include "common/bytes.h"
#include "common/lock.h"

#define SHARDS_MAX 16u
/* A shard that held only a few of the longest blocks would evict by accident of the hash. */
#define SHARD_MIN_BYTES ((size_t)8 * 1024 * 1024)

#define STATE_HELD 0x80000000u

struct entry {
	_Alignas(64) struct ldr_id id;
	uint32_t length;
	uint32_t chain;    /* the next entry of the same hash, LDR_SLAB_NONE at the end */
	atomic_uint state; /* STATE_HELD and the number of pins */
	atomic_bool used;  /* since the hand last came by */
};

/* What a page costs beside its bytes: the slab's row, the entry, half a hash head, and its share of
 * what was asked for lately. */
#define PAGE_COST_BYTES                                                             \
	(LDR_SLAB_PAGE_BYTES + LDR_SLAB_OVERHEAD_BYTES + sizeof(struct entry) + 2 + \
	 LDR_RECENT_PAGE_BYTES)

struct shard {
	struct ldr_mutex lock;
	struct ldr_slab *slab; /* owns */
	struct entry *entries; /* owns */
	uint32_t *heads;       /* owns */
	uint32_t heads_mask;
	uint32_t hand;
	struct ldr_recent recent;
	uint64_t blocks;
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t refused;
};

struct ldr_memory_cache {
	struct {
		_Alignas(64) atomic_uint_fast64_t hits; /* by hints, of some of the threads */
	} stripes[LDR_STRIPES];
	uint64_t capacity_bytes;
	unsigned shard_count; /* 0: keeps nothing */
	struct shard shards[SHARDS_MAX];
	atomic_uint_fast64_t misses_without_shards;
	atomic_uint_fast64_t refused_without_shards;
};

/* Most pages that fit with their headers, and at most half as many heads. */
static enum ldr_status shard_init(struct shard *shard, size_t bytes, struct ldr_error *err)
{
	size_t pages = bytes / PAGE_COST_BYTES;
	uint32_t heads = 1;
	enum ldr_status status;

	if (pages > LDR_SLAB_PAGES_MAX)
		pages = LDR_SLAB_PAGES_MAX;
	while (heads <= pages / 4)
		heads *= 2;
	status = ldr_slab_new((uint32_t)pages, &shard->slab, err);
	if (status)
		return status;
	shard->entries = aligned_alloc(_Alignof(struct entry), pages * sizeof(*shard->entries));
	shard->heads = malloc(heads * sizeof(*shard->heads));
	if (!shard->entries || !shard->heads || !ldr_recent_init(&shard->recent, (uint32_t)pages))
		return ldr_fail(err, LDR_ENOMEM, "memory cache: no memory for %zu pages", pages);
	memset(shard->entries, 0, pages * sizeof(*shard->entries));
	memset(shard->heads, 0xff, heads * sizeof(*shard->heads));
	shard->heads_mask = heads - 1;
	return LDR_OK;
}

static void shard_dispose(struct shard *shard)
{
	uint32_t page = shard->slab && shard->entries ? ldr_slab_next(shard->slab, 0)
						      : LDR_SLAB_NONE;

	while (page != LDR_SLAB_NONE) {
		assert((atomic_load(&shard->entries[page].state) & ~STATE_HELD) == 0);
		page = ldr_slab_next(shard->slab, page + ldr_slab_run_pages(shard->slab, page));
	}
	ldr_slab_free(shard->slab);
	free(shard->entries);
	free(shard->heads);
	ldr_recent_dispose(&shard->recent);
	ldr_mutex_dispose(&shard->lock);
}

enum ldr_status ldr_memory_cache_new(size_t capacity_bytes, struct ldr_memory_cache **out_cache,
				     struct ldr_error *err)
{
	struct ldr_memory_cache *cache = aligned_alloc(_Alignof(struct ldr_memory_cache),
						       sizeof(*cache));
	size_t count = capacity_bytes / SHARD_MIN_BYTES;

	if (!cache)
		return ldr_fail(err, LDR_ENOMEM, "memory cache: no memory");
	memset(cache, 0, sizeof(*cache));
	cache->capacity_bytes = capacity_bytes;
	if (capacity_bytes < PAGE_COST_BYTES + sizeof(uint32_t))
		count = 0;
	else if (count == 0)
		count = 1;
	else if (count > SHARDS_MAX)
		count = SHARDS_MAX;
	for (unsigned i = 0; i < count; i++) {
		ldr_mutex_init(&cache->shards[i].lock, LDR_RANK_MEMORY);
		cache->shard_count++;
		enum ldr_status status = shard_init(&cache->shards[i], capacity_bytes / count, err);

		if (status) {
			ldr_memory_cache_free(cache);
			return status;
		}
	}
	*out_cache = cache;
	return LDR_OK;
}

void ldr_memory_cache_free(struct ldr_memory_cache *cache)
{
	if (!cache)
		return;
	for (unsigned i = 0; i < cache->shard_count; i++)
		shard_dispose(&cache->shards[i]);
	free(cache);
}

/* The shard by bytes of the id that the chains do not use. */
static struct shard *shard_of(struct ldr_memory_cache *cache, const struct ldr_id *id)
{
	return &cache->shards[ldr_get_le(id->bytes + 8, 4) % cache->shard_count];
}

static uint32_t *head_of_locked(struct shard *shard, const struct ldr_id *id)
{
	return &shard->heads[ldr_id_hash(id) & shard->heads_mask];
}

static struct entry *find_locked(struct shard *shard, const struct ldr_id *id)
{
	uint32_t page = *head_of_locked(shard, id);

	while (page != LDR_SLAB_NONE && !ldr_id_equal(&shard->entries[page].id, id))
		page = shard->entries[page].chain;
	return page == LDR_SLAB_NONE ? NULL : &shard->entries[page];
}

static void insert_locked(struct shard *shard, struct entry *entry)
{
	uint32_t *head = head_of_locked(shard, &entry->id);

	entry->chain = *head;
	*head = (uint32_t)(entry - shard->entries);
	/* Not yet used: a block that is read once must not outlive those that are read again. */
	atomic_store_explicit(&entry->used, false, memory_order_relaxed);
	/* Release: who finds it held finds id, length and bytes. */
	atomic_fetch_or_explicit(&entry->state, STATE_HELD, memory_order_release);
	shard->blocks++;
}

static void unlink_locked(struct shard *shard, struct entry *entry)
{
	uint32_t *link = head_of_locked(shard, &entry->id);

	while (&shard->entries[*link] != entry)
		link = &shard->entries[*link].chain;
	*link = entry->chain;
	shard->blocks--;
}

/* Gives a run back. The hand must not point into the middle of the free run that comes of it; it
 * moves to that run's end, since at its beginning it would next meet the block that is put there.
 * */
static void release_locked(struct shard *shard, struct entry *entry)
{
	uint32_t first = ldr_slab_release(shard->slab, (uint32_t)(entry - shard->entries));
	uint32_t end = first + ldr_slab_run_pages(shard->slab, first);

	if (shard->hand > first && shard->hand < end)
		shard->hand = end;
}

static void pin_locked(struct shard *shard, struct entry *entry, struct ldr_memory_block *out)
{
	atomic_fetch_add_explicit(&entry->state, 1, memory_order_relaxed);
	out->bytes = ldr_slab_at(shard->slab, (uint32_t)(entry - shard->entries));
	out->length = entry->length;
	out->pin = entry;
}

/* One step of the hand: evicts what it finds unused and not pinned. False at the end of a round. */
static bool step_hand_locked(struct shard *shard)
{
	uint32_t page = ldr_slab_next(shard->slab, shard->hand);
	struct entry *entry;
	unsigned state;

	if (page == LDR_SLAB_NONE) {
		shard->hand = 0;
		return false;
	}
	entry = &shard->entries[page];
	shard->hand = page + ldr_slab_run_pages(shard->slab, page);
	state = atomic_load_explicit(&entry->state, memory_order_relaxed);
	if (state & ~STATE_HELD)
		return true;
	if (state && atomic_load_explicit(&entry->used, memory_order_relaxed)) {
		atomic_store_explicit(&entry->used, false, memory_order_relaxed);
		return true;
	}
	/* Acquire pairs with the release in ldr_memory_unpin: the last reader is done with the
	 * bytes. */
	if (!atomic_compare_exchange_strong_explicit(&entry->state, &state, 0, memory_order_acquire,
						     memory_order_relaxed))
		return true;
	if (state) {
		unlink_locked(shard, entry);
		shard->evictions++;
	}
	release_locked(shard, entry);
	return true;
}

/* Whether others may go for this block. */
static bool pays_locked(struct shard *shard, const struct ldr_block_ref *block,
			enum ldr_memory_want want)
{
	uint32_t pages = (block->plain_bytes + LDR_SLAB_PAGE_BYTES - 1) / LDR_SLAB_PAGE_BYTES;

	return want == LDR_MEMORY_ALWAYS ||
	       ldr_recent_admits(&shard->recent, ldr_id_hash(&block->id), pages);
}

/* A run for the block, by eviction if need be and if it pays; NULL when that is not so or when some
 * rounds of the hand found no room. */
static struct entry *take_locked(struct shard *shard, const struct ldr_block_ref *block,
				 enum ldr_memory_want want)
{
	uint32_t length = block->plain_bytes;
	uint32_t page = ldr_slab_take(shard->slab, length);
	unsigned rounds = 0;

	if (page == LDR_SLAB_NONE &&
	    (length > (uint64_t)ldr_slab_pages(shard->slab) * LDR_SLAB_PAGE_BYTES ||
	     !pays_locked(shard, block, want)))
		return NULL;
	while (page == LDR_SLAB_NONE) {
		if (!step_hand_locked(shard) && ++rounds > 3)
			return NULL;
		page = ldr_slab_take(shard->slab, length);
	}
	return &shard->entries[page];
}

bool ldr_memory_has(struct ldr_memory_cache *cache, const struct ldr_id *id)
{
	struct shard *shard;
	bool found;

	if (cache->shard_count == 0)
		return false;
	shard = shard_of(cache, id);
	ldr_mutex_lock(&shard->lock);
	found = find_locked(shard, id) != NULL;
	ldr_mutex_unlock(&shard->lock);
	return found;
}

bool ldr_memory_get(struct ldr_memory_cache *cache, const struct ldr_id *id,
		    struct ldr_memory_block *out)
{
	struct shard *shard;
	struct entry *entry;

	if (cache->shard_count == 0) {
		atomic_fetch_add_explicit(&cache->misses_without_shards, 1, memory_order_relaxed);
		return false;
	}
	shard = shard_of(cache, id);
	ldr_mutex_lock(&shard->lock);
	entry = find_locked(shard, id);
	if (entry) {
		atomic_store_explicit(&entry->used, true, memory_order_relaxed);
		shard->hits++;
		pin_locked(shard, entry, out);
	} else {
		shard->misses++;
	}
	ldr_mutex_unlock(&shard->lock);
	return entry != NULL;
}

/* A hint is the entry's page and the shard's number, plus one. */
uint32_t ldr_memory_hint(const struct ldr_memory_cache *cache, const struct ldr_memory_block *block)
{
	const struct entry *entry = block->pin;

	for (unsigned i = 0; i < cache->shard_count; i++) {
		const struct shard *shard = &cache->shards[i];
		uint64_t page = (uint64_t)(entry - shard->entries);

		if (entry < shard->entries || page >= ldr_slab_pages(shard->slab))
			continue;
		return page < UINT32_MAX / SHARDS_MAX ? (uint32_t)page * SHARDS_MAX + i + 1
						      : LDR_MEMORY_NO_HINT;
	}
	return LDR_MEMORY_NO_HINT;
}

/* Further lines come by the processor's own guess once a copy runs through these. */
#define PREFETCH_LINES 4u

void ldr_memory_prefetch(const struct ldr_memory_cache *cache, uint32_t hint, uint32_t offset)
{
	const struct shard *shard;
	const uint8_t *bytes;
	uint32_t page;

	if (hint == LDR_MEMORY_NO_HINT || (hint - 1) % SHARDS_MAX >= cache->shard_count)
		return;
	shard = &cache->shards[(hint - 1) % SHARDS_MAX];
	page = (hint - 1) / SHARDS_MAX;
	if (page >= ldr_slab_pages(shard->slab))
		return;
	__builtin_prefetch(&shard->entries[page], 1);
	bytes = ldr_slab_at(shard->slab, page) + offset;
	for (unsigned i = 0; i < PREFETCH_LINES; i++)
		__builtin_prefetch(bytes + (size_t)i * 64);
}

/* Pins an entry that is held; false: it is not. */
static bool pin_held(struct entry *entry)
{
	unsigned state = atomic_load_explicit(&entry->state, memory_order_relaxed);

	while (state & STATE_HELD) {
		/* Acquire pairs with the release in insert_locked. */
		if (atomic_compare_exchange_weak_explicit(&entry->state, &state, state + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

bool ldr_memory_get_hinted(struct ldr_memory_cache *cache, const struct ldr_block_ref *block,
			   uint32_t hint, struct ldr_memory_block *out)
{
	struct shard *shard;
	struct entry *entry;

	if (hint == LDR_MEMORY_NO_HINT || (hint - 1) % SHARDS_MAX >= cache->shard_count)
		return false;
	shard = &cache->shards[(hint - 1) % SHARDS_MAX];
	if ((hint - 1) / SHARDS_MAX >= ldr_slab_pages(shard->slab))
		return false;
	entry = &shard->entries[(hint - 1) / SHARDS_MAX];
	if (!pin_held(entry))
		return false;
	out->pin = entry;
	out->length = entry->length;
	if (out->length != block->plain_bytes || !ldr_id_equal(&entry->id, &block->id)) {
		ldr_memory_unpin(cache, out);
		return false;
	}
	out->bytes = ldr_slab_at(shard->slab, (uint32_t)(entry - shard->entries));
	if (!atomic_load_explicit(&entry->used, memory_order_relaxed))
		atomic_store_explicit(&entry->used, true, memory_order_relaxed);
	atomic_fetch_add_explicit(&cache->stripes[ldr_thread_stripe()].hits, 1,
				  memory_order_relaxed);
	return true;
}

enum ldr_memory_room ldr_memory_reserve(struct ldr_memory_cache *cache,
					const struct ldr_block_ref *block,
					enum ldr_memory_want want, struct ldr_memory_block *out,
					uint8_t **out_bytes)
{
	enum ldr_memory_room room = LDR_MEMORY_HELD;
	struct shard *shard;
	struct entry *entry;

	if (cache->shard_count == 0 || block->plain_bytes == 0) {
		atomic_fetch_add_explicit(&cache->refused_without_shards, 1, memory_order_relaxed);
		return LDR_MEMORY_REFUSED;
	}
	shard = shard_of(cache, &block->id);
	ldr_mutex_lock(&shard->lock);
	entry = find_locked(shard, &block->id);
	if (!entry) {
		entry = take_locked(shard, block, want);
		room = entry ? LDR_MEMORY_FILL : LDR_MEMORY_REFUSED;
	}
	if (room == LDR_MEMORY_FILL) {
		entry->id = block->id;
		entry->length = block->plain_bytes;
		*out_bytes = ldr_slab_at(shard->slab, (uint32_t)(entry - shard->entries));
	}
	if (entry)
		pin_locked(shard, entry, out);
	else
		shard->refused++;
	ldr_mutex_unlock(&shard->lock);
	return room;
}

/* The filled entry becomes held, unless somebody else was faster with the same block. */
void ldr_memory_filled(struct ldr_memory_cache *cache, struct ldr_memory_block *room, bool good)
{
	struct entry *entry = room->pin, *other;
	struct shard *shard = shard_of(cache, &entry->id);

	ldr_mutex_lock(&shard->lock);
	other = good ? find_locked(shard, &entry->id) : NULL;
	if (good && !other) {
		insert_locked(shard, entry);
	} else {
		/* Not held, so nobody else has it pinned. */
		atomic_fetch_sub_explicit(&entry->state, 1, memory_order_relaxed);
		release_locked(shard, entry);
		*room = (struct ldr_memory_block){0};
	}
	if (other)
		pin_locked(shard, other, room);
	ldr_mutex_unlock(&shard->lock);
}

bool ldr_memory_put(struct ldr_memory_cache *cache, const struct ldr_block_ref *block,
		    const void *bytes, struct ldr_memory_block *out)
{
	struct ldr_memory_block kept;
	enum ldr_memory_room room;
	uint8_t *to;

	room = ldr_memory_reserve(cache, block, LDR_MEMORY_ALWAYS, &kept, &to);
	if (room == LDR_MEMORY_REFUSED)
		return false;
	if (room == LDR_MEMORY_FILL) {
		ldr_copy(to, bytes, block->plain_bytes);
		ldr_memory_filled(cache, &kept, true);
	}
	if (out)
		*out = kept;
	else
		ldr_memory_unpin(cache, &kept);
	return true;
}

void ldr_memory_unpin(struct ldr_memory_cache *cache, struct ldr_memory_block *block)
{
	struct entry *entry = block->pin;
	unsigned before;

	(void)cache;
	/* Pairs with the acquire in step_hand_locked and clear_locked. */
	before = atomic_fetch_sub_explicit(&entry->state, 1, memory_order_release);
	assert((before & ~STATE_HELD) > 0);
	(void)before;
	*block = (struct ldr_memory_block){0};
}

static void clear_locked(struct shard *shard)
{
	uint32_t page = ldr_slab_next(shard->slab, 0);

	while (page != LDR_SLAB_NONE) {
		struct entry *entry = &shard->entries[page];
		uint32_t end = page + ldr_slab_run_pages(shard->slab, page);
		/* Acquire: as in step_hand_locked. Filling entries are not held, and stay. */
		unsigned before = atomic_fetch_and_explicit(&entry->state, ~STATE_HELD,
							    memory_order_acquire);

		if (before & STATE_HELD)
			unlink_locked(shard, entry);
		if ((before & ~STATE_HELD) == 0)
			page = ldr_slab_release(shard->slab, page);
		else
			page = end;
		page = ldr_slab_next(shard->slab, page);
	}
	shard->hand = 0;
}

void ldr_memory_clear(struct ldr_memory_cache *cache)
{
	for (unsigned i = 0; i < cache->shard_count; i++) {
		ldr_mutex_lock(&cache->shards[i].lock);
		clear_locked(&cache->shards[i]);
		ldr_mutex_unlock(&cache->shards[i].lock);
	}
}

void ldr_memory_stat(struct ldr_memory_cache *cache, struct ldr_memory_stat *out)
{
	struct ldr_memory_stat sum = {.capacity_bytes = cache->capacity_bytes};

	sum.misses = atomic_load(&cache->misses_without_shards);
	sum.refused = atomic_load(&cache->refused_without_shards);
	for (unsigned i = 0; i < LDR_STRIPES; i++)
		sum.hits += atomic_load_explicit(&cache->stripes[i].hits, memory_order_relaxed);
	for (unsigned i = 0; i < cache->shard_count; i++) {
		struct shard *shard = &cache->shards[i];

		ldr_mutex_lock(&shard->lock);
		sum.used_bytes += (uint64_t)ldr_slab_used_pages(shard->slab) * LDR_SLAB_PAGE_BYTES;
		sum.blocks += shard->blocks;
		sum.hits += shard->hits;
		sum.misses += shard->misses;
		sum.evictions += shard->evictions;
		sum.refused += shard->refused;
		ldr_mutex_unlock(&shard->lock);
	}
	*out = sum;
}
