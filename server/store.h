/*
 * The store's folder, as the server opens it: FORMAT made where it is missing and checked where it is
 * not, and what a killed server left swept away.
 *
 * Threads: immutable after open.
 */
#ifndef LDR_SERVER_STORE_H
#define LDR_SERVER_STORE_H

#include "common/publisher.h"
#include "packs/layout.h"

struct ldr_store_folder {
	struct ldr_root *root; /* owns */
	uint8_t id[LDR_STORE_ID_BYTES];
	unsigned swept; /* temporaries of dead owners that were removed */
};

/* Makes folder and FORMAT where missing. LDR_EUNSUPPORTED: another FORMAT, naming both. */
enum ldr_status ldr_store_folder_open(const char *path, struct ldr_store_folder *out_store,
				      struct ldr_error *err);
void ldr_store_folder_close(struct ldr_store_folder *store);

#endif
