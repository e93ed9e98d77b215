/*
 * replay_report.c   the books of a run: do they balance, and what they say.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/allocations.h"
#include "bench/stream_bench/replay.h"
#include "bench/support.h"

static bool balances(const char *what, uint64_t left, uint64_t right)
{
	if (left == right)
		return true;
	bench_say("%s: %llu and %llu", what, (unsigned long long)left, (unsigned long long)right);
	return false;
}

static bool reconcile_scheduler(struct replay *replay)
{
	const struct ldr_scheduler_metrics *metrics = &replay->metrics;
	const struct replay_counts *counts = &replay->counts;
	bool good;

	ldr_scheduler_metrics(replay->scheduler, &replay->metrics);
	good = balances("requests in flight at the end", metrics->requests, 0) &&
	       balances("bytes in flight at the end", metrics->bytes, 0) &&
	       balances("accepted, requests of the trace", metrics->accepted,
			replay->trace.count) &&
	       balances("collected, accepted", metrics->collected, metrics->accepted) &&
	       balances("done, reads", metrics->done, counts->reads) &&
	       balances("cancelled of the scheduler, of the host", metrics->cancelled,
			counts->cancelled) &&
	       balances("rejected of the scheduler, of the host", metrics->rejected,
			counts->refused) &&
	       balances("bytes of the scheduler, of the host", metrics->bytes_read, counts->bytes);
	return good && (!replay->records ||
			balances("trace records taken and lost, completions",
				 counts->trace_records + metrics->traces_lost, metrics->collected));
}

bool replay_reconcile(struct replay *replay)
{
	const struct replay_counts *counts = &replay->counts;

	for (size_t i = 0; i < replay->trace.count; i++)
		if (!replay->collected[i]) {
			bench_say("request %zu was never collected", i);
			return false;
		}
	return balances("ended, requests of the trace", replay->ended, replay->trace.count) &&
	       balances("reads, cancelled and skipped; requests",
			counts->reads + counts->cancelled + counts->skipped, replay->trace.count) &&
	       (!replay->scheduler || reconcile_scheduler(replay));
}

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* count, and the nearest ranks in nanoseconds; an empty distribution has no ranks. */
static json_t *distribution(struct stream_samples *samples)
{
	json_t *out = json_object();

	stream_samples_sort(samples);
	json_object_set_new(out, "count", number(samples->count));
	if (samples->count == 0)
		return out;
	json_object_set_new(out, "p50_ns", number(stream_samples_rank(samples, 50)));
	json_object_set_new(out, "p95_ns", number(stream_samples_rank(samples, 95)));
	json_object_set_new(out, "p99_ns", number(stream_samples_rank(samples, 99)));
	json_object_set_new(out, "max_ns", number(stream_samples_rank(samples, 100)));
	return out;
}

static json_t *gauge(const struct replay_gauge *gauge, uint64_t ticks)
{
	return json_pack("{s:o,s:f}", "peak", number(gauge->peak), "mean",
			 ticks ? (double)gauge->sum / (double)ticks : 0.0);
}

static json_t *run_of(const struct stream_options *options)
{
	return json_pack("{s:s,s:i,s:s,s:i,s:b,s:s,s:i,s:i}", "layout", options->layouts.word[0],
			 "workers", (int)options->workers[0], "open",
			 options->independent ? "independent" : "shared", "load",
			 (int)options->load_threads, "tracing", options->tracing, "cache",
			 options->warm ? "warm" : "uncontrolled", "poll_us", (int)options->poll_us,
			 "frame_us", (int)options->frame_us);
}

