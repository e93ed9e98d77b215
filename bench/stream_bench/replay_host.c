/*
 * replay_host.c   what the host does in a tick.
 */
#include <string.h>

#include "bench/stream_bench/replay.h"
#include "bench/support.h"

static const enum ldr_io_class class_of[STREAM_PRIORITIES] = {LDR_IO_CRITICAL, LDR_IO_HIGH,
							      LDR_IO_NORMAL, LDR_IO_BACKGROUND};

static const char *path_of(const struct replay *replay, size_t request)
{
	return replay->corpus->path[replay->trace.request[request].file];
}

static bool differs(const struct replay *replay, size_t request, const uint8_t *bytes)
{
	const struct stream_request *wanted = &replay->trace.request[request];
	const uint8_t *expected = replay->corpus->expected[wanted->file] + wanted->offset;
	uint64_t place = wanted->offset;
	size_t at = 0;

	while (bytes[at] == expected[at])
		at++;
	place += at;
	bench_say("%s: byte %llu is 0x%02x, expected 0x%02x (request %zu)",
		  path_of(replay, request), (unsigned long long)place, bytes[at], expected[at],
		  request);
	return false;
}

bool replay_validate(struct replay *replay, size_t request, const uint8_t *bytes, size_t length)
{
	const struct stream_request *wanted = &replay->trace.request[request];
	uint64_t began = bench_now();
	bool same;

	if (length != wanted->length) {
		bench_say("%s: %zu bytes at %llu, %u were asked for (request %zu)",
			  path_of(replay, request), length, (unsigned long long)wanted->offset,
			  wanted->length, request);
		return false;
	}
	same = !memcmp(bytes, replay->corpus->expected[wanted->file] + wanted->offset, length);
	replay->validate_ns += bench_now() - began;
	return same || differs(replay, request, bytes);
}

/* Marks a request as ended at that time; false when it had been before. */
static bool end_request(struct replay *replay, size_t request, uint64_t now_ns)
{
	uint32_t file = replay->trace.request[request].file;

	if (replay->collected[request]) {
		bench_say("request %zu was collected twice", request);
		return false;
	}
	replay->collected[request] = true;
	replay->ended++;
	if (--replay->left[file] == 0)
		stream_samples_add(&replay->ready,
				   now_ns - replay->start_ns - replay->first_release[file]);
	return true;
}

static void add_times(struct replay *replay, const struct ldr_io_times *times)
{
	uint64_t total = times->collected_ns - times->submitted_ns;
	uint64_t known = times->queue_ns + times->network_ns + times->service_ns;

	stream_samples_add(&replay->queue, times->queue_ns);
	stream_samples_add(&replay->network, times->network_ns);
	stream_samples_add(&replay->service, times->service_ns);
	stream_samples_add(&replay->total, total);
	stream_samples_add(&replay->delivery, total > known ? total - known : 0);
	if (times->cancel_ns)
		stream_samples_add(&replay->cancel, times->collected_ns - times->cancel_ns);
}

static bool take(struct replay *replay, const struct ldr_completion *done)
{
	size_t request = (size_t)(done->tag / REPLAY_SLOTS);
	struct replay_slot *slot = &replay->slot[done->tag % REPLAY_SLOTS];
	bool good = true;

	if (!slot->busy || slot->request != request ||
	    slot->ticket.sequence != done->ticket.sequence) {
		bench_say("a completion of request %zu, which is not in its slot", request);
		return false;
	}
	slot->busy = false;
	add_times(replay, &done->times);
	if (done->outcome == LDR_IO_CANCELLED && replay->trace.request[request].cancel) {
		replay->counts.cancelled++;
	} else if (done->outcome != LDR_IO_DONE || done->status) {
		bench_say("%s: %s (request %zu)", path_of(replay, request), done->error.text,
			  request);
		return false;
	} else {
		replay->counts.reads++;
		replay->counts.bytes += done->length;
		good = replay_validate(replay, request, slot->bytes, done->length);
	}
	return end_request(replay, request, done->times.collected_ns) && good;
}

static void take_records(struct replay *replay)
{
	size_t room = replay->trace.count - replay->counts.trace_records;

	if (replay->records)
		replay->counts.trace_records += ldr_scheduler_trace(
			replay->scheduler, replay->records + replay->counts.trace_records, room);
}

