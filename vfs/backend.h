/*
 * How the scheduler reads one piece of a file.
 *
 * The default asks the file's layer on the worker's own thread: pread for native files, the memory
 * cache and packs for archives and releases. A program, or a test with a clock of its own, may put
 * another table in its place.
 *
 * Threads: the functions are called by all workers at once.
 */
#ifndef LDR_VFS_BACKEND_H
#define LDR_VFS_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wait.h"

struct ldr_file;

/* Where the time of a read went, as far as the layer tells. */
struct ldr_read_stages {
	uint64_t device_ns;   /* reading stored bytes */
	uint64_t checksum_ns; /* proving them */
	uint64_t decode_ns;   /* decompressing, decrypting */
};

/* One piece of a read. */
struct ldr_piece {
	struct ldr_file *file; /* borrowed */
	void *bytes;
	size_t length;
	uint64_t offset;
	uint64_t tag;                   /* of the request */
	struct ldr_read_stages *stages; /* added to */
};

struct ldr_backend {
	const char *name;
	void *context;
	/* Fewer bytes than asked for are legal anywhere; none at all means the file's end. With a
	 * wait (common/wait.h) LDR_EAGAIN is legal: then the call is made again, with the same
	 * piece, when the wait is ready. Without one the thread waits. */
	enum ldr_status (*read)(void *context, const struct ldr_piece *piece, struct ldr_wait *wait,
				size_t *out_length, struct ldr_error *err);
};

/* Static storage. */
const struct ldr_backend *ldr_backend_layers(void);

#endif
