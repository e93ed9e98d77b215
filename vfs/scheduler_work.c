/*
 * The workers: what is done with a request from its queue until it has ended, waits for the network
 * or lets others pass; see scheduler_priv.h.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "common/bytes.h"
#include "vfs/scheduler_priv.h"

/* What comes after a stay with a worker. */
enum next {
	NEXT_END,
	NEXT_PASS, /* others are more urgent: back into the queue */
	NEXT_READ, /* the open is done: into the lane of reads */
	NEXT_WAIT, /* for the network */
};

/* ---- the lane ---- */

void ldr_lane_hint(struct ldr_lane *lane)
{
	const struct ldr_queue *queue = &lane->queue;
	uint32_t most_urgent = LDR_IO_CLASSES;
	uint64_t oldest_ns = UINT64_MAX;

	if (queue->count) {
		most_urgent = queue->heap[0]->deadline_ns ? 0 : (uint32_t)queue->heap[0]->io_class;
		oldest_ns = queue->oldest->entered_ns;
	}
	atomic_store_explicit(&lane->waiting_class, most_urgent, memory_order_relaxed);
	atomic_store_explicit(&lane->oldest_ns, oldest_ns, memory_order_relaxed);
}

bool ldr_slot_queue(struct ldr_slot *slot, uint64_t now_ns)
{
	struct ldr_lane *lane = &slot->scheduler->lanes[slot->lane];

	slot->state = LDR_SLOT_QUEUED;
	slot->since_ns = now_ns;
	slot->node.io_class = slot->request.io_class;
	ldr_queue_put(&lane->queue, &slot->node, now_ns);
	ldr_lane_hint(lane);
	if (lane->idle == 0)
		return false;
	lane->idle--;
	lane->woken++;
	return true;
}

void ldr_slot_unqueue(struct ldr_slot *slot, uint64_t now_ns)
{
	struct ldr_lane *lane = &slot->scheduler->lanes[slot->lane];

	ldr_queue_remove(&lane->queue, &slot->node);
	ldr_lane_hint(lane);
	slot->times.queue_ns += ldr_nanoseconds(slot->since_ns, now_ns);
	slot->state = LDR_SLOT_RUNNING;
	slot->since_ns = now_ns;
	slot->scheduler->m.running++;
}

void ldr_lane_wake(struct ldr_lane *lane)
{
	ldr_condition_signal(&lane->work);
}

/* ---- ends ---- */

void ldr_slot_release(struct ldr_slot *slot)
{
	struct ldr_file *file = slot->file;
	struct ldr_list *list = slot->list;

	slot->file = NULL;
	slot->list = NULL;
	ldr_file_unref(file);
	ldr_list_free(list);
}

static void count_end(struct ldr_scheduler *scheduler, const struct ldr_slot *slot)
{
	struct ldr_scheduler_metrics *m = &scheduler->m;

	switch (slot->outcome) {
	case LDR_IO_DONE:
		ldr_saturating_add(&m->done, 1);
		ldr_saturating_add(&m->failed, slot->error.status != LDR_OK);
		ldr_saturating_add(&m->bytes_read, slot->done);
		break;
	case LDR_IO_CANCELLED:
		ldr_saturating_add(&m->cancelled, 1);
		break;
	case LDR_IO_EXPIRED:
		ldr_saturating_add(&m->expired, 1);
		break;
	}
	ldr_saturating_add(&m->pieces, slot->pieces);
	m->running--;
	m->ended++;
}

struct ldr_tidings ldr_slot_publish(struct ldr_slot *slot, uint64_t now_ns)
{
	struct ldr_scheduler *scheduler = slot->scheduler;
	bool was_empty = !scheduler->ended_first;

	count_end(scheduler, slot);
	slot->state = LDR_SLOT_ENDED;
	slot->times.ended_ns = now_ns;
	slot->next = NULL;
	if (was_empty)
		scheduler->ended_first = slot;
	else
		scheduler->ended_last->next = slot;
	scheduler->ended_last = slot;
	if (was_empty)
		atomic_store_explicit(&scheduler->has_ended, true, memory_order_release);
	return (struct ldr_tidings){
		.raise = was_empty,
		.collect = was_empty && scheduler->collectors,
		.quiet = scheduler->watchers && scheduler->m.requests == scheduler->m.ended,
	};
}

void ldr_scheduler_tell(struct ldr_scheduler *scheduler, struct ldr_tidings tidings)
{
	if (tidings.raise)
		ldr_scheduler_raise_event(scheduler);
	if (tidings.collect)
		ldr_condition_broadcast(&scheduler->collect);
	if (tidings.quiet)
		ldr_condition_broadcast(&scheduler->quiet);
}

