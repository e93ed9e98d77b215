/* Both formats of a recording's log, and what is refused. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/bytes.h"
#include "tests/recovery/core/log.h"

static void put(struct ldr_buffer *out, enum crash_record_type type, uint64_t offset,
		uint64_t length, const void *data)
{
	struct crash_record record = {
		.type = type, .offset = offset, .length = length, .data = data};
	uint8_t head[CRASH_LOG_RECORD_BYTES];

	crash_log_put_record(head, &record);
	ldr_buffer_put(out, head, sizeof(head));
	if (data)
		ldr_buffer_put(out, data, length);
}

static void begin(struct ldr_buffer *out)
{
	uint8_t head[CRASH_LOG_HEAD_BYTES];

	ldr_buffer_init(out, 1 << 20);
	crash_log_put_head(head);
	ldr_buffer_put(out, head, sizeof(head));
}

Test(log, reads_what_was_put)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	struct ldr_error err = {0};
	struct crash_log log;

	begin(&bytes);
	put(&bytes, CRASH_MARK, 0, 5, "begin");
	put(&bytes, CRASH_WRITE, 4096, 4, "abcd");
	put(&bytes, CRASH_FLUSH, 0, 0, NULL);
	put(&bytes, CRASH_DISCARD, 8192, 512, NULL);
	cr_assert_eq(crash_log_read(bytes.data, bytes.length, &log, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(log.count, 4);
	cr_assert_str_eq(log.marks[0], "begin");
	cr_assert_eq(log.records[1].type, CRASH_WRITE);
	cr_assert_eq(log.records[1].offset, 4096);
	cr_assert_arr_eq(log.records[1].data, "abcd", 4);
	cr_assert_eq(log.records[3].length, 512);
	cr_assert_eq(log.write_count + log.flush_count + log.discard_count + log.mark_count, 4);
	crash_log_dispose(&log);
}

/* Every cut of a log is refused or a shorter log, whole to its last record. */
Test(log, a_cut_is_never_read_halfway)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	size_t whole = 0;

	begin(&bytes);
	put(&bytes, CRASH_WRITE, 0, 3, "abc");
	put(&bytes, CRASH_MARK, 0, 2, "hi");
	for (size_t length = 0; length < bytes.length; length++) {
		struct crash_log log;
		enum ldr_status status = crash_log_read(bytes.data, length, &log, NULL);

		if (status == LDR_OK) {
			whole++;
			cr_assert(log.count == 0 || log.records[0].length == 3);
			crash_log_dispose(&log);
		}
	}
	cr_assert_eq(whole, 2, "the empty log and that of the first record, not %zu", whole);
}

Test(log, refuses_foreign_types_versions_and_lengths)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum ldr_status status;
	} rows[] = {{0, 'X', LDR_ECORRUPT},
		    {8, 2, LDR_EUNSUPPORTED},
		    {CRASH_LOG_HEAD_BYTES, 'Q', LDR_ECORRUPT},
		    {CRASH_LOG_HEAD_BYTES + 1, 2, LDR_ECORRUPT},
		    {CRASH_LOG_HEAD_BYTES + 4, 2, LDR_ECORRUPT},
		    {CRASH_LOG_HEAD_BYTES + 15, 0xff, LDR_ECORRUPT},
		    {CRASH_LOG_HEAD_BYTES + 16, 9, LDR_ECORRUPT}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		LDR_AUTO_BUFFER struct ldr_buffer bytes;
		struct ldr_error err = {0};
		struct crash_log log;

		begin(&bytes);
		put(&bytes, CRASH_WRITE, 0, 3, "abc");
		bytes.data[rows[i].at] = rows[i].value;
		cr_expect_eq(crash_log_read(bytes.data, bytes.length, &log, &err), rows[i].status,
			     "row %zu: %s", i, err.text);
	}
}

static void dm_entry(struct ldr_buffer *out, uint64_t sector, uint64_t sectors, uint64_t flags,
		     const char *mark)
{
	uint8_t head[512] = {0};

	ldr_put_le(head, 8, sector);
	ldr_put_le(head + 8, 8, sectors);
	ldr_put_le(head + 16, 8, flags);
	ldr_put_le(head + 24, 8, mark ? strlen(mark) : 0);
	if (mark)
		memcpy(head + 32, mark, strlen(mark));
	ldr_buffer_put(out, head, sizeof(head));
	for (uint64_t i = 0; !(flags & 4) && i < sectors; i++) {
		memset(head, (int)(sector + i), sizeof(head));
		ldr_buffer_put(out, head, sizeof(head));
	}
}

static void dm_begin(struct ldr_buffer *out, uint64_t entries)
{
	uint8_t super[512] = {0};

	ldr_buffer_init(out, 1 << 20);
	ldr_put_le(super, 8, UINT64_C(0x6a736677736872));
	ldr_put_le(super + 8, 8, 1);
	ldr_put_le(super + 16, 8, entries);
	ldr_put_le(super + 24, 4, 512);
	ldr_buffer_put(out, super, sizeof(super));
}

Test(log, reads_dm_log_writes)
{
	static const enum crash_record_type types[] = {CRASH_MARK,  CRASH_WRITE,   CRASH_FLUSH,
						       CRASH_WRITE, CRASH_DISCARD, CRASH_FLUSH};
	LDR_AUTO_BUFFER struct ldr_buffer bytes;
	struct ldr_error err = {0};
	struct crash_log log;

	dm_begin(&bytes, 5);
	dm_entry(&bytes, 0, 0, 8, "begin");
	dm_entry(&bytes, 7, 2, 0, NULL);
	dm_entry(&bytes, 9, 1, 1 | 2, NULL);
	dm_entry(&bytes, 16, 8, 4, NULL);
	dm_entry(&bytes, 0, 0, 1, NULL);
	cr_assert_eq(crash_log_read(bytes.data, bytes.length, &log, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(log.count, 6);
	for (size_t i = 0; i < log.count; i++)
		cr_expect_eq(log.records[i].type, types[i], "record %zu", i);
	cr_assert_str_eq(log.marks[0], "begin");
	cr_assert_eq(log.records[1].offset, 7 * 512);
	cr_assert_eq(log.records[1].length, 1024);
	cr_assert_eq(log.records[1].data[512], 8);
	cr_assert_eq(log.records[3].flags, CRASH_LOG_FUA);
	cr_assert_eq(log.records[4].length, 8 * 512);
	crash_log_dispose(&log);
	cr_assert_eq(crash_log_read(bytes.data, bytes.length - 1, &log, &err), LDR_ECORRUPT);
}
