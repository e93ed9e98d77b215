/*
 * Writing a tree; see tree_writer.h. What can be judged entry by entry is judged when the entry is added,
 * so that the caller learns which one; the rest by parsing the result.
 *
 * An entry that is refused leaves the bytes as they were, and the writer can go on.
 */
#include "packs/tree_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "packs/tree_priv.h"

#define TREE_MAX_BYTES (UINT64_C(1) << 30)
/* A path of n components has at least 2 n - 1 bytes. */
#define DEPTH_MAX ((LDR_PATH_MAX_BYTES + 1) / 2)

struct level {
	size_t last_name_at; /* position of its length byte in the bytes; 0: no entry yet */
	size_t path_bytes;   /* of the folder's own path */
};

struct ldr_tree_writer {
	struct ldr_buffer bytes;
	struct level levels[DEPTH_MAX + 1]; /* levels[0] is the root */
	unsigned depth;
	bool ended;
};

enum ldr_status ldr_tree_writer_new(struct ldr_tree_writer **out_writer, struct ldr_error *err)
{
	struct ldr_tree_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return ldr_fail(err, LDR_ENOMEM, "tree writer: out of memory");
	ldr_buffer_init(&writer->bytes, TREE_MAX_BYTES);
	ldr_buffer_put(&writer->bytes, LDR_TREE_MAGIC, 8);
	ldr_buffer_u32(&writer->bytes, LDR_TREE_VERSION);
	ldr_buffer_u32(&writer->bytes, 0);
	if (writer->bytes.failed) {
		ldr_tree_writer_free(writer);
		return ldr_fail(err, LDR_ENOMEM, "tree writer: out of memory");
	}
	*out_writer = writer;
	return LDR_OK;
}

void ldr_tree_writer_free(struct ldr_tree_writer *writer)
{
	if (!writer)
		return;
	ldr_buffer_dispose(&writer->bytes);
	free(writer);
}

void ldr_tree_writer_cleanup(struct ldr_tree_writer **writer)
{
	ldr_tree_writer_free(*writer);
}

static enum ldr_status check_order(const struct ldr_tree_writer *writer, const char *name,
				   size_t length, struct ldr_error *err)
{
	size_t at = writer->levels[writer->depth].last_name_at;
	char quoted[LDR_QUOTE_BYTES], other[LDR_QUOTE_BYTES];
	const char *before;
	uint8_t before_length;

	if (!at)
		return LDR_OK;
	before_length = writer->bytes.data[at];
	before = (const char *)writer->bytes.data + at + 1;
	if (ldr_name_compare(before, before_length, name, length) < 0)
		return LDR_OK;
	return ldr_fail(err, LDR_EINVAL, "name %s does not come after %s",
			ldr_path_quote(name, length, quoted),
			ldr_path_quote(before, before_length, other));
}

static size_t path_bytes_of(const struct ldr_tree_writer *writer, size_t name_length)
{
	return writer->levels[writer->depth].path_bytes + (writer->depth ? 1 : 0) + name_length;
}

static enum ldr_status check_entry(const struct ldr_tree_writer *writer, const char *name,
				   uint32_t mode, struct ldr_error *err)
{
	size_t length = strlen(name);
	char quoted[LDR_QUOTE_BYTES];
	enum ldr_status status = ldr_name_check_portable(name, length, err);

	if (!status)
		status = check_order(writer, name, length, err);
	if (status)
		return status;
	if (mode & ~LDR_TREE_MODE_MASK)
		return ldr_fail(err, LDR_EINVAL, "%s: mode %04o, allowed 0000 to 0777",
				ldr_path_quote(name, length, quoted), mode);
	if (path_bytes_of(writer, length) > LDR_PATH_MAX_BYTES)
		return ldr_fail(err, LDR_EINVAL, "name %s makes a path of %zu bytes, limit %d",
				ldr_path_quote(name, length, quoted), path_bytes_of(writer, length),
				LDR_PATH_MAX_BYTES);
	if (!writer->depth && ldr_tree_is_reserved(name, length))
		return ldr_fail(err, LDR_EINVAL, "name %s at the root is reserved",
				ldr_path_quote(name, length, quoted));
	return LDR_OK;
}

static void put_head(struct ldr_tree_writer *writer, enum ldr_kind kind, uint32_t mode,
		     const char *name)
{
	size_t length = strlen(name);

	ldr_buffer_u16(&writer->bytes, (uint16_t)((unsigned)kind << 12 | mode));
	ldr_buffer_u8(&writer->bytes, (uint8_t)length);
	ldr_buffer_put(&writer->bytes, name, length);
}

/* An entry is whole now, or not there: begin is where it began. */
static enum ldr_status commit(struct ldr_tree_writer *writer, size_t begin, struct ldr_error *err)
{
	if (writer->bytes.failed) {
		writer->bytes.failed = false;
		writer->bytes.length = begin;
		if (writer->bytes.capacity == TREE_MAX_BYTES)
			return ldr_fail(err, LDR_ELIMIT, "tree: larger than %" PRIu64 " bytes",
					TREE_MAX_BYTES);
		return ldr_fail(err, LDR_ENOMEM, "tree: out of memory after %zu bytes", begin);
	}
	writer->levels[writer->depth].last_name_at = begin + 2;
	return LDR_OK;
}

