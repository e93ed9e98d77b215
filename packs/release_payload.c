/*
 * The payload of a release: its JSON, and the rules over its fields.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "common/json.h"
#include "packs/codec.h"
#include "packs/pack.h"
#include "packs/release_priv.h"

#define TREE_MIN_BYTES 18u /* header, end of the root */
#define TREE_MAX_BYTES (UINT64_C(1) << 30)
#define NODES_MAX (UINT64_C(16) << 20)
#define BLOCKS_MAX (UINT64_C(64) << 20)
#define TOTAL_MAX_BYTES (UINT64_C(512) << 30)
#define PACKS_MAX 65536u
#define PACK_MIN_BYTES (LDR_PACK_HEADER_BYTES + LDR_PACK_TABLE_HEAD_BYTES + LDR_PACK_TRAILER_BYTES)
#define PACK_MAX_BYTES ((UINT64_C(1) << 48) - 1)
#define DELTAS_MAX 64u
#define TIME_MAX_S INT64_C(253402300799) /* the end of the year 9999 */

/* ---- rules over the fields ---------------------------------------------------------------------- */

struct bound {
	const char *what;
	uint64_t value, min, max;
};

static enum ldr_status check_bounds(const struct bound *bounds, size_t count,
				    enum ldr_status status, struct ldr_error *err)
{
	for (size_t i = 0; i < count; i++)
		if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max)
			return ldr_fail(
				err, status, "%s is %" PRIu64 ", allowed %" PRIu64 " to %" PRIu64,
				bounds[i].what, bounds[i].value, bounds[i].min, bounds[i].max);
	return LDR_OK;
}

static enum ldr_status check_numbers(const struct ldr_release *release, enum ldr_status status,
				     struct ldr_error *err)
{
	const struct ldr_tree_totals *totals = &release->totals;
	uint64_t created = (uint64_t)release->created_s;
	/* Each block has a byte at least, each file's last block may be short. */
	const struct bound bounds[] = {
		{"sequence", release->sequence, 1, LDR_JSON_INTEGER_MAX},
		{"created", created, 0, (uint64_t)TIME_MAX_S},
		{"expires", (uint64_t)release->expires_s, release->expires_s ? created + 1 : 0,
		 (uint64_t)TIME_MAX_S},
		{"previous.sequence", release->previous_sequence, 0, release->sequence - 1},
		{"totals.files", totals->files, 0, NODES_MAX},
		{"totals.folders", totals->folders, 0, NODES_MAX},
		{"totals.symlinks", totals->symlinks, 0, NODES_MAX},
		{"totals.blocks", totals->blocks, 0, BLOCKS_MAX},
		{"totals.bytes", totals->bytes, totals->blocks, TOTAL_MAX_BYTES},
		{"totals.bytes", totals->bytes, 0, totals->blocks * LDR_BLOCK_MAX_BYTES},
		{"totals.tree_bytes", release->tree_bytes, TREE_MIN_BYTES, TREE_MAX_BYTES},
		{"totals.map_bytes", release->map_bytes, totals->blocks * LDR_MAP_ENTRY_BYTES,
		 totals->blocks * LDR_MAP_ENTRY_BYTES},
	};

	return check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), status, err);
}

static enum ldr_status check_packs(const struct ldr_release *release, enum ldr_status status,
				   struct ldr_error *err)
{
	enum ldr_status checked = LDR_OK;

	if (!release->pack_count || release->pack_count > PACKS_MAX)
		return ldr_fail(err, status, "packs are %" PRIu32 ", allowed 1 to %u",
				release->pack_count, PACKS_MAX);
	for (uint32_t i = 0; i < release->pack_count && !checked; i++) {
		const struct ldr_release_pack *pack = release->packs + i;
		const struct bound bounds[] = {
			{"packs.no", pack->number, i ? pack[-1].number + 1ull : 0,
			 LDR_MAP_PACK_MAX},
			{"packs.size", pack->size_bytes, PACK_MIN_BYTES, PACK_MAX_BYTES},
		};

		checked = check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), status, err);
	}
	return checked;
}

