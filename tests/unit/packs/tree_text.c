/*
 * Trees for tests; see tree_text.h.
 */
#include "tests/unit/packs/tree_text.h"

#include <stdlib.h>

#include "packs/tree_writer.h"

#define TEST_TREE_MAX_BYTES (64u << 20)

void test_tree_header(struct ldr_buffer *out)
{
	ldr_buffer_put(out, LDR_TREE_MAGIC, 8);
	ldr_buffer_u32(out, LDR_TREE_VERSION);
	ldr_buffer_u32(out, 0);
}

void test_tree_entry(struct ldr_buffer *out, unsigned kind_mode, const void *name, size_t length)
{
	ldr_buffer_u16(out, (uint16_t)kind_mode);
	ldr_buffer_u8(out, (uint8_t)length);
	ldr_buffer_put(out, name, length);
}

void test_tree_symlink(struct ldr_buffer *out, const char *name, const void *target, size_t length)
{
	test_tree_entry(out, LDR_KIND_SYMLINK << 12 | 0777, name, strlen(name));
	ldr_buffer_varint(out, length);
	ldr_buffer_put(out, target, length);
}

void test_tree_file(struct ldr_buffer *out, const char *name, unsigned whole_blocks)
{
	uint8_t id[LDR_ID_BYTES];

	test_tree_entry(out, LDR_KIND_FILE << 12 | 0644, name, strlen(name));
	ldr_buffer_varint(out, whole_blocks + 1);
	for (unsigned i = 0; i <= whole_blocks; i++) {
		memset(id, (int)(i + 1), sizeof(id));
		ldr_buffer_varint(out, i < whole_blocks ? LDR_BLOCK_MAX_BYTES : 5);
		ldr_buffer_put(out, id, sizeof(id));
	}
}

static void put_line(struct ldr_buffer *out, const char *line, size_t length)
{
	char text[4096] = "";
	char *name, *more;

	if (length >= sizeof(text))
		abort();
	memcpy(text, line, length);
	name = length > 2 ? text + 2 : text + length;
	more = strchr(name, '\t');
	if (more)
		*more++ = '\0';
	switch (text[0]) {
	case 'D':
		test_tree_entry(out, LDR_KIND_FOLDER << 12 | 0755, name, strlen(name));
		return;
	case 'E':
		ldr_buffer_u16(out, 0);
		return;
	case 'F':
		test_tree_file(out, name, more ? (unsigned)strtoul(more, NULL, 10) : 0);
		return;
	case 'Z':
		test_tree_entry(out, LDR_KIND_FILE << 12 | 0600, name, strlen(name));
		ldr_buffer_varint(out, 0);
		return;
	case 'L':
		test_tree_symlink(out, name, more ? more : "", more ? strlen(more) : 0);
		return;
	default:
		abort();
	}
}

void test_tree_lines(struct ldr_buffer *out, const char *lines)
{
	while (*lines) {
		const char *end = strchr(lines, '\n');

		if (!end)
			abort();
		put_line(out, lines, (size_t)(end - lines));
		lines = end + 1;
	}
}

struct ldr_buffer test_tree_of(const char *lines)
{
	struct ldr_buffer out;

	ldr_buffer_init(&out, TEST_TREE_MAX_BYTES);
	test_tree_header(&out);
	test_tree_lines(&out, lines);
	ldr_buffer_u16(&out, 0);
	if (out.failed)
		abort();
	return out;
}

/* ---- the judge ---------------------------------------------------------------------------------- */

static const char *path_fault(const struct ldr_tree *tree, uint32_t node)
{
	char path[LDR_PATH_MAX_BYTES + 1];
	size_t length = ldr_tree_path(tree, node, path);
	uint32_t found = UINT32_MAX;

	if (strlen(path) != length || length > LDR_PATH_MAX_BYTES)
		return "length of a path";
	if (node && ldr_path_check(path, length, NULL))
		return "path rule";
	if (!ldr_tree_find(tree, path, length, &found) || found != node)
		return "a path is not found";
	if (length && (path[0] == '/' || !strncmp(path, "../", 3) || strstr(path, "/../")))
		return "a path that climbs";
	return strcasecmp(path, LDR_RESERVED_NAME) ? NULL : "the reserved name";
}

