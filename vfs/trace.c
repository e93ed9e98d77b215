/*
 * The ring of trace records and their export; see trace.h.
 */
#include "vfs/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

const char *ldr_io_kind_name(enum ldr_io_kind kind)
{
	static const char *const names[] = {"read", "prefetch", "open", "stat", "list", "replace"};

	return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

const char *ldr_io_outcome_name(enum ldr_io_outcome outcome)
{
	static const char *const names[] = {"done", "cancelled", "expired"};

	return (unsigned)outcome < sizeof(names) / sizeof(names[0]) ? names[outcome] : "?";
}

const char *ldr_io_class_name(enum ldr_io_class io_class)
{
	static const char *const names[] = {"default", "critical", "high", "normal", "background"};

	return (unsigned)io_class < LDR_IO_CLASSES ? names[io_class] : "?";
}

/* ---- the ring ---- */

enum ldr_status ldr_trace_ring_init(struct ldr_trace_ring *ring, uint32_t capacity,
				    struct ldr_error *err)
{
	*ring = (struct ldr_trace_ring){.capacity = capacity};
	if (capacity == 0)
		return LDR_OK;
	ring->records = calloc(capacity, sizeof(*ring->records));
	if (!ring->records)
		return ldr_fail(err, LDR_ENOMEM, "trace of %u records: out of memory", capacity);
	return LDR_OK;
}

void ldr_trace_ring_dispose(struct ldr_trace_ring *ring)
{
	free(ring->records);
	ring->records = NULL;
}

struct ldr_trace_record *ldr_trace_ring_add(struct ldr_trace_ring *ring)
{
	struct ldr_trace_record *record;

	if (!ring->records)
		return NULL;
	record = &ring->records[ring->next];
	ring->next = (ring->next + 1) % ring->capacity;
	if (ring->count < ring->capacity)
		ring->count++;
	else if (ring->lost < UINT64_MAX)
		ring->lost++;
	return record;
}

size_t ldr_trace_ring_take(struct ldr_trace_ring *ring, struct ldr_trace_record *out,
			   size_t capacity)
{
	size_t taken = 0;

	for (; taken < capacity && ring->count > 0; taken++) {
		out[taken] =
			ring->records[(ring->next + ring->capacity - ring->count) % ring->capacity];
		ring->count--;
	}
	return taken;
}

/* ---- export ---- */

struct export
{
	enum ldr_status (*write)(void *context, const char *text, size_t length,
				 struct ldr_error *err);
	void *context;
	enum ldr_status status;
	struct ldr_error *err;
	bool first; /* no event was written yet */
};

static void put(struct export *export, const char *format, ...) LDR_PRINTF(2, 3);
static void put(struct export *export, const char *format, ...)
{
	char text[512];
	va_list arguments;
	int length;

	if (export->status != LDR_OK)
		return;
	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(text))
		export->status = ldr_fail(export->err, LDR_EIO, "trace: text of %d bytes", length);
	else
		export->status = export->write(export->context, text, (size_t)length, export->err);
}

/* Keys are paths of callers: what JSON or UTF-8 might not have is shown as \u00NN of its byte. */
static void put_key(struct export *export, const char *key)
{
	char text[LDR_TRACE_KEY_BYTES * 6 + 1];
	size_t used = 0;

	for (const char *at = key; *at && used + 7 < sizeof(text); at++) {
		unsigned char byte = (unsigned char)*at;

		if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\')
			text[used++] = (char)byte;
		else
			used += (size_t)snprintf(text + used, sizeof(text) - used, "\\u%04x", byte);
	}
	text[used] = '\0';
	put(export, ",\"key\":\"%s\"", text);
}

/* Microseconds with their nanoseconds, as text: JSON numbers of programs lose digits. */
#define MICROSECONDS "%" PRIu64 ".%03u"
#define MICROSECONDS_OF(ns) (ns) / 1000, (unsigned)((ns) % 1000)

/* A slice of a request's row. Rows are requests in flight, so the sequence is the row. */
static void put_slice(struct export *export, const struct ldr_trace_record *record,
		      const char *name, uint64_t from_ns, uint64_t length_ns)
{
	put(export,
	    "%s\n{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu64 ",\"name\":\"%s\",\"cat\":\"%s\""
	    ",\"ts\":" MICROSECONDS ",\"dur\":" MICROSECONDS "}",
	    export->first ? "" : ",", record->sequence & 0xfff, name,
	    ldr_io_class_name(record->io_class), MICROSECONDS_OF(from_ns),
	    MICROSECONDS_OF(length_ns));
	export->first = false;
}

static void put_request(struct export *export, const struct ldr_trace_record *record)
{
	const struct ldr_io_times *times = &record->times;

	put(export,
	    "%s\n{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu64 ",\"name\":\"%s\",\"cat\":\"%s\""
	    ",\"ts\":" MICROSECONDS ",\"dur\":" MICROSECONDS ",\"args\":{\"sequence\":\"%" PRIu64
	    "\",\"tag\":\"%" PRIu64 "\",\"offset\":\"%" PRIu64 "\",\"length\":%" PRIu64
	    ",\"got\":%" PRIu64,
	    export->first ? "" : ",", record->sequence & 0xfff, ldr_io_kind_name(record->kind),
	    ldr_io_class_name(record->io_class), MICROSECONDS_OF(times->submitted_ns),
	    MICROSECONDS_OF(times->collected_ns - times->submitted_ns), record->sequence,
	    record->tag, record->offset, record->length, record->got);
	export->first = false;
	put(export,
	    ",\"outcome\":\"%s\",\"status\":\"%s\",\"mount\":%u,\"pieces\":%u"
	    ",\"queue_ns\":%" PRIu64 ",\"network_ns\":%" PRIu64 ",\"service_ns\":%" PRIu64
	    ",\"device_ns\":%" PRIu64 ",\"checksum_ns\":%" PRIu64 ",\"decode_ns\":%" PRIu64,
	    ldr_io_outcome_name(record->outcome), ldr_status_name(record->status), record->mount_id,
	    record->pieces, times->queue_ns, times->network_ns, times->service_ns,
	    times->stages.device_ns, times->stages.checksum_ns, times->stages.decode_ns);
	put(export, ",\"delivery_ns\":%" PRIu64, times->collected_ns - times->ended_ns);
	put_key(export, record->key);
	put(export, "}}");
}

/* The stages as slices one after the other below the request. A request that was queued several
 * times has one slice of each stage, as long as all its stays together. */
static void put_stages(struct export *export, const struct ldr_trace_record *record)
{
	const struct ldr_io_times *times = &record->times;
	const struct {
		const char *name;
		uint64_t length_ns;
	} stages[] = {
		{"queue", times->queue_ns},
		{"network", times->network_ns},
		{"service", times->service_ns},
		{"delivery", times->collected_ns - times->ended_ns},
	};
	uint64_t at_ns = times->submitted_ns;

	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		if (stages[i].length_ns)
			put_slice(export, record, stages[i].name, at_ns, stages[i].length_ns);
		at_ns += stages[i].length_ns;
	}
}

enum ldr_status ldr_trace_export(const struct ldr_trace_record *records, size_t count,
				 enum ldr_status (*write)(void *context, const char *text,
							  size_t length, struct ldr_error *err),
				 void *context, struct ldr_error *err)
{
	struct export export = {.write = write, .context = context, .err = err, .first = true};

	put(&export, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (size_t i = 0; i < count; i++) {
		put_request(&export, &records[i]);
		put_stages(&export, &records[i]);
	}
	put(&export, "\n]}\n");
	return export.status;
}
