/*
 * The queue of one lane; see queue.h.
 */
#include "vfs/queue.h"

#include <assert.h>
#include <stdlib.h>

enum ldr_status ldr_queue_init(struct ldr_queue *queue, uint32_t capacity, uint64_t starvation_ns,
			       struct ldr_error *err)
{
	*queue = (struct ldr_queue){.capacity = capacity, .starvation_ns = starvation_ns};
	queue->heap = calloc(capacity, sizeof(struct ldr_queue_node *));
	if (!queue->heap)
		return ldr_fail(err, LDR_ENOMEM, "queue of %u requests: out of memory", capacity);
	return LDR_OK;
}

void ldr_queue_dispose(struct ldr_queue *queue)
{
	free(queue->heap);
	queue->heap = NULL;
}

bool ldr_queue_before(const struct ldr_queue_node *a, const struct ldr_queue_node *b)
{
	/* No deadline is the latest: 0 wraps to the largest number. */
	uint64_t a_deadline = a->deadline_ns - 1, b_deadline = b->deadline_ns - 1;

	if (a_deadline != b_deadline)
		return a_deadline < b_deadline;
	if (a->io_class != b->io_class)
		return a->io_class < b->io_class;
	return a->order < b->order;
}

static void set(struct ldr_queue *queue, uint32_t place, struct ldr_queue_node *node)
{
	queue->heap[place] = node;
	node->place = place;
}

static void rise(struct ldr_queue *queue, struct ldr_queue_node *node)
{
	uint32_t place = node->place;

	while (place > 0) {
		struct ldr_queue_node *above = queue->heap[(place - 1) / 2];

		if (!ldr_queue_before(node, above))
			break;
		set(queue, place, above);
		place = (place - 1) / 2;
	}
	set(queue, place, node);
}

static void sink(struct ldr_queue *queue, struct ldr_queue_node *node)
{
	uint32_t place = node->place, below;

	while ((below = 2 * place + 1) < queue->count) {
		if (below + 1 < queue->count &&
		    ldr_queue_before(queue->heap[below + 1], queue->heap[below]))
			below++;
		if (!ldr_queue_before(queue->heap[below], node))
			break;
		set(queue, place, queue->heap[below]);
		place = below;
	}
	set(queue, place, node);
}

void ldr_queue_put(struct ldr_queue *queue, struct ldr_queue_node *node, uint64_t now_ns)
{
	assert(queue->count < queue->capacity);
	node->entered_ns = now_ns;
	node->newer = NULL;
	node->older = queue->newest;
	if (queue->newest)
		queue->newest->newer = node;
	else
		queue->oldest = node;
	queue->newest = node;
	set(queue, queue->count++, node);
	rise(queue, node);
}

void ldr_queue_remove(struct ldr_queue *queue, struct ldr_queue_node *node)
{
	struct ldr_queue_node *last = queue->heap[--queue->count];

	if (node->older)
		node->older->newer = node->newer;
	else
		queue->oldest = node->newer;
	if (node->newer)
		node->newer->older = node->older;
	else
		queue->newest = node->older;
	if (last == node)
		return;
	set(queue, node->place, last);
	rise(queue, last);
	sink(queue, last);
}

void ldr_queue_reclass(struct ldr_queue *queue, struct ldr_queue_node *node,
		       enum ldr_io_class io_class)
{
	node->io_class = io_class;
	rise(queue, node);
	sink(queue, node);
}

/* Clocks of two threads may be read in another order than the lock is taken in. */
static uint64_t age(const struct ldr_queue_node *node, uint64_t now_ns)
{
	return now_ns > node->entered_ns ? now_ns - node->entered_ns : 0;
}

struct ldr_queue_node *ldr_queue_peek(const struct ldr_queue *queue, uint64_t now_ns)
{
	if (queue->count == 0)
		return NULL;
	if (age(queue->oldest, now_ns) >= queue->starvation_ns)
		return queue->oldest;
	return queue->heap[0];
}

bool ldr_queue_missed(const struct ldr_queue_node *node, uint64_t now_ns)
{
	return !node->started && node->deadline_ns && node->deadline_ns < now_ns;
}
