/*
 * The builder: archives and releases read back through the product's readers, the same bytes whatever the
 * timing, known and repeated blocks, layouts, and what a change costs.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "packs/builder.h"
#include "tests/unit/packs/build_fixture.h"

static struct folder folder;
static struct store store;

static void begin(void)
{
	umask(022);
	folder_begin(&folder);
	store_begin(&store);
}

static void end(void)
{
	store_end(&store);
	folder_end(&folder);
}

TestSuite(builder, .init = begin, .fini = end);

/* ---- a tree with everything in it ---- */

enum bytes { TEXT, RANDOM, WORDS };

static const struct {
	const char *path;
	enum bytes bytes;
	size_t length;
	mode_t mode;
} files[] = {
	{"data/big.bin", RANDOM, 3000000, 0644},
	{"data/big.txt", WORDS, 2000000, 0600},
	{"data/again/big.txt", WORDS, 2000000, 0644}, /* the same bytes */
	{"data/exact-batch", RANDOM, 512 * 1024, 0644},
	{"data/over-batch", RANDOM, 512 * 1024 + 1, 0644},
	{"data/one-block", WORDS, 16 * 1024, 0644},
	{"data/medium", RANDOM, 200000, 0444},
	{"run", TEXT, 30, 0755},
	{"a.b", TEXT, 1, 0644},
	{"a/x", TEXT, 2, 0644},
	{"empty-file", TEXT, 0, 0644},
};
#define FILES (sizeof(files) / sizeof(files[0]))
/* So many that they pass a batch's limit of blocks. */
#define TINY_FILES 600u

static void make_file(unsigned i)
{
	if (files[i].bytes == RANDOM)
		folder_random(&folder, files[i].path, files[i].length, files[i].length);
	else if (files[i].bytes == WORDS)
		folder_words(&folder, files[i].path, files[i].length, files[i].length);
	else
		folder_file(&folder, files[i].path, "thirty bytes of text, not more",
			    files[i].length);
	folder_mode(&folder, files[i].path, files[i].mode);
}

static void make_tree(unsigned first, unsigned step)
{
	char path[64];

	for (unsigned i = 0; i < FILES; i++)
		make_file((first + i * step) % FILES);
	for (unsigned i = 0; i < TINY_FILES; i++) {
		unsigned number = (first + i * 7) % TINY_FILES;

		snprintf(path, sizeof(path), "tiny/%03u", number);
		folder_file(&folder, path, &number, sizeof(number));
	}
	folder_make(&folder, "hollow/inner", 0711);
	folder_link(&folder, "a/link", "../run");
	folder_link(&folder, "dangling", "data/none");
}

static struct ldr_build_options archive_options(void)
{
	return (struct ldr_build_options){
		.size = sizeof(struct ldr_build_options),
		.kind = LDR_BUILD_ARCHIVE,
		.codec = {LDR_POLICY_LZ4, 0},
		.workers = 2,
		.first_pack_number = store.pack_count,
	};
}

/* ---- archives ---- */