static json_t *counts_of(const struct replay *replay)
{
	const struct replay_counts *counts = &replay->counts;
	json_t *out = json_object();

	json_object_set_new(out, "requests", number(replay->trace.count));
	json_object_set_new(out, "reads", number(counts->reads));
	json_object_set_new(out, "bytes", number(counts->bytes));
	json_object_set_new(out, "cancel_intents", number(counts->cancel_intents));
	json_object_set_new(out, "cancelled", number(counts->cancelled));
	json_object_set_new(out, "skipped", number(counts->skipped));
	json_object_set_new(out, "refused", number(counts->refused));
	json_object_set_new(out, "ticks", number(counts->ticks));
	json_object_set_new(out, "trace_records", number(counts->trace_records));
	json_object_set_new(out, "trace_lost", number(replay->metrics.traces_lost));
	json_object_set_new(out, "peak_requests", number(replay->metrics.requests_peak));
	json_object_set_new(out, "peak_bytes", number(replay->metrics.bytes_peak));
	json_object_set_new(out, "network_waits", number(replay->metrics.network_waits));
	return out;
}

static json_t *distributions_of(struct replay *replay)
{
	json_t *out = json_object();

	json_object_set_new(out, "queue", distribution(&replay->queue));
	json_object_set_new(out, "network", distribution(&replay->network));
	json_object_set_new(out, "service", distribution(&replay->service));
	json_object_set_new(out, "delivery", distribution(&replay->delivery));
	json_object_set_new(out, "total", distribution(&replay->total));
	json_object_set_new(out, "lateness", distribution(&replay->lateness));
	json_object_set_new(out, "cancel", distribution(&replay->cancel));
	return out;
}

static json_t *frames_of(struct replay *replay)
{
	const struct replay_counts *counts = &replay->counts;

	return json_pack("{s:o,s:i,s:o,s:o,s:o,s:o}", "frames", number(counts->ticks), "budget_us",
			 (int)replay->options->budget_us, "over_budget",
			 number(counts->frames_over_budget), "late", number(counts->frames_late),
			 "ours", distribution(&replay->frame), "ready",
			 distribution(&replay->ready));
}

static enum ldr_status write_part(void *context, const char *text, size_t length,
				  struct ldr_error *err)
{
	if (fwrite(text, 1, length, context) == length)
		return LDR_OK;
	return ldr_fail_errno(err, errno, "trace");
}

static bool export_trace(const struct replay *replay)
{
	const char *path = replay->options->export_path;
	struct ldr_error error = {0};
	FILE *stream;
	bool good;

	if (!path || !replay->records)
		return true;
	stream = fopen(path, "we");
	if (!stream) {
		bench_say("%s: %s", path, strerror(errno));
		return false;
	}
	good = !ldr_trace_export(replay->records, (size_t)replay->counts.trace_records, write_part,
				 stream, &error);
	if (fclose(stream))
		good = false;
	if (!good)
		bench_say("%s: %s", path, error.text);
	return good;
}

bool replay_report(struct replay *replay)
{
	struct rusage usage = {0};
	json_t *out = run_of(replay->options);
	char *text;

	getrusage(RUSAGE_SELF, &usage);
	json_object_set_new(out, "counts", counts_of(replay));
	json_object_set_new(out, "distributions", distributions_of(replay));
	if (replay->options->frame_us)
		json_object_set_new(out, "frames", frames_of(replay));
	json_object_set_new(out, "backlog", gauge(&replay->backlog, replay->counts.ticks));
	json_object_set_new(out, "in_flight", gauge(&replay->in_flight, replay->counts.ticks));
	json_object_set_new(out, "elapsed_ns", number(replay->elapsed_ns));
	json_object_set_new(out, "cpu_ns", number(replay->cpu_ns));
	json_object_set_new(out, "validate_ns", number(replay->validate_ns));
	json_object_set_new(out, "rss_kib", number((uint64_t)usage.ru_maxrss));
	json_object_set_new(out, "hot_allocations",
			    bench_allocations_work() ? number(replay->allocations) : json_null());
	text = json_dumps(out, JSON_COMPACT | JSON_PRESERVE_ORDER);
	json_decref(out);
	if (!text)
		return false;
	puts(text);
	free(text);
	return export_trace(replay);
}
