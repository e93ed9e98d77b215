/* Reading of both log formats; see log.h. */
#include "tests/recovery/core/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

#define DM_MAGIC UINT64_C(0x6a736677736872)
#define DM_VERSION 1
#define DM_SUPER_BYTES 28
#define DM_ENTRY_BYTES 32
#define DM_FLUSH 1u
#define DM_FUA 2u
#define DM_DISCARD 4u
#define DM_MARK 8u

#define RECORDS_MAX (1u << 20)

void crash_log_put_head(uint8_t out[CRASH_LOG_HEAD_BYTES])
{
	memcpy(out, CRASH_LOG_MAGIC, 8);
	ldr_put_le(out + 8, 4, CRASH_LOG_VERSION);
	ldr_put_le(out + 12, 4, 0);
}

void crash_log_put_record(uint8_t out[CRASH_LOG_RECORD_BYTES], const struct crash_record *record)
{
	memset(out, 0, CRASH_LOG_RECORD_BYTES);
	out[0] = (uint8_t)record->type;
	out[1] = record->flags;
	ldr_put_le(out + 4, 4, record->data ? record->length : 0);
	ldr_put_le(out + 8, 8, record->offset);
	ldr_put_le(out + 16, 8, record->length);
}

static enum ldr_status grow(struct crash_log *log, size_t *room, struct ldr_error *err)
{
	size_t wanted = *room ? *room * 2 : 64;
	struct crash_record *grown;

	if (log->count < *room)
		return LDR_OK;
	if (wanted > RECORDS_MAX)
		return ldr_fail(err, LDR_ELIMIT, "log: %zu records, limit %u", log->count,
				RECORDS_MAX);
	grown = realloc(log->records, wanted * sizeof(*grown));
	if (!grown)
		return ldr_fail(err, LDR_ENOMEM, "log: no memory for %zu records", wanted);
	log->records = grown;
	*room = wanted;
	return LDR_OK;
}

static enum ldr_status add(struct crash_log *log, size_t *room, struct crash_record record,
			   struct ldr_error *err)
{
	enum ldr_status status = grow(log, room, err);

	if (status)
		return status;
	log->records[log->count++] = record;
	log->write_count += record.type == CRASH_WRITE;
	log->flush_count += record.type == CRASH_FLUSH;
	log->discard_count += record.type == CRASH_DISCARD;
	log->mark_count += record.type == CRASH_MARK;
	return LDR_OK;
}

static enum ldr_status take_record(struct ldr_cursor *in, struct crash_record *out, size_t number,
				   struct ldr_error *err)
{
	uint32_t payload;
	bool carries;

	memset(out, 0, sizeof(*out));
	out->type = ldr_cursor_u8(in);
	out->flags = ldr_cursor_u8(in);
	ldr_cursor_u16(in);
	payload = ldr_cursor_u32(in);
	out->offset = ldr_cursor_u64(in);
	out->length = ldr_cursor_u64(in);
	if (in->failed)
		return ldr_fail(err, LDR_ECORRUPT, "log: record %zu is cut", number);
	if (!memchr("WFDM", out->type, 4) || out->flags > CRASH_LOG_FUA)
		return ldr_fail(err, LDR_ECORRUPT, "log: record %zu: type %d, flags %u", number,
				out->type, out->flags);
	carries = out->type == CRASH_WRITE || out->type == CRASH_MARK;
	if (payload != (carries ? out->length : 0) || payload > ldr_cursor_left(in))
		return ldr_fail(err, LDR_ECORRUPT,
				"log: record %zu: payload %u, length %" PRIu64 ", left %zu", number,
				payload, out->length, ldr_cursor_left(in));
	if (out->length > UINT64_MAX / 2 || out->offset > UINT64_MAX / 2)
		return ldr_fail(err, LDR_ECORRUPT, "log: record %zu: offset %" PRIu64, number,
				out->offset);
	if (carries)
		out->data = ldr_cursor_bytes(in, payload);
	return LDR_OK;
}

static enum ldr_status read_own(struct ldr_cursor *in, struct crash_log *log, struct ldr_error *err)
{
	uint32_t version;
	size_t room = 0;

	ldr_cursor_bytes(in, 8);
	version = ldr_cursor_u32(in);
	ldr_cursor_u32(in);
	if (in->failed || version != CRASH_LOG_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "log: version %u, known %u", version,
				CRASH_LOG_VERSION);
	while (ldr_cursor_left(in) > 0) {
		struct crash_record record;
		enum ldr_status status = take_record(in, &record, log->count, err);

		if (!status)
			status = add(log, &room, record, err);
		if (status)
			return status;
	}
	return LDR_OK;
}

struct dm {
	const uint8_t *bytes;
	size_t length;
	size_t at;
	uint32_t sector_bytes;
	size_t room;
};

static enum ldr_status dm_cut(const struct dm *dm, uint64_t entry, struct ldr_error *err)
{
	return ldr_fail(err, LDR_ECORRUPT, "log: entry %" PRIu64 " is cut at byte %zu of %zu",
			entry, dm->at, dm->length);
}

