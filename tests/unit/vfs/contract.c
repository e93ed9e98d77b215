/*
 * The content and the stacks; see contract.h.
 */
#include "tests/unit/vfs/contract.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/archive.h"
#include "tests/support/table_layer.h"
#include "vfs/layer_memory.h"
#include "vfs/layer_native.h"
#include "vfs/layer_tree.h"

static char deep[CONTRACT_DEEP_BYTES];

const struct contract_file contract_content[] = {
	{"readme.txt", "hello, world\n", 13},
	{"empty", "", 0},
	{"dir", NULL, 0},
	{"dir/a", "a", 1},
	{"dir/b", "bb", 2},
	{"dir/\xc3\xbcml\xc3\xa4ut.txt", "u", 1},
	{"dir/sub", NULL, 0},
	{"dir/sub/deep.bin", deep, sizeof(deep)},
	{"other", NULL, 0},
	{"other/.hidden", "h", 1},
	{"other/...x", "dots", 4},
};
const size_t contract_content_count = sizeof(contract_content) / sizeof(contract_content[0]);

static void fill_deep(void)
{
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = (char)contract_byte(i);
}

static void must(enum ldr_status status, const struct ldr_error *err)
{
	cr_assert_eq(status, LDR_OK, "%s", err->text);
}

/* Every second row, so that stacks have some content in each layer. */
enum share { ALL, EVEN, ODD, NONE };

static bool belongs(size_t row, enum share share)
{
	if (!contract_content[row].bytes)
		return share != NONE;
	return share == ALL || (share == EVEN && row % 2 == 0) || (share == ODD && row % 2 == 1);
}

static void mount(struct ldr_vfs *vfs, uint32_t id, struct ldr_layer *layer, const char *at,
		  unsigned flags)
{
	struct ldr_mount wanted = {.id = id, .layer = layer, .at = at, .flags = flags};
	struct ldr_error err = {.status = LDR_OK};

	must(ldr_vfs_mount(vfs, &wanted, &err), &err);
	ldr_layer_unref(layer);
}

static struct ldr_layer *native(const char *folder, const char *name, enum share share,
				struct ldr_native_options options)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	mkdir(path, 0755);
	for (size_t i = 0; i < contract_content_count; i++) {
		const struct contract_file *row = &contract_content[i];
		FILE *file;

		if (!belongs(i, share))
			continue;
		snprintf(path, sizeof(path), "%s/%s/%s", folder, name, row->path);
		if (!row->bytes) {
			mkdir(path, 0755);
			continue;
		}
		file = fopen(path, "wbe");
		cr_assert(file);
		cr_assert_eq(fwrite(row->bytes, 1, row->length, file), row->length);
		fclose(file);
	}
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	options.size = sizeof(options);
	must(ldr_layer_native_new(path, &options, &layer, &err), &err);
	return layer;
}

static struct ldr_layer *memory(enum share share)
{
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;

	must(ldr_layer_memory_new(NULL, &layer, &err), &err);
	for (size_t i = 0; i < contract_content_count; i++) {
		const struct contract_file *row = &contract_content[i];

		if (row->bytes && belongs(i, share))
			must(ldr_layer_memory_put(layer, row->path, row->bytes, row->length, &err),
			     &err);
	}
	return layer;
}

static struct ldr_layer *table(enum share share, bool live)
{
	static struct table_row rows[4][16];
	static size_t counts[4];
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_layer *layer;

	counts[share] = 0;
	for (size_t i = 0; i < contract_content_count; i++) {
		const struct contract_file *row = &contract_content[i];

		if (belongs(i, share))
			rows[share][counts[share]++] = (struct table_row){row->path, row->bytes,
									  row->length};
	}
	must(table_layer_new(rows[share], counts[share], live, NULL, &layer, &err), &err);
	return layer;
}