/* What the slot says about an end without a result, its files and lists given up. */
static void set_outcome(struct ldr_slot *slot, enum ldr_io_outcome outcome)
{
	slot->outcome = outcome;
	slot->done = 0;
	memset(&slot->stat, 0, sizeof(slot->stat));
	if (outcome == LDR_IO_CANCELLED)
		ldr_fail(&slot->error, LDR_ECANCELLED, "%s was cancelled",
			 ldr_io_kind_name(slot->request.kind));
	else
		ldr_fail(&slot->error, LDR_ETIMEDOUT, "%s had not started at its deadline",
			 ldr_io_kind_name(slot->request.kind));
	ldr_slot_release(slot);
}

void ldr_slot_end(struct ldr_slot *slot, enum ldr_io_outcome outcome)
{
	struct ldr_scheduler *scheduler = slot->scheduler;
	struct ldr_tidings tidings;

	set_outcome(slot, outcome);
	ldr_mutex_lock(&scheduler->lock);
	tidings = ldr_slot_publish(slot, ldr_scheduler_now(scheduler));
	ldr_mutex_unlock(&scheduler->lock);
	ldr_scheduler_tell(scheduler, tidings);
}

/* The first queued one of any lane whose deadline has passed, RUNNING now, or NULL. */
static struct ldr_slot *take_expired(struct ldr_scheduler *scheduler, uint64_t now_ns)
{
	for (unsigned i = 0; i < LDR_LANES; i++) {
		const struct ldr_queue *queue = &scheduler->lanes[i].queue;
		struct ldr_queue_node *node = queue->count ? queue->heap[0] : NULL;

		if (node && ldr_queue_missed(node, now_ns)) {
			ldr_slot_unqueue(ldr_slot_of(node), now_ns);
			return ldr_slot_of(node);
		}
	}
	return NULL;
}

static bool has_deadlines(struct ldr_scheduler *scheduler)
{
	for (unsigned i = 0; i < LDR_LANES; i++) {
		if (atomic_load_explicit(&scheduler->lanes[i].waiting_class,
					 memory_order_relaxed) == 0)
			return true;
	}
	return false;
}

void ldr_scheduler_expire(struct ldr_scheduler *scheduler)
{
	struct ldr_slot *slot;

	if (!has_deadlines(scheduler))
		return;

	do {
		uint64_t now_ns = ldr_scheduler_now(scheduler);

		ldr_mutex_lock(&scheduler->lock);
		slot = take_expired(scheduler, now_ns);
		ldr_mutex_unlock(&scheduler->lock);
		if (slot)
			ldr_slot_end(slot, LDR_IO_EXPIRED);
	} while (slot);
}

/* ---- names and saves ---- */

static enum ldr_status open_file(struct ldr_slot *slot, unsigned flags)
{
	const struct ldr_io_request *request = &slot->request;
	enum ldr_status status = ldr_vfs_open(request->vfs, request->path, flags, &slot->file,
					      &slot->error);

	if (status == LDR_OK)
		ldr_file_mount(slot->file, &slot->mount_id, &slot->mount_generation);
	return status;
}

static enum next work_name(struct ldr_slot *slot)
{
	struct ldr_io_request *request = &slot->request;
	enum next next = NEXT_END;
	enum ldr_status status = LDR_OK;

	switch (request->kind) {
	case LDR_IO_READ:
	case LDR_IO_PREFETCH:
		status = open_file(slot, LDR_OPEN_READ);
		if (status == LDR_OK && !atomic_load(&slot->cancelled))
			next = NEXT_READ;
		break;
	case LDR_IO_OPEN:
		status = open_file(slot, request->open_flags ? request->open_flags : LDR_OPEN_READ);
		break;
	case LDR_IO_STAT:
		status = ldr_vfs_stat(request->vfs, request->path, &slot->stat, &slot->error);
		break;
	case LDR_IO_LIST:
		status = ldr_vfs_list(request->vfs, request->path, &slot->list, &slot->error);
		break;
	case LDR_IO_REPLACE:
		status = ldr_vfs_replace(request->vfs, request->path, request->source,
					 request->length, request->sync, &slot->error);
		break;
	}
	slot->error.status = status;
	return next;
}

/* ---- reads ---- */

static enum ldr_priority priority_of(enum ldr_io_class io_class)
{
	return (enum ldr_priority)(io_class - LDR_IO_CRITICAL);
}

