/*
 * larder keygen, pack, publish.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/archive.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/publish.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/publisher.h"
#include "packs/layout.h"

/* ---- keygen ---- */

static enum ldr_status write_new(const char *path, const char *text, mode_t mode,
				 struct ldr_error *err)
{
	const struct ldr_publish_options options = {
		.sync = LDR_SYNC_FILE_AND_FOLDER,
		.condition = LDR_IF_MISSING,
		.mode = mode,
	};
	LDR_AUTO_ROOT struct ldr_root *root = NULL;
	const char *name;
	enum ldr_status status = ldr_root_open_above(path, &root, &name, err);

	if (!status)
		status = ldr_publish(root, name, text, strlen(text), &options, NULL, err);
	if (status == LDR_ECONFLICT)
		return ldr_fail(err, LDR_EEXISTS, "%s: exists already, and a key is never replaced",
				path);
	return status;
}

/* Both files or none: a secret half that stands alone could not be made whole by a second run. */
static enum ldr_status write_pair(const char *path, const char *pem, const char *public_path,
				  const char *public_pem, struct ldr_error *err)
{
	enum ldr_status status = write_new(path, pem, 0600, err);

	if (status)
		return status;
	status = write_new(public_path, public_pem, 0644, err);
	if (status)
		unlink(path);
	return status;
}

static enum ldr_status run_keygen(struct ldr_args *args, struct ldr_error *err)
{
	const char *path = args->positional[0];
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = NULL;
	LDR_AUTO_KEY struct ldr_key *key = NULL;
	LDR_AUTO_FREE char *public_path = NULL;
	char pem[LDR_KEY_PEM_MAX_BYTES], public_pem[LDR_KEY_PEM_MAX_BYTES];
	enum ldr_status status = ldr_key_generate(&key, err);

	if (!status)
		status = ldr_key_public(key, &public, err);
	if (!status)
		status = ldr_key_to_pem(key, pem, err);
	if (!status)
		status = ldr_public_key_to_pem(public, public_pem, err);
	if (!status && asprintf(&public_path, "%s.pub", path) < 0)
		status = ldr_fail(err, LDR_ENOMEM, "%s: out of memory", path);
	if (!status)
		status = write_pair(path, pem, public_path, public_pem, err);
	explicit_bzero(pem, sizeof(pem));
	if (status)
		return status;
	if (ldr_args_has(args, LDR_OPT_JSON))
		return ldr_output_json(json_pack("{s:o, s:o, s:s}", "key", ldr_output_text(path),
						 "public", ldr_output_text(public_path), "kid",
						 ldr_public_key_kid(public)),
				       err);
	printf("%s      the signing key: keep it secret\n%s  for those who fetch\n", path,
	       public_path);
	return LDR_OK;
}

const struct ldr_command ldr_command_keygen = {
	.name = "keygen",
	.arguments = "KEY",
	.help = "Makes a signing key: KEY (mode 0600) and KEY.pub. Existing files are not replaced.",
	.least = 1,
	.most = 1,
	.run = run_keygen,
};

/* ---- what pack and publish share ---- */

struct build_progress {
	struct ldr_progress bar;
	atomic_uint_least64_t done;
	atomic_uint_least64_t total;
};

static bool on_build_progress(void *context, const struct ldr_build_progress *progress)
{
	struct build_progress *state = context;

	atomic_store(&state->total, progress->bytes_total);
	atomic_store(&state->done, progress->bytes_read);
	return true;
}

static void start_bar(struct build_progress *state, const char *what, const struct ldr_args *args)
{
	state->bar = (struct ldr_progress){
		.what = what, .done = &state->done, .total = &state->total};
	ldr_progress_start(&state->bar, ldr_args_has(args, LDR_OPT_QUIET));
}

/* --compress: files that match none of the globs are stored as they are. */
struct globs {
	const struct ldr_args *args;
	struct ldr_codec_choice matching;
	struct ldr_codec_choice others;
};

static const struct ldr_codec_choice *choose(void *context, const char *path)
{
	const struct globs *globs = context;
	const char *name = strrchr(path, '/');

	for (size_t i = 0; i < globs->args->glob_count; i++) {
		const char *glob = globs->args->globs[i];

		/* A glob without a slash is for names, one with it for whole paths. */
		if (fnmatch(glob, strchr(glob, '/') || !name ? path : name + 1, 0) == 0)
			return &globs->matching;
	}
	return &globs->others;
}