/* A pack of the whole content, mounted as the options say; encrypted when they have a key. */
static struct ldr_layer *protected_archive(const char *folder, enum ldr_codec_policy policy,
					   uint32_t flags, struct ldr_archive_options options)
{
	const struct ldr_codec_choice choice = {.policy = policy};
	struct ldr_error err = {.status = LDR_OK};
	struct ldr_build_options build = {.size = sizeof(build), .codec = choice};
	struct ldr_archive_request request = {.size = sizeof(request), .build = &build};
	struct ldr_archive_outcome outcome;
	struct ldr_layer *layer;
	char source[512], path[512];

	ldr_layer_unref(native(folder, "packed", ALL, (struct ldr_native_options){.size = 0}));
	snprintf(source, sizeof(source), "%s/packed", folder);
	snprintf(path, sizeof(path), "%s/content.pack", folder);
	request.folder = source;
	request.out_path = path;
	request.protection = (struct ldr_protection){flags, options.key};
	must(ldr_archive_folder(&request, &outcome, &err), &err);
	options.size = sizeof(options);
	must(ldr_layer_archive_open(path, &options, &layer, &err), &err);
	return layer;
}

static struct ldr_layer *archive(const char *folder, enum ldr_codec_policy policy,
				 struct ldr_archive_options options)
{
	return protected_archive(folder, policy, 0, options);
}

/* ---- stacks ---- */

#define SAFE ((struct ldr_native_options){.size = 0})
#define REFUSE ((struct ldr_native_options){.symlinks = LDR_SYMLINKS_REFUSE})
#define TRUSTED ((struct ldr_native_options){.trusted = true})
#define WATCHED ((struct ldr_native_options){.watched = true})
#define READ_ONLY ((struct ldr_native_options){.read_only = true})

static void native_safe(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, SAFE), "", LDR_MOUNT_WRITE);
}

static void native_refuse(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, REFUSE), "", LDR_MOUNT_WRITE);
}

static void native_trusted(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, TRUSTED), "", LDR_MOUNT_WRITE);
}

static void native_watched(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, WATCHED), "", LDR_MOUNT_WRITE);
}

static void native_folding(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, SAFE), "", LDR_MOUNT_WRITE | LDR_MOUNT_FOLD_CASE);
}

static void memory_alone(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, memory(ALL), "", LDR_MOUNT_WRITE);
}

static void memory_folding(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, memory(ALL), "", LDR_MOUNT_WRITE | LDR_MOUNT_FOLD_CASE);
}

static void table_alone(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, table(ALL, false), "", 0);
}

static void table_live(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, table(ALL, true), "", 0);
}

static void two_tables(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, table(EVEN, false), "", 0);
	mount(vfs, 2, table(ODD, false), "", 0);
}

static void memory_over_table(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, table(ALL, false), "", 0);
	mount(vfs, 2, memory(NONE), "", LDR_MOUNT_WRITE);
}

static void memory_over_live_table(struct ldr_vfs *vfs, const char *folder)
{
	(void)folder;
	mount(vfs, 1, table(ALL, true), "", 0);
	mount(vfs, 2, memory(NONE), "", LDR_MOUNT_WRITE);
}

static void native_over_table(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, table(ODD, false), "", 0);
	mount(vfs, 2, native(folder, "n", EVEN, SAFE), "", LDR_MOUNT_WRITE);
}

static void watched_over_table(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, table(ALL, false), "", 0);
	mount(vfs, 2, native(folder, "n", NONE, WATCHED), "", LDR_MOUNT_WRITE);
}

static void memory_over_native(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, READ_ONLY), "", 0);
	mount(vfs, 2, memory(NONE), "", LDR_MOUNT_WRITE);
}

static void three_layers(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, table(ODD, false), "", 0);
	mount(vfs, 2, native(folder, "n", EVEN, READ_ONLY), "", 0);
	mount(vfs, 3, memory(NONE), "", LDR_MOUNT_WRITE);
}

#define PLAIN ((struct ldr_archive_options){.size = 0})
#define MAPPED ((struct ldr_archive_options){.map = true})
#define TIGHT ((struct ldr_archive_options){.memory_bytes = 4096})

static void archive_raw(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_NONE, PLAIN), "", 0);
}

static void archive_mapped(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_NONE, MAPPED), "", 0);
}

static void archive_lz4(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_LZ4, PLAIN), "", 0);
}

