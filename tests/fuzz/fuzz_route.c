/*
 * Any bytes as a URL: what is taken for an object's name gives a path that is read back as the same name,
 * and never holds a component that leads elsewhere.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "server/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[LDR_STORE_PATH_BYTES];
	char again[LDR_STORE_PATH_BYTES];
	struct ldr_object_name name;
	struct ldr_object_name second;

	if (ldr_route_parse((const char *)data, size, &name) != LDR_ROUTE_OBJECT)
		return 0;
	ldr_store_path(&name, path);
	assert(path[0] != '/' && !strstr(path, "/.") && !strstr(path, "//") && path[0] != '.');
	assert(ldr_store_path_parse(path, strlen(path), &second));
	ldr_store_path(&second, again);
	assert(strcmp(path, again) == 0);
	return 0;
}