static const char *sibling_fault(const struct ldr_tree *tree, const struct ldr_tree_node *mine,
				 const struct ldr_tree_node *other)
{
	char folded[2][4 * LDR_NAME_MAX_BYTES];
	size_t length[2];

	if (ldr_name_compare(mine->name, mine->name_bytes, other->name, other->name_bytes) >= 0)
		return "order of names";
	if (!ldr_name_fold(mine->name, mine->name_bytes, folded[0], sizeof(folded[0]), length) ||
	    !ldr_name_fold(other->name, other->name_bytes, folded[1], sizeof(folded[1]),
			   length + 1))
		return "a name that does not fold";
	(void)tree;
	return length[0] == length[1] && !memcmp(folded[0], folded[1], length[0]) ? "a clash"
										  : NULL;
}

/* Follows a link the way a system does: a list of what is still to be walked, and the place so far. */
static const char *link_fault(const struct ldr_tree *tree, const struct ldr_tree_node *link)
{
	char todo[64 * (LDR_PATH_MAX_BYTES + 1)];
	struct ldr_tree_node at;
	uint32_t place = link->parent;
	unsigned links = 1;

	memcpy(todo, link->target, link->target_bytes);
	todo[link->target_bytes] = '\0';
	while (*todo) {
		char path[LDR_PATH_MAX_BYTES + 2 + LDR_PATH_MAX_BYTES + 1];
		size_t step = strcspn(todo, "/"), length;
		char name[LDR_PATH_MAX_BYTES + 1];

		memcpy(name, todo, step);
		name[step] = '\0';
		memmove(todo, todo + step + (todo[step] == '/'), strlen(todo + step) + 1);
		if (!step || !strcmp(name, "."))
			return "an absolute or odd target";
		if (!strcmp(name, "..")) {
			if (!place)
				return "a link that leaves the tree";
			ldr_tree_node(tree, place, &at);
			place = at.parent;
			continue;
		}
		length = ldr_tree_path(tree, place, path);
		if (length)
			path[length++] = '/';
		memcpy(path + length, name, step + 1);
		if (!ldr_tree_find(tree, path, strlen(path), &place))
			return NULL; /* dangling */
		ldr_tree_node(tree, place, &at);
		if (at.kind == LDR_KIND_FILE)
			return NULL;
		if (at.kind == LDR_KIND_SYMLINK) {
			size_t rest = strlen(todo);

			if (++links > 40)
				return "too many links";
			memmove(todo + at.target_bytes + (rest ? 1 : 0), todo, rest + 1);
			memcpy(todo, at.target, at.target_bytes);
			if (rest)
				todo[at.target_bytes] = '/';
			place = at.parent;
		}
	}
	return NULL;
}

static const char *file_fault(const struct ldr_tree *tree, const struct ldr_tree_node *file,
			      struct ldr_tree_totals *sum)
{
	uint64_t size = 0;

	if (file->first_block != sum->blocks)
		return "ordinals of blocks";
	for (uint64_t i = 0; i < file->block_count; i++) {
		const struct ldr_block_ref *block = ldr_tree_block(tree, file->first_block + i);

		if (!block->plain_bytes || block->plain_bytes > LDR_BLOCK_MAX_BYTES)
			return "length of a block";
		size += block->plain_bytes;
	}
	if (size != file->size_bytes)
		return "size of a file";
	sum->files++;
	sum->bytes += size;
	sum->blocks += file->block_count;
	return NULL;
}

static const char *node_fault(const struct ldr_tree *tree, uint32_t node,
			      struct ldr_tree_totals *sum)
{
	struct ldr_tree_node mine, parent, next;
	const char *fault = path_fault(tree, node);

