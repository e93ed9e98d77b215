/*
 * Closure: is a release whole? See closure.h.
 *
 * The walk: top block, tree, map (metadata, small and few); then pack after pack, each opened once, with
 * the block references that lie in it, which a counting sort over the map has put together. A fault does not
 * end the walk, so that the report names all that is missing; what cannot be known without the missing part
 * is left out.
 */
#include "packs/closure.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/path.h"
#include "packs/codec.h"

struct check {
	const struct ldr_release *release;
	const struct ldr_closure_packs *packs;
	struct ldr_closure_report *report; /* may be NULL */
	struct ldr_error *err;             /* takes the first fault; may be NULL */
	enum ldr_status status;            /* of the first fault */
	struct ldr_coder *coder;
	struct ldr_hasher *hasher;
	/* The pack of the last metadata block: they lie side by side. */
	struct ldr_pack *last;
	uint32_t last_number;

	struct ldr_tree *tree;
	struct ldr_buffer map;
};

static void dispose(struct check *check)
{
	ldr_pack_unref(check->last);
	ldr_tree_free(check->tree);
	ldr_buffer_dispose(&check->map);
	ldr_coder_free(check->coder);
	ldr_hasher_free(check->hasher);
}

/* ---- faults ---- */

static void note(struct check *check, const struct ldr_error *fault)
{
	struct ldr_closure_report *report = check->report;

	if (!check->status) {
		check->status = fault->status;
		if (check->err)
			*check->err = *fault;
	}
	if (!report)
		return;
	report->count++;
	if (report->row_count == LDR_CLOSURE_REPORT_ROWS)
		return;
	snprintf(report->rows[report->row_count++], LDR_CLOSURE_ROW_CHARS, "%.*s",
		 LDR_CLOSURE_ROW_CHARS - 1, fault->text);
}

/* Rows are all taken and the first fault is known: nobody reads another text. */
static bool only_counting(struct check *check)
{
	if (!check->status || (check->report && check->report->row_count < LDR_CLOSURE_REPORT_ROWS))
		return false;
	if (check->report)
		check->report->count++;
	return true;
}

/* The path of the file that this block reference belongs to, fit for a message. */
static void affected_path(const struct ldr_tree *tree, uint64_t ordinal, char out[LDR_QUOTE_BYTES])
{
	char path[LDR_PATH_MAX_BYTES + 1];
	struct ldr_tree_node node;
	uint32_t count = ldr_tree_node_count(tree);

	for (uint32_t i = 0; i < count; i++) {
		ldr_tree_node(tree, i, &node);
		if (node.kind != LDR_KIND_FILE || ordinal < node.first_block ||
		    ordinal - node.first_block >= node.block_count)
			continue;
		ldr_path_quote(path, ldr_tree_path(tree, i, path), out);
		return;
	}
	snprintf(out, LDR_QUOTE_BYTES, "?");
}

static void block_fault(struct check *check, uint64_t ordinal, enum ldr_status status,
			const char *fmt, ...) LDR_PRINTF(4, 5);

static void block_fault(struct check *check, uint64_t ordinal, enum ldr_status status,
			const char *fmt, ...)
{
	char text[LDR_ERROR_TEXT_BYTES / 2];
	char path[LDR_QUOTE_BYTES];
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_error fault = {0};
	va_list arguments;

	if (only_counting(check))
		return;
	va_start(arguments, fmt);
	vsnprintf(text, sizeof(text), fmt, arguments);
	va_end(arguments);
	affected_path(check->tree, ordinal, path);
	ldr_id_to_hex(&ldr_tree_block(check->tree, ordinal)->id, hex);
	ldr_fail(&fault, status, "block %s of \"%s\": %s", hex, path, text);
	note(check, &fault);
}

/* ---- packs ---- */

static enum ldr_status open_listed(const struct check *check, const struct ldr_release_pack *listed,
				   struct ldr_pack **out_pack, struct ldr_error *err)
{
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	char hex[LDR_ID_HEX_CHARS + 1];
	enum ldr_status status = check->packs->open(check->packs->context, listed, &pack, err);

