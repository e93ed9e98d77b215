/*
 * Admission: what is taken, and what it costs until it is collected; see scheduler.h.
 */
#include <inttypes.h>
#include <string.h>

#include "vfs/scheduler_priv.h"

/* What it holds of max_bytes: its buffer, whatever is read into it. */
static uint64_t cost(const struct ldr_io_request *request)
{
	if (request->kind == LDR_IO_READ || request->kind == LDR_IO_REPLACE)
		return request->length;
	return 0;
}

static bool reads(const struct ldr_io_request *request)
{
	return request->kind == LDR_IO_READ || request->kind == LDR_IO_PREFETCH;
}

static enum ldr_status check_target(const struct ldr_io_request *request, struct ldr_error *err)
{
	if (request->file && !reads(request))
		return ldr_fail(err, LDR_EINVAL, "submit: %s works by path, not on an open file",
				ldr_io_kind_name(request->kind));
	if (!request->file && (!request->vfs || !request->path))
		return ldr_fail(err, LDR_EINVAL, "submit: %s needs a file, or vfs and path",
				ldr_io_kind_name(request->kind));
	if (request->file && request->path)
		return ldr_fail(err, LDR_EINVAL, "submit: %s has both a file and a path",
				ldr_io_kind_name(request->kind));
	return LDR_OK;
}

static enum ldr_status check_request(const struct ldr_io_request *request, struct ldr_error *err)
{
	if ((unsigned)request->kind > LDR_IO_REPLACE)
		return ldr_fail(err, LDR_EINVAL, "submit: kind %d, the last is %d",
				(int)request->kind, (int)LDR_IO_REPLACE);
	if ((unsigned)request->io_class >= LDR_IO_CLASSES)
		return ldr_fail(err, LDR_EINVAL, "submit: class %d, the last is %d",
				(int)request->io_class, (int)LDR_IO_BACKGROUND);
	if (request->length > UINT64_MAX - request->offset)
		return ldr_fail(err, LDR_EINVAL,
				"submit: offset %" PRIu64 " and length %zu pass 2^64",
				request->offset, request->length);
	if (request->kind == LDR_IO_READ && request->length && !request->bytes)
		return ldr_fail(err, LDR_EINVAL, "submit: %zu bytes to read and no buffer",
				request->length);
	if (request->kind == LDR_IO_REPLACE && request->length && !request->source)
		return ldr_fail(err, LDR_EINVAL, "submit: %zu bytes to save and no source",
				request->length);
	return check_target(request, err);
}

/* Under the lock. */
static enum ldr_status check_room(const struct ldr_scheduler *scheduler,
				  const struct ldr_io_request *request, struct ldr_error *err)
{
	const struct ldr_scheduler_options *options = &scheduler->options;
	uint64_t bytes = cost(request);

	if (scheduler->stopping)
		return ldr_fail(err, LDR_ECANCELLED, "submit: the scheduler was shut down");
	if (bytes > options->max_bytes)
		return ldr_fail(err, LDR_ELIMIT, "submit: %" PRIu64 " bytes, limit %" PRIu64, bytes,
				options->max_bytes);
	if (!scheduler->free)
		return ldr_fail(err, LDR_EAGAIN, "submit: %" PRIu64 " requests in flight, limit %u",
				scheduler->m.requests, options->max_requests);
	if (bytes > options->max_bytes - scheduler->m.bytes)
		return ldr_fail(err, LDR_EAGAIN,
				"submit: %" PRIu64 " bytes and %" PRIu64
				" in flight, limit %" PRIu64,
				bytes, scheduler->m.bytes, options->max_bytes);
	return LDR_OK;
}

static void note_mount(struct ldr_slot *slot, const struct ldr_io_request *request)
{
	slot->mount_id = 0;
	slot->mount_generation = 0;
	if (request->file)
		ldr_file_mount(request->file, &slot->mount_id, &slot->mount_generation);
}

static void fill_slot(struct ldr_slot *slot, const struct ldr_io_request *request, uint64_t now_ns)
{
	struct ldr_scheduler *scheduler = slot->scheduler;

	slot->sequence += UINT64_C(1) << LDR_SLOT_BITS;
	slot->request = *request;
	if (request->io_class == LDR_IO_DEFAULT)
		slot->request.io_class = LDR_IO_NORMAL;
	slot->file = request->file ? ldr_file_ref(request->file) : NULL;
	slot->node.deadline_ns = request->deadline_ns;
	slot->node.started = false;
	slot->node.io_class = slot->request.io_class;
	slot->node.order = scheduler->next_order++;
	slot->lane = request->kind == LDR_IO_REPLACE ? LDR_LANE_SAVES
		     : request->file                 ? LDR_LANE_READS
						     : LDR_LANE_NAMES;
	atomic_store_explicit(&slot->cancelled, false, memory_order_relaxed);
	slot->pinned = slot->woken = false;
	slot->done = 0;
	slot->cost = cost(request);
	slot->pieces = 0;
	slot->wait = (struct ldr_wait){.ready = ldr_slot_ready};
	slot->list = NULL;
	slot->outcome = LDR_IO_DONE;
	slot->error.status = LDR_OK;
	memset(&slot->stat, 0, sizeof(slot->stat));
	memset(&slot->times, 0, sizeof(slot->times));
	slot->times.submitted_ns = now_ns;
	note_mount(slot, request);
}

