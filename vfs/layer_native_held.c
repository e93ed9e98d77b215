/*
 * Folders held open for a native layer; see layer_native_priv.h.
 *
 * A place's state is one number: its generation above, its users below. Who has an id counts itself
 * in only while the generation is the id's and somebody else (the owner at least) is still counted;
 * so a descriptor is closed by whoever leaves last, and never while it is used.
 */
#include <sys/resource.h>

#include "common/bytes.h"
#include "common/lock.h"
#include "vfs/layer_native_priv.h"

#define PLACE_BITS 16u

/* One descriptor in eight is left to each layer, and not more than there are places. */
void ldr_held_init(struct ldr_held *held)
{
	struct rlimit limit = {.rlim_cur = 1024};

	getrlimit(RLIMIT_NOFILE, &limit);
	held->free_count = LDR_HELD_MAX;
	if (limit.rlim_cur / 8 < LDR_HELD_MAX)
		held->free_count = (uint32_t)(limit.rlim_cur / 8);
	for (uint32_t i = 0; i < held->free_count; i++)
		held->free[i] = (uint16_t)i;
	for (unsigned i = 0; i < LDR_HELD_MAX; i++)
		held->folders[i].fd = -1;
}

void ldr_held_dispose(struct ldr_held *held)
{
	for (unsigned i = 0; i < LDR_HELD_MAX; i++)
		ldr_cleanup_fd(&held->folders[i].fd);
}

uint64_t ldr_held_put(struct ldr_held *held, int *fd, const struct stat *found, uint64_t tag)
{
	struct ldr_held_folder *folder = NULL;
	uint64_t state;

	ldr_spin_lock(&held->busy);
	if (held->free_count > 0)
		folder = &held->folders[held->free[--held->free_count]];
	ldr_spin_unlock(&held->busy);
	if (!folder)
		return 0;
	folder->fd = ldr_steal_fd(fd);
	folder->device = found->st_dev;
	folder->inode = found->st_ino;
	folder->tag = tag;
	state = atomic_load_explicit(&folder->state, memory_order_relaxed);
	/* Pairs with get: who counts itself in sees what is above. */
	atomic_store_explicit(&folder->state, state + 1, memory_order_release);
	return (state >> 32) << PLACE_BITS | (uint64_t)(folder - held->folders + 1);
}

const struct ldr_held_folder *ldr_held_get(struct ldr_held *held, uint64_t id)
{
	uint64_t place = id & ((1u << PLACE_BITS) - 1), state;
	struct ldr_held_folder *folder;

	if (place == 0 || place > LDR_HELD_MAX)
		return NULL;
	folder = &held->folders[place - 1];
	state = atomic_load_explicit(&folder->state, memory_order_relaxed);
	do {
		if (state >> 32 != id >> PLACE_BITS || (uint32_t)state == 0)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&folder->state, &state, state + 1, memory_order_acquire, memory_order_relaxed));
	return folder;
}

void ldr_held_leave(struct ldr_held *held, const struct ldr_held_folder *left)
{
	struct ldr_held_folder *folder = &held->folders[left - held->folders];
	/* Pairs with the others' decrements: they are done with the descriptor. */
	uint64_t state = atomic_fetch_sub_explicit(&folder->state, 1, memory_order_acq_rel);

	if ((uint32_t)state != 1)
		return;
	ldr_os_close(folder->fd);
	folder->fd = -1;
	atomic_store_explicit(&folder->state, (uint64_t)((uint32_t)(state >> 32) + 1) << 32,
			      memory_order_relaxed);
	ldr_spin_lock(&held->busy);
	held->free[held->free_count++] = (uint16_t)(folder - held->folders);
	ldr_spin_unlock(&held->busy);
}

void ldr_held_drop(struct ldr_held *held, uint64_t id)
{
	const struct ldr_held_folder *folder = ldr_held_get(held, id);

	if (!folder)
		return;
	ldr_held_leave(held, folder);
	ldr_held_leave(held, folder);
}