	if (status)
		return status;
	ldr_id_to_hex(&listed->id, hex);
	if (!ldr_id_equal(ldr_pack_id(pack), &listed->id)) {
		char other[LDR_ID_HEX_CHARS + 1];

		ldr_id_to_hex(ldr_pack_id(pack), other);
		return ldr_fail(err, LDR_ECORRUPT, "pack %s: its id is %s", hex, other);
	}
	if (ldr_pack_size(pack) != listed->size_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"pack %s: %" PRIu64 " bytes, the release says %" PRIu64, hex,
				ldr_pack_size(pack), listed->size_bytes);
	*out_pack = LDR_STEAL(pack);
	return LDR_OK;
}

/* What differs between the release's word and the pack's; NULL when nothing does. */
static const char *difference(const struct ldr_pack_entry *entry, const struct ldr_place *place,
			      uint32_t plain_bytes, uint64_t *out_pack, uint64_t *out_release)
{
	const struct {
		const char *what;
		uint64_t in_pack;
		uint64_t in_release;
	} rows[] = {
		{"offset", entry->offset, place->offset},
		{"stored length", entry->stored_bytes, place->stored_bytes},
		{"plain length", entry->plain_bytes, plain_bytes},
		{"codec", entry->codec, place->codec},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].in_pack == rows[i].in_release)
			continue;
		*out_pack = rows[i].in_pack;
		*out_release = rows[i].in_release;
		return rows[i].what;
	}
	return NULL;
}

/* ---- top, tree and map ---- */

static enum ldr_status use_pack(struct check *check, uint32_t number, struct ldr_error *err)
{
	const struct ldr_release_pack *listed;
	struct ldr_pack *pack = NULL;
	enum ldr_status status;

	if (check->last && check->last_number == number)
		return LDR_OK;
	listed = ldr_release_pack(check->release, number);
	if (!listed)
		return ldr_fail(err, LDR_ECORRUPT, "pack number %u is not listed", number);
	status = open_listed(check, listed, &pack, err);
	if (status)
		return status;
	ldr_pack_unref(check->last);
	check->last = pack;
	check->last_number = number;
	return LDR_OK;
}

/* Appends the block's plain bytes. */
static enum ldr_status read_placed(struct check *check, const struct ldr_placed_block *placed,
				   struct ldr_buffer *out, struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_pack_entry entry;
	const char *what;
	uint64_t in_pack;
	uint64_t in_release;
	uint8_t *plain;
	enum ldr_status status = use_pack(check, placed->place.pack, err);

	if (status)
		return status;
	ldr_id_to_hex(&placed->block.id, hex);
	if (!ldr_pack_find(check->last, &placed->block.id, &entry))
		return ldr_fail(err, LDR_ECORRUPT, "block %s: not in pack %s", hex,
				ldr_pack_name(check->last));
	what = difference(&entry, &placed->place, placed->block.plain_bytes, &in_pack, &in_release);
	if (what)
		return ldr_fail(err, LDR_ECORRUPT,
				"block %s: %s %" PRIu64 " in pack %s, the release says %" PRIu64,
				hex, what, in_pack, ldr_pack_name(check->last), in_release);
	plain = ldr_buffer_extend(out, entry.plain_bytes);
	if (!plain)
		return ldr_fail(err, LDR_ENOMEM, "block %s: no memory", hex);
	return ldr_pack_read(check->last, &entry, check->coder, check->hasher, plain, err);
}

static enum ldr_status read_all(struct check *check, const struct ldr_placed_block *blocks,
				uint32_t count, uint64_t wanted_bytes, struct ldr_buffer *out,
				struct ldr_error *err)
{
	uint64_t total = 0;

