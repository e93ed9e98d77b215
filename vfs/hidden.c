/*
 * Whiteouts; see hidden.h.
 *
 * The table is open-addressed over pointers to names. A name is written before its pointer
 * (release, paired with the acquire of a look-up); a larger table is filled before its own pointer.
 * Old tables are kept in a chain: together they are smaller than the present one.
 */
#include "vfs/hidden.h"

#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/path.h"

#define LOG_MAGIC "LARDHIDE"
#define LOG_VERSION 1u
#define RECORD_EXTRA_BYTES 10u /* length and checksum */
#define TABLE_FIRST 64u
/* A folded name takes up to four times its bytes. */
#define FOLDED_MAX_BYTES (4 * LDR_PATH_MAX_BYTES)
#define HIDDEN_MAX (UINT32_C(1) << 24)

struct hidden_name {
	uint64_t hash;
	size_t length;
	char text[];
};

struct hidden_table {
	struct hidden_table *older;
	size_t mask;
	_Atomic(struct hidden_name *) slots[];
};

/* Names as they are, or folded. */
struct hidden_set {
	_Atomic uint64_t count;
	_Atomic(struct hidden_table *) table;
};

struct ldr_hidden {
	const struct ldr_layer_ops *ops;
	void *layer_self;
	bool is_logged; /* the log is whole: more can be added at its end */
	struct hidden_set exact;
	struct hidden_set folded;
};

static struct hidden_table *table_new(size_t slots, struct hidden_table *older)
{
	struct hidden_table *table = calloc(1, sizeof(*table) + slots * sizeof(table->slots[0]));

	if (table) {
		table->mask = slots - 1;
		table->older = older;
	}
	return table;
}

static bool table_has(const struct hidden_table *table, const char *path, size_t length,
		      uint64_t hash)
{
	for (size_t i = hash & table->mask;; i = (i + 1) & table->mask) {
		const struct hidden_name *name = atomic_load_explicit(&table->slots[i],
								      memory_order_acquire);

		if (!name)
			return false;
		if (name->hash == hash && name->length == length &&
		    memcmp(name->text, path, length) == 0)
			return true;
	}
}

static void table_put(struct hidden_table *table, struct hidden_name *name)
{
	size_t i = name->hash & table->mask;

	while (atomic_load_explicit(&table->slots[i], memory_order_relaxed))
		i = (i + 1) & table->mask;
	atomic_store_explicit(&table->slots[i], name, memory_order_release);
}

/* The path or a folder above it. */
static bool set_covers(const struct hidden_set *set, const char *path, size_t length)
{
	const struct hidden_table *table = atomic_load_explicit(&set->table, memory_order_acquire);

	while (length > 0) {
		if (table_has(table, path, length, ldr_checksum(path, length)))
			return true;
		while (length > 0 && path[length - 1] != '/')
			length--;
		if (length > 0)
			length--;
	}
	return false;
}

/* A slash folds to itself and joins with nothing, so a path is folded as a name is. */
static size_t fold_path(const char *path, size_t length, char folded[FOLDED_MAX_BYTES])
{
	size_t folded_bytes;

	if (ldr_name_fold(path, length, folded, FOLDED_MAX_BYTES, &folded_bytes))
		return folded_bytes;
	memcpy(folded, path, length);
	return length;
}

bool ldr_hidden_covers(const struct ldr_hidden *hidden, const char *path, size_t length, bool fold)
{
	char folded[FOLDED_MAX_BYTES];

	if (ldr_hidden_count(hidden) == 0)
		return false;
	if (!fold)
		return set_covers(&hidden->exact, path, length);
	return set_covers(&hidden->folded, folded, fold_path(path, length, folded));
}

uint64_t ldr_hidden_count(const struct ldr_hidden *hidden)
{
	return atomic_load_explicit(&hidden->exact.count, memory_order_relaxed);
}

/* ---- adding ---- */

static enum ldr_status make_room(struct hidden_set *set, struct ldr_error *err)
{
	struct hidden_table *old = atomic_load_explicit(&set->table, memory_order_relaxed);
	uint64_t count = atomic_load_explicit(&set->count, memory_order_relaxed);
	struct hidden_table *table;

	if (count >= HIDDEN_MAX)
		return ldr_fail(err, LDR_ELIMIT, "whiteouts: %llu, limit %u",
				(unsigned long long)count, HIDDEN_MAX);
	if ((count + 1) * 2 <= old->mask + 1)
		return LDR_OK;
	table = table_new((old->mask + 1) * 2, old);
	if (!table)
		return ldr_fail(err, LDR_ENOMEM, "whiteouts: out of memory");
	for (size_t i = 0; i <= old->mask; i++) {
		struct hidden_name *name = atomic_load_explicit(&old->slots[i],
								memory_order_relaxed);

		if (name)
			table_put(table, name);
	}
	atomic_store_explicit(&set->table, table, memory_order_release);
	return LDR_OK;
}

/* All that adding to a set needs: room, and the name. */
static enum ldr_status prepare(struct hidden_set *set, const char *path, size_t length,
			       struct hidden_name **out_name, struct ldr_error *err)
{
	enum ldr_status status = make_room(set, err);
	struct hidden_name *name;

