/*
 * From outside into a request's life: cancel, reclass, state; see scheduler_priv.h.
 */
#include "vfs/scheduler_priv.h"

struct ldr_slot *ldr_slot_find(struct ldr_scheduler *scheduler, struct ldr_ticket ticket)
{
	uint64_t number = ticket.sequence & ((UINT64_C(1) << LDR_SLOT_BITS) - 1);
	struct ldr_slot *slot;

	if (ticket.scheduler != scheduler->id || number >= scheduler->slot_count)
		return NULL;
	slot = &scheduler->slots[number];
	return slot->sequence == ticket.sequence && slot->state != LDR_SLOT_FREE ? slot : NULL;
}

static enum ldr_status fail_stale(const char *what, struct ldr_error *err)
{
	return ldr_fail(err, LDR_ESTALE, "%s: no such request: collected, or of another scheduler",
			what);
}

/* ---- cancel ---- */

/* What is left to do for a cancel outside the lock. */
enum cancel_step { CANCEL_NOTHING, CANCEL_END, CANCEL_SETTLE };

/* Under the lock. */
static enum cancel_step begin_cancel(struct ldr_slot *slot, uint64_t now_ns)
{
	if (slot->state == LDR_SLOT_ENDED || atomic_load(&slot->cancelled))
		return CANCEL_NOTHING;
	atomic_store(&slot->cancelled, true);
	slot->times.cancel_ns = now_ns;
	if (slot->state == LDR_SLOT_QUEUED) {
		ldr_slot_unqueue(slot, now_ns);
		return CANCEL_END;
	}
	/* Who has pinned it, or makes it wait, looks whether it is cancelled. */
	return ldr_slot_must_settle(slot) ? CANCEL_SETTLE : CANCEL_NOTHING;
}

static void end_cancel(struct ldr_slot *slot, enum cancel_step step)
{
	if (step == CANCEL_END)
		ldr_slot_end(slot, LDR_IO_CANCELLED);
	else if (step == CANCEL_SETTLE)
		ldr_slot_settle(slot);
}

enum ldr_status ldr_scheduler_cancel(struct ldr_scheduler *scheduler, struct ldr_ticket ticket,
				     struct ldr_error *err)
{
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	enum cancel_step step = CANCEL_NOTHING;
	struct ldr_slot *slot;

	ldr_mutex_lock(&scheduler->lock);
	slot = ldr_slot_find(scheduler, ticket);
	if (slot)
		step = begin_cancel(slot, now_ns);
	ldr_mutex_unlock(&scheduler->lock);
	if (!slot)
		return fail_stale("cancel", err);
	end_cancel(slot, step);
	return LDR_OK;
}

/* Slots are looked at one by one: what comes into a slot that has been passed was submitted after
 * the call began. */
size_t ldr_scheduler_cancel_tagged(struct ldr_scheduler *scheduler, uint64_t mask, uint64_t value)
{
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	size_t count = 0;

	for (uint32_t i = 0; i < scheduler->slot_count; i++) {
		struct ldr_slot *slot = &scheduler->slots[i];
		enum cancel_step step = CANCEL_NOTHING;

		ldr_mutex_lock(&scheduler->lock);
		if (slot->state != LDR_SLOT_FREE && slot->state != LDR_SLOT_ENDED &&
		    (slot->request.tag & mask) == (value & mask)) {
			count++;
			step = begin_cancel(slot, now_ns);
		}
		ldr_mutex_unlock(&scheduler->lock);
		end_cancel(slot, step);
	}
	return count;
}

/* ---- reclass ---- */

/* Under the lock. True: it is to be settled. */
static bool begin_reclass(struct ldr_slot *slot, enum ldr_io_class io_class)
{
	struct ldr_lane *lane = &slot->scheduler->lanes[slot->lane];

	if (slot->state == LDR_SLOT_ENDED)
		return false;
	slot->request.io_class = io_class;
	if (slot->state == LDR_SLOT_QUEUED) {
		ldr_queue_reclass(&lane->queue, &slot->node, io_class);
		ldr_lane_hint(lane);
	}
	if (slot->state == LDR_SLOT_WAITING && !slot->pinned)
		slot->node.io_class = io_class;
	return ldr_slot_must_settle(slot);
}

enum ldr_status ldr_scheduler_reclass(struct ldr_scheduler *scheduler, struct ldr_ticket ticket,
				      enum ldr_io_class io_class, struct ldr_error *err)
{
	struct ldr_slot *slot;
	bool settle = false;

	if (io_class < LDR_IO_CRITICAL || (unsigned)io_class >= LDR_IO_CLASSES)
		return ldr_fail(err, LDR_EINVAL, "reclass: class %d, allowed are %d to %d",
				(int)io_class, (int)LDR_IO_CRITICAL, (int)LDR_IO_BACKGROUND);
	ldr_mutex_lock(&scheduler->lock);
	slot = ldr_slot_find(scheduler, ticket);
	if (slot)
		settle = begin_reclass(slot, io_class);
	ldr_mutex_unlock(&scheduler->lock);
	if (!slot)
		return fail_stale("reclass", err);
	if (settle)
		ldr_slot_settle(slot);
	return LDR_OK;
}

/* ---- state ---- */

enum ldr_status ldr_scheduler_state(struct ldr_scheduler *scheduler, struct ldr_ticket ticket,
				    enum ldr_io_state *out_state, struct ldr_error *err)
{
	static const enum ldr_io_state states[] = {
		[LDR_SLOT_QUEUED] = LDR_IO_QUEUED,
		[LDR_SLOT_RUNNING] = LDR_IO_RUNNING,
		[LDR_SLOT_WAITING] = LDR_IO_WAITING,
		[LDR_SLOT_ENDED] = LDR_IO_ENDED,
	};
	const struct ldr_slot *slot;
	enum ldr_io_state state = LDR_IO_ENDED;

	ldr_mutex_lock(&scheduler->lock);
	slot = ldr_slot_find(scheduler, ticket);
	if (slot)
		state = states[slot->state];
	ldr_mutex_unlock(&scheduler->lock);
	if (!slot)
		return fail_stale("state", err);
	*out_state = state;
	return LDR_OK;
}