/* ---- pack ---- */

static enum ldr_status report_pack(const struct ldr_args *args,
				   const struct ldr_archive_outcome *outcome, double seconds,
				   struct ldr_error *err)
{
	char id[LDR_ID_HEX_CHARS + 1], plain[LDR_BYTES_TEXT], packed[LDR_BYTES_TEXT];

	ldr_id_to_hex(&outcome->id, id);
	if (ldr_args_has(args, LDR_OPT_JSON))
		return ldr_output_json(
			json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:f}", "pack", id,
				  "files", (json_int_t)outcome->totals.files, "bytes",
				  (json_int_t)outcome->totals.bytes, "blocks",
				  (json_int_t)outcome->totals.blocks, "new_blocks",
				  (json_int_t)outcome->blocks, "pack_bytes",
				  (json_int_t)outcome->pack_bytes, "codecs",
				  ldr_output_codecs(&outcome->stats), "links_dropped",
				  (json_int_t)outcome->scanned.dropped_links, "seconds", seconds),
			err);
	printf("%s: %" PRIu64 " files, %s in %" PRIu64 " blocks, packed to %s in %.2f s\n",
	       args->positional[1], outcome->totals.files,
	       ldr_output_bytes(outcome->totals.bytes, plain), outcome->blocks,
	       ldr_output_bytes(outcome->pack_bytes, packed), seconds);
	return LDR_OK;
}

static enum ldr_status choose_protection(const struct ldr_args *args, struct ldr_protection *out,
					 struct ldr_error *err)
{
	bool xor = ldr_args_has(args, LDR_OPT_OBFUSCATE);

	if (xor&&args->has_title_key)
		return ldr_fail(err, LDR_EUSAGE, "--obfuscate and --encrypt-key: one of them");
	if (xor)
		out->flags = LDR_PACK_FLAG_XOR;
	if (args->has_title_key)
		*out = (struct ldr_protection){LDR_PACK_FLAG_ENCRYPTED, args->title_key};
	return LDR_OK;
}

static enum ldr_status run_pack(struct ldr_args *args, struct ldr_error *err)
{
	const struct ldr_clock *clock = ldr_clock_system();
	struct globs globs = {.args = args, .matching = args->codec};
	struct ldr_scan_options scan = {.size = sizeof(scan), .links = args->links};
	struct build_progress progress = {0};
	struct ldr_build_options build = {
		.size = sizeof(build),
		.codec = args->codec,
		.chunks = args->chunks,
		.workers = args->jobs,
		.align = args->align,
		.layout = (const char *const *)args->layout,
		.layout_count = args->layout_count,
		.progress = on_build_progress,
		.progress_context = &progress,
	};
	struct ldr_archive_request request = {
		.size = sizeof(request),
		.folder = args->positional[0],
		.out_path = args->positional[1],
		.scan = &scan,
		.build = &build,
	};
	LDR_AUTO_FREE struct ldr_scan_report *report = calloc(1, sizeof(*report));
	struct ldr_archive_outcome outcome;
	uint64_t started = clock->now_ns(clock);
	enum ldr_status status;

	if (!report)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	status = choose_protection(args, &request.protection, err);
	if (status)
		return status;
	if (!ldr_args_has(args, LDR_OPT_CODEC))
		build.codec.policy = globs.matching.policy = LDR_POLICY_LZ4;
	if (args->glob_count) {
		build.codec_for = choose;
		build.codec_context = &globs;
	}
	start_bar(&progress, "packing", args);
	request.report = report;
	status = ldr_archive_folder(&request, &outcome, err);
	ldr_progress_stop(&progress.bar);
	ldr_output_report(report);
	return status ? status
		      : report_pack(args, &outcome, ldr_clock_seconds_since(clock, started), err);
}

const struct ldr_command ldr_command_pack = {
	.name = "pack",
	.arguments = "DIR OUT.pack",
	.help = "Packs a folder into one local archive that larder and a game can read.",
	.options = LDR_OPTION_BIT(CODEC) | LDR_OPTION_BIT(LEVEL) | LDR_OPTION_BIT(BLOCK_SIZE) |
		   LDR_OPTION_BIT(OBFUSCATE) | LDR_OPTION_BIT(ENCRYPT_KEY) |
		   LDR_OPTION_BIT(COMPRESS) | LDR_OPTION_BIT(ALIGN) | LDR_OPTION_BIT(LAYOUT) |
		   LDR_OPTION_BIT(LINKS) | LDR_OPTION_BIT(JOBS),
	.least = 2,
	.most = 2,
	.run = run_pack,
};

