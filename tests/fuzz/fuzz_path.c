/*
 * The path rule under any bytes. The first byte is the depth of a link; the rest is a path, a name, a link's
 * target. Beyond not crashing:
 *
 * 1. A path is legal exactly if each of its components is a legal name and its length is in bounds.
 * 2. A legal name folds into the promised room, and folding again changes nothing.
 * 3. A legal target stays within its depth.
 * 4. A path compares equal to itself, and its order with its own folder is that of prefixes.
 * 5. Quoting gives printable ASCII that fits.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool by_components(const char *path, size_t length)
{
	if (length == 0 || length > LDR_PATH_MAX_BYTES)
		return false;
	for (;;) {
		const char *slash = memchr(path, '/', length);
		size_t used = slash ? (size_t)(slash - path) : length;

		if (ldr_name_check(path, used, NULL))
			return false;
		if (!slash)
			return true;
		path += used + 1;
		length -= used + 1;
	}
}

static void check_path(const char *text, size_t length)
{
	bool legal = ldr_path_check(text, length, NULL) == LDR_OK;
	char path[LDR_PATH_MAX_BYTES + 1], above[LDR_PATH_MAX_BYTES + 1];
	char *slash;

	must(legal == by_components(text, length));
	if (!legal)
		return;
	must(memchr(text, '\0', length) == NULL);
	memcpy(path, text, length);
	path[length] = '\0';
	must(ldr_path_compare(path, path) == 0);
	memcpy(above, path, length + 1);
	slash = strrchr(above, '/');
	if (!slash)
		return;
	*slash = '\0';
	must(ldr_path_compare(above, path) < 0 && ldr_path_compare(path, above) > 0);
}

static void check_name(const char *text, size_t length)
{
	char once[4 * LDR_NAME_MAX_BYTES], twice[sizeof(once)];
	size_t once_length, twice_length;
	bool legal = ldr_name_check(text, length, NULL) == LDR_OK;

	must(legal || ldr_name_check_portable(text, length, NULL) != LDR_OK);
	if (!ldr_name_fold(text, length, once, sizeof(once), &once_length)) {
		must(!legal);
		return;
	}
	if (!legal || once_length > LDR_NAME_MAX_BYTES)
		return;
	must(ldr_name_fold(once, once_length, twice, sizeof(twice), &twice_length));
	must(once_length == twice_length && memcmp(once, twice, once_length) == 0);
	must(ldr_name_compare(once, once_length, twice, twice_length) == 0);
}

static void check_target(const char *text, size_t length, unsigned depth)
{
	if (ldr_path_check_target(text, length, depth, NULL))
		return;
	must(length > 0 && text[0] != '/');
	for (; length >= 2 && memcmp(text, "..", 2) == 0 && (length == 2 || text[2] == '/');
	     depth--) {
		must(depth > 0);
		if (length == 2)
			return;
		text += 3;
		length -= 3;
	}
	must(ldr_path_check(text, length, NULL) == LDR_OK);
}

static void check_quote(const char *text, size_t length)
{
	char out[LDR_QUOTE_BYTES];

	must(ldr_path_quote(text, length, out) == out && strlen(out) <= 83);
	for (const char *c = out; *c; c++)
		must(*c >= 0x20 && *c < 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct ldr_error err = {0};

	if (size == 0)
		return 0;
	check_path(text, size - 1);
	check_name(text, size - 1);
	check_target(text, size - 1, data[0] % 8);
	check_quote(text, size - 1);
	must((ldr_path_check(text, size - 1, &err) == LDR_OK) == (err.text[0] == '\0'));
	return 0;
}