/* Where the bytes of a prefetch go: a thread's own, so that no two write there at once. */
struct scratch {
	uint8_t *bytes;
	size_t length;
};

/* Without threads it lies on the stack of whoever submits. */
#define ALONE_BYTES 4096u

static struct ldr_piece next_piece(struct ldr_slot *slot, const struct scratch *scratch)
{
	const struct ldr_io_request *request = &slot->request;
	bool keeps = request->kind == LDR_IO_READ;
	size_t left = request->length - slot->done;
	size_t most = keeps ? LDR_SCHEDULER_PIECE_BYTES : scratch->length;

	return (struct ldr_piece){
		.file = slot->file,
		.bytes = keeps ? (uint8_t *)request->bytes + slot->done : scratch->bytes,
		.length = left < most ? left : most,
		.offset = request->offset + slot->done,
		.tag = request->tag,
		.stages = &slot->times.stages,
	};
}

void ldr_slot_ready(struct ldr_wait *wait)
{
	struct ldr_slot *slot = (struct ldr_slot *)((char *)wait - offsetof(struct ldr_slot, wait));
	struct ldr_scheduler *scheduler = slot->scheduler;
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	bool wake = false;

	ldr_mutex_lock(&scheduler->lock);
	if (slot->state == LDR_SLOT_WAITING && !slot->pinned)
		wake = ldr_slot_resume(slot, now_ns);
	else
		slot->woken = true;
	ldr_mutex_unlock(&scheduler->lock);
	if (wake)
		ldr_lane_wake(&scheduler->lanes[LDR_LANE_READS]);
}

/* What is kept for a piece that has come over the network. */
static void release_wait(struct ldr_slot *slot)
{
	if (!slot->wait.ops)
		return;
	ldr_wait_release(&slot->wait);
	slot->wait = (struct ldr_wait){.ready = ldr_slot_ready};
}

/* True: what waits in the lane is more urgent than this read, or has waited too long. */
static bool lets_pass(const struct ldr_slot *slot)
{
	struct ldr_lane *lane = &slot->scheduler->lanes[LDR_LANE_READS];
	uint32_t waiting = atomic_load_explicit(&lane->waiting_class, memory_order_relaxed);
	uint32_t own = slot->node.deadline_ns ? 0 : (uint32_t)slot->node.io_class;
	uint64_t oldest_ns;

	if (waiting == LDR_IO_CLASSES)
		return false;
	if (waiting < own)
		return true;
	oldest_ns = atomic_load_explicit(&lane->oldest_ns, memory_order_relaxed);
	return ldr_nanoseconds(oldest_ns, ldr_scheduler_now(slot->scheduler)) >=
	       slot->scheduler->options.starvation_ns;
}

/* The next piece. LDR_EAGAIN: the wait is to be waited for. */
static enum ldr_status read_piece(struct ldr_slot *slot, struct ldr_wait *wait,
				  const struct scratch *scratch, bool *out_end)
{
	const struct ldr_backend *backend = slot->scheduler->backend;
	struct ldr_piece piece = next_piece(slot, scratch);
	enum ldr_status status;
	size_t got;

	if (!slot->wait.ops)
		slot->wait.priority = priority_of(slot->node.io_class);
	status = backend->read(backend->context, &piece, wait, &got, &slot->error);
	if (status == LDR_EAGAIN && wait)
		return LDR_EAGAIN;
	release_wait(slot);
	slot->pieces++;
	if (status != LDR_OK)
		return status;
	slot->done += got;
	*out_end = got == 0 || slot->done == slot->request.length;
	return LDR_OK;
}

/* alone: this thread does everything. */
static enum next work_read(struct ldr_slot *slot, const struct scratch *scratch, bool alone)
{
	struct ldr_wait *wait = alone ? NULL : &slot->wait;
	enum ldr_status status = LDR_OK;
	bool end = slot->request.length == 0, first = true;

	for (; status == LDR_OK && !end; first = false) {
		if (atomic_load_explicit(&slot->cancelled, memory_order_relaxed))
			return NEXT_END;
		if (!first && !alone && lets_pass(slot))
			return NEXT_PASS;
		status = read_piece(slot, wait, scratch, &end);
		if (status == LDR_EAGAIN && !alone)
			return NEXT_WAIT;
	}
	slot->error.status = status;
	if (status != LDR_OK || slot->request.kind == LDR_IO_PREFETCH)
		slot->done = 0;
	return NEXT_END;
}

