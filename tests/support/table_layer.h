/*
 * A layer written against vfs/layer.h alone, as a program outside the project would: an immutable
 * table of paths and bytes. It can be told to fail, to hide a name, and counts what it was asked.
 */
#ifndef LDR_TESTS_TABLE_LAYER_H
#define LDR_TESTS_TABLE_LAYER_H

#include "vfs/layer.h"

struct table_row {
	const char *path;
	const char *bytes; /* NULL: a folder */
	size_t length;
};

/* What a test turns on and reads while the layer is mounted; borrowed, zeroed is plain. */
struct table_moods {
	const char *failing_path; /* gives failure */
	enum ldr_status failure;
	bool silent;            /* it fails without a text */
	bool failing_read;      /* reading the path fails too, should it be open already */
	_Atomic uint32_t asked; /* by path */
	_Atomic uint32_t opened;
	_Atomic uint32_t closed;
	_Atomic uint32_t freed;
};

/* rows are borrowed while the layer lives, parents before children. live: it does not say that it
 * is immutable, so it is asked at every lookup. moods may be NULL. */
enum ldr_status table_layer_new(const struct table_row *rows, size_t count, bool live,
				struct table_moods *moods, struct ldr_layer **out_layer,
				struct ldr_error *err);

#endif
