/*
 * The scheduler: reads, opens, listings and saves that are asked for now and collected later.
 *
 * A frame loop submits requests with a class, an optional deadline and a tag, cancels and raises
 * them, and collects their completions once a frame by polling. Nothing here blocks it or
 * allocates for it, and no callback ever comes from another thread.
 *
 *	submit --> queued --> running --> ended --> (poll) --> gone
 *	             ^  \       |   \
 *	             |   \      |    +--> waiting for the network, on no worker --> queued
 *	             +----\-----+  a long read lets others pass every 256 KiB
 *	                   +--> ended: cancelled, or its deadline passed
 *
 * Invariants
 *  1. Every accepted request is completed exactly once, and until its completion is collected it
 *     counts against max_requests and, with its whole length, against max_bytes. So a program that
 *     stops collecting hears LDR_EAGAIN, and nothing grows.
 *  2. Buffer, path and source of a request belong to the scheduler from an accepted submit until
 *     the completion is collected. A rejected submit touches nothing.
 *  3. The file of a request is kept (a reference) until the request has ended.
 *  4. Order in each lane: earlier deadline, then class, then first come; but who has waited for
 *     starvation_ns goes first, the one that waited longest before all others. A read that lets
 *     others pass counts as waiting anew.
 *  5. A deadline is the latest *start*. What has not started by then ends as LDR_IO_EXPIRED with
 *     its buffer untouched; what has started is never ended by its deadline.
 *  6. Cancelling what is queued or waits for the network ends it at once; what runs ends as
 *     cancelled after its present piece, with 0 bytes valid. What has ended stays as it ended. A
 *     save that runs cannot be cancelled: it ends as done.
 *
 * Lanes: reads (`workers` threads); opens, stats and listings (`name_workers`), through which reads
 * by path go first; saves (one thread, so two saves never overlap and keep their order). A read of
 * bytes that are not on this machine has them fetched by the network and holds no thread meanwhile;
 * a block that several want is fetched once, as urgently as the most urgent of them.
 *
 * With workers 0 there are no threads: submit does the whole work before it returns (and so waits
 * for disk and network), and the completion is collected as always.
 *
 * Threads: any thread may call anything but new and free at any time. Layers must not call the
 * scheduler from their functions, except that shutdown says LDR_EDENIED to its own workers.
 */
#ifndef LDR_VFS_SCHEDULER_H
#define LDR_VFS_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/publisher.h"
#include "vfs/trace.h"
#include "vfs/vfs.h"

struct ldr_scheduler;

#define LDR_SCHEDULER_REQUESTS_MAX 4096u
#define LDR_SCHEDULER_WORKERS_MAX 64u
#define LDR_SCHEDULER_NAME_WORKERS_MAX 8u
#define LDR_SCHEDULER_TRACE_MAX 4096u
/* A longer read is cut, so that others and a cancel can come between. */
#define LDR_SCHEDULER_PIECE_BYTES ((size_t)256 * 1024)

/* Begin with ldr_scheduler_defaults(); every value counts as it stands. */
struct ldr_scheduler_options {
	size_t size;                       /* sizeof(struct ldr_scheduler_options) */
	uint32_t max_requests;             /* 1 to 4096 (256) */
	uint32_t workers;                  /* 0, which is synchronous, to 64 (2) */
	uint32_t name_workers;             /* 1 to 8 (1) */
	uint32_t trace_records;            /* size of the trace ring, 0 to 4096 (0: no trace) */
	uint64_t max_bytes;                /* of all buffers, at least 1 (16 MiB) */
	uint64_t starvation_ns;            /* at least 1 (5 ms) */
	const struct ldr_clock *clock;     /* borrowed until free (NULL: the system's) */
	const struct ldr_backend *backend; /* borrowed until free (NULL: ldr_backend_layers) */
};

LDR_API struct ldr_scheduler_options ldr_scheduler_defaults(void);

/* LDR_EINVAL names the value that is out of its range. On failure every thread that was started has
 * ended. options NULL: the defaults. */
