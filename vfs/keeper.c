/*
 * The keeper: one thread of an instance that builds merged tables and frees old snapshots.
 *
 * A change of mounts publishes a snapshot without a table; lookups ask its mounts one by one until
 * the keeper has built the table and published a twin that has it. What was replaced is retired;
 * the keeper waits until no lookup sees it (epoch) and frees it. A mount that no snapshot lists any
 * more is then departed, and freed by the keeper when no handle counts itself in it any more.
 */
#include <assert.h>
#include <stdlib.h>

#include "vfs/vfs_priv.h"

#define BURY_MS 500u

void ldr_turn_take(struct ldr_vfs *vfs, struct ldr_turn *turn)
{
	ldr_mutex_lock(&vfs->lock);
	while (turn->taken)
		ldr_condition_wait(&turn->given, &vfs->lock);
	turn->taken = true;
	ldr_mutex_unlock(&vfs->lock);
}

void ldr_turn_give(struct ldr_vfs *vfs, struct ldr_turn *turn)
{
	ldr_mutex_lock(&vfs->lock);
	turn->taken = false;
	ldr_condition_signal(&turn->given);
	ldr_mutex_unlock(&vfs->lock);
}

void ldr_keeper_publish(struct ldr_vfs *vfs, struct ldr_snapshot *next)
{
	struct ldr_snapshot *past = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);

	/* Sequentially consistent: see epoch.h. */
	atomic_store(&vfs->snapshot, next);
	past->next = vfs->retired;
	vfs->retired = past;
	vfs->merge_failed = false;
	vfs->published++;
	ldr_condition_signal(&vfs->work);
}

void ldr_keeper_wait(struct ldr_vfs *vfs)
{
	uint64_t wanted;

	ldr_mutex_lock(&vfs->lock);
	wanted = vfs->published;
	while (vfs->released < wanted)
		ldr_condition_wait(&vfs->settled, &vfs->lock);
	ldr_mutex_unlock(&vfs->lock);
}

/* Takes dead mounts off the list; under lock. */
static struct ldr_mounted *take_dead(struct ldr_vfs *vfs)
{
	struct ldr_mounted *dead = NULL;
	struct ldr_mounted **link = &vfs->departed;

	while (*link) {
		struct ldr_mounted *mounted = *link;

		if (!ldr_mounted_is_dead(mounted)) {
			link = &mounted->next;
			continue;
		}
		*link = mounted->next;
		mounted->next = dead;
		dead = mounted;
	}
	return dead;
}

static void bury(struct ldr_vfs *vfs)
{
	struct ldr_mounted *dead;

	ldr_mutex_lock(&vfs->lock);
	dead = take_dead(vfs);
	ldr_mutex_unlock(&vfs->lock);
	while (dead) {
		struct ldr_mounted *next = dead->next;

		ldr_mounted_free(dead);
		dead = next;
	}
}

void ldr_keeper_wake(struct ldr_vfs *vfs)
{
	ldr_mutex_lock(&vfs->lock);
	ldr_condition_signal(&vfs->work);
	ldr_mutex_unlock(&vfs->lock);
}

/* Through those that are listed no more nothing is written from now on. The keeper alone frees
 * them, later. */
static void disclaim(struct ldr_snapshot *retired)
{
	for (uint32_t i = 0; i < retired->count; i++) {
		if (atomic_load(&retired->mounts[i]->listed) == 0)
			ldr_mounted_disclaim(retired->mounts[i]);
	}
}

/* Nobody sees these snapshots any more. */
static void release(struct ldr_vfs *vfs, struct ldr_snapshot *retired)
{
	while (retired) {
		struct ldr_snapshot *next = retired->next;

		ldr_mutex_lock(&vfs->lock);
		for (uint32_t i = 0; i < retired->count; i++) {
			struct ldr_mounted *mounted = retired->mounts[i];

			if (--mounted->listed > 0)
				continue;
			mounted->next = vfs->departed;
			vfs->departed = mounted;
			atomic_store(&mounted->departed, true);
		}
		ldr_mutex_unlock(&vfs->lock);
		disclaim(retired);
		ldr_snapshot_free(retired);
		retired = next;
	}
	bury(vfs);
}