static enum ldr_status check_top(const struct ldr_release *release, enum ldr_status status,
				 struct ldr_error *err)
{
	const struct ldr_placed_block *top = &release->top;
	const struct bound bounds[] = {
		{"top.plain", top->block.plain_bytes, LDR_TOP_HEADER_BYTES + LDR_TOP_ROW_BYTES,
		 LDR_BLOCK_MAX_BYTES},
		{"top.stored", top->place.stored_bytes, 1, LDR_STORED_MAX_BYTES},
		{"top.codec", (uint64_t)top->place.codec, 0, LDR_CODEC_COUNT - 1},
	};
	enum ldr_status checked = check_bounds(bounds, sizeof(bounds) / sizeof(bounds[0]), status,
					       err);

	if (checked)
		return checked;
	if (ldr_release_check_place(release, &top->place, err)) {
		if (err)
			err->status = status;
		return ldr_error_prefix(err, status, "top");
	}
	return LDR_OK;
}

/* The note goes to people's terminals. */
static enum ldr_status check_note(const char *note, enum ldr_status status, struct ldr_error *err)
{
	size_t length = strnlen(note, LDR_NOTE_MAX_BYTES + 1);

	if (length > LDR_NOTE_MAX_BYTES)
		return ldr_fail(err, status, "note is longer than %d bytes", LDR_NOTE_MAX_BYTES);
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)note[i];

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return ldr_fail(err, status, "note has the control character 0x%02x at %zu",
					c, i);
	}
	return LDR_OK;
}

enum ldr_status ldr_release_check_fields(const struct ldr_release *release, enum ldr_status status,
					 struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];
	enum ldr_status checked;

	if (!ldr_channel_name_ok(release->channel))
		return ldr_fail(err, status, "channel \"%s\" is no channel name",
				ldr_path_quote(release->channel,
					       strnlen(release->channel, sizeof(release->channel)),
					       quoted));
	checked = check_numbers(release, status, err);
	if (!checked)
		checked = check_packs(release, status, err);
	if (!checked)
		checked = check_top(release, status, err);
	if (!checked)
		checked = check_note(release->note, status, err);
	return checked;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static json_t *json_of_id(const struct ldr_id *id)
{
	char hex[LDR_ID_HEX_CHARS + 1];

	ldr_id_to_hex(id, hex);
	return json_string(hex);
}

static json_t *json_of_packs(const struct ldr_release *release)
{
	LDR_AUTO_JSON json_t *packs = json_array();
	json_t *whole;

	for (uint32_t i = 0; i < release->pack_count; i++) {
		const struct ldr_release_pack *pack = release->packs + i;
		/* The `o` format takes its reference even where packing fails. */
		json_t *row = json_pack("{s:I,s:o,s:I}", "no", (json_int_t)pack->number, "id",
					json_of_id(&pack->id), "size",
					(json_int_t)pack->size_bytes);

		if (json_array_append_new(packs, row))
			return NULL;
	}
	whole = packs;
	packs = NULL;
	return whole;
}

static json_t *json_of_totals(const struct ldr_release *release)
{
	const struct ldr_tree_totals *totals = &release->totals;

	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "files", (json_int_t)totals->files,
			 "folders", (json_int_t)totals->folders, "symlinks",
			 (json_int_t)totals->symlinks, "bytes", (json_int_t)totals->bytes, "blocks",
			 (json_int_t)totals->blocks, "tree_bytes", (json_int_t)release->tree_bytes,
			 "map_bytes", (json_int_t)release->map_bytes);
}

static json_t *json_of_top(const struct ldr_placed_block *top)
{
	return json_pack("{s:o,s:I,s:I,s:I,s:I,s:s}", "id", json_of_id(&top->block.id), "plain",
			 (json_int_t)top->block.plain_bytes, "pack", (json_int_t)top->place.pack,
			 "offset", (json_int_t)top->place.offset, "stored",
			 (json_int_t)top->place.stored_bytes, "codec",
			 ldr_codec_name(top->place.codec));
}