enum ldr_status ldr_tree_writer_folder_begin(struct ldr_tree_writer *writer, const char *name,
					     uint32_t mode, struct ldr_error *err)
{
	size_t begin = writer->bytes.length;
	enum ldr_status status = check_entry(writer, name, mode, err);
	size_t path_bytes;

	assert(!writer->ended);
	if (status)
		return status;
	path_bytes = path_bytes_of(writer, strlen(name));
	put_head(writer, LDR_KIND_FOLDER, mode, name);
	status = commit(writer, begin, err);
	if (status)
		return status;
	writer->levels[++writer->depth] = (struct level){.path_bytes = path_bytes};
	return LDR_OK;
}

enum ldr_status ldr_tree_writer_folder_end(struct ldr_tree_writer *writer, struct ldr_error *err)
{
	size_t begin = writer->bytes.length;

	assert(!writer->ended);
	if (!writer->depth)
		return ldr_fail(err, LDR_EINVAL, "tree: no folder is open");
	ldr_buffer_u16(&writer->bytes, 0);
	if (writer->bytes.failed) {
		writer->bytes.failed = false;
		writer->bytes.length = begin;
		return ldr_fail(err, LDR_ENOMEM, "tree: no room after %zu bytes", begin);
	}
	writer->depth--;
	return LDR_OK;
}

static enum ldr_status check_blocks(const char *name, const struct ldr_block_ref *blocks,
				    uint64_t block_count, struct ldr_error *err)
{
	char quoted[LDR_QUOTE_BYTES];

	for (uint64_t i = 0; i < block_count; i++)
		if (!blocks[i].plain_bytes || blocks[i].plain_bytes > LDR_BLOCK_MAX_BYTES)
			return ldr_fail(err, LDR_EINVAL,
					"%s: block %" PRIu64 " has %" PRIu32
					" bytes, allowed 1 to %u",
					ldr_path_quote(name, strlen(name), quoted), i,
					blocks[i].plain_bytes, LDR_BLOCK_MAX_BYTES);
	return LDR_OK;
}

enum ldr_status ldr_tree_writer_file(struct ldr_tree_writer *writer, const char *name,
				     uint32_t mode, const struct ldr_block_ref *blocks,
				     uint64_t block_count, struct ldr_error *err)
{
	size_t begin = writer->bytes.length;
	enum ldr_status status = check_entry(writer, name, mode, err);

	assert(!writer->ended);
	if (!status)
		status = check_blocks(name, blocks, block_count, err);
	if (status)
		return status;
	put_head(writer, LDR_KIND_FILE, mode, name);
	ldr_buffer_varint(&writer->bytes, block_count);
	for (uint64_t i = 0; i < block_count; i++) {
		ldr_buffer_varint(&writer->bytes, blocks[i].plain_bytes);
		ldr_buffer_put(&writer->bytes, blocks[i].id.bytes, LDR_ID_BYTES);
	}
	return commit(writer, begin, err);
}

enum ldr_status ldr_tree_writer_symlink(struct ldr_tree_writer *writer, const char *name,
					uint32_t mode, const char *target, struct ldr_error *err)
{
	size_t begin = writer->bytes.length, length = strlen(target);
	enum ldr_status status = check_entry(writer, name, mode, err);
	char quoted[LDR_QUOTE_BYTES];

	assert(!writer->ended);
	if (status)
		return status;
	if (!length || length > LDR_PATH_MAX_BYTES)
		status = ldr_fail(err, LDR_ELINK, "a target of %zu bytes, allowed 1 to %d", length,
				  LDR_PATH_MAX_BYTES);
	else
		status = ldr_path_check_target(target, length, writer->depth, err);
	if (status)
		return ldr_error_prefix(err, status, "symlink %s",
					ldr_path_quote(name, strlen(name), quoted));
	put_head(writer, LDR_KIND_SYMLINK, mode, name);
	ldr_buffer_varint(&writer->bytes, length);
	ldr_buffer_put(&writer->bytes, target, length);
	return commit(writer, begin, err);
}

enum ldr_status ldr_tree_writer_end(struct ldr_tree_writer *writer, const uint8_t **out_bytes,
				    size_t *out_length, struct ldr_tree_totals *out_totals,
				    struct ldr_error *err)
{
	LDR_AUTO_TREE struct ldr_tree *tree = NULL;
	struct ldr_tree_input input;
	enum ldr_status status;

	assert(!writer->ended);
	if (writer->depth)
		return ldr_fail(err, LDR_EINVAL, "tree: %u folders are still open", writer->depth);
	ldr_buffer_u16(&writer->bytes, 0);
	if (writer->bytes.failed)
		return ldr_fail(err, LDR_ENOMEM, "tree: no room for its end");
	writer->ended = true;
	input = (struct ldr_tree_input){writer->bytes.data, writer->bytes.length, "to be written"};
	status = ldr_tree_parse_as(LDR_TREE_FROM_WRITER, &input, NULL, NULL, &tree, err);
	if (status)
		return status;
	*out_bytes = writer->bytes.data;
	*out_length = writer->bytes.length;
	*out_totals = tree->totals;
	return LDR_OK;
}