static enum next work(struct ldr_slot *slot, const struct scratch *scratch, bool alone)
{
	if (slot->lane == LDR_LANE_READS)
		return work_read(slot, scratch, alone);
	return work_name(slot);
}

/* After the last of its work, outside the lock. */
static void finish(struct ldr_slot *slot)
{
	bool cancelled = atomic_load(&slot->cancelled);

	release_wait(slot);
	/* A save that is visible is never called cancelled. */
	if (cancelled && slot->request.kind != LDR_IO_REPLACE)
		set_outcome(slot, LDR_IO_CANCELLED);
	else if (slot->request.kind != LDR_IO_OPEN || slot->error.status != LDR_OK)
		ldr_file_unref(LDR_STEAL(slot->file));
}

void ldr_slot_run_alone(struct ldr_slot *slot)
{
	struct ldr_scheduler *scheduler = slot->scheduler;
	uint64_t now_ns = slot->since_ns;
	struct ldr_tidings tidings;
	uint8_t bytes[ALONE_BYTES];
	const struct scratch scratch = {bytes, sizeof(bytes)};

	if (ldr_queue_missed(&slot->node, now_ns)) {
		ldr_slot_end(slot, LDR_IO_EXPIRED);
		return;
	}
	slot->times.started_ns = now_ns;
	while (work(slot, &scratch, true) == NEXT_READ)
		slot->lane = LDR_LANE_READS;
	finish(slot);
	now_ns = ldr_scheduler_now(scheduler);
	slot->times.service_ns = now_ns - slot->times.started_ns;
	ldr_mutex_lock(&scheduler->lock);
	tidings = ldr_slot_publish(slot, now_ns);
	ldr_mutex_unlock(&scheduler->lock);
	ldr_scheduler_tell(scheduler, tidings);
}

/* ---- a worker ---- */

/* A pinned and cancelled slot: nobody waits for the network any more, and it ends. */
static void give_up_wait(struct ldr_slot *slot)
{
	struct ldr_scheduler *scheduler = slot->scheduler;

	release_wait(slot);
	ldr_mutex_lock(&scheduler->lock);
	slot->pinned = slot->woken = false;
	slot->state = LDR_SLOT_RUNNING;
	scheduler->m.waiting--;
	scheduler->m.running++;
	slot->times.network_ns += ldr_nanoseconds(slot->since_ns, ldr_scheduler_now(scheduler));
	ldr_mutex_unlock(&scheduler->lock);
	ldr_slot_end(slot, LDR_IO_CANCELLED);
}

bool ldr_slot_resume(struct ldr_slot *slot, uint64_t now_ns)
{
	slot->woken = false;
	slot->scheduler->m.waiting--;
	slot->times.network_ns += ldr_nanoseconds(slot->since_ns, now_ns);
	return ldr_slot_queue(slot, now_ns);
}

bool ldr_slot_must_settle(struct ldr_slot *slot)
{
	if (slot->state != LDR_SLOT_WAITING || slot->pinned)
		return false;
	slot->pinned = atomic_load(&slot->cancelled) ||
		       slot->wait.priority != priority_of(slot->request.io_class);
	return slot->pinned;
}

void ldr_slot_settle(struct ldr_slot *slot)
{
	struct ldr_scheduler *scheduler = slot->scheduler;
	bool wake = false, again = true;

	while (again && !atomic_load(&slot->cancelled)) {
		enum ldr_priority priority = priority_of(slot->node.io_class);
		uint64_t now_ns;

		ldr_wait_set_priority(&slot->wait, priority);
		now_ns = ldr_scheduler_now(scheduler);
		ldr_mutex_lock(&scheduler->lock);
		slot->pinned = false;
		again = !slot->woken && ldr_slot_must_settle(slot);
		slot->node.io_class = slot->request.io_class;
		if (slot->woken)
			wake = ldr_slot_resume(slot, now_ns);
		ldr_mutex_unlock(&scheduler->lock);
	}
	if (wake)
		ldr_lane_wake(&scheduler->lanes[LDR_LANE_READS]);
	if (again)
		give_up_wait(slot);
}

/* Under the lock: what happens with the slot after a stay; gives a lane to wake one of, or NULL. What
 * was cancelled or reclassed while it began to wait is pinned, and *out_settle says that its worker
 * settles it. */