static json_t *json_of_previous(const struct ldr_release *release)
{
	if (!release->previous_sequence)
		return json_null();
	return json_pack("{s:I,s:o}", "sequence", (json_int_t)release->previous_sequence, "digest",
			 json_of_id(&release->previous_digest));
}

static json_t *json_of_release(const struct ldr_release *release)
{
	char store[LDR_STORE_ID_CHARS + 1];
	LDR_AUTO_JSON json_t *root = NULL;
	json_t *whole;

	ldr_store_id_to_hex(release->store, store);
	root = json_pack("{s:i,s:s,s:s,s:I,s:I,s:o,s:o,s:o,s:o,s:[],s:o,s:s}", "format",
			 LDR_RELEASE_FORMAT, "store", store, "channel", release->channel,
			 "sequence", (json_int_t)release->sequence, "created",
			 (json_int_t)release->created_s, "totals", json_of_totals(release), "tree",
			 json_of_id(&release->tree_digest), "top", json_of_top(&release->top),
			 "packs", json_of_packs(release), "deltas", "previous",
			 json_of_previous(release), "note", release->note);
	if (root && release->expires_s &&
	    json_object_set_new(root, "expires", json_integer(release->expires_s)))
		return NULL;
	whole = root;
	root = NULL;
	return whole;
}

/* The one failure that is not memory's: a note that is not UTF-8. */
static bool is_text(const char *note)
{
	LDR_AUTO_JSON json_t *text = json_string(note);

	return text != NULL;
}

enum ldr_status ldr_release_write_payload(const struct ldr_release *release, char **out_json,
					  size_t *out_length, struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *root = NULL;
	char *json;

	if (!is_text(release->note))
		return ldr_fail(err, LDR_EINVAL, "note is not UTF-8");
	root = json_of_release(release);
	json = root ? json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	if (!json)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	*out_json = json;
	*out_length = strlen(json);
	return LDR_OK;
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* A field of an object that is to be read; the kinds of several fields in one table. */
struct number {
	const char *field;
	uint64_t *out;
	uint64_t max;
};

static enum ldr_status read_numbers(const json_t *object, const struct number *numbers,
				    size_t count, struct ldr_error *err)
{
	enum ldr_status status = LDR_OK;

	for (size_t i = 0; i < count && !status; i++)
		status = ldr_json_u64(object, numbers[i].field, numbers[i].max, numbers[i].out,
				      err);
	return status;
}

static enum ldr_status read_text(const json_t *root, const char *field, char *out, size_t capacity,
				 struct ldr_error *err)
{
	const char *text = NULL;
	enum ldr_status status = ldr_json_string(root, field, capacity - 1, &text, err);

	if (!status)
		memcpy(out, text, strlen(text) + 1);
	return status;
}

static enum ldr_status read_store(const json_t *root, struct ldr_release *out,
				  struct ldr_error *err)
{
	const char *text = NULL;
	enum ldr_status status = ldr_json_string(root, "store", LDR_STORE_ID_CHARS, &text, err);

	if (status)
		return status;
	if (!ldr_store_id_from_hex(text, strlen(text), out->store))
		return ldr_fail(err, LDR_ECORRUPT,
				"field \"store\" is no id of %d lower-case hexadecimal digits",
				LDR_STORE_ID_CHARS);
	return LDR_OK;
}

static enum ldr_status read_totals(const json_t *root, struct ldr_release *out,
				   struct ldr_error *err)
{
	struct ldr_tree_totals *totals = &out->totals;
	const struct number numbers[] = {
		{"files", &totals->files, LDR_JSON_INTEGER_MAX},
		{"folders", &totals->folders, LDR_JSON_INTEGER_MAX},
		{"symlinks", &totals->symlinks, LDR_JSON_INTEGER_MAX},
		{"bytes", &totals->bytes, LDR_JSON_INTEGER_MAX},
		{"blocks", &totals->blocks, LDR_JSON_INTEGER_MAX},
		{"tree_bytes", &out->tree_bytes, LDR_JSON_INTEGER_MAX},
		{"map_bytes", &out->map_bytes, LDR_JSON_INTEGER_MAX},
	};
	json_t *object = NULL;
	enum ldr_status status = ldr_json_object(root, "totals", &object, err);

	if (status)
		return status;
	status = read_numbers(object, numbers, sizeof(numbers) / sizeof(numbers[0]), err);
	return status ? ldr_error_prefix(err, status, "totals") : LDR_OK;
}

static enum ldr_status read_codec(const json_t *object, enum ldr_codec *out_codec,
				  struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];
	const char *name = NULL;
	enum ldr_status status = ldr_json_string(object, "codec", 32, &name, err);

	if (status)
		return status;
	for (int codec = 0; codec < LDR_CODEC_COUNT; codec++)
		if (!strcmp(name, ldr_codec_name((enum ldr_codec)codec))) {
			*out_codec = (enum ldr_codec)codec;
			return LDR_OK;
		}
	return ldr_fail(err, LDR_EUNSUPPORTED, "codec \"%s\" is not known",
			ldr_path_quote(name, strlen(name), quoted));
}

