/*
 * The log of a recording: what a disk was asked to do, in order, with the marks of the program between.
 *
 * Our own format, little-endian:
 *
 *   "LDRCRASH"  u32 version (1)  u32 zero
 *   then records of 24 bytes and their payload:
 *     u8 type  u8 flags  u16 zero  u32 payload bytes  u64 offset  u64 length
 *   type  W  write, payload = the bytes       F  flush, nothing else
 *         D  discard or zeroing of a range    M  mark, payload = its text
 *   flags 1  the write was durable by itself when it completed (FUA)
 *
 * The format of dm-log-writes (Linux, drivers/md/dm-log-writes.c) is read too, so that a host with
 * device-mapper can feed the same enumeration: a superblock in sector 0 (u64 magic, u64 version, u64
 * entries, u32 sector bytes), then per entry a sector with u64 sector, u64 sectors, u64 flags (1 flush, 2
 * FUA, 4 discard, 8 mark), u64 data bytes and, of a mark, its text; then the data of a write.
 *
 * Invariants
 *  1. A record's data points into the bytes the log was read from, which must outlive it.
 *  2. A log that is cut, overlong or of another version is refused, never read halfway.
 *
 * Threads: immutable after reading.
 */
#ifndef LDR_TESTS_RECOVERY_LOG_H
#define LDR_TESTS_RECOVERY_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define CRASH_LOG_MAGIC "LDRCRASH"
#define CRASH_LOG_VERSION 1
#define CRASH_LOG_HEAD_BYTES 16
#define CRASH_LOG_RECORD_BYTES 24
#define CRASH_LOG_FUA 1

/* A recording is at most this long; one that grows past it fails. */
#define CRASH_LOG_MAX_BYTES (UINT64_C(1) << 30)

enum crash_record_type {
	CRASH_WRITE = 'W',
	CRASH_FLUSH = 'F',
	CRASH_DISCARD = 'D',
	CRASH_MARK = 'M'
};

struct crash_record {
	enum crash_record_type type;
	uint8_t flags;
	uint64_t offset;
	uint64_t length;     /* of a mark: of its text */
	const uint8_t *data; /* borrows; NULL for F and D */
};

struct crash_log {
	size_t count;
	struct crash_record *records; /* owns */
	size_t write_count;
	size_t flush_count;
	size_t discard_count;
	size_t mark_count;
	char **marks; /* owns; NUL-terminated copies, in order */
};

/* Either format, told apart by the magic. LDR_ECORRUPT, LDR_EUNSUPPORTED (version), LDR_ELIMIT,
 * LDR_ENOMEM. */
enum ldr_status crash_log_read(const uint8_t *bytes, size_t length, struct crash_log *out_log,
			       struct ldr_error *err);
void crash_log_dispose(struct crash_log *log);

/* The head of our format, and of one record, for the recorder. */
void crash_log_put_head(uint8_t out[CRASH_LOG_HEAD_BYTES]);
void crash_log_put_record(uint8_t out[CRASH_LOG_RECORD_BYTES], const struct crash_record *record);

#endif
