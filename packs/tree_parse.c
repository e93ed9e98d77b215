/*
 * Parsing a tree: from bytes that nobody has vouched for to nodes that obey every rule. See
 * tree_reader.h for the grammar and tree_priv.h for the nodes.
 *
 * Invariants
 *  1. Memory is reserved for what a first pass has found in the bytes, never for what a count claims.
 *     The first pass knows no rules; it stops where the second one must fail.
 *  2. No recursion: the open folders are the chain of parents from `folder`, and while a folder is
 *     open its node's `end` is its last entry so far, which the next name is compared to.
 *  3. `path_bytes` is the length of the open folder's path, so every path is bounded as it is made.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "common/checksum.h"
#include "packs/tree_priv.h"

#define BLOCK_MIN_BYTES 33u /* one byte of length, the id */
#define ROOT_MODE 0755u

struct parser {
	struct ldr_cursor cursor;
	enum ldr_tree_origin origin;
	struct ldr_tree_limits limits;
	struct ldr_tree *tree;                     /* borrows */
	uint64_t node_room, block_room, text_room; /* as counted */
	uint32_t folder;
	unsigned depth; /* folders between the root and what is in the open folder */
	size_t path_bytes;
	bool done;
};

enum ldr_status ldr_tree_rule(enum ldr_tree_origin origin, enum ldr_status status,
			      struct ldr_error *err)
{
	if (origin == LDR_TREE_FROM_WRITER || (status != LDR_EINVAL && status != LDR_ELINK))
		return status;
	if (err)
		err->status = LDR_ECORRUPT;
	return LDR_ECORRUPT;
}

static struct ldr_tree_limits effective_limits(const struct ldr_tree_limits *given)
{
	struct ldr_tree_limits limits = {0};
	static const uint64_t one_gib = UINT64_C(1) << 30;

	if (given)
		limits = *given;
	if (!limits.max_tree_bytes)
		limits.max_tree_bytes = one_gib;
	if (!limits.max_nodes)
		limits.max_nodes = UINT64_C(16) << 20;
	if (!limits.max_blocks)
		limits.max_blocks = UINT64_C(64) << 20;
	if (!limits.max_file_bytes)
		limits.max_file_bytes = 256 * one_gib;
	if (!limits.max_total_bytes)
		limits.max_total_bytes = 512 * one_gib;
	/* Positions, nodes and ordinals are 32 bits wide in memory. */
	if (limits.max_tree_bytes > UINT32_MAX)
		limits.max_tree_bytes = UINT32_MAX;
	if (limits.max_nodes > LDR_LINK_NOTDIR)
		limits.max_nodes = LDR_LINK_NOTDIR;
	if (limits.max_blocks > UINT32_MAX)
		limits.max_blocks = UINT32_MAX;
	return limits;
}

/* ---- the first pass ----------------------------------------------------------------------------- */

struct counts {
	uint64_t nodes, blocks, text;
};

/* What follows a file's name. False: nothing more can be counted. */
static bool count_blocks(struct ldr_cursor *cursor, struct counts *counts)
{
	uint64_t count = ldr_cursor_varint(cursor);

	if (cursor->failed || count > ldr_cursor_left(cursor) / BLOCK_MIN_BYTES)
		return false;
	counts->blocks += count;
	for (; count && !cursor->failed; count--) {
		ldr_cursor_varint(cursor);
		ldr_cursor_bytes(cursor, LDR_ID_BYTES);
	}
	return !cursor->failed;
}

static bool count_target(struct ldr_cursor *cursor, struct counts *counts)
{
	uint64_t length = ldr_cursor_varint(cursor);

	if (cursor->failed || length > ldr_cursor_left(cursor))
		return false;
	ldr_cursor_bytes(cursor, length);
	counts->text += length;
	return true;
}

/* Over what follows the header. */
static struct counts count_entries(struct ldr_cursor cursor)
{
	struct counts counts = {.nodes = 1};
	uint64_t open = 1;
	bool more = true;

