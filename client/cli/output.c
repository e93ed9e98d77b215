/*
 * What the commands print; see output.h.
 */
#include "client/cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/bytes.h"

enum ldr_status ldr_output_flush(struct ldr_error *err)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return LDR_OK;
	return ldr_fail_errno(err, errno ? errno : EIO, "standard output");
}

enum ldr_status ldr_output_json(json_t *object, struct ldr_error *err)
{
	int code;

	if (!object)
		return ldr_fail(err, LDR_ENOMEM, "output: out of memory");
	code = json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	if (code || putchar('\n') == EOF)
		return ldr_fail_errno(err, errno ? errno : EIO, "standard output");
	return ldr_output_flush(err);
}

json_t *ldr_output_text(const char *text)
{
	json_t *string = json_string(text);
	LDR_AUTO_FREE char *copy = string ? NULL : strdup(text);

	if (!copy)
		return string;
	for (char *at = copy; *at; at++)
		if ((unsigned char)*at >= 0x80)
			*at = '?';
	return json_string(copy);
}

const char *ldr_output_bytes(uint64_t bytes, char text[LDR_BYTES_TEXT])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	double value = (double)bytes;
	int unit = 0;

	for (; value >= 999.5; unit++)
		value /= 1000;
	snprintf(text, LDR_BYTES_TEXT, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value,
		 units[unit]);
	return text;
}

const char *ldr_output_mode(enum ldr_kind kind, uint32_t mode, char text[LDR_MODE_TEXT])
{
	static const char letters[] = "rwxrwxrwx";

	text[0] = kind == LDR_KIND_FOLDER ? 'd' : kind == LDR_KIND_SYMLINK ? 'l' : '-';
	for (int i = 0; i < 9; i++)
		text[1 + i] = mode >> (8 - i) & 1 ? letters[i] : '-';
	text[LDR_MODE_TEXT - 1] = '\0';
	return text;
}

json_t *ldr_output_codecs(const struct ldr_build_stats *stats)
{
	json_t *codecs = json_object();

	for (int i = 0; i < LDR_CODEC_COUNT; i++)
		json_object_set_new(
			codecs, ldr_codec_name((enum ldr_codec)i),
			json_pack("{s:I, s:I, s:I}", "blocks", (json_int_t)stats->codec_blocks[i],
				  "plain_bytes", (json_int_t)stats->codec_plain_bytes[i],
				  "stored_bytes", (json_int_t)stats->codec_stored_bytes[i]));
	return codecs;
}

json_t *ldr_output_release(const struct ldr_release *release)
{
	char digest[LDR_ID_HEX_CHARS + 1];

	if (!release)
		return json_null();
	ldr_id_to_hex(&release->digest, digest);
	return json_pack("{s:s, s:I, s:s}", "channel", release->channel, "sequence",
			 (json_int_t)release->sequence, "digest", digest);
}

void ldr_output_cache_trouble(struct ldr_view *view, struct ldr_disk_stat *out_stat)
{
	const char *folder;

	if (!ldr_view_cache_stat(view, out_stat))
		return;
	folder = ldr_root_path(ldr_disk_root(ldr_view_disk(view)));
	if (out_stat->puts_dropped)
		fprintf(stderr, "larder: cache %s: %" PRIu64 " blocks were not kept%s%s\n", folder,
			out_stat->puts_dropped, out_stat->trouble[0] ? ": " : "",
			out_stat->trouble);
	if (out_stat->bad_blocks || out_stat->damaged_packs)
		fprintf(stderr,
			"larder: cache %s: %" PRIu64 " bad blocks and %" PRIu64
			" damaged packs were dropped\n",
			folder, out_stat->bad_blocks, out_stat->damaged_packs);
}

json_t *ldr_output_cache(struct ldr_view *view, const struct ldr_disk_stat *stat)
{
	if (!ldr_view_disk(view))
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "blocks_kept", (json_int_t)stat->puts,
			 "blocks_not_kept", (json_int_t)stat->puts_dropped, "bad_blocks",
			 (json_int_t)stat->bad_blocks, "damaged_packs",
			 (json_int_t)stat->damaged_packs, "temporaries_removed",
			 (json_int_t)stat->swept, "trouble", ldr_output_text(stat->trouble));
}

void ldr_output_report(const struct ldr_scan_report *report)
{
	for (unsigned i = 0; i < report->row_count; i++)
		fprintf(stderr, "  %s\n", report->rows[i]);
	if (report->count > report->row_count)
		fprintf(stderr, "  and %" PRIu64 " more\n", report->count - report->row_count);
}