static void expect_whole(const struct ldr_pack *pack, uint64_t blocks)
{
	struct ldr_pack_verify_report report;
	struct ldr_error err = {.status = LDR_OK};

	cr_assert_eq(ldr_pack_verify(pack, NULL, NULL, &report, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(report.blocks, blocks);
}

Test(builder, archive)
{
	struct ldr_build_options options = archive_options();
	LDR_AUTO_BUILD struct ldr_build build = {.tree = NULL};
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	const uint8_t *section;
	uint64_t length;

	options.pack_target_bytes = 100000; /* does not apply */
	options.known.find = store_find_known;
	options.known.context = &store;
	make_tree(0, 1);
	built(&folder, &options, &store, &build);
	cr_assert_eq(build.pack_count, 1);
	cr_assert_eq(build.map_bytes, 0);
	pack = store_open(&store, 0);
	cr_assert(ldr_pack_section(pack, LDR_SECTION_TREE, &section, &length));
	cr_assert_eq(length, build.tree_bytes);
	cr_assert_eq(memcmp(section, build.tree, length), 0);
	expect_whole(pack, build.stats.new_blocks);
	check_build(&folder, &store, &build);
	cr_assert_eq(build.totals.files, FILES + TINY_FILES);
	cr_assert_eq(build.totals.folders, 6);
	cr_assert_eq(build.totals.symlinks, 2);
	/* big.txt is there once, and both references lead to it. */
	cr_assert_leq(build.stats.new_plain_bytes, build.stats.bytes - 2000000);
	cr_assert_eq(build.stats.files_read_again, 0);
	cr_assert_eq(store_files(&store), 1);
}

Test(builder, nothing_to_build)
{
	struct ldr_build_options options = archive_options();
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	struct top_extent extent;
	struct ldr_build build;

	built(&folder, &options, &store, &build);
	cr_assert_eq(build.totals.files + build.totals.folders, 0);
	cr_assert_eq(build.pack_count, 1);
	pack = store_open(&store, 0);
	expect_whole(pack, 0);
	ldr_build_dispose(&build);
	options = release_options(&store);
	built(&folder, &options, &store, &build);
	check_build(&folder, &store, &build);
	check_top(&store, &build, &extent);
	cr_assert_eq(build.map_bytes, 0);
	cr_assert_eq(build.pack_count, 1);
	ldr_build_dispose(&build);
	folder_text(&folder, "empty", "");
	built(&folder, &options, &store, &build);
	cr_assert_eq(build.totals.files, 1);
	cr_assert_eq(build.totals.blocks, 0);
	ldr_build_dispose(&build);
}

Test(builder, aligned_raw_blocks)
{
	struct ldr_build_options options = archive_options();
	LDR_AUTO_BUILD struct ldr_build build = {.tree = NULL};
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	unsigned raw = 0;

	make_tree(0, 1);
	options.align = 4096;
	built(&folder, &options, &store, &build);
	check_build(&folder, &store, &build);
	pack = store_open(&store, 0);
	for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++) {
		struct ldr_pack_entry entry;

		ldr_pack_entry_at(pack, i, &entry);
		if (entry.codec != LDR_CODEC_NONE)
			continue;
		raw++;
		cr_assert_eq(entry.offset % 4096, 0);
	}
	cr_assert_gt(raw, 40);
}

/* ---- releases ---- */

Test(builder, release_of_several_packs)
{
	struct ldr_build_options options = release_options(&store);
	LDR_AUTO_BUILD struct ldr_build build = {.tree = NULL};
	struct top_extent extent;

	options.pack_target_bytes = 700000;
	options.first_pack_number = 0;
	make_tree(0, 1);
	built(&folder, &options, &store, &build);
	cr_assert_gt(build.pack_count, 5);
	for (uint32_t i = 0; i + 1 < build.pack_count; i++) {
		LDR_AUTO_PACK struct ldr_pack *pack = store_open(&store, i);

		cr_assert_gt(build.packs[i].size_bytes, 700000 - 262144);
		cr_assert_leq(build.packs[i].size_bytes,
			      700000 + 256 + ldr_pack_entry_count(pack) * 56 + 400);
	}
	check_build(&folder, &store, &build);
	check_top(&store, &build, &extent);
	cr_assert_eq(build.top.place.pack, build.pack_count - 1);
	cr_assert_eq(extent.elsewhere, 0);
	cr_assert_eq(extent.end - extent.first, extent.stored_bytes, "side by side");
	cr_assert_eq(store_files(&store), build.pack_count);
}

Test(builder, same_bytes_whatever_the_timing)
{
	static const unsigned workers[] = {1, 2, 8, 0};
	struct ldr_id expected[STORE_PACKS_MAX];
	struct ldr_placed_block top = {.place.pack = 0};
	uint32_t count = 0;

	for (unsigned round = 0; round < 8; round++) {
		struct ldr_build_options options = release_options(&store);
		struct ldr_build build;

		make_tree(round, 1 + round % 10);
		options.workers = workers[round % 4];
		options.pack_target_bytes = 1000000;
		options.first_pack_number = 5;
		built(&folder, &options, &store, &build);
		if (round == 0) {
			count = build.pack_count;
			top = build.top;
			memcpy(expected, store.ids, sizeof(expected));
		}
		cr_assert_eq(build.pack_count, count);
		cr_assert_eq(memcmp(expected, store.ids, count * sizeof(expected[0])), 0,
			     "round %u", round);
		cr_assert(ldr_id_equal(&build.top.block.id, &top.block.id));
		cr_assert_eq(build.top.place.pack, 5 + count - 1);
		cr_assert_eq(build.top.place.offset, top.place.offset);
		ldr_build_dispose(&build);
		folder_end(&folder);
		folder_begin(&folder);
		store_end(&store);
		store_begin(&store);
	}
}

/* What a next release costs, in blocks of files. */
static uint64_t new_file_blocks(const struct ldr_build *build, unsigned tree_map_top)
{
	return build->stats.new_blocks - tree_map_top;
}

Test(builder, known_blocks_are_not_stored_again)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_build build;
	struct top_extent extent;
	uint8_t *bytes;
	size_t length;

	make_tree(0, 1);
	built(&folder, &options, &store, &build);
	store_remember(&store, &build);
	ldr_build_dispose(&build);
	/* Nothing changed: no pack at all, and the old top block. */
	options = release_options(&store);
	built(&folder, &options, &store, &build);
	cr_assert_eq(build.pack_count, 0);
	cr_assert_eq(build.stats.new_blocks, 0);
	cr_assert_eq(build.top.place.pack, 0);
	cr_assert_geq(build.stats.known_blocks, build.stats.blocks);
	check_build(&folder, &store, &build);
	check_top(&store, &build, &extent);
	ldr_build_dispose(&build);
	/* One byte in the middle of a large file: one or two blocks, and pieces of tree and map. */
	bytes = folder_read(&folder, "data/big.bin", &length);
	bytes[1500000] ^= 1;
	folder_file(&folder, "data/big.bin", bytes, length);
	built(&folder, &options, &store, &build);
	cr_assert_eq(build.pack_count, 1);
	cr_assert_leq(new_file_blocks(&build, 3), 2);
	check_build(&folder, &store, &build);
	check_top(&store, &build, &extent);
	ldr_build_dispose(&build);
	/* Ten bytes put before everything: the cuts find themselves again. */
	memmove(bytes + 10, bytes, length - 10);
	folder_file(&folder, "data/big.bin", bytes, length);
	options = release_options(&store);
	built(&folder, &options, &store, &build);
	cr_assert_leq(new_file_blocks(&build, 3), 5);
	check_build(&folder, &store, &build);
	ldr_build_dispose(&build);
	free(bytes);
}

