/*
 * make_trees FOLDER: the golden trees, and a golden release: key, record, top block and map.
 *
 * Ids are made up (a byte repeated), since nothing here stores blocks. Signatures are deterministic, so
 * the record is the same bytes each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "packs/map.h"
#include "packs/release.h"
#include "packs/tree_writer.h"

/* The key of RFC 7515 appendix A.3, so everybody's. */
static const char key_pem[] =
	"-----BEGIN EC PRIVATE KEY-----\n"
	"MDECAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49AwEH\n"
	"-----END EC PRIVATE KEY-----\n";

static const char *folder;

static void check(enum ldr_status status, const struct ldr_error *err)
{
	if (status == LDR_OK)
		return;
	fprintf(stderr, "make_trees: %s\n", err->text);
	exit(1);
}

static void save(const char *name, const void *bytes, size_t length)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wbe");
	if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) {
		fprintf(stderr, "make_trees: cannot write %s\n", path);
		exit(1);
	}
}

/* ---- trees -------------------------------------------------------------------------------------- */

struct entry {
	char kind; /* D folder, E its end, F file, L symlink */
	const char *name;
	unsigned mode;
	const char *target;
	uint32_t lengths[3]; /* of a file's blocks; 0 ends them */
};

static const struct entry sample[] = {
	{'D', "art", 0755, NULL, {0}},
	{'F', "b.png", 0644, NULL, {5}},
	{'L', "c", 0777, "deep/big.ogg", {0}},
	{'L', "dangling", 0777, "no/where", {0}},
	{'D', "deep", 0750, NULL, {0}},
	{'F', "big.ogg", 0600, NULL, {262144, 127, 128}},
	{'L', "up", 0777, "../../readme", {0}},
	{'E', NULL, 0, NULL, {0}},
	{'L', "same", 0777, "deep", {0}},
	{'E', NULL, 0, NULL, {0}},
	{'D', "empty", 0700, NULL, {0}},
	{'E', NULL, 0, NULL, {0}},
	{'F', "readme", 0444, NULL, {1}},
	{'F', "run", 0755, NULL, {65536, 16384}},
	{'F', "zero", 0, NULL, {0}},
	{0, NULL, 0, NULL, {0}},
};

static const struct entry names[] = {
	{'F', "..a", 0644, NULL, {0}},
	{'F', ".hidden", 0644, NULL, {0}},
	{'F', "A", 0644, NULL, {0}},
	{'F', "Com", 0644, NULL, {0}},
	{'D', "a b", 0755, NULL, {0}},
	{'D', ".larder", 0755, NULL, {0}},
	{'E', NULL, 0, NULL, {0}},
	{'E', NULL, 0, NULL, {0}},
	{'D', "a-b", 0755, NULL, {0}},
	{'E', NULL, 0, NULL, {0}},
	{'F', "nul_", 0644, NULL, {0}},
	{'F', "\xc3\xa4", 0644, NULL, {0}},
	{'F', "\xe6\x97\xa5\xe6\x9c\xac", 0644, NULL, {0}},
	{'F', "\xf0\x9f\x8e\xae", 0644, NULL, {0}},
	{0, NULL, 0, NULL, {0}},
};

static const struct entry empty[] = {{0, NULL, 0, NULL, {0}}};

static enum ldr_status add(struct ldr_tree_writer *writer, const struct entry *entry,
			   struct ldr_error *err)
{
	struct ldr_block_ref blocks[3];
	uint64_t count = 0;

	switch (entry->kind) {
	case 'D':
		return ldr_tree_writer_folder_begin(writer, entry->name, entry->mode, err);
	case 'E':
		return ldr_tree_writer_folder_end(writer, err);
	case 'L':
		return ldr_tree_writer_symlink(writer, entry->name, entry->mode, entry->target,
					       err);
	default:
		for (; count < 3 && entry->lengths[count]; count++) {
			memset(blocks[count].id.bytes, (int)(0xa0 + count), LDR_ID_BYTES);
			blocks[count].plain_bytes = entry->lengths[count];
		}
		return ldr_tree_writer_file(writer, entry->name, entry->mode, blocks, count, err);
	}
}

