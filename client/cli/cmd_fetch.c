/*
 * larder fetch, unpack, export.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/archive.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/install.h"
#include "common/clock.h"
#include "packs/layout.h"

static enum ldr_status report_install(const struct ldr_args *args, struct ldr_view *view,
				      const struct ldr_install_outcome *outcome, double seconds,
				      struct ldr_error *err)
{
	struct ldr_disk_stat cache;
	uint64_t requests, bytes;
	char plain[LDR_BYTES_TEXT], wire[LDR_BYTES_TEXT], reused[LDR_BYTES_TEXT];

	ldr_view_traffic(view, &requests, &bytes);
	ldr_output_cache_trouble(view, &cache);
	if (outcome->trouble[0])
		fprintf(stderr, "larder: %s\n", outcome->trouble);
	if (ldr_args_has(args, LDR_OPT_JSON))
		return ldr_output_json(
			json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f}",
				  "cache", ldr_output_cache(view, &cache), "release",
				  ldr_output_release(ldr_view_release(view)), "files",
				  (json_int_t)outcome->totals.files, "bytes",
				  (json_int_t)outcome->totals.bytes, "bytes_fetched",
				  (json_int_t)bytes, "requests", (json_int_t)requests,
				  "bytes_reused", (json_int_t)outcome->bytes_reused,
				  "bytes_written", (json_int_t)outcome->bytes_written,
				  "files_written", (json_int_t)outcome->files_written,
				  "files_removed", (json_int_t)outcome->files_removed, "up_to_date",
				  outcome->up_to_date, "seconds", seconds),
			err);
	if (outcome->up_to_date)
		printf("%s: up to date, %" PRIu64 " files, %s\n", ldr_view_name(view),
		       outcome->totals.files, ldr_output_bytes(outcome->totals.bytes, plain));
	else
		printf("%s: %" PRIu64 " of %" PRIu64 " files written, %" PRIu64
		       " removed; fetched %s in %" PRIu64 " requests, reused %s; %.2f s\n",
		       ldr_view_name(view), outcome->files_written, outcome->totals.files,
		       outcome->files_removed, ldr_output_bytes(bytes, wire), requests,
		       ldr_output_bytes(outcome->bytes_reused, reused), seconds);
	return LDR_OK;
}

static enum ldr_status install(struct ldr_args *args, bool without_record, const char *what,
			       struct ldr_error *err)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t started = clock->now_ns(clock);
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_stage_progress counters = {0};
	struct ldr_progress bar = {
		.what = what, .done = &counters.bytes_done, .total = &counters.bytes_total};
	struct ldr_install_request request = {
		.size = sizeof(request),
		.folder = args->positional[1],
		.sync = ldr_args_has(args, LDR_OPT_NO_SYNC) ? LDR_SYNC_NONE
							    : LDR_SYNC_FILE_AND_FOLDER,
		.without_record = without_record,
		.workers = args->jobs,
		.progress = &counters,
	};
	struct ldr_install_outcome outcome;
	enum ldr_status status = ldr_args_open_view(args, 0, &view, err);

	if (status)
		return status;
	request.view = view;
	ldr_progress_start(&bar, ldr_args_has(args, LDR_OPT_QUIET));
	status = ldr_install(&request, &outcome, err);
	ldr_progress_stop(&bar);
	return status ? status
		      : report_install(args, view, &outcome,
				       ldr_clock_seconds_since(clock, started), err);
}

static enum ldr_status run_fetch(struct ldr_args *args, struct ldr_error *err)
{
	return install(args, false, "fetching", err);
}

static enum ldr_status run_unpack(struct ldr_args *args, struct ldr_error *err)
{
	return install(args, true, "unpacking", err);
}

const struct ldr_command ldr_command_fetch = {
	.name = "fetch",
	.arguments = "SRC DIR --trust KEY.pub",
	.help = "Installs a release as a folder, or updates the folder to it, fetching only what it\n"
		"has not. A run that was cut off goes on where it was. The record of it is DIR/.larder.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTION_BIT(JOBS) | LDR_OPTION_BIT(NO_SYNC),
	.least = 2,
	.most = 2,
	.run = run_fetch,
};

const struct ldr_command ldr_command_unpack = {
	.name = "unpack",
	.arguments = "SRC DIR",
	.help = "Extracts an archive or a release into a folder, without keeping a record of it.",
	.options = LDR_OPTIONS_NETWORK | LDR_OPTION_BIT(JOBS) | LDR_OPTION_BIT(NO_SYNC),
	.least = 2,
	.most = 2,
	.run = run_unpack,
};

/* ---- export ---- */

static enum ldr_status run_export(struct ldr_args *args, struct ldr_error *err)
{
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t started = clock->now_ns(clock);
	LDR_AUTO_VIEW struct ldr_view *view = NULL;
	struct ldr_archive_outcome outcome;
	char id[LDR_ID_HEX_CHARS + 1], size[LDR_BYTES_TEXT];
	enum ldr_status status = ldr_args_open_view(args, 0, &view, err);

	if (!status)
		status = ldr_archive_export(view, args->positional[1], &outcome, err);
	if (status)
		return status;
	ldr_id_to_hex(&outcome.id, id);
	if (ldr_args_has(args, LDR_OPT_JSON))
		return ldr_output_json(json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:f}", "release",
						 ldr_output_release(ldr_view_release(view)), "pack",
						 id, "files", (json_int_t)outcome.totals.files,
						 "bytes", (json_int_t)outcome.totals.bytes,
						 "blocks", (json_int_t)outcome.blocks, "pack_bytes",
						 (json_int_t)outcome.pack_bytes, "seconds",
						 ldr_clock_seconds_since(clock, started)),
				       err);
	printf("%s: %s, %" PRIu64 " files in %" PRIu64 " blocks, %s\n", args->positional[1],
	       ldr_view_name(view), outcome.totals.files, outcome.blocks,
	       ldr_output_bytes(outcome.pack_bytes, size));
	return LDR_OK;
}

const struct ldr_command ldr_command_export = {
	.name = "export",
	.arguments = "SRC OUT.pack",
	.help = "Writes a whole release into one pack, with its tree and its signed record, that can be\n"
		"read and installed without a network.",
	.options = LDR_OPTIONS_NETWORK,
	.least = 2,
	.most = 2,
	.run = run_export,
};
