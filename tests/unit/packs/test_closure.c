/*
 * Closure: a whole release is found whole, and whatever is taken from it or changed in it is named.
 */
#include "packs/closure.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "packs/layout.h"
#include "packs/pack_writer.h"
#include "tests/support/release_world.h"

struct opener {
	struct release_world *world;
	struct ldr_id missing; /* this pack is not there */
	bool hides;
	struct ldr_id swapped; /* for this pack another is given */
	struct ldr_id instead;
	bool swaps;
	unsigned opened;
};

static enum ldr_status open_pack(void *context, const struct ldr_release_pack *listed,
				 struct ldr_pack **out_pack, struct ldr_error *err)
{
	struct opener *opener = context;
	const struct ldr_id *id = &listed->id;
	char path[LDR_STORE_PATH_BYTES];
	int fd = -1;
	enum ldr_status status;

	opener->opened++;
	if (opener->swaps && ldr_id_equal(id, &opener->swapped))
		id = &opener->instead;
	ldr_store_pack_path(id, path);
	if (opener->hides && ldr_id_equal(id, &opener->missing))
		return ldr_fail(err, LDR_ENOTFOUND, "%s: not found", path);
	status = ldr_root_open_file(opener->world->staging, path, &fd, err);
	return status ? status : ldr_pack_open_fd(fd, path, NULL, out_pack, err);
}

static enum ldr_status check(struct opener *opener, const struct world_release *release,
			     struct ldr_closure_report *report, struct ldr_error *err)
{
	struct ldr_closure_packs packs = {open_pack, opener};

	*err = (struct ldr_error){0};
	return ldr_closure_check(&release->release, &packs, report, err);
}

static bool any_row(const struct ldr_closure_report *report, const char *text)
{
	for (unsigned i = 0; i < report->row_count; i++)
		if (strstr(report->rows[i], text))
			return true;
	return false;
}

/* ---- another map for the same release ---- */

static void add_block(struct ldr_pack_writer *writer, const struct ldr_buffer *bytes,
		      uint32_t number, struct ldr_placed_block *out)
{
	*out = (struct ldr_placed_block){
		.block.plain_bytes = (uint32_t)bytes->length,
		.place = {.pack = number, .stored_bytes = (uint32_t)bytes->length},
	};
	cr_assert_eq(ldr_digest_once(bytes->data, bytes->length, &out->block.id, NULL), LDR_OK);
	cr_assert_eq(ldr_pack_writer_append(writer, &out->block, LDR_CODEC_NONE, bytes->data,
					    out->block.plain_bytes, &out->place.offset, NULL),
		     LDR_OK);
}

/* The tree's rows of the release's own top block. Owned by the top. */
static void read_top(struct release_world *world, const struct world_release *release,
		     struct ldr_top *out)
{
	LDR_AUTO_PACK struct ldr_pack *pack = NULL;
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	static uint8_t plain[LDR_BLOCK_MAX_BYTES];
	struct opener opener = {.world = world};
	struct ldr_pack_entry entry;

	cr_assert_eq(open_pack(&opener,
			       ldr_release_pack(&release->release, release->release.top.place.pack),
			       &pack, NULL),
		     LDR_OK);
	cr_assert(ldr_pack_find(pack, &release->release.top.block.id, &entry));
	cr_assert_eq(ldr_pack_read(pack, &entry, coder, NULL, plain, NULL), LDR_OK);
	cr_assert_eq(ldr_top_parse(plain, entry.plain_bytes, out, NULL), LDR_OK);
}

/* Writes a map of the build's places (which the test has changed) and a top block over it into one more
 * pack, and lets the release point there. */
static void remap(struct release_world *world, struct world_release *release)
{
	LDR_AUTO_PACK_WRITER struct ldr_pack_writer *writer = NULL;
	LDR_AUTO_BUFFER struct ldr_buffer map = {0};
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0};
	struct ldr_publish_options options = {.make_parents = true};
	struct ldr_release *r = &release->release;
	uint32_t number = r->packs[r->pack_count - 1].number + 5;
	struct ldr_placed_block placed;
	struct ldr_release_pack *added;
	struct ldr_stream *stream;
	struct ldr_top old;
	struct ldr_top top;
	char path[LDR_STORE_PATH_BYTES];

	read_top(world, release, &old);
	top = old;
	ldr_buffer_init(&map, LDR_BLOCK_MAX_BYTES);
	ldr_buffer_init(&bytes, LDR_BLOCK_MAX_BYTES);
	for (uint64_t i = 0; i < r->totals.blocks; i++)
		ldr_map_put(&map, &release->build.places[i]);
	cr_assert_eq(ldr_stream_begin(world->staging, "", &options, &stream, NULL), LDR_OK);
	cr_assert_eq(ldr_pack_writer_new(stream, NULL, &writer, NULL), LDR_OK);
	add_block(writer, &map, number, &placed);
	top.map = &placed;
	top.map_count = 1;
	cr_assert_eq(ldr_top_write(&top, &bytes, NULL), LDR_OK);
	add_block(writer, &bytes, number, &r->top);
	r->packs = realloc(r->packs, (r->pack_count + 1) * sizeof(*r->packs));
	cr_assert_not_null(r->packs);
	added = &r->packs[r->pack_count++];
	added->number = number;
	cr_assert_eq(ldr_pack_writer_seal(writer, &added->id, &added->size_bytes, NULL), LDR_OK);
	ldr_store_pack_path(&added->id, path);
	cr_assert_eq(ldr_stream_commit(stream, path, NULL, NULL), LDR_OK);
	ldr_top_dispose(&old);
}

