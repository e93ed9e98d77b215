/*
 * Fuzz target: a log of whiteouts from a disk. What is accepted holds legal paths only; its good
 * part, read again, says the same and has no torn end; with zeros behind it, as a crash leaves
 * them, it still says the same.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/path.h"
#include "vfs/hidden.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum ldr_status count_path(void *context, const char *path, size_t path_bytes,
				  struct ldr_error *err)
{
	size_t *count = context;

	(void)err;
	assert(ldr_path_check(path, path_bytes, NULL) == LDR_OK);
	(*count)++;
	return LDR_OK;
}

#define ZEROS 64u

static void check_zeroed_end(const uint8_t *data, size_t good, size_t count)
{
	uint8_t *torn = calloc(1, good + ZEROS);
	size_t again = SIZE_MAX, count_again = 0;

	assert(torn);
	memcpy(torn, data, good);
	assert(ldr_hidden_parse(torn, good + ZEROS, count_path, &count_again, &again, NULL) ==
	       LDR_OK);
	assert(again == good && count_again == count);
	free(torn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldr_error err = {.status = LDR_OK};
	size_t good = SIZE_MAX, again = SIZE_MAX, count = 0, count_again = 0;
	enum ldr_status status = ldr_hidden_parse(data, size, count_path, &count, &good, &err);

	if (status != LDR_OK) {
		assert(status == LDR_ECORRUPT || status == LDR_EUNSUPPORTED);
		assert(err.status == status && err.text[0]);
		return 0;
	}
	assert(good <= size);
	assert(ldr_hidden_parse(data, good, count_path, &count_again, &again, &err) == LDR_OK);
	assert(again == good && count_again == count);
	check_zeroed_end(data, good, count);
	return 0;
}
