/*
 * What goes next: the queue of one lane of the scheduler. Inside vfs/ only.
 *
 * Order: earlier deadline (none is the latest), then class, then first come. But once the one that
 * has waited longest has waited for starvation_ns, it goes first. So whoever reaches that age has
 * only those before him that entered before him: that is the bound on waiting.
 *
 * A binary heap for the order, a list by time of entry for the age. All functions are O(log n), and
 * allocate nothing but init.
 *
 * Threads: none of its own; under the scheduler's lock.
 */
#ifndef LDR_VFS_QUEUE_H
#define LDR_VFS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "vfs/trace.h"

struct ldr_queue_node {
	struct ldr_queue_node *older; /* by time of entry */
	struct ldr_queue_node *newer;
	uint64_t deadline_ns; /* 0: none */
	uint64_t order;       /* first come; none twice */
	uint64_t entered_ns;
	uint32_t place; /* in the heap */
	bool started;   /* its deadline is met: it only orders */
	enum ldr_io_class io_class;
};

struct ldr_queue {
	struct ldr_queue_node **heap; /* owns the array */
	uint32_t count;
	uint32_t capacity;
	struct ldr_queue_node *oldest;
	struct ldr_queue_node *newest;
	uint64_t starvation_ns;
};

enum ldr_status ldr_queue_init(struct ldr_queue *queue, uint32_t capacity, uint64_t starvation_ns,
			       struct ldr_error *err);
void ldr_queue_dispose(struct ldr_queue *queue);

/* The caller has filled deadline, order and class; there is room (asserted). now_ns never falls. */
void ldr_queue_put(struct ldr_queue *queue, struct ldr_queue_node *node, uint64_t now_ns);
void ldr_queue_remove(struct ldr_queue *queue, struct ldr_queue_node *node);
void ldr_queue_reclass(struct ldr_queue *queue, struct ldr_queue_node *node,
		       enum ldr_io_class io_class);
/* Who goes next, left in the queue; NULL: nobody waits. It may have missed its deadline. */
struct ldr_queue_node *ldr_queue_peek(const struct ldr_queue *queue, uint64_t now_ns);
/* True when it has not started and its deadline has passed. */
bool ldr_queue_missed(const struct ldr_queue_node *node, uint64_t now_ns);
/* True when a goes before b by deadline, class, first come. */
bool ldr_queue_before(const struct ldr_queue_node *a, const struct ldr_queue_node *b);

#endif