LDR_API enum ldr_status ldr_scheduler_new(const struct ldr_scheduler_options *options,
					  struct ldr_scheduler **out_scheduler,
					  struct ldr_error *err);
/* Shuts down without a time limit and gives up what was not collected: buffers must last until it
 * returns. No other call may be under way. NULL is allowed. */
LDR_API void ldr_scheduler_free(struct ldr_scheduler *scheduler);
void ldr_scheduler_cleanup(struct ldr_scheduler **scheduler);
#define LDR_AUTO_SCHEDULER __attribute__((cleanup(ldr_scheduler_cleanup)))

/* ---- asking ---- */

/* A request's name: never that of another one, also not of another scheduler. */
struct ldr_ticket {
	uint64_t scheduler;
	uint64_t sequence;
};

/* Unused fields are zero. */
struct ldr_io_request {
	enum ldr_io_kind kind;
	enum ldr_io_class io_class; /* LDR_IO_DEFAULT: normal */
	uint64_t deadline_ns;       /* latest start, of the scheduler's clock; 0: none */
	uint64_t tag;               /* the caller's own, comes back with the completion */
	struct ldr_file *file;      /* READ, PREFETCH: this file, or NULL and by path */
	struct ldr_vfs *vfs;        /* by path: where; must outlive the request */
	const char *path;           /* borrowed until the completion */
	void *bytes;                /* READ: length bytes, borrowed until the completion */
	const void *source;         /* REPLACE: length bytes, borrowed until the completion */
	size_t length;              /* 0 is legal */
	uint64_t offset;
	unsigned open_flags; /* OPEN; 0: LDR_OPEN_READ */
	enum ldr_sync sync;  /* REPLACE */
};

/* LDR_EAGAIN: max_requests or max_bytes are in flight now. LDR_ELIMIT: longer than max_bytes, so it
 * never fits. LDR_EINVAL: the request contradicts itself. LDR_ECANCELLED: shut down. All of them
 * count as rejected. out_ticket may be NULL. */
LDR_API enum ldr_status ldr_scheduler_submit(struct ldr_scheduler *scheduler,
					     const struct ldr_io_request *request,
					     struct ldr_ticket *out_ticket, struct ldr_error *err);
/* Requests in order until the first that is rejected, under one lock. *out_accepted says how many
 * were taken, always; the status is the rejected one's. out_tickets (count, or NULL) is filled for
 * those taken. */
LDR_API enum ldr_status ldr_scheduler_submit_many(struct ldr_scheduler *scheduler,
						  const struct ldr_io_request *requests,
						  size_t count, struct ldr_ticket *out_tickets,
						  size_t *out_accepted, struct ldr_error *err);

/* LDR_ESTALE: collected already, or never a ticket of this scheduler. LDR_OK for all others, also
 * when it has ended or was cancelled before. */
LDR_API enum ldr_status ldr_scheduler_cancel(struct ldr_scheduler *scheduler,
					     struct ldr_ticket ticket, struct ldr_error *err);
/* All requests with (tag & mask) == (value & mask) that have not ended; gives how many. */
LDR_API size_t ldr_scheduler_cancel_tagged(struct ldr_scheduler *scheduler, uint64_t mask,
					   uint64_t value);
/* Changes the class, also downwards, also of what is being fetched. LDR_ESTALE, LDR_EINVAL. */
LDR_API enum ldr_status ldr_scheduler_reclass(struct ldr_scheduler *scheduler,
					      struct ldr_ticket ticket, enum ldr_io_class io_class,
					      struct ldr_error *err);

enum ldr_io_state {
	LDR_IO_QUEUED,
	LDR_IO_RUNNING,
	LDR_IO_WAITING, /* for the network */
	LDR_IO_ENDED,   /* to be collected */
};

/* LDR_ESTALE as cancel. */
LDR_API enum ldr_status ldr_scheduler_state(struct ldr_scheduler *scheduler,
					    struct ldr_ticket ticket, enum ldr_io_state *out_state,
					    struct ldr_error *err);