	if (status != LDR_OK)
		return status;
	name = malloc(sizeof(*name) + length);
	if (!name)
		return ldr_fail(err, LDR_ENOMEM, "whiteouts: out of memory");
	name->hash = ldr_checksum(path, length);
	name->length = length;
	memcpy(name->text, path, length);
	*out_name = name;
	return LDR_OK;
}

/* Owns name. */
static void put(struct hidden_set *set, struct hidden_name *name)
{
	struct hidden_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);

	if (table_has(table, name->text, name->length, name->hash)) {
		free(name);
		return;
	}
	table_put(table, name);
	/* Pairs with the acquire of the table: who counts a name finds it. */
	atomic_fetch_add_explicit(&set->count, 1, memory_order_release);
}

static void put_header(struct ldr_buffer *log)
{
	ldr_buffer_put(log, LOG_MAGIC, 8);
	ldr_buffer_u32(log, LOG_VERSION);
	ldr_buffer_u32(log, 0);
}

static void put_record(struct ldr_buffer *log, const char *path, size_t length)
{
	size_t start = log->length;

	ldr_buffer_u16(log, (uint16_t)length);
	ldr_buffer_put(log, path, length);
	if (!log->failed)
		ldr_buffer_u64(log, ldr_checksum(log->data + start, log->length - start));
}

/* The first record, or the first after an addition failed and may have left half a record. */
static enum ldr_status write_whole(struct ldr_hidden *hidden, const char *path, size_t length,
				   struct ldr_error *err)
{
	struct hidden_table *table = atomic_load_explicit(&hidden->exact.table,
							  memory_order_relaxed);
	LDR_AUTO_BUFFER struct ldr_buffer log = {.max_bytes = SIZE_MAX};
	enum ldr_status status;

	put_header(&log);
	for (size_t i = 0; i <= table->mask; i++) {
		const struct hidden_name *name = atomic_load_explicit(&table->slots[i],
								      memory_order_relaxed);

		if (name)
			put_record(&log, name->text, name->length);
	}
	put_record(&log, path, length);
	if (log.failed)
		return ldr_fail(err, LDR_ENOMEM, "whiteouts: out of memory");
	status = hidden->ops->side_replace(hidden->layer_self, log.data, log.length, err);
	hidden->is_logged = status == LDR_OK;
	return status;
}

static enum ldr_status write_record(struct ldr_hidden *hidden, const char *path, size_t length,
				    struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer record = {.max_bytes = RECORD_EXTRA_BYTES +
								 LDR_PATH_MAX_BYTES};
	enum ldr_status status;

	if (!hidden->ops->side_append)
		return LDR_OK;
	if (!hidden->is_logged)
		return write_whole(hidden, path, length, err);
	put_record(&record, path, length);
	if (record.failed)
		return ldr_fail(err, LDR_ENOMEM, "whiteouts: out of memory");
	status = hidden->ops->side_append(hidden->layer_self, record.data, record.length, err);
	hidden->is_logged = status == LDR_OK;
	return status;
}

/* logged: the log has it already. */
static enum ldr_status add(struct ldr_hidden *hidden, const char *path, size_t length, bool logged,
			   struct ldr_error *err)
{
	struct hidden_name *exact, *folded;
	char text[FOLDED_MAX_BYTES];
	enum ldr_status status = prepare(&hidden->exact, path, length, &exact, err);

	if (status != LDR_OK)
		return status;
	status = prepare(&hidden->folded, text, fold_path(path, length, text), &folded, err);
	if (status != LDR_OK) {
		free(exact);
		return status;
	}
	if (!logged)
		status = write_record(hidden, path, length, err);
	if (status != LDR_OK) {
		free(exact);
		free(folded);
		return status;
	}
	put(&hidden->folded, folded);
	put(&hidden->exact, exact);
	return LDR_OK;
}

enum ldr_status ldr_hidden_add(struct ldr_hidden *hidden, const char *path, size_t length,
			       bool fold, struct ldr_error *err)
{
	if (ldr_hidden_covers(hidden, path, length, fold))
		return LDR_OK;
	return add(hidden, path, length, false, err);
}

/* ---- reading the log ---- */

static enum ldr_status parse_header(struct ldr_cursor *cursor, struct ldr_error *err)
{
	const uint8_t *magic = ldr_cursor_bytes(cursor, 8);
	uint32_t version = ldr_cursor_u32(cursor);
	uint32_t reserved = ldr_cursor_u32(cursor);

	if (!magic || memcmp(magic, LOG_MAGIC, 8) != 0 || cursor->failed)
		return ldr_fail(err, LDR_ECORRUPT, "whiteout log: does not begin as one");
	if (version != LOG_VERSION || reserved != 0)
		return ldr_fail(err, LDR_EUNSUPPORTED,
				"whiteout log: version %u (flags 0x%x), known is %u", version,
				reserved, LOG_VERSION);
	return LDR_OK;
}