static bool wants_merging(struct ldr_vfs *vfs)
{
	struct ldr_snapshot *snapshot = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);

	return snapshot->any_immutable && !snapshot->merged && !vfs->merge_failed;
}

/* Publishes a twin of the present snapshot with a table. Nobody but the keeper frees snapshots, so
 * this one stays while it is walked; when another one has been published meanwhile the work was for
 * nothing. */
static void merge(struct ldr_vfs *vfs)
{
	struct ldr_snapshot *present = atomic_load(&vfs->snapshot), *twin = NULL;
	struct ldr_merged *merged = NULL;
	enum ldr_status status = ldr_merged_build(present, vfs->seed, &merged, NULL);

	ldr_mutex_lock(&vfs->lock);
	if (present != atomic_load_explicit(&vfs->snapshot, memory_order_relaxed))
		goto out;
	if (status == LDR_OK)
		status = ldr_snapshot_new(present->mounts, present->count, present->generation,
					  &twin, NULL);
	if (status == LDR_OK) {
		twin->merged = merged;
		merged = NULL;
		ldr_keeper_publish(vfs, twin);
	} else {
		vfs->merge_failed = true;
	}
out:
	ldr_mutex_unlock(&vfs->lock);
	ldr_merged_free(merged);
}

/* Until there is work. With departed mounts about, it looks now and then: one may have died without
 * a word. */
static void rest(struct ldr_vfs *vfs)
{
	if (!vfs->departed) {
		ldr_condition_wait(&vfs->work, &vfs->lock);
		return;
	}
	ldr_condition_wait_ms(&vfs->work, &vfs->lock, BURY_MS);
	ldr_mutex_unlock(&vfs->lock);
	bury(vfs);
	ldr_mutex_lock(&vfs->lock);
}

static void *keep(void *argument)
{
	struct ldr_vfs *vfs = argument;

	ldr_mutex_lock(&vfs->lock);
	for (;;) {
		struct ldr_snapshot *retired = vfs->retired;
		uint64_t published = vfs->published;

		vfs->keeper_works = true;
		if (retired) {
			vfs->retired = NULL;
			ldr_mutex_unlock(&vfs->lock);
			ldr_epoch_synchronise(&vfs->epoch);
			release(vfs, retired);
			ldr_mutex_lock(&vfs->lock);
			vfs->released = published;
			ldr_condition_broadcast(&vfs->settled);
			continue;
		} else if (wants_merging(vfs) && !vfs->ending) {
			ldr_mutex_unlock(&vfs->lock);
			merge(vfs);
		} else if (vfs->ending) {
			break;
		} else {
			vfs->keeper_works = false;
			ldr_condition_broadcast(&vfs->settled);
			rest(vfs);
			continue;
		}
		ldr_mutex_lock(&vfs->lock);
	}
	vfs->keeper_works = false;
	ldr_condition_broadcast(&vfs->settled);
	ldr_mutex_unlock(&vfs->lock);
	return NULL;
}

void ldr_vfs_settle(struct ldr_vfs *vfs)
{
	ldr_mutex_lock(&vfs->lock);
	while (wants_merging(vfs) || vfs->retired || vfs->keeper_works)
		ldr_condition_wait(&vfs->settled, &vfs->lock);
	ldr_mutex_unlock(&vfs->lock);
}

enum ldr_status ldr_keeper_start(struct ldr_vfs *vfs, struct ldr_error *err)
{
	struct ldr_snapshot *first;
	enum ldr_status status = ldr_snapshot_new(NULL, 0, 1, &first, err);

	if (status != LDR_OK)
		return status;
	atomic_store(&vfs->snapshot, first);
	status = ldr_thread_start(&vfs->keeper, keep, vfs, err);
	if (status != LDR_OK)
		ldr_snapshot_free(first);
	return status;
}

void ldr_keeper_stop(struct ldr_vfs *vfs)
{
	struct ldr_snapshot *last;

	ldr_mutex_lock(&vfs->lock);
	vfs->ending = true;
	ldr_condition_signal(&vfs->work);
	ldr_mutex_unlock(&vfs->lock);
	pthread_join(vfs->keeper, NULL);
	last = atomic_load_explicit(&vfs->snapshot, memory_order_relaxed);
	last->next = NULL;
	release(vfs, last);
	assert(!vfs->departed);
}