/* ---- cases ---- */

Test(closure, a_whole_release_is_whole)
{
	struct release_world world;
	struct world_release release;
	struct ldr_closure_report report;
	struct ldr_error err;
	struct opener opener = {.world = &world};

	release_world_make(&world);
	release_world_build(&world, 1, "live", 1, NULL, &release);
	cr_assert_geq(release.release.pack_count, 3, "a release over several packs");
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_OK, "%s", err.text);
	cr_expect_eq(report.count, 0);
	cr_expect_eq(report.row_count, 0);
	cr_expect_eq(err.status, LDR_OK, "an error that is not touched");
	cr_expect_leq(opener.opened, 2 * release.release.pack_count);
	remap(&world, &release);
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_OK, "a map of our own: %s",
		     err.text);
	cr_expect_eq(check(&opener, &release, NULL, &err), LDR_OK, "without a report");
	world_release_dispose(&release);
	release_world_remove(&world);
}

Test(closure, a_missing_pack_is_named_with_its_blocks_and_their_paths)
{
	struct release_world world;
	struct world_release release;
	struct ldr_closure_report report;
	struct ldr_error err;
	struct opener opener = {.world = &world, .hides = true};
	char hex[LDR_ID_HEX_CHARS + 1];
	uint64_t in_first = 0;

	release_world_make(&world);
	release_world_build(&world, 1, "live", 1, NULL, &release);
	for (uint64_t i = 0; i < release.release.totals.blocks; i++)
		in_first += release.build.places[i].pack == release.release.packs[0].number;
	opener.missing = release.release.packs[0].id;
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_ENOTFOUND);
	ldr_id_to_hex(&opener.missing, hex);
	cr_expect_not_null(strstr(err.text, hex), "%s", err.text);
	cr_expect_eq(report.count, 1 + in_first, "%llu faults, %llu blocks",
		     (unsigned long long)report.count, (unsigned long long)in_first);
	cr_expect(any_row(&report, "file-0"), "no path in: %s", report.rows[1]);
	cr_expect(any_row(&report, "block "));

	/* Without top, tree and map there are no paths to tell, but every pack is still looked at. */
	opener.missing = release.release.packs[release.release.pack_count - 1].id;
	opener.opened = 0;
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_ENOTFOUND);
	cr_expect_not_null(strstr(err.text, "top block"), "%s", err.text);
	cr_expect_geq(opener.opened, release.release.pack_count);
	cr_expect_eq(report.count, 2, "the top block, and the pack");
	world_release_dispose(&release);
	release_world_remove(&world);
}

Test(closure, many_faults_are_counted_and_twenty_are_kept)
{
	struct release_world world;
	struct world_release release;
	struct ldr_closure_report report;
	struct ldr_error err;
	struct opener opener = {.world = &world};

	release_world_make(&world);
	release_world_build(&world, 1, "live", 1, NULL, &release);
	for (uint64_t i = 0; i < release.release.totals.blocks; i++)
		release.build.places[i].offset++;
	remap(&world, &release);
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_ECORRUPT);
	cr_assert_gt(release.release.totals.blocks, LDR_CLOSURE_REPORT_ROWS);
	cr_expect_eq(report.count, release.release.totals.blocks);
	cr_expect_eq(report.row_count, LDR_CLOSURE_REPORT_ROWS);
	cr_expect_str_eq(err.text, report.rows[0]);
	world_release_dispose(&release);
	release_world_remove(&world);
}

/* Each changes one place of the map; the text must be in the fault. */
static void other_offset(struct ldr_release *r, struct ldr_place *place)
{
	(void)r;
	place->offset++;
}

static void other_length(struct ldr_release *r, struct ldr_place *place)
{
	(void)r;
	place->stored_bytes--;
}

static void other_codec(struct ldr_release *r, struct ldr_place *place)
{
	(void)r;
	place->codec = place->codec == LDR_CODEC_NONE ? LDR_CODEC_LZ4 : LDR_CODEC_NONE;
}

static void other_pack(struct ldr_release *r, struct ldr_place *place)
{
	place->pack = r->packs[place->pack == r->packs[0].number ? 1 : 0].number;
	place->offset = 64;
}

static void unlisted_pack(struct ldr_release *r, struct ldr_place *place)
{
	(void)r;
	place->pack = 4711;
}