static void count_accepted(struct ldr_scheduler *scheduler, const struct ldr_io_request *request)
{
	struct ldr_scheduler_metrics *m = &scheduler->m;

	ldr_saturating_add(&m->accepted, 1);
	m->requests++;
	m->bytes += cost(request);
	if (m->requests > m->requests_peak)
		m->requests_peak = m->requests;
	if (m->bytes > m->bytes_peak)
		m->bytes_peak = m->bytes;
}

/* Under the lock: into a slot, or refused. */
static enum ldr_status admit(struct ldr_scheduler *scheduler, const struct ldr_io_request *request,
			     uint64_t now_ns, struct ldr_slot **out_slot, struct ldr_error *err)
{
	enum ldr_status status = check_request(request, err);
	struct ldr_slot *slot;

	if (status == LDR_OK)
		status = check_room(scheduler, request, err);
	if (status != LDR_OK) {
		ldr_saturating_add(&scheduler->m.rejected, 1);
		return status;
	}
	slot = scheduler->free;
	scheduler->free = slot->next;
	fill_slot(slot, request, now_ns);
	count_accepted(scheduler, request);
	*out_slot = slot;
	return LDR_OK;
}

/* Without threads a request is done before the next one is looked at. */
static enum ldr_status submit_alone(struct ldr_scheduler *scheduler,
				    const struct ldr_io_request *request,
				    struct ldr_ticket *out_ticket, struct ldr_error *err)
{
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	struct ldr_slot *slot;
	enum ldr_status status;

	ldr_mutex_lock(&scheduler->lock);
	status = admit(scheduler, request, now_ns, &slot, err);
	if (status == LDR_OK) {
		slot->state = LDR_SLOT_RUNNING;
		slot->since_ns = now_ns;
		scheduler->m.running++;
		*out_ticket = (struct ldr_ticket){scheduler->id, slot->sequence};
	}
	ldr_mutex_unlock(&scheduler->lock);
	if (status == LDR_OK)
		ldr_slot_run_alone(slot);
	return status;
}

struct wakes {
	uint32_t count[LDR_LANES];
};

/* Under the lock. */
static enum ldr_status submit_queued(struct ldr_scheduler *scheduler,
				     const struct ldr_io_request *request, uint64_t now_ns,
				     struct ldr_ticket *out_ticket, struct wakes *wakes,
				     struct ldr_error *err)
{
	struct ldr_slot *slot;
	enum ldr_status status = admit(scheduler, request, now_ns, &slot, err);

	if (status != LDR_OK)
		return status;
	wakes->count[slot->lane] += ldr_slot_queue(slot, now_ns);
	*out_ticket = (struct ldr_ticket){scheduler->id, slot->sequence};
	return LDR_OK;
}

static enum ldr_status submit_many(struct ldr_scheduler *scheduler,
				   const struct ldr_io_request *requests, size_t count,
				   struct ldr_ticket *out_tickets, size_t *out_accepted,
				   struct ldr_error *err)
{
	uint64_t now_ns = ldr_scheduler_now(scheduler);
	enum ldr_status status = LDR_OK;
	struct wakes wakes = {{0}};
	struct ldr_ticket unwanted;
	size_t i;

	ldr_mutex_lock(&scheduler->lock);
	for (i = 0; i < count; i++) {
		status = submit_queued(scheduler, &requests[i], now_ns,
				       out_tickets ? &out_tickets[i] : &unwanted, &wakes, err);
		if (status != LDR_OK)
			break;
	}
	ldr_mutex_unlock(&scheduler->lock);
	*out_accepted = i;
	for (unsigned lane = 0; lane < LDR_LANES; lane++) {
		while (wakes.count[lane]-- > 0)
			ldr_lane_wake(&scheduler->lanes[lane]);
	}
	return status;
}

enum ldr_status ldr_scheduler_submit_many(struct ldr_scheduler *scheduler,
					  const struct ldr_io_request *requests, size_t count,
					  struct ldr_ticket *out_tickets, size_t *out_accepted,
					  struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;
	struct ldr_ticket unwanted;
	size_t i;

	if (scheduler->options.workers)
		return submit_many(scheduler, requests, count, out_tickets, out_accepted, err);
	for (i = 0; i < count; i++) {
		status = submit_alone(scheduler, &requests[i],
				      out_tickets ? &out_tickets[i] : &unwanted, err);
		if (status != LDR_OK)
			break;
	}
	*out_accepted = i;
	return status;
}

enum ldr_status ldr_scheduler_submit(struct ldr_scheduler *scheduler,
				     const struct ldr_io_request *request,
				     struct ldr_ticket *out_ticket, struct ldr_error *err)
{
	size_t accepted;

	return ldr_scheduler_submit_many(scheduler, request, 1, out_ticket, &accepted, err);
}