Test(builder, a_renamed_folder_costs_no_file_block)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_build build;

	make_tree(0, 1);
	built(&folder, &options, &store, &build);
	store_remember(&store, &build);
	ldr_build_dispose(&build);
	cr_assert_eq(rename(folder_path(&folder, "data"), folder_path(&folder, "assets")), 0);
	options = release_options(&store);
	built(&folder, &options, &store, &build);
	/* Only pieces of tree and map, and the top block. */
	cr_assert_leq(build.stats.new_plain_bytes,
		      build.tree_bytes + build.map_bytes + build.top.block.plain_bytes);
	check_build(&folder, &store, &build);
	ldr_build_dispose(&build);
}

Test(builder, repeated_blocks_are_stored_once)
{
	struct ldr_build_options options = archive_options();
	struct ldr_build build;
	char path[32];

	for (unsigned i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "%u/same", i);
		folder_words(&folder, path, 1, 100000);
	}
	options.workers = 8;
	built(&folder, &options, &store, &build);
	cr_assert_eq(build.stats.new_blocks * 200, build.stats.blocks);
	cr_assert_lt(build.packs[0].size_bytes, 100000);
	check_build(&folder, &store, &build);
	ldr_build_dispose(&build);
}

/* ---- choices ---- */

static const struct ldr_codec_choice raw = {LDR_POLICY_NONE, 0};
static const struct ldr_codec_choice strong = {LDR_POLICY_ZSTD, 9};

static const struct ldr_codec_choice *choose(void *context, const char *path)
{
	unsigned *asked = context;

	++*asked;
	if (strcmp(path, "data/big.txt") == 0)
		return &raw;
	return strcmp(path, "data/one-block") == 0 ? &strong : NULL;
}

static enum ldr_codec codec_of(const struct ldr_build *build, const char *path)
{
	LDR_AUTO_TREE struct ldr_tree *tree = build_tree(build);
	struct ldr_tree_node node;
	uint32_t i;

	cr_assert(ldr_tree_find(tree, path, strlen(path), &i), "%s", path);
	ldr_tree_node(tree, i, &node);
	return build->places[node.first_block].codec;
}

Test(builder, codec_by_path)
{
	struct ldr_build_options options = archive_options();
	LDR_AUTO_BUILD struct ldr_build build = {.tree = NULL};
	unsigned asked = 0;

	make_tree(0, 1);
	folder_remove(&folder, "data/again/big.txt");
	options.codec_for = choose;
	options.codec_context = &asked;
	built(&folder, &options, &store, &build);
	cr_assert_eq(asked, build.totals.files);
	cr_assert_eq(codec_of(&build, "data/big.txt"), LDR_CODEC_NONE);
	cr_assert_eq(codec_of(&build, "data/one-block"), LDR_CODEC_ZSTD);
	cr_assert_eq(codec_of(&build, "data/medium"), LDR_CODEC_NONE, "it does not compress");
	cr_assert_gt(build.stats.codec_blocks[LDR_CODEC_ZSTD], 0);
	check_build(&folder, &store, &build);
}

