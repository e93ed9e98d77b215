/*
 * Builds for the tests of the builder; see build_fixture.h.
 */
#include "tests/unit/packs/build_fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "packs/map.h"

/* ---- the store ---- */

static enum ldr_status begin_pack(void *context, struct ldr_stream **out_stream,
				  struct ldr_error *err)
{
	struct ldr_publish_options options = {.condition = LDR_IF_ANY};
	struct store *store = context;

	if (++store->begun == store->fail_begin)
		return ldr_fail(err, LDR_ENOSPACE, "no room for pack %u", store->begun);
	return ldr_stream_begin(store->root, "", &options, out_stream, err);
}

static enum ldr_status finish_pack(void *context, struct ldr_stream *stream,
				   const struct ldr_id *id, uint64_t size_bytes, uint32_t ordinal,
				   struct ldr_error *err)
{
	struct store *store = context;
	char hex[LDR_ID_HEX_CHARS + 1];

	cr_assert_eq(ldr_stream_length(stream), size_bytes);
	cr_assert_eq(ordinal, store->finished);
	if (++store->finished == store->fail_finish) {
		ldr_stream_abort(stream);
		return ldr_fail(err, LDR_EDENIED, "pack %u is not wanted", store->finished);
	}
	cr_assert_lt(store->pack_count, STORE_PACKS_MAX);
	store->ids[store->pack_count++] = *id;
	ldr_id_to_hex(id, hex);
	return ldr_stream_commit(stream, hex, NULL, err);
}

void store_begin(struct store *store)
{
	struct ldr_error err = {.status = LDR_OK};

	*store = (struct store){.pack_count = 0};
	folder_begin(&store->folder);
	cr_assert_eq(ldr_root_open(store->folder.path, false, &store->root, &err), LDR_OK);
	store->sink = (struct ldr_pack_sink){begin_pack, finish_pack, store};
}

void store_end(struct store *store)
{
	ldr_root_close(store->root);
	folder_end(&store->folder);
	free(store->known);
}

unsigned store_files(const struct store *store)
{
	DIR *listing = opendir(store->folder.path);
	unsigned count = 0;

	cr_assert_not_null(listing);
	while (readdir(listing))
		count++;
	closedir(listing);
	return count - 2;
}

struct ldr_pack *store_open(const struct store *store, uint32_t number)
{
	struct ldr_pack_options options = {.expected_id = &store->ids[number]};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_pack *pack = NULL;
	char hex[LDR_ID_HEX_CHARS + 1];

	cr_assert_lt(number, store->pack_count);
	ldr_id_to_hex(&store->ids[number], hex);
	cr_assert_eq(ldr_pack_open(folder_path(&store->folder, hex), &options, &pack, &err), LDR_OK,
		     "%s", err.text);
	return pack;
}

void store_block(const struct store *store, const struct ldr_placed_block *placed, uint8_t *plain)
{
	LDR_AUTO_PACK struct ldr_pack *pack = store_open(store, placed->place.pack);
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_pack_entry entry;

	cr_assert(ldr_pack_find(pack, &placed->block.id, &entry));
	cr_assert_eq(entry.offset, placed->place.offset);
	cr_assert_eq(entry.stored_bytes, placed->place.stored_bytes);
	cr_assert_eq(entry.codec, placed->place.codec);
	cr_assert_eq(entry.plain_bytes, placed->block.plain_bytes);
	cr_assert_eq(ldr_pack_read(pack, &entry, coder, hasher, plain, &err), LDR_OK, "%s",
		     err.text);
}

bool store_find_known(void *context, const struct ldr_id *id, struct ldr_place *out_place)
{
	const struct store *store = context;

	for (size_t i = 0; i < store->known_count; i++)
		if (ldr_id_equal(&store->known[i].block.id, id)) {
			*out_place = store->known[i].place;
			return true;
		}
	return false;
}

static void remember(struct store *store, const struct ldr_placed_block *placed)
{
	store->known = reallocarray(store->known, store->known_count + 1, sizeof(*store->known));
	cr_assert_not_null(store->known);
	store->known[store->known_count++] = *placed;
}

/* ---- building ---- */

struct ldr_build_options release_options(const struct store *store)
{
	return (struct ldr_build_options){
		.size = sizeof(struct ldr_build_options),
		.kind = LDR_BUILD_RELEASE,
		.codec = {LDR_POLICY_AUTO, 3},
		.workers = 2,
		.first_pack_number = store->pack_count,
		.known = {.find = store->known_count ? store_find_known : NULL,
			  .context = (void *)(uintptr_t)store},
	};
}