static void make_tree(const char *name, const struct entry *entries, struct ldr_release *release)
{
	LDR_AUTO_TREE_WRITER struct ldr_tree_writer *writer = NULL;
	struct ldr_error err = {0};
	const uint8_t *bytes = NULL;
	size_t length = 0;

	check(ldr_tree_writer_new(&writer, &err), &err);
	for (; entries->kind; entries++)
		check(add(writer, entries, &err), &err);
	check(ldr_tree_writer_end(writer, &bytes, &length, &release->totals, &err), &err);
	check(ldr_digest_once(bytes, length, &release->tree_digest, &err), &err);
	release->tree_bytes = length;
	save(name, bytes, length);
}

/* ---- a release of the sample -------------------------------------------------------------------- */

static void make_map(struct ldr_release *release, struct ldr_id *out_id)
{
	LDR_AUTO_BUFFER struct ldr_buffer map = {.max_bytes = 4096};
	struct ldr_place place = {.pack = 3, .offset = 64};
	struct ldr_error err = {0};

	for (uint64_t i = 0; i < release->totals.blocks; i++) {
		place.codec = (enum ldr_codec)(i % LDR_CODEC_COUNT);
		place.stored_bytes = (uint32_t)(1 + i * 1000);
		ldr_map_put(&map, &place);
		place.offset += place.stored_bytes;
	}
	release->map_bytes = map.length;
	check(ldr_digest_once(map.data, map.length, out_id, &err), &err);
	save("sample.map", map.data, map.length);
}

static void make_top(struct ldr_release *release, const struct ldr_id *map_id)
{
	LDR_AUTO_BUFFER struct ldr_buffer out = {.max_bytes = LDR_BLOCK_MAX_BYTES};
	struct ldr_placed_block rows[2] = {
		{{release->tree_digest, (uint32_t)release->tree_bytes},
		 {700000, UINT64_C(5000000000), (uint32_t)release->tree_bytes, LDR_CODEC_NONE}},
		{{*map_id, (uint32_t)release->map_bytes},
		 {700000, UINT64_C(5000000000) + release->tree_bytes, 60, LDR_CODEC_LZ4}},
	};
	const struct ldr_top top = {rows, 1, rows + 1, 1};
	struct ldr_error err = {0};

	check(ldr_top_write(&top, &out, &err), &err);
	check(ldr_digest_once(out.data, out.length, &release->top.block.id, &err), &err);
	release->top.block.plain_bytes = (uint32_t)out.length;
	release->top.place = (struct ldr_place){700000, UINT64_C(5000000000) + 2000,
						(uint32_t)out.length, LDR_CODEC_NONE};
	save("sample.top", out.data, out.length);
}

static void make_record(struct ldr_release *release)
{
	LDR_AUTO_KEY struct ldr_key *key = NULL;
	LDR_AUTO_PUBLIC_KEY struct ldr_public_key *public = NULL;
	LDR_AUTO_FREE char *jws = NULL;
	char pem[LDR_KEY_PEM_MAX_BYTES];
	struct ldr_error err = {0};
	size_t length = 0;

	check(ldr_key_parse(key_pem, sizeof(key_pem) - 1, "golden", &key, &err), &err);
	check(ldr_key_public(key, &public, &err), &err);
	check(ldr_public_key_to_pem(public, pem, &err), &err);
	save("key.pub", pem, strlen(pem));
	check(ldr_release_sign(release, key, &jws, &length, &err), &err);
	save("sample.record", jws, length);
}

int main(int argc, char **argv)
{
	struct ldr_release_pack packs[2] = {{3, {{0x33}}, 1u << 20},
					    {700000, {{0x77}}, UINT64_C(5000010000)}};
	struct ldr_release release = {
		.channel = "live",
		.sequence = 12,
		.created_s = 1700000000,
		.expires_s = 1800000000,
		.packs = packs,
		.pack_count = 2,
		.previous_sequence = 9,
		.note = "golden \xc3\xa4 \"note\"\n",
	};
	struct ldr_id map_id;

	if (argc != 2 || (mkdir(argv[1], 0755) != 0 && access(argv[1], W_OK) != 0)) {
		fprintf(stderr, "usage: make_trees FOLDER\n");
		return 2;
	}
	folder = argv[1];
	memset(release.store, 0x5a, sizeof(release.store));
	memset(release.previous_digest.bytes, 0x9d, LDR_ID_BYTES);
	make_tree("empty.tree", empty, &release);
	make_tree("names.tree", names, &release);
	make_tree("sample.tree", sample, &release);
	make_map(&release, &map_id);
	make_top(&release, &map_id);
	make_record(&release);
	return 0;
}
