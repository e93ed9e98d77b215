/*
 * The blocks that a plan's temporaries need; see plan.h.
 *
 * Each id is wanted once, with a chain of the places where it goes. A block that a file of the old
 * installation holds is marked with that file; whether the file still has it is found out by digesting
 * what is read.
 */
#include <stdlib.h>

#include "client/plan_priv.h"

enum ldr_status ldr_plan_file(struct ldr_plan *plan, uint32_t index,
			      const struct ldr_tree_node *node, const char *path,
			      struct ldr_hasher *hasher, struct ldr_error *err)
{
	char hex[LDR_ID_HEX_CHARS + 1];
	struct ldr_planned_file *file;
	struct ldr_id id;

	if ((plan->file_count & (plan->file_count - 1)) == 0) {
		size_t room = plan->file_count ? plan->file_count * 2u : 1;

		file = realloc(plan->files, room * sizeof(*file));
		if (!file)
			return ldr_fail(err, LDR_ENOMEM, "plan of %zu files", room);
		plan->files = file;
	}
	ldr_hasher_begin(hasher);
	ldr_hasher_update(hasher, path, strlen(path) + 1);
	for (uint64_t i = 0; i < node->block_count; i++)
		ldr_hasher_update(hasher,
				  ldr_tree_block(plan->tree, node->first_block + i)->id.bytes,
				  LDR_ID_BYTES);
	ldr_hasher_end(hasher, &id);
	ldr_id_to_hex(&id, hex);

	file = &plan->files[plan->file_count++];
	file->node = index;
	memcpy(file->temporary, hex, LDR_TEMPORARY_CHARS);
	file->temporary[LDR_TEMPORARY_CHARS] = '\0';
	atomic_init(&file->blocks_left, (uint32_t)node->block_count);
	plan->destination_count += node->block_count;
	plan->bytes_to_write += node->size_bytes;
	return ldr_plan_step(plan, LDR_BATCH_FILE, path, file->temporary, LDR_TEMPORARY_CHARS,
			     node->mode, err);
}

/* id -> index into wanted + 1; open addressing, at most half full. */
struct index {
	const struct ldr_plan *plan;
	uint32_t *slots;
	uint64_t mask;
};

static uint32_t *slot_of(const struct index *index, const struct ldr_id *id)
{
	uint64_t at = ldr_id_hash(id) & index->mask;

	for (;; at = (at + 1) & index->mask) {
		uint32_t *slot = &index->slots[at];

		if (!*slot)
			return slot;
		if (ldr_id_equal(&ldr_tree_block(index->plan->tree,
						 index->plan->wanted[*slot - 1].ordinal)
					  ->id,
				 id))
			return slot;
	}
}

static void want_file(struct ldr_plan *plan, struct index *index, uint32_t file, uint32_t *at)
{
	struct ldr_tree_node node;
	uint64_t offset = 0;

	plan->files[file].first_destination = *at;
	ldr_tree_node(plan->tree, plan->files[file].node, &node);
	for (uint64_t i = 0; i < node.block_count; i++) {
		const struct ldr_block_ref *block = ldr_tree_block(plan->tree,
								   node.first_block + i);
		uint32_t *slot = slot_of(index, &block->id);
		struct ldr_wanted_block *wanted;

		if (!*slot) {
			plan->wanted[plan->wanted_count] = (struct ldr_wanted_block){
				.ordinal = node.first_block + i,
				.destinations = LDR_PLAN_NONE,
				.local_node = LDR_PLAN_NONE};
			*slot = (uint32_t)++plan->wanted_count;
		}
		wanted = &plan->wanted[*slot - 1];
		plan->destinations[*at] = (struct ldr_destination){.file = file,
								   .next = wanted->destinations,
								   .wanted = *slot - 1,
								   .offset = offset};
		wanted->destinations = (*at)++;
		offset += block->plain_bytes;
	}
}

static void find_local(struct ldr_plan *plan, const struct index *index,
		       const struct ldr_installation *old)
{
	struct ldr_tree_node node;

	for (uint32_t i = 0; i < ldr_tree_node_count(old->tree); i++) {
		uint64_t offset = 0;

		ldr_tree_node(old->tree, i, &node);
		for (uint64_t k = 0; node.kind == LDR_KIND_FILE && k < node.block_count; k++) {
			const struct ldr_block_ref *block = ldr_tree_block(old->tree,
									   node.first_block + k);
			uint32_t *slot = slot_of(index, &block->id);

			if (*slot && plan->wanted[*slot - 1].local_node == LDR_PLAN_NONE) {
				plan->wanted[*slot - 1].local_node = i;
				plan->wanted[*slot - 1].local_offset = offset;
			}
			offset += block->plain_bytes;
		}
	}
}

enum ldr_status ldr_plan_blocks(struct ldr_plan *plan, const struct ldr_installation *old,
				struct ldr_error *err)
{
	struct index index = {.plan = plan, .mask = 63};
	uint32_t at = 0;

	if (plan->destination_count >= LDR_PLAN_NONE)
		return ldr_fail(err, LDR_ELIMIT, "plan: %llu blocks to write, limit %u",
				(unsigned long long)plan->destination_count, LDR_PLAN_NONE - 1);
	while (index.mask < plan->destination_count * 2)
		index.mask = index.mask * 2 + 1;
	index.slots = calloc(index.mask + 1, sizeof(*index.slots));
	plan->wanted = calloc(plan->destination_count + 1, sizeof(*plan->wanted));
	plan->destinations = calloc(plan->destination_count + 1, sizeof(*plan->destinations));
	if (!index.slots || !plan->wanted || !plan->destinations) {
		free(index.slots);
		return ldr_fail(err, LDR_ENOMEM, "plan: out of memory");
	}
	for (uint32_t i = 0; i < plan->file_count; i++)
		want_file(plan, &index, i, &at);
	if (old)
		find_local(plan, &index, old);
	free(index.slots);
	return LDR_OK;
}
