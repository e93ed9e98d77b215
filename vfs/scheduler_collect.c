/*
 * What comes out: completions, the descriptor, metrics, traces; see scheduler.h.
 *
 * The descriptor is a hint, and none may be lost: it is raised after a completion was put where none
 * was, and after a poll that left some behind; a poll clears it before it looks. So whenever there
 * is something and nobody is between these steps, it is readable.
 */
#include <string.h>

#include "common/os.h"
#include "common/os_event.h"
#include "vfs/scheduler_priv.h"

/* ---- the descriptor ---- */

void ldr_scheduler_raise_event(struct ldr_scheduler *scheduler)
{
	int fd = atomic_load(&scheduler->event_fd);

	if (fd < 0)
		return;
	ldr_os_event_raise(fd);
	/* After raising: a poll that sees the flag finds the descriptor raised. */
	atomic_store(&scheduler->event_raised, true);
}

static void clear_event(struct ldr_scheduler *scheduler)
{
	if (atomic_load(&scheduler->event_raised) &&
	    atomic_exchange(&scheduler->event_raised, false))
		ldr_os_event_clear(atomic_load(&scheduler->event_fd));
}

/* Acquire pairs with the release of who puts an end where none was, which comes before all that may
 * bring somebody here. */
static bool has_ended(struct ldr_scheduler *scheduler)
{
	return atomic_load_explicit(&scheduler->has_ended, memory_order_acquire);
}

enum ldr_status ldr_scheduler_eventfd(struct ldr_scheduler *scheduler, int *out_fd,
				      struct ldr_error *err)
{
	int none = -1, fd = atomic_load(&scheduler->event_fd), failed;

	if (fd < 0) {
		failed = ldr_os_event_open(&fd);
		if (failed)
			return ldr_fail_errno(err, failed, "scheduler: no event descriptor");
		if (!atomic_compare_exchange_strong(&scheduler->event_fd, &none, fd)) {
			ldr_os_close(fd);
			fd = none;
		}
		/* What ended before there was a descriptor. */
		if (has_ended(scheduler))
			ldr_scheduler_raise_event(scheduler);
	}
	*out_fd = fd;
	return LDR_OK;
}

/* ---- completions ---- */

static void fill_completion(struct ldr_slot *slot, uint64_t now_ns, struct ldr_completion *out)
{
	slot->times.collected_ns = now_ns;
	out->ticket = (struct ldr_ticket){slot->scheduler->id, slot->sequence};
	out->tag = slot->request.tag;
	out->kind = slot->request.kind;
	out->outcome = slot->outcome;
	out->status = slot->error.status;
	out->length = slot->done;
	out->mount_id = slot->mount_id;
	out->mount_generation = slot->mount_generation;
	out->file = slot->file;
	out->list = slot->list;
	out->stat = slot->stat;
	out->times = slot->times;
	if (slot->error.status != LDR_OK) {
		out->error = slot->error;
		return;
	}
	out->error.status = LDR_OK;
	out->error.sys_errno = 0;
	out->error.text[0] = '\0';
}

static void fill_record(const struct ldr_slot *slot, struct ldr_trace_record *out)
{
	const char *path = slot->request.path;
	size_t length = path ? strlen(path) : 0;

	*out = (struct ldr_trace_record){
		.sequence = slot->sequence,
		.tag = slot->request.tag,
		.offset = slot->request.offset,
		.length = slot->request.length,
		.got = slot->done,
		.mount_generation = slot->mount_generation,
		.mount_id = slot->mount_id,
		.pieces = slot->pieces,
		.kind = slot->request.kind,
		.io_class = slot->request.io_class,
		.outcome = slot->outcome,
		.status = slot->error.status,
		.times = slot->times,
	};
	if (length >= sizeof(out->key)) {
		path += length - (sizeof(out->key) - 1);
		length = sizeof(out->key) - 1;
	}
	if (length)
		memcpy(out->key, path, length);
}