static void archive_zstd_tight(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_ZSTD, TIGHT), "", 0);
}

static void archive_xor(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, protected_archive(folder, LDR_POLICY_NONE, LDR_PACK_FLAG_XOR, MAPPED), "", 0);
}

static void archive_aes(struct ldr_vfs *vfs, const char *folder)
{
	static const uint8_t key[LDR_TITLE_KEY_BYTES] = {1};
	const struct ldr_archive_options options = {.key = key, .memory_bytes = 4096};

	mount(vfs, 1, protected_archive(folder, LDR_POLICY_LZ4, LDR_PACK_FLAG_ENCRYPTED, options),
	      "", 0);
}

static void archive_folding(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_LZ4, PLAIN), "", LDR_MOUNT_FOLD_CASE);
}

static void memory_over_archive(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_LZ4, PLAIN), "", 0);
	mount(vfs, 2, memory(NONE), "", LDR_MOUNT_WRITE);
}

static void watched_over_archive(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_NONE, PLAIN), "", 0);
	mount(vfs, 2, native(folder, "n", NONE, WATCHED), "", LDR_MOUNT_WRITE);
}

static void archive_in_three(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, archive(folder, LDR_POLICY_ZSTD, PLAIN), "", 0);
	mount(vfs, 2, native(folder, "n", EVEN, READ_ONLY), "", 0);
	mount(vfs, 3, memory(NONE), "", LDR_MOUNT_WRITE);
}

/* The write target is not the first that is asked, and empty memory layers lie at other points. */
static void target_below(struct ldr_vfs *vfs, const char *folder)
{
	mount(vfs, 1, native(folder, "n", ALL, SAFE), "", LDR_MOUNT_WRITE);
	mount(vfs, 2, memory(NONE), "dir", 0);
	mount(vfs, 3, memory(NONE), "dir/sub", 0);
}

const struct contract_stack contract_stacks[] = {
	{"native", true, false, native_safe},
	{"native-refuse", true, false, native_refuse},
	{"native-trusted", true, false, native_trusted},
	{"native-watched", true, false, native_watched},
	{"native-folding", true, false, native_folding},
	{"memory", true, false, memory_alone},
	{"memory-folding", true, false, memory_folding},
	{"table", false, false, table_alone},
	{"table-live", false, false, table_live},
	{"two-tables", false, false, two_tables},
	{"memory+table", true, false, memory_over_table},
	{"memory+table-live", true, false, memory_over_live_table},
	{"native+table", true, false, native_over_table},
	{"watched+table", true, false, watched_over_table},
	{"memory+native", true, false, memory_over_native},
	{"3layer", true, false, three_layers},
	{"archive", false, false, archive_raw},
	{"archive-mapped", false, false, archive_mapped},
	{"archive-lz4", false, false, archive_lz4},
	{"archive-zstd-tight", false, false, archive_zstd_tight},
	{"archive-xor", false, false, archive_xor},
	{"archive-aes", false, false, archive_aes},
	{"archive-folding", false, false, archive_folding},
	{"memory+archive", true, false, memory_over_archive},
	{"watched+archive", true, false, watched_over_archive},
	{"3layer-archive", true, false, archive_in_three},
	{"target-below", true, true, target_below},
};
const size_t contract_stack_count = sizeof(contract_stacks) / sizeof(contract_stacks[0]);

void contract_open(struct contract *contract, size_t stack, bool settled)
{
	struct ldr_error err = {.status = LDR_OK};

	fill_deep();
	contract->stack = &contract_stacks[stack];
	strcpy(contract->folder, "/tmp/larder-contract.XXXXXX"); /* style: fixed text */
	cr_assert(mkdtemp(contract->folder));
	must(ldr_vfs_new(NULL, &contract->vfs, &err), &err);
	contract->stack->mount(contract->vfs, contract->folder);
	if (settled)
		ldr_vfs_settle(contract->vfs);
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *where)
{
	(void)found;
	(void)kind;
	(void)where;
	return remove(path);
}

void contract_close(struct contract *contract)
{
	ldr_vfs_free(contract->vfs);
	nftw(contract->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
