/*
 * What became of requests and where their time went: one record for each collected request.
 *
 * The scheduler keeps the newest records in a ring; one that is full loses its oldest record and
 * counts it. So for any stretch of time: records taken + records lost = completions.
 *
 * All times are nanoseconds of the scheduler's clock. Of a request's life,
 *
 *	submitted -- queue --> started ... ended -- delivery --> collected
 *
 * queue_ns sums up all stays in a queue (a read that is cut lets others pass between its pieces),
 * network_ns all waits for the network, service_ns the time on a worker; device, checksum and
 * decode are parts of service as far as the layer tells them.
 *
 * Threads: the ring belongs to the scheduler; records are values.
 */
#ifndef LDR_VFS_TRACE_H
#define LDR_VFS_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "vfs/backend.h"

#define LDR_TRACE_KEY_BYTES 64

/* How urgent a request is; smaller is more urgent. */
enum ldr_io_class {
	LDR_IO_DEFAULT, /* in requests: normal */
	LDR_IO_CRITICAL,
	LDR_IO_HIGH,
	LDR_IO_NORMAL,
	LDR_IO_BACKGROUND,
};

#define LDR_IO_CLASSES 5u

enum ldr_io_kind {
	LDR_IO_READ,     /* into the caller's buffer */
	LDR_IO_PREFETCH, /* onto this machine, into no buffer */
	LDR_IO_OPEN,
	LDR_IO_STAT,
	LDR_IO_LIST,
	LDR_IO_REPLACE, /* the whole file, atomically */
};

enum ldr_io_outcome {
	LDR_IO_DONE, /* status says with what result */
	LDR_IO_CANCELLED,
	LDR_IO_EXPIRED, /* not started before its deadline: nothing was read */
};

struct ldr_io_times {
	uint64_t submitted_ns;
	uint64_t started_ns; /* 0: never */
	uint64_t ended_ns;
	uint64_t collected_ns;
	uint64_t cancel_ns; /* when it was first cancelled; 0: never */
	uint64_t queue_ns;
	uint64_t network_ns;
	uint64_t service_ns;
	struct ldr_read_stages stages;
};

struct ldr_trace_record {
	uint64_t sequence; /* of the ticket: the one id of a request everywhere */
	uint64_t tag;
	uint64_t offset;
	uint64_t length; /* asked for */
	uint64_t got;    /* bytes read */
	uint64_t mount_generation;
	uint32_t mount_id; /* 0: no file was open */
	uint32_t pieces;   /* reads of the backend */
	enum ldr_io_kind kind;
	enum ldr_io_class io_class; /* at the end */
	enum ldr_io_outcome outcome;
	enum ldr_status status;
	struct ldr_io_times times;
	char key[LDR_TRACE_KEY_BYTES]; /* the path's end, when it was given by path, else "" */
};

struct ldr_trace_ring {
	struct ldr_trace_record *records; /* owns; NULL: off */
	uint32_t capacity;
	uint32_t count;
	uint32_t next; /* where the next one goes */
	uint64_t lost;
};

enum ldr_status ldr_trace_ring_init(struct ldr_trace_ring *ring, uint32_t capacity,
				    struct ldr_error *err);
void ldr_trace_ring_dispose(struct ldr_trace_ring *ring);
/* The place of a new record, for the caller to fill; NULL: the ring is off. */
struct ldr_trace_record *ldr_trace_ring_add(struct ldr_trace_ring *ring);
/* Takes up to capacity records out, oldest first. */
size_t ldr_trace_ring_take(struct ldr_trace_ring *ring, struct ldr_trace_record *out,
			   size_t capacity);

LDR_API const char *ldr_io_kind_name(enum ldr_io_kind kind);
LDR_API const char *ldr_io_outcome_name(enum ldr_io_outcome outcome);
LDR_API const char *ldr_io_class_name(enum ldr_io_class io_class);

/* Writes records as a Chrome trace (JSON of chrome://tracing and Perfetto), one request a slice of
 * "queue", "network", "service" and "delivery" each. write gets the text in parts; its failure ends
 * the export and is returned. */
LDR_API enum ldr_status ldr_trace_export(const struct ldr_trace_record *records, size_t count,
					 enum ldr_status (*write)(void *context, const char *text,
								  size_t length,
								  struct ldr_error *err),
					 void *context, struct ldr_error *err);

#endif
