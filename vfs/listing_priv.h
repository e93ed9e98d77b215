/*
 * What the two files of listing share: a list while it is made. Inside vfs/ only.
 */
#ifndef LDR_VFS_LISTING_PRIV_H
#define LDR_VFS_LISTING_PRIV_H

#include "vfs/vfs_priv.h"

#define LDR_SHELF_LISTS 4u

struct ldr_listed {
	uint32_t at; /* in text */
	uint16_t length;
	uint8_t kind;
	uint8_t reserved;
	uint32_t order; /* of asking */
};

struct ldr_list {
	struct ldr_listed *names;
	char *text; /* each name with its NUL */
	uint32_t count;
	uint32_t names_max;
	size_t text_bytes;
	size_t text_max;
	bool is_sorted; /* and has no name twice */
	void *scratch;  /* for sorting */
	size_t scratch_bytes;
	struct ldr_shelf *shelf; /* shares */
};

/* Sorts by name; of those that are there several times the one of lowest order stays. False: out of
 * memory. */
bool ldr_list_sort(struct ldr_list *list);

#endif