enum ldr_status build_from(const struct folder *folder, const struct ldr_build_options *options,
			   struct store *store, struct ldr_build *out_build, struct ldr_error *err)
{
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	enum ldr_status status = ldr_scan_folder(folder->path, NULL, NULL, &scan, err);

	cr_assert_eq(status, LDR_OK, "%s", err->text);
	store->begun = store->finished = 0;
	return ldr_build_run(scan, options, &store->sink, out_build, err);
}

void built(const struct folder *folder, const struct ldr_build_options *options,
	   struct store *store, struct ldr_build *out_build)
{
	struct ldr_error err = {.status = LDR_OK};
	unsigned before = store->pack_count;
	enum ldr_status status = build_from(folder, options, store, out_build, &err);

	cr_assert_eq(status, LDR_OK, "%s", err.text);
	cr_assert_eq(out_build->pack_count, store->pack_count - before);
	for (uint32_t i = 0; i < out_build->pack_count; i++) {
		LDR_AUTO_PACK struct ldr_pack *pack = store_open(store, before + i);

		cr_assert(ldr_id_equal(&out_build->packs[i].id, &store->ids[before + i]));
		cr_assert_eq(out_build->packs[i].size_bytes, ldr_pack_size(pack));
	}
}

struct ldr_tree *build_tree(const struct ldr_build *build)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_tree *tree = NULL;

	cr_assert_eq(ldr_tree_parse(build->tree, build->tree_bytes, "built", NULL, &build->totals,
				    &tree, &err),
		     LDR_OK, "%s", err.text);
	return tree;
}

/* ---- checking ---- */

static void check_file(const struct folder *folder, const struct store *store,
		       const struct ldr_build *build, const struct ldr_tree *tree,
		       const struct ldr_tree_node *node, const char *path)
{
	size_t length;
	LDR_AUTO_FREE uint8_t *bytes = folder_read(folder, path, &length);
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);
	size_t at = 0;

	cr_assert_eq(node->size_bytes, length, "%s", path);
	for (uint64_t i = 0; i < node->block_count; i++) {
		uint64_t ordinal = node->first_block + i;
		struct ldr_placed_block placed = {*ldr_tree_block(tree, ordinal),
						  build->places[ordinal]};

		store_block(store, &placed, plain);
		cr_assert_eq(memcmp(plain, bytes + at, placed.block.plain_bytes), 0, "%s, block %u",
			     path, (unsigned)i);
		at += placed.block.plain_bytes;
	}
	cr_assert_eq(at, length);
	free(plain);
}

static void check_node(const struct folder *folder, const struct store *store,
		       const struct ldr_build *build, const struct ldr_tree *tree, uint32_t i)
{
	char path[LDR_PATH_MAX_BYTES + 1], target[4096];
	struct ldr_tree_node node;
	struct stat found;

	ldr_tree_node(tree, i, &node);
	ldr_tree_path(tree, i, path);
	cr_assert_eq(lstat(folder_path(folder, path), &found), 0, "%s", path);
	if (node.kind == LDR_KIND_SYMLINK) {
		ssize_t length = readlink(folder_path(folder, path), target, sizeof(target));

		cr_assert_eq(length, (ssize_t)node.target_bytes);
		cr_assert_eq(memcmp(target, node.target, node.target_bytes), 0);
		return;
	}
	cr_assert_eq(node.mode, found.st_mode & 0777, "%s", path);
	if (node.kind == LDR_KIND_FOLDER)
		cr_assert(S_ISDIR(found.st_mode), "%s", path);
	else
		check_file(folder, store, build, tree, &node, path);
}

