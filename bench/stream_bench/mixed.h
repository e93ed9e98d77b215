/*
 * Local reads beside slow remote ones: what 100 reads that wait a second each for a server cost a warm local read.
 *
 * The corpus is mounted twice, as a local archive and, below "slow", as a release of a server that takes its time (slow_server.h), with
 * empty caches. The host reads 4 KiB of the archive at a time through the scheduler, and measures from submitting to collecting:
 * without remote reads for some seconds, then with so many remote reads in flight that each one that ends is replaced at once. A
 * line a pair, then the median of the ratios of the p99s.
 *
 * Every remote read is of a file that was not asked for before, so the corpus needs many small files (2,000 for the defaults).
 *
 * Threads: the main thread, beside the scheduler's workers and the server's.
 */
#ifndef LDR_BENCH_STREAM_MIXED_H
#define LDR_BENCH_STREAM_MIXED_H

#include <stdbool.h>

#include "bench/stream_bench/corpus.h"
#include "bench/stream_bench/options.h"

bool stream_mixed(const struct stream_options *options, const struct stream_corpus *corpus);

#endif