/* ---- publish ---- */

static enum ldr_status require(const struct ldr_args *args, enum ldr_option option,
			       const char *usage, struct ldr_error *err)
{
	if (ldr_args_has(args, option))
		return LDR_OK;
	return ldr_fail(err, LDR_EUSAGE, "%s is missing", usage);
}

static enum ldr_status load_key(const char *path, struct ldr_key **out_key, struct ldr_error *err)
{
	uint8_t *pem = NULL;
	size_t length = 0;
	enum ldr_status status = ldr_args_read_file(path, LDR_KEY_PEM_MAX_BYTES, &pem, &length,
						    err);

	if (!status)
		status = ldr_key_parse((char *)pem, length, path, out_key, err);
	if (pem)
		explicit_bzero(pem, length);
	free(pem);
	return ldr_error_prefix(err, status, "--key");
}

static json_t *publish_json(const struct ldr_args *args, const struct ldr_publish_outcome *outcome,
			    double seconds)
{
	const struct ldr_build_stats *stats = &outcome->stats;
	char digest[LDR_ID_HEX_CHARS + 1];
	json_t *release;

	ldr_id_to_hex(&outcome->digest, digest);
	release = json_pack("{s:s, s:I, s:s, s:b}", "channel", args->value[LDR_OPT_CHANNEL],
			    "sequence", (json_int_t)outcome->sequence, "digest", digest, "dry_run",
			    ldr_args_has(args, LDR_OPT_DRY_RUN));
	return json_pack(
		"{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:i, s:f}", "release",
		release, "files", (json_int_t)outcome->totals.files, "bytes",
		(json_int_t)outcome->totals.bytes, "blocks", (json_int_t)outcome->totals.blocks,
		"new_blocks", (json_int_t)stats->new_blocks, "new_bytes_stored",
		(json_int_t)stats->new_stored_bytes, "delta_bytes_stored", (json_int_t)0, "packs",
		(json_int_t)outcome->packs, "packs_held", (json_int_t)outcome->packs_held,
		"pack_bytes", (json_int_t)outcome->pack_bytes, "codecs", ldr_output_codecs(stats),
		"links_dropped", (json_int_t)outcome->scanned.dropped_links, "attempts",
		(int)outcome->attempts, "seconds", seconds);
}

static enum ldr_status report_publish(const struct ldr_args *args,
				      const struct ldr_publish_outcome *outcome, double seconds,
				      struct ldr_error *err)
{
	char plain[LDR_BYTES_TEXT], stored[LDR_BYTES_TEXT];

	if (ldr_args_has(args, LDR_OPT_JSON))
		return ldr_output_json(publish_json(args, outcome, seconds), err);
	printf("%s%s@%" PRIu64 ": %" PRIu64 " files, %s; new: %" PRIu64
	       " blocks, %s in %u packs; %.2f s\n",
	       ldr_args_has(args, LDR_OPT_DRY_RUN) ? "would be " : "", args->value[LDR_OPT_CHANNEL],
	       outcome->sequence, outcome->totals.files,
	       ldr_output_bytes(outcome->totals.bytes, plain), outcome->stats.new_blocks,
	       ldr_output_bytes(outcome->stats.new_stored_bytes, stored), outcome->packs, seconds);
	if (outcome->scanned.dropped_links)
		printf("%" PRIu64 " symlinks that lead out of the folder were left out\n",
		       outcome->scanned.dropped_links);
	return LDR_OK;
}

