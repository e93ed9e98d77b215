/*
 * The report: rows as they come on standard output, tables into files at the end.
 *
 * CSV: scenario,target,threads,ops_per_s,mib_per_s,p50_us,p99_us,vs_stdio; a figure that a scenario does
 * not have is "-". vs_stdio is the row's speed by that of base:stdio in the same scenario with as many
 * threads, "-" where that was not run. The spread has a file of its own.
 */
#ifndef LDR_BENCH_REPORT_H
#define LDR_BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/vfs_bench/options.h"

struct bench_row {
	const char *scenario; /* static, or the trace's */
	const char *target;   /* static */
	unsigned threads;
	unsigned iterations;
	double ops_per_s;
	double mib_per_s; /* 0: none */
	double p50_us;
	double p99_us;
	double least_ops_per_s;
	double most_ops_per_s;
	double vs_stdio; /* filled when it is added; 0: none */
};

struct bench_report {
	struct bench_row *row;
	size_t count;
	size_t capacity;
};

void bench_report_add(struct bench_report *report, const struct bench_row *row);
/* The rows from `from` on, aligned, on standard output. */
void bench_report_print(const struct bench_report *report, size_t from);
/* The files that the options name. False after bench_say. */
bool bench_report_write(const struct bench_report *report, const struct bench_options *options);
void bench_report_dispose(struct bench_report *report);

#endif
