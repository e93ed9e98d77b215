/*
 * The file `lookup`, parsed and used. The input's last eight bytes are made its checksum, so that what
 * lies behind that check is reached; the raw input is parsed too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cache/lookup.h"
#include "common/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every row of every pack goes into a table and is found there. */
static void use(const struct ldr_lookup_file *file)
{
	struct ldr_lookup lookup = {0};
	uint64_t rows = 0;

	for (uint32_t i = 0; i < file->pack_count; i++) {
		struct ldr_lookup_listed listed;
		struct ldr_id id;
		uint32_t pack = ldr_lookup_add_pack(&lookup), found_pack, found_row;

		memcpy(id.bytes, file->packs + (size_t)i * LDR_LOOKUP_PACK_BYTES, LDR_ID_BYTES);
		if (pack != i || !ldr_lookup_file_find(file, &id, &listed) || listed.first != rows)
			abort();
		for (uint32_t k = 0; k < listed.count; k++, rows++) {
			struct ldr_pack_entry entry;

			ldr_lookup_file_row(file, listed.first + k, &entry);
			if (entry.plain_bytes > LDR_BLOCK_MAX_BYTES ||
			    entry.offset + entry.stored_bytes > listed.size_bytes)
				abort();
			if (!ldr_lookup_add(&lookup, pack, &entry) ||
			    !ldr_lookup_find(&lookup, &entry.id, &found_pack, &found_row))
				abort();
		}
	}
	if (rows != file->row_count || lookup.blocks != rows)
		abort();
	for (uint32_t i = 0; i < file->pack_count; i++)
		ldr_lookup_drop_pack(&lookup, i);
	if (lookup.blocks)
		abort();
	ldr_lookup_dispose(&lookup);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldr_lookup_file file;
	uint8_t *copy;

	if (ldr_lookup_file_parse(data, size, &file, NULL) == LDR_OK)
		use(&file);
	if (size < 8)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	ldr_put_le(copy + size - 8, 8, ldr_checksum(copy, size - 8));
	if (ldr_lookup_file_parse(copy, size, &file, NULL) == LDR_OK)
		use(&file);
	free(copy);
	return 0;
}