	while (open && more) {
		uint16_t kind_mode = ldr_cursor_u16(&cursor);
		uint8_t length;

		if (cursor.failed)
			break;
		if (!kind_mode) {
			open--;
			continue;
		}
		length = ldr_cursor_u8(&cursor);
		ldr_cursor_bytes(&cursor, length);
		counts.nodes++;
		counts.text += length;
		if (kind_mode >> 12 == LDR_KIND_FILE)
			more = count_blocks(&cursor, &counts);
		else if (kind_mode >> 12 == LDR_KIND_SYMLINK)
			more = count_target(&cursor, &counts);
		else
			open++;
	}
	return counts;
}

static enum ldr_status check_counts(const struct parser *parser, const struct counts *counts,
				    struct ldr_error *err)
{
	if (counts->nodes > parser->limits.max_nodes)
		return ldr_fail(err, LDR_ELIMIT, "%" PRIu64 " nodes, limit %" PRIu64, counts->nodes,
				parser->limits.max_nodes);
	if (counts->blocks > parser->limits.max_blocks)
		return ldr_fail(err, LDR_ELIMIT, "%" PRIu64 " blocks, limit %" PRIu64,
				counts->blocks, parser->limits.max_blocks);
	return LDR_OK;
}

/* Everything in one piece: nodes and slots are 8 bytes wide or a multiple, blocks 4, text 1. */
static enum ldr_status make_room(struct parser *parser, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	struct counts counts = count_entries(parser->cursor);
	enum ldr_status status = check_counts(parser, &counts, err);
	size_t slots = ldr_tree_slot_count(counts.nodes);
	uint8_t *at;

	if (!status)
		status = ldr_tree_memory_take(
			&tree->memory,
			counts.nodes * sizeof(*tree->nodes) + slots * sizeof(*tree->table.slots) +
				counts.blocks * sizeof(*tree->blocks) + counts.text,
			err);
	if (status)
		return status;
	at = tree->memory.bytes;
	tree->nodes = (struct ldr_tree_entry *)at;
	at += counts.nodes * sizeof(*tree->nodes);
	tree->table = (struct ldr_tree_table){(struct ldr_tree_slot *)at, (uint32_t)slots - 1};
	at += slots * sizeof(*tree->table.slots);
	tree->blocks = (struct ldr_block_ref *)at;
	tree->text = (char *)at + counts.blocks * sizeof(*tree->blocks);
	parser->node_room = counts.nodes;
	parser->block_room = counts.blocks;
	parser->text_room = counts.text;
	return LDR_OK;
}

/* ---- nodes in memory ---------------------------------------------------------------------------- */

static void add_text(struct parser *parser, const void *text, size_t length)
{
	struct ldr_tree *tree = parser->tree;

	assert(length <= parser->text_room - tree->text_bytes);
	ldr_copy(tree->text + tree->text_bytes, text, length);
	tree->text_bytes += (uint32_t)length;
}

static void add_node(struct parser *parser, uint16_t kind_mode, const char *name, size_t length)
{
	struct ldr_tree *tree = parser->tree;
	uint32_t node = tree->node_count;
	struct ldr_tree_entry *parent = tree->nodes + parser->folder;

	assert(node < parser->node_room);
	tree->nodes[node] = (struct ldr_tree_entry){
		.hash = ldr_tree_hash(parent->hash, name, length),
		.parent = parser->folder,
		.end = node + 1,
		.name_at = tree->text_bytes,
		.kind_mode = kind_mode,
		.name_bytes = (uint8_t)length,
	};
	add_text(parser, name, length);
	parent->end = node;
	tree->node_count++;
}

/* ---- names -------------------------------------------------------------------------------------- */

static bool folds_to_itself(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] >= 0x80 || (name[i] >= 'A' && name[i] <= 'Z'))
			return false;
	return true;
}

bool ldr_tree_is_reserved(const char *name, size_t length)
{
	char folded[4 * LDR_NAME_MAX_BYTES];
	size_t folded_length = 0;

	return ldr_name_fold(name, length, folded, sizeof(folded), &folded_length) &&
	       folded_length == sizeof(LDR_RESERVED_NAME) - 1 &&
	       !memcmp(folded, LDR_RESERVED_NAME, folded_length);
}

static enum ldr_status check_order(const struct parser *parser, const char *name, size_t length,
				   struct ldr_error *err)
{
	const struct ldr_tree *tree = parser->tree;
	uint32_t last = tree->nodes[parser->folder].end;
	const struct ldr_tree_entry *before = tree->nodes + last;
	char quoted[LDR_QUOTE_BYTES], other[LDR_QUOTE_BYTES];