void check_build(const struct folder *folder, const struct store *store,
		 const struct ldr_build *build)
{
	LDR_AUTO_TREE struct ldr_tree *tree = build_tree(build);
	LDR_AUTO_SCAN struct ldr_scan *scan = NULL;
	struct ldr_error err = {.status = LDR_OK};
	const struct ldr_build_stats *stats = &build->stats;
	struct ldr_id digest;

	cr_assert_eq(ldr_scan_folder(folder->path, NULL, NULL, &scan, &err), LDR_OK);
	cr_assert_eq(ldr_scan_count(scan), ldr_tree_node_count(tree));
	for (uint32_t i = 1; i < ldr_tree_node_count(tree); i++)
		check_node(folder, store, build, tree, i);
	cr_assert_eq(ldr_digest_once(build->tree, build->tree_bytes, &digest, &err), LDR_OK);
	cr_assert(ldr_id_equal(&digest, &build->tree_digest));
	cr_assert_eq(stats->files, build->totals.files);
	cr_assert_eq(stats->bytes, ldr_scan_totals(scan)->bytes);
	cr_assert_eq(stats->blocks, build->totals.blocks);
	cr_assert_eq(stats->new_blocks,
		     stats->codec_blocks[0] + stats->codec_blocks[1] + stats->codec_blocks[2]);
	cr_assert_eq(stats->new_plain_bytes, stats->codec_plain_bytes[0] +
						     stats->codec_plain_bytes[1] +
						     stats->codec_plain_bytes[2]);
	cr_assert_eq(stats->new_stored_bytes, stats->codec_stored_bytes[0] +
						      stats->codec_stored_bytes[1] +
						      stats->codec_stored_bytes[2]);
}

static void read_top(const struct store *store, const struct ldr_build *build,
		     struct ldr_top *out_top)
{
	struct ldr_error err = {.status = LDR_OK};
	uint8_t *plain = malloc(LDR_BLOCK_MAX_BYTES);

	store_block(store, &build->top, plain);
	cr_assert_eq(ldr_top_parse(plain, build->top.block.plain_bytes, out_top, &err), LDR_OK,
		     "%s", err.text);
	free(plain);
}

static void note_extent(const struct ldr_build *build, const struct ldr_placed_block *placed,
			struct top_extent *extent)
{
	uint64_t end = placed->place.offset + placed->place.stored_bytes;

	if (placed->place.pack != build->top.place.pack) {
		extent->elsewhere++;
		return;
	}
	if (placed->place.offset < extent->first)
		extent->first = placed->place.offset;
	if (end > extent->end)
		extent->end = end;
	extent->stored_bytes += placed->place.stored_bytes;
}

static void read_rows(const struct store *store, const struct ldr_build *build,
		      const struct ldr_placed_block *rows, uint32_t count,
		      struct ldr_buffer *out_bytes, struct top_extent *extent)
{
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *room = ldr_buffer_extend(out_bytes, rows[i].block.plain_bytes);

		cr_assert_not_null(room);
		store_block(store, &rows[i], room);
		note_extent(build, &rows[i], extent);
	}
}

void check_top(const struct store *store, const struct ldr_build *build,
	       struct top_extent *out_extent)
{
	LDR_AUTO_BUFFER struct ldr_buffer tree;
	LDR_AUTO_BUFFER struct ldr_buffer map;
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_top top;

	*out_extent = (struct top_extent){.first = UINT64_MAX};
	ldr_buffer_init(&tree, SIZE_MAX / 2);
	ldr_buffer_init(&map, SIZE_MAX / 2);
	read_top(store, build, &top);
	note_extent(build, &build->top, out_extent);
	read_rows(store, build, top.tree, top.tree_count, &tree, out_extent);
	read_rows(store, build, top.map, top.map_count, &map, out_extent);
	cr_assert_eq(tree.length, build->tree_bytes);
	cr_assert_eq(memcmp(tree.data, build->tree, tree.length), 0);
	cr_assert_eq(map.length, build->map_bytes);
	cr_assert_eq(map.length, build->totals.blocks * LDR_MAP_ENTRY_BYTES);
	for (uint64_t i = 0; i < build->totals.blocks; i++) {
		struct ldr_place place;

		cr_assert_eq(ldr_map_get(map.data, map.length, 0, i, &place, &err), LDR_OK);
		cr_assert_eq(place.pack, build->places[i].pack);
		cr_assert_eq(place.offset, build->places[i].offset);
		cr_assert_eq(place.stored_bytes, build->places[i].stored_bytes);
		cr_assert_eq(place.codec, build->places[i].codec);
	}
	ldr_top_dispose(&top);
}

void store_remember(struct store *store, const struct ldr_build *build)
{
	LDR_AUTO_TREE struct ldr_tree *tree = build_tree(build);
	struct ldr_top top;

	for (uint64_t i = 0; i < build->totals.blocks; i++)
		remember(store,
			 &(struct ldr_placed_block){*ldr_tree_block(tree, i), build->places[i]});
	read_top(store, build, &top);
	for (uint32_t i = 0; i < top.tree_count; i++)
		remember(store, &top.tree[i]);
	for (uint32_t i = 0; i < top.map_count; i++)
		remember(store, &top.map[i]);
	remember(store, &build->top);
	ldr_top_dispose(&top);
}