bool replay_collect(struct replay *replay)
{
	uint64_t began = bench_now();
	size_t count = ldr_scheduler_poll(replay->scheduler, replay->completion, REPLAY_SLOTS);

	replay->ours_ns += bench_now() - began;
	for (size_t i = 0; i < count; i++)
		if (!take(replay, &replay->completion[i]))
			return false;
	take_records(replay);
	return true;
}

static struct replay_slot *free_slot(struct replay *replay)
{
	for (size_t i = 0; i < REPLAY_SLOTS; i++)
		if (!replay->slot[i].busy)
			return &replay->slot[i];
	return NULL;
}

/* False: there is no room now, or after bench_say (*out_good is false then). */
static bool submit(struct replay *replay, struct replay_slot *slot, bool *out_good)
{
	const struct stream_request *wanted = &replay->trace.request[replay->next];
	size_t number = (size_t)(slot - replay->slot);
	const struct ldr_io_request request = {
		.kind = LDR_IO_READ,
		.io_class = class_of[wanted->priority],
		.tag = (uint64_t)replay->next * REPLAY_SLOTS + number,
		.file = replay->files[number][wanted->file],
		.bytes = slot->bytes,
		.length = wanted->length,
		.offset = wanted->offset,
	};
	struct ldr_error error = {0};
	uint64_t began = bench_now();
	enum ldr_status status = ldr_scheduler_submit(replay->scheduler, &request, &slot->ticket,
						      &error);

	replay->ours_ns += bench_now() - began;
	if (status == LDR_EAGAIN) {
		replay->counts.refused++;
		return false;
	}
	if (status) {
		bench_say("submit: %s", error.text);
		*out_good = false;
		return false;
	}
	slot->busy = true;
	slot->request = replay->next;
	stream_samples_add(&replay->lateness, began - replay->start_ns - wanted->release_ns);
	return true;
}

static bool cancel_marked(struct replay *replay, size_t from)
{
	struct ldr_error error = {0};

	for (size_t i = 0; i < REPLAY_SLOTS; i++) {
		const struct replay_slot *slot = &replay->slot[i];
		uint64_t began;

		if (!slot->busy || slot->request < from ||
		    !replay->trace.request[slot->request].cancel)
			continue;
		began = bench_now();
		replay->counts.cancel_intents++;
		if (ldr_scheduler_cancel(replay->scheduler, slot->ticket, &error)) {
			bench_say("cancel: %s", error.text);
			return false;
		}
		replay->ours_ns += bench_now() - began;
	}
	return true;
}

bool replay_admit(struct replay *replay, uint64_t now_ns)
{
	size_t from = replay->next;
	bool good = true;

	while (replay->next < replay->trace.count &&
	       replay->trace.request[replay->next].release_ns <= now_ns - replay->start_ns) {
		struct replay_slot *slot = free_slot(replay);

		if (!slot || !submit(replay, slot, &good))
			break;
		replay->next++;
	}
	return good && cancel_marked(replay, from);
}

bool replay_read_sync(struct replay *replay, size_t request)
{
	const struct stream_request *wanted = &replay->trace.request[request];
	struct replay_slot *slot = &replay->slot[request % REPLAY_SLOTS];
	struct ldr_error error = {0};
	struct ldr_io_times times = {0};
	uint64_t began = bench_now();
	size_t length = 0;

	stream_samples_add(&replay->lateness, began - replay->start_ns - wanted->release_ns);
	if (wanted->cancel) {
		replay->counts.cancel_intents++;
		replay->counts.skipped++;
	} else if (ldr_file_pread(replay->files[slot - replay->slot][wanted->file], slot->bytes,
				  wanted->length, wanted->offset, &length, &error)) {
		bench_say("%s: %s (request %zu)", path_of(replay, request), error.text, request);
		return false;
	} else {
		times.submitted_ns = began;
		times.collected_ns = bench_now();
		times.service_ns = times.collected_ns - began;
		replay->ours_ns += times.service_ns;
		replay->counts.reads++;
		replay->counts.bytes += length;
	}
	add_times(replay, &times);
	return (wanted->cancel || replay_validate(replay, request, slot->bytes, length)) &&
	       end_request(replay, request, wanted->cancel ? began : times.collected_ns);
}
