/*
 * Reading files of a tree; see layer_tree.h.
 *
 * A read finds its block by the file's first ordinal, and the block's bytes in the memory cache by
 * a hint: the layer remembers for each block where it lay the last time, so that a hit takes no
 * lock and no look-up. Files of many blocks find theirs by a table of where blocks begin, made when
 * the first such file is opened.
 *
 * What is not in memory comes from the source: block by block where packs at hand have it, else as
 * many blocks at once as the read needs, so that over the network they become few requests.
 */
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"
#include "vfs/layer_tree_priv.h"

/* Blocks asked for at once from a source. */
#define WINDOW_BLOCKS 64u
/* So far from the guess a block is looked for one by one. */
#define NEAR_STEPS 6u

/* ---- where a block begins ---- */

/* For all blocks of the tree at once: one pass over them, eight bytes each. */
static uint64_t *make_starts(const struct ldr_tree *tree)
{
	uint64_t *starts = malloc((ldr_tree_totals(tree)->blocks + 1) * sizeof(*starts));
	uint32_t count = ldr_tree_node_count(tree);

	for (uint32_t i = 1; starts && i < count; i++) {
		struct ldr_tree_node node;
		uint64_t at = 0;

		ldr_tree_node(tree, i, &node);
		for (uint64_t k = 0; node.kind == LDR_KIND_FILE && k < node.block_count; k++) {
			starts[node.first_block + k] = at;
			at += ldr_tree_block(tree, node.first_block + k)->plain_bytes;
		}
	}
	return starts;
}

enum ldr_status ldr_tree_want_starts(struct ldr_tree_layer *layer, struct ldr_error *err)
{
	uint64_t *starts;

	if (atomic_load_explicit(&layer->starts, memory_order_acquire))
		return LDR_OK;
	ldr_mutex_lock(&layer->starts_lock);
	starts = atomic_load_explicit(&layer->starts, memory_order_relaxed);
	if (!starts) {
		starts = make_starts(layer->parts.tree);
		/* Release: who sees the table sees it filled. */
		atomic_store_explicit(&layer->starts, starts, memory_order_release);
	}
	ldr_mutex_unlock(&layer->starts_lock);
	return starts ? LDR_OK : ldr_fail(err, LDR_ENOMEM, "table of blocks: out of memory");
}

/* ---- reading ---- */

/* Where the block with this offset would be if all were equally long, corrected twice by how far off
 * that is: mostly the block itself, or one beside it. */
static uint64_t guess_block(const struct ldr_layer_file *file, const uint64_t *starts,
			    uint64_t offset)
{
	uint64_t first = file->state[0], last = file->state[1] - 1;
	int64_t mean = (int64_t)(file->state[2] / file->state[1]) + 1;
	int64_t at = (int64_t)(offset / (uint64_t)mean);

	for (unsigned i = 0; i < 2; i++) {
		at += ((int64_t)offset - (int64_t)starts[first + (uint64_t)at]) / mean;
		at = at < 0 ? 0 : at > (int64_t)last ? (int64_t)last : at;
	}
	return first + (uint64_t)at;
}