static enum ldr_status read_top(const json_t *root, struct ldr_placed_block *out,
				struct ldr_error *err)
{
	uint64_t plain = 0, pack = 0, stored = 0;
	const struct number numbers[] = {
		{"plain", &plain, LDR_BLOCK_MAX_BYTES},
		{"pack", &pack, LDR_MAP_PACK_MAX},
		{"offset", &out->place.offset, PACK_MAX_BYTES},
		{"stored", &stored, LDR_STORED_MAX_BYTES},
	};
	json_t *object = NULL;
	enum ldr_status status = ldr_json_object(root, "top", &object, err);

	if (status)
		return status;
	status = ldr_json_id(object, "id", &out->block.id, err);
	if (!status)
		status = read_numbers(object, numbers, sizeof(numbers) / sizeof(numbers[0]), err);
	if (!status)
		status = read_codec(object, &out->place.codec, err);
	if (status)
		return ldr_error_prefix(err, status, "top");
	out->block.plain_bytes = (uint32_t)plain;
	out->place.pack = (uint32_t)pack;
	out->place.stored_bytes = (uint32_t)stored;
	return LDR_OK;
}

static enum ldr_status read_pack(const json_t *object, struct ldr_release_pack *out,
				 struct ldr_error *err)
{
	uint64_t number = 0;
	const struct number numbers[] = {
		{"no", &number, LDR_MAP_PACK_MAX},
		{"size", &out->size_bytes, PACK_MAX_BYTES},
	};
	enum ldr_status status;

	if (!json_is_object(object))
		return ldr_fail(err, LDR_ECORRUPT, "not an object");
	status = read_numbers(object, numbers, sizeof(numbers) / sizeof(numbers[0]), err);
	out->number = (uint32_t)number;
	return status ? status : ldr_json_id(object, "id", &out->id, err);
}

static enum ldr_status read_packs(const json_t *root, struct ldr_release *out,
				  struct ldr_error *err)
{
	json_t *array = NULL;
	enum ldr_status status = ldr_json_array(root, "packs", PACKS_MAX, &array, err);
	size_t count;

	if (status)
		return status;
	count = json_array_size(array);
	out->packs = calloc(count ? count : 1, sizeof(*out->packs));
	if (!out->packs)
		return ldr_fail(err, LDR_ENOMEM, "out of memory");
	out->pack_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++) {
		status = read_pack(json_array_get(array, i), out->packs + i, err);
		if (status)
			return ldr_error_prefix(err, status, "packs[%zu]", i);
	}
	return LDR_OK;
}

/* Deltas only save bytes: a reader that does not use them needs none of their fields. */
static enum ldr_status check_deltas(const json_t *root, struct ldr_error *err)
{
	json_t *array = NULL, *delta;
	enum ldr_status status = ldr_json_array(root, "deltas", DELTAS_MAX, &array, err);
	size_t i;