	if (!last || ldr_name_compare(ldr_tree_text(tree, before->name_at), before->name_bytes,
				      name, length) < 0)
		return LDR_OK;
	return ldr_fail(
		err, LDR_EINVAL, "name %s does not come after %s",
		ldr_path_quote(name, length, quoted),
		ldr_path_quote(ldr_tree_text(tree, before->name_at), before->name_bytes, other));
}

static enum ldr_status check_name(struct parser *parser, const char *name, size_t length,
				  struct ldr_error *err)
{
	size_t path_bytes = parser->path_bytes + (parser->folder ? 1 : 0) + length;
	enum ldr_status status = ldr_name_check_portable(name, length, err);
	char quoted[LDR_QUOTE_BYTES];

	if (!status)
		status = check_order(parser, name, length, err);
	if (status)
		return status;
	if (path_bytes > LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "name %s makes a path of %zu bytes, limit %d",
				ldr_path_quote(name, length, quoted), path_bytes,
				LDR_PATH_MAX_BYTES);
	if (!parser->folder && ldr_tree_is_reserved(name, length))
		return ldr_fail(err, LDR_EINVAL, "name %s at the root is reserved",
				ldr_path_quote(name, length, quoted));
	if (!folds_to_itself(name, length))
		parser->tree->nodes[parser->folder].kind_mode |= LDR_TREE_FOLDS;
	return LDR_OK;
}

/* ---- entries ------------------------------------------------------------------------------------ */

static enum ldr_status fail_short(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ECORRUPT,
			"the tree ends inside it, or a number is not in its "
			"shortest form");
}

static enum ldr_status read_blocks(struct parser *parser, uint64_t count, uint64_t *out_size,
				   struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	uint64_t size = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct ldr_block_ref *block = tree->blocks + tree->totals.blocks + i;
		uint64_t plain = ldr_cursor_varint(&parser->cursor);
		const uint8_t *id = ldr_cursor_bytes(&parser->cursor, LDR_ID_BYTES);

		if (!id)
			return fail_short(err);
		if (!plain || plain > LDR_BLOCK_MAX_BYTES)
			return ldr_fail(err, LDR_ECORRUPT,
					"block %" PRIu64 " has %" PRIu64 " bytes, allowed 1 to %u",
					i, plain, LDR_BLOCK_MAX_BYTES);
		memcpy(block->id.bytes, id, LDR_ID_BYTES);
		block->plain_bytes = (uint32_t)plain;
		size += plain;
	}
	*out_size = size;
	return LDR_OK;
}

static enum ldr_status check_size(const struct parser *parser, uint64_t size, struct ldr_error *err)
{
	uint64_t total = parser->tree->totals.bytes + size;

	if (size > parser->limits.max_file_bytes)
		return ldr_fail(err, LDR_ELIMIT, "a file of %" PRIu64 " bytes, limit %" PRIu64,
				size, parser->limits.max_file_bytes);
	if (total > parser->limits.max_total_bytes)
		return ldr_fail(err, LDR_ELIMIT,
				"files of %" PRIu64 " bytes together, limit %" PRIu64, total,
				parser->limits.max_total_bytes);
	return LDR_OK;
}

static enum ldr_status parse_file(struct parser *parser, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	struct ldr_tree_entry *file = tree->nodes + tree->node_count - 1;
	uint64_t count = ldr_cursor_varint(&parser->cursor);
	uint64_t size = 0;
	enum ldr_status status;

	if (parser->cursor.failed)
		return fail_short(err);
	if (count > ldr_cursor_left(&parser->cursor) / BLOCK_MIN_BYTES)
		return ldr_fail(err, LDR_ECORRUPT, "%" PRIu64 " blocks in the %zu bytes left",
				count, ldr_cursor_left(&parser->cursor));
	assert(count <= parser->block_room - tree->totals.blocks);
	status = read_blocks(parser, count, &size, err);
	if (!status)
		status = check_size(parser, size, err);
	if (status)
		return status;
	file->size_bytes = size;
	file->first_block = (uint32_t)tree->totals.blocks;
	file->block_count = (uint32_t)count;
	tree->totals.files++;
	tree->totals.bytes += size;
	tree->totals.blocks += count;
	return LDR_OK;
}

