/*
 * report.c   tables.
 */
#include "bench/vfs_bench/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/vfs_bench/target.h"

#define FIGURE_CHARS 32

static double reference_of(const struct bench_report *report, const struct bench_row *row)
{
	for (size_t i = report->count; i-- > 0;) {
		const struct bench_row *other = &report->row[i];

		if (other->threads == row->threads && !strcmp(other->scenario, row->scenario) &&
		    !strcmp(other->target, "base:stdio"))
			return other->ops_per_s;
	}
	return 0;
}

void bench_report_add(struct bench_report *report, const struct bench_row *row)
{
	struct bench_row *added;
	double reference;

	if (report->count == report->capacity) {
		size_t capacity = report->capacity ? report->capacity * 2 : 64;
		struct bench_row *grown = realloc(report->row, capacity * sizeof(*grown));

		if (!grown)
			abort();
		report->row = grown;
		report->capacity = capacity;
	}
	added = &report->row[report->count++];
	*added = *row;
	reference = reference_of(report, added);
	added->vs_stdio = reference > 0 ? added->ops_per_s / reference : 0;
}

static const char *figure(double value, int decimals, char out[FIGURE_CHARS])
{
	if (value > 0)
		snprintf(out, FIGURE_CHARS, "%.*f", decimals, value);
	else
		snprintf(out, FIGURE_CHARS, "-");
	return out;
}

void bench_report_print(const struct bench_report *report, size_t from)
{
	char mib[FIGURE_CHARS], ratio[FIGURE_CHARS];

	for (size_t i = from; i < report->count; i++) {
		const struct bench_row *row = &report->row[i];
		double middle = row->ops_per_s > 0 ? row->ops_per_s : 1;

		printf("%-16s %-26s %3u %14.1f ops/s %10s MiB/s  p50 %10.3f  p99 %10.3f us  %8s x"
		       "  (%+.0f %+.0f %%)\n",
		       row->scenario, row->target, row->threads, row->ops_per_s,
		       figure(row->mib_per_s, 1, mib), row->p50_us, row->p99_us,
		       figure(row->vs_stdio, 3, ratio),
		       100 * (row->least_ops_per_s - middle) / middle,
		       100 * (row->most_ops_per_s - middle) / middle);
	}
	fflush(stdout);
}

static void write_csv(FILE *file, const struct bench_report *report)
{
	char mib[FIGURE_CHARS], ratio[FIGURE_CHARS];

	fputs("scenario,target,threads,ops_per_s,mib_per_s,p50_us,p99_us,vs_stdio\n", file);
	for (size_t i = 0; i < report->count; i++) {
		const struct bench_row *row = &report->row[i];

		fprintf(file, "%s,%s,%u,%.1f,%s,%.3f,%.3f,%s\n", row->scenario, row->target,
			row->threads, row->ops_per_s, figure(row->mib_per_s, 2, mib), row->p50_us,
			row->p99_us, figure(row->vs_stdio, 4, ratio));
	}
}

static void write_md(FILE *file, const struct bench_report *report)
{
	char mib[FIGURE_CHARS], ratio[FIGURE_CHARS];

	fputs("| scenario | target | threads | ops/s | MiB/s | p50 µs | p99 µs | vs stdio |\n"
	      "|---|---|--:|--:|--:|--:|--:|--:|\n",
	      file);
	for (size_t i = 0; i < report->count; i++) {
		const struct bench_row *row = &report->row[i];

		fprintf(file, "| %s | %s | %u | %.0f | %s | %.3f | %.3f | %s |\n", row->scenario,
			row->target, row->threads, row->ops_per_s, figure(row->mib_per_s, 1, mib),
			row->p50_us, row->p99_us, figure(row->vs_stdio, 2, ratio));
	}
}

static void write_spread(FILE *file, const struct bench_report *report)
{
	fputs("scenario,target,threads,iterations,least_ops_per_s,most_ops_per_s\n", file);
	for (size_t i = 0; i < report->count; i++) {
		const struct bench_row *row = &report->row[i];

		fprintf(file, "%s,%s,%u,%u,%.1f,%.1f\n", row->scenario, row->target, row->threads,
			row->iterations, row->least_ops_per_s, row->most_ops_per_s);
	}
}

static bool write_one(const char *path, const struct bench_report *report,
		      void (*write)(FILE *file, const struct bench_report *report))
{
	FILE *file;
	bool good;

	if (!path)
		return true;
	file = fopen(path, "we");
	if (!file) {
		bench_say("%s: %s", path, strerror(errno));
		return false;
	}
	write(file, report);
	good = !ferror(file);
	if (fclose(file) || !good) {
		bench_say("%s: cannot be written", path);
		return false;
	}
	return true;
}

bool bench_report_write(const struct bench_report *report, const struct bench_options *options)
{
	return write_one(options->csv, report, write_csv) &&
	       write_one(options->md, report, write_md) &&
	       write_one(options->spread, report, write_spread);
}

void bench_report_dispose(struct bench_report *report)
{
	free(report->row);
	*report = (struct bench_report){0};
}