	if (status)
		return status;
	json_array_foreach (array, i, delta) {
		if (!json_is_object(delta))
			return ldr_fail(err, LDR_ECORRUPT, "deltas[%zu] is not an object", i);
	}
	return LDR_OK;
}

static enum ldr_status read_previous(const json_t *root, struct ldr_release *out,
				     struct ldr_error *err)
{
	json_t *object = NULL;
	enum ldr_status status;

	if (json_is_null(json_object_get(root, "previous")))
		return LDR_OK;
	status = ldr_json_object(root, "previous", &object, err);
	if (status)
		return status;
	status = ldr_json_u64(object, "sequence", LDR_JSON_INTEGER_MAX, &out->previous_sequence,
			      err);
	if (!status)
		status = ldr_json_id(object, "digest", &out->previous_digest, err);
	if (!status && !out->previous_sequence)
		status = ldr_fail(err, LDR_ECORRUPT, "sequence is 0, the first is 1");
	return status ? ldr_error_prefix(err, status, "previous") : LDR_OK;
}

static enum ldr_status read_times(const json_t *root, struct ldr_release *out,
				  struct ldr_error *err)
{
	uint64_t created = 0, expires = 0;
	enum ldr_status status = ldr_json_u64(root, "created", (uint64_t)TIME_MAX_S, &created, err);

	if (!status && json_object_get(root, "expires")) {
		status = ldr_json_u64(root, "expires", (uint64_t)TIME_MAX_S, &expires, err);
		if (!status && !expires)
			status = ldr_fail(err, LDR_ECORRUPT, "field \"expires\" is 0");
	}
	out->created_s = (int64_t)created;
	out->expires_s = (int64_t)expires;
	return status;
}

/* Another format may mean anything by the other fields: it is looked at first. */
static enum ldr_status check_format(const json_t *root, struct ldr_error *err)
{
	uint64_t format = 0;
	enum ldr_status status = ldr_json_u64(root, "format", LDR_JSON_INTEGER_MAX, &format, err);

	if (!status && format != LDR_RELEASE_FORMAT)
		return ldr_fail(err, LDR_EUNSUPPORTED, "format %" PRIu64 ", known is %u", format,
				LDR_RELEASE_FORMAT);
	return status;
}

static enum ldr_status read_fields(const json_t *root, struct ldr_release *out,
				   struct ldr_error *err)
{
	enum ldr_status status = check_format(root, err);

	if (!status)
		status = read_store(root, out, err);
	if (!status)
		status = read_text(root, "channel", out->channel, sizeof(out->channel), err);
	if (!status)
		status = ldr_json_u64(root, "sequence", LDR_JSON_INTEGER_MAX, &out->sequence, err);
	if (!status)
		status = read_times(root, out, err);
	if (!status)
		status = read_totals(root, out, err);
	if (!status)
		status = ldr_json_id(root, "tree", &out->tree_digest, err);
	if (!status)
		status = read_top(root, &out->top, err);
	if (!status)
		status = read_packs(root, out, err);
	if (!status)
		status = check_deltas(root, err);
	if (!status)
		status = read_previous(root, out, err);
	if (!status)
		status = read_text(root, "note", out->note, sizeof(out->note), err);
	return status ? status : ldr_release_check_fields(out, LDR_ECORRUPT, err);
}

enum ldr_status ldr_release_parse_payload(const char *json, size_t length, const char *name,
					  struct ldr_release *out, struct ldr_error *err)
{
	LDR_AUTO_JSON json_t *root = NULL;
	LDR_AUTO_RELEASE struct ldr_release release = {0};
	enum ldr_status status = ldr_json_parse(json, length, LDR_RELEASE_PAYLOAD_MAX_BYTES, name,
						&root, err);

	if (status)
		return status;
	status = read_fields(root, &release, err);
	if (status)
		return ldr_error_prefix(err, status, "%s", name);
	*out = release;
	release.packs = NULL;
	return LDR_OK;
}