static struct ldr_lane *requeue(struct ldr_slot *slot, enum next next, uint64_t now_ns,
				bool *out_settle)
{
	struct ldr_scheduler *scheduler = slot->scheduler;

	scheduler->m.running--;
	if (next == NEXT_WAIT) {
		ldr_saturating_add(&scheduler->m.network_waits, 1);
		if (!slot->woken) {
			slot->state = LDR_SLOT_WAITING;
			slot->since_ns = now_ns;
			scheduler->m.waiting++;
			slot->node.io_class = slot->request.io_class;
			*out_settle = ldr_slot_must_settle(slot);
			return NULL;
		}
		slot->woken = false;
	}
	ldr_saturating_add(&scheduler->m.passes, next == NEXT_PASS);
	slot->lane = LDR_LANE_READS;
	return ldr_slot_queue(slot, now_ns) ? &scheduler->lanes[LDR_LANE_READS] : NULL;
}

/* A request's stay with a worker. The slot is the worker's; now_ns is when it became so, and is
 * brought up to date. Comes back with the lock held. */
static void serve(struct ldr_slot *slot, const struct scratch *scratch, uint64_t *now_ns)
{
	struct ldr_scheduler *scheduler = slot->scheduler;
	struct ldr_lane *to_wake = NULL;
	enum next next = NEXT_END;
	struct ldr_tidings tidings = {.raise = false};
	bool settle = false;

	if (!slot->times.started_ns)
		slot->times.started_ns = *now_ns;
	if (!atomic_load_explicit(&slot->cancelled, memory_order_relaxed))
		next = work(slot, scratch, false);
	if (next == NEXT_END)
		finish(slot);
	*now_ns = ldr_scheduler_now(scheduler);
	slot->times.service_ns += ldr_nanoseconds(slot->since_ns, *now_ns);
	ldr_mutex_lock(&scheduler->lock);
	if (next == NEXT_END)
		tidings = ldr_slot_publish(slot, *now_ns);
	else
		to_wake = requeue(slot, next, *now_ns, &settle);
	if (!tidings.raise && !tidings.quiet && !to_wake && !settle)
		return;
	ldr_mutex_unlock(&scheduler->lock);
	if (settle)
		ldr_slot_settle(slot);
	ldr_scheduler_tell(scheduler, tidings);
	if (to_wake)
		ldr_lane_wake(to_wake);
	ldr_mutex_lock(&scheduler->lock);
}

/* Under the lock: until somebody wakes it. */
static void sleep_idle(struct ldr_lane *lane)
{
	struct ldr_scheduler *scheduler = lane->scheduler;

	lane->idle++;
	/* Whoever queues takes one off idle and leaves it in woken: so each wake is one worker's. */
	while (lane->woken == 0 && !scheduler->quitting)
		ldr_condition_wait(&lane->work, &scheduler->lock);
	if (lane->woken)
		lane->woken--;
	else
		lane->idle--;
}

/* Under the lock: the next of the lane, RUNNING, or NULL; expired ones are ended before, for which
 * the lock is given back. */
static struct ldr_slot *take(struct ldr_lane *lane, uint64_t *now_ns)
{
	struct ldr_scheduler *scheduler = lane->scheduler;
	struct ldr_queue_node *node;

	while ((node = ldr_queue_peek(&lane->queue, *now_ns)) && ldr_queue_missed(node, *now_ns)) {
		ldr_slot_unqueue(ldr_slot_of(node), *now_ns);
		ldr_mutex_unlock(&scheduler->lock);
		ldr_slot_end(ldr_slot_of(node), LDR_IO_EXPIRED);
		*now_ns = ldr_scheduler_now(scheduler);
		ldr_mutex_lock(&scheduler->lock);
	}
	if (!node)
		return NULL;
	ldr_slot_unqueue(ldr_slot_of(node), *now_ns);
	node->started = true;
	return ldr_slot_of(node);
}

void *ldr_lane_work(void *argument)
{
	struct ldr_lane *lane = argument;
	struct ldr_scheduler *scheduler = lane->scheduler;
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	struct scratch scratch = {NULL, LDR_SCHEDULER_PIECE_BYTES};

	ldr_mutex_lock(&scheduler->lock);
	if (lane == &scheduler->lanes[LDR_LANE_READS])
		scratch.bytes = scheduler->scratch + scheduler->scratch_taken++ * scratch.length;
	for (;;) {
		struct ldr_slot *slot = take(lane, &now_ns);

		if (slot) {
			ldr_mutex_unlock(&scheduler->lock);
			serve(slot, &scratch, &now_ns);
		} else if (scheduler->quitting) {
			break;
		} else {
			sleep_idle(lane);
			now_ns = ldr_scheduler_now(scheduler);
		}
	}
	ldr_mutex_unlock(&scheduler->lock);
	return NULL;
}