Test(builder, small_chunks)
{
	struct ldr_build_options options = archive_options();
	LDR_AUTO_BUILD struct ldr_build build = {.tree = NULL};

	/* More blocks in half a megabyte than a batch takes. */
	options.chunks = (struct ldr_chunk_sizes){64, 1024, 4096};
	folder_random(&folder, "big", 1, 3000000);
	folder_random(&folder, "small", 2, 500000);
	built(&folder, &options, &store, &build);
	cr_assert_gt(build.totals.blocks, 2000);
	for (uint64_t i = 0; i < build.totals.blocks; i++)
		cr_assert_leq(build.places[i].stored_bytes, 4096);
	cr_assert_eq(build.stats.bytes, 3500000);
	check_build(&folder, &store, &build);
}

Test(builder, dry_run)
{
	struct ldr_build_options options = release_options(&store);
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_scan *scan = NULL;
	struct ldr_build dry, wet;

	make_tree(0, 1);
	cr_assert_eq(ldr_scan_folder(folder.path, NULL, NULL, &scan, &err), LDR_OK);
	cr_assert_eq(ldr_build_run(scan, &options, NULL, &dry, &err), LDR_OK, "%s", err.text);
	ldr_scan_free(scan);
	built(&folder, &options, &store, &wet);
	cr_assert_eq(dry.pack_count, 0);
	cr_assert_eq(dry.stats.new_blocks, wet.stats.new_blocks);
	cr_assert_eq(dry.stats.new_plain_bytes, wet.stats.new_plain_bytes);
	cr_assert_eq(dry.stats.blocks, wet.stats.blocks);
	cr_assert(ldr_id_equal(&dry.tree_digest, &wet.tree_digest));
	ldr_build_dispose(&dry);
	ldr_build_dispose(&wet);
}

/* ---- layouts ---- */

static uint64_t offset_of(const struct ldr_build *build, const char *path)
{
	LDR_AUTO_TREE struct ldr_tree *tree = build_tree(build);
	struct ldr_tree_node node;
	uint32_t i;

	cr_assert(ldr_tree_find(tree, path, strlen(path), &i), "%s", path);
	ldr_tree_node(tree, i, &node);
	return build->places[node.first_block].offset;
}

Test(builder, layout_orders_the_payload_only)
{
	static const char *const layout[] = {"run", "empty-file", "tiny/300", "data/medium"};
	struct ldr_build_options options = archive_options();
	struct ldr_build plain, laid;

	make_tree(0, 1);
	built(&folder, &options, &store, &plain);
	options.layout = layout;
	options.layout_count = 4;
	options.first_pack_number = store.pack_count;
	built(&folder, &options, &store, &laid);
	check_build(&folder, &store, &laid);
	cr_assert_eq(laid.tree_bytes, plain.tree_bytes);
	cr_assert_eq(memcmp(laid.tree, plain.tree, plain.tree_bytes), 0);
	cr_assert_eq(offset_of(&laid, "run"), LDR_PACK_HEADER_BYTES);
	cr_assert_lt(offset_of(&laid, "run"), offset_of(&laid, "tiny/300"));
	cr_assert_lt(offset_of(&laid, "tiny/300"), offset_of(&laid, "data/medium"));
	cr_assert_lt(offset_of(&laid, "data/medium"), offset_of(&laid, "a/x"));
	cr_assert_lt(offset_of(&plain, "a/x"), offset_of(&plain, "data/medium"));
	cr_assert_eq(laid.packs[0].size_bytes, plain.packs[0].size_bytes);
	ldr_build_dispose(&plain);
	ldr_build_dispose(&laid);
}

Test(builder, layouts_that_are_refused)
{
	static const struct {
		const char *path;
		enum ldr_status status;
	} rows[] = {
		{"no/such", LDR_ENOTFOUND}, {"tiny", LDR_EISDIR},    {"a/link", LDR_ELINK},
		{"run", LDR_EEXISTS},       {"", LDR_ENOTFOUND},     {"./run", LDR_ENOTFOUND},
		{"RUN", LDR_ENOTFOUND},     {"run/", LDR_ENOTFOUND},
	};
	const char *layout[] = {"run", NULL};

	make_tree(0, 1);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_build_options options = archive_options();
		struct ldr_error err = {.status = LDR_OK};
		struct ldr_build build;

		layout[1] = rows[i].path;
		options.layout = layout;
		options.layout_count = 2;
		cr_assert_eq(build_from(&folder, &options, &store, &build, &err), rows[i].status,
			     "%s: %s", rows[i].path, err.text);
		cr_assert_not_null(strstr(err.text, rows[i].path), "%s", err.text);
	}
	cr_assert_eq(store_files(&store), 0);
}