static enum ldr_status publish(struct ldr_args *args, const struct ldr_location *store,
			       struct ldr_key *key, struct ldr_scan_report *report,
			       struct ldr_error *err)
{
	const struct ldr_view_options network = ldr_args_view_options(args);
	const struct ldr_clock *clock = ldr_clock_system();
	uint64_t started = clock->now_ns(clock);
	struct build_progress progress = {0};
	const struct ldr_publish_request request = {
		.size = sizeof(request),
		.folder = args->positional[0],
		.store = store,
		.channel = args->value[LDR_OPT_CHANNEL],
		.key = key,
		.keys = args->keys,
		.key_count = args->key_count,
		.cache_path = args->cache_path,
		.transport = network.transport,
		.codec = args->codec,
		.codec_given = ldr_args_has(args, LDR_OPT_CODEC),
		.chunks = args->chunks,
		.workers = args->jobs,
		.links = args->links,
		.like = args->value[LDR_OPT_LIKE],
		.note = args->value[LDR_OPT_NOTE],
		.lifetime_s = args->lifetime_s,
		.layout = (const char *const *)args->layout,
		.layout_count = args->layout_count,
		.dry_run = ldr_args_has(args, LDR_OPT_DRY_RUN),
		.rebase = ldr_args_has(args, LDR_OPT_REBASE),
		.report = report,
		.progress = on_build_progress,
		.progress_context = &progress,
	};
	struct ldr_publish_outcome outcome;
	enum ldr_status status;

	start_bar(&progress, "publishing", args);
	status = ldr_publish_folder(&request, &outcome, err);
	ldr_progress_stop(&progress.bar);
	ldr_output_report(report);
	return status ? status
		      : report_publish(args, &outcome, ldr_clock_seconds_since(clock, started),
				       err);
}

static enum ldr_status check_publish(const struct ldr_args *args, struct ldr_error *err)
{
	const char *channel = args->value[LDR_OPT_CHANNEL];
	const char *like = args->value[LDR_OPT_LIKE];
	enum ldr_status status = require(args, LDR_OPT_TO, "--to STORE", err);

	if (!status)
		status = require(args, LDR_OPT_CHANNEL, "--channel NAME", err);
	if (!status)
		status = require(args, LDR_OPT_KEY, "--key KEY", err);
	if (!status && !ldr_channel_name_ok(channel))
		status = ldr_fail(err, LDR_EUSAGE,
				  "--channel \"%s\": wanted 1 to %d of a-z 0-9 . _ -", channel,
				  LDR_CHANNEL_MAX_CHARS);
	if (!status && like && !ldr_channel_name_ok(like))
		status = ldr_fail(err, LDR_EUSAGE, "--like \"%s\": is no channel's name", like);
	return status;
}

static enum ldr_status run_publish(struct ldr_args *args, struct ldr_error *err)
{
	LDR_AUTO_FREE struct ldr_scan_report *report = calloc(1, sizeof(*report));
	LDR_AUTO_LOCATION struct ldr_location store = {0};
	LDR_AUTO_KEY struct ldr_key *key = NULL;
	enum ldr_status status = check_publish(args, err);

	if (!report)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	if (!status)
		status = ldr_location_parse_store(args->value[LDR_OPT_TO], &store, err);
	if (!status && store.kind == LDR_LOCATION_HTTP && ldr_args_has(args, LDR_OPT_OFFLINE))
		status = ldr_fail(err, LDR_EOFFLINE, "%s: publishing needs the server", store.text);
	if (!status)
		status = load_key(args->value[LDR_OPT_KEY], &key, err);
	return status ? status : publish(args, &store, key, report, err);
}

const struct ldr_command ldr_command_publish = {
	.name = "publish",
	.arguments = "DIR --to STORE --channel NAME --key KEY",
	.help = "Publishes a folder as the next release of a channel. Only blocks that the channel's\n"
		"current release does not have are stored. A failed run is repeated to go on.",
	.options = (LDR_OPTIONS_NETWORK & ~LDR_OPTION_BIT(KEY_FILE)) | LDR_OPTION_BIT(TO) |
		   LDR_OPTION_BIT(CHANNEL) | LDR_OPTION_BIT(KEY) | LDR_OPTION_BIT(CODEC) |
		   LDR_OPTION_BIT(LEVEL) | LDR_OPTION_BIT(BLOCK_SIZE) | LDR_OPTION_BIT(LAYOUT) |
		   LDR_OPTION_BIT(LINKS) | LDR_OPTION_BIT(NOTE) | LDR_OPTION_BIT(LIKE) |
		   LDR_OPTION_BIT(EXPIRES) | LDR_OPTION_BIT(DRY_RUN) | LDR_OPTION_BIT(REBASE) |
		   LDR_OPTION_BIT(JOBS),
	.least = 1,
	.most = 1,
	.run = run_publish,
};
