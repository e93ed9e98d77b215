/*
 * What an installed folder remembers; see installation.h.
 */
#include "client/installation.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/checksum.h"
#include "packs/release.h"

#define MAGIC "LARDINST"
#define VERSION 1u
#define HEAD_BYTES 40u
#define STAMP_BYTES 16u
#define MAX_BYTES (UINT64_C(2) << 30)

static enum ldr_status parse_head(struct ldr_cursor *cursor, size_t length,
				  struct ldr_installation *out, uint64_t *out_nodes,
				  struct ldr_error *err)
{
	const uint8_t *magic = ldr_cursor_bytes(cursor, 8);
	uint32_t version = ldr_cursor_u32(cursor);
	uint32_t flags = ldr_cursor_u32(cursor);
	uint64_t body = length - HEAD_BYTES - 8;

	out->record_length = ldr_cursor_u64(cursor);
	out->tree_length = ldr_cursor_u64(cursor);
	*out_nodes = ldr_cursor_u64(cursor);
	if (memcmp(magic, MAGIC, 8) != 0 || version != VERSION || flags)
		return ldr_fail(err, LDR_ECORRUPT, "version %u, flags %u, wanted %u and 0", version,
				flags, VERSION);
	if (out->record_length > LDR_RELEASE_MAX_BYTES || out->tree_length > body ||
	    *out_nodes > body / STAMP_BYTES ||
	    out->record_length + out->tree_length + *out_nodes * STAMP_BYTES != body)
		return ldr_fail(err, LDR_ECORRUPT, "lengths do not add up to %" PRIu64, body);
	return LDR_OK;
}

static enum ldr_status parse(size_t length, struct ldr_installation *out, struct ldr_error *err)
{
	struct ldr_cursor cursor = ldr_cursor_over(out->bytes, length);
	uint64_t nodes;
	enum ldr_status status;

	if (length < HEAD_BYTES + 8)
		return ldr_fail(err, LDR_ECORRUPT, "%zu bytes, at least %u", length,
				HEAD_BYTES + 8);
	if (ldr_get_le(out->bytes + length - 8, 8) != ldr_checksum(out->bytes, length - 8))
		return ldr_fail(err, LDR_ECORRUPT, "checksum differs");
	status = parse_head(&cursor, length, out, &nodes, err);
	if (status)
		return status;
	out->record = (const char *)ldr_cursor_bytes(&cursor, out->record_length);
	out->tree_bytes = ldr_cursor_bytes(&cursor, out->tree_length);
	out->stamps = ldr_cursor_bytes(&cursor, nodes * STAMP_BYTES);
	status = ldr_tree_parse(out->tree_bytes, out->tree_length, "installed tree", NULL, NULL,
				&out->tree, err);
	if (!status && ldr_tree_node_count(out->tree) != nodes)
		status = ldr_fail(err, LDR_ECORRUPT, "%" PRIu64 " stamps for %u nodes", nodes,
				  ldr_tree_node_count(out->tree));
	return status;
}

enum ldr_status ldr_installation_parse(uint8_t *bytes, size_t length, struct ldr_installation *out,
				       struct ldr_error *err)
{
	struct ldr_installation made = {.bytes = bytes};
	enum ldr_status status = parse(length, &made, err);

	if (status)
		ldr_installation_dispose(&made);
	else
		*out = made;
	return status;
}

enum ldr_status ldr_installation_read(const struct ldr_root *target, const char *path,
				      struct ldr_installation *out, struct ldr_error *err)
{
	uint8_t *bytes;
	size_t length;
	enum ldr_status status = ldr_root_read_file(target, path, MAX_BYTES, &bytes, &length, err);

	if (status)
		return status;
	status = ldr_installation_parse(bytes, length, out, err);
	return ldr_error_prefix(err, status, "%s/%s", ldr_root_path(target), path);
}

void ldr_installation_dispose(struct ldr_installation *installation)
{
	ldr_tree_free(installation->tree);
	free(installation->bytes);
	*installation = (struct ldr_installation){0};
}

struct ldr_file_stamp ldr_installation_stamp(const struct ldr_installation *installation,
					     uint32_t node)
{
	const uint8_t *row = installation->stamps + (size_t)node * STAMP_BYTES;

	return (struct ldr_file_stamp){.modified_ns = ldr_get_le(row, 8),
				       .inode = ldr_get_le(row + 8, 8)};
}

enum ldr_status ldr_installation_write(const void *record, size_t record_length,
				       const void *tree_bytes, size_t tree_length,
				       const struct ldr_file_stamp *stamps, uint32_t node_count,
				       struct ldr_buffer *out, struct ldr_error *err)
{
	ldr_buffer_init(out, MAX_BYTES);
	ldr_buffer_put(out, MAGIC, 8);
	ldr_buffer_u32(out, VERSION);
	ldr_buffer_u32(out, 0);
	ldr_buffer_u64(out, record_length);
	ldr_buffer_u64(out, tree_length);
	ldr_buffer_u64(out, node_count);
	ldr_buffer_put(out, record, record_length);
	ldr_buffer_put(out, tree_bytes, tree_length);
	for (uint32_t i = 0; i < node_count; i++) {
		ldr_buffer_u64(out, stamps ? stamps[i].modified_ns : 0);
		ldr_buffer_u64(out, stamps ? stamps[i].inode : 0);
	}
	if (!out->failed)
		ldr_buffer_u64(out, ldr_checksum(out->data, out->length));
	if (out->failed)
		return ldr_fail(err, LDR_ENOMEM, "record of the installation: %zu bytes of tree",
				tree_length);
	return LDR_OK;
}
