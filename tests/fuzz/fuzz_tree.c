/*
 * Fuzz target: a tree from a stranger. What is accepted obeys every rule, by a judge that shares no code
 * with the parser, and the writer makes the same bytes of it.
 */
#include <assert.h>

#include "tests/unit/packs/tree_text.h"

#define INPUT_MAX_BYTES 4096u /* the judge is quadratic */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resolve_all(const struct ldr_tree *tree)
{
	char path[LDR_PATH_MAX_BYTES + 1];

	for (uint32_t node = 0; node < ldr_tree_node_count(tree); node++) {
		struct ldr_error err = {0};
		enum ldr_status status;
		uint32_t end = UINT32_MAX;

		ldr_tree_path(tree, node, path);
		status = ldr_tree_resolve(tree, path, &end, &err);
		assert(status || end < ldr_tree_node_count(tree));
		assert(!status || status == LDR_ENOTFOUND || status == LDR_ENOTDIR);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ldr_tree *tree = NULL;
	struct ldr_error err = {0};
	const char *fault;

	if (size > INPUT_MAX_BYTES)
		return 0;
	if (ldr_tree_parse(data, size, "fuzz", NULL, NULL, &tree, &err) != LDR_OK) {
		assert(err.status == LDR_ECORRUPT || err.status == LDR_EUNSUPPORTED ||
		       err.status == LDR_ELIMIT);
		assert(err.text[0] && !tree);
		return 0;
	}
	fault = test_tree_fault(tree);
	assert(!fault);
	fault = test_tree_spelling_fault(tree, data, size);
	assert(!fault);
	(void)fault;
	resolve_all(tree);
	ldr_tree_free(tree);
	return 0;
}