/* Under the lock: the slot is free, what it held is the completion's. */
static void give_back(struct ldr_scheduler *scheduler, struct ldr_slot *slot)
{
	slot->file = NULL;
	slot->list = NULL;
	slot->state = LDR_SLOT_FREE;
	slot->next = scheduler->free;
	scheduler->free = slot;
	scheduler->m.requests--;
	scheduler->m.ended--;
	scheduler->m.bytes -= slot->cost;
	ldr_saturating_add(&scheduler->m.collected, 1);
}

static void collect_one(struct ldr_scheduler *scheduler, uint64_t now_ns,
			struct ldr_completion *out)
{
	struct ldr_slot *slot = scheduler->ended_first;
	struct ldr_trace_record *record;

	scheduler->ended_first = slot->next;
	if (!scheduler->ended_first)
		scheduler->ended_last = NULL;
	fill_completion(slot, now_ns, out);
	record = ldr_trace_ring_add(&scheduler->ring);
	if (record)
		fill_record(slot, record);
	give_back(scheduler, slot);
}

size_t ldr_scheduler_poll(struct ldr_scheduler *scheduler, struct ldr_completion *out,
			  size_t capacity)
{
	size_t count = 0;
	uint64_t now_ns;
	bool left;

	if (capacity == 0)
		return 0;
	ldr_scheduler_expire(scheduler);
	clear_event(scheduler);
	if (!has_ended(scheduler))
		return 0;
	ldr_mutex_lock(&scheduler->lock);
	now_ns = ldr_scheduler_now(scheduler);
	while (count < capacity && scheduler->ended_first)
		collect_one(scheduler, now_ns, &out[count++]);
	left = scheduler->ended_first != NULL;
	atomic_store_explicit(&scheduler->has_ended, left, memory_order_relaxed);
	ldr_mutex_unlock(&scheduler->lock);
	if (left)
		ldr_scheduler_raise_event(scheduler);
	return count;
}

enum ldr_status ldr_scheduler_wait(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
				   struct ldr_error *err)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t began_ms = ldr_clock_now_ms(clock), gone_ms = 0;
	bool ended;

	ldr_scheduler_expire(scheduler);
	ldr_mutex_lock(&scheduler->lock);
	scheduler->collectors++;
	while (!scheduler->ended_first && gone_ms < timeout_ms) {
		ldr_condition_wait_ms(&scheduler->collect, &scheduler->lock, timeout_ms - gone_ms);
		gone_ms = ldr_clock_now_ms(clock) - began_ms;
	}
	scheduler->collectors--;
	ended = scheduler->ended_first != NULL;
	ldr_mutex_unlock(&scheduler->lock);
	if (ended)
		return LDR_OK;
	return ldr_fail(err, LDR_ETIMEDOUT, "wait: nothing has ended after %llu ms",
			(unsigned long long)timeout_ms);
}

/* ---- metrics and traces ---- */

static uint64_t oldest_age(const struct ldr_scheduler *scheduler, uint64_t now_ns)
{
	uint64_t age = 0;

	for (unsigned i = 0; i < LDR_LANES; i++) {
		const struct ldr_queue_node *oldest = scheduler->lanes[i].queue.oldest;
		uint64_t own = oldest ? ldr_nanoseconds(oldest->entered_ns, now_ns) : 0;

		if (own > age)
			age = own;
	}
	return age;
}

void ldr_scheduler_metrics(struct ldr_scheduler *scheduler, struct ldr_scheduler_metrics *out)
{
	ldr_mutex_lock(&scheduler->lock);
	*out = scheduler->m;
	out->queued_reads = scheduler->lanes[LDR_LANE_READS].queue.count;
	out->queued_names = scheduler->lanes[LDR_LANE_NAMES].queue.count;
	out->queued_saves = scheduler->lanes[LDR_LANE_SAVES].queue.count;
	out->oldest_queued_ns = oldest_age(scheduler, ldr_scheduler_now(scheduler));
	out->traces_lost = scheduler->ring.lost;
	ldr_mutex_unlock(&scheduler->lock);
}

size_t ldr_scheduler_trace(struct ldr_scheduler *scheduler, struct ldr_trace_record *out,
			   size_t capacity)
{
	size_t count;

	ldr_mutex_lock(&scheduler->lock);
	count = ldr_trace_ring_take(&scheduler->ring, out, capacity);
	ldr_mutex_unlock(&scheduler->lock);
	return count;
}
