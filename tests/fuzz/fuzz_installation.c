/*
 * The record of an installation, `.larder/installed`, parsed and used. The input's last eight bytes are
 * made its checksum, so that what lies behind that check is reached; the raw input is parsed too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/installation.h"
#include "common/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that the installer asks a record for; then it is written again and must be the same. */
static void use(const struct ldr_installation *read, const uint8_t *bytes, size_t size)
{
	LDR_AUTO_BUFFER struct ldr_buffer again = {0};
	uint32_t count = ldr_tree_node_count(read->tree);
	struct ldr_file_stamp *stamps = calloc(count, sizeof(*stamps));
	char path[LDR_PATH_MAX_BYTES + 1];

	if (!stamps)
		return;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t found;
		size_t length = ldr_tree_path(read->tree, i, path);

		stamps[i] = ldr_installation_stamp(read, i);
		if (i && (!ldr_tree_find(read->tree, path, length, &found) || found != i))
			abort();
	}
	if (ldr_installation_write(read->record, read->record_length, read->tree_bytes,
				   read->tree_length, stamps, count, &again, NULL) != LDR_OK ||
	    again.length != size || memcmp(again.data, bytes, size) != 0)
		abort();
	free(stamps);
}

static void try(const uint8_t *data, size_t size)
{
	struct ldr_installation read = {0};
	uint8_t *copy = malloc(size + 1);

	if (!copy)
		return;
	memcpy(copy, data, size);
	if (ldr_installation_parse(copy, size, &read, NULL) == LDR_OK)
		use(&read, data, size);
	ldr_installation_dispose(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	try(data, size);
	if (size < 8)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size - 8);
	ldr_put_le(copy + size - 8, 8, ldr_checksum(data, size - 8));
	try(copy, size);
	free(copy);
	return 0;
}