static enum ldr_status parse_symlink(struct parser *parser, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	struct ldr_tree_entry *link = tree->nodes + tree->node_count - 1;
	uint64_t length = ldr_cursor_varint(&parser->cursor);
	const uint8_t *target;
	enum ldr_status status;

	if (parser->cursor.failed)
		return fail_short(err);
	if (!length || length > LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_ELINK, "a target of %" PRIu64 " bytes, allowed 1 to %d",
				length, LDR_PATH_MAX_BYTES);
	target = ldr_cursor_bytes(&parser->cursor, length);
	if (!target)
		return fail_short(err);
	status = ldr_path_check_target((const char *)target, length, parser->depth, err);
	if (status)
		return status;
	add_text(parser, target, length);
	link->target_bytes = (uint32_t)length;
	link->link_to = LDR_LINK_UNRESOLVED;
	tree->totals.symlinks++;
	return LDR_OK;
}

static void open_folder(struct parser *parser)
{
	struct ldr_tree *tree = parser->tree;
	uint32_t node = tree->node_count - 1;

	parser->path_bytes += (parser->folder ? 1 : 0) + tree->nodes[node].name_bytes;
	parser->depth++;
	parser->folder = node;
	tree->nodes[node].end = 0;
	tree->totals.folders++;
}

static void close_folder(struct parser *parser)
{
	struct ldr_tree *tree = parser->tree;
	struct ldr_tree_entry *folder = tree->nodes + parser->folder;

	folder->end = tree->node_count;
	if (!parser->folder) {
		parser->done = true;
		return;
	}
	parser->folder = folder->parent;
	parser->depth--;
	parser->path_bytes -= folder->name_bytes + (parser->folder ? 1u : 0u);
}

static enum ldr_status check_kind(uint16_t kind_mode, struct ldr_error *err)
{
	unsigned kind = kind_mode >> 12;

	if (kind < LDR_KIND_FILE || kind > LDR_KIND_SYMLINK)
		return ldr_fail(err, LDR_ECORRUPT, "kind %u, known are %d to %d", kind,
				LDR_KIND_FILE, LDR_KIND_SYMLINK);
	if (kind_mode & LDR_TREE_RESERVED_MASK)
		return ldr_fail(err, LDR_ECORRUPT, "mode %04o, allowed 0000 to 0777",
				kind_mode & 0xfff);
	return LDR_OK;
}

static enum ldr_status parse_entry(struct parser *parser, struct ldr_error *err)
{
	uint16_t kind_mode = ldr_cursor_u16(&parser->cursor);
	enum ldr_status status;
	const char *name;
	uint8_t length;

	if (parser->cursor.failed)
		return fail_short(err);
	if (!kind_mode) {
		close_folder(parser);
		return LDR_OK;
	}
	status = check_kind(kind_mode, err);
	if (status)
		return status;
	length = ldr_cursor_u8(&parser->cursor);
	name = (const char *)ldr_cursor_bytes(&parser->cursor, length);
	if (!name)
		return fail_short(err);
	status = check_name(parser, name, length, err);
	if (status)
		return status;
	add_node(parser, kind_mode, name, length);
	switch (kind_mode >> 12) {
	case LDR_KIND_FILE:
		return parse_file(parser, err);
	case LDR_KIND_SYMLINK:
		return parse_symlink(parser, err);
	default:
		open_folder(parser);
		return LDR_OK;
	}
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static enum ldr_status parse_header(struct parser *parser, struct ldr_error *err)
{
	const uint8_t *magic = ldr_cursor_bytes(&parser->cursor, 8);
	uint32_t version = ldr_cursor_u32(&parser->cursor);
	uint32_t flags = ldr_cursor_u32(&parser->cursor);

	if (parser->cursor.failed)
		return ldr_fail(err, LDR_ECORRUPT, "shorter than its header of 16 bytes");
	if (memcmp(magic, LDR_TREE_MAGIC, 8) != 0)
		return ldr_fail(err, LDR_ECORRUPT, "does not begin with %s", LDR_TREE_MAGIC);
	if (version != LDR_TREE_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "version %" PRIu32 ", known is %u", version,
				LDR_TREE_VERSION);
	if (flags)
		return ldr_fail(err, LDR_EUNSUPPORTED, "flags 0x%" PRIx32 ", known are none",
				flags);
	return LDR_OK;
}

static enum ldr_status parse_entries(struct parser *parser, struct ldr_error *err)
{
	while (!parser->done) {
		size_t at = ldr_cursor_position(&parser->cursor);
		uint32_t folder = parser->folder;
		enum ldr_status status = parse_entry(parser, err);
		char quoted[LDR_QUOTE_BYTES];

		if (status)
			return ldr_error_prefix(err, ldr_tree_rule(parser->origin, status, err),
						"entry at byte %zu in folder %s", at,
						ldr_tree_quote(parser->tree, folder, quoted));
	}
	if (ldr_cursor_left(&parser->cursor))
		return ldr_fail(err, LDR_ECORRUPT, "%zu bytes after its end",
				ldr_cursor_left(&parser->cursor));
	return LDR_OK;
}

static enum ldr_status check_totals(const struct ldr_tree_totals *have,
				    const struct ldr_tree_totals *expected, struct ldr_error *err)
{
	const struct {
		const char *what;
		uint64_t have, expected;
	} rows[] = {
		{"files", have->files, expected->files},
		{"folders", have->folders, expected->folders},
		{"symlinks", have->symlinks, expected->symlinks},
		{"bytes", have->bytes, expected->bytes},
		{"blocks", have->blocks, expected->blocks},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].have != rows[i].expected)
			return ldr_fail(err, LDR_ECORRUPT,
					"has %" PRIu64 " %s, the record says %" PRIu64,
					rows[i].have, rows[i].what, rows[i].expected);
	return LDR_OK;
}

