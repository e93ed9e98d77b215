/*
 * Fuzz target: a pack from a stranger.
 *
 * The first byte of an input says how the rest is taken: bit 0 repairs checksums and digests, so that
 * changes reach the checks behind them; bit 1 maps the file; bit 2 proves digests at opening; bit 3 takes
 * obfuscated and encrypted packs too, bit 4 with the key of the golden ones. Whatever
 * opens must keep its promises: entries in order, found by their ids, every block readable or refused.
 */
#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "packs/pack_reader.h"
#include "tests/support/pack_repair.h"

#define INPUT_MAX_BYTES (1u << 20)

enum { REPAIR = 1, MAP = 2, DIGEST = 4, LOCAL = 8, KEYED = 16 };

/* 00 01 02 ... 1f */
static const uint8_t title_key[LDR_TITLE_KEY_BYTES] = {
	0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
	16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
};

/* Damage, or what only the key tells. */
static bool is_fault(const struct ldr_error *err)
{
	return err->text[0] && (err->status == LDR_ECORRUPT || err->status == LDR_EUNTRUSTED ||
				err->status == LDR_ENOKEY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *bytes, size_t size, bool repaired)
{
	LDR_AUTO_FREE uint8_t *copy = malloc(size + 1);
	struct repair pack = {copy, size};
	int fd = memfd_create("pack", MFD_CLOEXEC);

	assert(copy && fd >= 0);
	ldr_copy(copy, bytes, size);
	if (repaired) {
		repair_blocks(&pack);
		repair_index(&pack);
	}
	if (write(fd, copy, size) != (ssize_t)size)
		abort();
	return fd;
}

static void read_entry(const struct ldr_pack *pack, uint32_t i, struct ldr_coder *coder,
		       struct ldr_hasher *hasher)
{
	struct ldr_pack_entry entry, found;
	LDR_AUTO_FREE uint8_t *plain = NULL;
	struct ldr_error err = {0};

	ldr_pack_entry_at(pack, i, &entry);
	assert(ldr_pack_find(pack, &entry.id, &found) && found.offset == entry.offset);
	plain = malloc(entry.plain_bytes);
	assert(plain);
	if (ldr_pack_read(pack, &entry, coder, i % 2 ? hasher : NULL, plain, &err) != LDR_OK)
		assert(is_fault(&err));
}

static void count_faults(void *context, const struct ldr_pack_entry *entry,
			 const struct ldr_error *fault)
{
	(void)entry;
	assert(is_fault(fault));
	++*(uint64_t *)context;
}

static void use(const struct ldr_pack *pack)
{
	LDR_AUTO_CODER struct ldr_coder *coder = ldr_coder_new();
	LDR_AUTO_HASHER struct ldr_hasher *hasher = ldr_hasher_new();
	struct ldr_pack_verify_report report = {0};
	const uint8_t *bytes;
	volatile uint64_t sum = 0; /* every byte of a section can be read */
	uint64_t faults = 0, length;

	for (uint32_t i = 0; i < ldr_pack_entry_count(pack); i++)
		read_entry(pack, i, coder, hasher);
	for (unsigned kind = 0; kind < 9; kind++)
		if (ldr_pack_section(pack, (enum ldr_section)kind, &bytes, &length))
			for (uint64_t at = 0; at < length; at++)
				sum = sum + bytes[at];
	if (ldr_pack_verify(pack, count_faults, &faults, &report, NULL) == LDR_OK)
		assert(faults == 0 && report.bad_blocks == 0);
	(void)sum;
	assert(report.bad_blocks <= report.blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldr_pack_options options = {0};
	struct ldr_pack *pack = NULL;
	struct ldr_error err = {0};

	if (size < 1 || size > INPUT_MAX_BYTES)
		return 0;
	options.mode = (data[0] & MAP ? LDR_PACK_MAP : 0u) |
		       (data[0] & DIGEST ? LDR_PACK_DIGEST : 0u) |
		       (data[0] & LOCAL ? LDR_PACK_LOCAL : 0u);
	options.title_key = data[0] & KEYED ? title_key : NULL;
	if (ldr_pack_open_fd(file_of(data + 1, size - 1, data[0] & REPAIR), "fuzz", &options, &pack,
			     &err) != LDR_OK) {
		assert(is_fault(&err) || err.status == LDR_EUNSUPPORTED);
		return 0;
	}
	use(pack);
	ldr_pack_unref(pack);
	return 0;
}