	ldr_tree_node(tree, node, &mine);
	ldr_tree_node(tree, mine.parent, &parent);
	if (fault)
		return fault;
	if (parent.kind != LDR_KIND_FOLDER || (node && mine.parent >= node))
		return "parents";
	if (mine.mode > 0777 || mine.end > parent.end || mine.end <= node)
		return "mode or end";
	if (node && ldr_name_check_portable(mine.name, mine.name_bytes, NULL))
		return "a name that is not portable";
	for (uint32_t other = mine.end; node && other < parent.end && !fault; other = next.end) {
		ldr_tree_node(tree, other, &next);
		fault = sibling_fault(tree, &mine, &next);
	}
	if (fault)
		return fault;
	if (mine.kind == LDR_KIND_FILE)
		return file_fault(tree, &mine, sum);
	sum->folders += node && mine.kind == LDR_KIND_FOLDER;
	sum->symlinks += mine.kind == LDR_KIND_SYMLINK;
	return mine.kind == LDR_KIND_SYMLINK ? link_fault(tree, &mine) : NULL;
}

const char *test_tree_fault(const struct ldr_tree *tree)
{
	struct ldr_tree_totals sum = {0};
	const char *fault = NULL;

	for (uint32_t node = 0; node < ldr_tree_node_count(tree) && !fault; node++)
		fault = node_fault(tree, node, &sum);
	if (!fault && memcmp(&sum, ldr_tree_totals(tree), sizeof(sum)))
		fault = "totals";
	return fault;
}

static enum ldr_status write_node(const struct ldr_tree *tree, struct ldr_tree_writer *writer,
				  const struct ldr_tree_node *node)
{
	static const struct ldr_block_ref none;
	char name[LDR_NAME_MAX_BYTES + 1], target[LDR_PATH_MAX_BYTES + 1];

	memcpy(name, node->name, node->name_bytes);
	name[node->name_bytes] = '\0';
	if (node->kind == LDR_KIND_FOLDER)
		return ldr_tree_writer_folder_begin(writer, name, node->mode, NULL);
	if (node->kind == LDR_KIND_FILE)
		return ldr_tree_writer_file(
			writer, name, node->mode,
			node->block_count ? ldr_tree_block(tree, node->first_block) : &none,
			node->block_count, NULL);
	memcpy(target, node->target, node->target_bytes);
	target[node->target_bytes] = '\0';
	return ldr_tree_writer_symlink(writer, name, node->mode, target, NULL);
}

static enum ldr_status write_nodes(const struct ldr_tree *tree, struct ldr_tree_writer *writer)
{
	enum ldr_status status = LDR_OK;
	struct ldr_tree_node node, folder;
	uint32_t open = 0;

	for (uint32_t at = 1; at < ldr_tree_node_count(tree) && !status; at++) {
		ldr_tree_node(tree, at, &node);
		for (; open != node.parent && !status; open = folder.parent) {
			ldr_tree_node(tree, open, &folder);
			status = ldr_tree_writer_folder_end(writer, NULL);
		}
		if (!status)
			status = write_node(tree, writer, &node);
		if (node.kind == LDR_KIND_FOLDER)
			open = at;
	}
	for (; open && !status; open = folder.parent) {
		ldr_tree_node(tree, open, &folder);
		status = ldr_tree_writer_folder_end(writer, NULL);
	}
	return status;
}

const char *test_tree_spelling_fault(const struct ldr_tree *tree, const void *bytes, size_t length)
{
	LDR_AUTO_TREE_WRITER struct ldr_tree_writer *writer = NULL;
	const uint8_t *made = NULL;
	struct ldr_tree_totals totals;
	size_t made_length = 0;

	if (ldr_tree_writer_new(&writer, NULL) || write_nodes(tree, writer) ||
	    ldr_tree_writer_end(writer, &made, &made_length, &totals, NULL))
		return "the writer refuses it";
	return made_length == length && memcmp(made, bytes, length) == 0 ? NULL
									 : "another spelling";
}