	/* Before anything is read or allocated. */
	for (uint32_t i = 0; i < count; i++)
		total += blocks[i].block.plain_bytes;
	if (total != wanted_bytes)
		return ldr_fail(err, LDR_ECORRUPT,
				"blocks of %" PRIu64 " bytes, the release says %" PRIu64, total,
				wanted_bytes);
	ldr_buffer_init(out, (size_t)total);
	for (uint32_t i = 0; i < count; i++) {
		enum ldr_status status = read_placed(check, &blocks[i], out, err);

		if (status)
			return status;
	}
	return LDR_OK;
}

static enum ldr_status read_tree(struct check *check, const struct ldr_top *top,
				 struct ldr_error *err)
{
	const struct ldr_release *release = check->release;
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0};
	char got[LDR_ID_HEX_CHARS + 1];
	char wanted[LDR_ID_HEX_CHARS + 1];
	struct ldr_id digest;
	enum ldr_status status = read_all(check, top->tree, top->tree_count, release->tree_bytes,
					  &bytes, err);

	if (status)
		return status;
	ldr_digest(check->hasher, bytes.data, bytes.length, &digest);
	if (!ldr_id_equal(&digest, &release->tree_digest)) {
		ldr_id_to_hex(&digest, got);
		ldr_id_to_hex(&release->tree_digest, wanted);
		return ldr_fail(err, LDR_ECORRUPT, "digest %s, the release says %s", got, wanted);
	}
	return ldr_tree_parse(bytes.data, bytes.length, "tree", NULL, &release->totals,
			      &check->tree, err);
}

static enum ldr_status read_map(struct check *check, const struct ldr_top *top,
				struct ldr_error *err)
{
	const struct ldr_release *release = check->release;

	if (release->map_bytes != release->totals.blocks * LDR_MAP_ENTRY_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "%" PRIu64 " bytes for %" PRIu64 " blocks",
				release->map_bytes, release->totals.blocks);
	return read_all(check, top->map, top->map_count, release->map_bytes, &check->map, err);
}

static enum ldr_status read_metadata(struct check *check, struct ldr_error *err)
{
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0};
	struct ldr_top top = {0};
	enum ldr_status status;

	ldr_buffer_init(&bytes, LDR_BLOCK_MAX_BYTES);
	status = read_placed(check, &check->release->top, &bytes, err);
	if (!status)
		status = ldr_top_parse(bytes.data, bytes.length, &top, err);
	if (status)
		return ldr_error_prefix(err, status, "top block");
	status = read_tree(check, &top, err);
	if (status) {
		ldr_error_prefix(err, status, "tree");
	} else {
		status = read_map(check, &top, err);
		if (status)
			ldr_error_prefix(err, status, "map");
	}
	ldr_top_dispose(&top);
	return status;
}

/* ---- block references, pack by pack ---- */

/* Ordinals, those of one pack together: starts[i] to starts[i + 1] are those of the i-th listed pack. */
struct grouping {
	uint32_t *ordinals;
	uint64_t *starts;
};

static enum ldr_status place_of(const struct check *check, uint64_t ordinal, struct ldr_place *out,
				struct ldr_error *err)
{
	return ldr_map_get(check->map.data, check->map.length, 0, ordinal, out, err);
}

/* Index of the listed pack; false, with a fault noted when asked to, when the place is none. */
static bool pack_index(struct check *check, uint64_t ordinal, bool noting, uint32_t *out_index)
{
	const struct ldr_release *release = check->release;
	struct ldr_error fault = {0};
	struct ldr_place place;

	if (place_of(check, ordinal, &place, &fault) == LDR_OK &&
	    ldr_release_check_place(release, &place, &fault) == LDR_OK) {
		*out_index = (uint32_t)(ldr_release_pack(release, place.pack) - release->packs);
		return true;
	}
	if (noting)
		block_fault(check, ordinal, fault.status, "%s", fault.text);
	return false;
}

