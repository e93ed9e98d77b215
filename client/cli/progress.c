/*
 * Progress on a terminal; see output.h.
 *
 * Locks: ticker.mutex (LDR_RANK_LEAF) guards stop; nothing is drawn under it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/output.h"
#include "common/clock.h"
#include "common/lock.h"

#define TICK_MS 200
#define SILENT_MS 1000
#define BAR_CHARS 24

struct ticker {
	pthread_t thread;
	struct ldr_mutex mutex;
	struct ldr_condition changed;
	bool stop;  /* under the mutex */
	bool drawn; /* the thread's own until it is joined */
	uint64_t started_ms;
	const struct ldr_progress *progress;
};

static void draw(struct ticker *ticker, uint64_t elapsed_ms)
{
	uint64_t total = atomic_load(ticker->progress->total);
	uint64_t done = atomic_load(ticker->progress->done);
	double share = total ? (double)done / (double)total : 0;
	uint64_t rate = elapsed_ms ? done * 1000 / elapsed_ms : 0;
	char bar[BAR_CHARS + 1], rate_text[LDR_BYTES_TEXT], done_text[LDR_BYTES_TEXT];

	if (share > 1)
		share = 1;
	for (int i = 0; i < BAR_CHARS; i++)
		bar[i] = i < share * BAR_CHARS ? '#' : '.';
	bar[BAR_CHARS] = '\0';
	fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %s  %s/s", ticker->progress->what, bar,
		share * 100, ldr_output_bytes(done, done_text), ldr_output_bytes(rate, rate_text));
	if (rate && total > done)
		fprintf(stderr, "  %llu s left", (unsigned long long)(total - done) / rate + 1);
	fflush(stderr);
	ticker->drawn = true;
}

static void *tick(void *argument)
{
	struct ticker *ticker = argument;

	ldr_mutex_lock(&ticker->mutex);
	while (!ticker->stop) {
		uint64_t elapsed_ms;

		ldr_condition_wait_ms(&ticker->changed, &ticker->mutex, TICK_MS);
		elapsed_ms = ldr_clock_now_ms(ldr_clock_system()) - ticker->started_ms;
		if (ticker->stop || elapsed_ms < SILENT_MS)
			continue;
		ldr_mutex_unlock(&ticker->mutex);
		draw(ticker, elapsed_ms);
		ldr_mutex_lock(&ticker->mutex);
	}
	ldr_mutex_unlock(&ticker->mutex);
	return NULL;
}

static void ticker_free(struct ticker *ticker)
{
	ldr_condition_dispose(&ticker->changed);
	ldr_mutex_dispose(&ticker->mutex);
	free(ticker);
}

void ldr_progress_start(struct ldr_progress *progress, bool quiet)
{
	struct ticker *ticker = NULL;

	if (!quiet && isatty(STDERR_FILENO))
		ticker = calloc(1, sizeof(*ticker));
	progress->inside = ticker;
	if (!ticker)
		return;
	ldr_mutex_init(&ticker->mutex, LDR_RANK_LEAF);
	ldr_condition_init(&ticker->changed);
	ticker->progress = progress;
	ticker->started_ms = ldr_clock_now_ms(ldr_clock_system());
	if (ldr_thread_start(&ticker->thread, tick, ticker, NULL) == LDR_OK)
		return;
	ticker_free(ticker);
	progress->inside = NULL;
}

void ldr_progress_stop(struct ldr_progress *progress)
{
	struct ticker *ticker = progress->inside;

	if (!ticker)
		return;
	ldr_mutex_lock(&ticker->mutex);
	ticker->stop = true;
	ldr_condition_signal(&ticker->changed);
	ldr_mutex_unlock(&ticker->mutex);
	pthread_join(ticker->thread, NULL);
	if (ticker->drawn)
		fprintf(stderr, "\r\033[K");
	ticker_free(ticker);
	progress->inside = NULL;
}