/* One record at the cursor. NULL: a good one; else what is wrong with it. */
static const char *take_record(struct ldr_cursor *cursor, const uint8_t *log, const char **out_path,
			       uint16_t *out_bytes)
{
	size_t start = ldr_cursor_position(cursor);
	uint16_t path_bytes = ldr_cursor_u16(cursor);
	const char *path = (const char *)ldr_cursor_bytes(cursor, path_bytes);
	uint64_t expected = ldr_cursor_u64(cursor);

	if (cursor->failed)
		return "is cut short";
	if (ldr_checksum(log + start, 2 + (size_t)path_bytes) != expected)
		return "has a wrong checksum";
	*out_path = path;
	*out_bytes = path_bytes;
	return NULL;
}

/* Whether a crash may have left this end behind the last good record: no more than one append, and
 * no good record anywhere in it (there is none inside of one: a path holds no control character,
 * and a length below 1,280 has one as its second byte). */
static bool is_torn_end(const uint8_t *end, size_t length)
{
	if (length > RECORD_EXTRA_BYTES + LDR_PATH_MAX_BYTES)
		return false;
	for (size_t at = 1; at < length; at++) {
		struct ldr_cursor cursor = ldr_cursor_over(end + at, length - at);
		const char *path;
		uint16_t path_bytes;

		if (!take_record(&cursor, end + at, &path, &path_bytes))
			return false;
	}
	return true;
}

enum ldr_status ldr_hidden_parse(const uint8_t *log, size_t length,
				 enum ldr_status (*each)(void *context, const char *path,
							 size_t path_bytes, struct ldr_error *err),
				 void *context, size_t *out_good, struct ldr_error *err)
{
	struct ldr_cursor cursor = ldr_cursor_over(log, length);
	enum ldr_status status = parse_header(&cursor, err);

	while (status == LDR_OK && ldr_cursor_left(&cursor) > 0) {
		size_t start = ldr_cursor_position(&cursor);
		const char *path = NULL, *fault;
		uint16_t path_bytes = 0;

		fault = take_record(&cursor, log, &path, &path_bytes);
		if (fault && is_torn_end(log + start, length - start)) {
			*out_good = start;
			return LDR_OK;
		}
		if (!fault && ldr_path_check(path, path_bytes, NULL) != LDR_OK)
			fault = "holds no legal path";
		if (fault)
			return ldr_fail(err, LDR_ECORRUPT, "whiteout log: the record at %zu %s",
					start, fault);
		status = each(context, path, path_bytes, err);
	}
	if (status == LDR_OK)
		*out_good = length;
	return status;
}

static enum ldr_status remember(void *context, const char *path, size_t path_bytes,
				struct ldr_error *err)
{
	struct ldr_hidden *hidden = context;

	if (ldr_hidden_covers(hidden, path, path_bytes, false))
		return LDR_OK;
	return add(hidden, path, path_bytes, true, err);
}

static enum ldr_status load_log(struct ldr_hidden *hidden, struct ldr_error *err)
{
	LDR_AUTO_FREE uint8_t *log = NULL;
	enum ldr_status status;
	size_t length, good;

	status = hidden->ops->side_read(hidden->layer_self, &log, &length, err);
	if (status == LDR_ENOTFOUND)
		return LDR_OK;
	if (status == LDR_OK)
		status = ldr_hidden_parse(log, length, remember, hidden, &good, err);
	if (status != LDR_OK)
		return status;
	hidden->is_logged = true;
	if (good == length)
		return LDR_OK;
	return hidden->ops->side_replace(hidden->layer_self, log, good, err);
}

static bool set_init(struct hidden_set *set)
{
	struct hidden_table *table = table_new(TABLE_FIRST, NULL);

	atomic_store_explicit(&set->table, table, memory_order_relaxed);
	return table != NULL;
}

enum ldr_status ldr_hidden_load(const struct ldr_layer_ops *ops, void *layer_self,
				struct ldr_hidden **out_hidden, struct ldr_error *err)
{
	struct ldr_hidden *hidden = calloc(1, sizeof(*hidden));
	enum ldr_status status = LDR_OK;

	if (!hidden || !set_init(&hidden->exact) || !set_init(&hidden->folded)) {
		ldr_hidden_free(hidden);
		return ldr_fail(err, LDR_ENOMEM, "whiteouts: out of memory");
	}
	hidden->ops = ops;
	hidden->layer_self = layer_self;
	if (ops->side_read)
		status = load_log(hidden, err);
	if (status != LDR_OK) {
		ldr_hidden_free(hidden);
		return status;
	}
	*out_hidden = hidden;
	return LDR_OK;
}

static void set_dispose(struct hidden_set *set)
{
	struct hidden_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);

	for (size_t i = 0; table && i <= table->mask; i++)
		free(atomic_load_explicit(&table->slots[i], memory_order_relaxed));
	while (table) {
		struct hidden_table *older = table->older;

		free(table);
		table = older;
	}
}

void ldr_hidden_free(struct ldr_hidden *hidden)
{
	if (!hidden)
		return;
	set_dispose(&hidden->exact);
	set_dispose(&hidden->folded);
	free(hidden);
}
