/*
 * The inside of a view, shared by the two files that make one: view.c opens it, view_tree.c gets its
 * tree, map and files.
 */
#ifndef LDR_CLIENT_VIEW_PRIV_H
#define LDR_CLIENT_VIEW_PRIV_H

#include "client/trust.h"
#include "client/view.h"

struct ldr_view {
	char *name;
	char *base;            /* URL of the store's first host; NULL for a pack */
	struct ldr_pack *pack; /* of a local archive */
	struct ldr_disk_cache *disk;
	struct ldr_memory_cache *memory;
	struct ldr_transport *transport;
	struct ldr_fetch *fetch;
	struct ldr_source *source;
	bool offline;
	char trouble[256];
	struct ldr_pin pin;                 /* owns its key */
	struct ldr_public_key *const *keys; /* trusted: the user's, or &pin.key */
	size_t key_count;

	char *record;
	size_t record_length;
	bool has_release;
	struct ldr_release release;

	bool has_top;
	struct ldr_top top;
	uint8_t *tree_bytes;
	size_t tree_length;
	struct ldr_tree *tree;
	uint8_t *map;       /* map_bytes long, filled page by page */
	bool *map_loaded;   /* one for each block of the map */
	uint64_t *map_ends; /* where each block of the map ends */
};

#endif