/* One entry becomes up to two records: the flush before a write stands by itself here. */
static enum ldr_status dm_entry(struct dm *dm, uint64_t number, struct crash_log *log,
				struct ldr_error *err)
{
	struct crash_record record = {.type = CRASH_WRITE};
	const uint8_t *head = dm->bytes + dm->at;
	uint64_t sectors, flags, text_bytes;
	enum ldr_status status = LDR_OK;

	if (dm->length - dm->at < dm->sector_bytes)
		return dm_cut(dm, number, err);
	record.offset = ldr_get_le(head, 8) * dm->sector_bytes;
	sectors = ldr_get_le(head + 8, 8);
	flags = ldr_get_le(head + 16, 8);
	text_bytes = ldr_get_le(head + 24, 8);
	dm->at += dm->sector_bytes;
	if (sectors > CRASH_LOG_MAX_BYTES ||
	    ldr_get_le(head, 8) > UINT64_MAX / 2 / dm->sector_bytes)
		return ldr_fail(err, LDR_ECORRUPT, "log: entry %" PRIu64 ": %" PRIu64 " sectors",
				number, sectors);
	record.length = sectors * dm->sector_bytes;
	record.flags = flags & DM_FUA ? CRASH_LOG_FUA : 0;
	if (flags & DM_MARK) {
		if (text_bytes > dm->sector_bytes - DM_ENTRY_BYTES)
			return dm_cut(dm, number, err);
		record = (struct crash_record){
			.type = CRASH_MARK, .length = text_bytes, .data = head + DM_ENTRY_BYTES};
		return add(log, &dm->room, record, err);
	}
	if (flags & DM_FLUSH)
		status = add(log, &dm->room, (struct crash_record){.type = CRASH_FLUSH}, err);
	if (status || sectors == 0)
		return status;
	if (flags & DM_DISCARD) {
		record.type = CRASH_DISCARD;
		return add(log, &dm->room, record, err);
	}
	if (record.length > dm->length - dm->at)
		return dm_cut(dm, number, err);
	record.data = dm->bytes + dm->at;
	dm->at += record.length;
	return add(log, &dm->room, record, err);
}

static enum ldr_status read_dm(const uint8_t *bytes, size_t length, struct crash_log *log,
			       struct ldr_error *err)
{
	struct dm dm = {.bytes = bytes, .length = length};
	uint64_t version = ldr_get_le(bytes + 8, 8), entries = ldr_get_le(bytes + 16, 8);

	dm.sector_bytes = (uint32_t)ldr_get_le(bytes + 24, 4);
	if (version != DM_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "log: version %" PRIu64 ", known %d",
				version, DM_VERSION);
	if (dm.sector_bytes < 512 || dm.sector_bytes > 65536 || dm.sector_bytes > length)
		return ldr_fail(err, LDR_ECORRUPT, "log: sectors of %u bytes", dm.sector_bytes);
	dm.at = dm.sector_bytes;
	for (uint64_t i = 0; i < entries; i++) {
		enum ldr_status status = dm_entry(&dm, i, log, err);

		if (status)
			return status;
	}
	return LDR_OK;
}

static enum ldr_status copy_marks(struct crash_log *log, struct ldr_error *err)
{
	size_t next = 0;

	log->marks = calloc(log->mark_count + 1, sizeof(*log->marks));
	if (!log->marks)
		return ldr_fail(err, LDR_ENOMEM, "log: no memory for %zu marks", log->mark_count);
	for (size_t i = 0; i < log->count; i++) {
		const struct crash_record *record = &log->records[i];

		if (record->type != CRASH_MARK)
			continue;
		log->marks[next] = strndup((const char *)record->data, record->length);
		if (!log->marks[next++])
			return ldr_fail(err, LDR_ENOMEM, "log: no memory for mark %zu", next);
	}
	return LDR_OK;
}

enum ldr_status crash_log_read(const uint8_t *bytes, size_t length, struct crash_log *out_log,
			       struct ldr_error *err)
{
	struct ldr_cursor in = ldr_cursor_over(bytes, length);
	struct crash_log log = {0};
	enum ldr_status status;

	if (length >= CRASH_LOG_HEAD_BYTES && memcmp(bytes, CRASH_LOG_MAGIC, 8) == 0)
		status = read_own(&in, &log, err);
	else if (length >= DM_SUPER_BYTES && ldr_get_le(bytes, 8) == DM_MAGIC)
		status = read_dm(bytes, length, &log, err);
	else
		status = ldr_fail(err, LDR_ECORRUPT, "log: %zu bytes of no known format", length);
	if (!status)
		status = copy_marks(&log, err);
	if (status) {
		crash_log_dispose(&log);
		return status;
	}
	*out_log = log;
	return LDR_OK;
}

void crash_log_dispose(struct crash_log *log)
{
	for (size_t i = 0; log->marks && i < log->mark_count; i++)
		free(log->marks[i]);
	free(log->marks);
	free(log->records);
	memset(log, 0, sizeof(*log));
}