static void group(struct check *check, struct grouping *grouping)
{
	uint64_t blocks = check->release->totals.blocks;
	uint32_t count = check->release->pack_count;
	uint32_t index;

	for (uint64_t i = 0; i < blocks; i++)
		if (pack_index(check, i, true, &index))
			grouping->starts[index + 2]++;
	for (uint32_t i = 2; i < count + 2; i++)
		grouping->starts[i] += grouping->starts[i - 1];
	/* starts[i + 1] is where the next ordinal of pack i goes, and in the end where pack i + 1 begins. */
	for (uint64_t i = 0; i < blocks; i++)
		if (pack_index(check, i, false, &index))
			grouping->ordinals[grouping->starts[index + 1]++] = (uint32_t)i;
}

static void check_block(struct check *check, const struct ldr_pack *pack, uint64_t ordinal)
{
	const struct ldr_block_ref *block = ldr_tree_block(check->tree, ordinal);
	struct ldr_pack_entry entry;
	struct ldr_place place = {0};
	uint64_t in_pack;
	uint64_t in_release;
	const char *what;

	if (place_of(check, ordinal, &place, NULL) != LDR_OK)
		return; /* noted when it was grouped */
	if (!ldr_pack_find(pack, &block->id, &entry)) {
		block_fault(check, ordinal, LDR_ECORRUPT, "not in pack %s", ldr_pack_name(pack));
		return;
	}
	what = difference(&entry, &place, block->plain_bytes, &in_pack, &in_release);
	if (what)
		block_fault(check, ordinal, LDR_ECORRUPT,
			    "%s %" PRIu64 " in pack %s, the map says %" PRIu64, what, in_pack,
			    ldr_pack_name(pack), in_release);
}

/* grouping is NULL when there is no map to go by: then packs are only opened. */
static void check_pack(struct check *check, uint32_t index, const struct grouping *grouping)
{
	const struct ldr_release_pack *listed = &check->release->packs[index];
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_error fault = {0};
	enum ldr_status status = open_listed(check, listed, &pack, &fault);

	if (status)
		note(check, &fault);
	if (!grouping)
		return;
	ldr_id_to_hex(&listed->id, hex);
	for (uint64_t i = grouping->starts[index]; i < grouping->starts[index + 1]; i++) {
		if (status)
			block_fault(check, grouping->ordinals[i], status, "in pack %s", hex);
		else
			check_block(check, pack, grouping->ordinals[i]);
	}
}

static enum ldr_status check_packs(struct check *check, bool with_map, struct ldr_error *err)
{
	uint32_t count = check->release->pack_count;
	uint64_t blocks = with_map ? check->release->totals.blocks : 0;
	struct grouping grouping = {
		.ordinals = calloc(blocks + 1, sizeof(*grouping.ordinals)),
		.starts = calloc((size_t)count + 2, sizeof(*grouping.starts)),
	};
	LDR_AUTO_FREE uint32_t *ordinals = grouping.ordinals;
	LDR_AUTO_FREE uint64_t *starts = grouping.starts;

	if (!ordinals || !starts)
		return ldr_fail(err, LDR_ENOMEM, "closure: no memory for %" PRIu64 " blocks",
				blocks);
	if (with_map)
		group(check, &grouping);
	for (uint32_t i = 0; i < count; i++)
		check_pack(check, i, with_map ? &grouping : NULL);
	return LDR_OK;
}

enum ldr_status ldr_closure_check(const struct ldr_release *release,
				  const struct ldr_closure_packs *packs,
				  struct ldr_closure_report *report, struct ldr_error *err)
{
	__attribute__((cleanup(dispose))) struct check check = {
		.release = release,
		.packs = packs,
		.report = report,
		.err = err,
		.coder = ldr_coder_new(),
		.hasher = ldr_hasher_new(),
	};
	struct ldr_error fault = {0};
	enum ldr_status status;

	if (report)
		*report = (struct ldr_closure_report){0};
	if (!check.coder || !check.hasher)
		return ldr_fail(err, LDR_ENOMEM, "closure: no memory");
	status = read_metadata(&check, &fault);
	if (status)
		note(&check, &fault);
	status = check_packs(&check, status == LDR_OK, check.status ? NULL : err);
	return check.status ? check.status : status;
}