/* The last of the blocks of a file that begins at or before offset. */
static uint64_t search_starts(const struct ldr_layer_file *file, const uint64_t *starts,
			      uint64_t offset)
{
	uint64_t low = file->state[0], high = low + file->state[1];
	uint64_t guess = guess_block(file, starts, offset);

	for (unsigned steps = 0; steps < NEAR_STEPS; steps++) {
		if (starts[guess] > offset)
			high = guess--;
		else if (guess + 1 == high || starts[guess + 1] > offset)
			return guess;
		else
			low = ++guess;
	}
	/* Lengths of all sorts. */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (starts[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The block of the file that holds offset, and where it begins. */
static uint64_t find_block(const struct ldr_tree_layer *layer, const struct ldr_layer_file *file,
			   uint64_t offset, uint64_t *out_start)
{
	const struct ldr_tree *tree = layer->parts.tree;
	uint64_t first = file->state[0], low = first, high = first + file->state[1];
	const uint64_t *starts;
	uint64_t at = 0;

	if (file->state[1] <= LDR_TREE_FEW_BLOCKS) {
		for (uint32_t length; low + 1 < high; low++) {
			length = ldr_tree_block(tree, low)->plain_bytes;
			if (offset < at + length)
				break;
			at += length;
		}
		*out_start = at;
		return low;
	}
	/* Pairs with the release in ldr_tree_want_starts; the file was opened after it. */
	starts = atomic_load_explicit(&layer->starts, memory_order_acquire);
	low = search_starts(file, starts, offset);
	*out_start = starts[low];
	return low;
}

/* The block in the memory cache, pinned; false: it is not there. */
static bool pin_block(struct ldr_tree_layer *layer, uint64_t ordinal,
		      const struct ldr_block_ref *block, struct ldr_memory_block *out)
{
	struct ldr_memory_cache *memory = layer->parts.memory;
	_Atomic uint32_t *hint = &layer->hints[ordinal];

	if (ldr_memory_get_hinted(memory, block, atomic_load_explicit(hint, memory_order_relaxed),
				  out))
		return true;
	if (!ldr_memory_get(memory, &block->id, out))
		return false;
	if (out->length != block->plain_bytes) {
		ldr_memory_unpin(memory, out);
		return false;
	}
	atomic_store_explicit(hint, ldr_memory_hint(memory, out), memory_order_relaxed);
	return true;
}

/* One read of a file, going through its blocks. */
struct reading {
	struct ldr_tree_layer *layer;
	uint8_t *bytes;
	size_t length;
	size_t done;
	uint64_t offset;       /* of what is done next, in the file */
	uint64_t ordinal;      /* its block */
	uint64_t start;        /* where that begins */
	struct ldr_wait *wait; /* NULL: the thread waits */
};

/* What is wanted of the present block, which is so long. */
static struct ldr_block_part part_of_block(const struct reading *reading, uint32_t plain_bytes)
{
	size_t within = (size_t)(reading->offset - reading->start);
	size_t run = plain_bytes - within, left = reading->length - reading->done;

	return (struct ldr_block_part){.from = (uint32_t)within,
				       .length = (uint32_t)(run < left ? run : left),
				       .bytes = reading->bytes + reading->done};
}

/* So much of the present block has been read: goes on, and to the next one at its end. */
static void advance(struct reading *reading, size_t run, uint32_t plain_bytes)
{
	reading->done += run;
	reading->offset += run;
	if (reading->offset == reading->start + plain_bytes) {
		reading->ordinal++;
		reading->start += plain_bytes;
	}
}

static void take_block(struct reading *reading, const uint8_t *plain, uint32_t plain_bytes)
{
	struct ldr_block_part part = part_of_block(reading, plain_bytes);

	memcpy(part.bytes, plain + part.from, part.length);
	advance(reading, part.length, plain_bytes);
}

/* As far as the blocks are in memory. */
static void read_pinned(struct reading *reading)
{
	struct ldr_tree_layer *layer = reading->layer;

	while (reading->done < reading->length) {
		const struct ldr_block_ref *block = ldr_tree_block(layer->parts.tree,
								   reading->ordinal);
		uint32_t hint = atomic_load_explicit(&layer->hints[reading->ordinal],
						     memory_order_relaxed);
		struct ldr_memory_block pin;

		ldr_memory_prefetch(layer->parts.memory, hint,
				    (uint32_t)(reading->offset - reading->start));
		if (!pin_block(layer, reading->ordinal, block, &pin))
			return;
		take_block(reading, pin.bytes, pin.length);
		ldr_memory_unpin(layer->parts.memory, &pin);
	}
}

static enum ldr_status take_delivered(void *context, size_t want, const void *plain,
				      struct ldr_error *err)
{
	struct reading *reading = context;
	const struct ldr_tree_layer *layer = reading->layer;

	(void)want;
	(void)err;
	take_block(reading, plain,
		   ldr_tree_block(layer->parts.tree, reading->ordinal)->plain_bytes);
	return LDR_OK;
}

/* The next blocks, as many as the read needs and fit: from disk or above, in one request. */
static enum ldr_status read_window(struct reading *reading, struct ldr_error *err)
{
	struct ldr_tree_layer *layer = reading->layer;
	struct ldr_placed_block wants[WINDOW_BLOCKS];
	struct ldr_source_read read = {.wants = wants,
				       .deliver = take_delivered,
				       .context = reading,
				       .wait = reading->wait};
	uint64_t end = reading->start, until = reading->offset + reading->length - reading->done;
	size_t count = 0;
	enum ldr_status status = LDR_OK;

	while (count < WINDOW_BLOCKS && end < until) {
		memset(&wants[count], 0, sizeof(wants[count]));
		wants[count].block = *ldr_tree_block(layer->parts.tree, reading->ordinal + count);
		end += wants[count++].block.plain_bytes;
	}
	if (layer->parts.placement)
		status = layer->placement.places(layer->placement.context, reading->ordinal, count,
						 wants, err);
	if (status != LDR_OK)
		return status;
	read.count = count;
	return ldr_source_read_or_wait(layer->parts.source, &read, err);
}

/* Goes on with a block that is not in memory. */
static enum ldr_status read_missing(struct reading *reading, enum ldr_memory_want want,
				    struct ldr_error *err)
{
	struct ldr_tree_layer *layer = reading->layer;
	const struct ldr_block_ref *block = ldr_tree_block(layer->parts.tree, reading->ordinal);
	struct ldr_block_part part = part_of_block(reading, block->plain_bytes);
	enum ldr_status status = ldr_source_read_part(layer->parts.source, block, &part, want, err);

	if (status == LDR_OK)
		advance(reading, part.length, block->plain_bytes);
	return status == LDR_ENOTFOUND ? read_window(reading, err) : status;
}

static enum ldr_status read_range(struct ldr_layer_file *file, const struct ldr_read_range *range,
				  struct ldr_wait *wait, size_t *out_length, struct ldr_error *err)
{
	struct ldr_tree_layer *layer = file->layer_self;
	struct reading reading = {
		.layer = layer, .bytes = range->bytes, .offset = range->offset, .wait = wait};
	enum ldr_status status = LDR_OK;

	if (range->offset >= file->state[2] || range->length == 0) {
		*out_length = 0;
		return LDR_OK;
	}
	reading.length = range->length < file->state[2] - range->offset
				 ? range->length
				 : (size_t)(file->state[2] - range->offset);
	reading.ordinal = find_block(layer, file, range->offset, &reading.start);
	while (status == LDR_OK && reading.done < reading.length) {
		if (layer->hints)
			read_pinned(&reading);
		if (reading.done < reading.length)
			status = read_missing(&reading, LDR_MEMORY_IF_ASKED_AGAIN, err);
	}
	if (status == LDR_OK)
		*out_length = reading.done;
	return status;
}

static enum ldr_status file_pread(struct ldr_layer_file *file, void *bytes, size_t length,
				  uint64_t offset, size_t *out_length, struct ldr_error *err)
{
	const struct ldr_read_range range = {.bytes = bytes, .length = length, .offset = offset};

	return read_range(file, &range, NULL, out_length, err);
}

static enum ldr_status file_stat(struct ldr_layer_file *file, struct ldr_stat *out,
				 struct ldr_error *err)
{
	(void)err;
	*out = (struct ldr_stat){.kind = LDR_KIND_FILE,
				 .mode = (uint32_t)file->state[3],
				 .size_bytes = file->state[2]};
	return LDR_OK;
}

/* ---- mappings: one block, pinned in the memory cache ---- */

static enum ldr_status file_map(struct ldr_layer_file *file, uint64_t offset, size_t length,
				struct ldr_mapping *out, struct ldr_error *err)
{
	struct ldr_tree_layer *layer = file->layer_self;
	const struct ldr_block_ref *block;
	struct ldr_memory_block pin;
	struct reading reading;
	uint8_t first;
	enum ldr_status status;

	if (!layer->hints)
		return LDR_EUNSUPPORTED;
	reading = (struct reading){.layer = layer, .bytes = &first, .length = 1, .offset = offset};
	reading.ordinal = find_block(layer, file, offset, &reading.start);
	block = ldr_tree_block(layer->parts.tree, reading.ordinal);
	if (offset + length > reading.start + block->plain_bytes)
		return LDR_EUNSUPPORTED;
	if (!pin_block(layer, reading.ordinal, block, &pin)) {
		struct reading once = reading;

		status = read_missing(&once, LDR_MEMORY_ALWAYS, err);
		if (status != LDR_OK)
			return status;
		if (!pin_block(layer, reading.ordinal, block, &pin))
			return LDR_EUNSUPPORTED; /* the cache has no room for it */
	}
	out->bytes = pin.bytes + (offset - reading.start);
	out->pin[0] = (uint64_t)(uintptr_t)pin.bytes;
	out->pin[1] = (uint64_t)(uintptr_t)pin.pin;
	out->pin[2] = pin.length;
	return LDR_OK;
}

static void file_unmap(struct ldr_layer_file *file, struct ldr_mapping *mapping)
{
	const struct ldr_tree_layer *layer = file->layer_self;
	struct ldr_memory_block pin = {.bytes = (const uint8_t *)(uintptr_t)mapping->pin[0],
				       .length = (uint32_t)mapping->pin[2],
				       .pin = (void *)(uintptr_t)mapping->pin[1]};

	ldr_memory_unpin(layer->parts.memory, &pin);
}

const struct ldr_file_ops ldr_tree_file_ops = {
	.size = sizeof(ldr_tree_file_ops),
	.pread = file_pread,
	.stat = file_stat,
	.map = file_map,
	.unmap = file_unmap,
	.pread_or_wait = read_range,
};