/* ---- collecting ---- */

struct ldr_completion {
	struct ldr_ticket ticket;
	uint64_t tag;
	enum ldr_io_kind kind;
	enum ldr_io_outcome outcome;
	enum ldr_status status; /* LDR_ECANCELLED, LDR_ETIMEDOUT (expired), else the operation's */
	size_t length;          /* READ: bytes valid in the buffer; fewer only at the end */
	uint32_t mount_id;      /* of the file; 0: none was open */
	uint64_t mount_generation;
	struct ldr_file *file; /* OPEN: owned by the caller now */
	struct ldr_list *list; /* LIST: owned by the caller now */
	struct ldr_stat stat;  /* STAT */
	struct ldr_io_times times;
	struct ldr_error error; /* status and text where status is not LDR_OK, else zeroed */
};

/* Up to capacity completions in the order in which they ended; gives how many. Never blocks. */
LDR_API size_t ldr_scheduler_poll(struct ldr_scheduler *scheduler, struct ldr_completion *out,
				  size_t capacity);
/* Until there is something to collect. LDR_ETIMEDOUT. Time here is the system's. */
LDR_API enum ldr_status ldr_scheduler_wait(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
					   struct ldr_error *err);
/* A descriptor that is readable while there is something to collect, perhaps also when there is
 * not; polling clears it. The scheduler's own: do not close. LDR_EIO and others when the system
 * gives none. */
LDR_API enum ldr_status ldr_scheduler_eventfd(struct ldr_scheduler *scheduler, int *out_fd,
					      struct ldr_error *err);

/* ---- ending ---- */

/* Until everything accepted has ended (collected or not). LDR_ETIMEDOUT names the request that has
 * taken longest. */
LDR_API enum ldr_status ldr_scheduler_drain(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
					    struct ldr_error *err);
/* Takes no more requests, cancels all that have not ended, waits for those that run, and ends the
 * threads. Completions can be collected afterwards. Calling it again is LDR_OK. LDR_ETIMEDOUT names
 * a request that still runs; calling again waits again. LDR_EDENIED: called by a worker of its own.
 */
LDR_API enum ldr_status ldr_scheduler_shutdown(struct ldr_scheduler *scheduler, uint64_t timeout_ms,
					       struct ldr_error *err);

/* ---- seeing ---- */

/* Totals stop at UINT64_MAX; the others are exact at one moment. */
struct ldr_scheduler_metrics {
	/* totals */
	uint64_t accepted;
	uint64_t rejected;
	uint64_t done;   /* ended as LDR_IO_DONE, whatever the status */
	uint64_t failed; /* of done: with a status other than LDR_OK */
	uint64_t cancelled;
	uint64_t expired;
	uint64_t collected;
	uint64_t bytes_read;
	uint64_t pieces;        /* reads of the backend */
	uint64_t passes;        /* times a long read let others pass */
	uint64_t network_waits; /* times a request waited for the network */
	uint64_t traces_lost;
	/* now */
	uint64_t requests; /* in flight: accepted and not collected */
	uint64_t bytes;
	uint64_t queued_reads;
	uint64_t queued_names;
	uint64_t queued_saves;
	uint64_t running;
	uint64_t waiting;          /* for the network */
	uint64_t ended;            /* to be collected */
	uint64_t oldest_queued_ns; /* age of the one that has been queued longest */
	/* peaks */
	uint64_t requests_peak;
	uint64_t bytes_peak;
};

LDR_API void ldr_scheduler_metrics(struct ldr_scheduler *scheduler,
				   struct ldr_scheduler_metrics *out);
/* Takes up to capacity trace records, oldest first; gives how many. */
LDR_API size_t ldr_scheduler_trace(struct ldr_scheduler *scheduler, struct ldr_trace_record *out,
				   size_t capacity);
/* The name of the backend that reads. Static text. */
LDR_API const char *ldr_scheduler_backend(const struct ldr_scheduler *scheduler);

#endif
