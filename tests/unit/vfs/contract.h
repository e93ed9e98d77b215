/*
 * The one contract of the virtual file system, and the stacks of layers that it is run over.
 *
 * A stack shows the content below through its layers, in whatever way; the cases must not be able
 * to tell stacks apart. A new kind of layer joins by a row in `contract_stacks`.
 */
#ifndef LDR_TESTS_CONTRACT_H
#define LDR_TESTS_CONTRACT_H

#include "vfs/file.h"
#include "vfs/vfs.h"

#define CONTRACT_DEEP_BYTES 300000u

struct contract_file {
	const char *path;
	const char *bytes; /* NULL: folder */
	size_t length;
};

/* What every stack shows, parents first; deep.bin is CONTRACT_DEEP_BYTES of contract_byte. */
extern const struct contract_file contract_content[];
extern const size_t contract_content_count;

static inline unsigned char contract_byte(uint64_t offset)
{
	return (unsigned char)((offset * 2654435761u) >> 13);
}

struct contract_stack {
	const char *name;
	bool writable;
	bool points; /* dir and dir/sub are mount points: neither goes away */
	/* Mounts into vfs; folder is an empty one of its own. */
	void (*mount)(struct ldr_vfs *vfs, const char *folder);
};

extern const struct contract_stack contract_stacks[];
extern const size_t contract_stack_count;

/* A fresh stack, settled or not (then lookups ask every mount by path). Owns: contract_close. */
struct contract {
	const struct contract_stack *stack;
	struct ldr_vfs *vfs;
	char folder[64];
};

void contract_open(struct contract *contract, size_t stack, bool settled);
void contract_close(struct contract *contract);

#endif