static void add_root(struct ldr_tree *tree, uint64_t seed)
{
	tree->nodes[0] = (struct ldr_tree_entry){
		.hash = seed, .kind_mode = (uint16_t)(LDR_KIND_FOLDER << 12 | ROOT_MODE)};
	tree->node_count = 1;
}

static enum ldr_status parse_all(struct parser *parser, uint64_t seed,
				 const struct ldr_tree_totals *expected, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	enum ldr_status status = parse_header(parser, err);

	if (!status)
		status = make_room(parser, err);
	if (status)
		return status;
	add_root(tree, seed);
	status = parse_entries(parser, err);
	if (!status && expected)
		status = check_totals(&tree->totals, expected, err);
	if (status)
		return status;
	ldr_tree_index(tree);
	status = ldr_tree_check_clashes(tree, err);
	if (!status)
		status = ldr_tree_resolve_links(tree, err);
	return ldr_tree_rule(parser->origin, status, err);
}

enum ldr_status ldr_tree_parse_as(enum ldr_tree_origin origin, const struct ldr_tree_input *input,
				  const struct ldr_tree_limits *limits,
				  const struct ldr_tree_totals *expected,
				  struct ldr_tree **out_tree, struct ldr_error *err)
{
	LDR_AUTO_TREE struct ldr_tree *tree = NULL;
	struct parser parser = {
		.cursor = ldr_cursor_over(input->bytes, input->length),
		.origin = origin,
		.limits = effective_limits(limits),
	};
	enum ldr_status status;

	if (input->length > parser.limits.max_tree_bytes)
		return ldr_fail(err, LDR_ELIMIT, "tree %s: %zu bytes, limit %" PRIu64, input->name,
				input->length, parser.limits.max_tree_bytes);
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return ldr_fail(err, LDR_ENOMEM, "tree %s: out of memory", input->name);
	parser.tree = tree;
	status = parse_all(&parser, ldr_checksum(input->bytes, input->length), expected, err);
	if (status)
		return ldr_error_prefix(err, status, "tree %s", input->name);
	*out_tree = LDR_STEAL(tree);
	return LDR_OK;
}

/* Seven parameters: name and totals are two things that every caller has apart. */
/* NOLINTNEXTLINE(readability-function-size) */
enum ldr_status ldr_tree_parse(const void *bytes, size_t length, const char *name,
			       const struct ldr_tree_limits *limits,
			       const struct ldr_tree_totals *expected, struct ldr_tree **out_tree,
			       struct ldr_error *err)
{
	const struct ldr_tree_input input = {bytes, length, name};

	return ldr_tree_parse_as(LDR_TREE_FROM_OUTSIDE, &input, limits, expected, out_tree, err);
}