static void past_the_end(struct ldr_release *r, struct ldr_place *place)
{
	(void)r;
	place->offset = UINT64_C(1) << 40;
}

Test(closure, a_map_that_disagrees_with_a_pack_is_named)
{
	static const struct {
		void (*change)(struct ldr_release *r, struct ldr_place *place);
		const char *text;
	} changes[] = {
		{other_offset, "offset"}, {other_length, "stored length"},
		{other_codec, "codec"},   {other_pack, "not in pack"},
		{unlisted_pack, "4711"},  {past_the_end, "10995"},
	};
	struct release_world world;
	struct opener opener = {.world = &world};
	struct ldr_closure_report report;
	struct ldr_error err;

	release_world_make(&world);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct world_release release;
		uint64_t ordinal = 7;

		release_world_build(&world, 1, "live", 1, NULL, &release);
		changes[i].change(&release.release, &release.build.places[ordinal]);
		remap(&world, &release);
		cr_expect_eq(check(&opener, &release, &report, &err), LDR_ECORRUPT, "%zu", i);
		cr_expect_not_null(strstr(err.text, changes[i].text), "%s not in: %s",
				   changes[i].text, err.text);
		cr_expect_not_null(strstr(err.text, "file-"), "no path in: %s", err.text);
		cr_expect_eq(report.count, 1);
		world_release_dispose(&release);
	}
	release_world_remove(&world);
}

/* Each makes the record say something that its parts do not. */
static void other_size(struct ldr_release *r)
{
	r->packs[0].size_bytes++;
}

static void other_files(struct ldr_release *r)
{
	r->totals.files++;
}

static void other_digest(struct ldr_release *r)
{
	r->tree_digest.bytes[0] ^= 1;
}

static void other_tree_bytes(struct ldr_release *r)
{
	r->tree_bytes++;
}

static void other_map_bytes(struct ldr_release *r)
{
	r->map_bytes += LDR_MAP_ENTRY_BYTES;
}

static void other_top(struct ldr_release *r)
{
	r->top.block.id.bytes[5] ^= 1;
}

static void other_top_place(struct ldr_release *r)
{
	r->top.place.offset++;
}

static void other_top_length(struct ldr_release *r)
{
	r->top.block.plain_bytes++;
}

static void other_top_pack(struct ldr_release *r)
{
	r->top.place.pack = 4711;
}

Test(closure, a_record_that_disagrees_with_its_parts_is_named)
{
	static const struct {
		void (*change)(struct ldr_release *r);
		const char *text;
	} changes[] = {
		{other_size, "the release says"},
		{other_files, "files"},
		{other_digest, "digest"},
		{other_tree_bytes, "tree"},
		{other_map_bytes, "map"},
		{other_top, "not in pack"},
		{other_top_place, "offset"},
		{other_top_length, "plain length"},
		{other_top_pack, "pack number 4711"},
	};
	struct release_world world;
	struct opener opener = {.world = &world};
	struct ldr_closure_report report;
	struct ldr_error err;

	release_world_make(&world);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct world_release release;

		release_world_build(&world, 1, "live", 1, NULL, &release);
		changes[i].change(&release.release);
		cr_expect_eq(check(&opener, &release, &report, &err), LDR_ECORRUPT, "%zu", i);
		cr_expect_not_null(strstr(err.text, changes[i].text), "%s not in: %s",
				   changes[i].text, err.text);
		world_release_dispose(&release);
	}
	release_world_remove(&world);
}

Test(closure, a_pack_of_another_id_or_with_a_changed_bit_is_no_substitute)
{
	struct release_world world;
	struct world_release release;
	struct ldr_closure_report report;
	struct ldr_error err;
	struct opener opener = {.world = &world, .swaps = true};
	struct ldr_publish_options over = {.condition = LDR_IF_ANY};
	char path[LDR_STORE_PATH_BYTES];
	uint8_t *bytes;
	size_t length;
	uint32_t last;

	release_world_make(&world);
	release_world_build(&world, 1, "live", 1, NULL, &release);
	opener.swapped = release.release.packs[0].id;
	opener.instead = release.release.packs[1].id;
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_ECORRUPT);
	cr_expect_not_null(strstr(err.text, "its id is"), "%s", err.text);

	/* A bit of the top block's stored bytes. */
	opener.swaps = false;
	last = release.release.pack_count - 1;
	bytes = release_world_pack(&world, &release, last, &length);
	bytes[release.release.top.place.offset] ^= 1;
	ldr_store_pack_path(&release.release.packs[last].id, path);
	cr_assert_eq(ldr_publish(world.staging, path, bytes, length, &over, NULL, NULL), LDR_OK);
	cr_expect_eq(check(&opener, &release, &report, &err), LDR_ECORRUPT);
	cr_expect_not_null(strstr(err.text, "top block"), "%s", err.text);
	free(bytes);
	world_release_dispose(&release);
	release_world_remove(&world);
}
