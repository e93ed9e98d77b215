/*
 * Listing large folders: order, duplicates, and the memory that freed lists leave for the next.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vfs/layer_memory.h"
#include "vfs/vfs.h"

#define NAMES_MAX 6000u
#define NAME_BYTES 40u

static char (*names)[NAME_BYTES];
static size_t name_count;

static void setup(void)
{
	names = calloc(NAMES_MAX, sizeof(names[0]));
	cr_assert(names);
	name_count = 0;
}

static void teardown(void)
{
	free(names);
}

TestSuite(listing, .init = setup, .fini = teardown);

/* What names look like: what they all begin with, which bytes follow, and how many of them. */
struct shape {
	const char *prefix;
	const char *alphabet;
	unsigned length_min, length_max;
	size_t count;
};

static const struct shape shapes[] = {
	{"", "ab", 1, 12, 3000},                        /* many with equal keys */
	{"texture_", "0123456789", 5, 5, 5000},         /* digits behind a prefix */
	{"a", "!z~", 0, 30, 10},                        /* few: no keys */
	{"same-for-more-than-eight", "xyz", 0, 9, 900}, /* one is the prefix itself */
	{"", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 8, 9, 4000}, /* begins of one another */
};

static void make_names(const struct shape *shape, uint64_t seed)
{
	size_t letters = strlen(shape->alphabet);

	for (name_count = 0; name_count < shape->count; name_count++) {
		char *name = names[name_count];
		unsigned span = shape->length_max - shape->length_min + 1, length;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		length = shape->length_min + (unsigned)((seed >> 33) % span);
		strcpy(name, shape->prefix); /* style: fixed text */
		for (char *end = name + strlen(name); length > 0; length--) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			*end++ = shape->alphabet[(seed >> 33) % letters];
			*end = '\0';
		}
	}
}

static int by_bytes(const void *left, const void *right)
{
	return strcmp(left, right);
}

/* A name may have been made before. */
static void put(struct ldr_layer *layer, const char *name)
{
	char path[64];
	enum ldr_status status;

	snprintf(path, sizeof(path), "many/%s", name);
	status = ldr_layer_memory_put(layer, path, "x", 1, NULL);
	cr_assert(status == LDR_OK || status == LDR_EEXISTS);
}

static void mount(struct ldr_vfs *vfs, uint32_t id, struct ldr_layer *layer)
{
	const struct ldr_mount wanted = {.id = id, .layer = layer, .at = ""};

	cr_assert_eq(ldr_vfs_mount(vfs, &wanted, NULL), LDR_OK);
	ldr_layer_unref(layer);
}

/* Two layers, so that the names of one come behind those of the other, and a third of them twice. */
static struct ldr_vfs *mounted(void)
{
	struct ldr_layer *layers[2];
	struct ldr_vfs *vfs;

	cr_assert_eq(ldr_vfs_new(NULL, &vfs, NULL), LDR_OK);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(ldr_layer_memory_new(NULL, &layers[i], NULL), LDR_OK);
	for (size_t i = 0; i < name_count; i++) {
		if (i % 3 != 0)
			put(layers[0], names[i]);
		if (i % 3 != 1)
			put(layers[1], names[i]);
	}
	mount(vfs, 1, layers[0]);
	mount(vfs, 2, layers[1]);
	return vfs;
}

static void must_list(struct ldr_list *list)
{
	size_t at = 0;

	for (size_t i = 0; i < name_count; i++) {
		struct ldr_list_entry entry;

		if (i > 0 && strcmp(names[i - 1], names[i]) == 0)
			continue;
		cr_assert_lt(at, ldr_list_count(list));
		ldr_list_at(list, at++, &entry);
		cr_assert_str_eq(entry.name, names[i]);
		cr_assert_eq(entry.name_bytes, strlen(names[i]));
		cr_assert_eq(entry.kind, LDR_KIND_FILE);
	}
	cr_assert_eq(ldr_list_count(list), at);
}

Test(listing, names_come_sorted_and_once)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct ldr_list *list;
		struct ldr_vfs *vfs;

		make_names(&shapes[i], i + 1);
		vfs = mounted();
		qsort(names, name_count, sizeof(names[0]), by_bytes);
		for (unsigned round = 0; round < 3; round++) {
			cr_assert_eq(ldr_vfs_list(vfs, "many", &list, NULL), LDR_OK);
			must_list(list);
			ldr_list_free(list);
		}
		ldr_vfs_free(vfs);
	}
}

/* Lists at the same time share nothing, and one may outlive the instance. */
Test(listing, lists_are_of_their_own)
{
	struct ldr_list *lists[8], *root;
	struct ldr_vfs *vfs;

	make_names(&shapes[1], 7);
	vfs = mounted();
	qsort(names, name_count, sizeof(names[0]), by_bytes);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 8; i++)
			cr_assert_eq(ldr_vfs_list(vfs, "many", &lists[i], NULL), LDR_OK);
		cr_assert_eq(ldr_vfs_list(vfs, "", &root, NULL), LDR_OK);
		cr_assert_eq(ldr_list_count(root), 1);
		for (unsigned i = 0; i < 8; i++) {
			must_list(lists[i]);
			if (round == 0 || i > 0)
				ldr_list_free(lists[i]);
		}
		ldr_list_free(root);
	}
	ldr_vfs_free(vfs);
	must_list(lists[0]);
	ldr_list_free(lists[0]);
}
