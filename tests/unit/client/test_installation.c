/*
 * The record of an installation: what is written is read back; every damage is noticed, and nothing of a
 * damaged one is used.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/installation.h"
#include "common/checksum.h"
#include "packs/release.h"
#include "tests/support/client_world.h"

#define HEAD 40

static struct client_world world;
static struct ldr_root *root;
static uint8_t *good; /* a real record's bytes */
static size_t good_length;

static void setup(void)
{
	client_world_make(&world);
	client_text(&world, "tree/a", "a");
	client_text(&world, "tree/deep/b", "b");
	client_publish(&world, "tree", "live");
	cr_assert_eq(client_fetch(&world, "live", "out", NULL, NULL), LDR_OK);
	cr_assert_eq(ldr_root_open(world.folder, false, &root, NULL), LDR_OK);
	cr_assert_eq(ldr_root_read_file(root, "out/.larder/installed", 1u << 20, &good,
					&good_length, NULL),
		     LDR_OK);
}

static void teardown(void)
{
	free(good);
	ldr_root_close(root);
	client_world_remove(&world);
}

TestSuite(installation, .init = setup, .fini = teardown);

static enum ldr_status reread(const uint8_t *bytes, size_t length, struct ldr_installation *out,
			      struct ldr_error *err)
{
	const struct ldr_publish_options options = {.sync = LDR_SYNC_NONE};

	cr_assert_eq(ldr_publish(root, "record", bytes, length, &options, NULL, NULL), LDR_OK);
	return ldr_installation_read(root, "record", out, err);
}

Test(installation, what_is_written_is_read_back)
{
	LDR_AUTO_INSTALLATION struct ldr_installation first = {0}, second = {0};
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0};
	struct ldr_file_stamp stamps[4];
	struct ldr_error err = {0};
	uint32_t nodes;

	cr_assert_eq(reread(good, good_length, &first, &err), LDR_OK, "%s", err.text);
	nodes = ldr_tree_node_count(first.tree);
	cr_assert_eq(nodes, 4); /* root, a, deep, deep/b */
	for (uint32_t i = 0; i < nodes; i++)
		stamps[i] = (struct ldr_file_stamp){UINT64_MAX - i, i + 1};
	cr_assert_eq(ldr_installation_write(NULL, 0, first.tree_bytes, first.tree_length, stamps,
					    nodes, &bytes, &err),
		     LDR_OK);
	cr_assert_eq(reread(bytes.data, bytes.length, &second, &err), LDR_OK, "%s", err.text);
	cr_assert_eq(second.record_length, 0);
	for (uint32_t i = 0; i < nodes; i++) {
		struct ldr_file_stamp stamp = ldr_installation_stamp(&second, i);

		cr_assert(stamp.modified_ns == UINT64_MAX - i && stamp.inode == i + 1);
	}
	cr_assert_eq(err.status, LDR_OK);
	cr_assert_eq(ldr_installation_read(root, "nothing", &second, NULL), LDR_ENOTFOUND);
}

Test(installation, every_changed_byte_and_every_cut_is_noticed)
{
	struct ldr_installation out = {.record_length = 99};
	uint8_t *bytes = malloc(good_length + 1);

	cr_assert(bytes);
	for (size_t i = 0; i < good_length; i += i < 64 ? 1 : 37) {
		memcpy(bytes, good, good_length);
		bytes[i] ^= 1;
		cr_assert_eq(reread(bytes, good_length, &out, NULL), LDR_ECORRUPT, "byte %zu", i);
		cr_assert_eq(reread(good, i, &out, NULL), LDR_ECORRUPT, "cut at %zu", i);
	}
	memcpy(bytes, good, good_length);
	bytes[good_length] = 0;
	cr_assert_eq(reread(bytes, good_length + 1, &out, NULL), LDR_ECORRUPT);
	cr_assert_eq(out.record_length, 99); /* outputs are written on success only */
	free(bytes);
}

/* Fields that lie, under a right checksum. */
Test(installation, fields_that_do_not_fit_are_refused)
{
	static const struct {
		unsigned at, width;
		uint64_t value;
		const char *says;
	} rows[] = {
		{0, 8, 0, "version"},
		{8, 4, 2, "version 2"},
		{12, 4, 1, "flags 1"},
		{16, 8, 0, "add up"},
		{16, 8, UINT64_MAX, "add up"},
		{16, 8, LDR_RELEASE_MAX_BYTES + 1, "add up"},
		{24, 8, 0, "add up"},
		{24, 8, UINT64_MAX, "add up"},
		{24, 8, UINT64_MAX - 100, "add up"},
		{32, 8, 0, "add up"},
		{32, 8, UINT64_MAX / 16 + 1, "add up"},
		{32, 8, UINT64_C(1) << 60, "add up"},
	};
	uint8_t *bytes = malloc(good_length);

	cr_assert(bytes);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ldr_installation out = {0};
		struct ldr_error err = {0};

		memcpy(bytes, good, good_length);
		ldr_put_le(bytes + rows[i].at, rows[i].width, rows[i].value);
		ldr_put_le(bytes + good_length - 8, 8, ldr_checksum(bytes, good_length - 8));
		cr_expect_eq(reread(bytes, good_length, &out, &err), LDR_ECORRUPT, "row %zu", i);
		cr_expect(strstr(err.text, rows[i].says) && strstr(err.text, "/record"), "%s",
			  err.text);
	}
	free(bytes);
}

/* The lengths add up, but there are more stamps than nodes, or the tree is none. */
Test(installation, a_tree_that_does_not_fit_its_stamps_is_refused)
{
	LDR_AUTO_INSTALLATION struct ldr_installation whole = {0};
	LDR_AUTO_BUFFER struct ldr_buffer bytes = {0}, rotten = {0};
	struct ldr_installation out = {0};
	struct ldr_error err = {0};

	cr_assert_eq(reread(good, good_length, &whole, NULL), LDR_OK);
	cr_assert_eq(ldr_installation_write(NULL, 0, whole.tree_bytes, whole.tree_length, NULL,
					    ldr_tree_node_count(whole.tree) + 1, &bytes, NULL),
		     LDR_OK);
	cr_assert_eq(reread(bytes.data, bytes.length, &out, &err), LDR_ECORRUPT);
	cr_assert(strstr(err.text, "5 stamps for 4 nodes"), "%s", err.text);
	cr_assert_eq(ldr_installation_write(NULL, 0, "no tree", 7, NULL, 1, &rotten, NULL), LDR_OK);
	cr_assert_neq(reread(rotten.data, rotten.length, &out, NULL), LDR_OK);
}
