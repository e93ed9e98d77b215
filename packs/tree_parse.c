/*
 * Parsing a tree: from bytes that nobody has vouched for to nodes that obey every rule. See
 * tree_reader.h for the grammar and tree_priv.h for the nodes.
 *
 * Invariants
 *  1. Memory is reserved for what the bytes that are left can hold, never for what a count claims.
 *  2. No recursion: the open folders are the chain of parents from `folder`, and while a folder is
 *     open its node's `end` is its last entry so far, which the next name is compared to.
 *  3. `path_bytes` is the length of the open folder's path, so every path is bounded as it is made.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/checksum.h"
#include "packs/tree_priv.h"

#define NODE_MIN_BYTES 5u   /* kind and mode, one character's name, a count of 0 */
#define BLOCK_MIN_BYTES 33u /* one byte of length, the id */
#define ROOT_MODE 0755u

struct parser {
	struct ldr_cursor cursor;
	enum ldr_tree_origin origin;
	struct ldr_tree_limits limits;
	struct ldr_tree *tree; /* borrows */
	uint32_t node_capacity;
	uint64_t block_capacity;
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

static enum ldr_status fail_memory(struct ldr_error *err)
{
	return ldr_fail(err, LDR_ENOMEM, "out of memory");
}

/* ---- nodes and blocks in memory ----------------------------------------------------------------- */

/* The next capacity: doubled, but not over what can come at all. */
static uint64_t grown(uint64_t capacity, uint64_t needed, uint64_t possible)
{
	uint64_t wanted = capacity ? capacity * 2 : 64;

	if (wanted > possible)
		wanted = possible;
	return wanted < needed ? needed : wanted;
}

static bool reserve_node(struct parser *parser)
{
	struct ldr_tree *tree = parser->tree;
	uint64_t needed = (uint64_t)tree->node_count + 1;
	uint64_t possible = needed + ldr_cursor_left(&parser->cursor) / NODE_MIN_BYTES;
	struct ldr_tree_entry *nodes;
	uint64_t capacity;

	if (needed <= parser->node_capacity)
		return true;
	capacity = grown(parser->node_capacity, needed, possible);
	nodes = realloc(tree->nodes, capacity * sizeof(*nodes));
	if (!nodes)
		return false;
	tree->nodes = nodes;
	parser->node_capacity = (uint32_t)capacity;
	return true;
}

/* The caller has checked count against the bytes that are left. */
static bool reserve_blocks(struct parser *parser, uint64_t count)
{
	struct ldr_tree *tree = parser->tree;
	uint64_t needed = tree->totals.blocks + count;
	uint64_t possible = tree->totals.blocks +
			    ldr_cursor_left(&parser->cursor) / BLOCK_MIN_BYTES;
	struct ldr_block_ref *blocks;
	uint64_t capacity;

	if (needed <= parser->block_capacity)
		return true;
	capacity = grown(parser->block_capacity, needed, possible);
	blocks = realloc(tree->blocks, capacity * sizeof(*blocks));
	if (!blocks)
		return false;
	tree->blocks = blocks;
	parser->block_capacity = capacity;
	return true;
}

static enum ldr_status add_node(struct parser *parser, uint16_t kind_mode, const char *name,
				size_t length, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	uint32_t node = tree->node_count;
	struct ldr_tree_entry *parent;

	if (node >= parser->limits.max_nodes)
		return ldr_fail(err, LDR_ELIMIT, "more than %" PRIu64 " nodes",
				parser->limits.max_nodes);
	if (!reserve_node(parser))
		return fail_memory(err);
	parent = tree->nodes + parser->folder;
	tree->nodes[node] = (struct ldr_tree_entry){
		.hash = ldr_tree_hash(parent->hash, name, length),
		.parent = parser->folder,
		.end = node + 1,
		.name_at = (uint32_t)tree->text.length,
		.kind_mode = kind_mode,
		.name_bytes = (uint8_t)length,
	};
	ldr_buffer_put(&tree->text, name, length);
	if (tree->text.failed)
		return fail_memory(err);
	parent->end = node;
	tree->node_count++;
	return LDR_OK;
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
	if (count > parser->limits.max_blocks - tree->totals.blocks)
		return ldr_fail(err, LDR_ELIMIT, "%" PRIu64 " blocks together, limit %" PRIu64,
				tree->totals.blocks + count, parser->limits.max_blocks);
	if (!reserve_blocks(parser, count))
		return fail_memory(err);
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
	ldr_buffer_put(&tree->text, target, length);
	if (tree->text.failed)
		return fail_memory(err);
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
	if (!status)
		status = add_node(parser, kind_mode, name, length, err);
	if (status)
		return status;
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

static enum ldr_status parse_header(struct parser *parser, uint64_t seed, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	const uint8_t *magic = ldr_cursor_bytes(&parser->cursor, 8);
	uint32_t version = ldr_cursor_u32(&parser->cursor);
	uint32_t flags = ldr_cursor_u32(&parser->cursor);

	if (parser->cursor.failed)
		return ldr_fail(err, LDR_ECORRUPT, "shorter than its header of 16 bytes");
	if (memcmp(magic, LDR_TREE_MAGIC, 8))
		return ldr_fail(err, LDR_ECORRUPT, "does not begin with %s", LDR_TREE_MAGIC);
	if (version != LDR_TREE_VERSION)
		return ldr_fail(err, LDR_EUNSUPPORTED, "version %" PRIu32 ", known is %u", version,
				LDR_TREE_VERSION);
	if (flags)
		return ldr_fail(err, LDR_EUNSUPPORTED, "flags 0x%" PRIx32 ", known are none",
				flags);
	if (!reserve_node(parser))
		return fail_memory(err);
	tree->nodes[0] = (struct ldr_tree_entry){
		.hash = seed, .kind_mode = (uint16_t)(LDR_KIND_FOLDER << 12 | ROOT_MODE)};
	tree->node_count = 1;
	/* Never NULL, even without a name. */
	ldr_buffer_u8(&tree->text, 0);
	return tree->text.failed ? fail_memory(err) : LDR_OK;
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

static enum ldr_status parse_all(struct parser *parser, uint64_t seed,
				 const struct ldr_tree_totals *expected, struct ldr_error *err)
{
	struct ldr_tree *tree = parser->tree;
	enum ldr_status status = parse_header(parser, seed, err);

	if (!status)
		status = parse_entries(parser, err);
	if (!status && expected)
		status = check_totals(&tree->totals, expected, err);
	if (!status)
		status = ldr_tree_index(tree, err);
	if (!status)
		status = ldr_tree_check_clashes(tree, err);
	if (!status)
		status = ldr_tree_resolve_links(tree, err);
	return ldr_tree_rule(parser->origin, status, err);
}

enum ldr_status ldr_tree_parse_as(enum ldr_tree_origin origin, const void *bytes, size_t length,
				  const char *name, const struct ldr_tree_limits *limits,
				  const struct ldr_tree_totals *expected,
				  struct ldr_tree **out_tree, struct ldr_error *err)
{
	LDR_AUTO_TREE struct ldr_tree *tree = NULL;
	struct parser parser = {
		.cursor = ldr_cursor_over(bytes, length),
		.origin = origin,
		.limits = effective_limits(limits),
	};
	enum ldr_status status;

	if (length > parser.limits.max_tree_bytes)
		return ldr_fail(err, LDR_ELIMIT, "tree %s: %zu bytes, limit %" PRIu64, name, length,
				parser.limits.max_tree_bytes);
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return ldr_fail(err, LDR_ENOMEM, "tree %s: out of memory", name);
	/* Names and targets are parts of the bytes. */
	ldr_buffer_init(&tree->text, length + 1);
	parser.tree = tree;
	status = parse_all(&parser, ldr_checksum(bytes, length), expected, err);
	if (status)
		return ldr_error_prefix(err, status, "tree %s", name);
	*out_tree = LDR_STEAL(tree);
	return LDR_OK;
}

enum ldr_status ldr_tree_parse(const void *bytes, size_t length, const char *name,
			       const struct ldr_tree_limits *limits,
			       const struct ldr_tree_totals *expected, struct ldr_tree **out_tree,
			       struct ldr_error *err)
{
	return ldr_tree_parse_as(LDR_TREE_FROM_OUTSIDE, bytes, length, name, limits, expected,
				 out_tree, err);
}
